"""The files and names that pages and docstrings refer to, and whether the repository has them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from shipping.helm import PROJECT

FOLDERS = ("scheduler", "sandbox", "shipping", "bench", "tests", "e2e", "deploy", "charts", "docs")
_SPAN = re.compile(r"(?<!`)(`{1,2})(?!`)([^`\n]+)\1(?!`)")
_FILE = re.compile(r"([\w./-]+\.py)(?:: ([\w.]+))?")
_MODULE = re.compile(r"[\w-]+(?:/[\w-]+)+/?")
_MEMBER = re.compile(r"([A-Z]\w*[a-z]\w*)\.([a-z_]\w*)(?:\(\))?")


class Reference(NamedTuple):
    """A file, and the name that should be in it, if one is given."""

    file: str
    name: str = ""


@cache
def files() -> frozenset[str]:
    """All files of the repository's folders, and the folders, from the top."""
    found = (path for folder in FOLDERS for path in (PROJECT / folder).rglob("*"))
    return frozenset(str(path.relative_to(PROJECT)) for path in found)


@cache
def packages() -> frozenset[str]:
    """Folders of the repository and packages of the daemon: what a path may begin with."""
    daemon = (path.name for path in (PROJECT / "scheduler").iterdir() if path.is_dir())
    return frozenset({*FOLDERS, *daemon} - {"__pycache__"})


def spans(text: str) -> Iterator[str]:
    """What a text has in backticks, blocks of code left out."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    return (" ".join(found[2].split()) for found in _SPAN.finditer(prose))


def file_references(text: str) -> Iterator[Reference]:
    """``a/b.py``, ``a/b.py: Name`` and ``package/module``."""
    for span in spans(text):
        if found := _FILE.fullmatch(span):
            yield Reference(found[1], found[2] or "")
        elif _MODULE.fullmatch(span) and span.partition("/")[0] in packages():
            yield Reference(span.rstrip("/"))


def is_there(reference: Reference) -> bool:
    """Whether a file of the repository ends so, and has that name."""
    wanted = reference.file.removeprefix("../")
    names = {wanted, f"{wanted}.py"}
    found = [each for each in files() if any(each == n or each.endswith(f"/{n}") for n in names)]
    if not reference.name:
        return bool(found)
    return any(set(reference.name.split(".")) <= names_in(PROJECT / each) for each in found)


@cache
def names_in(path: Path) -> frozenset[str]:
    """All that a file defines, at any level."""
    return frozenset(_names(ast.parse(path.read_text())))


def _names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                yield name
            case ast.AsyncFunctionDef(name=name) | ast.alias(asname=str(name)):
                yield name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name


@cache
def members() -> dict[str, frozenset[str]]:
    """What each class of the daemon defines; classes of one name together."""
    found: dict[str, set[str]] = {}
    for path in (PROJECT / "scheduler").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, set()).update(_names(node))
                if node.bases:  # members may be inherited
                    found[node.name].update(_inherited(node))
    return {name: frozenset(each) for name, each in found.items()}


def _inherited(node: ast.ClassDef) -> Iterator[str]:
    known = {"Struct", "Protocol", "Generic", "NamedTuple", "Enum", "IntEnum", "Exception"}
    bases = {ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases}
    if bases - known:
        yield "*"


def missing_members(text: str) -> list[str]:
    """``Class.member`` of a class of ours that has no such member."""
    found = (_MEMBER.fullmatch(span) for span in spans(text))
    pairs = [(each[1], each[2]) for each in found if each and each[1] in members()]
    known = members()
    return [f"{a}.{b}" for a, b in pairs if b not in known[a] and "*" not in known[a]]


def docstrings(path: Path) -> str:
    """The docstrings of a module, of all that it defines, and of attributes."""
    tree = ast.parse(path.read_text())
    return "\n".join(
        node.value.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )

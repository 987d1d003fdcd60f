"""The pages of the in-tree plugins say what the program says, and leave nothing out."""

from __future__ import annotations

import ast
import inspect
import re
import sys
import typing
from collections.abc import Iterator
from functools import cache
from types import ModuleType, UnionType
from typing import Any

import msgspec
import pytest
import yaml

from scheduler.assembly import available
from scheduler.config.durations import Duration, format_duration
from scheduler.config.loading import from_dicts
from scheduler.config.plugin_args import ARGS_TYPES
from scheduler.config.schema import KUBE_API_VERSION, KUBE_KIND, Section
from scheduler.model.status import Code, Status
from scheduler.plugins.table import IN_TREE
from scheduler.plugins.volumes import words as volume_words
from shipping.docs import plugin_pages as pages

PLUGINS = pages.plugins()
SECTIONS = ("Arguments", "Reasons", "What requeues a pod", "What it reads, and the cost")
CODES = {"U": Code.UNSCHEDULABLE, "UU": Code.UNRESOLVABLE, "Error": Code.ERROR}
each_plugin = pytest.mark.parametrize("name", IN_TREE)


@cache
def page(name: str) -> str:
    return pages.page_of(name).read_text()


def test_every_plugin_has_a_page() -> None:
    missing = [name for name in IN_TREE if not pages.page_of(name).exists()]
    assert missing == []


def test_every_page_named_like_a_plugin_has_one() -> None:
    strangers = [p.stem for p in pages.other_pages() if p.stem[0].isupper()]
    assert strangers == []


@each_plugin
def test_the_box_is_what_the_program_says(name: str) -> None:
    generated = pages.with_generated(page(name), pages.box(PLUGINS[name]))
    assert page(name) == generated, "run make docs"


def test_the_index_is_what_the_program_says() -> None:
    index = pages.INDEX.read_text()
    assert index == pages.with_generated(index, pages.index()), "run make docs"


@each_plugin
def test_pages_are_uniform(name: str) -> None:
    headings = re.findall(r"^## (.*)$", page(name), re.M)
    assert pages.title(page(name)) == name
    assert [each for each in headings if each in SECTIONS] == list(SECTIONS)


# Arguments


def arguments(section: type[Section], given: Any, path: str = "") -> Iterator[tuple[str, str, Any]]:
    """Path, type and default of each argument; what is absent has the defaults of its struct."""
    hints = typing.get_type_hints(section)
    for field in msgspec.structs.fields(section):
        kind, value = hints[field.name], getattr(given, field.name, None)
        if isinstance(kind, UnionType) or typing.get_origin(kind) is typing.Union:
            (kind,) = (each for each in typing.get_args(kind) if each is not type(None))
        where = f"{path}{field.encode_name}"
        if isinstance(kind, type) and issubclass(kind, Section):
            yield from arguments(kind, value or kind(), f"{where}.")
            continue
        item = typing.get_args(kind)[0] if typing.get_origin(kind) is tuple else None
        if isinstance(item, type) and issubclass(item, Section):
            yield where, "list", value
            yield from arguments(item, item(), f"{where}[].")
        else:
            yield where, "list of strings" if item is str else KINDS.get(kind, "object"), value


KINDS = {str: "string", int: "integer", bool: "boolean", Duration: "duration"}


def spelt(value: Any) -> str:
    """A default as a page writes it."""
    if isinstance(value, tuple):
        return f"[{', '.join(f'{{name: {each.name}, weight: {each.weight}}}' for each in value)}]"
    if isinstance(value, bool):
        return str(value).lower()
    return format_duration(Duration(value)) if isinstance(value, float) else str(value)


def effective_arguments(name: str) -> Any:
    """A plugin's arguments when a file states none."""
    profile = {"plugins": {"multiPoint": {"enabled": [{"name": name}]}}}
    config = {"apiVersion": KUBE_API_VERSION, "kind": KUBE_KIND, "profiles": [profile]}
    (loaded,) = from_dicts([config], available(), environ={}).scheduler.profiles
    return next((each.args for each in loaded.plugin_config if each.name == name), None)


@each_plugin
def test_arguments_and_defaults(name: str) -> None:
    told = pages.table_in(pages.section(page(name), "Arguments"))
    if name not in ARGS_TYPES:
        assert told == []
        return
    there = list(arguments(ARGS_TYPES[name], effective_arguments(name)))
    assert [(row[0], row[1]) for row in told] == [(f"`{path}`", kind) for path, kind, _ in there]
    for row, (path, _, default) in zip(told, there, strict=True):
        # What a file leaves open is the plugin's affair, and the page has words for it.
        if default not in (None, (), "") and "[]." not in path:
            assert row[2] == f"`{spelt(default)}`", path


@each_plugin
def test_examples_can_be_used(name: str) -> None:
    examples = re.findall(r"^```yaml\n(.*?)^```", page(name), re.M | re.S)
    assert examples or name not in ARGS_TYPES
    for text in examples:
        example = yaml.safe_load(text)
        config = example
        if "kind" not in example:
            profiles = example.get("profiles") or [example]
            config = {"apiVersion": KUBE_API_VERSION, "kind": KUBE_KIND, "profiles": profiles}
        assert [str(each) for each in from_dicts([config], available(), environ={}).warnings] == []


# Reasons

ANYTHING = "\0"
"""Stands for what is known only when the reason is given."""

_PACKAGES = ("scheduler.plugins.", "scheduler.numa.", "scheduler.gangs.", "scheduler.dra.")
_FACTS = "_facts"
"""How modules end that say on what reasons rest, for explanations: docs/explain.md has them."""
_NO_REASONS = {
    # Written on the victim, not on the pod that was rejected; the page has them elsewhere.
    f"Preempted by pod {ANYTHING} on node {ANYTHING}",
    " (in scheduler memory).",
    f"{ANYTHING}: preempting to accommodate a higher priority pod",
    # A part of a fingerprint's text.
    "incompatible version",
    # The note of an event.
    f"waiting for binding conditions for device on node {ANYTHING}",
    # A count and a reason.
    f"{ANYTHING} {ANYTHING}",
}


def modules_of(name: str) -> Iterator[ModuleType]:
    """The module of a plugin, and those of plugins that it imports."""
    waiting, seen = [IN_TREE[name].__module__], {volume_words.__name__}
    while waiting:
        module = waiting.pop()
        if module in seen or not module.startswith(_PACKAGES) or module.endswith(_FACTS):
            continue
        seen.add(module)
        yield sys.modules[module]
        for node in ast.walk(ast.parse(inspect.getsource(sys.modules[module]))):
            if isinstance(node, ast.ImportFrom) and node.module:
                waiting += [node.module, *(f"{node.module}.{each.name}" for each in node.names)]
                waiting = [each for each in waiting if each in sys.modules]


class Texts(ast.NodeVisitor):
    """Collects what a module may tell people: all texts of several words that are no docstrings.

    Names of slots and messages of the log are for others.
    """

    def __init__(self, module: ModuleType, plugin: str) -> None:
        self.found: set[str] = set()
        self._module = module
        self._plugin = plugin
        self.visit(ast.parse(inspect.getsource(module)))

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        if node.name not in IN_TREE or node.name == self._plugin:
            self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):
            self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and _words_reason(node.func.id):
            self.found.add(self.text(node))
        elif not re.match(r"Slot|log\.", ast.unparse(node.func)):
            self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str) and " " in node.value.strip():
            self.found.add(node.value.replace("{}", ANYTHING))

    def visit_Assert(self, node: ast.Assert) -> None:
        """What an assertion says is no reason."""

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        text = self.text(node)
        if " " in text.strip():
            self.found.add(text)

    def text(self, node: ast.expr) -> str:
        """A text with what is known of it filled in."""
        match node:
            case ast.Constant(value=str(text)):
                return text
            case ast.JoinedStr(values=values):
                return "".join(map(self.text, values))
            case ast.FormattedValue(value=ast.Name(id=name)):
                known = vars(self._module).get(name)
                return known if isinstance(known, str) else ANYTHING
            case ast.FormattedValue(value=value):
                return self.text(value)
            case ast.Call(func=ast.Name(id=name)) if _words_reason(name):
                (function,) = ast.parse(inspect.getsource(getattr(volume_words, name))).body
                (returned,) = (each for each in ast.walk(function) if isinstance(each, ast.Return))
                assert returned.value is not None
                return self.text(returned.value)
        return ANYTHING


def _words_reason(name: str) -> bool:
    """Whether a function of the volume plugins words a reason."""
    return inspect.isfunction(getattr(volume_words, name, None))


@cache
def texts_of(name: str) -> set[str]:
    found = (Texts(module, name).found for module in modules_of(name))
    return set().union(*found) - _NO_REASONS


def told_reasons(name: str) -> dict[str, str]:
    """The reasons on a page and their codes."""
    told = {}
    for reason, code, *_ in pages.table_in(pages.section(page(name), "Reasons")):
        assert re.fullmatch(r"`[^`]+`", reason), reason
        told[re.sub(r"<[a-z ]+>", ANYTHING, reason.strip("`"))] = code
    return told


@each_plugin
def test_every_reason_is_told(name: str) -> None:
    assert told_reasons(name).keys() == texts_of(name)


@each_plugin
def test_codes_of_constant_reasons(name: str) -> None:
    told = told_reasons(name)
    places = [vars(module) for module in modules_of(name)] + [vars(IN_TREE[name])]
    for status in (each for place in places for each in place.values()):
        if isinstance(status, Status) and status.plugin in ("", name):
            for reason in status.reasons:
                assert CODES[told[reason]] is status.code, reason


@each_plugin
def test_every_reason_has_a_remedy(name: str) -> None:
    for row in pages.table_in(pages.section(page(name), "Reasons")):
        assert len(row) == 3
        assert set(row[1].split(" or ")) <= CODES.keys()
        assert row[2].endswith(".")

"""Reads Kubernetes objects from files, directories and standard input, and checks their shape.

Everything is read and checked before anything is done with it. Each error names the file, and
where it can the line, or the object and its field.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import yaml

from scheduler.cli.output import note
from scheduler.cli.workloads import GROUPS as WORKLOAD_GROUPS
from scheduler.cli.workloads import SHAPES as WORKLOAD_SHAPES
from scheduler.cli.workloads import Body, identity
from scheduler.kube.fields import oddities
from scheduler.model.meta import ObjectMeta, Struct
from scheduler.model.objects import KINDS, from_dict, without_nulls

STDIN = "-"
_CLOSE = 0.8
"""How alike two names are, from 0 to 1, of which one is taken for a misspelling of the other."""
_SUFFIXES = (".yaml", ".yml", ".json")
_MOST_VALUES = 20_000_000
"""What aliases may multiply a document to; a cluster of 5,000 nodes and their pods has fewer."""
_NOT_JSON_TYPES = ("tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:value")


class ManifestError(ValueError):
    """Input that cannot be used; the text starts with the name of the file."""


class _ManifestLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # because the base is chosen at run time
    """Safe YAML, read as Kubernetes reads it: a date is a text, and so is ``=``."""

    yaml_implicit_resolvers = {  # noqa: RUF012  because the name and its type are PyYAML's
        first: [(tag, shape) for tag, shape in resolvers if tag not in _NOT_JSON_TYPES]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


class _AnyObject(Struct, frozen=True):
    """What holds of every kind."""

    metadata: ObjectMeta
    api_version: str = ""


def known(body: Body) -> bool:
    """Whether an object matters for scheduling: its kind does, and is that of the usual group."""
    group, version = _GROUPS.get(body["kind"]), str(body.get("apiVersion", ""))
    return group is not None and (not version or _group(version) == group)


def _group(version: str) -> str:
    """The group of an apiVersion; the core group has no name."""
    return version.rpartition("/")[0]


_GROUPS = {kind.name: kind.path.split("/")[2] for kind in KINDS.values() if "/apis/" in kind.path}
_GROUPS |= {kind.name: "" for kind in KINDS.values() if "/apis/" not in kind.path}
_GROUPS |= WORKLOAD_GROUPS
_KINDS_BY_GROUP = {
    group: [kind for kind, of in _GROUPS.items() if of == group] for group in _GROUPS.values()
}


def read(sources: Sequence[str]) -> list[Body]:
    """The objects of all sources in order, Lists taken apart. Raises `ManifestError`.

    A source is a file, a directory (its YAML and JSON files, not those below) or ``-``. Objects of
    kinds that do not matter here come along unchecked.
    """
    found: dict[tuple[str, str, str], str] = {}
    objects = []
    for name, content in _contents(sources):
        for body in _objects(name, content):
            key = identity(body)
            if key in found:
                where = f"in {found[key]} as well" if found[key] != name else "twice"
                raise ManifestError(f"{name}: {_title(body)} is given {where}")
            found[key] = name
            objects.append(body)
    if not objects:
        raise ManifestError(f"{', '.join(sources)}: no objects in there")
    return objects


def _contents(sources: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    for source in sources:
        if source == STDIN:
            yield "standard input", sys.stdin.buffer.read()
            continue
        try:
            for path in _files(Path(source)):
                yield str(path), path.read_bytes()
        except OSError as fault:
            raise ManifestError(f"{fault.filename or source}: {fault.strerror}") from None


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.iterdir() if file.suffix in _SUFFIXES and file.is_file())
    if not files:
        raise ManifestError(f"{path}: no {', '.join(_SUFFIXES)} files in this directory")
    return files


def _objects(name: str, content: bytes) -> Iterator[Body]:
    for number, document in enumerate(_documents(name, content), start=1):
        for body in _flattened(document, f"{name}: document {number}"):
            _check(body, name)
            yield body


def _documents(name: str, content: bytes) -> Any:
    """The documents as plain values without nulls, which mean the same as nothing."""
    try:
        return without_nulls(_parsed(name, content))
    except RecursionError:
        raise ManifestError(f"{name}: nested too deeply") from None


def _parsed(name: str, content: bytes) -> list[Any]:
    # Dumps of whole clusters are JSON, and YAML takes a hundred times as long to read them.
    if content.lstrip()[:1] == b"{":
        try:
            return [msgspec.json.decode(content)]
        except msgspec.DecodeError:
            pass  # YAML with braces, or bad JSON: YAML errors name the line
    try:
        documents = list(yaml.load_all(content.decode("utf-8-sig"), Loader=_ManifestLoader))
    except yaml.MarkedYAMLError as fault:
        mark = fault.problem_mark or fault.context_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise ManifestError(f"{name}: {where}{fault.problem or fault.context}") from None
    except (yaml.YAMLError, ValueError) as fault:
        raise ManifestError(f"{name}: not YAML: {' '.join(str(fault).split())}") from None
    if _values_in(documents, {}) > _MOST_VALUES:
        raise ManifestError(f"{name}: aliases make it too large")
    return documents


def _values_in(value: Any, known: dict[int, int]) -> int:
    """How many values there are once aliases are written out; each is looked at once."""
    if not isinstance(value, (dict, list)):
        return 1
    if id(value) not in known:
        members = value.values() if isinstance(value, dict) else value
        known[id(value)] = 1 + sum(_values_in(member, known) for member in members)
    return known[id(value)]


def _flattened(body: Any, where: str) -> Iterator[Body]:
    """The objects of a List, which may leave their kind to it, or the object itself."""
    if not isinstance(body, dict):
        raise ManifestError(f"{where}: expected an object, got {_shown(body)}")
    kind = body.get("kind")
    if not isinstance(kind, str) or not kind:
        raise ManifestError(f"{where}: kind: expected the kind of an object, got {_shown(kind)}")
    named = isinstance(body.get("metadata"), dict) and "name" in body["metadata"]
    if not kind.endswith("List") or ("items" not in body and named):
        yield body
        return
    items = body.get("items", [])  # an empty list may be written as null
    if not isinstance(items, list):
        raise ManifestError(f"{where}: items: expected a list, got {_shown(items)}")
    element = kind.removesuffix("List")
    for i, item in enumerate(items):
        if element and isinstance(item, dict):
            item = {"kind": element, **item}  # noqa: PLW2901  because the item is what is meant
        yield from _flattened(item, f"{where}: items[{i}]")


def _check(body: Body, source: str) -> None:
    metadata = body.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(name, str) or not name:
        what = f"metadata.name: expected a name, got {_shown(name)}"
        raise ManifestError(f"{source}: {body['kind']}: {what}")
    _check_kind(body, source)
    for odd in oddities(body):
        if odd.certain:
            raise ManifestError(f"{source}: {_title(body)}: {odd.path}: {odd.message}")
        note(f"{source}: {_title(body)}: {odd.path}: {odd.message}, it has no effect")
    for shape in _shapes(body["kind"]) if known(body) else (_AnyObject,):
        try:
            from_dict(body, shape)
        except msgspec.ValidationError as fault:
            raise ManifestError(f"{source}: {_title(body)}: {_field_first(fault)}") from None


def _check_kind(body: Body, source: str) -> None:
    """Refuse a kind that its API group lacks, and a group that is spelt almost like the right one.

    What other groups have of the same name is theirs.
    """
    kind, version = body["kind"], body.get("apiVersion")
    if not isinstance(version, str) or not version:
        return
    group, right = _group(version), _GROUPS.get(kind)
    if right is None:
        near = difflib.get_close_matches(kind, _KINDS_BY_GROUP.get(group, ()), 1, _CLOSE)
        if near:
            what = f"kind: {version} has no {kind} (did you mean {near[0]}?)"
            raise ManifestError(f"{source}: {_title(body)}: {what}")
    elif group != right and (
        group in _KINDS_BY_GROUP or difflib.get_close_matches(group, [right], 1, _CLOSE)
    ):
        what = f"apiVersion: {version} has no {kind} (expected {right}/v1)".replace(" /", " ")
        raise ManifestError(f"{source}: {_title(body)}: {what}")


def _shapes(kind: str) -> Iterable[type]:
    yield _AnyObject
    if kind in KINDS:
        yield KINDS[kind].type
    if kind in WORKLOAD_SHAPES:
        yield WORKLOAD_SHAPES[kind]


def _title(body: Body) -> str:
    metadata = body["metadata"]
    namespace = f"{metadata['namespace']}/" if "namespace" in metadata else ""
    return f"{body['kind']} {namespace}{metadata['name']}"


def _field_first(fault: msgspec.ValidationError) -> str:
    """``spec.replicas: Expected `int`, got `str```: the field before what is wrong with it."""
    text, _, path = str(fault).partition(" - at `$")
    return f"{path.strip('.`')}: {text}" if path else text


def _shown(value: Any) -> str:
    if value is None:
        return "nothing"
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:39]}…"

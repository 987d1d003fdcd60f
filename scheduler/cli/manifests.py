"""Reads Kubernetes objects from files, directories and standard input, and checks their shape.

Everything is read and checked before anything is done with it. Each error names the file, and
where it can the line, or the object and its field. Fields that Kubernetes does not know are errors,
as for kubectl; with ``lenient`` they are only named.
"""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import yaml

from scheduler.cli.output import counted, note
from scheduler.cli.snapshots import UnreadableSnapshot, unpacked
from scheduler.cli.tables import printable
from scheduler.cli.workloads import GROUPS as WORKLOAD_GROUPS
from scheduler.cli.workloads import SHAPES as WORKLOAD_SHAPES
from scheduler.cli.workloads import Body, identity
from scheduler.config.documents import count_values
from scheduler.kube.fields import Fault, Oddity, has_schema, oddities
from scheduler.kube.schemas import KUBERNETES_MINOR
from scheduler.model.meta import ObjectMeta, Struct
from scheduler.model.objects import KINDS, from_dict, without_nulls

STDIN = "-"
_CLOSE = 0.8
"""How alike two names are, from 0 to 1, of which one is taken for a misspelling of the other."""
_SUFFIXES = (".yaml", ".yml", ".json", ".json.gz", ".json.zst")
_MOST_VALUES = 20_000_000
"""What aliases may multiply a document to; a cluster of 5,000 nodes and their pods has fewer."""
_DEEPEST = 500
"""How many maps and lists may be inside each other."""
_INDENTATION = re.compile(r"^[ ?:\-]*", re.MULTILINE)
_MOST_PROBLEMS = 20
"""So many problems with fields are named."""
_OF_LISTS = ("apiVersion", "kind", "metadata", "items", "equipoise")
"""The fields of a List; the last is the head of a snapshot."""
_MERGE = "tag:yaml.org,2002:merge"
_NOT_JSON_TYPES = ("tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:value")


class ManifestError(ValueError):
    """Input that cannot be used; the text starts with the name of the file."""


class _ManifestLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # because the base is chosen at run time
    """Safe YAML, read as Kubernetes reads it: a date is a text, and so is ``=``."""

    yaml_implicit_resolvers = {  # noqa: RUF012  because the name and its type are PyYAML's
        first: [(tag, shape) for tag, shape in resolvers if tag not in _NOT_JSON_TYPES]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """A map whose keys are all different; what is merged into it (``<<``) may be replaced."""
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != _MERGE:
                if key.value in seen:
                    problem = f'key "{key.value}" is given twice'
                    raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
                seen.add(key.value)
        found: dict[Any, Any] = super().construct_mapping(node, deep=deep)
        return found


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
_VERSIONS = {kind: f"{group}/v1" if group else "v1" for kind, group in _GROUPS.items()}
_VERSIONS |= {
    kind.name: kind.path.removeprefix("/apis/").rpartition("/")[0]
    for kind in KINDS.values()
    if "/apis/" in kind.path
}
"""The apiVersion of kinds whose objects name none."""


class _FieldProblems:
    """What is wrong with the fields of all objects: collected, as one mistake rarely comes alone.

    Equal ones of many objects count as one.
    """

    def __init__(self, *, lenient: bool) -> None:
        self.lenient = lenient
        self._found: dict[tuple[str, str], list[str]] = {}
        self._unchecked: dict[str, int] = {}
        self._newer = False

    def look_at(self, body: Body, source: str) -> list[Oddity]:
        """What is wrong with an object by its schema; it is remembered as well."""
        described = {"apiVersion": _VERSIONS.get(body["kind"], ""), **body}
        version = str(described["apiVersion"])
        if not has_schema(version, body["kind"]):
            if known(body):
                name = f"{version} {body['kind']}"
                self._unchecked[name] = self._unchecked.get(name, 0) + 1
            return []
        found = list(oddities(described))
        for odd in found:
            self.add(source, _title(body), odd)
        return found

    def add(self, source: str, title: str, odd: Oddity) -> None:
        """Remember a problem."""
        self._newer = self._newer or odd.fault is Fault.UNKNOWN
        same = self._found.setdefault((source, f"{odd.path}: {odd.message}"), [])
        same.append(title)

    def conclude(self) -> None:
        """Say what was found; raises `ManifestError` unless all is forgiven."""
        for name, number in sorted(self._unchecked.items()):
            note(
                f"no schema of {name} here, so fields are not checked: {counted(number, 'object')}"
            )
        lines = [
            f"{source}: {titles[0]}: {problem}"
            + (f" (and in {len(titles) - 1} more)" if len(titles) > 1 else "")
            for (source, problem), titles in self._found.items()
        ]
        if len(lines) > _MOST_PROBLEMS:
            lines[_MOST_PROBLEMS:] = [f"and {len(lines) - _MOST_PROBLEMS} more problems"]
        if self.lenient:
            for line in lines:
                note(f"{line}, it has no effect" if "unknown field" in line else line)
        elif lines:
            if self._newer:
                lines.append(
                    f"These are the fields of Kubernetes {KUBERNETES_MINOR}; with --lenient "
                    "others are named and ignored."
                )
            raise ManifestError("\n".join(map(printable, lines)))


def read(sources: Sequence[str], *, lenient: bool = False) -> list[Body]:
    """The objects of all sources in order, Lists taken apart. Raises `ManifestError`.

    A source is a file, a directory (its YAML and JSON files, not those below) or ``-``. Objects of
    kinds without a schema come along unchecked. ``lenient`` names unknown fields and those of wrong
    types that nobody reads here, and goes on.
    """
    problems = _FieldProblems(lenient=lenient)
    found: dict[tuple[str, str, str], str] = {}
    objects = []
    for name, content in _contents(sources):
        for body in _objects(name, content, problems):
            key = identity(body)
            if key in found:
                where = f"in {found[key]} as well" if found[key] != name else "twice"
                raise ManifestError(f"{name}: {_title(body)} is given {where}")
            found[key] = name
            objects.append(body)
    problems.conclude()
    if not objects:
        raise ManifestError(f"{', '.join(sources)}: contains no objects")
    return objects


def _contents(sources: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    for source in sources:
        if source == STDIN:
            yield "standard input", _plain("standard input", sys.stdin.buffer.read())
            continue
        try:
            for path in _files(Path(source)):
                yield str(path), _plain(str(path), path.read_bytes())
        except OSError as fault:
            raise ManifestError(f"{fault.filename or source}: {fault.strerror}") from None


def _plain(name: str, content: bytes) -> bytes:
    try:
        return unpacked(content)
    except UnreadableSnapshot as fault:
        raise ManifestError(f"{name}: {fault}") from None


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(
        file for file in path.iterdir() if file.name.endswith(_SUFFIXES) and file.is_file()
    )
    if not files:
        raise ManifestError(f"{path}: no {', '.join(_SUFFIXES)} files in this directory")
    return files


def _objects(name: str, content: bytes, problems: _FieldProblems) -> Iterator[Body]:
    for number, document in enumerate(_documents(name, content), start=1):
        where = f"document {number}"
        for body in _flattened(document, name, where, problems):
            _check(body, name, problems)
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
        except (msgspec.DecodeError, UnicodeDecodeError):
            pass  # YAML with braces, or bad JSON: YAML errors name the line
    try:
        text = content.decode("utf-8-sig")
        _check_depth(text)
        documents = list(yaml.load_all(text, Loader=_ManifestLoader))
    except yaml.MarkedYAMLError as fault:
        mark = fault.problem_mark or fault.context_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise ManifestError(f"{name}: {where}{fault.problem or fault.context}") from None
    except (yaml.YAMLError, ValueError) as fault:
        raise ManifestError(f"{name}: not YAML: {' '.join(str(fault).split())}") from None
    if count_values(documents) > _MOST_VALUES:
        raise ManifestError(f"{name}: it is too large after expanding YAML aliases")
    return documents


def _check_depth(text: str) -> None:
    """The C library composes each level in a call of its own, and ends the process at too many."""
    indented = max(map(len, _INDENTATION.findall(text)))
    if 2 * indented + text.count("[") + text.count("{") <= _DEEPEST:
        return  # nothing can be nested more deeply
    depth = 0
    for event in yaml.parse(text, Loader=_ManifestLoader):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            raise RecursionError


def _flattened(body: Any, source: str, place: str, problems: _FieldProblems) -> Iterator[Body]:
    """The objects of a List, which may leave their kind to it, or the object itself."""
    where = f"{source}: {place}"
    if not isinstance(body, dict):
        raise ManifestError(f"{where}: expected an object, got {_shown(body)}")
    kind = body.get("kind")
    if not isinstance(kind, str) or not kind:
        raise ManifestError(f"{where}: kind: expected the kind of an object, got {_shown(kind)}")
    named = isinstance(body.get("metadata"), dict) and "name" in body["metadata"]
    if not kind.endswith("List") or ("items" not in body and named):
        yield body
        return
    for field in body.keys() - set(_OF_LISTS):
        near = difflib.get_close_matches(field, _OF_LISTS, 1, _CLOSE)
        hint = f" (did you mean {near[0]}?)" if near else ""
        fault = Fault.MISSPELT if near else Fault.UNKNOWN
        problems.add(source, f"{place}, {kind}", Oddity(field, f"unknown field{hint}", fault))
    items = body.get("items", [])  # an empty list may be written as null
    if not isinstance(items, list):
        raise ManifestError(f"{where}: items: expected a list, got {_shown(items)}")
    element = kind.removesuffix("List")
    for i, item in enumerate(items):
        if element and isinstance(item, dict):
            item = {"kind": element, **item}  # noqa: PLW2901  because the item is what is meant
        yield from _flattened(item, source, f"{place}: items[{i}]", problems)


def _check(body: Body, source: str, problems: _FieldProblems) -> None:
    metadata = body.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(name, str) or not name:
        what = f"metadata.name: expected a name, got {_shown(name)}"
        raise ManifestError(f"{source}: {body['kind']}: {what}")
    wrong = _wrong_kind(body)
    if wrong is not None:
        if problems.lenient:  # the object would have no effect, and that is not what is meant
            raise ManifestError(f"{source}: {_title(body)}: {wrong.path}: {wrong.message}")
        problems.add(source, _title(body), wrong)
        return
    found = problems.look_at(body, source)
    for shape in _shapes(body["kind"]) if known(body) else (_AnyObject,):
        try:
            from_dict(body, shape)
        except msgspec.ValidationError as fault:
            if found and not problems.lenient:
                return  # it is said with all others
            # The words of the schema are better.
            typed = (f"{odd.path}: {odd.message}" for odd in found if odd.fault is Fault.TYPE)
            text = next(typed, _field_first(fault))
            raise ManifestError(f"{source}: {_title(body)}: {text}") from None


def _wrong_kind(body: Body) -> Oddity | None:
    """A kind that its API group lacks, or a group that is spelt almost like the right one.

    What other groups have of the same name is theirs.
    """
    kind, version = body["kind"], body.get("apiVersion")
    if not isinstance(version, str) or not version:
        return None
    group, right = _group(version), _GROUPS.get(kind)
    if right is None:
        near = difflib.get_close_matches(kind, _KINDS_BY_GROUP.get(group, ()), 1, _CLOSE)
        if near:
            text = f"{version} has no {kind} (did you mean {near[0]}?)"
            return Oddity("kind", text, Fault.VALUE)
    elif group != right and (
        group in _KINDS_BY_GROUP or difflib.get_close_matches(group, [right], 1, _CLOSE)
    ):
        text = f"{version} has no {kind} (expected {right}/v1)".replace(" /", " ")
        return Oddity("apiVersion", text, Fault.VALUE)
    return None


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

"""YAML and JSON text to documents, and which document is which."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import yaml

from scheduler.config.problems import ConfigError, ConfigProblem, show, suggest
from scheduler.config.schema import KUBE_API_VERSION, KUBE_KIND, OWN_API_VERSION, OWN_KIND

MAX_VALUES = 100_000
"""How many values a configuration may have once its aliases are written out."""
_API_VERSIONS = {KUBE_KIND: KUBE_API_VERSION, OWN_KIND: OWN_API_VERSION}


class _StrictLoader(yaml.SafeLoader):
    """Safe YAML in which a key that is written twice is an error, not a silent choice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen = set()
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                line = key_node.start_mark.line + 1
                raise yaml.YAMLError(f'"{key}" is written twice in one object (line {line})')
            seen.add(key)
        return super().construct_mapping(node, deep)


def parse_documents(text: str) -> list[dict[str, Any]]:
    """The documents of a YAML or JSON text, empty ones left out. Raises `ConfigError`."""
    try:
        documents = list(yaml.load_all(text, Loader=_StrictLoader))
        too_large = count_values(documents) > MAX_VALUES
    except (yaml.YAMLError, RecursionError, TypeError, ValueError) as fault:
        why = "nested too deeply" if isinstance(fault, RecursionError) else fault
        raise ConfigError([ConfigProblem("", f"not valid YAML: {why}")]) from fault
    if too_large:
        message = f"it is too large after expanding YAML aliases: more than {MAX_VALUES} values"
        raise ConfigError([ConfigProblem("", message)])
    return [document for document in documents if document is not None]


def count_values(value: Any, known: dict[int, int] | None = None) -> int:
    """How many values there are once aliases are written out; each is looked at once.

    Raises RecursionError for a value that contains itself.
    """
    known = {} if known is None else known
    if not isinstance(value, dict | list):
        return 1
    if id(value) not in known:
        members = value.values() if isinstance(value, dict) else value
        known[id(value)] = 1 + sum(count_values(member, known) for member in members)
    return known[id(value)]


def split_documents(
    documents: Sequence[Mapping[str, Any]], problems: list[ConfigProblem]
) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    """The bodies of kube-scheduler's document, None if it is absent, and of ours, in any order."""
    bodies: dict[str, dict[str, Any]] = {}
    for i, document in enumerate(documents):
        where = f"documents[{i}]"
        if not isinstance(document, Mapping):
            problems.append(ConfigProblem(where, f"expected an object, got {show(document)}"))
            continue
        kind, version = document.get("kind"), document.get("apiVersion")
        expected = _API_VERSIONS.get(str(kind))
        if expected is None:
            hint = suggest(str(kind), _API_VERSIONS)
            problems.append(ConfigProblem(f"{where}.kind", f"unknown kind {show(kind)}{hint}"))
        elif version != expected:
            message = f'expected "{expected}" for a {kind}, got {show(version)}'
            problems.append(ConfigProblem(f"{where}.apiVersion", message))
        elif str(kind) in bodies:
            problems.append(ConfigProblem(where, f"a second {kind}"))
        else:
            body = {k: v for k, v in document.items() if k not in {"kind", "apiVersion"}}
            bodies[str(kind)] = body
    return bodies.get(KUBE_KIND), bodies.get(OWN_KIND, {})

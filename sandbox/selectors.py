"""Label and field selectors of list and watch requests, compiled to predicates on bodies."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from sandbox.errors import bad_request
from sandbox.resources import Resource

Predicate = Callable[[dict[str, Any]], bool]
_Labels = Mapping[str, str]
_Requirement = Callable[[_Labels], bool]

_KEY = r"[A-Za-z0-9](?:[A-Za-z0-9._/-]*[A-Za-z0-9])?"
_VALUE = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
_SET = re.compile(rf"\s*({_KEY})\s+(in|notin)\s*\(([^()]*)\)\s*$")
_EQUALITY = re.compile(rf"\s*({_KEY})\s*(==|=|!=|>|<)\s*({_VALUE}|)\s*$")
_EXISTS = re.compile(rf"\s*(!?)\s*({_KEY})\s*$")
_LABEL_TERMS = re.compile(r",(?![^(]*\))")

_FIELD_TERM = re.compile(r"(.+?)(==|!=|=)(.*)")
_METADATA_FIELDS = ("metadata.name", "metadata.namespace")
_FIELDS: dict[str, tuple[str, ...]] = {
    "pods": (
        *_METADATA_FIELDS,
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    ),
    "nodes": ("metadata.name", "spec.unschedulable"),
    "namespaces": ("metadata.name", "status.phase"),
    "services": (*_METADATA_FIELDS, "spec.clusterIP", "spec.type"),
    "replicationcontrollers": (*_METADATA_FIELDS, "status.replicas"),
    "jobs.batch": (*_METADATA_FIELDS, "status.successful"),
    "resourceslices.resource.k8s.io": ("metadata.name", "spec.nodeName", "spec.driver"),
}
_REFERENCE = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_EVENT_FIELDS = {
    "": (
        *_METADATA_FIELDS,
        "reason",
        "type",
        "source",
        "reportingComponent",
        *(f"involvedObject.{part}" for part in _REFERENCE),
    ),
    "events.k8s.io": (
        *_METADATA_FIELDS,
        "reason",
        "type",
        "reportingController",
        *(f"regarding.{part}" for part in _REFERENCE),
    ),
}
_CANONICAL_EVENT_FIELDS = {
    "reportingComponent": "reportingController",
    "source": "deprecatedSource.component",
}
"""Events are stored in their events.k8s.io form; this is where the core names live in it."""


def compile_selectors(resource: Resource, labels: str, fields: str) -> Predicate | None:
    """One predicate for both selectors, or None if they select everything."""
    tests = [*_compile_labels(labels), *_compile_fields(resource, fields)]
    if not tests:
        return None
    if len(tests) == 1:
        return tests[0]
    return lambda body: all(test(body) for test in tests)


def selector_text(selector: Mapping[str, Any] | None) -> str:
    """A `LabelSelector` in the form that queries use; empty if it selects everything."""
    found = selector or {}
    terms = [f"{key}={value}" for key, value in sorted((found.get("matchLabels") or {}).items())]
    for expression in found.get("matchExpressions") or ():
        key, values = expression.get("key", ""), ",".join(sorted(expression.get("values") or ()))
        match expression.get("operator"):
            case "In":
                terms.append(f"{key} in ({values})")
            case "NotIn":
                terms.append(f"{key} notin ({values})")
            case "Exists":
                terms.append(key)
            case _:
                terms.append(f"!{key}")
    return ",".join(terms)


def _compile_labels(text: str) -> list[Predicate]:
    if not text.strip():
        return []
    requirements = [_requirement(term) for term in _LABEL_TERMS.split(text)]

    def matches(body: dict[str, Any]) -> bool:
        labels = body["metadata"].get("labels") or {}
        return all(requirement(labels) for requirement in requirements)

    return [matches]


def _requirement(term: str) -> _Requirement:
    if found := _SET.match(term):
        key, operator, listed = found.groups()
        values = {value.strip() for value in listed.split(",")}
        if operator == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: key not in labels or labels[key] not in values
    if found := _EQUALITY.match(term):
        key, operator, value = found.groups()
        return _comparison(key, operator, value)
    if found := _EXISTS.match(term):
        negated, key = found.groups()
        return (lambda labels: key not in labels) if negated else (lambda labels: key in labels)
    raise bad_request(f"unable to parse requirement: found '{term.strip()}'")


def _comparison(key: str, operator: str, value: str) -> _Requirement:
    if operator in {"=", "=="}:
        return lambda labels: labels.get(key) == value
    if operator == "!=":
        return lambda labels: labels.get(key) != value
    try:
        bound = int(value)
    except ValueError:
        raise bad_request(f"values: Invalid value: {value!r}: must be an integer") from None
    greater = operator == ">"

    def compare(labels: _Labels) -> bool:
        try:
            number = int(labels[key])
        except (KeyError, ValueError):
            return False
        return number > bound if greater else number < bound

    return compare


def _compile_fields(resource: Resource, text: str) -> list[Predicate]:
    if not text.strip():
        return []
    return [_field_test(resource, term) for term in text.split(",")]


def _field_test(resource: Resource, term: str) -> Predicate:
    found = _FIELD_TERM.match(term.strip())
    if not found:
        raise bad_request(f"invalid selector: '{term}'; can't understand '{term}'")
    path, operator, wanted = found.groups()
    if path not in _supported(resource):
        raise bad_request(f"field label not supported: {path}")
    steps = _steps(resource, path)
    equal = operator != "!="
    return lambda body: (_text_at(body, steps) == wanted) is equal


def _supported(resource: Resource) -> tuple[str, ...]:
    if resource.table == "events":
        return _EVENT_FIELDS[resource.group]
    return _FIELDS.get(
        resource.table, _METADATA_FIELDS if resource.namespaced else _METADATA_FIELDS[:1]
    )


def _steps(resource: Resource, path: str) -> list[str]:
    if resource.table == "events":
        path = _CANONICAL_EVENT_FIELDS.get(path, path.replace("involvedObject.", "regarding."))
    return path.split(".")


def _text_at(body: Any, steps: list[str]) -> str:
    for step in steps:
        body = body.get(step) if isinstance(body, dict) else None
    if isinstance(body, bool):
        return "true" if body else "false"
    if body is None:
        return "false" if steps[-1] in {"unschedulable", "hostNetwork"} else ""
    return str(body)

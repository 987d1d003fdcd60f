"""What a claim may ask for, itself or in a template, and which selectors a class has."""

from __future__ import annotations

from typing import Any

from sandbox.devices.names import (
    SUBDOMAIN,
    SUBDOMAIN_TEXT,
    Errors,
    an_object,
    duplicate_names,
    label_errors,
    listed,
    objects,
    qualified_errors,
    reference_errors,
    request_names,
)
from sandbox.devices.slices import EFFECTS
from sandbox.field_errors import barred, required, too_long, too_many, unsupported, wrong
from sandbox.store import Body
from scheduler.cel import CelCompileError, compile_selector

COUNTED, _ALL = "ExactCount", "All"
MAX_REQUESTS = 32
_MAX_ALTERNATIVES = 8
_MAX_EXPRESSION = 10 * 1024


def claim_errors(path: str, devices: Body) -> Errors:
    """All that is wrong with what a claim asks for."""
    requests = objects(devices.get("requests"))
    names = request_names(devices)
    if len(requests) > MAX_REQUESTS:
        yield too_many(f"{path}.requests", len(requests), MAX_REQUESTS)
        return
    yield from duplicate_names(f"{path}.requests", requests)
    for index, request in enumerate(requests):
        yield from _request_errors(f"{path}.requests[{index}]", request)
    for index, constraint in enumerate(objects(devices.get("constraints"))):
        each = f"{path}.constraints[{index}]"
        for number, name in enumerate(constraint.get("requests") or ()):
            yield from reference_errors(f"{each}.requests[{number}]", str(name), names)
        yield from _constraint_errors(each, constraint)
    for index, config in enumerate(objects(devices.get("config"))):
        each = f"{path}.config[{index}]"
        for number, name in enumerate(config.get("requests") or ()):
            yield from reference_errors(f"{each}.requests[{number}]", str(name), names)
        if not config.get("opaque"):
            yield required(f"{each}.opaque")


def _constraint_errors(path: str, constraint: Body) -> Errors:
    field = "matchAttribute" if "matchAttribute" in constraint else "distinctAttribute"
    name = constraint.get(field)
    if name is None:
        text = 'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple'
        yield required(path, f"{text} fields are set")
    elif "/" not in str(name):
        text = "a fully qualified name must be a domain and a name separated by a slash"
        yield wrong(f"{path}.{field}", name, text)
    else:
        yield from qualified_errors(f"{path}.{field}", str(name))


def _request_errors(path: str, request: Body) -> Errors:
    yield from label_errors(f"{path}.name", request.get("name"))
    exactly, listed = request.get("exactly"), objects(request.get("firstAvailable"))
    if bool(exactly is not None) == bool(listed):
        text = "exactly one of `exactly` or `firstAvailable` is required"
        if listed:
            yield wrong(path, None, f"{text}, but multiple fields are set")
        else:
            yield required(path, text)
        return
    if exactly is not None:
        yield from _asked_errors(f"{path}.exactly", an_object(exactly))
    if len(listed) > _MAX_ALTERNATIVES:
        yield too_many(f"{path}.firstAvailable", len(listed), _MAX_ALTERNATIVES)
        return
    yield from duplicate_names(f"{path}.firstAvailable", listed)
    for index, asked in enumerate(listed):
        each = f"{path}.firstAvailable[{index}]"
        yield from label_errors(f"{each}.name", asked.get("name"))
        yield from _asked_errors(each, asked)


def _asked_errors(path: str, asked: Body) -> Errors:
    name = asked.get("deviceClassName")
    if not name:
        yield required(f"{path}.deviceClassName")
    elif not SUBDOMAIN.fullmatch(str(name)):
        yield wrong(f"{path}.deviceClassName", name, SUBDOMAIN_TEXT)
    yield from selector_errors(f"{path}.selectors", asked.get("selectors"))
    mode, count = asked.get("allocationMode"), asked.get("count") or 0
    if mode == _ALL and count:
        text = f"must not be specified when allocationMode is '{mode}'"
        yield wrong(f"{path}.count", count, text)
    elif mode == COUNTED and count <= 0:
        yield wrong(f"{path}.count", count, "must be greater than zero")
    elif mode not in (_ALL, COUNTED):
        yield unsupported(f"{path}.allocationMode", mode, f'"{_ALL}", "{COUNTED}"')
    for index, toleration in enumerate(objects(asked.get("tolerations"))):
        yield from _toleration_errors(f"{path}.tolerations[{index}]", toleration)


def _toleration_errors(path: str, toleration: Body) -> Errors:
    operator = toleration.get("operator")
    if not operator:
        yield required(f"{path}.operator")
    elif operator not in ("Equal", "Exists"):
        yield unsupported(f"{path}.operator", operator, '"Equal", "Exists"')
    elif operator == "Exists" and toleration.get("value"):
        text = "must be empty for operator `Exists`"
        yield wrong(f"{path}.value", toleration["value"], text)
    if (effect := toleration.get("effect")) and effect not in EFFECTS:
        yield unsupported(f"{path}.effect", effect, listed(EFFECTS))


def selector_errors(path: str, selectors: Any) -> Errors:
    """Selectors that are none, do not compile, or may cost too much."""
    found = objects(selectors)
    if len(found) > MAX_REQUESTS:
        yield too_many(path, len(found), MAX_REQUESTS)
        return
    for index, selector in enumerate(found):
        cel = selector.get("cel")
        if isinstance(cel, dict):
            expression = str(cel.get("expression", ""))
            yield from _expression_errors(f"{path}[{index}].cel.expression", expression)
        else:
            yield required(f"{path}[{index}].cel")


def _expression_errors(path: str, expression: str) -> Errors:
    if len(expression.encode()) > _MAX_EXPRESSION:
        yield too_long(path, _MAX_EXPRESSION)
        return
    try:
        if compile_selector(expression).too_complex:
            yield barred(path, "too complex, exceeds cost limit")
    except CelCompileError as fault:
        yield wrong(path, expression, str(fault))

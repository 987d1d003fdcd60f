"""Names of devices and what they belong to, and shapes of bodies that others wrote."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from sandbox.errors import FieldError
from sandbox.field_errors import duplicate, required, too_long, wrong
from sandbox.store import Body

CLAIMS = "resourceclaims.resource.k8s.io"
TEMPLATES = "resourceclaimtemplates.resource.k8s.io"
SLICES = "resourceslices.resource.k8s.io"
CLASSES = "deviceclasses.resource.k8s.io"

_MAX_ID = 32
_MAX_DRIVER = 63
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_DRIVER = re.compile(SUBDOMAIN.pattern, re.IGNORECASE)
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LABEL_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used "
    "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    r"for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_IDENTIFIER_TEXT = (
    "a valid C identifier must start with alphabetic character or '_', followed by a string of "
    "alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for "
    "validation is '[A-Za-z_][A-Za-z0-9_]*')"
)
_REFERENCE_TEXT = (
    "must be the name of a request in the claim or the name of a request and a subrequest "
    "separated by '/'"
)

Errors = Iterator[FieldError]


def an_object(value: Any) -> Body:
    """An object, or nothing if it is none."""
    return value if isinstance(value, dict) else {}


def objects(value: Any) -> list[Body]:
    """The objects of a list."""
    listed: Iterable[Any] = value if isinstance(value, list) else ()
    return [each for each in listed if isinstance(each, dict)]


def at(body: Body, path: str) -> Any:
    """What is at a path."""
    found: Any = body
    for part in path.split("."):
        found = an_object(found).get(part)
    return found


def listed(values: Iterable[str]) -> str:
    """Values as errors list them."""
    return ", ".join(f'"{each}"' for each in values)


def request_names(devices: Body) -> dict[str, set[str]]:
    """The requests of a claim, each with the names of its alternatives."""
    return {
        str(request.get("name")): {
            str(each.get("name")) for each in objects(request.get("firstAvailable"))
        }
        for request in objects(devices.get("requests"))
    }


def reference_errors(path: str, name: str, requests: dict[str, set[str]]) -> Errors:
    """A name that must be that of a request, or of one of its alternatives."""
    parent, slash, alternative = name.partition("/")
    if parent not in requests or (slash and alternative not in requests[parent]):
        yield wrong(path, name, _REFERENCE_TEXT)


def label_errors(path: str, name: Any) -> Errors:
    """A name within one object."""
    if not name:
        yield required(path)
    elif not _LABEL.fullmatch(str(name)):
        yield wrong(path, name, _LABEL_TEXT)


def driver_errors(path: str, name: Any) -> Errors:
    """A driver, or the domain of an attribute."""
    if not name:
        yield required(path)
    elif len(str(name)) > _MAX_DRIVER:
        yield too_long(path, _MAX_DRIVER)
    elif not _DRIVER.fullmatch(str(name)):
        yield wrong(path, name, SUBDOMAIN_TEXT)


def pool_errors(path: str, name: Any) -> Errors:
    """The name of a pool."""
    if not name:
        yield required(path)
        return
    for part in str(name).split("/"):
        if not SUBDOMAIN.fullmatch(part):
            yield wrong(path, part, SUBDOMAIN_TEXT)


def qualified_errors(path: str, name: str) -> Errors:
    """The name of an attribute or a capacity."""
    domain, slash, identifier = name.rpartition("/")
    if slash and not domain:
        yield wrong(path, "", "the domain must not be empty")
    elif slash:
        yield from driver_errors(path, domain)
    if len(identifier) > _MAX_ID:
        yield too_long(path, _MAX_ID)
    elif not _IDENTIFIER.fullmatch(identifier):
        text = _IDENTIFIER_TEXT if identifier or not slash else "the name must not be empty"
        yield wrong(path, identifier, text)


def duplicate_names(path: str, listed: list[Body]) -> Errors:
    """Names that are there twice."""
    seen = set()
    for index, each in enumerate(listed):
        name = str(each.get("name", ""))
        if name in seen:
            yield duplicate(f"{path}[{index}]", name)
        seen.add(name)

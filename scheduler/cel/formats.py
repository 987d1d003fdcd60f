"""Named formats: what names, labels, dates and so on must look like."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date

from scheduler.cel.errors import no_such_overload
from scheduler.cel.urls import request_uri_problem
from scheduler.cel.values import NONE, NamedFormat, Optional, Value, type_name

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_PART = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_UUID = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}", re.I)
_BASE64 = re.compile(
    r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})"
)
_CLOCK = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|[+-][0-9]{2}:[0-9]{2})")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")

_LABEL_MESSAGE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used "
    "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_SUBDOMAIN_MESSAGE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_LABEL_1035_MESSAGE = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an "
    "alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', "
    "regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
)
_VALUE_MESSAGE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  "
    "or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_NAME_MESSAGE = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)


def _matched(
    pattern: re.Pattern[str],
    limit: int,
    message: str,
    prefix: bool = False,
    unit: str = "characters",
) -> Callable[[str], list[str]]:
    def check(text: str) -> list[str]:
        if prefix and len(text) > 1 and text.endswith("-"):
            text = f"{text[:-2]}a"
        found = []
        if len(text.encode(errors="replace")) > limit:
            found.append(f"must be no more than {limit} {unit}")
        # The longest names are checked at once; longer texts are wrong in any case.
        if len(text) > 4096 or pattern.fullmatch(text) is None:
            dotted = pattern is _LABEL and len(text) <= 4096 and _SUBDOMAIN.fullmatch(text)
            found.append("must not contain dots" if dotted else message)
        return found

    return check


def _qualified_name(text: str) -> list[str]:
    parts = text.split("/")
    if len(parts) > 2:
        shown = (
            f"a valid label key {_NAME_MESSAGE} with an optional DNS subdomain prefix and '/' "
            "(e.g. 'example.com/MyName')"
        )
        return [shown]
    found = []
    if len(parts) == 2:
        if not parts[0]:
            found.append("prefix part must be non-empty")
        else:
            wrong = _matched(_SUBDOMAIN, 253, _SUBDOMAIN_MESSAGE, unit="bytes")(parts[0])
            found += [f"prefix part {message}" for message in wrong]
    name = parts[-1]
    if not name:
        found.append("name part must be non-empty")
    elif len(name.encode(errors="replace")) > 63:
        found.append("name part must be no more than 63 bytes")
    if len(name) > 4096 or _PART.fullmatch(name) is None:
        found.append(f"name part {_NAME_MESSAGE}")
    return found


def _label_value(text: str) -> list[str]:
    found = []
    if len(text.encode(errors="replace")) > 63:
        found.append("must be no more than 63 bytes")
    if text and (len(text) > 4096 or _PART.fullmatch(text) is None):
        found.append(_VALUE_MESSAGE)
    return found


def _simple(holds: Callable[[str], bool], message: str) -> Callable[[str], list[str]]:
    return lambda text: [] if holds(text) else [message]


def _uri(text: str) -> list[str]:
    problem = request_uri_problem(text)
    return [] if problem is None else [f'parse "{text}": {problem}']


def _is_date(text: str) -> bool:
    try:
        return (
            _DATE.fullmatch(text) is not None
            and text[:4] != "0000"
            and bool(date.fromisoformat(text))
        )
    except ValueError:
        return False


def _is_datetime(text: str) -> bool:
    parts = text.lower().split("t")
    if len(text) < 4 or len(parts) < 2 or not _is_date(parts[0]):
        return False
    match = _CLOCK.fullmatch(parts[1])
    return match is not None and match[1] <= "23" and match[2] <= "59" and match[3] <= "59"


_CHECKS: dict[str, tuple[str, int, Callable[[str], list[str]]]] = {
    "dns1123Label": ("DNS1123Label", 30, _matched(_LABEL, 63, _LABEL_MESSAGE)),
    "dns1123Subdomain": ("DNS1123Subdomain", 60, _matched(_SUBDOMAIN, 253, _SUBDOMAIN_MESSAGE)),
    "dns1035Label": ("DNS1035Label", 30, _matched(_LABEL_1035, 63, _LABEL_1035_MESSAGE)),
    "qualifiedName": ("QualifiedName", 60, _qualified_name),
    "dns1123LabelPrefix": (
        "DNS1123LabelPrefix", 30, _matched(_LABEL, 63, _LABEL_MESSAGE, prefix=True),
    ),
    "dns1123SubdomainPrefix": (
        "DNS1123SubdomainPrefix", 60, _matched(_SUBDOMAIN, 253, _SUBDOMAIN_MESSAGE, prefix=True),
    ),
    "dns1035LabelPrefix": (
        "DNS1035LabelPrefix", 30, _matched(_LABEL_1035, 63, _LABEL_1035_MESSAGE, prefix=True),
    ),
    "labelValue": ("LabelValue", 40, _label_value),
    "uri": ("URI", 1103, _uri),
    "uuid": (
        "uuid", 70,
        _simple(lambda text: _UUID.fullmatch(text) is not None, "does not match the UUID format"),
    ),
    "byte": (
        "byte", 84,
        _simple(lambda text: _BASE64.fullmatch(text) is not None, "invalid base64"),
    ),
    "date": ("date", 71, _simple(_is_date, "invalid date")),
    "datetime": ("datetime", 71, _simple(_is_datetime, "invalid datetime")),
}  # fmt: skip
_BY_NAME = {name: check for name, _, check in _CHECKS.values()}


def _constant(name: str) -> Callable[[], NamedFormat]:
    shown, cost, _ = _CHECKS[name]
    made = NamedFormat(shown, cost)
    return lambda: made


def named(name: Value) -> Optional:
    if type(name) is not str:
        raise no_such_overload("format.named", type_name(name))
    if name not in _CHECKS:
        return NONE
    return Optional(_constant(name)(), True)


def validate(*args: Value) -> Optional:
    if type(args[0]) is not NamedFormat or type(args[1]) is not str:
        raise no_such_overload("validate", *(type_name(arg) for arg in args))
    wrong = _BY_NAME[args[0].name](args[1])
    return Optional(wrong, True) if wrong else NONE


FUNCTIONS: dict[str, Callable[..., Value]] = {
    **{f"format.{name}": _constant(name) for name in _CHECKS},
    "format.named": named,
    "validate": validate,
}

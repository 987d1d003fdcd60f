"""Durations and timestamps: reading them as Go does, and their parts."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from scheduler.cel.errors import CelRuntimeError, no_such_overload
from scheduler.cel.values import Duration, Timestamp, Value, type_name

_SECOND = 10**9
_UNITS = {
    "ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": _SECOND, "m": 60 * _SECOND,
    "h": 3600 * _SECOND,
}  # fmt: skip
_PART = re.compile(r"([0-9]*)(\.[0-9]*)?(ns|us|µs|μs|ms|s|m|h)")
_TIME = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})T(\d{1,2}):(\d{2}):(\d{2})([.,]\d+)?(Z|[+-]\d{2}:\d{2})", re.ASCII
)
_LONGEST = 1000
_YEAR = 12622780800 // 400
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MAX = 2**63


def parse_duration(text: str) -> int | None:
    """Nanoseconds of a text like `1h30m`, or None."""
    if len(text) > _LONGEST:
        return None
    sign = -1 if text.startswith("-") else 1
    rest = text[1:] if text[:1] in {"-", "+"} else text
    if rest == "0":
        return 0
    total, at = 0, 0
    while at < len(rest):
        match = _PART.match(rest, at)
        if match is None or not (match[1] or (match[2] or ".") != "."):
            return None
        unit = _UNITS[match[3]]
        fraction = (match[2] or ".")[1:]
        total += int(match[1] or 0) * unit
        if fraction:
            total += int(int(fraction) * (unit / 10 ** len(fraction)))
        if total > _MAX:
            return None
        at = match.end()
    if not rest or (total == _MAX and sign > 0):
        return None
    return sign * total


def parse_timestamp(text: str) -> tuple[int, int] | None:
    """Nanoseconds since the epoch and the offset of the zone, of a text as RFC 3339 has it."""
    match = _TIME.fullmatch(text)
    if match is None or len(text) > _LONGEST:
        return None
    year, month, day, hour, minute, second = (int(match[index]) for index in range(1, 7))
    zone = match[8]
    offset = 0
    if zone != "Z":
        hours, minutes = int(zone[1:3]), int(zone[4:6])
        if hours > 24 or minutes >= 60:
            return None
        offset = (hours * 3600 + minutes * 60) * (-1 if zone[0] == "-" else 1)
    try:
        date = datetime(max(year, 1), month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        return None
    seconds = (date - _EPOCH) // timedelta(seconds=1)
    if year == 0:
        seconds -= 366 * 86400  # out of range in any case
    nanos = int((match[7] or ".0")[1:][:9].ljust(9, "0"))
    return (seconds - offset) * _SECOND + nanos, offset


def timestamp_text(value: Timestamp) -> str:
    year, local = _local(value, timezone(timedelta(seconds=value.offset)))
    nanos = value.nanos % _SECOND
    fraction = f".{nanos:09d}".rstrip("0") if nanos else ""
    zone = "Z"
    if value.offset:
        sign, minutes = ("-" if value.offset < 0 else "+"), abs(value.offset) // 60
        zone = f"{sign}{minutes // 60:02d}:{minutes % 60:02d}"
    return f"{year:04d}-{local:%m-%dT%H:%M:%S}{fraction}{zone}"


def _local(value: Timestamp, zone: tzinfo) -> tuple[int, datetime]:
    """The year in a zone, and the time with all else that is right in it.

    Python has no year 0 or 10000, where a zone may put the first and the last day there are. The
    calendar repeats every 400 years.
    """
    seconds = value.nanos // _SECOND
    try:
        time = (_EPOCH + timedelta(seconds=seconds)).astimezone(zone)
    except OverflowError:
        years = -400 if seconds > 0 else 400
        time = (_EPOCH + timedelta(seconds=seconds + years * _YEAR)).astimezone(zone)
        return time.year - years, time
    return time.year, time


def _zone(name: str) -> tzinfo:
    if ":" in name:
        return _fixed_zone(name)
    if name in {"", "UTC", "Local"}:  # where a scheduler runs, local time is UTC
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise CelRuntimeError(f"unknown time zone {name}") from None


def _fixed_zone(name: str) -> tzinfo:
    hours, _, minutes = name.partition(":")
    numbers = []
    for text in (hours, minutes):
        if re.fullmatch(r"[+-]?[0-9]{1,18}", text) is None:
            message = f'strconv.Atoi: parsing "{text}": invalid syntax'
            raise CelRuntimeError(message)
        numbers.append(int(text))
    offset = numbers[0] * 60 + (-numbers[1] if name.startswith("-") else numbers[1])
    try:
        return timezone(timedelta(minutes=offset))
    except (ValueError, OverflowError):
        raise CelRuntimeError(f"time zone {name} is too far from UTC") from None


_OF_TIME: dict[str, Callable[[datetime], int]] = {
    "getMonth": lambda time: time.month - 1,
    "getDayOfYear": lambda time: time.timetuple().tm_yday - 1,
    "getDayOfMonth": lambda time: time.day - 1,
    "getDate": lambda time: time.day,
    "getDayOfWeek": lambda time: time.isoweekday() % 7,
    "getHours": lambda time: time.hour,
    "getMinutes": lambda time: time.minute,
    "getSeconds": lambda time: time.second,
}
_OF_DURATION = {
    "getHours": 3600 * _SECOND,
    "getMinutes": 60 * _SECOND,
    "getSeconds": _SECOND,
    "getMilliseconds": 10**6,
}


def _accessor(function: str) -> Callable[..., int]:
    def access(*args: Value) -> int:
        value = args[0]
        if type(value) is Duration and len(args) == 1 and function in _OF_DURATION:
            whole = abs(value.nanos) // _OF_DURATION[function]
            return whole if value.nanos >= 0 else -whole
        if type(value) is not Timestamp or (len(args) == 2 and type(args[1]) is not str):
            raise no_such_overload(function, *(type_name(arg) for arg in args))
        zone = _zone(args[1] if len(args) == 2 else "UTC")
        if function == "getMilliseconds":
            return int(value.nanos % _SECOND // 10**6)
        year, time = _local(value, zone)
        return year if function == "getFullYear" else _OF_TIME[function](time)

    return access


FUNCTIONS: dict[str, Callable[..., Value]] = {
    function: _accessor(function) for function in (*_OF_TIME, "getFullYear", "getMilliseconds")
}

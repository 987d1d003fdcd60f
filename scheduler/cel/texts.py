"""Functions on strings. Positions count code points."""

from __future__ import annotations

from collections.abc import Callable

from scheduler.cel.errors import CelRuntimeError, no_such_overload
from scheduler.cel.limits import check_length
from scheduler.cel.values import Value, elements, is_list, type_name

_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009"
_SPACE += "\u200a\u2028\u2029\u202f\u205f\u3000"
_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_UPPER = {code + 32: code for code in range(ord("A"), ord("Z") + 1)}
_QUOTED = str.maketrans({
    "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v",
    "\\": "\\\\", '"': '\\"',
})  # fmt: skip


def demand(function: str, args: tuple[Value, ...], *kinds: type) -> None:
    """Raise unless the arguments are of these types, as many as there are arguments."""
    for arg, kind in zip(args, kinds, strict=False):
        if type(arg) is not kind:
            raise no_such_overload(function, *(type_name(given) for given in args))


def contains(text: Value, part: Value) -> bool:
    if type(text) is not str or type(part) is not str:
        raise no_such_overload()
    return part in text


def starts_with(text: Value, part: Value) -> bool:
    if type(text) is not str or type(part) is not str:
        raise no_such_overload()
    return text.startswith(part)


def ends_with(text: Value, part: Value) -> bool:
    if type(text) is not str or type(part) is not str:
        raise no_such_overload()
    return text.endswith(part)


def char_at(*args: Value) -> str:
    demand("charAt", args, str, int)
    text, index = args
    if not 0 <= index <= len(text):
        raise CelRuntimeError(f"index out of range: {index}")
    return text[index : index + 1]  # type: ignore[no-any-return]


def index_of(*args: Value) -> int:
    demand("indexOf", args, str, str, int)
    text, part, start = args if len(args) == 3 else (*args, 0)
    if not part:
        return start  # type: ignore[no-any-return]
    if start < 0:
        raise CelRuntimeError(f"index out of range: {start}")
    return text.find(part, start)  # type: ignore[no-any-return]


def last_index_of(*args: Value) -> int:
    demand("lastIndexOf", args, str, str, int)
    text, part = args[:2]
    if not part:
        return args[2] if len(args) == 3 else len(text)
    if len(args) == 2:
        return text.rfind(part)  # type: ignore[no-any-return]
    start = args[2]
    if start < 0:
        raise CelRuntimeError(f"index out of range: {start}")
    if start >= len(text):
        return -1
    return text.rfind(part, 0, start + len(part))  # type: ignore[no-any-return]


def lower(*args: Value) -> str:
    demand("lowerAscii", args, str)
    return args[0].translate(_LOWER)  # type: ignore[no-any-return]


def upper(*args: Value) -> str:
    demand("upperAscii", args, str)
    return args[0].translate(_UPPER)  # type: ignore[no-any-return]


def replace(*args: Value) -> str:
    demand("replace", args, str, str, str, int)
    text, old, new = args[:3]
    count = args[3] if len(args) == 4 else -1
    found = len(text) + 1 if not old else text.count(old)
    if 0 <= count < found:
        found = count
    check_length(len(text) + found * (len(new) - len(old)))
    return text.replace(old, new, found)  # type: ignore[no-any-return]


def split(*args: Value) -> list[str]:
    demand("split", args, str, str, int)
    text, separator = args[:2]
    limit = args[2] if len(args) == 3 else -1
    if limit == 0:
        return []
    if separator:
        return text.split(separator, limit - 1 if limit > 0 else -1)  # type: ignore[no-any-return]
    if limit < 0 or limit >= len(text):
        return list(text)
    return [*text[: limit - 1], text[limit - 1 :]]


def substring(*args: Value) -> str:
    demand("substring", args, str, int, int)
    text, start = args[:2]
    end = args[2] if len(args) == 3 else len(text)
    if len(args) == 3 and start > end:
        raise CelRuntimeError(f"invalid substring range. start: {start}, end: {end}")
    for index in (start, end):
        if not 0 <= index <= len(text):
            raise CelRuntimeError(f"index out of range: {index}")
    return text[start:end]  # type: ignore[no-any-return]


def trim(*args: Value) -> str:
    demand("trim", args, str)
    return args[0].strip(_SPACE)  # type: ignore[no-any-return]


def quote(*args: Value) -> str:
    demand("strings.quote", args, str)
    return f'"{args[0].translate(_QUOTED)}"'


def join(*args: Value) -> str:
    parts = args[0]
    if not is_list(parts) or (len(parts) and type(elements(parts)[0]) is not str):
        raise no_such_overload("join", *(type_name(given) for given in args))
    separator = args[1] if len(args) == 2 else ""
    demand("join", args[1:], str)
    found = elements(parts)
    for part in found:
        if type(part) is not str:
            raise CelRuntimeError(f"join: invalid input: {part}")
    check_length(sum(map(len, found)) + len(separator) * len(found))
    return separator.join(found)


FUNCTIONS: dict[str, Callable[..., Value]] = {
    "charAt": char_at,
    "contains": contains,
    "endsWith": ends_with,
    "join": join,
    "lowerAscii": lower,
    "replace": replace,
    "split": split,
    "startsWith": starts_with,
    "strings.quote": quote,
    "substring": substring,
    "trim": trim,
    "upperAscii": upper,
}

"""Documents to structs and back, driven by the structs' own annotations.

Decoding never stops at the first fault: it notes every one with its path and carries on with the
field's default, so that one run lists every problem of a file. For that, every
field of every struct has a default; what is required is a matter of validation.
"""

import math
import types
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

import msgspec

from scheduler.config.durations import Duration, format_duration, parse_duration
from scheduler.config.problems import ConfigProblem, join, show, suggest

_MAX_INT64 = 2**63 - 1
_SCALARS = {str: "a string", bool: "true or false", int: "an integer", float: "a number"}


class _Wrong(NamedTuple):
    """A value of the wrong type."""

    message: str


def decode(kind: Any, raw: Any, path: str, problems: list[ConfigProblem]) -> Any:
    """The value that `raw` stands for, as an instance of `kind`; faults go to `problems`.

    Null counts as absent. Where `raw` is unusable a blank value takes its place.
    """
    kind = _without_none(kind)
    decoded = _decode(kind, raw, path, problems)
    if isinstance(decoded, _Wrong):
        problems.append(ConfigProblem(path, decoded.message))
        return _blank(kind)
    return decoded


def encode(kind: Any, value: Any) -> Any:
    """The plain data that decodes to `value`; None and empty defaults are left out of objects."""
    kind = _without_none(kind)
    if kind is Duration:
        return format_duration(value)
    if isinstance(value, msgspec.Struct):
        return encode_struct(value)
    if get_origin(kind) is tuple:
        return [encode(get_args(kind)[0], item) for item in value]
    return value


def encode_struct(struct: msgspec.Struct) -> dict[str, Any]:
    """`encode` for a whole struct."""
    encoded = {}
    for field in msgspec.structs.fields(struct):
        value = getattr(struct, field.name)
        if value is None:
            continue
        plain = encode(field.type, value)
        if plain in ([], {}) and value == field.default:
            continue
        encoded[field.encode_name] = plain
    return encoded


def _decode(kind: Any, raw: Any, path: str, problems: list[ConfigProblem]) -> Any:
    if kind is Any:
        return raw
    if kind is Duration:
        return _decode_duration(raw)
    if kind in _SCALARS:
        return _decode_scalar(kind, raw)
    origin = get_origin(kind)
    if origin is tuple:
        return _decode_list(get_args(kind)[0], raw, path, problems)
    if origin is Literal:
        return _decode_choice(get_args(kind), raw)
    if not isinstance(raw, Mapping):
        return _Wrong(f"expected an object, got {show(raw)}")
    if origin is dict:
        return dict(raw)
    return _decode_struct(kind, raw, path, problems)


def _decode_struct(
    kind: type[msgspec.Struct], raw: Mapping[Any, Any], path: str, problems: list[ConfigProblem]
) -> msgspec.Struct:
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    values = {}
    for name, value in raw.items():
        field = fields.get(name)
        if field is None:
            hint = suggest(str(name), fields)
            message = f"unknown field{hint}; its value is {show(value)}"
            problems.append(ConfigProblem(join(path, str(name)), message))
        elif value is not None:
            decoded = _decode(_without_none(field.type), value, join(path, name), problems)
            if isinstance(decoded, _Wrong):
                problems.append(ConfigProblem(join(path, name), decoded.message))
            else:
                values[field.name] = decoded
    return kind(**values)


def _decode_list(kind: Any, raw: Any, path: str, problems: list[ConfigProblem]) -> Any:
    if not isinstance(raw, list | tuple):
        return _Wrong(f"expected a list, got {show(raw)}")
    return tuple(decode(kind, item, f"{path}[{i}]", problems) for i, item in enumerate(raw))


def _decode_scalar(kind: type, raw: Any) -> Any:
    if kind is float and type(raw) is int and abs(raw) <= _MAX_INT64:
        return float(raw)
    if type(raw) is not kind:
        return _Wrong(f"expected {_SCALARS[kind]}, got {show(raw)}")
    if isinstance(raw, int) and abs(raw) > _MAX_INT64:
        return _Wrong(f"{show(raw)} does not fit 64 bits")
    if isinstance(raw, float) and not math.isfinite(raw):
        return _Wrong(f"expected a finite number, got {show(raw)}")
    return raw


def _decode_duration(raw: Any) -> Any:
    if not isinstance(raw, str):
        return _Wrong(f'expected a duration such as "15s", got {show(raw)}')
    try:
        return parse_duration(raw)
    except ValueError as fault:
        return _Wrong(f"{fault}, got {show(raw)}")


def _decode_choice(choices: tuple[str, ...], raw: Any) -> Any:
    if raw in choices:
        return raw
    return _Wrong(f"unknown value {show(raw)}{suggest(str(raw), choices)}")


def _without_none(kind: Any) -> Any:
    """The type of a value that is there, without what its annotation says besides."""
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if get_origin(kind) in {Union, types.UnionType}:
        (kind,) = (arm for arm in get_args(kind) if arm is not type(None))
    return kind


def _blank(kind: Any) -> Any:
    if get_origin(kind) is Literal:
        return get_args(kind)[0]
    if kind is Any:
        return None
    return kind() if kind is not Duration else Duration(0.0)

"""Messages that expressions can make: `google.protobuf.Int64Value{value: 1}`.

The environment knows the well-known types of protocol buffers, and the type of the device, which
compiles but cannot be made.
"""

from __future__ import annotations

import struct

from scheduler.cel.arithmetic import SECOND, to_timestamp
from scheduler.cel.declarations import FIELDS
from scheduler.cel.errors import CelRuntimeError
from scheduler.cel.types import (
    BOOL,
    BYTES,
    DEVICE,
    DOUBLE,
    DURATION,
    INT,
    STRING,
    TIMESTAMP,
    UINT,
    Type,
)
from scheduler.cel.values import Duration, Uint, Value

_PREFIX = "google.protobuf."
_WRAPPED = {
    "BoolValue": BOOL, "BytesValue": BYTES, "DoubleValue": DOUBLE, "FloatValue": DOUBLE,
    "Int64Value": INT, "Int32Value": INT, "UInt64Value": UINT, "UInt32Value": UINT,
    "StringValue": STRING,
}  # fmt: skip
_TIME_FIELDS = {"seconds": INT, "nanos": INT}
_ZEROS: dict[str, Value] = {
    "bool": False, "bytes": b"", "double": 0.0, "int": 0, "uint": Uint(0), "string": "",
}  # fmt: skip

MESSAGES: dict[str, tuple[Type, dict[str, Type]]] = {
    **{
        _PREFIX + name: (wrapped._replace(nullable=True), {"value": wrapped})
        for name, wrapped in _WRAPPED.items()
    },
    f"{_PREFIX}Duration": (DURATION, _TIME_FIELDS),
    f"{_PREFIX}Timestamp": (TIMESTAMP, _TIME_FIELDS),
    DEVICE.name: (DEVICE, FIELDS),
}
"""Types of messages and of their fields, by name."""


def make(name: str, fields: dict[str, Value]) -> Value:
    """The value of a message. Raises `CelRuntimeError`."""
    kind, _ = MESSAGES[name]
    if kind == DEVICE:
        raise CelRuntimeError(f"unknown type '{name}'")
    if kind in {DURATION, TIMESTAMP}:
        nanos = fields.get("seconds", 0) * SECOND + fields.get("nanos", 0)
        if kind == TIMESTAMP:
            return to_timestamp(nanos)
        if not -(2**63) <= nanos < 2**63:
            raise CelRuntimeError("duration overflow")
        return Duration(nanos)
    value: Value = fields.get("value", _ZEROS[kind.kind])
    if name == f"{_PREFIX}Int32Value" and not -(2**31) <= value < 2**31:
        raise CelRuntimeError("integer overflow")
    if name == f"{_PREFIX}UInt32Value" and value >= 2**32:
        raise CelRuntimeError("unsigned integer overflow")
    return _single(value) if name == f"{_PREFIX}FloatValue" else value


def _single(value: float) -> float:
    """A double with the precision of 32 bits."""
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")

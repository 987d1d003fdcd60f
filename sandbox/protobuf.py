"""The protobuf wire format: fields of messages, read and written."""

from collections.abc import Iterator

VARINT, FIXED64, LENGTH_DELIMITED, FIXED32 = 0, 1, 2, 5
_WIDTHS = {FIXED64: 8, FIXED32: 4}


def varint(number: int) -> bytes:
    """A number, seven bits at a time."""
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def field(number: int, content: bytes | str) -> bytes:
    """A string or an embedded message as this field."""
    raw = content.encode() if isinstance(content, str) else content
    return varint(number << 3 | LENGTH_DELIMITED) + varint(len(raw)) + raw


def flag(number: int) -> bytes:
    """A boolean field that is true."""
    return varint(number << 3) + b"\x01"


def fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message by number; numbers as such, all else as bytes.

    Raises ValueError for bytes that are no message.
    """
    at = 0
    while at < len(message):
        tag, at = _read_varint(message, at)
        number, wire = tag >> 3, tag & 7
        if wire == VARINT:
            value, at = _read_varint(message, at)
            yield number, value
            continue
        if wire == LENGTH_DELIMITED:
            width, at = _read_varint(message, at)
        elif wire in _WIDTHS:
            width = _WIDTHS[wire]
        else:
            raise ValueError(f"wire type {wire} of field {number}")
        if at + width > len(message):
            raise ValueError(f"field {number} ends after its message")
        yield number, message[at : at + width]
        at += width


def _read_varint(message: bytes, at: int) -> tuple[int, int]:
    number = 0
    for shift in range(0, 70, 7):
        if at >= len(message):
            raise ValueError("a number ends after its message")
        number |= (message[at] & 0x7F) << shift
        at += 1
        if message[at - 1] < 0x80:
            return number, at
    raise ValueError("a number of more than ten bytes")

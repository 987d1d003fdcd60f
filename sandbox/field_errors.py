"""What is wrong with a field, in the words of the real server."""

from typing import Any

import msgspec

from sandbox.errors import FieldError


def required(field: str, text: str = "") -> FieldError:
    """A field that is missing."""
    return FieldError("FieldValueRequired", field, f"Required value{': ' + text if text else ''}")


def wrong(field: str, value: Any, text: str) -> FieldError:
    """A field whose value breaks a rule."""
    shown = msgspec.json.encode(value).decode() if value is not None else "null"
    return FieldError("FieldValueInvalid", field, f"Invalid value: {shown}: {text}")


def barred(field: str, text: str) -> FieldError:
    """A field that may not be set or changed here."""
    return FieldError("FieldValueForbidden", field, f"Forbidden: {text}")


def duplicate(field: str, value: Any) -> FieldError:
    """A value that is there already."""
    return FieldError("FieldValueDuplicate", field, f'Duplicate value: "{value}"')


def too_many(field: str, count: int, limit: int) -> FieldError:
    """A list with too many items."""
    text = f"Too many: {count}: must have at most {limit} items"
    return FieldError("FieldValueTooMany", field, text)


def too_long(field: str, limit: int) -> FieldError:
    """A text with too many bytes."""
    text = f"Too long: may not be more than {limit} bytes"
    return FieldError("FieldValueTooLong", field, text)


def unsupported(field: str, value: Any, supported: str) -> FieldError:
    """A value that is none of those there are."""
    shown = f'"{value or ""}"'
    text = f"Unsupported value: {shown}: supported values: {supported}"
    return FieldError("FieldValueNotSupported", field, text)

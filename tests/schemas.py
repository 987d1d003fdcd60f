"""JSON Schema for tests; its library takes long to load, and not every test process needs it."""

from __future__ import annotations

from typing import Any


def check_schema(schema: Any) -> None:
    """Fail if it is no schema."""
    from jsonschema import Draft202012Validator

    Draft202012Validator.check_schema(schema)


def validate(value: Any, schema: Any) -> None:
    """Fail if a value is not what the schema says."""
    from jsonschema import Draft202012Validator

    Draft202012Validator(schema).validate(value)

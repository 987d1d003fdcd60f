"""A column: its heading, and how to read its cell from an object."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sandbox.printing.durations import age
from sandbox.selectors import selector_text
from sandbox.store import Body

NONE = "<none>"
Cell = Callable[[Body, datetime], Any]


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a kind's table; `wide` ones are shown with `-o wide`."""

    name: str
    cell: Cell
    type: str = "string"
    format: str = ""
    wide: bool = False

    def definition(self) -> dict[str, Any]:
        """Its `TableColumnDefinition`."""
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": "",
            "priority": 1 if self.wide else 0,
        }


def at(body: Any, path: str, default: Any = None) -> Any:
    """The value at a dotted path, or the default if something on the way is missing."""
    for step in path.split("."):
        body = body.get(step) if isinstance(body, dict) else None
    return default if body is None else body


def text(name: str, path: str, default: str = "", *, wide: bool = False) -> Column:
    """A column that shows a field as it is."""
    return Column(name, lambda body, _: at(body, path) or default, wide=wide)


def number(name: str, path: str, type_: str = "integer") -> Column:
    """A column that shows a number, 0 if it is missing."""
    return Column(name, lambda body, _: at(body, path, 0), type_)


def boolean(name: str, path: str, default: bool = False) -> Column:
    """A column that shows a truth value."""
    return Column(name, lambda body, _: at(body, path, default), "boolean")


NAME = Column("Name", lambda body, _: body["metadata"].get("name", ""), format="name")
AGE = Column("Age", lambda body, now: age(body["metadata"].get("creationTimestamp"), now))
CREATED = Column("Created At", lambda body, _: body["metadata"].get("creationTimestamp"), "date")


def labels(found: Mapping[str, str] | None) -> str:
    """Labels in one line."""
    return ",".join(f"{key}={value}" for key, value in sorted((found or {}).items())) or NONE


def selector(found: Body | None) -> str:
    """A label selector in one line."""
    return selector_text(found) or NONE

"""The table of EquipoiseConfiguration in docs/configuration.md, from the structs of the schema.

Each field has its meaning as a docstring below it; links in there are relative to the page.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import msgspec

from scheduler.config.durations import Duration, format_duration
from scheduler.config.schema import EquipoiseConfiguration

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"
BEGIN, END = "<!-- from the program: make docs -->", "<!-- the end of that -->"


def meanings(kind: type[msgspec.Struct]) -> dict[str, str]:
    """The docstring below each field of a struct, on one line."""
    (defined,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(defined, ast.ClassDef)
    found: dict[str, str] = {}
    for field, text in zip(defined.body, defined.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            is_text = isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
            said = ast.literal_eval(text.value) if is_text else ""  # type: ignore[attr-defined]  # is_text says so
            found[field.target.id] = " ".join(said.split())
    return found


def rows(kind: type[msgspec.Struct], path: str = "") -> Iterator[tuple[str, str, str]]:
    """Path, default and meaning of each field; those of a section follow in its place."""
    texts = meanings(kind)
    for field in msgspec.structs.fields(kind):
        here = f"{path}{field.encode_name}"
        type_ = field.type
        if isinstance(field.default, msgspec.Struct):
            yield from rows(type(field.default), f"{here}.")
        else:
            yield here, _shown(type_, field.default), texts.get(field.name, "")


def _shown(type_: Any, default: Any) -> str:
    if get_origin(type_) is Annotated:
        type_ = get_args(type_)[0]
    if default in ("", ()):
        return "none"
    if type_ is Duration:
        return f"`{format_duration(default)}`"
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    if isinstance(default, str | tuple):
        texts = (default,) if isinstance(default, str) else default
        return ", ".join(f"`{each}`" for each in texts)
    return f"{default:g}" if isinstance(default, float) else str(default)


def table() -> str:
    """The table, in the order of the schema."""
    lines = [
        f"| `{path}` | {default} | {text} |" for path, default, text in rows(EquipoiseConfiguration)
    ]
    return "\n".join(["| Field | Default | Meaning |", "|---|---|---|", *lines])


def with_table(page: str) -> str:
    """The page with the table as it is now."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}"


def write() -> None:
    """Write the table into its page."""
    PAGE.write_text(with_table(PAGE.read_text()))

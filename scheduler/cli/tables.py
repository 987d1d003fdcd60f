"""Tables as lines of text, laid out for the room there is.

With room enough a row is a line. With less, the text column wraps in its place; where that would
leave it too narrow to read, all text columns move to lines of their own below the row. Nothing is
ever cut off: names that are cut short cannot be copied.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

GAP = "  "
INDENT = "    "
NARROWEST_TEXT = 30


class TableCell(NamedTuple):
    """A text and the style it has on a terminal."""

    text: str
    style: str = ""


Line = list[TableCell]
"""Cells with the spaces between them."""


class TableColumn(NamedTuple):
    """A column's title; numbers stand to the right, texts may wrap or move below the row."""

    title: str
    right: bool = False
    text: bool = False


@dataclass
class Table:
    """Columns and rows. Cells may come from anywhere: what a terminal might obey is replaced."""

    columns: Sequence[TableColumn]
    rows: list[Line] = field(default_factory=list)
    at_least: Sequence[int] = ()
    """Widths to keep to, for a table that is printed in pieces."""
    header: bool = True

    def add(self, *cells: TableCell | str | int) -> None:
        """Append a row, one cell per column."""
        row = (cell if isinstance(cell, TableCell) else TableCell(str(cell)) for cell in cells)
        self.rows.append([TableCell(printable(text), style) for text, style in row])

    @property
    def widths(self) -> list[int]:
        """How wide each column has to be to hold everything on one line."""
        least = self.at_least or [len(column.title) for column in self.columns]
        return [
            max([width, *(len(row[i].text) for row in self.rows)]) for i, width in enumerate(least)
        ]


def layout(table: Table, room: int | None = None) -> Iterator[Line]:
    """The lines of a table, header first, in so many columns of a terminal; None: endless."""
    columns, widths = table.columns, table.widths
    header = [[TableCell(column.title, "bold") for column in columns]] if table.header else []
    texts = [i for i, column in enumerate(columns) if column.text]
    excess = 0 if room is None else sum(widths) + len(GAP) * (len(widths) - 1) - room
    if excess <= 0 or not texts or room is None:
        yield from (_line(columns, row, widths) for row in [*header, *table.rows])
    elif widths[texts[-1]] - excess >= NARROWEST_TEXT:
        widths[texts[-1]] -= excess
        for row in [*header, *table.rows]:
            yield from _wrapped(columns, row, widths, texts[-1])
    else:
        # Titles below titles would be confusing: texts need none.
        yield from (_without_texts(columns, row, widths) for row in header)
        for row in table.rows:
            yield from _stacked(columns, row, widths, room)


def _line(columns: Sequence[TableColumn], row: Line, widths: Sequence[int]) -> Line:
    line = []
    for column, cell, width in zip(columns, row, widths, strict=True):
        spaces = " " * (width - len(cell.text))
        line += [TableCell(spaces), cell] if column.right else [cell, TableCell(spaces)]
        line.append(TableCell(GAP))
    return line


def _wrapped(
    columns: Sequence[TableColumn], row: Line, widths: Sequence[int], text: int
) -> Iterator[Line]:
    """The row with one cell wrapped in its place."""
    first, *rest = _wrap(row[text].text, widths[text]) or [""]
    style = row[text].style
    yield _line(columns, [*row[:text], TableCell(first, style), *row[text + 1 :]], widths)
    blank = TableCell("")
    for part in rest:
        cells = [blank] * len(row)
        cells[text] = TableCell(part, style)
        yield _line(columns, cells, widths)


def _stacked(
    columns: Sequence[TableColumn], row: Line, widths: Sequence[int], room: int
) -> Iterator[Line]:
    """The row without its texts, and these below."""
    yield _without_texts(columns, row, widths)
    texts = [cell for cell, column in zip(row, columns, strict=True) if column.text and cell.text]
    if texts:
        joined = "; ".join(cell.text for cell in texts)
        for part in _wrap(joined, max(room - len(INDENT), NARROWEST_TEXT)):
            yield [TableCell(INDENT), TableCell(part, texts[-1].style)]


def _without_texts(columns: Sequence[TableColumn], row: Line, widths: Sequence[int]) -> Line:
    kept = [i for i, column in enumerate(columns) if not column.text]
    return _line([columns[i] for i in kept], [row[i] for i in kept], [widths[i] for i in kept])


def _wrap(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, break_on_hyphens=False)


def printable(text: str) -> str:
    """The text with control characters replaced, so that no terminal obeys them."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " if c.isspace() else "?" for c in text)


def printable_lines(text: str) -> str:
    """The same, with line ends kept."""
    return "\n".join(map(printable, text.split("\n")))

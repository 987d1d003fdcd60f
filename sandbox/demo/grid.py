"""Rows of cells in columns, laid out for a width; the least important columns go first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size
from rich.text import Text

GAP = 2
_LEAST_FLEX = 30
"""What the last column should have before another column is shown."""
_CONTROL = dict.fromkeys([*range(32), *range(127, 160)], "·")


@dataclass(frozen=True)
class GridCell:
    """A text and its style."""

    text: str
    style: str = ""


@dataclass(frozen=True)
class GridColumn:
    """A heading; how much a column matters (0: always shown); how wide it may become."""

    title: str
    rank: int = 0
    right: bool = False
    widest: int = 40


def layout(
    columns: Sequence[GridColumn], rows: Sequence[Sequence[GridCell]], width: int
) -> tuple[Text, list[Text]]:
    """The heading and a line per row, none wider than ``width``; the last column takes the rest."""
    natural = [
        min(column.widest, max([cell_len(column.title), *(cell_len(row[i].text) for row in rows)]))
        for i, column in enumerate(columns)
    ]
    shown = _shown(columns, natural, width)
    head = [GridCell(columns[i].title, "dim") for i in range(len(columns))]
    return _line(head, columns, natural, shown, width), [
        _line(row, columns, natural, shown, width) for row in rows
    ]


def _shown(columns: Sequence[GridColumn], natural: Sequence[int], width: int) -> list[int]:
    """The columns there is room for, and always the last."""
    kept = list(range(len(columns) - 1))
    last = min(_LEAST_FLEX, natural[-1])
    while kept:
        worst = max(kept, key=lambda i: (columns[i].rank, i))
        used = sum(natural[i] + GAP for i in kept)
        if used + last <= width or columns[worst].rank == 0:
            break
        kept.remove(worst)
    return [*kept, len(columns) - 1]


def _line(
    row: Sequence[GridCell],
    columns: Sequence[GridColumn],
    natural: Sequence[int],
    shown: Sequence[int],
    width: int,
) -> Text:
    line, left = Text(no_wrap=True, end=""), width
    for i in shown:
        final = i == shown[-1]
        room = left if final else min(natural[i], left)
        if room <= 0:
            break
        text = clipped(row[i].text, room)
        padded = " " * (room - cell_len(text)) if not final else ""
        line.append(padded + text if columns[i].right else text + padded, row[i].style)
        if not final:
            line.append(" " * min(GAP, left - room))
        left -= room + GAP
    return line


def clipped(text: str, width: int) -> str:
    """A text on one line, cut with an ellipsis if it is too wide."""
    text = text.translate(_CONTROL)
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, max(0, width - 1)).rstrip() + "…" if width > 0 else ""

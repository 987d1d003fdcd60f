"""Pictures as SVG text: the few shapes that our figures need, and nothing to install."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

import click

from scheduler.cli.exits import ERROR, fail
from scheduler.cli.tables import printable

WIDTH = 1000.0
MARGIN = 40.0
INK, SOFT, FAINT, GROUND = "#222", "#555", "#c8cdd3", "#e6e9ec"
COLOURS = (
    "#1f77b4", "#d95f02", "#2a9d4a", "#a6357a", "#7a5195", "#8c6d1f",
    "#c23b3b", "#0b8a8a", "#5b6abf", "#6b8e23", "#b04a9f", "#4d4d4d",
)  # fmt: skip
FONT = "font-family='DejaVu Sans, Verdana, sans-serif'"


class Picture:
    """Shapes on white ground, in the order in which they were added. Units are pixels."""

    def __init__(self, width: float, height: float, title: str) -> None:
        self._width = width
        self._height = height
        self._title = title
        self._shapes: list[str] = []

    def line(
        self,
        points: Sequence[tuple[float, float]],
        colour: str,
        width: float = 1.0,
        *,
        dashed: bool = False,
    ) -> None:
        """A line through points."""
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        dashes = " stroke-dasharray='4 3'" if dashed else ""
        self._shapes.append(
            f"<polyline points='{path}' fill='none' stroke='{colour}' "
            f"stroke-width='{width:.1f}'{dashes}/>"
        )

    def circle(self, x: float, y: float, radius: float, fill: str, stroke: str = "none") -> None:
        """A circle around a point."""
        self._shapes.append(
            f"<circle cx='{x:.1f}' cy='{y:.1f}' r='{radius:.1f}' fill='{fill}' stroke='{stroke}'/>"
        )

    def box(self, x: float, y: float, width: float, height: float, fill: str) -> None:
        """A filled rectangle, by its upper left corner."""
        self._shapes.append(
            f"<rect x='{x:.1f}' y='{y:.1f}' width='{max(width, 0):.1f}' "
            f"height='{max(height, 0):.1f}' fill='{fill}'/>"
        )

    def text(
        self,
        x: float,
        y: float,
        words: str,
        *,
        size: float = 11,
        anchor: str = "start",
        colour: str = "#222",
        bold: bool = False,
        ground: bool = False,
    ) -> None:
        """Words beside (or, anchored, around) a point; white ground keeps lines off them."""
        weight = " font-weight='bold'" if bold else ""
        if ground:
            width = 0.62 * size * len(words) + 4
            left = x - width * {"start": 0.0, "middle": 0.5, "end": 1.0}[anchor]
            self.box(left, y - size, width, size * 1.3, "white")
        self._shapes.append(
            f"<text x='{x:.1f}' y='{y:.1f}' {FONT} font-size='{size:.1f}' fill='{colour}' "
            f"text-anchor={quoteattr(anchor)}{weight}>{escape(printable(words))}</text>"
        )

    def render(self) -> str:
        """The picture as a document."""
        size = f"width='{self._width:.0f}' height='{self._height:.0f}'"
        box = f"viewBox='0 0 {self._width:.0f} {self._height:.0f}'"
        return "\n".join(
            (
                f"<svg xmlns='http://www.w3.org/2000/svg' {size} {box} role='img'>",
                f"<title>{escape(printable(self._title))}</title>",
                f"<rect width='{self._width:.0f}' height='{self._height:.0f}' fill='white'/>",
                *self._shapes,
                "</svg>\n",
            )
        )


def write(picture: str, file: Path) -> None:
    """Write a picture to a file; ends the command if that cannot be done."""
    try:
        file.write_text(picture, encoding="utf-8")
    except OSError as fault:
        fail(f"{file}: {fault.strerror}", ERROR)


def check_name(file: Path) -> None:
    """Refuse names of other kinds of pictures, before anything is simulated."""
    if file.suffix.lower() != ".svg":
        raise click.UsageError(f"--plot: pictures are SVG: {file} does not end in .svg")


def shortened(name: str, most: int = 22) -> str:
    """A name, without its middle if it is long."""
    half = (most - 2) // 2
    return name if len(name) <= most else f"{name[:half]}…{name[-half:]}"

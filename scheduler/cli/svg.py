"""Pictures as SVG text: the few shapes that our figures need, and nothing to install."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape, quoteattr

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
            f"text-anchor={quoteattr(anchor)}{weight}>{escape(words)}</text>"
        )

    def render(self) -> str:
        """The picture as a document."""
        size = f"width='{self._width:.0f}' height='{self._height:.0f}'"
        box = f"viewBox='0 0 {self._width:.0f} {self._height:.0f}'"
        return "\n".join(
            (
                f"<svg xmlns='http://www.w3.org/2000/svg' {size} {box} role='img'>",
                f"<title>{escape(self._title)}</title>",
                f"<rect width='{self._width:.0f}' height='{self._height:.0f}' fill='white'/>",
                *self._shapes,
                "</svg>\n",
            )
        )

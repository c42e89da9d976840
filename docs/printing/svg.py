"""Functions that return parts of an SVG picture: boxes with lines of text, arrows, and the whole."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

from attrs import frozen

LINE: Final = 17
"""Height of a line of text, in pixels."""

_STYLE: Final = (
    "text{font:13px ui-sans-serif,system-ui,sans-serif;fill:#1f2937}"
    ".title{font-weight:600}.small{font-size:11px;fill:#4b5563}"
    ".box{fill:#fff;stroke:#6b7280}.strong{fill:#eef2ff;stroke:#4f46e5}"
    ".arrow{fill:none;stroke:#6b7280;marker-end:url(#head)}.back{stroke:#b45309;stroke-dasharray:4 3}"
)
_HEAD: Final = (
    '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
    '<path d="M0 0 8 4 0 8z" fill="#6b7280"/></marker>'
)


@frozen
class Box:
    """A box with a title and lines below it."""

    x: int
    """Left edge, in pixels."""
    y: int
    """Upper edge, in pixels."""
    width: int
    """Width, in pixels."""
    title: str
    """Its first line."""
    lines: Sequence[str] = ()
    """The lines below the title."""
    is_strong: bool = False
    """Whether it stands out from the others."""

    @property
    def height(self) -> int:
        """Height in pixels, by the number of lines."""
        return LINE * (len(self.lines) + 1) + 14

    @property
    def right(self) -> int:
        """Right edge, in pixels."""
        return self.x + self.width

    @property
    def bottom(self) -> int:
        """Lower edge, in pixels."""
        return self.y + self.height


def box(shape: Box) -> list[str]:
    """Return the elements of a box."""
    rows = [
        f'<text x="{shape.x + 10}" y="{shape.y + LINE * (number + 1) + 2}"'
        f' class="{"small" if number else "title"}">{escape(line)}</text>'
        for number, line in enumerate((shape.title, *shape.lines))
    ]
    kind = "strong" if shape.is_strong else "box"
    frame = f'<rect x="{shape.x}" y="{shape.y}" width="{shape.width}" height="{shape.height}" rx="6" class="{kind}"/>'
    return [frame, *rows]


def arrow(points: Sequence[tuple[int, int]], *, is_back: bool = False) -> str:
    """Return an arrow along *points*; one that leads back is dashed."""
    path = " ".join(f"{x},{y}" for x, y in points)
    return f'<polyline points="{path}" class="arrow{" back" if is_back else ""}"/>'


def text_width(text: str) -> int:
    """Return about how wide a small text is, in pixels."""
    return round(5.9 * len(text))


def label(x: int, y: int, text: str) -> list[str]:
    """Return a small text, on a white ground so that lines behind it do not cross it."""
    ground = f'<rect x="{x - 3}" y="{y - 11}" width="{text_width(text) + 6}" height="14" fill="#fff"/>'
    return [ground, f'<text x="{x}" y="{y}" class="small">{escape(text)}</text>']


def picture(width: int, height: int, about: str, elements: Iterable[str]) -> str:
    """Return the whole picture; *about* says what is on it to those who do not see it."""
    frame = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img">'
    ground = f'<rect width="{width}" height="{height}" rx="8" fill="#fff"/>'
    head = (frame, f"<title>{escape(about)}</title>", f"<style>{_STYLE}</style>", f"<defs>{_HEAD}</defs>", ground)
    return "\n".join([*head, *elements, "</svg>", ""])

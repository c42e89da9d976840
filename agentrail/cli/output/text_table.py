"""`aligned`: rows of cells as lines of text, in which the cells of a column begin below each other."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from agentrail.cli.output.screen import clean, clipped, columns, one_line

GAP: Final = "  "
"""What stands between two cells."""


def aligned(rows: Sequence[Sequence[str]], width: int, right: Collection[int] = ()) -> list[str]:
    """Return *rows* as lines of at most *width* columns; the cells of the columns *right* end below each other."""
    plain = [[one_line(clean(cell)) for cell in row] for row in rows]
    widths = [max(map(columns, column)) for column in zip(*plain, strict=True)]
    lines: list[str] = []
    for row in plain:
        cells = [_padded(cell, widths[index], index in right) for index, cell in enumerate(row)]
        lines.append(clipped(GAP.join(cells).rstrip(), width))
    return lines


def _padded(cell: str, width: int, is_right: bool) -> str:
    space = " " * (width - columns(cell))
    return space + cell if is_right else cell + space

"""`DrawnText`: draws typed text so that it commands no terminal, and of a long line what is around the cursor."""

from __future__ import annotations

from typing import Final

from prompt_toolkit.formatted_text import fragment_list_to_text
from prompt_toolkit.layout.processors import Processor, Transformation, TransformationInput

from agentrail.cli.output.screen import clean

MOST: Final = 2_000
"""The most characters of a line that are drawn, before and after the cursor: all of them are laid out at each key."""


class DrawnText(Processor):
    """Draws tabs as spaces, and what could command the terminal, or mislead, as a replacement character."""

    def apply_transformation(self, transformation_input: TransformationInput) -> Transformation:
        """Return how a line is drawn, and where each of its characters is."""
        text = fragment_list_to_text(transformation_input.fragments)
        row, column = transformation_input.document.translate_index_to_position(
            transformation_input.document.cursor_position
        )
        start = max(column - MOST, 0) if row == transformation_input.lineno else 0
        piece = text[start : start + 2 * MOST]

        def to_display(index: int) -> int:
            return len(clean(piece[: max(index - start, 0)]))

        def to_source(column: int) -> int:
            return next(
                (start + index for index in range(len(piece)) if to_display(start + index + 1) > column), len(text)
            )

        return Transformation([("", clean(piece))], to_display, to_source)

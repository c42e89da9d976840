"""`difference_rows`: the rows of a terminal that show what differs between two texts.

A line has its number in the old text and in the new one, a mark, and its text, in which what nobody sees is escaped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from agentrail.cli.output.screen import Flow, ScreenText, Tone, escaped, line
from agentrail.insight.text_difference import Hunk, HunkRow, Mark, TextDifference

TONES: Final[Mapping[Mark, Tone]] = {"-": Tone.BAD, "+": Tone.GOOD, " ": Tone.DIM}
"""The tone of a row, by its mark."""

NO_END: Final = " (no end of line)"
"""Behind a line that is the last one of its text and lacks its end, if the other text has one."""

NOTHING: Final = "    nothing changes"

TAB: Final = "\u21e5   "
"""How a tab is shown; the sign itself, where a text has it, is escaped."""

INDENT: Final = "    "


def difference_rows(difference: TextDifference, *, has_numbers: bool = True) -> Iterator[ScreenText]:
    """Yield the rows of a *difference*; *has_numbers*: the texts are those of a whole file."""
    if not difference.hunks:
        yield line(NOTHING, Tone.DIM)
    width = len(str(difference.lines + difference.added)) if has_numbers else 0
    shown_to = 0  # number of the last old line that is shown
    for hunk in difference.hunks:
        if has_numbers and hunk.old - 1 > shown_to:
            yield _staying(hunk.old - 1 - shown_to)
        yield from _hunk_rows(hunk, width)
        shown_to = hunk.old - 1 + sum(row.mark != "+" for row in hunk.rows)
    if difference.left_out:
        yield line(f"{INDENT}… {_counted(difference.left_out)} more of this change, too many to be kept", Tone.DIM)
    elif has_numbers and difference.hunks and difference.lines > shown_to:
        yield _staying(difference.lines - shown_to)


def _staying(count: int) -> ScreenText:
    return line(f"{INDENT}… {_counted(count)} {'stays as it is' if count == 1 else 'stay as they are'}", Tone.DIM)


def _counted(count: int) -> str:
    return f"{count} line{'' if count == 1 else 's'}"


def _hunk_rows(hunk: Hunk, width: int) -> Iterator[ScreenText]:
    for old, new, row in hunk.numbered():
        numbers = f"{old or '':>{width}} {new or '':>{width}} " if width else ""
        yield _row(f"{INDENT}{numbers}{row.mark} ", row)


def _row(head: str, row: HunkRow) -> ScreenText:
    text, marks = head, list[tuple[int, int]]()
    for number, part in enumerate(row.parts):
        start, text = len(text), text + shown_part(part)
        if number % 2 and start < len(text):
            marks.append((start, len(text)))
    text += NO_END if row.lacks_end else ""
    return ScreenText(Flow.LINE, text, TONES[row.mark], marks=tuple(marks), hang=len(head))


def shown_part(text: str) -> str:
    """Return a piece of a line with tabs and all that nobody sees in signs."""
    return TAB.join(escaped(piece).replace(TAB[0], f"\\u{ord(TAB[0]):04x}") for piece in text.split("\t"))

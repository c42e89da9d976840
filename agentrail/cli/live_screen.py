"""`LiveScreen`: a terminal's own history of finished rows, and below it the rows that still change.

What is finished is written once, so the terminal scrolls, searches and copies it as anything else. Only the block of
text that is being written, the status, the typed line and the line about the session are drawn anew, in their place.

It does no I/O: `draw` returns the characters to write.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil
from typing import Final, TypeAlias

from agentrail.cli.line_editor import EditedLine
from agentrail.cli.screen import (
    TONES,
    Flow,
    ScreenText,
    TerminalStyle,
    Tone,
    clean,
    clipped,
    columns,
    painted,
    wrapped,
)
from agentrail.cli.text_blocks import TextBlocks

PROMPT: Final = "> "
MORE: Final = "  "
"""Before the further rows of a typed text."""

MOST_TYPED: Final = 10
"""The most rows of the text that is being typed."""

MOST_OTHERS: Final = 4
"""The most live rows beside it, and beside the text that is being written: the status, and those below."""

MOST_THOUGHT: Final = 3
"""The most rows of thoughts that are shown while they come; then one row is left of them."""

MOST_LAID_OUT: Final = 2_000
"""The most characters of the block that is being written that are laid out anew at each change."""

FIRST_WORDS: Final = 60
"""The most columns of thoughts that are left of them."""

BEGIN: Final = "\x1b[?2026h"
"""Has a terminal that can do it show nothing before `END`: what is erased and drawn again does not flicker."""

END: Final = "\x1b[?2026l"

Format: TypeAlias = Callable[[str, TerminalStyle], Sequence[str]]
"""Returns the rows of a block of text, none of them wider than the terminal."""


class LiveScreen:
    """The screen of a terminal in raw mode: finished rows scroll up, and the rows below them are redrawn."""

    def __init__(self, look: TerminalStyle, to_rows: Format) -> None:
        self.to_rows = to_rows
        """Lays out what the model says."""
        self._look = look
        self._finished: list[str] = []  # finished rows that were not written yet
        self._open: Flow | None = None
        self._blocks = TextBlocks()
        self._status = ""
        self._drawn: tuple[str, ...] = ()  # the rows on the screen that the next `draw` replaces
        self._cursor = (0, 0)  # cursor in `_drawn`: row and column

    def resize(self, look: TerminalStyle) -> None:
        """Use the size in *look* for everything that is laid out from now on."""
        self._look = look

    def put(self, piece: ScreenText) -> None:
        """Add *piece*. An aside is printed at once, above the text that is still being written."""
        text = clean(piece.text)
        match piece.flow:
            case Flow.ECHO:
                pass
            case Flow.STATUS:
                self._status = painted(clipped(text.replace("\n", " "), self._look.room), piece.tone, self._look)
            case Flow.TEXT | Flow.THOUGHT if text:
                self._append(piece.flow, text)
            case Flow.ASIDE:
                self._print(text, piece.tone)
            case Flow.LINE:
                self.close()
                self._print(text, piece.tone)
            case _:
                pass

    def close(self) -> None:
        """Finish the text that is being written, and clear the status."""
        if self._open is Flow.TEXT:
            self._finish(self._blocks.rest())
        elif self._open is Flow.THOUGHT:
            words = self._blocks.rest().split()
            if words:
                self._print(f"  ✻ {clipped(' '.join(words), FIRST_WORDS)} ({len(words)} words; /show)", Tone.DIM)
        self._open, self._status, self._blocks = None, "", TextBlocks()

    def send(self, line: EditedLine) -> None:
        """Move the typed *line*, which was sent, up to the finished rows."""
        rows = _typed_rows(line.but(at=0), self._look)[0]
        self._finished.extend(painted(row, Tone.BOLD, self._look) for row in rows)
        if (count := line.text.count("\n") + 1) > len(rows):
            self._print(f"{MORE}… {count} lines", Tone.DIM)

    def forget(self) -> None:
        """Forget what was drawn, because another program may have overwritten the screen."""
        self._drawn, self._cursor = (), (0, 0)

    def draw(self, line: EditedLine, *, prompts: bool, below: Sequence[str] = ()) -> str:
        """Return the terminal output that writes the finished rows, and redraws the live rows below them.

        *below* are rows to show under the typed line; *prompts*: show the prompt also if nothing is typed.
        """
        typed, cursor = _typed_rows(line, self._look) if prompts or line.text else ([], (0, 0))
        under = [painted(clipped(clean(row), self._look.room), Tone.DIM, self._look) for row in below]
        status = [self._status] if self._status else []
        room = self._look.height - 1 - len(typed) - len(under) - len(status)
        above = [*self._open_rows()[-room:], *status] if room > 0 else []
        rows = (*above, *typed, *under)
        at = (len(above) + cursor[0], cursor[1]) if typed else (max(len(rows) - 1, 0), _end_of(rows[-1:]))
        if not self._finished and (rows, at) == (self._drawn, self._cursor):
            return ""
        text = self._erase() + "".join(f"{row}\n" for row in self._finished) + "\n".join(rows) + _move(rows, at)
        self._finished, self._drawn, self._cursor = [], rows, at
        return f"{BEGIN}{text}{END}"

    def end(self) -> str:
        """Return the terminal output that writes everything left, and puts the cursor at the beginning of a row."""
        self.close()
        text = self._erase() + "".join(f"{row}\n" for row in self._finished)
        self._finished, self._drawn, self._cursor = [], (), (0, 0)
        return text

    def _append(self, flow: Flow, text: str) -> None:
        if self._open is not flow:
            self.close()
        self._open, self._status = flow, ""
        self._blocks.add(text)
        if flow is Flow.TEXT:
            for block in self._blocks.take():
                self._finish(block)

    def _finish(self, block: str) -> None:
        rows = self.to_rows(block, self._look) if block.strip() else ()
        if rows and self._blocks.has_begun:
            self._finished.append("")
        self._finished.extend(rows)
        self._blocks.has_begun = self._blocks.has_begun or bool(rows)

    def _open_rows(self) -> list[str]:
        """Return the last rows of the text that is still being written, as many as fit."""
        tail = self._blocks.text[-MOST_LAID_OUT:]
        match self._open:
            case Flow.TEXT if tail.strip():
                is_whole = len(tail) == len(self._blocks.text)
                rows = self.to_rows(tail, self._look) if is_whole else wrapped(tail, self._look.room)
                return ["", *rows] if self._blocks.has_begun else list(rows)
            case Flow.THOUGHT:
                rows = wrapped(tail.strip(), self._look.room - 2)[-MOST_THOUGHT:]
                return [painted(f"  {row}", Tone.DIM, self._look) for row in rows]
            case _:
                return []

    def _print(self, text: str, tone: Tone) -> None:
        self._finished.extend(painted(row, tone, self._look) for row in wrapped(text, self._look.room))

    def _erase(self) -> str:
        """Return the terminal output that erases the drawn rows and leaves the cursor at the first of them.

        A terminal that has become narrower has broken rows in two.
        """
        row, column = self._cursor
        above = sum(max(ceil(_end_of([text]) / self._look.width), 1) for text in self._drawn[:row])
        up = above + column // self._look.width
        return "\r" + (f"\x1b[{up}A" if up else "") + "\x1b[J"


def _end_of(rows: Sequence[str]) -> int:
    return columns(TONES.sub("", rows[-1])) if rows else 0


def _move(rows: Sequence[str], at: tuple[int, int]) -> str:
    """Return the terminal output that moves the cursor from the end of the last row to *at*."""
    up = len(rows) - 1 - at[0]
    right = f"\x1b[{at[1]}C" if at[1] else ""
    return (f"\x1b[{up}A" if up > 0 else "") + f"\r{right}" if rows else ""


def _typed_rows(line: EditedLine, look: TerminalStyle) -> tuple[list[str], tuple[int, int]]:
    """Return the rows of the typed text around its cursor, and the row and column of the cursor among them."""
    most = max(min(MOST_TYPED, look.height - MOST_OTHERS), 1)
    rows, (row, column) = line.visible_rows(max(look.room - len(PROMPT), 1), most)
    lines = [f"{PROMPT if number == 0 else MORE}{text}" for number, text in enumerate(rows)]
    lines[0] = painted(PROMPT, Tone.BOLD, look) + rows[0]
    return lines, (row, column + len(PROMPT))

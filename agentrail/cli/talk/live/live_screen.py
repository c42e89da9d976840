"""`LiveScreen`: a terminal's own history of finished rows, and the rows that still change.

What is finished is written once, so the terminal scrolls, searches and copies it as anything else. Only the block of
text that is being written, the status and a question are drawn anew, below it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from agentrail.cli.output.screen import (
    Flow,
    ScreenText,
    TerminalStyle,
    Tone,
    clean,
    clipped,
    cut_to_rows,
    line,
    painted,
    wrapped,
)
from agentrail.cli.talk.live.markdown_rows import markdown_rows
from agentrail.cli.talk.live.text_blocks import TextBlocks

PROMPT: Final = "> "
MORE: Final = "  "
"""Before the further rows of a typed text."""

MOST_TYPED: Final = 10
"""The most rows of the text that is being typed."""

MOST_THOUGHT: Final = 3
"""The most rows of thoughts that are shown while they come; then one row is left of them."""

MOST_LAID_OUT: Final = 2_000
"""The most characters of the block that is being written that are laid out anew at each change."""

BESIDE: Final = 8
"""The rows of the screen that a question leaves free for the typed text and what is around it."""

FOLDED: Final = "    … {} more rows; Enter shows them"
"""In the place of the rows of a question that are folded."""

FIRST_WORDS: Final = 60
"""The most columns of thoughts that are left of them."""


class LiveScreen:
    """What a conversation shows: rows that are finished, and below them those that change."""

    def __init__(self, look: TerminalStyle) -> None:
        self._look = look
        self._finished: list[str] = []  # finished rows that were not taken yet
        self._open: Flow | None = None
        self._blocks = TextBlocks()
        self._status = ""
        self._question: Sequence[ScreenText] = ()
        self._question_end = 0  # how many of its last rows are never folded; 0 if none of it is
        self._question_rows: Sequence[str] = ()  # its rows that change, as they are drawn
        self._left_out = 0  # how many of its rows are folded
        self._taken_rows = 0  # rows that were finished and taken, so far
        # How many rows were finished before those of the question; `None` if it is among the rows that change
        self._question_from: int | None = None

    def resize(self, look: TerminalStyle) -> None:
        """Use the size in *look* for everything that is laid out from now on, the question too."""
        self._look = look
        if self._question_from is not None:  # its rows may have been broken in two
            self._question_from = -look.height
        self._make_room()

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
                self._finish_rows(piece)
            case Flow.LINE:
                self.close()
                self._finish_rows(piece)
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

    def ask(self, question: Sequence[ScreenText], end: int = 0) -> None:
        """Show *question* below all else until another one takes its place, or none.

        A screen that has no room for all of it gets it as finished rows, of which the last one stays below. With *end*,
        the rows before that many last ones are folded instead, until `unfold` is called.
        """
        self._question, self._question_end = question, end
        self._question_from = None
        self._make_room()

    @property
    def is_folded(self) -> bool:
        """Whether rows of the question are left out, for which the screen has no room."""
        return self._left_out > 0

    def unfold(self) -> None:
        """Show all of the question, as finished rows."""
        self._question_end = 0
        self._make_room()

    def is_question_in_sight(self, below: int) -> bool:
        """Whether the terminal has room for the question, for what came after its beginning, and *below* more rows."""
        if self.is_folded:
            return False
        since = 0 if self._question_from is None else self._taken_rows + len(self._finished) - self._question_from
        return since + len(self._question_rows) + below <= self._look.height

    def _make_room(self) -> None:
        """Lay the question out: in the rows that change, without those that are folded, or as finished rows."""
        rows, self._left_out = self._rows_of(self._question), 0
        if self._question_end:
            end = self._rows_of(self._question[-self._question_end :])
            most = max(self._look.height - BESIDE, self._look.height // 2, len(end) + 2)
            if len(rows) > most:
                self._left_out = len(rows) - most + 1
                note = line(FOLDED.format(self._left_out), Tone.ASKING)
                rows = [*rows[: most - len(end) - 1], *note.drawn(self._look)[:1], *end]
        elif len(self._question) > 1 and len(rows) > self._look.height // 2:
            self._question_from = self._taken_rows + len(self._finished)
            for piece in self._question[:-1]:
                self.put(piece)
            self._question = self._question[-1:]
            rows = self._rows_of(self._question)
        self._question_rows = rows

    def send(self, text: str) -> None:
        """Show the typed *text*, which was sent, as finished rows."""
        width = max(self._look.room - len(PROMPT), 1)
        lines = clean(text[: width * MOST_TYPED]).split("\n")
        rows = [row for line in lines for row in cut_to_rows(line, width)][:MOST_TYPED]
        marked = [f"{MORE if number else PROMPT}{row}" for number, row in enumerate(rows)]
        self._finished.extend(painted(row, Tone.BOLD, self._look) for row in marked)
        if (count := text.count("\n") + 1) > len(rows):
            self._print(f"{MORE}… {count} lines", Tone.DIM)

    def take_finished(self) -> list[str]:
        """Return the rows that were finished since the last time."""
        rows, self._finished = self._finished, []
        self._taken_rows += len(rows)
        return rows

    def changing_rows(self, most: int) -> list[str]:
        """Return the rows that still change, at most *most*; of the text that is being written, the last ones."""
        below = [*([self._status] if self._status else []), *self._question_rows]
        above = self._open_rows()
        return [*above[max(len(above) + len(below) - most, 0) :], *below]

    def _append(self, flow: Flow, text: str) -> None:
        if self._open is not flow:
            self.close()
        self._open, self._status = flow, ""
        self._blocks.add(text)
        if flow is Flow.TEXT:
            for block in self._blocks.take():
                self._finish(block)

    def _finish(self, block: str) -> None:
        rows = markdown_rows(block, self._look) if block.strip() else ()
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
                rows = markdown_rows(tail, self._look) if is_whole else wrapped(tail, self._look.room)
                return ["", *rows] if self._blocks.has_begun else list(rows)
            case Flow.THOUGHT:
                rows = wrapped(tail.strip(), self._look.room - 2)[-MOST_THOUGHT:]
                return [painted(f"  {row}", Tone.DIM, self._look) for row in rows]
            case _:
                return []

    def _finish_rows(self, piece: ScreenText) -> None:
        self._finished.extend(piece.drawn(self._look))

    def _print(self, text: str, tone: Tone) -> None:
        self._finished.extend(painted(row, tone, self._look) for row in wrapped(text, self._look.room))

    def _rows_of(self, pieces: Sequence[ScreenText]) -> list[str]:
        return [row for piece in pieces for row in piece.drawn(self._look)]

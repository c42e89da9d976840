"""`Terminal`: reads typed lines and shows output, so that neither garbles the other.

If input and output are a terminal that sends single keys, the line being typed stays below the output. A whole line of
output is written above it; other output waits until the line is finished. With pipes, lines are read as they come.
"""

from __future__ import annotations

import codecs
import math
import os
import shutil
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import groupby
from typing import Final, TextIO

import trio

from agentrail.cli.line_editor import END_OF_INPUT, END_OF_PASTE, ENTER, LATER, PASTE, EditedLine, is_text, keys_in
from agentrail.cli.screen import ERASE, Flow, Screen, ScreenText, TerminalStyle, Tone, columns, painted, put_all

CHUNK: Final = 4096
PROMPT: Final = "> "

MARK_PASTES: Final = "\x1b[?2004h"
"""Has a terminal say where a paste begins and ends."""

MARK_NO_PASTES: Final = "\x1b[?2004l"

LOST_END: Final = 1.0
"""Seconds of silence after which a paste has ended without its end mark, which would be waited for ever."""

CONTINUES: Final = "\\"
"""At the end of a typed line: the text goes on in the next line."""

QUEUES: Final = "/later "
"""Begins a line whose text is a prompt for later."""


def has_keys(source: TextIO, target: TextIO) -> bool:
    """Whether input and output are both a terminal that can send single keys and rewrite a line; never on Windows."""
    return (
        find_spec("termios") is not None
        and source.isatty()
        and target.isatty()
        and os.environ.get("TERM", "dumb") != "dumb"
    )


def look_of(source: TextIO, target: TextIO) -> TerminalStyle:
    """Return whether the output takes colours, can rewrite lines and shows what is typed, and its width."""
    return TerminalStyle(
        colours=target.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb",
        rewrites=has_keys(source, target),
        echoes=source.isatty() and target.isatty(),
        width=_width(),
    )


def _width() -> int:
    return shutil.get_terminal_size().columns


class Terminal:
    """Input and output of one terminal, or of two pipes."""

    def __init__(self, source: TextIO, target: TextIO) -> None:
        self.look = look_of(source, target)
        self.keys = has_keys(source, target)
        self.by_hand = source.isatty()
        self.gone = False
        self._given = source.fileno()
        self._shown = target
        self._screen = Screen()
        self._line = EditedLine()
        self._prompts = False
        self._drawn = False
        self._waiting: list[ScreenText] = []
        self._decode = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""
        self._unused: tuple[str, ...] = ()
        self._over = False

    # Opening and closing

    @contextmanager
    def opened(self) -> Generator[None, None, None]:
        """Read single keys within this block, then restore the terminal's modes; no-op if `keys` is false."""
        if not self.keys:
            yield
            return
        from agentrail.cli import terminal_modes  # noqa: PLC0415 - not there on every system

        with terminal_modes.kept(self._given):
            self.resume()
            try:
                yield
            finally:
                self.end_line()
                self._write(MARK_NO_PASTES)

    def resume(self) -> None:
        """Set the terminal's modes, at the start and after a stop by job control."""
        if self.keys:
            from agentrail.cli import terminal_modes  # noqa: PLC0415 - not there on every system

            terminal_modes.hand_over_keys(self._given)
            self._write(MARK_PASTES)
            self._drawn = False
            self._draw()

    def drop_typed_ahead(self) -> None:
        """Drop what a person has typed and what is not read yet; no-op with a pipe."""
        if self.by_hand and find_spec("termios") is not None:
            from agentrail.cli import terminal_modes  # noqa: PLC0415 - not there on every system

            terminal_modes.drop_typed_ahead(self._given)

    def end_line(self) -> None:
        """Drop the typed text, and leave the cursor at the beginning of a line."""
        self._prompts = False
        self.drop_typed()
        self._write(self._screen.joint)
        self._screen = Screen()

    # Out

    def show(self, pieces: Sequence[ScreenText]) -> None:
        """Put *pieces* on the screen.

        While a line is typed, they wait until it is sent or emptied, or until one of *pieces* is a line of its own.
        Then all that wait are written above the typed line.
        """
        self._waiting.extend(pieces)
        ends_in_a_line = any(piece.flow is Flow.LINE for piece in pieces)
        if not self._line.text or ends_in_a_line:
            self._flush()

    def prompt(self, *, wanted: bool) -> None:
        """Show or hide the prompt: it is hidden while a session works."""
        if wanted != self._prompts:
            self._prompts = wanted
            self._redraw()

    def offer(self, text: str) -> None:
        """Begin the next line with *text*, which the person may edit; if keys are not read singly, only show it."""
        if self.keys:
            self._line = self._line.says(text)
            self._redraw()
        else:
            self.show((ScreenText(Flow.LINE, text),))

    def drop_typed(self) -> bool:
        """Drop the text that was typed and not sent; return whether there was any."""
        typed = bool(self._line.text)
        self._line = self._line.says("")
        self._redraw()
        return typed

    def _flush(self) -> None:
        self._undraw()
        self.look = self.look.but(width=_width())
        waiting, self._waiting = self._waiting, []
        self._screen, text = put_all(self._screen, waiting, self.look)
        self._write(text)
        self._draw()

    def _redraw(self) -> None:
        if self._line.text:
            self._undraw()
            self._draw()
        else:
            self._flush()

    def _undraw(self) -> None:
        if self._drawn:
            self._write(ERASE)
            self._drawn = False

    def _draw(self) -> None:
        if not self.keys or not (self._line.text or (self._prompts and self._screen.open is None)):
            self._write("")
            return
        room = max(_width() - columns(PROMPT) - 1, 1)
        text, at = self._line.visible_part(room)
        back = columns(text) - at
        self._write(
            self._screen.joint + painted(PROMPT, Tone.BOLD, self.look) + text + (f"\x1b[{back}D" if back else "")
        )
        self._screen = Screen()
        self._drawn = True

    def _write(self, text: str) -> None:
        """Write *text*; if the output is closed, set `gone`, and write nothing from then on."""
        if not self.gone:
            encoding = self._shown.encoding or "utf-8"
            try:
                self._shown.write(text.encode(encoding, "replace").decode(encoding))
                self._shown.flush()
            except OSError:
                self.gone = True

    # In

    async def read(self) -> tuple[str, ...] | None:
        """Wait for whole lines and return them; `None` if the input has ended."""
        if self._unused:
            lines, self._unused = self._unused, ()
            return lines
        while not self._over:
            typed = END_OF_PASTE.encode()
            is_in_paste = self.keys and self._rest.startswith(PASTE)
            with trio.move_on_after(LOST_END if is_in_paste else math.inf):
                typed = await self._receive()
            self._over = not typed
            self._rest += self._decode.decode(typed, final=not typed)
            lines = self._typed() if self.keys else self._come()
            if lines:
                return lines
        return None

    def put_back(self, lines: tuple[str, ...]) -> None:
        """Have the next `read` return *lines*, which the caller has not used."""
        self._unused = lines

    async def _receive(self) -> bytes:
        try:
            await trio.lowlevel.wait_readable(self._given)
        except OSError:  # the system cannot wait for some inputs, such as files
            return await trio.to_thread.run_sync(os.read, self._given, CHUNK, abandon_on_cancel=True)
        try:
            return os.read(self._given, CHUNK)
        except OSError:  # the terminal was closed
            return b""

    def _come(self) -> tuple[str, ...]:
        *lines, self._rest = self._rest.split("\n")
        if self._over and self._rest:
            lines.append(self._rest)
        return tuple(line.removesuffix("\r") for line in lines)

    def _typed(self) -> tuple[str, ...]:
        """Apply the received keys to the line, and return the lines that they finished."""
        keys, self._rest = keys_in(self._rest)
        lines: list[str] = []
        for are_text, run in groupby(keys, is_text):
            if self._over:
                break
            if are_text:
                self._line = self._line.insert("".join(run))
            else:
                lines.extend(self._pressed(run))
        if keys:
            self._redraw()
        return tuple(lines)

    def _pressed(self, keys: Iterator[str]) -> Iterator[str]:
        """Apply *keys*, none of which is text, and yield the lines that they finish."""
        for key in keys:
            if key == ENTER and self._line.text.endswith(CONTINUES):
                self._line = self._line.says(f"{self._line.text.removesuffix(CONTINUES)}\n")
            elif key in {ENTER, LATER}:
                yield f"{QUEUES}{self._line.text}" if key == LATER and self._line.text else self._line.text
                self._finish()
            elif key == END_OF_INPUT and not self._line.text:
                self._over = True
                break
            else:
                self._line = self._line.press(key)

    def _finish(self) -> None:
        """Leave the finished line on the screen, and begin a new one; `prompt` shows the next prompt."""
        if self._line.text or self._drawn:
            self._undraw()
            self._draw()
            self._write("\n")
            self._drawn = False
        self._prompts = False
        self._line = self._line.end_line()

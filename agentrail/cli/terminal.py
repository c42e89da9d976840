"""`Terminal`: reads typed lines and shows output, so that neither garbles the other.

If input and output are a terminal that sends single keys, what is typed stays below the output (`LiveScreen`). With
pipes, lines are read as they come, and output is written at once.
"""

from __future__ import annotations

import codecs
import io
import math
import os
import shutil
import signal
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import groupby
from typing import Final, TextIO

import trio

from agentrail.cli.line_editor import (
    COMPLETE,
    END_OF_INPUT,
    END_OF_PASTE,
    ENTER,
    LATER,
    PASTE,
    EditedLine,
    is_text,
    keys_in,
)
from agentrail.cli.live_screen import Format, LiveScreen
from agentrail.cli.markdown_rows import plain_rows, text_format
from agentrail.cli.screen import Flow, Screen, ScreenText, TerminalStyle, put_all

CHUNK: Final = 4096

FRAME: Final = 0.05
"""Seconds between two drawings of what changes: text that comes faster is seen together."""

MOST_OFFERED: Final = 8
"""The most ways to go on with a word that are shown."""

MARK_PASTES: Final = "\x1b[?2004h"
"""Has a terminal say where a paste begins and ends."""

MARK_NO_PASTES: Final = "\x1b[?2004l"

LOST_END: Final = 1.0
"""Seconds of silence after which a paste has ended without its end mark, which would be waited for ever."""

CONTINUES: Final = "\\"
"""At the end of a typed line: the text goes on in the next line."""

ESCAPING: Final = frozenset({"ANSICON", "TERM", "WT_SESSION"})
"""Variables of the environment that terminals of Windows set which understand escape sequences."""

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
    """Return whether the output takes colours, can rewrite lines and shows what is typed, and its size."""
    size = _size_of(target)
    return TerminalStyle(
        colours=target.isatty() and not os.environ.get("NO_COLOR") and _has_escapes(),
        rewrites=has_keys(source, target),
        echoes=source.isatty() and target.isatty(),
        width=size.columns,
        height=size.lines,
    )


def _size_of(target: TextIO) -> os.terminal_size:
    """Return columns and lines of the terminal that *target* leads to, which need not be standard output."""
    usual = shutil.get_terminal_size()
    try:
        size = os.get_terminal_size(target.fileno())
    except OSError:
        return usual
    return os.terminal_size((size.columns or usual.columns, size.lines or usual.lines))


def _has_escapes() -> bool:
    """Whether a terminal understands escape sequences; of those of Windows, only the ones that say so."""
    if sys.platform == "win32" and not os.environ.keys() & ESCAPING:
        return False
    return os.environ.get("TERM") != "dumb"


def _common(words: Sequence[str]) -> str:
    """Return the longest common prefix of *words*."""
    if not words:
        return ""
    first, last = min(words), max(words)
    return next((first[:at] for at, char in enumerate(first) if last[at : at + 1] != char), first)


class Terminal:
    """Input and output of one terminal, or of two pipes."""

    def __init__(self, source: TextIO, target: TextIO) -> None:
        self.look = look_of(source, target)
        self.keys = has_keys(source, target)
        self.by_hand = source.isatty()
        self.gone = False
        self._source = source
        self._given = source.fileno()
        self._shown = target
        self._screen = Screen()
        self._to_rows: Format = plain_rows
        self._live: LiveScreen | None = None  # `None` unless single keys are read
        self._changed = trio.Event()
        self._line = EditedLine()
        self._complete: Callable[[str], Sequence[str]] | None = None
        self._offered: Sequence[str] = ()
        self._about = ""
        self._prompts = False
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
            self._live = LiveScreen(self.look, self._to_rows)
            self.resume()
            try:
                yield
            finally:
                text, self._live, self._prompts = self._live.end(), None, False
                self._line, self._about, self._offered = self._line.says(""), "", ()
                self._write(f"{text}{MARK_NO_PASTES}")

    async def keep_drawing(self) -> None:
        """Redraw after changes while single keys are read, until cancelled; no-op if `keys` is false."""
        if sys.platform != "win32" and self.keys:
            with trio.open_signal_receiver(signal.SIGCONT, signal.SIGWINCH) as signals:
                async with trio.open_nursery() as nursery:  # noqa: TID251 - the command line has its own tasks
                    nursery.start_soon(self._draw)
                    nursery.start_soon(self.load_layout)
                    async for number in signals:
                        if number == signal.SIGCONT:
                            self.resume()
                        else:
                            self._resize()

    async def _draw(self) -> None:
        """Redraw after each change, until cancelled.

        It writes in a thread: a terminal that takes nothing, as behind a slow line, holds up nobody but its person.
        """
        while True:
            await self._changed.wait()
            self._changed = trio.Event()
            if self._live is not None:
                below = (*self._offered, *([self._about] if self._about else ()))
                text = self._live.draw(self._line, prompts=self._prompts, below=below)
                # Shielded: what is drawn is not drawn again, so the last rows of a conversation would be lost
                with trio.CancelScope(shield=True):
                    await trio.to_thread.run_sync(self._write, text)
            await trio.sleep(FRAME)

    def resume(self) -> None:
        """Set the terminal's modes and redraw: at the start, and after a stop by job control (SIGCONT)."""
        if self._live is not None:
            from agentrail.cli import terminal_modes  # noqa: PLC0415 - not there on every system

            terminal_modes.hand_over_keys(self._given)
            self._write(MARK_PASTES)
            self._live.forget()
            self._changed.set()

    async def load_layout(self) -> None:
        """Use Markdown for the model's text from now on, if the extra `cli` is installed."""
        if self._live is not None:
            self._to_rows = self._live.to_rows = await trio.to_thread.run_sync(text_format)

    def _resize(self) -> None:
        """Read the terminal's size, and use it for everything that is laid out from now on."""
        self.look = look_of(self._source, self._shown)
        if self._live is not None:
            self._live.resize(self.look)
            self._changed.set()

    def drop_typed_ahead(self) -> None:
        """Discard typed input that was not read yet; no-op if the input is a pipe."""
        if self.by_hand and find_spec("termios") is not None:
            from agentrail.cli import terminal_modes  # noqa: PLC0415 - not there on every system

            terminal_modes.drop_typed_ahead(self._given)

    # Out

    def show(self, pieces: Sequence[ScreenText]) -> None:
        """Put *pieces* on the screen."""
        if self._live is None:
            self._screen, text = put_all(self._screen, pieces, self.look)
            self._write(text)
            return
        for piece in pieces:
            self._live.put(piece)
        self._changed.set()

    def end_line(self) -> None:
        """End an unfinished line of the output, so that the cursor is at the beginning of a line."""
        self._write(self._screen.joint)
        self._screen = Screen()

    def prompt(self, *, wanted: bool) -> None:
        """Show or hide the prompt: it is hidden while a session works."""
        self._prompts = wanted
        self._changed.set()

    def tell(self, about: str) -> None:
        """Show *about* in one row below the typed line; no effect unless single keys are read."""
        self._about = about
        self._changed.set()

    def offer(self, text: str) -> None:
        """Begin the next line with *text*, which the person may edit; if keys are not read singly, only show it."""
        if self.keys:
            self._line = self._line.says(text)
            self._changed.set()
        else:
            self.show((ScreenText(Flow.LINE, text),))

    def drop_typed(self) -> bool:
        """Clear the typed line; return whether it had text."""
        typed = bool(self._line.text)
        self._line = self._line.says("")
        self._changed.set()
        return typed

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

    def complete_by(self, complete: Callable[[str], Sequence[str]] | None, past: Sequence[str] = ()) -> None:
        """Complete words by *complete*, which returns possible ends of a text; let the person recall *past* texts."""
        self._complete = complete
        self._line = self._line.but(past=(*past, *self._line.past))

    def put_back(self, lines: tuple[str, ...]) -> None:
        """Let the next `read` return *lines*, which the caller has read but not handled."""
        self._unused = lines

    async def _receive(self) -> bytes:
        try:
            await trio.lowlevel.wait_readable(self._given)
        except OSError:  # some inputs, such as files, do not support waiting; on Windows none does
            return await trio.to_thread.run_sync(self._read_bytes, abandon_on_cancel=True)
        try:
            return os.read(self._given, CHUNK)
        except OSError:  # the terminal was closed
            return b""

    def _read_bytes(self) -> bytes:
        """Wait in this thread for what is typed.

        Of a console of Windows, only the stream of Python gives UTF-8; it is read below its buffer, whose lock a thread
        that is left behind would keep until the interpreter ends.
        """
        buffer: object = getattr(self._source, "buffer", None)
        raw: object = getattr(buffer, "raw", None)
        if isinstance(raw, io.RawIOBase):
            return raw.read(CHUNK) or b""
        return os.read(self._given, CHUNK)

    def _come(self) -> tuple[str, ...]:
        *lines, self._rest = self._rest.split("\n")
        if self._over and self._rest:
            lines.append(self._rest)
        return tuple(line.removesuffix("\r") for line in lines)

    def _typed(self) -> tuple[str, ...]:
        """Apply the received keys to the line, and return the lines that they finished."""
        keys, self._rest = keys_in(self._rest)
        lines: list[str] = []
        for are_text, run in groupby(keys, lambda key: is_text(key) and key != COMPLETE):
            if self._over:
                break
            self._offered = ()
            if are_text:
                self._line = self._line.insert("".join(run))
            else:
                lines.extend(self._pressed(run))
        if keys:
            self._changed.set()
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
            elif key == COMPLETE and self._complete is not None:
                self._go_on(self._complete(self._line.text[: self._line.at]))
            else:
                self._line = self._line.press(key)

    def _go_on(self, ways: Sequence[str]) -> None:
        """Insert the common beginning of the completions *ways*; if there is none, list them below the line."""
        common = _common(ways)
        if common:
            self._line = self._line.insert(common)
        elif ways:
            word = self._line.text[: self._line.at].rpartition(" ")[2]
            more = [f"… {len(ways) - MOST_OFFERED} more"] if len(ways) > MOST_OFFERED else []
            self._offered = ["  ".join([*(f"{word}{way}" for way in ways[:MOST_OFFERED]), *more])]

    def _finish(self) -> None:
        """Move the finished line up to the finished rows, and begin an empty one."""
        if self._live is not None and (self._line.text or self._prompts):
            self._live.send(self._line)
        self._prompts = False
        self._line = self._line.end_line()

"""`Terminal`: reads typed lines and shows output, so that neither garbles the other.

If input and output are a terminal that sends single keys, and the extra `cli` is installed, what is typed stays below
the output (`PromptBox`). With pipes, lines are read as they come, and output is written at once.
"""

from __future__ import annotations

import codecs
import io
import os
import shutil
import signal
import sys
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, TextIO

import trio

from agentrail.cli.output.screen import Backdrop, Flow, Screen, ScreenText, TerminalStyle, put_all
from agentrail.cli.output.screen_question import NO_QUESTION, SEEN, ScreenQuestion
from agentrail.cli.quick_imports import imported
from agentrail.nurseries import open_shielded_nursery

if TYPE_CHECKING:
    from agentrail.cli.talk.live.prompt_box import PromptBox

CHUNK: Final = 4096

EXTRA: Final = ("prompt_toolkit", "rich")
"""What the extra `cli` installs, without which keys are not read singly."""

LIGHT: Final = frozenset({7, *range(9, 16)})
"""The light ones of the 16 colours of terminals."""

ESCAPING: Final = frozenset({"ANSICON", "TERM", "WT_SESSION"})
"""Variables of the environment that terminals of Windows set which understand escape sequences."""


def has_keys(source: TextIO, target: TextIO) -> bool:
    """Whether input and output are both a terminal that can send single keys and rewrite a line; never on Windows.

    It never is without the extra `cli`.
    """
    return (
        all(find_spec(module) is not None for module in ("termios", *EXTRA))
        and source.isatty()
        and target.isatty()
        and os.environ.get("TERM", "dumb") != "dumb"
    )


def look_of(source: TextIO, target: TextIO) -> TerminalStyle:
    """Return whether the output takes colours, can rewrite lines and shows what is typed, and its size."""
    size = _size_of(target)
    return TerminalStyle(
        colours=target.isatty() and not os.environ.get("NO_COLOR") and _has_escapes(),
        background=background_of(os.environ.get("COLORFGBG", "")),
        rewrites=has_keys(source, target),
        echoes=source.isatty() and target.isatty(),
        width=size.columns,
        height=size.lines,
    )


def background_of(colours: str) -> Backdrop:
    """Return the background that a terminal tells by `COLORFGBG`: numbers of colours, that behind the text last."""
    number = colours.rpartition(";")[2]
    if not (number.isascii() and number.isdecimal()):
        return "unknown"
    return "light" if int(number) in LIGHT else "dark"


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


class Terminal:
    """Input and output of one terminal, or of two pipes."""

    def __init__(self, source: TextIO, target: TextIO) -> None:
        self.look = look_of(source, target)
        self.keys = has_keys(source, target)
        self.by_hand = source.isatty()
        self.is_gone = False
        self.title = "agentrail"
        """Title of the terminal's window, while single keys are read."""
        self._source = source
        self._number = source.fileno()
        self._output = target
        self._screen = Screen()
        self._box: PromptBox | None = None  # `None` unless single keys are read
        # What was typed in the box and not read yet, `None` at its end, and the number of the question seen then
        self._typed = deque[tuple[str | None, int]]()
        self._question_number = 0  # number of the last question
        self._answers_to = 0  # number of the question that was seen when the lines that were read last were sent
        self._ahead = 0  # bytes that are not read yet, of lines that were sent before the last question
        # When lines answer the last question, in seconds of Trio's clock; later after each that has come
        self._answers_from = 0.0
        self._arrived = trio.Event()
        self._decode = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""
        self._unused: tuple[str, ...] = ()
        self._over = False

    # Opening and closing

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[None, None]:
        """Read single keys within this block, and draw in a thread; no-op if `keys` is false, or within such a block.

        A terminal that takes nothing, as behind a slow line, so holds up nobody but its person.
        """
        if not self.keys or self._box is not None:
            yield
            return
        box, is_open = await trio.to_thread.run_sync(self._new_box), trio.Event()
        token = trio.lowlevel.current_trio_token()
        async with open_shielded_nursery() as nursery:
            nursery.start_soon(trio.to_thread.run_sync, box.run, lambda: token.run_sync_soon(is_open.set))
            nursery.start_soon(self._obey, box)
            try:
                await is_open.wait()
                self._box = box
                yield
            finally:
                self._box = None
                box.stop()
        self.is_gone = self.is_gone or box.is_gone

    def _new_box(self) -> PromptBox:
        """Return a box; run in a thread, because the import takes a tenth of a second."""
        imported("agentrail.cli.talk.live.prompt_box", freeze=True)
        from agentrail.cli.talk.live.prompt_box import PromptBox  # noqa: PLC0415 - an extra

        token = trio.from_thread.run_sync(trio.lowlevel.current_trio_token)

        def take(text: str | None, question: int) -> None:
            token.run_sync_soon(self._take, text, question)

        return PromptBox(self._source, self._output, self.look, self.title, take)

    async def _obey(self, box: PromptBox) -> None:
        """Redraw after a stop by job control (SIGCONT), and after the terminal has changed its size."""
        if sys.platform != "win32":
            with trio.open_signal_receiver(signal.SIGCONT, signal.SIGWINCH) as signals:
                async for number in signals:
                    if number == signal.SIGCONT:
                        box.resume()
                    else:
                        self.look = look_of(self._source, self._output)
                        box.resize(self.look)

    def _take(self, text: str | None, question: int) -> None:
        self._typed.append((text, question))
        self._arrived.set()

    def drop_typed_ahead(self) -> None:
        """Discard typed input that was not read yet; no-op if the input is a pipe."""
        self._typed.clear()
        self.drop_typed()
        if self._has_modes:
            from agentrail.cli.output import terminal_modes  # noqa: PLC0415 - not there on every system

            terminal_modes.drop_typed_ahead(self._number)

    @property
    def _has_modes(self) -> bool:
        """Whether the input is a terminal of a system that tells what was typed there; Windows does not."""
        return self.by_hand and find_spec("termios") is not None

    # Out

    def show(self, pieces: Sequence[ScreenText]) -> None:
        """Put *pieces* on the screen."""
        if self._box is None:
            self._screen, text = put_all(self._screen, pieces, self.look)
            self._write(text)
        else:
            self._box.show(pieces)

    def ask(self, question: ScreenQuestion) -> None:
        """Show *question*; if single keys are read, at the bottom until `answered`."""
        if not question.goes_on:
            self._question_number += 1
            self._answers_from = trio.current_time() + SEEN
        if self._box is not None:
            self._box.ask(question, self._question_number)
            return
        if self._has_modes:
            from agentrail.cli.output import terminal_modes  # noqa: PLC0415 - not there on every system

            self._ahead = terminal_modes.typed_ahead(self._number)
        self.show(question.rows)

    def answered(self) -> None:
        """Take the question away."""
        if self._box is not None:
            self._box.ask(NO_QUESTION, 0)

    @property
    def pictures(self) -> Mapping[str, bytes]:
        """The pictures that were taken from the clipboard, by the name that prompts have for each."""
        return {} if self._box is None else self._box.pictures

    @property
    def is_lent(self) -> bool:
        """Whether an editor of the person has the terminal, so that Ctrl-C is meant for it."""
        return self._box is not None and self._box.is_lent

    async def choose(
        self, heading: str, rows: Sequence[str], previews: Sequence[Sequence[str]] = (), *, start: int = 0
    ) -> int | None:
        """Have the person choose one of *rows*, and return its index; `None` if it is none, or keys are not read.

        Nothing of it stays on the screen. Without rows, *heading* is shown until a key takes it away. The row at
        *start* is pointed at first, and below the rows stands that one of *previews* which is about the row pointed at.
        """
        box, answers = self._box, list[int | None]()
        if box is None:
            return None
        token = trio.lowlevel.current_trio_token()

        def answer(index: int | None) -> None:
            answers.append(index)
            self._arrived.set()

        box.choose(heading, rows, lambda index: token.run_sync_soon(answer, index), previews, start)
        try:
            while not (answers or any(text is None for text, _ in self._typed)):
                self._arrived = trio.Event()
                await self._arrived.wait()
        finally:
            box.end_choice()
        return answers[0] if answers else None

    def end_line(self) -> None:
        """End an unfinished line of the output, so that the cursor is at the beginning of a line."""
        self._write(self._screen.joint)
        self._screen = Screen()

    def work(self, *, is_working: bool) -> None:
        """Show for how long the session has worked, until it does not; no effect unless single keys are read."""
        if self._box is not None:
            self._box.work(is_working=is_working)

    def tell(self, about: str) -> None:
        """Show *about* in one row below the typed text; no effect unless single keys are read."""
        if self._box is not None:
            self._box.tell(about)

    def tell_own(self, row: str) -> None:
        """Show *row*, of a command of the person, below all else; no effect unless single keys are read."""
        if self._box is not None:
            self._box.tell_own(row)

    def offer(self, text: str) -> None:
        """Begin the next line with *text*, which the person may edit; if keys are not read singly, only show it."""
        if self._box is None:
            self.show((ScreenText(Flow.LINE, text),))
        else:
            self._box.offer(text)

    def drop_typed(self) -> bool:
        """Clear the typed text; return whether there was any."""
        return self._box is not None and self._box.drop_typed()

    def _write(self, text: str) -> None:
        """Write *text*; if the output is closed, set `gone`, and write nothing from then on."""
        if not self.is_gone:
            encoding = self._output.encoding or "utf-8"
            try:
                self._output.write(text.encode(encoding, "replace").decode(encoding))
                self._output.flush()
            except OSError:
                self.is_gone = True

    # In

    async def read(self) -> tuple[str, ...] | None:
        """Wait for whole lines and return them; `None` if the input has ended."""
        if self._unused:
            lines, self._unused = self._unused, ()
            return lines
        if self.keys:
            return await self._next_typed()
        while not self._over:
            typed = await self._receive()
            self._note_typed(len(typed))
            self._over = not typed
            self._rest += self._decode.decode(typed, final=not typed)
            if lines := self._come():
                return lines
        return None

    def _note_typed(self, count: int) -> None:
        """Note whether *count* bytes, which have come now, may answer the last question.

        None do that were sent before it could be read, nor any that come without a pause behind others: they may be
        lines of one text.
        """
        now = trio.current_time()
        is_early = self._ahead > 0 or now < self._answers_from
        self._answers_to = 0 if is_early else self._question_number
        self._answers_from = now + SEEN
        self._ahead -= count

    @property
    def may_answer(self) -> bool:
        """Whether the lines that were read last may answer the last question: the person had seen it when they came.

        All lines of a pipe may.
        """
        return not self.by_hand or self._answers_to == self._question_number

    async def _next_typed(self) -> tuple[str, ...] | None:
        """Wait for a text from the box."""
        while not self._typed:
            self._arrived = trio.Event()
            await self._arrived.wait()
        text, self._answers_to = self._typed.popleft()
        return None if text is None else (text,)

    def complete_by(self, ways_to_go_on: Callable[[str], Mapping[str, str]], past: Sequence[str] = ()) -> None:
        """Complete words by *ways_to_go_on*, which returns possible ends of a text, each with what it is for.

        The person can recall *past*.
        """
        if self._box is not None:
            self._box.complete_by(ways_to_go_on, past)

    def put_back(self, lines: tuple[str, ...]) -> None:
        """Let the next `read` return *lines*, which the caller has read but not handled."""
        self._unused = lines

    async def _receive(self) -> bytes:
        try:
            await trio.lowlevel.wait_readable(self._number)
        except OSError:  # some inputs, such as files, do not support waiting; on Windows none does
            return await trio.to_thread.run_sync(self._read_bytes, abandon_on_cancel=True)
        try:
            return os.read(self._number, CHUNK)
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
        return os.read(self._number, CHUNK)

    def _come(self) -> tuple[str, ...]:
        *lines, self._rest = self._rest.split("\n")
        if self._over and self._rest:
            lines.append(self._rest)
        return tuple(line.removesuffix("\r") for line in lines)

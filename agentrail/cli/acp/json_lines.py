"""`LineReader` and `LineWriter`: JSON texts on two pipes, one a line. Neither waits for the other."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

import trio

from agentrail.cli.output.standard_output import STDIN, StandardOutput
from agentrail.codec.json_text import to_text
from agentrail.values.json import Json

CHUNK: Final = 64 * 1024

LONGEST_LINE: Final = 32 * 1024 * 1024
"""The most bytes of a line: twice what a host takes of a prompt, as images are in it."""

WAITING: Final = 64
"""The most messages that wait until the other side reads them; whoever has more to say waits."""

LAST_WORDS: Final = 2.0
"""The most seconds in which the other side may read what waits when the program ends."""


class LineTooLongError(Exception):
    """A line of input has more than `LONGEST_LINE` bytes; it was skipped."""


@contextmanager
def own_input() -> Generator[int, None, None]:
    """Yield a descriptor of the real standard input.

    Within this block, tools that read standard input find it empty.
    """
    descriptor = os.dup(STDIN)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, STDIN)
    os.close(nothing)
    try:
        yield descriptor
    finally:
        os.dup2(descriptor, STDIN)
        os.close(descriptor)


class LineReader:
    """Reads lines from a descriptor."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._rest = bytearray()
        self._searched = 0
        self._skips = False
        self._has_ended = False

    async def next_line(self) -> bytes | None:
        """Return the next line; `None` at the end.

        Raise `LineTooLongError` for a line that is too long; the next call goes on.

        A last line without a line end counts.
        """
        while True:
            end = self._rest.find(b"\n", self._searched)
            if end >= 0:
                line = bytes(self._rest[:end])
                del self._rest[: end + 1]
                self._searched = 0
                if self._was_too_long():
                    raise LineTooLongError
                return line
            if len(self._rest) > LONGEST_LINE:
                self._skips = True
                self._rest.clear()
            self._searched = len(self._rest)
            if self._has_ended:
                return self._last_line()
            chunk = await self._receive()
            self._has_ended = not chunk
            self._rest += chunk

    def _was_too_long(self) -> bool:
        skips, self._skips = self._skips, False
        return skips

    def _last_line(self) -> bytes | None:
        if self._was_too_long():
            self._rest.clear()
            raise LineTooLongError
        line = bytes(self._rest)
        self._rest.clear()
        self._searched = 0
        return line or None

    async def _receive(self) -> bytes:
        while True:
            try:
                await trio.lowlevel.wait_readable(self._descriptor)
            except PermissionError:  # a regular file: Trio cannot wait for one, and reading it never blocks
                await trio.lowlevel.checkpoint()
            except OSError:  # a pipe of Windows, for which Trio cannot wait
                return await trio.to_thread.run_sync(os.read, self._descriptor, CHUNK, abandon_on_cancel=True)
            try:
                return os.read(self._descriptor, CHUNK)
            except BlockingIOError:  # another process has read the data, or has made the shared descriptor non-blocking
                continue
            except OSError:  # the process at the other end was killed
                return b""


class LineWriter:
    """Writes JSON values to standard output, one in a line, in the order of the calls of `write`."""

    def __init__(self, output: StandardOutput) -> None:
        self._output = output
        # Bounded: a caller that writes faster than the editor reads must wait, and no message is dropped.
        self._to_write, self._lines = trio.open_memory_channel[bytes](WAITING)  # noqa: TID251 - to one task of its own
        self.reader_left = trio.Event()
        """Set when nobody reads any more."""

    async def write(self, message: Json) -> None:
        """Queue *message*; wait while the queue is full. No-op if the editor no longer reads."""
        line = f"{to_text(message)}\n".encode("utf-8", "replace")
        try:
            await self._to_write.send(line)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            await trio.lowlevel.checkpoint()

    def close(self) -> None:
        """Accept no more messages; `run` returns when the queued ones are written."""
        self._to_write.close()

    async def run(self) -> None:
        """Write queued messages until `close` is called, or until the editor no longer reads."""
        with self._lines:
            async for line in self._lines:
                if not await self._output.write(line):
                    break
        self.reader_left.set()

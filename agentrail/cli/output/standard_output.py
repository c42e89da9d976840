"""`StandardOutput`: what the program itself prints, although tools print too, and whether anybody reads it."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Final, TextIO

import trio

STDIN: Final = 0
STDOUT: Final = 1
STDERR: Final = 2


class StandardOutput:
    """Standard output as bytes. A reader that is slow holds up nothing, and one that leaves raises no error."""

    def __init__(self, stream: TextIO | None) -> None:
        self.problem = ""
        """Why nothing can be written any more; empty if the reader has left, which is no error of anybody."""
        self.is_open = stream is not None
        self.is_terminal = stream is not None and stream.isatty()
        self._descriptor = -1
        if stream is None:
            self.problem = "standard output is closed, so there is no place for the answer"
        else:
            self._descriptor = os.dup(stream.fileno())

    @contextmanager
    def alone(self) -> Generator[None, None, None]:
        """Within this block, send what tools and their programs write to standard output to standard error."""
        if not self.is_open:
            yield
            return
        sys.stdout.flush()
        os.dup2(STDERR, STDOUT)
        try:
            yield
        finally:
            with suppress(OSError, ValueError):
                sys.stdout.flush()
            os.dup2(self._descriptor, STDOUT)

    async def write(self, content: bytes) -> bool:
        """Write *content* in a thread; return whether the output is still read."""
        if self.is_open:
            try:
                await trio.to_thread.run_sync(self.put, content, abandon_on_cancel=True)
            except trio.Cancelled:  # a cancelled call leaves the thread, which writes the rest of its line
                self.is_open = False
                raise
        return self.is_open

    def put(self, content: bytes) -> None:
        """Write *content* at once; no-op if the output is not read any more."""
        rest = memoryview(content)
        try:
            while rest and self.is_open:
                try:
                    rest = rest[os.write(self._descriptor, rest) :]
                except BlockingIOError:  # the descriptor is shared with another process, which wants it non-blocking
                    select.select([], [self._descriptor], [])
        except BrokenPipeError:
            self.is_open = False
        except OSError as error:
            self.is_open = False
            self.problem = f"cannot write to standard output: {error.strerror}"


def open_what_is_closed() -> None:
    """Open closed standard streams as `/dev/null`, because the next opened file would get their descriptors."""
    descriptor = STDIN
    while descriptor <= STDERR:
        descriptor = os.open(os.devnull, os.O_RDWR)
    os.close(descriptor)

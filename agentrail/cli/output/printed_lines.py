"""`PrintedLines`: what tools and their programs print becomes lines of the conversation that has the terminal."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from typing import Final, TextIO, cast

import trio

from agentrail.cli.output.screen import ScreenText, Tone, aside
from agentrail.cli.output.standard_output import STDERR, STDOUT

CHUNK: Final = 64 * 1024

MOST_AT_ONCE: Final = 50
"""The most lines that are shown of what is printed at once; a program that prints without end is not followed."""

LONGEST: Final = 1_000
"""The most characters that are shown of a line."""

LAST_LINES: Final = 0.2
"""The most seconds to wait for the last lines: a program that goes on running may keep the pipe open."""

Show = Callable[[Sequence[ScreenText]], None]


def own_output(stream: TextIO) -> TextIO:
    """Return another stream to where *stream* leads, also while `PrintedLines` has its place."""
    errors = stream.errors or "strict"
    return cast("TextIO", os.fdopen(os.dup(stream.fileno()), "w", encoding=stream.encoding, errors=errors))


class PrintedLines:
    """Reads what goes to standard output, and to standard error if that is a terminal, and shows it line by line.

    It reads in a thread: who prints much in the thread of Trio would else wait for itself, with the pipe full.
    """

    def __init__(self, show: Show) -> None:
        self._show = show
        self._token = trio.lowlevel.current_trio_token()
        self._lines: list[str] = []
        self._left_out = 0
        self._rest = b""
        self._lock = threading.Lock()

    @contextmanager
    def caught(self) -> Generator[None, None, None]:
        """Within this block, show what is printed; afterwards, the streams lead to where they did."""
        descriptors = [STDOUT, *([STDERR] if os.isatty(STDERR) else [])]
        copies = [os.dup(descriptor) for descriptor in descriptors]
        source, target = os.pipe()
        _flush()
        stream = cast("TextIOWrapper", sys.stdout)
        if hasattr(stream, "reconfigure"):  # else it collects what is printed, where it is no terminal
            stream.reconfigure(line_buffering=True)
        for descriptor in descriptors:
            os.dup2(target, descriptor)
        os.close(target)
        reader = threading.Thread(target=self._read, args=(source,), name="agentrail printed lines", daemon=True)
        reader.start()
        try:
            yield
        finally:
            _flush()
            for descriptor, copy in zip(descriptors, copies, strict=True):
                os.dup2(copy, descriptor)
                os.close(copy)
            reader.join(LAST_LINES)
            self._tell()

    def _read(self, descriptor: int) -> None:
        """Body of the thread: read until all who could print have ended."""
        while chunk := os.read(descriptor, CHUNK):
            *lines, self._rest = (self._rest + chunk).split(b"\n")
            self._rest = self._rest[:CHUNK]
            self._take(lines)
        self._take([self._rest] if self._rest else [])
        os.close(descriptor)

    def _take(self, lines: Sequence[bytes]) -> None:
        with self._lock:
            room = max(MOST_AT_ONCE - len(self._lines), 0)
            self._lines.extend(line[:LONGEST].decode(errors="replace") for line in lines[:room])
            self._left_out += max(len(lines) - room, 0)
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(self._tell, idempotent=True)

    def _tell(self) -> None:
        """Show the lines that have been read."""
        with self._lock:
            lines, self._lines = self._lines, []
            left_out, self._left_out = self._left_out, 0
        pieces = [aside(f"  printed: {line}", Tone.DIM) for line in lines if line.strip()]
        if left_out:
            pieces.append(aside(f"  printed: … {left_out} more lines", Tone.DIM))
        if pieces:
            self._show(pieces)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()

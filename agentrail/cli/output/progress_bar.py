"""`ProgressBar`: shows how far long work is."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TextIO

BAR: Final = 30
"""Width of the progress bar, in characters."""

TELL_EVERY: Final = 10.0
"""Seconds between two lines of progress of one phase, where there is no bar."""


class ProgressBar:
    """Shows how far some work is: by a bar at a terminal, else by a line for each phase and every `TELL_EVERY` s."""

    def __init__(self, out: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._out = out
        self._bar = out.isatty()
        self._phase = ""
        self._last_line_at = 0.0

    def begin(self, text: str) -> None:
        """Print one line that says what will be done."""
        self._write(f"{text}\n")

    def show(self, share: float, phase: str, detail: str = "") -> None:
        """Show the done *share* of all work, from 0 to 1, and its *phase*; without a bar, only now and then."""
        if self._bar:
            full = round(BAR * min(1.0, share))
            self._write(f"\r\x1b[K[{'#' * full}{' ' * (BAR - full)}] {share:4.0%}  {f'{phase}{detail}':.40}")
        elif phase != self._phase or self.clock() - self._last_line_at >= TELL_EVERY:
            self._phase, self._last_line_at = phase, self.clock()
            self._write(f"{share:4.0%}  {phase}{detail}\n")

    def wipe(self) -> None:
        """Erase the bar; no-op if none is shown."""
        if self._bar:
            self._write("\r\x1b[K")

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()

"""`Progress`: how far the tests are, in a line now and then, where the output is no terminal."""

from __future__ import annotations

from time import monotonic
from typing import Final, cast

import pytest

EVERY: Final = 10.0
"""Seconds between two lines. What reads a log line by line sees no dot before its row is full."""


class Progress:
    """Counts the tests that have been reported, and says so."""

    def __init__(self, config: pytest.Config, total: int) -> None:
        reporter = cast("pytest.TerminalReporter | None", config.pluginmanager.get_plugin("terminalreporter"))
        self._reporter = None if reporter is None or reporter.isatty else reporter
        self._total = total
        self._done = 0
        self._begun_at = self._said_at = monotonic()

    def add(self, count: int) -> None:
        """Note that *count* more tests have been reported."""
        self._done += count

    def seconds_left(self) -> float | None:
        """Write a line if one is due; return the seconds until the next one, or `None` if none is ever written."""
        if self._reporter is None:
            return None
        now = monotonic()
        if now - self._said_at >= EVERY:
            self._said_at = now
            seconds = now - self._begun_at
            self._reporter.ensure_newline()
            self._reporter.write_line(f"{self._done:,} of {self._total:,} tests after {seconds:.0f} s")
        return self._said_at + EVERY - now

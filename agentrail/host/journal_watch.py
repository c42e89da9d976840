"""`JournalWatch`: ends a request with an error when the journal has not been able to write for too long."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import trio

from agentrail.errors import JournalFull, JournalUnavailable, WaitsForJournal, WaitsForSpace
from agentrail.runtime.handle import SessionHandle

T = TypeVar("T")

PATIENCE: Final = 5.0
"""Seconds for which a request waits while the journal fails; without space in it, no request waits."""

APART: Final = 30.0
"""Seconds between two failures from which they are of two outages: attempts are made more often."""


class JournalWatch:
    """Watches, for one request, whether the journal can write for the sessions of the request."""

    def __init__(self) -> None:
        self._scope = trio.CancelScope()
        self._ends: list[Callable[[], None]] = []
        self._is_over = False
        self._is_full = False
        self._began = self._last = -APART

    def follow(self, session: SessionHandle) -> None:
        """Watch *session* too: `answered` fails when the journal cannot write for it. No-op after the answer."""
        if not self._is_over:
            self._ends.append(session.monitor().when_stuck(self._failed))

    async def answered(self, answer: Callable[[], Awaitable[T]]) -> T:
        """Return the result of *answer*; cancel *answer* and raise an error if the journal cannot write.

        That is: the disk is full, or writing has failed for `PATIENCE` seconds.

        The error is `WaitsForSpace` or `WaitsForJournal`. A session that has taken a command carries it out all the
        same, and so do tasks of the host that *answer* waits for.
        """
        try:
            with self._scope:
                return await answer()
        finally:
            self._is_over = True
            for end in self._ends:
                end()
            self._ends.clear()  # each knows this watch
        raise WaitsForSpace if self._is_full else WaitsForJournal

    def _failed(self, error: JournalUnavailable) -> None:
        now = trio.current_time()
        if now >= self._last + APART:
            self._began = now
        self._last = now
        self._is_full = isinstance(error, JournalFull)
        if self._is_full or now >= self._began + PATIENCE:
            self._scope.cancel()

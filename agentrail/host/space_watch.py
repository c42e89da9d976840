"""`SpaceWatch`: ends a request's wait for its answer when the journal has no space for what it waits for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio

from agentrail.errors import JournalFull, WaitsForSpace
from agentrail.host.http11.http_messages import HttpResponse
from agentrail.runtime.handle import SessionHandle


class SpaceWatch:
    """Watches, for one request, the journals of the sessions that it is for."""

    def __init__(self) -> None:
        self._scope = trio.CancelScope()
        self._ends: list[Callable[[], None]] = []
        self._is_over = False

    def follow(self, session: SessionHandle) -> None:
        """End the wait for the answer when the journal has no space for *session*. No-op if there was an answer."""
        if not self._is_over:
            self._ends.append(session.monitor().when_full(self._full))

    async def answered(self, answer: Callable[[], Awaitable[HttpResponse]]) -> HttpResponse:
        """Return what *answer* returns; cancel it and raise `WaitsForSpace` if it waits for space.

        A session that has taken a command carries it out all the same, and so do tasks of the host that *answer* waits
        for.
        """
        try:
            with self._scope:
                return await answer()
        finally:
            self._is_over = True
            for end in self._ends:
                end()
        raise WaitsForSpace

    def _full(self, _: JournalFull) -> None:
        self._scope.cancel()

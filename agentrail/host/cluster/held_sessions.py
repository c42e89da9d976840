"""`HeldSessions`: what the journal said a moment ago of sessions that other hosts hold."""

from __future__ import annotations

from typing import Final, NamedTuple

import trio

from agentrail.errors import SessionHeld
from agentrail.errors.agentrail_error import fresh

PAUSE: Final = 0.25
"""Seconds until the journal is asked again who has a session."""


class Refusal(NamedTuple):
    """That a session is held."""

    error: SessionHeld
    until: float
    """Until when it counts."""


class HeldSessions:
    """The refusals of the last moment: of all requests that wait for a session, one asks the journal."""

    def __init__(self) -> None:
        self._refusals: dict[str, Refusal] = {}  # the oldest first

    def check(self, session_id: str) -> None:
        """Raise `SessionHeld` if the journal said so a moment ago; the first caller after that is to ask again."""
        refusal = self._refusals.get(session_id)
        if refusal is None:
            return
        now = trio.current_time()
        if now < refusal.until:
            raise fresh(refusal.error)
        self._keep(session_id, refusal._replace(until=now + PAUSE))

    def add(self, session_id: str, error: SessionHeld) -> None:
        """Note what the journal says."""
        now = trio.current_time()
        self._keep(session_id, Refusal(error, now + min(PAUSE, error.left / 1000)))

    def drop(self, session_id: str) -> None:
        """Forget what it said: it is not so any more."""
        self._refusals.pop(session_id, None)

    def _keep(self, session_id: str, refusal: Refusal) -> None:
        self.drop(session_id)
        self._refusals[session_id] = refusal
        while (first := next(iter(self._refusals))) and self._refusals[first].until < refusal.until - 2 * PAUSE:
            self.drop(first)

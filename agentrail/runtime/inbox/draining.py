"""`Draining`: which sessions can be parked without a loss, while a supervisor parks all of them."""

from __future__ import annotations

import trio


class Draining:
    """Lets the actors of sessions tell when they have nothing to lose, and wait there until they are parked."""

    __slots__ = ("_quiet",)

    def __init__(self) -> None:
        self._quiet: dict[str, trio.Event] = {}

    def is_quiet(self, session_id: str) -> None:
        """Note that a session has nothing to lose: its actor waits to be parked, or it is gone."""
        self._event(session_id).set()

    async def wait_parked(self, session_id: str) -> None:
        """Note that a session has nothing to lose, and wait until its actor is cancelled."""
        self.is_quiet(session_id)
        await trio.sleep_forever()

    async def wait_quiet(self, session_id: str) -> None:
        """Wait until a session has nothing to lose."""
        await self._event(session_id).wait()

    def knows_quiet(self, session_id: str) -> bool:
        """Whether a session has said that it has nothing to lose."""
        return self._event(session_id).is_set()

    def _event(self, session_id: str) -> trio.Event:
        return self._quiet.setdefault(session_id, trio.Event())

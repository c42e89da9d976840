"""`open_supervisor`: from here on, sessions live and die under one roof."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio

from agentrail.app.spec import SessionSpec
from agentrail.runtime.handle import SessionHandle
from agentrail.runtime.lazy import LazyModule

if TYPE_CHECKING:
    from agentrail.app import wiring
    from agentrail.app.models import Factory
    from agentrail.ports.journal import Journal
    from agentrail.runtime.supervisor import Sessions
else:  # importing this module costs little; opening a supervisor brings the rest
    wiring = LazyModule("agentrail.app.wiring")


class Supervisor:
    """Spawns sessions, knows them by their ids, and ends them all when it ends."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def spawn(self, spec: SessionSpec, id: str | None = None) -> SessionHandle:  # noqa: A002 - what users call it
        """Start a session and return its handle; raise why it does not start."""
        spec.check()
        session_id = f"s-{secrets.token_hex(16)}" if id is None else id
        state, outfit = wiring.outfitted(session_id, spec, self._sessions.house.model)
        return await self._sessions.start(state, outfit)

    def session(self, id: str) -> SessionHandle:  # noqa: A002 - what users call it
        """Return the handle of a session that is here."""
        return self._sessions.handle(id)

    def sessions(self) -> tuple[SessionHandle, ...]:
        """Return the handles of all sessions, in the order they were started."""
        return self._sessions.handles()


@asynccontextmanager
async def open_supervisor(
    *,
    journal: Journal | None = None,
    models: Mapping[str, Factory] | None = None,
    seed: int | None = None,
    gate_width: float | None = None,
) -> AsyncGenerator[Supervisor, None]:
    """Open a supervisor; leaving the `async with` stops everything under it, the youngest first."""
    try:
        async with trio.open_nursery() as nursery:  # noqa: TID251 - the one nursery that everything hangs in
            sessions = wiring.wired(nursery, journal, models or {}, seed, gate_width)
            try:
                yield Supervisor(sessions)
            finally:
                with trio.CancelScope(shield=True):
                    await sessions.close()
    except BaseExceptionGroup as group:
        if len(group.exceptions) == 1:
            raise group.exceptions[0] from group.exceptions[0].__cause__
        raise

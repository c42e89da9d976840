"""`open_supervisor`: from here on, sessions live and die under one roof."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio

from agentrail.app.spec import SessionSpec
from agentrail.errors import NoTrioRun, WrongType
from agentrail.runtime.handle import SessionHandle
from agentrail.runtime.lazy import LazyModule

if TYPE_CHECKING:
    from agentrail.app import wiring
    from agentrail.app.models import Factory
    from agentrail.ports.journal import Journal
    from agentrail.runtime.supervisor import Sessions
else:  # importing this module costs little; opening a supervisor brings the rest
    wiring = LazyModule("agentrail.app.wiring")


SPEC_WANTED = "a `SessionSpec`"
ID_WANTED = "text, or nothing: then one is made up"


class Supervisor:
    """Spawns sessions, knows them by their ids, and ends them all when it ends."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def spawn(self, spec: SessionSpec, id: str | None = None) -> SessionHandle:  # noqa: A002 - what users call it
        """Start a session and return its handle; raise why it does not start."""
        if not isinstance(spec, SessionSpec):
            raise WrongType.of("spec", spec, SPEC_WANTED)
        if not isinstance(id, str | None):
            raise WrongType.of("id", id, ID_WANTED)
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
    secrets: Callable[[str], str | None] | None = None,
    seed: int | None = None,
    gate_width: float | None = None,
) -> AsyncGenerator[Supervisor, None]:
    """Open a supervisor; leaving the `async with` stops everything under it, the youngest first.

    *models* make models by what stands before the colon of a name; *secrets* look up a secret by its name, when it is
    needed, in the environment if not given.
    """
    if not trio.lowlevel.in_trio_run():
        raise NoTrioRun
    try:
        async with trio.open_nursery() as guard:  # noqa: TID251 - around the body, so that it ends if the roof comes down
            roof: trio.Nursery = await guard.start(_roof, guard.cancel_scope)
            sessions = wiring.wired(roof, journal, models or {}, secrets, seed, gate_width)
            try:
                yield Supervisor(sessions)
            finally:
                with trio.CancelScope(shield=True):
                    await sessions.close()
    except BaseExceptionGroup as group:
        alone = _alone(group)
        raise alone from alone.__cause__


async def _roof(body: trio.CancelScope, task_status: trio.TaskStatus[trio.Nursery]) -> None:
    """Keep the nursery that everything hangs in.

    It is shielded, so that a cancellation from outside reaches the body first: it stops the sessions in order, and each
    of them has its time. If something in the nursery breaks, the body is ended.
    """
    try:
        with trio.CancelScope(shield=True):
            async with trio.open_nursery() as nursery:  # noqa: TID251 - the one nursery that everything hangs in
                task_status.started(nursery)
                try:
                    await trio.sleep_forever()
                finally:
                    body.cancel()
    except BaseExceptionGroup as group:
        alone = _alone(group)
        raise alone from alone.__cause__


def _alone(group: BaseExceptionGroup) -> BaseException:
    """Return the one exception that a nursery has wrapped, or the group if there are more."""
    return group if len(group.exceptions) > 1 else next(iter(group.exceptions))

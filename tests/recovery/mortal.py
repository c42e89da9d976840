"""A process that dies at a failpoint: from then on, none of its actions reaches the world.

The world is the journal, the effects of tools, and what the caller was told. The rest of the process is cancelled after
its death; it cannot write to the world any more, so the order in which it ends does not matter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import NoReturn

import trio
from attrs import define, field

from agentrail import SessionHandle, SessionSpec, Supervisor, open_supervisor
from agentrail.errors import JournalFull
from agentrail.events import Cursor, Envelope
from agentrail.journals import (
    ALL_SESSIONS,
    NO_LEASE,
    Claim,
    Journal,
    Latest,
    Lease,
    MemoryJournal,
    Record,
    Redaction,
    SessionFilter,
    Snapshot,
    StoredAnswer,
    StoredSession,
)
from tests.kit import Failpoint, watching

SESSION = "s"


@define
class World:
    """All that outlives a process, and whether the current process is dead."""

    journal: Journal = field(factory=lambda: MemoryJournal(encode=True))
    ran: list[str] = field(factory=list)
    ended: set[str] = field(factory=set)
    heard: list[Envelope] = field(factory=list)
    told: dict[str, str] = field(factory=dict)
    reached: Counter[Failpoint] = field(factory=Counter)
    full: int = 0
    failures: int = 0
    dead: bool = False
    is_known: bool = False
    """Whether the session is stored before the first life."""

    async def alive(self) -> None:
        """Return if the process is alive; otherwise never return."""
        if self.dead:
            await die()


async def die() -> NoReturn:
    await trio.sleep_forever()
    raise AssertionError


class MortalJournal:
    """The journal of the world for one process; its calls do not return if the process is dead."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def claim(
        self, session_id: str, holder: str, lease: Lease = NO_LEASE, *, take_over: bool | str = False
    ) -> Claim:
        await self._world.alive()
        return await self._world.journal.claim(session_id, holder, lease, take_over=take_over)

    async def renew(self, claims: Sequence[Claim], lease: Lease) -> tuple[Claim, ...]:
        await self._world.alive()
        return await self._world.journal.renew(claims, lease)

    async def release(self, claims: Sequence[Claim]) -> None:
        """Release claims; a dead process does not, and does not wait for that when its supervisor is left."""
        if not self._world.dead:
            await self._world.journal.release(claims)

    async def append(self, claim: Claim, expected: int, records: Sequence[Record]) -> int:
        await self._world.alive()
        await trio.lowlevel.checkpoint()
        await self._world.alive()
        if self._world.full:
            self._world.full -= 1
            message = "no space"
            raise JournalFull(message)
        return await self._world.journal.append(claim, expected, records)

    async def read(self, session_id: str, after: int = 0, limit: int = 1000) -> tuple[Record, ...]:
        await self._world.alive()
        return await self._world.journal.read(session_id, after, limit)

    async def record_of_seq(self, session_id: str, seq: int) -> int:
        await self._world.alive()
        return await self._world.journal.record_of_seq(session_id, seq)

    async def answer(self, session_id: str, command: str) -> StoredAnswer | None:
        await self._world.alive()
        return await self._world.journal.answer(session_id, command)

    async def sessions(
        self, wanted: SessionFilter = ALL_SESSIONS, after: StoredSession | None = None, limit: int = 1000
    ) -> tuple[StoredSession, ...]:
        await self._world.alive()
        return await self._world.journal.sessions(wanted, after, limit)

    async def summary(self, session_id: str) -> StoredSession | None:
        await self._world.alive()
        return await self._world.journal.summary(session_id)

    async def keep(self, claim: Claim, snapshot: Snapshot) -> None:
        await self._world.alive()
        await self._world.journal.keep(claim, snapshot)

    async def latest(self, session_id: str, upto: int | None = None, limit: int = 1000) -> Latest:
        await self._world.alive()
        return await self._world.journal.latest(session_id, upto, limit)

    async def delete(self, session_id: str, holder: str, at: int) -> int:
        await self._world.alive()
        return await self._world.journal.delete(session_id, holder, at)

    async def redact(self, session_id: str, first: int, last: int, note: Redaction, holder: str) -> int:
        await self._world.alive()
        return await self._world.journal.redact(session_id, first, last, note, holder)

    async def close(self) -> None:
        """No-op: the journal belongs to the world."""


Script = Callable[[World, SessionHandle], Awaitable[None]]
"""What the caller does in each life, with the same command ids each time."""


async def live(
    world: World, spec: SessionSpec, script: Script, failpoint: Failpoint | None = None, times: int = 1
) -> SessionHandle | None:
    """Run the script to its end, or until *failpoint* is reached *times* times; return the session if it is alive."""
    died = trio.Event()
    world.dead = False
    world.reached.clear()

    def watch(point: Failpoint) -> None:
        if world.dead:
            return
        world.reached[point] += 1
        if point is failpoint and world.reached[point] == times:
            world.dead = True
            died.set()

    session: SessionHandle | None = None
    with watching(watch):
        async with (
            open_supervisor(journal=MortalJournal(world), seed=1, address="mortal") as supervisor,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(_bury, died, nursery.cancel_scope)
            session = await _use(world, supervisor, spec, script)
            nursery.cancel_scope.cancel()
    return None if world.dead else session


async def _bury(died: trio.Event, life: trio.CancelScope) -> None:
    await died.wait()
    life.cancel()


async def _use(world: World, supervisor: Supervisor, spec: SessionSpec, script: Script) -> SessionHandle:
    session = await (supervisor.resume(SESSION, spec) if world.is_known else supervisor.open(SESSION, spec))
    async with trio.open_nursery() as nursery:
        await nursery.start(_listen, world, session)
        await script(world, session)
        nursery.cancel_scope.cancel()
    return session


async def _listen(
    world: World, session: SessionHandle, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    since = Cursor(world.heard[-1].seq if world.heard else 0)
    async with session.subscribe(since=since) as events:
        task_status.started()
        async for envelope in events:
            await world.alive()
            if envelope.event.durable:
                world.heard.append(envelope)

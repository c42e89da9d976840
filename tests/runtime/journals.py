"""Journals that are slow, full, or broken."""

from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from typing import TypeVar

import trio

from agentrail.errors import BrokenJournal
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

T = TypeVar("T")


def in_memory() -> Journal:
    return MemoryJournal(encode=True)


INNER: ContextVar[Callable[[], Journal]] = ContextVar("INNER", default=in_memory)
"""Makes the journal that a `TestJournal` writes to, unless it is given one."""

BROKEN = BrokenJournal("write a record", "KeyError: 0")
"""An error that crashes an actor: a mistake in the journal's code, not an outage, during which the actor waits."""

BROKEN_CAUSE = f"BrokenJournal: {BROKEN}"

Failure = Callable[[Record], Exception | None]


class TestJournal:
    """A journal (in memory unless given another) whose commits take *commit* seconds and can be made to fail."""

    __test__ = False

    def __init__(
        self, *, commit: float | None = None, claim: float | None = None, inner: Callable[[], Journal] | None = None
    ) -> None:
        self.inner: Journal = (inner or INNER.get())()
        self.commit = commit
        self.claim_takes = claim
        self.failing: Failure | None = None
        self.fails_after: Failure | None = None
        self.commits = 0

    async def claim(
        self, session_id: str, holder: str, lease: Lease = NO_LEASE, *, take_over: bool | str = False
    ) -> Claim:
        if self.claim_takes is not None:
            await trio.sleep(self.claim_takes)
        return await self.inner.claim(session_id, holder, lease, take_over=take_over)

    async def renew(self, claims: Sequence[Claim], lease: Lease) -> tuple[Claim, ...]:
        return await self.inner.renew(claims, lease)

    async def release(self, claims: Sequence[Claim]) -> None:
        await self.inner.release(claims)

    async def append(self, claim: Claim, expected: int, records: Sequence[Record]) -> int:
        if self.commit is not None:
            await trio.sleep(self.commit)
        if self.failing is not None:
            self._raise(self.failing, records)
        head = await self.inner.append(claim, expected, records)
        self.commits += 1
        if self.fails_after is not None:
            self._raise(self.fails_after, records)
        return head

    def _raise(self, failing: Failure, records: Sequence[Record]) -> None:
        for record in records:
            error = failing(record)
            if error is not None:
                raise error

    async def read(self, session_id: str, after: int = 0, limit: int = 1000) -> tuple[Record, ...]:
        return await self.inner.read(session_id, after, limit)

    async def answer(self, session_id: str, command: str) -> StoredAnswer | None:
        return await self.inner.answer(session_id, command)

    async def record_of_seq(self, session_id: str, seq: int) -> int:
        return await self.inner.record_of_seq(session_id, seq)

    async def sessions(
        self, wanted: SessionFilter = ALL_SESSIONS, after: StoredSession | None = None, limit: int = 1000
    ) -> tuple[StoredSession, ...]:
        return await self.inner.sessions(wanted, after, limit)

    async def summary(self, session_id: str) -> StoredSession | None:
        return await self.inner.summary(session_id)

    async def keep(self, claim: Claim, snapshot: Snapshot) -> None:
        await self.inner.keep(claim, snapshot)

    async def latest(self, session_id: str, upto: int | None = None, limit: int = 1000) -> Latest:
        return await self.inner.latest(session_id, upto, limit)

    async def delete(self, session_id: str, holder: str, at: int) -> int:
        return await self.inner.delete(session_id, holder, at)

    async def redact(self, session_id: str, first: int, last: int, note: Redaction, holder: str) -> int:
        return await self.inner.redact(session_id, first, last, note, holder)

    async def close(self) -> None:
        await self.inner.close()


class AwakeJournal:
    """Keeps the virtual clock from jumping while a thread of the wrapped journal works."""

    def __init__(self, inner: Journal) -> None:
        self.inner = inner

    async def _awake(self, doing: Awaitable[T]) -> T:
        results: list[T] = []
        error: Exception | None = None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_stay_awake)
            try:
                results.append(await doing)
            except Exception as raised:  # noqa: BLE001 - it is raised outside of the nursery
                error = raised
            nursery.cancel_scope.cancel()
        if error is not None:
            raise error
        return results[0]

    async def claim(
        self, session_id: str, holder: str, lease: Lease = NO_LEASE, *, take_over: bool | str = False
    ) -> Claim:
        return await self._awake(self.inner.claim(session_id, holder, lease, take_over=take_over))

    async def renew(self, claims: Sequence[Claim], lease: Lease) -> tuple[Claim, ...]:
        return await self._awake(self.inner.renew(claims, lease))

    async def release(self, claims: Sequence[Claim]) -> None:
        await self._awake(self.inner.release(claims))

    async def append(self, claim: Claim, expected: int, records: Sequence[Record]) -> int:
        return await self._awake(self.inner.append(claim, expected, records))

    async def read(self, session_id: str, after: int = 0, limit: int = 1000) -> tuple[Record, ...]:
        return await self._awake(self.inner.read(session_id, after, limit))

    async def record_of_seq(self, session_id: str, seq: int) -> int:
        return await self._awake(self.inner.record_of_seq(session_id, seq))

    async def answer(self, session_id: str, command: str) -> StoredAnswer | None:
        return await self._awake(self.inner.answer(session_id, command))

    async def sessions(
        self, wanted: SessionFilter = ALL_SESSIONS, after: StoredSession | None = None, limit: int = 1000
    ) -> tuple[StoredSession, ...]:
        return await self._awake(self.inner.sessions(wanted, after, limit))

    async def summary(self, session_id: str) -> StoredSession | None:
        return await self._awake(self.inner.summary(session_id))

    async def keep(self, claim: Claim, snapshot: Snapshot) -> None:
        await self._awake(self.inner.keep(claim, snapshot))

    async def latest(self, session_id: str, upto: int | None = None, limit: int = 1000) -> Latest:
        return await self._awake(self.inner.latest(session_id, upto, limit))

    async def delete(self, session_id: str, holder: str, at: int) -> int:
        return await self._awake(self.inner.delete(session_id, holder, at))

    async def redact(self, session_id: str, first: int, last: int, note: Redaction, holder: str) -> int:
        return await self._awake(self.inner.redact(session_id, first, last, note, holder))

    async def close(self) -> None:
        await self._awake(self.inner.close())


class Dozing(AwakeJournal):
    """An `AwakeJournal` for which the virtual clock does not wait while *dozing* is true."""

    dozing = False

    async def _awake(self, doing: Awaitable[T]) -> T:
        return await (doing if self.dozing else super()._awake(doing))


async def _stay_awake() -> None:
    while True:
        await trio.lowlevel.checkpoint()

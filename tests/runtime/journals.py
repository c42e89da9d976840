"""Journals that are slow, full, or broken."""

from collections.abc import Callable, Sequence

import trio

from agentrail.adapters.journals.memory import MemoryJournal
from agentrail.ports.journal import Claim, Record, StoredAnswer

Failure = Callable[[Record], Exception | None]


class TestJournal:
    """A `MemoryJournal` whose commits take *commit* seconds, and fail as *failing* says."""

    __test__ = False

    def __init__(self, *, commit: float | None = None, claim: float | None = None, encode: bool = True) -> None:
        self.inner = MemoryJournal(encode=encode)
        self.commit = commit
        self.claim_takes = claim
        self.failing: Failure | None = None
        self.fails_after: Failure | None = None
        self.commits = 0

    async def claim(self, session_id: str, owner: str) -> Claim:
        if self.claim_takes is not None:
            await trio.sleep(self.claim_takes)
        return await self.inner.claim(session_id, owner)

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

    async def sessions(self, after: str = "", limit: int = 1000) -> tuple[str, ...]:
        return await self.inner.sessions(after, limit)

"""The journal of a simulation: in memory, slow, full, broken, taken away; what it has written outlives the process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import trio

from agentrail.adapters.journals.memory import MemoryJournal
from agentrail.errors import CommitUnknown, JournalFull
from agentrail.ports.journal import Claim, Record, Snapshot, StoredAnswer, StoredSession
from agentrail.testing.simulator.auditor import Auditor
from agentrail.testing.simulator.faults import Chaos, choice

THIEF: Final = "thief"
GONE: Final = "the process is gone"
ON_PURPOSE: Final = "on purpose"


class DiskError(Exception):
    """The journal is broken on purpose."""


class FaultyJournal:
    """Puts faults before and behind what a `MemoryJournal` does, and shows the auditor what was written."""

    def __init__(self, disk: MemoryJournal, chaos: Chaos, auditor: Auditor, life: int) -> None:
        self._disk = disk
        self._chaos = chaos
        self._auditor = auditor
        self._chance = choice(chaos.seed, "journal", life)
        self.dead = False

    def _alive(self) -> None:
        """Raise if the process is gone: nothing of it reaches the disk any more."""
        if self.dead:
            raise CommitUnknown(GONE)

    async def append(self, claim: Claim, expected: int, records: Sequence[Record]) -> int:
        """Write *records*, or not."""
        fires = self._chaos.fires
        await self._wait()
        self._alive()
        if fires("journal_full"):
            raise JournalFull(ON_PURPOSE)
        if fires("journal_breaks"):
            raise DiskError(records[0].number)
        if fires("commit_unknown"):
            self.dead = True
            raise CommitUnknown(ON_PURPOSE)
        if fires("fenced"):
            await self._disk.claim(claim.session_id, THIEF)
        head = await self._disk.append(claim, expected, records)
        self._auditor.committed(records)
        if fires("commit_unknown_kept"):
            self.dead = True
            raise CommitUnknown(ON_PURPOSE)
        if fires("journal_breaks_behind"):
            raise DiskError(records[0].number)
        with trio.CancelScope(shield=True):  # what is written is answered
            await self._wait()
        self._alive()
        return head

    async def _wait(self) -> None:
        if self._chaos.fires("journal_slow"):
            await trio.sleep(self._chance.number(1, 1500) / 1000)

    def _reads(self) -> None:
        self._alive()
        if self._chaos.fires("journal_unreadable"):
            raise DiskError

    async def claim(self, session_id: str, owner: str) -> Claim:
        """Become the only writer of a session."""
        self._alive()
        await self._wait()
        return await self._disk.claim(session_id, owner)

    async def read(self, session_id: str, after: int = 0, limit: int = 1000) -> tuple[Record, ...]:
        """Return records."""
        self._reads()
        return await self._disk.read(session_id, after, limit)

    async def place(self, session_id: str, seq: int) -> int:
        """Return where the events behind *seq* are."""
        self._reads()
        return await self._disk.place(session_id, seq)

    async def answer(self, session_id: str, command: str) -> StoredAnswer | None:
        """Return what was answered to a command."""
        self._reads()
        return await self._disk.answer(session_id, command)

    async def sessions(self, after: str = "", limit: int = 1000) -> tuple[StoredSession, ...]:
        """Return what is stored."""
        self._reads()
        return await self._disk.sessions(after, limit)

    async def keep(self, claim: Claim, snapshot: Snapshot) -> None:
        """Keep a snapshot."""
        self._alive()
        self._auditor.kept(snapshot)
        await self._wait()
        await self._disk.keep(claim, snapshot)

    async def snapshot(self, session_id: str) -> Snapshot | None:
        """Return the snapshot of a session."""
        self._reads()
        return await self._disk.snapshot(session_id)

    async def close(self) -> None:
        """Give nothing back: the disk outlives the process."""

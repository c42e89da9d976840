"""The journal of a simulation: it keeps records in memory, beyond the life of a process, and fails as faults fire."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

import trio

from agentrail.adapters.journals.memory import MemoryJournal
from agentrail.errors import CommitUnknown, JournalFull
from agentrail.ports.journal import (
    ALL_SESSIONS,
    NO_LEASE,
    Claim,
    Latest,
    Lease,
    OnWritten,
    Record,
    RecordWithStates,
    Redaction,
    SessionFilter,
    Snapshot,
    StoredAnswer,
    StoredSession,
    Withdraw,
    changed,
)
from agentrail.testing.simulator.auditor import Auditor
from agentrail.testing.simulator.fault_kinds import Chaos, choice

THIEF: Final = "thief"
GONE: Final = "the process is gone"
ON_PURPOSE: Final = "on purpose"


MAX_AWAY: Final = 3000
"""Milliseconds for which the journal may be away at most, when the fault `journal_away` fires."""


class DiskError(OSError):
    """A planted failure of the disk under the journal."""


class MistakeError(LookupError):
    """A planted bug in the journal."""


class LateWrite:
    """A write that begins in the next pass of the event loop, unless it is withdrawn before; it tells of its end."""

    def __init__(
        self, append: Callable[[], Awaitable[object]], records: Sequence[Record], on_written: OnWritten
    ) -> None:
        self._append = append
        self._records = records
        self._on_written = on_written
        self._has_begun = self._is_withdrawn = False

    def withdraw(self) -> bool:
        """Take the records back; return whether the write has not begun."""
        self._is_withdrawn = not self._has_begun
        return self._is_withdrawn

    async def run(self) -> None:
        """Write."""
        if self._is_withdrawn:
            return
        self._has_begun = True
        result: tuple[Record, ...] | Exception = tuple(self._records)
        try:
            await self._append()
        except Exception as error:  # noqa: BLE001 - raised where the session goes on
            result = error
        self._on_written(result)


class FaultyJournal:
    """Wraps a `MemoryJournal`: raises planted errors before or after its methods, and passes records to the auditor.

    One that *is_direct* is written to at once, as the journal that it wraps; then it has no outage. Another one that
    *submits* is told what to write, and tells later how that went.
    """

    def __init__(
        self,
        disk: MemoryJournal,
        chaos: Chaos,
        auditor: Auditor,
        life: int,
        *,
        submits: bool = False,
        is_direct: bool = False,
    ) -> None:
        self._disk = disk
        self.submits = submits
        self.is_direct = is_direct
        self._chaos = chaos
        self._auditor = auditor
        self._chance = choice(chaos.seed, "journal", life)
        self.dead = False
        self._back_at = 0.0

    def _alive(self, fault: str | None = None) -> None:
        """Raise if the simulated process has died, if the journal has an outage, or if *fault* fires."""
        if self.dead:
            raise CommitUnknown(GONE)
        if self._chaos.fires("journal_away"):
            self._back_at = trio.current_time() + self._chance.number(1, MAX_AWAY) / 1000
        if trio.current_time() < self._back_at or (fault is not None and self._chaos.fires(fault)):
            raise DiskError(ON_PURPOSE)

    def submit(
        self, claim: Claim, expected: int, entries: Sequence[RecordWithStates], on_written: OnWritten
    ) -> Withdraw | None:
        """Write *entries* at once or later, or fail before or after writing them, as faults fire."""
        if self.is_direct:
            self._write_now(claim, expected, entries, on_written)
            return None
        records = changed(entries)
        late = LateWrite(partial(self.append, claim, expected, records), records, on_written)
        trio.lowlevel.spawn_system_task(late.run)
        return late.withdraw

    def _write_now(
        self, claim: Claim, expected: int, entries: Sequence[RecordWithStates], on_written: OnWritten
    ) -> None:
        fires = self._chaos.fires
        if self.dead:
            raise CommitUnknown(GONE)
        if fires("journal_breaks"):
            raise MistakeError(expected + 1)
        if fires("commit_unknown"):
            self.dead = True
            raise CommitUnknown(ON_PURPOSE)
        self._disk.submit(claim, expected, entries, on_written)
        self._auditor.committed(changed(entries))
        if fires("commit_unknown_kept"):
            self.dead = True
            raise CommitUnknown(ON_PURPOSE)
        if fires("journal_breaks_behind"):
            raise MistakeError(expected + 1)

    async def append(self, claim: Claim, expected: int, records: Sequence[Record]) -> int:
        """Write *records*, or fail before or after writing them, as faults fire."""
        fires = self._chaos.fires
        await self._wait()
        self._alive("writing_fails")
        if fires("journal_full"):
            raise JournalFull(ON_PURPOSE)
        if fires("journal_breaks"):
            raise MistakeError(records[0].number)
        if fires("commit_unknown"):
            self.dead = True
            raise CommitUnknown(ON_PURPOSE)
        if fires("fenced"):
            await self._disk.claim(claim.session_id, THIEF, take_over=True)
        head = await self._disk.append(claim, expected, records)
        self._auditor.committed(records)
        if fires("commit_unknown_kept"):
            self.dead = True
            raise CommitUnknown(ON_PURPOSE)
        if fires("journal_breaks_behind"):
            raise MistakeError(records[0].number)
        if fires("writing_fails_behind"):
            raise DiskError(ON_PURPOSE)
        with trio.CancelScope(shield=True):  # even a cancelled caller learns that the records are written
            await self._wait()
        if self.dead:
            raise CommitUnknown(GONE)
        return head

    async def _wait(self) -> None:
        if self._chaos.fires("journal_slow"):
            await trio.sleep(self._chance.number(1, 1500) / 1000)

    async def claim(
        self, session_id: str, holder: str, lease: Lease = NO_LEASE, *, take_over: bool | str = False
    ) -> Claim:
        """Make the caller the only writer of a session; raise `SessionHeld` if another holder has a lease of it."""
        self._alive("claiming_fails")
        await self._wait()
        return await self._disk.claim(session_id, holder, lease, take_over=take_over)

    async def renew(self, claims: Sequence[Claim], lease: Lease) -> tuple[Claim, ...]:
        """Renew the leases of *claims*, or fail before or after it; return the claims that are lost."""
        self._alive("renewing_fails")
        await self._wait()
        lost = await self._disk.renew(claims, lease)
        self._alive("renewing_fails")
        return lost

    async def release(self, claims: Sequence[Claim]) -> None:
        """End the leases of *claims*."""
        self._alive("renewing_fails")
        await self._disk.release(claims)

    async def read(self, session_id: str, after: int = 0, limit: int = 1000) -> tuple[Record, ...]:
        """Return the records of a session after the number *after*, at most *limit*."""
        self._alive("journal_unreadable")
        return await self._disk.read(session_id, after, limit)

    async def record_of_seq(self, session_id: str, seq: int) -> int:
        """Return the number of the record after which the events after *seq* are."""
        self._alive("journal_unreadable")
        return await self._disk.record_of_seq(session_id, seq)

    async def answer(self, session_id: str, command: str) -> StoredAnswer | None:
        """Return the stored answer to a command id, or `None` if there is none."""
        self._alive("answer_unreadable")
        return await self._disk.answer(session_id, command)

    async def sessions(
        self, wanted: SessionFilter = ALL_SESSIONS, after: StoredSession | None = None, limit: int = 1000
    ) -> tuple[StoredSession, ...]:
        """Return summaries of the stored sessions, at most *limit*, after the id *after*."""
        self._alive("listing_fails")
        return await self._disk.sessions(wanted, after, limit)

    async def summary(self, session_id: str) -> StoredSession | None:
        """Return the summary of a session, or `None` if it is not stored."""
        self._alive("listing_fails")
        return await self._disk.summary(session_id)

    async def keep(self, claim: Claim, snapshot: Snapshot) -> None:
        """Keep a snapshot, after the auditor has checked it."""
        self._alive("snapshot_fails")
        self._auditor.kept(snapshot)
        await self._wait()
        await self._disk.keep(claim, snapshot)

    async def latest(self, session_id: str, upto: int | None = None, limit: int = 1000) -> Latest:
        """Return the snapshot of a session and the records after it."""
        self._alive("journal_unreadable")
        return await self._disk.latest(session_id, upto, limit)

    async def delete(self, session_id: str, holder: str, at: int) -> int:
        """Delete a session and its sub-agents."""
        self._alive("writing_fails")
        await self._wait()
        deleted = await self._disk.delete(session_id, holder, at)
        self._auditor.deleted(session_id, [stored.session_id for stored in await self._disk.sessions()])
        return deleted

    async def redact(self, session_id: str, first: int, last: int, note: Redaction, holder: str) -> int:
        """Replace the texts of records by a mark."""
        self._alive("writing_fails")
        await self._wait()
        redacted = await self._disk.redact(session_id, first, last, note, holder)
        self._auditor.redacted(await self._disk.read(session_id, 0, last))
        return redacted

    async def close(self) -> None:
        """No-op: what is written must outlive the simulated process."""

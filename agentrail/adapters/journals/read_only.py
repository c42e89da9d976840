"""`ReadOnlyJournal`: another journal that is only looked at; its sessions are neither claimed nor brought back."""

# ruff: noqa: ARG002 - the parameters are those of `Journal`

from __future__ import annotations

from collections.abc import Sequence

import trio

from agentrail.errors import JournalReadOnly
from agentrail.ports.journal import (
    ALL_SESSIONS,
    NO_LEASE,
    Claim,
    Journal,
    Latest,
    Lease,
    Record,
    Redaction,
    SessionFilter,
    Snapshot,
    StoredAnswer,
    StoredSession,
)


class ReadOnlyJournal:
    """Reads *journal*, and refuses all that changes it. Another process may write it meanwhile."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def __repr__(self) -> str:
        return f"<ReadOnlyJournal of {self._journal!r}>"

    async def claim(
        self, session_id: str, holder: str, lease: Lease = NO_LEASE, *, take_over: bool | str = False
    ) -> Claim:
        """Raise `JournalReadOnly`: the process that runs the session goes on with it."""
        raise JournalReadOnly(f"claim the session `{session_id}`")

    async def renew(self, claims: Sequence[Claim], lease: Lease) -> tuple[Claim, ...]:
        """Return all *claims*, as they are lost: nobody was given one."""
        await trio.lowlevel.checkpoint()
        return tuple(claims)

    async def release(self, claims: Sequence[Claim]) -> None:
        """No-op: nobody was given a claim."""
        await trio.lowlevel.checkpoint()

    async def append(self, claim: Claim, expected: int, records: Sequence[Record]) -> int:
        """Raise `JournalReadOnly`."""
        raise JournalReadOnly(f"write to the session `{claim.session_id}`")

    async def read(self, session_id: str, after: int = 0, limit: int = 1000) -> tuple[Record, ...]:
        """Return up to *limit* records that follow number *after*."""
        return await self._journal.read(session_id, after, limit)

    async def record_of_seq(self, session_id: str, seq: int) -> int:
        """Return the number of the record after which the durable events that follow event *seq* begin."""
        return await self._journal.record_of_seq(session_id, seq)

    async def answer(self, session_id: str, command: str) -> StoredAnswer | None:
        """Return the command and answer stored under a command id; `None` if the id was never used."""
        return await self._journal.answer(session_id, command)

    async def sessions(
        self, wanted: SessionFilter = ALL_SESSIONS, after: StoredSession | None = None, limit: int = 1000
    ) -> tuple[StoredSession, ...]:
        """Return summaries of up to *limit* of the *wanted* sessions; none if only those to bring back are wanted."""
        if wanted.at_work or wanted.due_before is not None:
            await trio.lowlevel.checkpoint()
            return ()
        return await self._journal.sessions(wanted, after, limit)

    async def summary(self, session_id: str) -> StoredSession | None:
        """Return the summary of a session; `None` if it has no records."""
        return await self._journal.summary(session_id)

    async def keep(self, claim: Claim, snapshot: Snapshot) -> None:
        """Raise `JournalReadOnly`."""
        raise JournalReadOnly(f"store a snapshot of the session `{claim.session_id}`")

    async def latest(self, session_id: str, upto: int | None = None, limit: int = 1000) -> Latest:
        """Return the snapshot of a session, and up to *limit* of the records that follow it, up to *upto*."""
        return await self._journal.latest(session_id, upto, limit)

    async def delete(self, session_id: str, holder: str, at: int) -> int:
        """Raise `JournalReadOnly`."""
        raise JournalReadOnly(f"delete the session `{session_id}`")

    async def redact(self, session_id: str, first: int, last: int, note: Redaction, holder: str) -> int:
        """Raise `JournalReadOnly`."""
        raise JournalReadOnly(f"redact the session `{session_id}`")

    async def close(self) -> None:
        """Close the journal that is read."""
        await self._journal.close()

"""`UnsealedRecords`: the sessions of a journal as they leave it, alone: without the seal of their agents.

A seal fits each session of its journal that has the same agent. Whoever gets one with an export, for a report of an
error maybe, could put it on a session of their own, which would come back unasked once it is copied into the journal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from agentrail.adapters.journals.archive_writer import ArchiveWriter, CannotAddError
from agentrail.adapters.journals.journal_addresses import PlacedJournal
from agentrail.adapters.journals.session_copy import SessionSource
from agentrail.adapters.journals.sql.sqlite_journal import SqliteJournal
from agentrail.cli.agents.agent_source import AgentSource
from agentrail.cli.agents.begun_agents import is_begun
from agentrail.cli.stored.session_import import BEGUN_ABOVE, withdraw_allowed
from agentrail.ports.journal import NO_LEASE, Claim, Lease, Record, StoredSession

BEGUN_THERE: Final = "it is there as one that you have begun, with other records; nothing is added to it"


class UnsealedRecords:
    """Reads the sessions of *source*."""

    def __init__(self, source: SessionSource) -> None:
        self._source = source

    async def sessions(self, *, after: StoredSession | None = None, limit: int = 1000) -> tuple[StoredSession, ...]:
        """Return summaries of sessions, as the source does."""
        return await self._source.sessions(after=after, limit=limit)

    async def read(self, session_id: str, after: int = 0, limit: int = 1000) -> tuple[Record, ...]:
        """Return records as the source does, the first one without the seal."""
        return _from_first(await self._source.read(session_id, after, limit), after)


class UnsealedTarget:
    """Writes to *target*; what it has is compared without the seals, which those that are copied lack.

    Whatever is written there is asked about before it comes back. Nothing is added to what comes back unasked.
    """

    def __init__(self, target: PlacedJournal | ArchiveWriter) -> None:
        self._target = target

    async def read(self, session_id: str, after: int = 0, limit: int = 1000) -> tuple[Record, ...]:
        """Return records as the target does, the first one without the seal."""
        return _from_first(await self._target.read(session_id, after, limit), after)

    async def claim(self, session_id: str, holder: str, lease: Lease = NO_LEASE) -> Claim:
        """Claim a session, as the target does; raise `CannotAddError` if this user has begun it there.

        So it does for a sub-agent of a session that this user has begun.
        """
        for first in await self._target.read(session_id, 0, 1):
            if isinstance(self._target, SqliteJournal) and await is_begun(self._target, first):
                raise CannotAddError(BEGUN_THERE)
            await withdraw_allowed(self._target, first)
        return await self._target.claim(session_id, holder, lease)

    async def append(self, claim: Claim, expected: int, records: Sequence[Record]) -> int:
        """Append records, as the target does; raise `CannotAddError` for a sub-agent of what this user has begun."""
        if expected == 0:
            if isinstance(self._target, SqliteJournal) and await is_begun(self._target, records[0]):
                raise CannotAddError(BEGUN_ABOVE)
            await withdraw_allowed(self._target, records[0])
        return await self._target.append(claim, expected, records)

    async def release(self, claims: Sequence[Claim]) -> None:
        """Release claims, as the target does."""
        await self._target.release(claims)


def _from_first(records: tuple[Record, ...], after: int) -> tuple[Record, ...]:
    return records if after or not records else (_unsealed(records[0]), *records[1:])


def _unsealed(first: Record) -> Record:
    opening = first.opening
    source = None if opening is None else AgentSource.read(opening.setup.spec)
    if opening is None or source is None or not source.seal:
        return first
    return first.but(opening=opening.but(setup=opening.setup.but(spec=source.but(seal="").id)))

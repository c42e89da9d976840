"""`UnsealedRecords`: the sessions of a journal as they leave it, alone: without the seal of their agents.

A seal fits each session of its journal that has the same agent. Whoever gets one with an export, for a report of an
error maybe, could put it on a session of their own, which would come back unasked once it is copied into the journal.
"""

from __future__ import annotations

from agentrail.cli.agent_source import AgentSource
from agentrail.ports.journal import ALL_SESSIONS, Journal, Record, StoredSession, opening_of


class UnsealedRecords:
    """Reads the sessions of *journal*."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    async def sessions(self, *, after: StoredSession | None = None, limit: int = 1000) -> tuple[StoredSession, ...]:
        """Return summaries of sessions, as the journal does."""
        return await self._journal.sessions(ALL_SESSIONS, after, limit)

    async def read(self, session_id: str, after: int = 0, limit: int = 1000) -> tuple[Record, ...]:
        """Return records as the journal does, the first one without the seal."""
        records = await self._journal.read(session_id, after, limit)
        return records if after or not records else (_unsealed(records[0]), *records[1:])


def _unsealed(first: Record) -> Record:
    opening = opening_of(first)
    source = AgentSource.read(opening.setup.spec)
    if source is None or not source.seal:
        return first
    return first.but(opening=opening.but(setup=opening.setup.but(spec=source.but(seal="").id)))

"""`open_sessions`: the stored sessions of what a caller has: a journal, a file, records, or a supervisor that runs."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from os import PathLike, fspath
from pathlib import Path
from typing import Final, Protocol, TypeAlias, cast

import trio

from agentrail.adapters.journals.archive_reader import begins_as_export, open_archive
from agentrail.adapters.journals.journal_addresses import address_named, journal_at
from agentrail.app.supervisor import Supervisor, journal_of
from agentrail.errors import SessionNotStored, UsageError, WrongType
from agentrail.ports.journal import ALL_SESSIONS, Journal, Record, SessionFilter, StoredSession
from agentrail.ports.protocol_members import has_members

PAGE: Final = 500
"""How many records, or summaries, are read at once."""


class StoredSessions(Protocol):
    """Interface: what lists sessions and reads their records, such as a journal."""

    async def sessions(
        self, wanted: SessionFilter = ALL_SESSIONS, after: StoredSession | None = None, limit: int = 1000
    ) -> tuple[StoredSession, ...]:
        """Return summaries of stored sessions, a page."""
        ...

    async def read(self, session_id: str, after: int = 0, limit: int = 1000) -> tuple[Record, ...]:
        """Return records of a session, a page."""
        ...


SessionSource: TypeAlias = Journal | Supervisor | str | PathLike[str] | Iterable[Record]
"""Where sessions come from: a journal, a supervisor that runs, a journal's or an export's file, or records."""


class GivenRecords:
    """Records that a caller has, as sessions."""

    def __init__(self, records: Iterable[object]) -> None:
        self._records: dict[str, list[Record]] = {}
        for record in records:
            if not isinstance(record, Record):
                raise WrongType.of("sessions", record, "records, a journal, the path of one, or a supervisor")
            self._records.setdefault(record.session_id, []).append(record)

    async def sessions(
        self,
        wanted: SessionFilter = ALL_SESSIONS,  # noqa: ARG002 - all are wanted
        after: StoredSession | None = None,
        limit: int = 1000,  # noqa: ARG002 - they are in memory
    ) -> tuple[StoredSession, ...]:
        """Return summaries of the sessions."""
        if after is not None:
            return ()
        return tuple([StoredSession(name, records[-1].number) for name, records in sorted(self._records.items())])

    async def read(self, session_id: str, after: int = 0, limit: int = 1000) -> tuple[Record, ...]:
        """Return records of one of them."""
        return tuple(self._records[session_id][after : after + limit])


@asynccontextmanager
async def open_sessions(source: SessionSource) -> AsyncGenerator[StoredSessions, None]:
    """Open *source* for reading; what is opened here is closed when the block ends."""
    if isinstance(source, str | PathLike):
        async with _open_file(fspath(source)) as opened:
            yield opened
    else:
        yield _sessions_of(source)


def _sessions_of(source: object) -> StoredSessions:
    if isinstance(source, Supervisor):
        return journal_of(source)
    if has_members(source, StoredSessions):
        return source
    if isinstance(source, Iterable) and not isinstance(source, bytes):
        return GivenRecords(cast("Iterable[object]", source))
    raise WrongType.of("sessions", source, "a journal, the path of one or of an export, records, or a supervisor")


@asynccontextmanager
async def _open_file(name: str) -> AsyncGenerator[StoredSessions, None]:
    address = address_named(name)
    if isinstance(address, Path):
        if not await trio.Path(address).is_file():
            raise UsageError("no-sessions", name)
        if await trio.to_thread.run_sync(begins_as_export, address):
            async with open_archive(address) as reader:
                yield reader
            return
    journal = journal_at(address)
    try:
        yield journal
    finally:
        # Else the file stays open when the caller is cancelled.
        # tests/what_if/test_backtest.py::test_sessions_come_from_wherever_they_are
        with trio.CancelScope(shield=True):
            await journal.close()


async def stored_in(source: StoredSessions, only: Iterable[str] | None) -> Sequence[StoredSession]:
    """Return the sessions in *source*, or those of the ids *only*; raise if one of these is not there."""
    stored: dict[str, StoredSession] = {}
    after: StoredSession | None = None
    while page := await source.sessions(ALL_SESSIONS, after, PAGE):
        stored.update((summary.session_id, summary) for summary in page)
        after = page[-1]
    if only is None:
        return list(stored.values())
    names = dict.fromkeys(only)
    for name in names:
        if name not in stored:
            raise SessionNotStored(name)
    return [stored[name] for name in names]


async def records_of(source: StoredSessions, stored: StoredSession) -> list[Record]:
    """Return the records of a session, up to its last one when it was listed."""
    records: list[Record] = []
    while len(records) < stored.head and (page := await source.read(stored.session_id, len(records), PAGE)):
        records += page
    return records

"""`SqliteJournal`: one SQLite file, written by one process; a call returns when its records are durable."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Final, Literal

import trio

from agentrail.adapters.journals.redacting import kept_names
from agentrail.adapters.journals.sqlite.deletion.deletions import DeletionProgress
from agentrail.adapters.journals.sqlite.error_mapping import still_read
from agentrail.adapters.journals.sqlite.opening import Connect
from agentrail.adapters.journals.sqlite.reading import JournalReader
from agentrail.adapters.journals.sqlite.writer_lock import place_of
from agentrail.adapters.journals.sqlite.writing import Writer
from agentrail.adapters.journals.writer_thread import Worker
from agentrail.errors import BadChoice, BadRecord
from agentrail.ports.journal import (
    ALL_SESSIONS,
    NO_LEASE,
    Claim,
    Latest,
    Lease,
    Record,
    Redaction,
    SessionFilter,
    Snapshot,
    StoredAnswer,
    StoredSession,
    check_numbers,
)
from agentrail.reprs import in_brackets
from agentrail.values.argument_checks import checked

SYNC: Final = ("full", "normal")
"""Whether each commit is synced to the disk (`full`), or a power cut may lose the last ones (`normal`)."""

MAX_TOGETHER: Final = 512
"""The most waiting calls that the writer commits in one transaction; the others wait for the next one."""

PATIENCE: Final = 100
"""How often `delete` tries to empty the log while another program reads the file."""

PAUSE: Final = 0.05
"""Seconds between two of these attempts."""

READ_AT_ONCE: Final = 100
"""The most records that are read by one job of the reader's thread; other jobs may run before the next."""


class SqliteJournal:
    """Keeps records in an SQLite file: *path*, or by default one file per user, in the folder `AGENTRAIL_HOME` if set.

    Only one process can write it. A second one is refused, unless it has *take_over*: then the first is refused.
    """

    @checked
    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        sync: Literal["full", "normal"] = "full",
        take_over: bool = False,
        connect: Connect = sqlite3.connect,
    ) -> None:
        if sync not in SYNC:
            raise BadChoice.among("sync", sync, SYNC)
        self.path = place_of(path)
        writer = Writer(self.path, connect, sync=sync, take_over=take_over)
        self._writing = Worker("agentrail journal writer", writer, MAX_TOGETHER)
        self._reading = Worker("agentrail journal reader", JournalReader(self.path, connect), 1)

    @in_brackets
    def __repr__(self) -> str:
        return f"{str(self.path)!r} {'in use' if self._writing.is_alive or self._reading.is_alive else 'at rest'}"

    async def claim(
        self, session_id: str, holder: str, lease: Lease = NO_LEASE, *, take_over: bool | str = False
    ) -> Claim:
        """Make the caller the only writer of a session; raise `SessionHeld` if another holder has a lease of it."""
        claiming = partial(Writer.claim, take_over=take_over)
        return await self._writing.do(claiming, session_id, holder, lease, about=session_id)

    async def renew(self, claims: Sequence[Claim], lease: Lease) -> tuple[Claim, ...]:
        """Let the leases of *claims* last as *lease* says; return the claims that are lost."""
        return await self._writing.do(Writer.renew, claims, lease)

    async def release(self, claims: Sequence[Claim]) -> None:
        """End the leases of *claims*, so that other holders may claim their sessions."""
        await self._writing.do(Writer.release, claims)

    async def append(self, claim: Claim, expected: int, records: Sequence[Record]) -> int:
        """Write *records* after record number *expected*, all or none; return the number of the last one."""
        check_numbers(claim, expected, records)
        return await self._writing.do(Writer.append, claim, expected, records, about=claim.session_id)

    async def read(self, session_id: str, after: int = 0, limit: int = 1000) -> tuple[Record, ...]:
        """Return up to *limit* records that follow number *after*."""
        records: list[Record] = []
        while len(records) < limit:
            start, most = after + len(records), min(READ_AT_ONCE, limit - len(records))
            piece = await self._reading.do(JournalReader.read, session_id, start, most, about=session_id)
            records.extend(piece)
            if len(piece) < most:
                break
        return tuple(records)

    async def record_of_seq(self, session_id: str, seq: int) -> int:
        """Return the number of the record after which the durable events that follow event *seq* begin."""
        return await self._reading.do(JournalReader.record_of_seq, session_id, seq, about=session_id)

    async def answer(self, session_id: str, command: str) -> StoredAnswer | None:
        """Return the command and answer stored under a command id; `None` if the id was never used."""
        return await self._reading.do(JournalReader.answer, session_id, command, about=session_id)

    async def sessions(
        self, wanted: SessionFilter = ALL_SESSIONS, after: StoredSession | None = None, limit: int = 1000
    ) -> tuple[StoredSession, ...]:
        """Return summaries of up to *limit* stored sessions with ids greater than *after*, sorted by id."""
        return await self._reading.do(JournalReader.sessions, wanted, after, limit)

    async def last_used(self, limit: int, *, label: str | None = None) -> tuple[StoredSession, ...]:
        """Return summaries of the *limit* sessions that were used last, the last one first; with *label*, of those."""
        return await self._reading.do(JournalReader.last_used, label, limit)

    async def keep(self, claim: Claim, snapshot: Snapshot) -> None:
        """Store a snapshot of a session in place of the previous one."""
        await self._writing.do(Writer.keep, claim, snapshot, about=claim.session_id)

    async def latest(self, session_id: str, upto: int | None = None, limit: int = 1000) -> Latest:
        """Return the snapshot of a session, and up to *limit* of the records that follow it, up to *upto*."""
        most = min(limit, READ_AT_ONCE)
        latest = await self._reading.do(JournalReader.latest, session_id, upto, most, about=session_id)
        records = latest.records
        if len(records) < READ_AT_ONCE or limit == READ_AT_ONCE:
            return latest
        last = records[-1].number
        rest = limit - READ_AT_ONCE if upto is None else min(limit - READ_AT_ONCE, upto - last)
        return latest.but(records=(*records, *await self.read(session_id, last, rest)))

    async def delete(self, session_id: str, holder: str, at: int) -> int:
        """Delete all that is stored of a session and of its sub-agents; return how many sessions that were.

        It returns when the pages are given back to the file system, and no byte of the sessions is left in the file or
        in its log. In between, others read and write. Raise `JournalFailed` if another program reads the file all the
        time, because the log cannot be emptied then; the next call goes on.
        """
        mark, count = await self._writing.do(Writer.mark, session_id, holder, at, about=session_id)
        await self._wait_for_mark(session_id, mark)
        return count

    async def redact(self, session_id: str, first: int, last: int, note: Redaction, holder: str) -> int:
        """Replace the texts of records *first* to *last* by a mark; return how many were replaced now.

        It returns when the texts are in none of the journal's files any more; see `delete`.
        """
        names = await self._kept_names(session_id)
        count, following, mark = 0, max(first, 1), 0
        while not mark:
            arguments = session_id, following, last, note, holder, names
            some, following, mark = await self._writing.do(Writer.redact, *arguments, about=session_id)
            count += some
        await self._wait_for_mark(session_id, mark)
        return count

    async def _kept_names(self, session_id: str) -> frozenset[str]:
        """Return the names that a redaction of a session keeps: of all records, or of those before a damaged one.

        Damage of records outside of the range does not keep the texts of others: they can be redacted all the same.
        """
        names: frozenset[str] = frozenset()
        after = 0
        with suppress(BadRecord):
            while piece := await self.read(session_id, after, READ_AT_ONCE):
                names |= kept_names(piece)
                after += len(piece)
        return names

    async def _wait_for_mark(self, session_id: str, mark: int) -> None:
        """Wait until the work that is marked with the number *mark* is done."""
        for _ in range(PATIENCE):
            while (progress := await self._writing.do(Writer.progress, mark)) is DeletionProgress.GOES_ON:
                pass
            if progress is DeletionProgress.DONE:
                return
            await trio.sleep(PAUSE)
        raise still_read(session_id)

    async def holders(self) -> tuple[str, ...]:
        """Return the other process that has the journal open for writing, and so may run its sessions, if any."""
        writer = await self._reading.do(JournalReader.other_writer)
        return () if writer is None else (writer,)

    async def close(self) -> None:
        """Wait until running calls have ended, and close files and threads. The next call would open them again."""
        await self._reading.close()
        await self._writing.close()

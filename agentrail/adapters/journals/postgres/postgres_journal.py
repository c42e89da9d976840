"""`PostgresJournal`: sessions in a PostgreSQL database, which several processes on several machines use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import cycle
from typing import TYPE_CHECKING, Final, TypeVar

from agentrail.adapters.extras import need_extra
from agentrail.adapters.journals.writer_thread import Worker
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

if TYPE_CHECKING:
    from agentrail.adapters.journals.postgres.snapshot_reader import PostgresReader

T = TypeVar("T")

MAX_TOGETHER: Final = 512
"""The most waiting calls that the writer carries out together."""

READERS: Final = 4
"""How many connections read, each in a thread of its own."""

READ_AT_ONCE: Final = 100
"""The most records that are read by one job of a reader's thread; other jobs may run before the next."""


class PostgresJournal:
    """Keeps records in the PostgreSQL database at *url*, like `postgresql://user:password@host:5432/database`.

    Its tables are in the schema `agentrail`, and are made at the first use. Several processes may use one database.
    """

    @checked
    def __init__(self, url: str) -> None:
        need_extra("postgres", "psycopg", "keep sessions in PostgreSQL")
        # psycopg comes with the extra
        from agentrail.adapters.journals.postgres.database import Target  # noqa: PLC0415
        from agentrail.adapters.journals.postgres.fenced_writer import PostgresWriter  # noqa: PLC0415
        from agentrail.adapters.journals.postgres.snapshot_reader import PostgresReader  # noqa: PLC0415

        target = Target(url)
        self.url = str(target)
        """Where the database is, without the password."""
        self._writer = PostgresWriter(target)
        self._writing = Worker("agentrail journal writer", self._writer, MAX_TOGETHER)
        self._readers = [
            Worker(f"agentrail journal reader {number}", PostgresReader(target), 1) for number in range(READERS)
        ]
        self._next_reader = cycle(self._readers)
        self._operating = Worker("agentrail journal operator", PostgresReader(target), 1)

    @in_brackets
    def __repr__(self) -> str:
        is_used = self._writing.is_alive or any(worker.is_alive for worker in (self._operating, *self._readers))
        return f"{self.url!r} {'in use' if is_used else 'at rest'}"

    async def claim(
        self, session_id: str, holder: str, lease: Lease = NO_LEASE, *, take_over: bool | str = False
    ) -> Claim:
        """Make the caller the only writer of a session; raise `SessionHeld` if another holder has a lease of it."""
        waiting = await self._writing.do(
            lambda writer: writer.claim(session_id, holder, lease, take_over=take_over), about=session_id
        )
        return waiting.outcome()

    async def renew(self, claims: Sequence[Claim], lease: Lease) -> tuple[Claim, ...]:
        """Let the leases of the holders of *claims* last as *lease* says; return the claims that are lost."""
        return await self._writing.do(lambda writer: writer.renew(claims, lease))

    async def release(self, claims: Sequence[Claim]) -> None:
        """End the leases of *claims*, so that other holders may claim their sessions."""
        await self._writing.do(lambda writer: writer.release(claims))

    async def append(self, claim: Claim, expected: int, records: Sequence[Record]) -> int:
        """Write *records* after record number *expected*, all or none; return the number of the last one."""
        check_numbers(claim, expected, records)
        waiting = await self._writing.do(lambda writer: writer.append(claim, expected, records), about=claim.session_id)
        return waiting.outcome()

    async def read(self, session_id: str, after: int = 0, limit: int = 1000) -> tuple[Record, ...]:
        """Return up to *limit* records that follow number *after*."""
        records: list[Record] = []
        while len(records) < limit:
            start, most = after + len(records), min(READ_AT_ONCE, limit - len(records))
            piece = await self._read(partial(_read_piece, session_id, start, most), session_id)
            records.extend(piece)
            if len(piece) < most:
                break
        return tuple(records)

    async def record_of_seq(self, session_id: str, seq: int) -> int:
        """Return the number of the record after which the durable events that follow event *seq* begin."""
        return await self._read(lambda reader: reader.record_of_seq(session_id, seq), session_id)

    async def answer(self, session_id: str, command: str) -> StoredAnswer | None:
        """Return the command and answer stored under a command id; `None` if the id was never used."""
        return await self._read(lambda reader: reader.answer(session_id, command), session_id)

    async def sessions(
        self, wanted: SessionFilter = ALL_SESSIONS, after: StoredSession | None = None, limit: int = 1000
    ) -> tuple[StoredSession, ...]:
        """Return summaries of up to *limit* of the *wanted* sessions, after *after*."""
        return await self._read(lambda reader: reader.sessions(wanted, after, limit))

    async def last_used(self, limit: int, *, label: str | None = None) -> tuple[StoredSession, ...]:
        """Return summaries of the *limit* sessions that were used last, the last one first; with *label*, of those."""
        return await self._read(lambda reader: reader.last_used(label, limit))

    async def keep(self, claim: Claim, snapshot: Snapshot) -> None:
        """Store a snapshot of a session in place of the previous one."""
        await self._writing.do(lambda writer: writer.keep(claim, snapshot), about=claim.session_id)

    async def latest(self, session_id: str, upto: int | None = None, limit: int = 1000) -> Latest:
        """Return the snapshot of a session, and up to *limit* of the records that follow it, up to *upto*."""
        most = min(limit, READ_AT_ONCE)
        latest = await self._read(lambda reader: reader.latest(session_id, upto, most), session_id)
        records = latest.records
        if len(records) < READ_AT_ONCE or limit == READ_AT_ONCE:
            return latest
        last = records[-1].number
        rest = limit - READ_AT_ONCE if upto is None else min(limit - READ_AT_ONCE, upto - last)
        return latest.but(records=(*records, *await self.read(session_id, last, rest)))

    async def delete(self, session_id: str, holder: str, at: int) -> int:  # noqa: ARG002 - the server has a clock
        """Delete all that is stored of a session and of its sub-agents; return how many sessions that were.

        It is one transaction. What is deleted is gone for every call and query; the server's files still have it until
        its operator runs `VACUUM FULL`.
        """
        await self._settle(session_id)
        return await self._operating.do(lambda reader: reader.delete(session_id, holder), about=session_id)

    async def redact(self, session_id: str, first: int, last: int, note: Redaction, holder: str) -> int:
        """Replace the texts of records *first* to *last* by a mark; return how many were replaced now.

        It is one transaction; of the files see `delete`.
        """
        await self._settle(session_id)
        return await self._operating.do(
            lambda reader: reader.redact(session_id, first, last, note, holder), about=session_id
        )

    async def holders(self) -> tuple[str, ...]:
        """Return those who hold sessions now, and so may run them."""
        return await self._read(lambda reader: reader.holders())

    async def close(self) -> None:
        """Wait until running calls have ended, and close connections and threads; the next call opens them again."""
        for worker in (*self._readers, self._operating):
            await worker.close()
        await self._writing.close()

    async def _read(self, run: Callable[[PostgresReader], T], session_id: str = "") -> T:
        """Return what *run* reads, in one of the readers' threads."""
        await self._settle(session_id)
        return await next(self._next_reader).do(run, about=session_id)

    async def _settle(self, session_id: str) -> None:
        """Find out what was written of a session last, if that is in doubt, so that nothing is read before it is."""
        if self._writer.is_in_doubt(session_id):
            await self._writing.do(lambda writer: writer.settle(session_id), about=session_id)


def _read_piece(session_id: str, after: int, limit: int, reader: PostgresReader) -> tuple[Record, ...]:
    return reader.read(session_id, after, limit)

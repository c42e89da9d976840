"""`SqlJournal`: sessions in a database, which several processes write."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import cycle
from typing import Final, TypeVar
from zlib import crc32

import trio

from agentrail.adapters.journals.redacting import kept_names
from agentrail.adapters.journals.sql.reader import SqlReader
from agentrail.adapters.journals.sql.sql_dialect import CleaningState, SqlDialect
from agentrail.adapters.journals.sql.sql_tables import as_stored
from agentrail.adapters.journals.sql.sqlite_errors import still_read
from agentrail.adapters.journals.sql.writer import SqlWriter, Submitted
from agentrail.adapters.journals.writer_thread import ThreadJob, WriterThread
from agentrail.errors import BadRecord, JournalFailed, NothingWritten
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
    check_numbers,
)
from agentrail.ports.money import Balance, Expense

T = TypeVar("T")

MAX_TOGETHER: Final = 512
"""The most waiting calls that a writer commits in one transaction; the others wait for the next one."""

READ_AT_ONCE: Final = 100
"""The most records that are read, or redacted, by one job of a thread; other jobs may run before the next."""


PATIENCE: Final = 100
"""How often a removal tries to empty SQLite's log while another program reads the file."""

PAUSE: Final = 0.05
"""Seconds between two of these attempts."""


class SqlJournal:
    """Keeps records in the database of *dialect*. Nothing is opened before the first call."""

    def __init__(self, dialect: SqlDialect, writer: Callable[[SqlDialect], SqlWriter] = SqlWriter) -> None:
        self._dialect = dialect
        self._writers = [writer(dialect) for _ in range(dialect.writers)]
        self._writing = [WriterThread("agentrail journal writer", writer, MAX_TOGETHER) for writer in self._writers]
        self._reading = [
            WriterThread("agentrail journal reader", SqlReader(dialect), 1) for _ in range(dialect.readers)
        ]
        self._next_reader = cycle(self._reading)

    @property
    def is_in_use(self) -> bool:
        """Whether a connection may be open."""
        return any(worker.is_alive for worker in self._writing) or any(worker.is_alive for worker in self._reading)

    async def claim(
        self, session_id: str, holder: str, lease: Lease = NO_LEASE, *, take_over: bool | str = False
    ) -> Claim:
        """Make the caller the only writer of a session; raise `SessionHeld` if another holder has a lease of it."""
        claiming = partial(SqlWriter.claim, take_over=take_over)
        writer = self._writer_of(session_id)
        return await writer.do(claiming, session_id, holder, lease, session_id=session_id, creates=True)

    async def renew(self, claims: Sequence[Claim], lease: Lease) -> tuple[Claim, ...]:
        """Let the leases of *claims* last as *lease* says; return the claims that are lost."""
        return await self._writing[0].do(SqlWriter.renew, claims, lease)

    async def release(self, claims: Sequence[Claim]) -> None:
        """End the leases of *claims*, so that other holders may claim their sessions."""
        await self._writing[0].do(SqlWriter.release, claims)

    async def reserve_money(self, expense: Expense, limit: int) -> Balance:
        """Reserve *expense* if that keeps its day within *limit*; see `DayMoney`."""
        return await self._writing[0].do(
            SqlWriter.reserve_money, expense, limit, money=((expense.day, expense.tenant),)
        )

    async def settle_money(self, costs: Sequence[tuple[Expense, int]]) -> None:
        """Count the cost of each expense in place of its most."""
        keys = {(expense.day, expense.tenant) for expense, _ in costs}
        await self._writing[0].do(SqlWriter.settle_money, costs, money=keys)

    async def append(self, claim: Claim, expected: int, records: Sequence[Record]) -> int:
        """Write *records* after record number *expected*, all or none; return the number of the last one."""
        check_numbers(claim, expected, records)
        session_id = claim.session_id
        return await self._writer_of(session_id).do(SqlWriter.append, claim, expected, records, session_id=session_id)

    @property
    def submits(self) -> bool:
        """Whether sessions submit their records: the thread makes the changes, and no task waits."""
        return True

    @property
    def is_direct(self) -> bool:
        """Whether it writes at once: no."""
        return False

    def submit(
        self, claim: Claim, expected: int, entries: Sequence[RecordWithStates], on_written: OnWritten
    ) -> Withdraw | None:
        """Write *entries* after record number *expected*, all or none; *on_written* is called when that is done."""
        check_numbers(claim, expected, [entry.record for entry in entries])
        session_id, on_done = claim.session_id, partial(_pass_on, on_written)
        return self._writer_of(session_id).submit(
            SqlWriter.submit, claim, expected, Submitted(entries), session_id=session_id, on_done=on_done
        )

    async def read(self, session_id: str, after: int = 0, limit: int = 1000) -> tuple[Record, ...]:
        """Return up to *limit* records that follow number *after*."""
        records: list[Record] = []
        while len(records) < limit:
            start, count = after + len(records), min(READ_AT_ONCE, limit - len(records))
            page = await self._read(
                partial(SqlReader.read, session_id=session_id, after=start, limit=count), session_id
            )
            records.extend(page)
            if len(page) < count:
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

    async def summary(self, session_id: str) -> StoredSession | None:
        """Return the summary of a session; `None` if it has no records."""
        return await self._read(lambda reader: reader.summary(session_id), session_id)

    async def last_used(self, limit: int, *, label: str | None = None) -> tuple[StoredSession, ...]:
        """Return summaries of the *limit* sessions that were used last, the last one first; with *label*, of those."""
        return await self._read(lambda reader: reader.last_used(label, limit))

    async def ids_from(self, beginning: str) -> tuple[str, ...]:
        """Return the ids of all sessions with records whose ids begin so, sorted; no summary decides which."""
        return await self._read(lambda reader: reader.ids_from(beginning))

    async def keep(self, claim: Claim, snapshot: Snapshot) -> None:
        """Store a snapshot of a session in place of the previous one."""
        await self._writer_of(claim.session_id).do(SqlWriter.keep, claim, snapshot, session_id=claim.session_id)

    async def latest(self, session_id: str, upto: int | None = None, limit: int = 1000) -> Latest:
        """Return the snapshot of a session, and up to *limit* of the records that follow it, up to *upto*."""
        count = min(limit, READ_AT_ONCE)
        latest = await self._read(lambda reader: reader.latest(session_id, upto, count), session_id)
        records = latest.records
        if len(records) < READ_AT_ONCE or limit == READ_AT_ONCE:
            return latest
        last = records[-1].number
        rest = limit - READ_AT_ONCE if upto is None else min(limit - READ_AT_ONCE, upto - last)
        return latest.but(records=(*records, *await self.read(session_id, last, rest)))

    async def delete(self, session_id: str, holder: str, at: int) -> int:
        """Delete all that is stored of a session and of its sub-agents; return how many sessions that were.

        It is one transaction. It returns when no byte of the sessions is left in a file of the journal; files of a
        server are for its operator to clean.
        """
        writer = self._writer_of(session_id)
        count, mark = await writer.do(SqlWriter.delete, session_id, holder, at, session_id=session_id)
        with _removing(session_id):
            await self._wait_until_clean(session_id, mark)
        return count

    async def redact(self, session_id: str, first: int, last: int, note: Redaction, holder: str) -> int:
        """Replace the texts of records *first* to *last* by a mark; return how many were replaced now.

        Some records at a time are one transaction. It returns when the texts are in no file of the journal; see
        `delete`.
        """
        names = await self._kept_names(session_id)
        writer = self._writer_of(session_id)
        start = max(first, 1)

        async def redact_page() -> int:
            stop = min(last, start + READ_AT_ONCE - 1)
            arguments = session_id, start, stop, note, holder, names
            return await writer.do(SqlWriter.redact, *arguments, session_id=session_id)

        count = await redact_page()
        with _removing(session_id):
            while (start := start + READ_AT_ONCE) <= last and await self.read(session_id, start - 1, 1):
                count += await redact_page()
            mark = await writer.do(SqlWriter.drop_unnamed_blobs, session_id, session_id=session_id)
            await self._wait_until_clean(session_id, mark)
        return count

    async def _wait_until_clean(self, session_id: str, mark: int) -> None:
        """Wait until the cleaning that a removal has asked for with *mark* is done."""
        writer = self._writer_of(session_id)
        for _ in range(PATIENCE):
            while (state := await writer.do(SqlWriter.cleaning_state, mark)) is CleaningState.GOES_ON:
                pass
            if state is CleaningState.DONE:
                return
            await trio.sleep(PAUSE)
        raise still_read(session_id)

    async def _kept_names(self, session_id: str) -> frozenset[str]:
        """Return the names that a redaction of a session keeps: of all records, or of those before a damaged one.

        Damage of records outside of the range does not keep the texts of others: they can be redacted all the same.
        """
        names: frozenset[str] = frozenset()
        after = 0
        with suppress(BadRecord):
            while page := await self.read(session_id, after, READ_AT_ONCE):
                names |= kept_names(page)
                after += len(page)
        return names

    async def holders(self) -> tuple[str, ...]:
        """Return those who hold sessions now, and so may run them."""
        return await self._read(lambda reader: reader.holders())

    async def close(self) -> None:
        """Wait until running calls have ended, and close files, threads and connections; the next call opens them."""
        for reading in self._reading:
            await reading.close()
        for writing in self._writing:
            await writing.close()

    def _writer_of(self, session_id: str) -> WriterThread[SqlWriter]:
        return self._writing[self._index(session_id)]

    def _index(self, session_id: str) -> int:
        return crc32(as_stored(session_id)) % len(self._writing) if len(self._writing) > 1 else 0

    async def _read(self, run: Callable[[SqlReader], T], session_id: str = "") -> T:
        """Return what *run* reads in a reader's thread, once it is known what was written of the session last."""
        index = self._index(session_id)
        if self._writers[index].is_in_doubt(session_id):
            try:
                await self._writing[index].do(SqlWriter.settle, session_id, session_id=session_id)
            except NothingWritten as error:
                raise JournalFailed(
                    f"find out what was written of session `{session_id}` last", error.problem
                ) from error
        return await next(self._next_reader).do(run, session_id=session_id)


@contextmanager
def _removing(session_id: str) -> Generator[None]:
    """Raise `JournalFailed` in place of `NothingWritten`: the transaction before has removed something."""
    try:
        yield
    except NothingWritten as error:
        attempt = f"finish what removes texts of session `{session_id}`, and has removed some"
        raise JournalFailed(attempt, error.problem) from error


def _pass_on(on_written: OnWritten, job: ThreadJob[SqlWriter, tuple[Record, ...]]) -> None:
    """Tell whoever has submitted records how that has ended."""
    try:
        records = job.outcome()
    except Exception as error:  # noqa: BLE001 - raised where the session goes on
        on_written(error)
    else:
        on_written(records)

"""Carries out the calls that write, in one thread: those that wait together are one transaction.

The rows of their sessions are read first. Each call then works on the rows in memory, and what they have changed is
written with one statement for each table. If a call makes the transaction fail, each is carried out alone.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cached_property
from typing import Final, cast

from agentrail.adapters.journals.checksums import as_bytes, checksum_of_snapshot
from agentrail.adapters.journals.message_index import ReferencesBySession
from agentrail.adapters.journals.packing import NO_CHECK, PackedRecord, checksum_of, pack
from agentrail.adapters.journals.sql import sql_tables
from agentrail.adapters.journals.sql.money_rows import MoneyTable
from agentrail.adapters.journals.sql.row_removal import delete_rows, drop_unnamed_blobs, find_tree, redact_rows
from agentrail.adapters.journals.sql.session_listing import about_row, read_about, stored_time
from agentrail.adapters.journals.sql.sql_dialect import CleaningState, SqlConnection, SqlDialect
from agentrail.adapters.journals.sql.sql_tables import SqlValue, as_stored, as_text
from agentrail.adapters.journals.sql.stored_rows import (
    SessionColumns,
    check_numbers,
    checked_records,
    hidden,
    hidden_sessions,
    read_sessions,
)
from agentrail.adapters.journals.writer_thread import WriterJob
from agentrail.errors import AgentrailError, Fenced, JournalFailed, NothingWritten
from agentrail.errors.agentrail_error import fresh
from agentrail.ports.failpoints import reach
from agentrail.ports.journal import (
    NO_HOLDING,
    About,
    Claim,
    Holding,
    Lease,
    Record,
    RecordWithStates,
    Redaction,
    Snapshot,
    about_after,
    changed,
    check_free,
    check_snapshot,
    has_ended,
    last_seq,
    parent_of,
    slot_of,
    tells_about,
)
from agentrail.ports.money import Balance, Expense

ROWS_KEPT: Final = 10_000
"""The most sessions whose rows are cached; beyond it all are dropped, and read again when they are needed."""

KEPT_MS: Final = 30 * 86_400_000
"""For how many milliseconds after its end a lease is kept: for so long a late renewal holds."""

WRITE: Final = "write what it was given"

ENDED_LEASES: Final = """delete from ~lease
where until < ? and key < (select max(key) from ~lease)"""
"""The last lease stays: else the next one would get its key, and with that the sessions that refer to it."""

NO_LEASE_KEY: Final = 0
"""The key in the row of a session that was claimed without a lease: the lease would stay, as nobody renews it."""

NEW_LEASE: Final = "insert into ~lease (holder, until) values (?, 0)"
LEASE_OF: Final = "select key from ~lease where holder = ?"

NOTHING_TO_LIST: Final = About()
"""What a session without a record can be found by."""


class Submitted:
    """Records that were submitted as *entries*: their changes are made once, in the thread, however often they run."""

    def __init__(self, entries: Sequence[RecordWithStates]) -> None:
        self._entries = entries

    @cached_property
    def records(self) -> tuple[Record, ...]:
        """The records with their changes."""
        return changed(self._entries)


class SqlWriter:
    """Carries out all calls that write, in its thread."""

    def __init__(self, dialect: SqlDialect) -> None:
        self._dialect = dialect
        self._connection: SqlConnection | None = None
        self._references = ReferencesBySession()
        self._rows: dict[str, SessionColumns] = {}
        """Rows of sessions, as they are after the calls of the transaction."""
        self._hidden: set[str] = set()
        """Sessions of the transaction that are stored, and that a damaged index does not find."""
        self._listings: dict[str, tuple[int | None, int, int]] = {}
        """By session that the transaction has changed: the indexed columns of its row as it was read."""
        self._records: list[tuple[SqlValue, ...]] = []
        self._blobs: list[tuple[SqlValue, ...]] = []
        self._snapshots: dict[int, tuple[SqlValue, ...]] = {}
        self._abouts: dict[str, tuple[str | None, About]] = {}
        self._unlabelled: set[str] = set()
        """Of the sessions in `_abouts` those that have had no labels, so that none are removed."""
        self._appended: SessionColumns | None = None
        """A row that the transaction has moved on: whether it is there tells whether the transaction was committed."""
        self._removes = False
        """Whether the transaction deletes or redacts."""
        self._doubts: set[str] = set()
        self._epochs: list[int] = []
        self._jobs_at_once = 1
        self._extended: dict[int, int] = {}
        """By the key of a lease: until when it is to last at least."""
        self._money: MoneyTable | None = None
        """The table of money; `None` as long as it is not known to be there."""

    def is_in_doubt(self, session_id: str) -> bool:
        """Whether it is not known what was written last; may be called in any thread."""
        return session_id in self._doubts

    # The methods of `JobHandler`, which the worker calls

    def serve(self, jobs: Sequence[WriterJob[SqlWriter]]) -> None:
        """Run *jobs* in one transaction; if a job makes it fail, run each in its own transaction."""
        try:
            self._begin(jobs)
            for job in jobs:
                job.error = None
                try:
                    job.do(self)
                # a job raises such an error only before it has changed anything, so the others can go on
                except AgentrailError as error:
                    job.error = error
            self._flush()
        except AgentrailError as error:  # the journal cannot be opened
            self._forget()
            _fail(jobs, error)
        except Exception as error:  # noqa: BLE001 - raised in the tasks that wait for the jobs
            self._undo(jobs, error)
        else:
            self._commit(jobs)

    def rest(self) -> None:
        """Do what the database has postponed."""
        if self._connection is not None:
            self._connection.rest()

    def close(self) -> None:
        """Close the connection."""
        connection, self._connection = self._connection, None
        self._forget()
        if connection is not None:
            connection.close()

    # Transactions

    @property
    def _db(self) -> SqlConnection:
        if self._connection is None:
            self._connection = self._dialect.connect()
        return self._connection

    def _begin(self, jobs: Sequence[WriterJob[SqlWriter]]) -> None:
        """Begin a transaction and read the rows of the sessions that *jobs* concern."""
        if self._db.begin() or len(self._rows) >= ROWS_KEPT:
            self._rows.clear()
        reach("BEGUN")
        self._jobs_at_once = len(jobs)
        ids = {job.session_id for job in jobs if job.session_id} - self._rows.keys()
        self._read({as_stored(session_id) for session_id in ids})
        self._hidden = self._find_hidden(ids - self._rows.keys())
        new_ids = {job.session_id for job in jobs if job.creates} - self._rows.keys() - self._hidden
        if new_ids:
            # in their order, so that two who make the same ones do not deadlock; another process may be faster
            rows = [(as_stored(name), slot_of(name), 0, 0, 0, 0, 0, NO_CHECK, 0, 0, 0) for name in sorted(new_ids)]
            self._db.insert(sql_tables.NEW_SESSION, rows, sql_tables.AS_IT_IS)
            self._read({row[0] for row in rows})
        money = {key for job in jobs for key in job.money}
        if money:
            self._money_table().lock(money)

    def _find_hidden(self, ids: Collection[str]) -> set[str]:
        # not on a server, where another process may store one between the two statements
        if not ids or self._dialect.for_update:
            return set()
        return hidden_sessions(self._db, [as_stored(session_id) for session_id in ids])

    def _check_hidden(self, session_id: str) -> None:
        """Raise `BadRecord` if the session is stored, and not found."""
        if session_id in self._hidden:
            raise hidden(session_id)

    def _read(self, ids: Collection[bytes]) -> None:
        if ids:
            self._rows.update(read_sessions(self._db, list(ids), self._dialect.for_update))

    def _flush(self) -> None:
        """Write what the jobs have collected."""
        db = self._db
        listings, self._listings = self._listings, {}
        moved, restated = list[SessionColumns](), list[SessionColumns]()
        for session_id, listing in listings.items():
            row = self._rows.get(session_id)
            if row is not None:
                (moved if row.listing == listing else restated).append(row)
        for rows, otherwise in ((moved, sql_tables.MOVED), (restated, sql_tables.RESTATED)):
            if rows:
                db.insert(sql_tables.SESSION, rows, otherwise)
        records, self._records = self._records, []
        blobs, self._blobs = self._blobs, []
        snapshots, self._snapshots = self._snapshots, {}
        for columns, values, otherwise in (
            (sql_tables.RECORD, records, ""),
            (sql_tables.BLOB, blobs, sql_tables.AS_IT_IS),
            (sql_tables.SNAPSHOT, list(snapshots.values()), sql_tables.KEPT),
        ):
            if values:
                db.insert(columns, values, otherwise)
        self._write_about()
        self._write_leases()

    def _write_leases(self) -> None:
        extended, self._extended = self._extended, {}
        for key, until in extended.items():
            self._db.run("update ~lease set until = ? where key = ? and until < ?", (until, key, until))

    def _write_about(self) -> None:
        abouts, self._abouts = self._abouts, {}
        unlabelled, self._unlabelled = self._unlabelled, set()
        if not abouts:
            return
        ids = {session_id: as_stored(session_id) for session_id in abouts}
        rows = [about_row(ids[session_id], parent, about) for session_id, (parent, about) in abouts.items()]
        self._db.insert(sql_tables.ABOUT, rows, sql_tables.TOLD)
        relabelled = [stored_id for session_id, stored_id in ids.items() if session_id not in unlabelled]
        if relabelled:
            self._db.run_among("delete from ~label where session {}", relabelled)
        labels = [
            (as_stored(label), ids[session_id]) for session_id, (_, about) in abouts.items() for label in about.labels
        ]
        if labels:
            self._db.insert(sql_tables.LABEL, labels, sql_tables.AS_IT_IS)

    def _commit(self, jobs: Sequence[WriterJob[SqlWriter]]) -> None:
        reach("COMMIT")
        try:
            self._db.commit()
            reach("COMMITTED")
            self._appended, self._removes = None, False
            self._epochs.clear()
        except self._dialect.errors as error:
            failure = self._dialect.commit_failure(error)
            appended, removes = self._appended, self._removes
            self._roll_back()
            if failure is None:
                failure = self._outcome(jobs, appended, error, removes=removes)
            if failure is not None:
                _fail(jobs, failure)

    def _outcome(
        self, jobs: Sequence[WriterJob[SqlWriter]], appended: SessionColumns | None, lost: Exception, *, removes: bool
    ) -> AgentrailError | None:
        """Find out whether a transaction was committed whose answer was lost; return `None` if it was."""
        problem = lost
        try:
            if appended is not None:
                return None if self._is_written(appended) else NothingWritten(str(lost))
            if not removes:  # claims and the like, which may be repeated
                return NothingWritten(str(lost))
        except self._dialect.errors as error:
            self._roll_back()
            problem = error
        self._doubts.update(job.session_id for job in jobs if job.session_id)
        return JournalFailed(WRITE, str(problem))

    def _is_written(self, appended: SessionColumns) -> bool:
        """Whether the last record of *appended* is stored; it waits for the end of a transaction that has its lock."""
        self._db.begin()
        self._read((appended.stored_id,))
        query = "select checksum from ~record where session = ? and number = ?"
        rows = self._db.run(query, (appended.key, appended.head))
        self._db.commit()
        return rows == [(appended.check,)]

    def _undo(self, jobs: Sequence[WriterJob[SqlWriter]], error: Exception) -> None:
        """Roll back after *error*; run each job alone if one of several may have caused it."""
        self._roll_back()
        if isinstance(error, self._dialect.errors) and self._dialect.is_passing(error):
            _fail(jobs, self._dialect.failure(error, ""))
        elif len(jobs) > 1:
            for job in jobs:
                self.serve((job,))
        elif isinstance(error, self._dialect.errors):
            jobs[0].error = self._dialect.failure(error, jobs[0].session_id)
        else:
            jobs[0].error = error

    def _roll_back(self) -> None:
        self._forget()
        try:
            if self._connection is not None:
                self._connection.rollback()
        except self._dialect.errors:
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()

    def _forget(self) -> None:
        """Drop what was collected, and the rows that are cached."""
        for collected in (self._rows, self._listings, self._abouts, self._unlabelled, self._snapshots, self._records):
            collected.clear()
        self._blobs.clear()
        self._epochs.clear()
        self._extended.clear()
        self._references.clear()
        self._appended, self._removes = None, False
        self._money = None

    # The jobs

    def claim(self, session_id: str, holder: str, lease: Lease, *, take_over: bool | str) -> Claim:
        """Make the caller the only writer of a session."""
        self._check_hidden(session_id)
        row = self._rows.get(session_id)
        now_ms = self._db.now(lease.at)
        if row is None:
            problem = "the session was deleted while it was claimed"
            raise NothingWritten(problem)
        check_numbers(session_id, row.numbers)
        check_free(session_id, self._holding(row), holder, now_ms, take_over)
        lease_key = self._lease_key(holder, now_ms) if lease.lasts else NO_LEASE_KEY
        if lease.lasts:
            self._db.show_lease(lease_key)
            self._extended[lease_key] = max(self._extended.get(lease_key, 0), now_ms + lease.lasts)
        self._references.drop(session_id)
        epoch = self._draw_epoch(row.epoch)
        self._change(session_id, row, row._replace(epoch=epoch, lease=lease_key, is_held=int(lease.lasts > 0)))
        reach("EPOCH_RAISED")
        return Claim(session_id, epoch, row.head)

    def renew(self, claims: Sequence[Claim], lease: Lease) -> tuple[Claim, ...]:
        """Let the leases of the holders of *claims* last as *lease* says; return the claims that are lost."""
        query = "select id, epoch, lease, held from ~session where id {}"
        stored = {
            stored_id: columns
            for stored_id, *columns in self._db.run_among(query, [as_stored(claim.session_id) for claim in claims])
        }
        lost, released, keys = list[Claim](), list[Claim](), dict[int, list[Claim]]()
        for claim in claims:
            epoch, key, is_held = self._row_of(claim, stored.get(as_stored(claim.session_id)))
            if epoch != claim.epoch:
                lost.append(claim)
                continue
            keys.setdefault(key, []).append(claim)
            if not is_held:
                released.append(claim)
        lost += self._hold(released, is_held=True)
        if keys:
            stored_keys = {key for (key,) in self._db.run_among("select key from ~lease where key {}", sorted(keys))}
            lost += [claim for key in keys.keys() - stored_keys for claim in keys[key] if claim not in lost]
            for key in keys:
                self._db.show_lease(key)
            self._write_leases()
            until = self._db.now(lease.at) + lease.lasts
            self._db.run_among("update ~lease set until = ? where key {}", sorted(keys), (until,))
        return tuple(lost)

    def _row_of(self, claim: Claim, columns: Sequence[object] | None) -> tuple[int, int, int]:
        """Return epoch, lease and whether it is held of a session: as in memory, if the transaction has changed it."""
        if claim.session_id in self._listings:
            row = self._rows[claim.session_id]
            return row.epoch, row.lease, row.is_held
        return (0, 0, 0) if columns is None else cast("tuple[int, int, int]", tuple(columns))

    def release(self, claims: Sequence[Claim]) -> None:
        """Let other holders claim the sessions of *claims*."""
        self._hold(claims, is_held=False)

    def _hold(self, claims: Sequence[Claim], *, is_held: bool) -> list[Claim]:
        """Note whether the sessions of *claims* are held; return the claims that are lost."""
        self._read({as_stored(claim.session_id) for claim in claims if claim.session_id not in self._rows})
        lost: list[Claim] = []
        for claim in claims:
            row = self._rows.get(claim.session_id)
            if row is None or row.epoch != claim.epoch:
                lost.append(claim)
            elif row.is_held != is_held:
                self._change(claim.session_id, row, row._replace(is_held=int(is_held)))
        return lost

    def submit(self, claim: Claim, expected: int, submitted: Submitted) -> tuple[Record, ...]:
        """Collect the records of *submitted* as `append` does; return them with their changes."""
        self.append(claim, expected, submitted.records)
        return submitted.records

    def append(self, claim: Claim, expected: int, records: Sequence[Record]) -> int:
        """Collect *records*, after record number *expected*, for `_flush`; return the number of the last one."""
        row = self._claimed(claim)
        if row.head != expected:
            raise Fenced(claim.session_id, row.epoch)
        if not records:
            return expected
        session_id, key, epoch, seq, check = claim.session_id, row.key, row.epoch, row.seq, row.check
        references, changes_listing, size = self._references[session_id], False, 0
        for record, packed in [(record_, pack(record_, references)) for record_ in records]:
            number, command, body, form = record.number, record.command, packed.body, packed.format
            names = self._collect_blobs(key, packed) if packed.blobs else ""
            seq, changes_listing = last_seq(record, seq), changes_listing or tells_about(record)
            check = checksum_of(check, as_bytes((session_id, number, epoch, seq, command, form, names)), body)
            stored_command = None if command is None else as_stored(command)
            self._records.append((key, number, epoch, seq, stored_command, form, names, check, body))
            size += len(body)
        if changes_listing:
            self._collect_listing(row, records)
        last = records[-1]
        due = None if last.due is None else stored_time(last.due)
        listing = (due, int(last.at_work), int(has_ended(last)))
        self._appended = SessionColumns(*row[:6], last.number, seq, check, *listing, stored_time(last.arrival.at))
        self._change(session_id, row, self._appended)
        self._db.was_written(size)
        return last.number

    def _collect_listing(self, row: SessionColumns, records: Sequence[Record]) -> None:
        """Collect what a session can be found by after *records*."""
        parent, about = self._abouts.get(row.id, (None, None))
        if about is None and row.head:
            about = read_about(self._db, row.stored_id)
        elif about is None:
            parent = parent_of(records[0])
            self._unlabelled.add(row.id)
        about = about or NOTHING_TO_LIST
        for record in records:
            if tells_about(record):
                about = about_after(record, about)
        self._abouts[row.id] = (parent, about)

    def keep(self, claim: Claim, snapshot: Snapshot) -> None:
        """Collect a snapshot of the session, in place of the previous one."""
        row = self._claimed(claim)
        check_snapshot(claim, snapshot, row.head)
        packed, number = pack(snapshot), snapshot.number
        if number != row.head:
            self._flush()
        record_checksum = row.check if number == row.head else checked_records(self._db, row, number, number)[0].check
        names = self._collect_blobs(row.key, packed)
        check = checksum_of_snapshot(record_checksum, (row.id, number, packed.format, names), packed.body)
        self._snapshots[row.key] = (row.key, number, record_checksum, packed.format, names, check, packed.body)
        self._db.was_written(len(packed.body))
        reach("SNAPSHOT_WRITTEN")

    def delete(self, session_id: str, holder: str, at: int) -> tuple[int, int]:
        """Delete a session and its sub-agents; return how many of them had records, and a mark for `cleaning_state`."""
        self._check_hidden(session_id)
        self._flush()
        tree = find_tree(self._db, session_id)
        self._read({as_stored(name) for name in tree if name not in self._rows})
        rows = [self._rows[name] for name in tree if name in self._rows] if session_id in self._rows else []
        now = self._db.now(at) if rows else at
        for row in rows:
            check_free(row.id, self._holding(row), holder, now)
        if rows:
            self._note_removal(rows)
            delete_rows(self._db, rows)
        for row in rows:
            del self._rows[row.id]
            self._references.drop(row.id)
        mark = self._db.mark_removal()  # also if an earlier call was cancelled before the file was clean
        reach("DELETION_MARKED")
        return sum(row.head != 0 for row in rows), mark

    def redact(
        self, session_id: str, first: int, last: int, note: Redaction, holder: str, names: Collection[str]
    ) -> int:
        """Redact the records from *first* to *last*; return how many."""
        self._check_hidden(session_id)
        self._flush()
        row = self._rows.get(session_id)
        if row is None:
            return 0
        check_numbers(session_id, row.numbers)
        check_free(session_id, self._holding(row), holder, self._db.now(note.at))
        self._note_removal((row,))
        count, about = redact_rows(self._db, row, (first, min(last, row.head)), note, names)
        if about is not None:
            self._abouts[session_id] = (None, about)
        self._change(session_id, row, row._replace(epoch=self._draw_epoch(row.epoch)))
        self._references.drop(session_id)
        return count

    def drop_unnamed_blobs(self, session_id: str) -> int:
        """Delete the long texts that no record of a session names any more; return a mark for `cleaning_state`."""
        self._flush()
        row = self._rows.get(session_id)
        if row is not None:
            drop_unnamed_blobs(self._db, row.key)
        return self._db.mark_removal()

    def cleaning_state(self, mark: int) -> CleaningState:
        """Return how far the cleaning is that *mark* asks for."""
        return self._db.cleaning_state(mark)

    def reserve_money(self, expense: Expense, limit: int) -> Balance:
        """Reserve *expense* if that keeps its day within *limit*."""
        return self._money_table().reserve(expense, limit)

    def settle_money(self, costs: Sequence[tuple[Expense, int]]) -> None:
        """Count the cost of each expense in place of its most."""
        self._money_table().settle(costs)

    def _money_table(self) -> MoneyTable:
        if self._money is None:
            self._db.make_table(sql_tables.MONEY_TABLE)
            self._money = MoneyTable(self._db, self._dialect.for_update)
        return self._money

    def settle(self, session_id: str) -> None:
        """Wait until it is known what was written last of a session: until its row, which was read, was unlocked."""
        self._doubts.discard(session_id)

    # What they share

    def _note_removal(self, rows: Collection[SessionColumns]) -> None:
        """Note that the transaction removes something of *rows*: an appended record of them tells nothing any more."""
        self._removes = True
        if self._appended is not None and self._appended.key in {row.key for row in rows}:
            self._appended = None

    def _claimed(self, claim: Claim) -> SessionColumns:
        """Return the row of the claimed session; raise `Fenced` after a later claim, or if there is no such session."""
        row = self._rows.get(claim.session_id)
        if row is None or row.epoch != claim.epoch:
            raise Fenced(claim.session_id, 0 if row is None else row.epoch)
        return row

    def _change(self, session_id: str, old: SessionColumns, new: SessionColumns) -> None:
        """Collect the row of a session for `_flush`."""
        self._listings.setdefault(session_id, old.listing)
        self._rows[session_id] = new

    def _holding(self, row: SessionColumns) -> Holding:
        """Return who holds a session, and until when."""
        # a damaged one, which can only be deleted, is held by nobody
        if not row.is_held or type(row.lease) is not int or not self._db.has_lessee(row.lease):
            return NO_HOLDING
        rows = self._db.run("select holder, until from ~lease where key = ?", (row.lease,))
        for holder, until in rows:
            return Holding(as_text(holder), max(cast("int", until), self._extended.get(row.lease, 0)))
        return NO_HOLDING

    def _lease_key(self, holder: str, now_ms: int) -> int:
        """Return the key of the lease of *holder*, which is made if it is missing: others delete old ones."""
        stored = as_stored(holder)
        keys = self._db.run(LEASE_OF, (stored,))
        if not keys:
            self._write_leases()  # else one that an earlier call has extended would count as ended
            self._db.run(ENDED_LEASES, (now_ms - KEPT_MS,))
            self._db.run(NEW_LEASE, (stored,))
            keys = self._db.run(LEASE_OF, (stored,))
        ((key,),) = keys
        return cast("int", key)

    def _draw_epoch(self, above: int) -> int:
        """Return the number of a new claim of a session whose last claim has the number *above*."""
        while True:
            if not self._epochs:
                self._epochs = self._db.draw_epochs(self._jobs_at_once)
            epoch = self._epochs.pop(0)
            if epoch > above:
                return epoch

    def _collect_blobs(self, key: int, packed: PackedRecord) -> str:
        """Collect the blobs of a record for `_flush`; return the names of all of them."""
        for name, content in packed.blobs.items():
            self._blobs.append((key, name, content))
            self._db.was_written(len(content))
            reach("BLOB_WRITTEN")
        return " ".join(packed.blobs)


def _fail(jobs: Sequence[WriterJob[SqlWriter]], error: AgentrailError) -> None:
    for job in jobs:
        job.error = fresh(error)

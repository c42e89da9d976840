"""Carries out all calls that change the journal's file, in one thread: waiting jobs are committed together."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from agentrail.adapters.journals.checksums import as_bytes, check_of_snapshot
from agentrail.adapters.journals.message_index import PlacesBySession
from agentrail.adapters.journals.packing import NO_CHECK, PackedRecord, check_of, pack
from agentrail.adapters.journals.sqlite.deletion.deletions import DeletionJob, DeletionProgress, Deletions
from agentrail.adapters.journals.sqlite.deletion.erasing import mark, marks_of, tree_of
from agentrail.adapters.journals.sqlite.deletion.redaction import (
    AT_ONCE,
    drop_unnamed_blobs,
    mark_cleaning,
    redact_some,
)
from agentrail.adapters.journals.sqlite.error_mapping import RAISED, in_commit, is_passing, rollback_failure
from agentrail.adapters.journals.sqlite.lease_table import HeldClaim, LeaseTable
from agentrail.adapters.journals.sqlite.opening import Connect, open_for_writing
from agentrail.adapters.journals.sqlite.reading import checked_rows, first_record, load_records, session_row
from agentrail.adapters.journals.sqlite.session_summaries import AboutTable
from agentrail.adapters.journals.sqlite.tables import (
    FACTS,
    LATEST,
    NOTHING,
    NULL,
    Facts,
    SessionRow,
    restated_columns,
    seal_row,
    write_records,
    write_sessions,
)
from agentrail.adapters.journals.sqlite.wal_file import Checkpoints
from agentrail.adapters.journals.sqlite.writer_lock import Ownership
from agentrail.adapters.journals.writer_thread import WriterJob
from agentrail.errors import AgentrailError, BadRecord, Fenced, JournalError, NothingWritten, SessionBeingDeleted
from agentrail.errors.agentrail_error import fresh
from agentrail.ports.failpoints import reach
from agentrail.ports.journal import (
    Claim,
    Lease,
    Record,
    Redaction,
    Snapshot,
    check_free,
    check_snapshot,
    has_ended,
    last_seq,
    parent_of,
    tells_about,
)

CHECKPOINT_AFTER: Final = 8 * 1024 * 1024
"""Bytes of new records, estimated high, after which a checkpoint moves the log into the file.

SQLite's automatic checkpoint is switched off, because it would run within a commit.
"""

PAGE: Final = 1024
"""The bytes that a record takes in the log beside its body, estimated; any commit takes three times as many."""

ROWS_KEPT: Final = 1000
"""The most sessions whose rows are cached; then all rows are dropped, except those with changes not yet written."""


class Writer:
    """Carries out all writing calls, in the writer's thread."""

    def __init__(self, path: Path, connect: Connect, *, sync: str, take_over: bool) -> None:
        self._path = path
        self._connect = connect
        self._sync = sync
        self._take_over = take_over
        self._ownership = Ownership(path)
        self._connection: sqlite3.Connection | None = None
        self._generation = 0
        self._slot = 0
        self._found = 0
        self._logged = 0
        self._log = Checkpoints(path, is_synced=sync == "full")
        self._rows: dict[str, SessionRow] = {}
        self._changed: dict[str, SessionRow] = {}
        self._restated: dict[str, frozenset[str]] = {}  # by session: the indexed columns that have changed
        self._about = AboutTable()
        self._places = PlacesBySession()
        self._records: list[object] = []  # the `NEW_COLUMNS` of all new records, in one flat list
        self._leases = LeaseTable()
        self._floor = 0
        self._deletions = Deletions(path)

    # The methods of `JobHandler`, which the worker calls

    def serve(self, jobs: Sequence[WriterJob[Writer]]) -> None:
        """Run *jobs* in one transaction; if a job makes it fail, run each in its own transaction."""
        try:
            self._begin()
            for job in jobs:
                job.error = None
                try:
                    job.do(self)
                # a job raises such an error only before it has written anything, so the others can go on
                except AgentrailError as error:
                    job.error = error
            self._flush()
        except JournalError as error:
            _fail(jobs, error)
        except Exception as error:  # noqa: BLE001 - raised in the tasks that wait for the jobs
            self._roll_back()
            if isinstance(error, RAISED) and is_passing(error):
                _fail(jobs, rollback_failure(error, self._path))
            elif len(jobs) == 1:
                damaged = isinstance(error, RAISED)
                jobs[0].error = BadRecord(jobs[0].about, 0, str(error)) if damaged else error
            else:
                for job in jobs:
                    self.serve((job,))
        else:
            self._commit(jobs)

    def rest(self) -> None:
        """Remove a failed commit from the log; else move the log into the file, if it is large; else go on deleting."""
        if self._log.to_mend:
            with suppress(JournalError):  # the next transaction tries again, and reports the error
                self._log.mend(self._db)
        elif self._logged >= CHECKPOINT_AFTER:
            self._logged = 0
            self._log.move(self._db, "PASSIVE")
        elif self._deletions.is_due and self._log.lost is None:
            self._go_on_deleting()

    def close(self) -> None:
        """Move the log into the file, close the connection, and release the locks."""
        if self._connection is not None and self._log.lost is None:
            self._log.leave_whole(self._connection)
        connection, self._connection = self._connection, None
        if connection is not None:
            self._rows.clear()
            self._places.clear()
            self._leases.clear()
            connection.close()
            self._ownership.release()

    # Transactions

    @property
    def _db(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection, self._generation, self._slot = open_for_writing(
                self._path, self._connect, self._ownership, sync=self._sync, take_over=self._take_over
            )
            self._deletions.begin(self._connection)
        return self._connection

    def _begin(self) -> None:
        if self._log.lost is not None:
            raise self._log.lost
        db = self._db
        self._ownership.check()
        if self._log.to_mend:
            self._log.mend(db)
        db.execute("BEGIN IMMEDIATE")
        reach("BEGUN")
        self._found, self._floor = self._db.execute("SELECT generation, epoch FROM journal").fetchone()

    def _flush(self) -> None:
        """Write the rows that the jobs have collected."""
        records, changed, restated = self._records, self._changed, self._restated
        self._records, self._changed, self._restated = [], {}, {}
        self._logged += 3 * PAGE
        write_records(self._db, records)
        write_sessions(self._db, changed.values(), restated)
        self._about.write(self._db)

    def _commit(self, jobs: Sequence[WriterJob[Writer]]) -> None:
        reach("COMMIT")
        try:
            self._db.execute("COMMIT")
            reach("COMMITTED")
            self._leases.keep()
        except sqlite3.Error as error:
            failure = in_commit(error)
            self._log.to_mend = not isinstance(failure, NothingWritten)
            self._roll_back()
            _fail(jobs, failure)

    def _roll_back(self) -> None:
        """Undo the transaction, if SQLite has not done so itself, and forget all cached rows."""
        self._rows.clear()
        self._changed.clear()
        self._restated.clear()
        self._about.undo()
        self._places.clear()
        self._records.clear()
        self._leases.undo()
        try:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
        except sqlite3.Error:
            self._log.to_mend = True

    # Deletion

    def _go_on_deleting(self) -> None:
        """Do the next piece of the deletions, in a transaction of its own if it changes rows."""
        piece = DeletionJob(Writer.erase)
        if self._deletions.in_transaction:
            self.serve((piece,))
        else:
            try:
                self._ownership.check()
                piece.do(self)
            except JournalError as error:
                piece.error = error
            except sqlite3.Error as error:
                piece.error = self._log.lost if self._log.has_lost(error) else rollback_failure(error, self._path)
        if piece.error is not None:
            self._deletions.hinder(piece.error)

    def erase(self) -> None:
        """Do a piece of the deletions."""
        self._check_generation("")
        self._logged += self._deletions.do_piece(self._db, self._ownership.descriptor)

    # The jobs

    def claim(self, session_id: str, holder: str, lease: Lease, *, take_over: bool | str) -> Claim:
        """Raise the epoch of a session, so that earlier claims are refused; return the new claim."""
        self._check_generation(session_id)
        row = self._row(session_id) or SessionRow(session_id, self._floor, holder)
        check_free(session_id, self._leases.holding(session_id), holder, lease.at, take_over)
        self._change((session_id, row.epoch + 1, holder, *row[3:FACTS]), row.slot)
        self._leases[session_id] = HeldClaim(row.epoch + 1, holder, is_held=lease.lasts > 0)
        if lease.lasts:
            self._leases.extend(holder, max(self._leases.end(holder), lease.until))
        reach("EPOCH_RAISED")
        return Claim(session_id, row.epoch + 1, row.head)

    def renew(self, claims: Sequence[Claim], lease: Lease) -> tuple[Claim, ...]:
        """Let the leases of the holders of *claims* last as *lease* says; return the claims that are lost."""
        if self._found != self._generation:
            return tuple(claims)
        lost: list[Claim] = []
        holders: set[str] = set()
        for claim in claims:
            holder = self._hold(claim, is_held=True)
            if holder is None:
                lost.append(claim)
            else:
                holders.add(holder)
        for holder in holders:
            self._leases.extend(holder, lease.until)
        return tuple(lost)

    def release(self, claims: Sequence[Claim]) -> None:
        """Let other holders claim the sessions of *claims*."""
        for claim in claims:
            self._hold(claim, is_held=False)

    def _hold(self, claim: Claim, *, is_held: bool) -> str | None:
        """Note whether the session of *claim* is held, and return its holder; `None` if the claim is lost."""
        latest = self._leases.get(claim.session_id)
        if latest is None:  # the session was claimed before the file was closed, or without a lease
            with suppress(BadRecord, SessionBeingDeleted):
                row = self._row(claim.session_id)
                latest = None if row is None else HeldClaim(row.epoch, row.owner, is_held=False)
        if latest is None or latest.epoch != claim.epoch:
            return None
        if latest.is_held is not is_held:
            self._leases[claim.session_id] = latest._replace(is_held=is_held)
        return latest.holder

    def append(self, claim: Claim, expected: int, records: Sequence[Record]) -> int:
        """Collect *records*, after record number *expected*, for `_flush`; return the number of the last one."""
        row = self._claimed_row(claim)
        if row.head != expected:
            raise Fenced(claim.session_id, row.epoch)
        if not records:
            return expected
        session_id, epoch, owner, _, seq, check, _, _, _, _, _, back = row
        places, tells = self._places[session_id], False
        for record, packed in [(record_, pack(record_, places)) for record_ in records]:
            number, command, body, form = record.number, record.command, packed.body, packed.format
            names = self._write_blobs(session_id, packed) if packed.blobs else ""
            seq, tells = last_seq(record, seq), tells or tells_about(record)
            check = check_of(check, as_bytes((session_id, number, epoch, seq, command, form, names)), body)
            slot, bound = self._slot + 1, NULL if command is None else command
            new = (slot, back, session_id, number, epoch, seq, bound, form, names, bytearray(check), bytearray(body))
            self._records.extend(new)
            self._slot = back = slot
            self._logged += len(body) + PAGE
        last = records[-1]
        parent, ended = parent_of(records[0]), has_ended(last)
        if parent is not None:
            self._db.execute("INSERT OR REPLACE INTO child VALUES (?, ?)", (session_id, parent))
        if tells or ended:
            self._about.note(self._db, row, records, partial(first_record, self._db, row))
        due = None if last.due is None else min(last.due, LATEST)
        before, standing = (row.due, row.at_work, row.ended), (due, 1 if last.at_work else 0, 1 if ended else 0)
        if standing != before:
            columns = self._restated.get(session_id, NOTHING)
            self._restated[session_id] = columns | restated_columns(before, standing)
        self._change((session_id, epoch, owner, last.number, seq, check, *standing, last.arrival.at), back)
        return last.number

    def keep(self, claim: Claim, snapshot: Snapshot) -> None:
        """Write a snapshot of the session, in place of the previous one."""
        row = self._claimed_row(claim)
        check_snapshot(claim, snapshot, row.head)
        packed = pack(snapshot)
        self._flush()
        number = snapshot.number
        behind = row.check if number == row.head else checked_rows(self._db, row, number, number)[0].check
        names = self._write_blobs(row.id, packed)
        check = check_of_snapshot(behind, (row.id, number, packed.format, names), packed.body)
        self._db.execute(
            "INSERT OR REPLACE INTO snapshot VALUES (?, ?, ?, ?, ?, ?, ?)",
            (row.id, number, behind, packed.format, names, check, packed.body),
        )
        self._logged += len(packed.body) + PAGE
        reach("SNAPSHOT_WRITTEN")

    def mark(self, session_id: str, holder: str, at: int) -> tuple[int, int]:
        """Mark a session and its sub-agents for deletion, or find the mark that an earlier call has left.

        Return the number of the last mark, and how many sessions are deleted.
        """
        self._check_generation(session_id)
        before = marks_of(self._db, session_id)
        if before is not None:
            return before
        self._flush()
        names = tree_of(self._db, session_id)
        rows = [row for row in map(self._row, names) if row is not None]
        if not rows:
            return 0, 0
        for name in names:
            check_free(name, self._leases.holding(name), holder, at)
        for name in names:
            self._rows.pop(name, None)
            self._leases[name] = HeldClaim(0, "", is_held=False)
        number = mark(self._db, names)
        self._deletions.expect()
        self._floor = max(self._floor, *(row.epoch for row in rows))
        return number, sum(row.head > 0 for row in rows)

    def redact(
        self, session_id: str, first: int, last: int, note: Redaction, holder: str, names: Collection[str]
    ) -> tuple[int, int, int]:
        """Redact some records from *first* on; return how many, the next record, and 0, or a mark once all are done."""
        self._check_generation(session_id)
        row = self._row(session_id)
        check_free(session_id, self._leases.holding(session_id), holder, note.at)
        if row is None or first > min(last, row.head):
            if row is not None:
                self._flush()
                drop_unnamed_blobs(self._db, row)
            self._deletions.expect()
            return 0, first, mark_cleaning(self._db)
        self._flush()
        self._change((row.id, row.epoch + 1, *row[2:FACTS]), row.slot)
        claimed = self._leases.get(session_id)
        if claimed is not None:
            self._leases[session_id] = claimed._replace(epoch=row.epoch + 1)
        self._logged += AT_ONCE * PAGE
        before = checked_rows(self._db, row, first - 1, first - 1)[0].check if first > 1 else NO_CHECK
        rows = checked_rows(self._db, row, first, min(last, row.head, first + AT_ONCE - 1))
        stored = tuple(zip(rows, load_records(self._db, row, rows), strict=True))
        self._about.redact(self._db, row.id, [record for _, record in stored])
        return redact_some(self._db, row, before, stored, note, names), first + AT_ONCE, 0

    def progress(self, mark: int) -> DeletionProgress:
        """Return the state of the deletion with the number *mark*."""
        return self._deletions.progress(self._db, mark)

    def _claimed_row(self, claim: Claim) -> SessionRow:
        """Return the row of the claimed session; raise `Fenced` after a later claim, or if there is no such session."""
        self._check_generation(claim.session_id)
        row = self._rows.get(claim.session_id)
        if row is None:
            with suppress(SessionBeingDeleted):
                row = self._row(claim.session_id)
        if row is None or row.epoch != claim.epoch:
            raise Fenced(claim.session_id, 0 if row is None else row.epoch)
        return row

    def _row(self, session_id: str) -> SessionRow | None:
        """Return the row of a session, from the cache if possible; only this writer changes rows."""
        row = self._rows.get(session_id)
        if row is None:
            if len(self._rows) >= ROWS_KEPT:
                self._rows = dict(self._changed)
            row = session_row(self._db, session_id)
            if row is not None:
                self._rows[session_id] = row
        return row

    def _change(self, facts: Facts, slot: int) -> None:
        """Mark the row of a session as changed; `_flush` writes all changed rows together."""
        self._rows[facts[0]] = self._changed[facts[0]] = seal_row(facts, slot)

    def _check_generation(self, session_id: str) -> None:
        """Raise `Fenced` if another process has taken over the journal."""
        if self._found != self._generation:
            raise Fenced(session_id, self._found)

    def _write_blobs(self, session_id: str, packed: PackedRecord) -> str:
        """Write the blobs of a record that are not stored yet; return the names of all of them."""
        for name, content in packed.blobs.items():
            self._db.execute("INSERT OR IGNORE INTO blob VALUES (?, ?)", (name, content))
            self._db.execute("INSERT OR IGNORE INTO blob_use VALUES (?, ?)", (name, session_id))
            self._logged += len(content)
            reach("BLOB_WRITTEN")
        return " ".join(packed.blobs)


def _fail(jobs: Sequence[WriterJob[Writer]], error: JournalError) -> None:
    for job in jobs:
        job.error = fresh(error)

"""Carries out all calls that change the journal's file, in one thread: waiting jobs are committed together."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from agentrail.adapters.journals.packing import Packed, check_of, pack
from agentrail.adapters.journals.sqlite.failures import (
    RAISED,
    in_checkpoint,
    in_commit,
    in_mending,
    is_passing,
    read_meanwhile,
    rolled_back,
)
from agentrail.adapters.journals.sqlite.lease_table import HeldClaim, LeaseTable
from agentrail.adapters.journals.sqlite.opening import Connect, open_for_writing
from agentrail.adapters.journals.sqlite.ownership import Ownership
from agentrail.adapters.journals.sqlite.reading import checked, session_row
from agentrail.adapters.journals.sqlite.tables import (
    FACTS,
    Facts,
    RecordRow,
    SessionRow,
    pragma,
    sealed,
    write_records,
    write_sessions,
)
from agentrail.adapters.journals.sqlite.worker import ThreadJob
from agentrail.errors import AgentrailError, BadRecord, CommitUnknown, Fenced, JournalError, NothingWritten
from agentrail.errors.branches import fresh
from agentrail.ports.failpoints import Failpoint, reach
from agentrail.ports.journal import (
    Claim,
    Holding,
    Lease,
    Record,
    Snapshot,
    check_free,
    check_snapshot,
    last_seq,
    stored_session,
)

log = logging.getLogger("agentrail.journal")

CHECKPOINT_AFTER: Final = 8 * 1024 * 1024
"""Bytes of new records, estimated high, after which a checkpoint moves the log into the file.

SQLite's automatic checkpoint is switched off, because it would run within a commit.
"""

PAGE: Final = 4096
"""The bytes that a record takes in the log beside its body, estimated."""

ROWS_KEPT: Final = 1000
"""The most sessions whose rows are cached; then all rows are dropped, except those with changes not yet written."""

LATEST: Final = 2**63 - 1
"""The latest `due` of a session that a column of SQLite can hold; a later one is stored as this."""


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
        self._lost: JournalError | None = None
        self._to_mend = False  # whether a failed commit may be in the log
        self._rows: dict[str, SessionRow] = {}
        self._changed: dict[str, SessionRow] = {}
        self._records: list[RecordRow] = []
        self._leases = LeaseTable()

    # The methods of `Servant`, which the worker calls

    def serve(self, jobs: Sequence[ThreadJob[Writer, object]]) -> None:
        """Run *jobs* in one transaction; if a job makes it fail, run each in its own transaction."""
        try:
            self._begin()
            for job in jobs:
                self._do(job)
            self._flush()
        except JournalError as error:
            _fail(jobs, error)
        except Exception as error:  # noqa: BLE001 - raised in the tasks that wait for the jobs
            self._roll_back()
            if isinstance(error, RAISED) and is_passing(error):
                _fail(jobs, rolled_back(error, self._path))
            elif len(jobs) == 1:
                damaged = isinstance(error, RAISED)
                jobs[0].error = BadRecord(jobs[0].about, 0, str(error)) if damaged else error
            else:
                for job in jobs:
                    self.serve((job,))
        else:
            self._commit(jobs)

    def rest(self) -> None:
        """Remove a failed commit from the log, if there is one; else move the log into the file, if it is large."""
        if self._to_mend:
            with suppress(JournalError):  # the next transaction tries again, and reports the error
                self._mend()
        elif self._logged >= CHECKPOINT_AFTER:
            self._logged = 0
            self._checkpoint("PASSIVE")

    def close(self) -> None:
        """Move the log into the file, close the connection, and release the locks."""
        if self._connection is not None and self._lost is None:
            self._leave_whole()
        connection, self._connection = self._connection, None
        if connection is not None:
            self._rows.clear()
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
        return self._connection

    def _begin(self) -> None:
        if self._lost is not None:
            raise self._lost
        db = self._db
        self._ownership.check()
        if self._to_mend:
            self._mend()
        db.execute("BEGIN IMMEDIATE")
        reach(Failpoint.BEGUN)
        (self._found,) = self._db.execute("SELECT generation FROM journal").fetchone()

    def _do(self, job: ThreadJob[Writer, object]) -> None:
        """Run *job* and keep its `AgentrailError`; a job raises one only before it has written anything."""
        job.error = None
        try:
            job.do(self)
        except AgentrailError as error:
            job.error = error

    def _flush(self) -> None:
        """Write the rows that the jobs have collected."""
        records, changed = self._records, self._changed
        self._records, self._changed = [], {}
        write_records(self._db, records)
        write_sessions(self._db, tuple(changed.values()))

    def _commit(self, jobs: Sequence[ThreadJob[Writer, object]]) -> None:
        reach(Failpoint.COMMIT)
        try:
            self._db.execute("COMMIT")
            reach(Failpoint.COMMITTED)
            self._leases.keep()
        except sqlite3.Error as error:
            meant = in_commit(error)
            self._to_mend = not isinstance(meant, NothingWritten)
            self._roll_back()
            _fail(jobs, meant)

    def _roll_back(self) -> None:
        """Undo the transaction, if SQLite has not done so itself, and forget all cached rows."""
        self._rows.clear()
        self._changed.clear()
        self._records.clear()
        self._leases.undo()
        try:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
        except sqlite3.Error:
            self._to_mend = True

    def _mend(self) -> None:
        """Remove a failed commit from the log for good.

        Raise `JournalFailed` if that cannot be done yet. Raise `CommitUnknown` if earlier commits may be lost: then
        this writer refuses all further writes.

        No connection sees the failed commit, because SQLite has not added it to the log's index. But it may be complete
        in the log, and a process that opens the journal after a crash would accept it. So the log is moved into the
        file and truncated. Then another commit is written and synced in its place: after a power cut, a log that was
        only truncated may reappear.
        """
        db = self._db
        try:
            if db.in_transaction:
                db.execute("ROLLBACK")
            (is_busy, *_) = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            if is_busy:
                raise read_meanwhile()
            db.execute("BEGIN IMMEDIATE")
            db.execute(
                f"PRAGMA user_version = {pragma(db, 'user_version')}"
            )  # writes a page; an UPDATE that changes nothing would not
            db.execute("COMMIT")
        except sqlite3.Error as error:
            meant = in_mending(error, is_synced=self._is_synced)
            if isinstance(meant, CommitUnknown):
                self._lose(meant)
            raise meant from error
        self._to_mend = False

    def _leave_whole(self) -> None:
        """Move the log into the file before the connection is closed; not if a failed commit has to stay in it."""
        try:
            if self._to_mend:
                self._mend()
        except JournalError as error:
            log.critical("journal `%s`: %s; the next process to open it sees whether it is there", self._path, error)
            self._to_mend = False
        else:
            self._checkpoint("TRUNCATE")

    @property
    def _is_synced(self) -> bool:
        """Whether each commit is synced to the disk before its jobs are answered."""
        return self._sync == "full"

    def _checkpoint(self, mode: str) -> None:
        try:
            self._db.execute(f"PRAGMA wal_checkpoint({mode})")
            reach(Failpoint.LOG_MOVED)
        except sqlite3.Error as error:
            lost = in_checkpoint(error, is_synced=self._is_synced)
            if lost is None:
                log.warning("the log of the journal `%s` could not be moved into it yet: %s", self._path, error)
            else:
                self._lose(lost)

    def _lose(self, error: CommitUnknown) -> None:
        """Refuse all further writes with *error*: the content of the file is not known until it is opened again."""
        log.critical("journal `%s`: %s", self._path, error)
        self._lost = error

    # The jobs

    def claim(self, session_id: str, holder: str, lease: Lease, *, take_over: bool) -> Claim:
        """Raise the epoch of a session, so that earlier claims are refused; return the new claim."""
        self._check_generation(session_id)
        row = self._row(session_id) or SessionRow(session_id, 0, holder)
        known = self._leases[session_id]
        if known is not None and not take_over:
            check_free(session_id, known.held, holder, lease.at)
        self._change((session_id, row.epoch + 1, holder, *row[3:FACTS]), row.slot)
        self._leases[session_id] = HeldClaim(row.epoch + 1, Holding(holder, lease.until))
        reach(Failpoint.EPOCH_RAISED)
        return Claim(session_id, row.epoch + 1, row.head)

    def renew(self, claims: Sequence[Claim], lease: Lease) -> tuple[Claim, ...]:
        """Let the leases of *claims* last as *lease* says; return the claims that are lost."""
        if self._found != self._generation:
            return tuple(claims)
        return tuple(claim for claim in claims if not self._extend(claim, lease.until))

    def release(self, claims: Sequence[Claim]) -> None:
        """End the leases of *claims*."""
        for claim in claims:
            self._extend(claim, 0)

    def _extend(self, claim: Claim, until: int) -> bool:
        """Let the lease of *claim* end at *until*; return false if the claim is lost."""
        known = self._leases[claim.session_id]
        if known is None:  # it was claimed before the file was last closed
            row = None
            with suppress(BadRecord):
                row = self._row(claim.session_id)
            known = None if row is None else HeldClaim(row.epoch, Holding(row.owner, 0))
        if known is None or known.epoch != claim.epoch:
            return False
        self._leases[claim.session_id] = HeldClaim(claim.epoch, Holding(known.held.holder, until))
        return True

    def append(self, claim: Claim, expected: int, records: Sequence[Record]) -> int:
        """Collect *records*, after record number *expected*, for `_flush`; return the number of the last one."""
        row = self._claimed(claim)
        if row.head != expected:
            raise Fenced(claim.session_id, row.epoch)
        seq, check, back = row.seq, row.check, row.slot
        for record, packed in zip(records, tuple(map(pack, records)), strict=True):
            names = self._write_blobs(packed) if packed.blobs else ""
            seq = last_seq(record, seq)
            beside = (row.id, record.number, row.epoch, seq, record.command, packed.format, names)
            check = check_of(check, repr(beside), packed.body)
            self._slot += 1
            self._records.append(RecordRow(self._slot, back, *beside, check, packed.body))
            back = self._slot
            self._logged += len(packed.body) + PAGE
        if records:
            known = stored_session(records[-1])
            due = None if known.due is None else min(known.due, LATEST)
            at_work, ended = int(known.at_work), int(known.ended)
            self._change((row.id, row.epoch, row.owner, known.head, seq, check, due, at_work, ended), back)
        return expected + len(records)

    def keep(self, claim: Claim, snapshot: Snapshot) -> None:
        """Write a snapshot of the session, in place of the previous one."""
        row = self._claimed(claim)
        check_snapshot(claim, snapshot, row.head)
        packed = pack(snapshot)
        self._flush()
        number = snapshot.number
        behind = row.check if number == row.head else checked(self._db, row, number, number)[0].check
        names = self._write_blobs(packed)
        check = check_of(behind, repr((row.id, number, packed.format, names)), packed.body)
        self._db.execute(
            "INSERT OR REPLACE INTO snapshot VALUES (?, ?, ?, ?, ?, ?, ?)",
            (row.id, number, behind, packed.format, names, check, packed.body),
        )
        self._logged += len(packed.body) + PAGE
        reach(Failpoint.SNAPSHOT_WRITTEN)

    def _claimed(self, claim: Claim) -> SessionRow:
        """Return the row of the claimed session; raise `Fenced` after a later claim, or if there is no such session."""
        self._check_generation(claim.session_id)
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
        self._rows[facts[0]] = self._changed[facts[0]] = sealed(facts, slot)

    def _check_generation(self, session_id: str) -> None:
        """Raise `Fenced` if another process has taken over the journal."""
        if self._found != self._generation:
            raise Fenced(session_id, self._found)

    def _write_blobs(self, packed: Packed) -> str:
        """Write the blobs of a record that are not stored yet; return the names of all of them."""
        for name, content in packed.blobs.items():
            self._db.execute("INSERT OR IGNORE INTO blob VALUES (?, ?)", (name, content))
            self._logged += len(content)
            reach(Failpoint.BLOB_WRITTEN)
        return " ".join(packed.blobs)


def _fail(jobs: Sequence[ThreadJob[Writer, object]], error: JournalError) -> None:
    for job in jobs:
        job.error = fresh(error)

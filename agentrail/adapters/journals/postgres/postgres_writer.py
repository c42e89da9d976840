"""Carries out the calls that write to PostgreSQL: appends as one statement that is fenced by itself, if they can be.

Such a statement needs no transaction and no lock before: it writes only where the session's epoch and its last record
are those that the writer knows. Whatever else is to be done, and whatever it leaves out, goes by transactions.

If the line is cut while it runs, it may be carried out later. Then the fences of its sessions are raised, to a number
from the sequence of epochs: that waits for the statement, or keeps it from being carried out, and the last record tells
which. The claim of the caller stays as it is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, cast

from agentrail.adapters.journals.postgres.binary_arrays import BinaryArray
from agentrail.adapters.journals.postgres.postgres_dialect import PostgresConnection, arrays_of
from agentrail.adapters.journals.sql.sql_dialect import SqlDialect
from agentrail.adapters.journals.sql.sql_tables import BLOB, RECORD, SqlRow, as_stored
from agentrail.adapters.journals.sql.stored_rows import SessionColumns
from agentrail.adapters.journals.sql.writer import KEPT_MS, ROWS_KEPT, WRITE, SqlWriter, Submitted
from agentrail.adapters.journals.writer_thread import ThreadJob, WriterJob
from agentrail.errors import AgentrailError, JournalFailed, NothingWritten
from agentrail.ports.failpoints import reach
from agentrail.ports.journal import Claim, Record, tells_about

APPEND: Final = """with wanted as (
    select * from unnest(?::bigint[], ?::bigint[], ?::bigint[], ?::bigint[], ?::bigint[], ?::bigint[], ?::bytea[],
        ?::bigint[], ?::bigint[], ?::bigint[], ?::bigint[])
    as w (key, epoch, fence, before, head, seq, checksum, due, at_work, ended, active)
),
moved as (
    update ~session s set head = w.head, seq = w.seq, checksum = w.checksum,
    due = w.due, at_work = w.at_work, ended = w.ended, active = w.active
    from wanted w where s.key = w.key and s.epoch = w.epoch and s.head = w.before and s.fence <= w.fence
    returning s.key
),
records as (
    insert into ~record (session, number, epoch, seq, command, format, blobs, checksum, body)
    select r.* from unnest(?::bigint[], ?::bigint[], ?::bigint[], ?::bigint[], ?::bytea[], ?::bigint[],
        ?::text[], ?::bytea[], ?::bytea[])
    as r (session, number, epoch, seq, command, format, blobs, checksum, body) join moved on moved.key = r.session
),
blobs as (
    insert into ~blob (session, digest, content) select b.* from unnest(?::bigint[], ?::text[], ?::bytea[])
    as b (session, digest, content) join moved on moved.key = b.session on conflict do nothing
)
select key from moved"""
"""Writes records of sessions whose claims are valid; returns the keys of these sessions."""

MOVED_TYPES: Final = (*["NUMBER"] * 6, "BYTES", *["NUMBER"] * 4)
"""Types of the columns of a session in `APPEND`."""

RAISE: Final = """update ~session s set fence = greatest(s.fence, ?)
from unnest(?::bigint[], ?::bigint[]) as w (key, epoch) where s.key = w.key and s.epoch = w.epoch
returning s.key, s.head, s.checksum"""

# skip locked: of two processes that begin at once, neither waits for the other
LAPSED: Final = """delete from ~lease where key in (
    select key from ~lease where until < ? for update skip locked
)"""


class PostgresWriter(SqlWriter):
    """Carries out all calls that write, in its thread."""

    def __init__(self, dialect: SqlDialect) -> None:
        super().__init__(dialect)
        self._lease_keys: dict[str, tuple[int, int]] = {}
        """By holder: the key of the lease that this process has made for it, and when."""
        self._known: dict[str, SessionColumns] = {}
        """Rows of sessions, as this writer has committed them: while the epoch fits, nobody else changes them."""
        self._fence = 0
        """The last fence that was drawn: statements of before have lower numbers."""
        self._late: dict[str, tuple[int, int]] = {}
        """Key and epoch of each session whose last statement may be carried out late."""
        self._raised: set[str] = set()
        """Of these the sessions whose fences the transaction has raised."""

    @property
    def _server(self) -> PostgresConnection:
        return cast("PostgresConnection", self._db)

    def is_in_doubt(self, session_id: str) -> bool:
        """Whether it is not known what was written last; may be called in any thread."""
        return session_id in self._late or super().is_in_doubt(session_id)

    def serve(self, jobs: Sequence[WriterJob[SqlWriter]]) -> None:
        """Run *jobs*: as one statement those that append to sessions that are known, the others in a transaction."""
        fenced, others = list[WriterJob[SqlWriter]](), list[WriterJob[SqlWriter]]()
        for job in jobs:
            (fenced if self._is_fenced(job) else others).append(job)
        if fenced:
            others = [*self._append_fenced(fenced), *others]
        if others:
            super().serve(others)

    def _is_fenced(self, job: WriterJob[SqlWriter]) -> bool:
        """Whether *job* appends to a session that is known, and changes nothing that it can be found by."""
        row = self._known.get(job.session_id)
        if row is None or not isinstance(job, ThreadJob) or job.run not in {SqlWriter.append, SqlWriter.submit}:
            return False
        claim, expected, records = cast("tuple[Claim, int, Sequence[Record] | Submitted]", job.given)
        if row.epoch != claim.epoch or row.head != expected:
            return False
        try:
            records = records.records if isinstance(records, Submitted) else records
        except Exception:  # noqa: BLE001 - raised again where the job is run
            return False
        return bool(records) and not any(map(tells_about, records))

    def _append_fenced(self, jobs: Sequence[WriterJob[SqlWriter]]) -> list[WriterJob[SqlWriter]]:
        """Run *jobs* as one statement; return those that it has left out, as a transaction can say why."""
        befores = {job.session_id: self._known[job.session_id] for job in jobs}
        self._rows = dict(befores)
        try:
            for job in jobs:
                job.error = None
                try:
                    job.do(self)
                except AgentrailError as error:
                    job.error = error
            moves = {name: (befores[name], self._rows[name]) for name in self._listings}
            values = self._values(moves.values())
        except Exception:  # noqa: BLE001 - raised again where each job is run alone
            self._forget()
            return list(jobs)
        if not moves:
            return []
        reach("COMMIT")
        try:
            moved = {key for (key,) in self._server.run(APPEND, values)}
        except AgentrailError:  # the journal cannot be opened, which the transaction will say
            self._forget()
            return list(jobs)
        except self._dialect.errors as error:
            self._roll_back()
            is_known = self._dialect.commit_failure(error) is not None
            return list(jobs) if is_known else self._settle(jobs, moves, error)
        reach("COMMITTED")
        for name, (old, new) in moves.items():
            if old.key in moved:
                self._known[name] = new
            else:
                del self._known[name]
                self._references.drop(name)
        for collected in (self._listings, self._records, self._blobs):
            collected.clear()
        self._appended = None
        return [job for job in jobs if job.error is None and befores[job.session_id].key not in moved]

    def _values(self, moves: Collection[tuple[SessionColumns, SessionColumns]]) -> list[BinaryArray]:
        """Return the values of the statement: a list for each column of each table."""
        sessions = [
            (new.key, new.epoch, max(new.epoch, self._fence), old.head, new.head, *new[7:]) for old, new in moves
        ]
        return [
            *arrays_of(MOVED_TYPES, sessions),
            *arrays_of(RECORD.types, self._records),
            *arrays_of(BLOB.types, self._blobs),
        ]

    def _settle(
        self,
        jobs: Sequence[WriterJob[SqlWriter]],
        moves: Mapping[str, tuple[SessionColumns, SessionColumns]],
        lost: Exception,
    ) -> list[WriterJob[SqlWriter]]:
        """Find out what was written of *jobs*; return those whose sessions others have claimed. The line was *lost*."""
        fences = {name: (old.key, old.epoch) for name, (old, _) in moves.items()}
        self._late.update(fences)
        waiting = [job for job in jobs if job.error is None]
        failures: tuple[type[Exception], ...] = (AgentrailError, *self._dialect.errors)
        try:
            lasts = {row[0]: row[1:] for row in self._raise_fences(fences.values())}
        except failures as error:
            self._roll_back()
            for job in waiting:
                job.error = JournalFailed(WRITE, " ".join(str(error).split()))
            return []
        left_out = list[WriterJob[SqlWriter]]()
        for job in waiting:
            old, new = moves[job.session_id]
            del self._late[job.session_id]
            if old.key not in lasts:
                left_out.append(job)
            elif lasts[old.key] != (new.head, new.check):
                job.error = NothingWritten(" ".join(str(lost).split()))
        return left_out

    def _raise_fences(self, fences: Collection[tuple[int, int]]) -> list[SqlRow]:
        """Refuse the statements of before; return key, and number and checksum of the last record of each session."""
        (self._fence,) = self._db.draw_epochs(1)
        keys, epochs = [key for key, _ in fences], [epoch for _, epoch in fences]
        return self._server.run(RAISE, (self._fence, keys, epochs))

    # Transactions

    def _begin(self, jobs: Sequence[WriterJob[SqlWriter]]) -> None:
        super()._begin(jobs)
        late = {job.session_id for job in jobs} & self._late.keys()
        if late:
            self._raise_fences([self._late[name] for name in late])
            self._raised |= late

    def _commit(self, jobs: Sequence[WriterJob[SqlWriter]]) -> None:
        super()._commit(jobs)
        for name in self._raised:
            del self._late[name]
        self._raised.clear()
        if len(self._known) > ROWS_KEPT:
            self._known.clear()
        self._known.update(self._rows)

    def _forget(self) -> None:
        super()._forget()
        self._lease_keys.clear()  # that of a lease which the transaction has made stands for none
        self._known.clear()
        self._raised.clear()

    def _lease_key(self, holder: str, now_ms: int) -> int:
        """Return the key of the lease of *holder* that this process has made: not of one before it at its address."""
        key, made_at = self._lease_keys.get(holder, (0, 0))
        # others may have deleted one that is older; sessions that refer to it keep it
        if not key or now_ms - made_at > KEPT_MS // 2:
            self._write_leases()  # else one that an earlier call has made would count as ended
            self._db.run(LAPSED, (now_ms - KEPT_MS,))
            inserted = "insert into ~lease (holder, until) values (?, 0) returning key"
            ((new_key,),) = self._db.run(inserted, (as_stored(holder),))
            key = cast("int", new_key)
            self._lease_keys[holder] = key, now_ms
        return key

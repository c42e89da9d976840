"""Carries out the calls that write, in one thread: those that wait are written together, with one statement.

A statement writes records only where the session's epoch and head are still those that the claim knows, so it needs no
transaction and no lock before. If the line is cut while it runs, nobody knows whether it was carried out. Then the
writer claims each of its sessions anew, under a number that it draws before: that waits for the statement, or keeps it
from being carried out. The caller goes on with the claim that it has, which the writer translates.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, Generic, NamedTuple, TypeVar, cast

import psycopg
from msgspec import Struct, field

from agentrail.adapters.journals.checksums import as_bytes, check_of_snapshot
from agentrail.adapters.journals.message_index import PlacesBySession
from agentrail.adapters.journals.packing import check_of, pack
from agentrail.adapters.journals.postgres import statements
from agentrail.adapters.journals.postgres.checked_rows import (
    SessionHead,
    checked_records,
    read_head,
    read_heads,
    session_head,
)
from agentrail.adapters.journals.postgres.database import Database, Row, Target
from agentrail.adapters.journals.postgres.server_tables import as_stored, as_text
from agentrail.adapters.journals.postgres.session_list import ABOUT_COLUMNS, about_of, stored_time
from agentrail.adapters.journals.postgres.sqlstates import in_doubt, in_statement, is_lost, is_outage
from agentrail.adapters.journals.writer_thread import WriterJob
from agentrail.errors import AgentrailError, Fenced, NothingWritten, SessionHeld
from agentrail.errors.agentrail_error import fresh
from agentrail.ports.failpoints import reach
from agentrail.ports.journal import (
    About,
    Claim,
    Lease,
    Record,
    Snapshot,
    about_after,
    check_snapshot,
    has_ended,
    last_seq,
    parent_of,
    tells_about,
)

T = TypeVar("T")
W = TypeVar("W", "WaitingClaim", "WaitingAppend")

HEADS_KEPT: Final = 10_000
"""The most sessions whose heads are cached; beyond it all are dropped, and read again when they are needed."""

WRITE: Final = "write records of session `{}`"
CLAIM: Final = "claim session `{}`"


class Waiting(Struct, Generic[T], eq=False):
    """A call that is carried out together with others; its result, once it is."""

    session_id: str
    value: T | None = None
    error: Exception | None = None

    def outcome(self) -> T:
        """Return the result, or raise the error."""
        if self.error is not None:
            raise self.error
        return self.value  # type: ignore[return-value]  # it was carried out, so this is a T


class WaitingClaim(Waiting[Claim], eq=False):
    """A call of `claim`."""

    holder: str = ""
    lease: Lease = field(default_factory=lambda: Lease(0, 0))
    take_over: bool | str = False


class WaitingAppend(Waiting[int], eq=False):
    """A call of `append`."""

    epoch: int = 0
    """Epoch of the claim, as the caller has it."""
    expected: int = 0
    records: Sequence[Record] = ()


class InDoubt(NamedTuple):
    """A session whose last statement may have been carried out or not."""

    before: SessionHead
    after: SessionHead
    epochs: tuple[int, ...]
    """The epochs that it may have: of the statement, and of each attempt to claim it since."""


class PostgresWriter:
    """Carries out all calls that write, in its thread."""

    def __init__(self, target: Target) -> None:
        self._db = Database(target)
        self._heads: dict[str, SessionHead] = {}
        self._places = PlacesBySession()
        self._epochs: dict[str, tuple[int, int]] = {}  # by session: epoch of the caller's claim, and the one it has now
        self._doubts: dict[str, InDoubt] = {}
        self._leases: dict[str, int] = {}  # by holder: the row of its lease, new with each process
        self._claims: list[WaitingClaim] = []
        self._appends: list[WaitingAppend] = []

    def is_in_doubt(self, session_id: str) -> bool:
        """Whether it is not known what was written last; may be called in any thread."""
        return session_id in self._doubts

    # The methods of `JobHandler`, which the worker calls

    def serve(self, jobs: Sequence[WriterJob[PostgresWriter]]) -> None:
        """Run *jobs*; claims and records are collected, and written with one statement each."""
        for job in jobs:
            try:
                job.do(self)
            except AgentrailError as error:
                job.error = error
            except psycopg.Error as error:
                job.error = self._in_statement(error, f"write to session `{job.about}`")
        claims, self._claims = self._claims, []
        appends, self._appends = self._appends, []
        for claims_ in _rounds(claims, lambda claim: (claim.take_over, claim.holder, claim.lease.lasts)):
            self._claim_all(claims_)
        for appends_ in _rounds(appends, lambda _: None):
            self._append_all(appends_)

    def rest(self) -> None:
        """No-op: the server looks after its files itself."""

    def close(self) -> None:
        """Close the connection."""
        self._db.close()
        self._heads.clear()
        self._places.clear()

    # The jobs

    def claim(self, session_id: str, holder: str, lease: Lease, *, take_over: bool | str) -> WaitingClaim:
        """Collect a claim."""
        waiting = WaitingClaim(session_id, holder=holder, lease=lease, take_over=take_over)
        self._claims.append(waiting)
        return waiting

    def append(self, claim: Claim, expected: int, records: Sequence[Record]) -> WaitingAppend:
        """Collect records."""
        waiting = WaitingAppend(claim.session_id, epoch=claim.epoch, expected=expected, records=records)
        self._appends.append(waiting)
        return waiting

    def renew(self, claims: Sequence[Claim], lease: Lease) -> tuple[Claim, ...]:
        """Let the leases of the holders of *claims* last as *lease* says; return the claims that are lost."""
        ids, epochs = self._columns(claims)
        lost: set[Row] = set(self._db.run(statements.RENEW, (ids, epochs, lease.lasts))) if claims else set()
        return tuple(claim for claim, *columns in zip(claims, ids, epochs, strict=True) if tuple(columns) in lost)

    def release(self, claims: Sequence[Claim]) -> None:
        """Let others claim the sessions of *claims*."""
        self._db.run(statements.RELEASE, self._columns(claims))

    def keep(self, claim: Claim, snapshot: Snapshot) -> None:
        """Write a snapshot of the session, in place of the previous one."""
        self.settle(claim.session_id)
        head = self._claimed(claim, self._heads.get(claim.session_id) or read_head(self._db, claim.session_id))
        check_snapshot(claim, snapshot, head.head)
        packed, number = pack(snapshot), snapshot.number
        behind = head.check if number == head.head else checked_records(self._db, head, number, number)[0].check
        names = " ".join(packed.blobs)
        check = check_of_snapshot(behind, (head.id, number, packed.format, names), packed.body)
        row = (number, behind, packed.format, names, check, packed.body)
        values = (as_stored(head.id), head.epoch, *_blob_columns(packed.blobs), *row)
        if not self._db.run(statements.KEEP, values):
            self._heads.pop(head.id, None)
            raise Fenced(head.id, self._epoch_of(head.id))
        reach("SNAPSHOT_WRITTEN")

    def settle(self, session_id: str) -> None:
        """Find out what was written last, if that is in doubt; raise `JournalFailed` if the server cannot be asked."""
        if session_id in self._doubts:
            try:
                self._settle([session_id])
            except psycopg.Error as error:
                raise self._in_statement(error, WRITE.format(session_id)) from error

    def _forget(self, session_id: str) -> None:
        """Drop what is known of an earlier claim of a session."""
        for cache in (self._heads, self._epochs, self._doubts):
            cache.pop(session_id, None)

    def _columns(self, claims: Sequence[Claim]) -> tuple[list[bytes], list[int]]:
        """Return ids and epochs of *claims*, as the server has them."""
        for claim in claims:
            self.settle(claim.session_id)
        return [as_stored(claim.session_id) for claim in claims], [self._actual(claim) for claim in claims]

    def _actual(self, claim: Claim) -> int:
        """Return the epoch that *claim* has at the server."""
        claimed, actual = self._epochs.get(claim.session_id, (claim.epoch, claim.epoch))
        return actual if claimed == claim.epoch else claim.epoch

    def _claimed(self, claim: Claim, head: SessionHead | None) -> SessionHead:
        """Return *head*; raise `Fenced` unless it has the epoch of *claim*."""
        if head is None or head.epoch != self._actual(claim):
            raise Fenced(claim.session_id, 0 if head is None else head.epoch)
        return head

    def _epoch_of(self, session_id: str) -> int:
        head = read_head(self._db, session_id)
        return 0 if head is None else head.epoch

    def _in_statement(self, error: psycopg.Error, attempt: str) -> AgentrailError:
        return in_statement(error, attempt, str(self._db.target))

    # Claims

    def _claim_all(self, claims: Sequence[WaitingClaim]) -> None:
        """Claim sessions, each of them once, for one holder; a claim may be repeated, so one in doubt is made again."""
        try:
            try:
                self._claim_once(claims)
            except psycopg.Error as error:
                if not is_lost(error):
                    raise
                self._claim_once(claims)
        except psycopg.Error as error:
            if len(claims) > 1 and not is_lost(error):
                for claim in claims:
                    self._claim_all((claim,))
                return
            for claim in claims:
                claim.error = self._in_statement(error, CLAIM.format(claim.session_id))

    def _claim_once(self, claims: Sequence[WaitingClaim]) -> None:
        first = claims[0]
        if first.holder not in self._leases:
            self._db.run(statements.LAPSED)
            self._leases[first.holder] = secrets.randbits(63)
        lease, lasts = self._leases[first.holder], first.lease.lasts
        self._db.run(statements.LEASE, (lease, as_stored(first.holder), lasts, lasts))
        waiting = {claim.session_id: claim for claim in claims}
        ids = sorted(map(as_stored, waiting))
        holder, lasting = as_stored(first.holder), lasts > 0
        over = first.take_over is True
        former = as_stored(first.take_over) if isinstance(first.take_over, str) else holder
        for row in self._db.run(statements.CLAIM, (lease, lasting, ids, over, holder, former)):
            head = session_head(row)
            self._forget(head.id)
            self._remember(head)
            waiting.pop(head.id).value = Claim(head.id, head.epoch, head.head)
        reach("EPOCH_RAISED")
        if not waiting:
            return
        for row in self._db.run(statements.HOLDERS, (list(map(as_stored, waiting)),)):
            session_id, other, rest = cast("tuple[bytes, bytes, int | None]", row)
            claim = waiting.pop(as_text(session_id))
            claim.error = SessionHeld(claim.session_id, as_text(other), max(rest or 0, 1))
        for claim in waiting.values():  # it was deleted meanwhile
            claim.error = NothingWritten("the session was deleted while it was claimed")

    # Records

    def _append_all(self, appends: Sequence[WaitingAppend]) -> None:
        """Write records of sessions, each of them once, with one statement."""
        places = [append for append in appends if self._is_sure(append)]
        try:
            heads = self._read_heads(places)
            abouts = self._read_about(append.session_id for append in places if _tells_more(append))
        except psycopg.Error as error:
            _fail(places, self._in_statement(error, "write records"))
            return
        batch = _Batch()
        for append in places:
            try:
                self._add(append, heads.get(append.session_id), abouts, batch)
            except AgentrailError as error:
                append.error = error
        if batch.appends:
            self._write(batch)

    def _is_sure(self, append: WaitingAppend) -> bool:
        """Whether it is known what was written last; settle it otherwise, and store the error if that fails."""
        try:
            self.settle(append.session_id)
        except AgentrailError as error:
            append.error = error
        return append.error is None

    def _read_heads(self, appends: Sequence[WaitingAppend]) -> dict[str, SessionHead]:
        """Return heads of sessions, from the cache if possible: as long as the epoch fits, nobody else changes them."""
        unknown = [append.session_id for append in appends if not self._is_cached(append)]
        if unknown:
            for session_id in unknown:
                self._heads.pop(session_id, None)
            for head in read_heads(self._db, unknown).values():
                self._remember(head)
        ids = [append.session_id for append in appends]
        return {session_id: self._heads[session_id] for session_id in ids if session_id in self._heads}

    def _is_cached(self, append: WaitingAppend) -> bool:
        head = self._heads.get(append.session_id)
        return head is not None and head.epoch == self._actual(Claim(append.session_id, append.epoch, 0))

    def _remember(self, head: SessionHead) -> None:
        if len(self._heads) >= HEADS_KEPT:
            self._heads.clear()
        self._heads[head.id] = head

    def _read_about(self, session_ids: Iterable[str]) -> dict[str, About]:
        """Return what is said of sessions that have a title or labels already."""
        ids = list(map(as_stored, session_ids))
        query = f"select session, {ABOUT_COLUMNS} from agentrail.about where session = any(%b)"  # noqa: S608
        return {as_text(cast("bytes", row[0])): about_of(row[1:]) for row in self._db.run(query, (ids,))} if ids else {}

    def _add(self, append: WaitingAppend, head: SessionHead | None, abouts: dict[str, About], batch: _Batch) -> None:
        """Add the rows of *append* to *batch*; raise `Fenced` if its claim is lost."""
        head = self._claimed(Claim(append.session_id, append.epoch, 0), head)
        if head.head != append.expected:
            raise Fenced(head.id, head.epoch)
        if not append.records:
            append.value = append.expected
            return
        session_id, epoch, _, seq, check = head
        stored_id, places = as_stored(session_id), self._places[session_id]
        records, blobs = list[tuple[object, ...]](), dict[str, bytes]()
        for record, packed in [(record_, pack(record_, places)) for record_ in append.records]:
            names = " ".join(packed.blobs)
            blobs.update(packed.blobs)
            seq = last_seq(record, seq)
            outside = as_bytes((session_id, record.number, epoch, seq, record.command, packed.format, names))
            check = check_of(check, outside, packed.body)
            command = None if record.command is None else as_stored(record.command)
            records.append((stored_id, record.number, epoch, seq, command, packed.format, names, check, packed.body))
        last = append.records[-1]
        due = None if last.due is None else stored_time(last.due)
        standing = (due, last.at_work, has_ended(last), last.arrival.at)
        after = SessionHead(session_id, epoch, last.number, seq, check)
        batch.appends.append(append)
        batch.heads.append((head, after))
        batch.sessions.append((stored_id, epoch, head.head, last.number, seq, check, *standing))
        batch.records += records
        batch.blobs += [(stored_id, name, content) for name, content in blobs.items()]
        if any(map(tells_about, append.records)):
            batch.about.append(_about_row(stored_id, append.records, abouts.get(session_id, About())))

    def _write(self, batch: _Batch) -> None:
        """Write *batch*; if that fails because of some value, write each session's part alone."""
        reach("COMMIT")
        try:
            moved = {as_text(cast("bytes", row[0])) for row in self._db.run(statements.APPEND, batch.values())}
        except psycopg.Error as error:
            self._places.clear()
            self._recover(batch, error)
            return
        reach("COMMITTED")
        for append, (_, after) in zip(batch.appends, batch.heads, strict=True):
            if append.session_id in moved:
                self._heads[append.session_id] = after
                append.value = after.head
            else:
                self._refuse(append)

    def _refuse(self, append: WaitingAppend) -> None:
        """Store `Fenced`: another process has claimed the session."""
        self._heads.pop(append.session_id, None)
        try:
            append.error = Fenced(append.session_id, self._epoch_of(append.session_id))
        except psycopg.Error:
            append.error = Fenced(append.session_id, 0)

    def _recover(self, batch: _Batch, error: psycopg.Error) -> None:
        """Store how the writing of *batch* has ended, which has failed with *error*."""
        if is_lost(error):
            for before, after in batch.heads:
                self._doubts[before.id] = InDoubt(before, after, (before.epoch,))
            self._look(batch, error)
        elif len(batch.appends) > 1:
            for append in batch.appends:
                self._append_all((append,))
        elif is_outage(error):
            _fail(batch.appends, NothingWritten(str(error)))
        else:
            _fail(batch.appends, self._in_statement(error, WRITE.format(batch.appends[0].session_id)))

    def _look(self, batch: _Batch, lost: psycopg.Error) -> None:
        """Settle the sessions of *batch*, whose connection was *lost*, and store what was written."""
        try:
            outcomes = self._settle([append.session_id for append in batch.appends])
        except psycopg.Error as error:
            for append in batch.appends:
                append.error = in_doubt(error, WRITE.format(append.session_id))
            return
        for append, (_, after) in zip(batch.appends, batch.heads, strict=True):
            match outcomes[append.session_id]:
                case True:
                    append.value = after.head
                case False:
                    append.error = NothingWritten(" ".join(str(lost).split()))
                case None:
                    self._refuse(append)

    def _settle(self, session_ids: Sequence[str]) -> dict[str, bool | None]:
        """Claim sessions in doubt anew; return for each whether its records were written, `None` if it is lost."""
        drawn = [cast("int", row[0]) for row in self._db.run(statements.DRAW, (len(session_ids),))]
        for session_id, number in zip(session_ids, drawn, strict=True):
            doubt = self._doubts[session_id]
            self._doubts[session_id] = doubt._replace(epochs=(*doubt.epochs, number))
        outcomes: dict[str, bool | None] = {}
        for session_id, number in zip(session_ids, drawn, strict=True):
            doubt = self._doubts[session_id]
            rows = self._db.run(statements.RECLAIM, (number, as_stored(session_id), list(doubt.epochs)))
            claimed = self._epochs.get(session_id, (doubt.before.epoch, 0))[0]
            self._forget(session_id)
            outcomes[session_id] = None
            for head in map(session_head, rows):
                self._epochs[session_id] = (claimed, number)
                self._remember(head)
                outcomes[session_id] = (head.head, head.check) == (doubt.after.head, doubt.after.check)
        return outcomes


class _Batch:
    """The rows that one statement writes."""

    def __init__(self) -> None:
        self.appends: list[WaitingAppend] = []
        self.heads: list[tuple[SessionHead, SessionHead]] = []
        self.sessions: list[tuple[object, ...]] = []
        self.records: list[tuple[object, ...]] = []
        self.blobs: list[tuple[object, ...]] = []
        self.about: list[tuple[object, ...]] = []

    def values(self) -> list[object]:
        """Return the values of the statement: a list for each column of each table."""
        tables = ((self.sessions, 10), (self.records, 9), (self.blobs, 3), (self.about, 8))
        return [column for rows, width in tables for column in _columns_of(rows, width)]


def _columns_of(rows: Sequence[Row], width: int) -> list[list[object]]:
    return [[row[index] for row in rows] for index in range(width)]


def _blob_columns(blobs: Mapping[str, bytes]) -> list[list[object]]:
    return _columns_of(list(blobs.items()), 2)


def _rounds(calls: Sequence[W], key: Callable[[W], object]) -> Iterator[list[W]]:
    """Yield *calls* in groups with the same *key*, and with one call of a session in each."""
    groups: dict[object, list[dict[str, W]]] = {}
    for call in calls:
        rounds = groups.setdefault(key(call), [])
        free = next((group for group in rounds if call.session_id not in group), None)
        if free is None:
            rounds.append({call.session_id: call})
        else:
            free[call.session_id] = call
    return (list(group.values()) for rounds in groups.values() for group in rounds)


def _tells_more(append: WaitingAppend) -> bool:
    """Whether *append* changes a title or labels that were said before."""
    return append.expected > 0 and any(map(tells_about, append.records))


def _about_row(stored_id: bytes, records: Sequence[Record], about: About) -> tuple[object, ...]:
    for record in records:
        if tells_about(record):
            about = about_after(record, about)
    parent = parent_of(records[0])
    texts = (about.tenant, about.owner, about.spec, about.title)
    labels = " ".join(as_stored(label).hex() for label in about.labels)  # the arrays of an array must be equally long
    return (stored_id, None if parent is None else as_stored(parent), *map(as_stored, texts), labels, about.created)


def _fail(appends: Iterable[WaitingAppend], error: AgentrailError) -> None:
    for append in appends:
        append.error = fresh(error)

"""The journal in memory: for tests, and for sessions that need not survive their process.

It keeps the newest records as objects, and the state of each session by reference: nothing is written as JSON. In place
of all that were dropped, one record is read, whose opening is the state after them; their events are a `Gap`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from heapq import nsmallest
from typing import TYPE_CHECKING, Final

from agentrail.core.vocabulary.changes import NO_CHANGE
from agentrail.core.vocabulary.inputs import Arrival
from agentrail.errors import Fenced
from agentrail.ports.journal import (
    ALL_SESSIONS,
    NO_LEASE,
    About,
    Claim,
    Holding,
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
    about_after,
    check_free,
    check_numbers,
    check_snapshot,
    folded,
    last_seq,
    not_kept,
    opening_of,
    parent_of,
    stored_session,
)
from agentrail.ports.money import KEPT_DAYS, Balance, DayMoney, Expense
from agentrail.reprs import in_brackets, some
from agentrail.values.argument_checks import checked

if TYPE_CHECKING:
    from agentrail.adapters.journals.message_index import MessageReferences
    from agentrail.adapters.journals.packing import PackedRecord
    from agentrail.core.vocabulary.state import State
    from agentrail.values.messages import Message


NO_ABOUT = About()
"""Title, labels and the like of a session before its first record."""

KEPT: Final = 2048
"""Records of all sessions that are kept unless `keep` says otherwise: some 3 MB, and some 400 turns of one session."""

SHARE: Final = 32
"""Of so many records that are to be kept, one more is, until all that are too many are dropped together."""


class _SessionRecords:
    """All data that is stored of one session: its newest records, and the state before them."""

    __slots__ = (
        "about",
        "answers",
        "base",
        "born",
        "epoch",
        "head",
        "holder",
        "is_held",
        "last",
        "parent",
        "references",
        "seqs",
        "session_id",
        "snapshot",
        "state",
        "stored",
        "submitted",
    )

    def __init__(self, session_id: str, born: int) -> None:
        self.session_id = session_id
        self.born = born  # the epoch of its first claim: another one if its id is used again
        self.submitted = 0  # records that came with states and were not dropped
        self.about = NO_ABOUT
        self.epoch = 0
        self.holder = ""
        self.is_held = False
        self.parent: str | None = None
        self.head = 0
        # Lists, as a deque would take 760 bytes of each session.
        self.stored: list[RecordWithStates | Record | PackedRecord] = []
        self.seqs: list[int] = []  # of each record that is kept: the last durable event up to it
        # The last record that was dropped, or what is read in its place.
        self.base: RecordWithStates | Record | None = None
        self.state: State | None = None  # after the last record, if that was submitted with its states
        self.last: StoredSession | None = None  # the summary, if no record is kept of which it is made
        self.answers: dict[str, tuple[int, StoredAnswer]] | None = None  # by command id, with the record's number
        self.snapshot: Snapshot | PackedRecord | None = None
        self.references: MessageReferences | None = None

    @property
    def first(self) -> int:
        """Number of the first record that is kept; if none is, of the next one."""
        return self.head + 1 - len(self.stored)

    def note(self, record: Record, after: State | None) -> None:
        """Take over what is known of the session beside its records from *record*, and from the state *after* it."""
        about = about_after(record, self.about)
        if after is not None and (after.title != about.title or after.labels != about.labels):
            about = about.but(title=after.title, labels=after.labels)
        self.about, self.state, self.last = about, after, None
        opening = None if self.seqs else self.opening()
        old_seq = self.seqs[-1] if self.seqs else 0 if opening is None else opening_of(opening).last_seq
        self.seqs.append(last_seq(record, old_seq))
        self.head = record.number
        if record.command is not None and record.answer is not None:
            self._remember(record.command, record.number, StoredAnswer(record.arrival.input, record.answer))

    def _remember(self, command: str, number: int, answer: StoredAnswer) -> None:
        if self.answers is None:
            self.answers = {}
        self.answers[command] = number, answer

    def drop_oldest(self, count: int) -> None:
        """Drop the *count* oldest records, or all: the state after the last of them stands for them."""
        dropped = self.stored[:count]
        if len(dropped) == len(self.stored) and dropped:
            self.last = self.summary()
        for number, oldest in enumerate(dropped, self.first):
            if isinstance(oldest, RecordWithStates):
                self.base = oldest
            else:  # its states are not kept: it was read
                record, opening = self.whole(number, oldest), self.opening()
                self.base = _opened(record, folded(opening_of(opening or record), record))
        if isinstance(self.base, RecordWithStates):
            self.base = RecordWithStates(self.base.record, self.base.after, self.base.after)  # nobody needs that before
        del self.stored[:count], self.seqs[:count]

    def opening(self) -> Record | None:
        """Return the record that is read in place of those that were dropped; `None` if none was."""
        if isinstance(self.base, RecordWithStates):
            self.base = _opened(self.base.record, self.base.after)
        return self.base

    def read(self, after: int, limit: int) -> tuple[Record, ...]:
        """Return up to *limit* records that follow number *after*; see `opening`."""
        start = max(after + 1 - self.first, 0)
        records: list[Record] = []
        if after < self.first - 1 and limit > 0 and (opening := self.opening()) is not None:
            records.append(opening)
            limit -= 1
        for index, stored in enumerate(self.stored[start : start + max(limit, 0)], start):
            record = self.whole(self.first + index, stored)
            if isinstance(stored, RecordWithStates):  # its change is made once, whoever reads it
                self.stored[index] = record
            records.append(record)
        return tuple(records)

    def whole(self, number: int, stored: RecordWithStates | Record | PackedRecord) -> Record:
        """Return *stored*, the record *number*, with its change; a packed record is unpacked."""
        if isinstance(stored, Record):
            return stored
        if isinstance(stored, RecordWithStates):
            return stored.with_change().record
        from agentrail.adapters.journals.packing import unpack  # noqa: PLC0415 - see `_pack`

        return unpack(stored, self.session_id, number, self._messages)

    def _messages(self, number: int) -> Sequence[Message]:
        """Return the messages in the change of record *number*, to which a later record refers."""
        from agentrail.adapters.journals.message_index import messages_in  # noqa: PLC0415 - see `_pack`

        (record,) = self.read(number - 1, 1)
        return messages_in(record.change)

    def summary(self) -> StoredSession:
        """Return the summary of the session."""
        if self.last is not None:
            return self.last
        stored = self.stored[-1]
        return stored_session(
            stored.record if isinstance(stored, RecordWithStates) else self.whole(self.head, stored), self.about
        )

    def latest(self, upto: int | None, limit: int) -> Latest:
        """Return a state of the session, and up to *limit* of the records that follow it, up to *upto*."""
        last = self.head if upto is None else min(upto, self.head)
        if last == self.head and self.state is not None:
            return Latest(Snapshot(self.session_id, last, self.state), ())
        opening = self.opening()
        if opening is not None:
            if last < opening.number:
                raise not_kept(opening)
            base = Snapshot(self.session_id, opening.number, opening_of(opening))
            return Latest(base, self.read(base.number, min(limit, last - base.number)))
        snapshot = None if self.snapshot is None else _load_snapshot(self.snapshot)
        if snapshot is not None and snapshot.number > last:
            snapshot = None
        number = 0 if snapshot is None else snapshot.number
        return Latest(snapshot, self.read(number, min(limit, last - number)))

    def redact(self, first: int, last: int, note: Redaction, *, encode: bool) -> int:
        """Replace the texts of records *first* to *last* by a mark; return how many were replaced now.

        If some of them were dropped, what is read in place of these loses all its texts.
        """
        from agentrail.adapters.journals.redacting import about_redacted, kept_names, redacted  # noqa: PLC0415 - see `_pack`

        # Read whole, as the states of entries have the texts too.
        records, count, opening = self.read(self.first - 1, len(self.stored)), 0, self.opening()
        self.snapshot = self.state = self.last = None
        names = kept_names(records if opening is None else (opening, *records))
        if opening is not None and first <= opening.number:
            self.base = redacted(opening, note, names)
            self.about = about_redacted(self.about, (opening,))
        for index, record in enumerate(records):
            if first <= record.number <= last:
                count += record.redacted is None
                marked = redacted(record, note, names)
                self.stored[index] = _pack(marked) if encode else marked
                self.about = about_redacted(self.about, (record,))
        for command, (number, answer) in (self.answers or {}).items():
            if first <= number <= last:
                like = Record(self.session_id, number, Arrival(answer.input, 0, 0.0), answer=answer.answer)
                marked = redacted(like, note, names)
                if marked.answer is not None:
                    self._remember(command, number, StoredAnswer(marked.arrival.input, marked.answer))
        return count


class MemoryJournal:
    """Stores records in memory: the newest *keep* ones of all sessions together, or a few more; `None`: all.

    A session comes back from its last state, however few of its records are kept; what is gone are older events, older
    messages that it has compacted, and older places to fork it at. Answers to command ids stay as long as the
    session. Records that come without states, from another writer than a session, are kept all.

    With *encode*, all are kept as the bytes that a file would hold, to test that they can be stored. A record is then
    written and read in the event loop: megabytes in one, such as images, hold all sessions up for that long. It is for
    tests; a program that has such records uses `SqliteJournal`, which works in a thread.
    """

    @checked
    def __init__(self, *, encode: bool = False, keep: int | None = KEPT) -> None:
        self._encode = encode
        self._keep = keep
        self._sessions: dict[str, _SessionRecords] = {}
        self._children: dict[str, dict[str, None]] = {}
        self._epochs = 0
        self._leases: dict[str, int] = {}  # by holder: when its lease ends
        self._money: dict[tuple[str, int], DayMoney] = {}  # by tenant and day
        self._order: deque[int] = deque()  # the `born` of each submitted record's session, oldest first
        self._live: dict[int, _SessionRecords] = {}  # by `born`, those in the order that were not deleted
        self._kept = 0  # submitted records of these

    @in_brackets
    def __repr__(self) -> str:
        return some(len(self._sessions), "session") or "empty"

    async def claim(
        self, session_id: str, holder: str, lease: Lease = NO_LEASE, *, take_over: bool | str = False
    ) -> Claim:
        """Make the caller the only writer of a session; raise `SessionHeld` if another holder has a lease of it."""
        session = self._sessions.get(session_id)
        if session is not None:
            self._check_free(session, holder, lease.at, take_over)
        self._epochs += 1  # one counter for all sessions: a deleted id that is used again gets a new epoch too
        if session is None:
            session = self._sessions[session_id] = _SessionRecords(session_id, self._epochs)
        session.epoch = self._epochs
        session.holder, session.is_held = holder, lease.lasts > 0
        if session.is_held:
            if holder not in self._leases:
                self._leases = {other: until for other, until in self._leases.items() if until > lease.at}
            self._leases[holder] = max(self._leases.get(holder, 0), lease.until)
        return Claim(session_id, session.epoch, session.head)

    async def renew(self, claims: Sequence[Claim], lease: Lease) -> tuple[Claim, ...]:
        """Let the leases of the holders of *claims* last as *lease* says; return the claims that are lost."""
        lost: list[Claim] = []
        for claim in claims:
            session = self._sessions.get(claim.session_id)
            if session is None or session.epoch != claim.epoch:
                lost.append(claim)
            else:
                session.is_held = True
                self._leases[session.holder] = lease.until
        return tuple(lost)

    async def release(self, claims: Sequence[Claim]) -> None:
        """Let other holders claim the sessions of *claims*."""
        for claim in claims:
            session = self._sessions.get(claim.session_id)
            if session is not None and session.epoch == claim.epoch:
                session.is_held = False

    async def reserve_money(self, expense: Expense, limit: int) -> Balance:
        """Reserve *expense* if that keeps its day within *limit*; see `DayMoney`."""
        key = (expense.tenant, expense.day)
        if key not in self._money:
            self._money = {other: money for other, money in self._money.items() if other[1] > expense.day - KEPT_DAYS}
            self._money[key] = DayMoney()
        return self._money[key].reserve(expense, limit)

    async def settle_money(self, costs: Sequence[tuple[Expense, int]]) -> None:
        """Count the cost of each expense in place of its most."""
        for expense, cost in costs:
            money = self._money.get((expense.tenant, expense.day))
            if money is not None:
                money.settle(expense, cost)

    @property
    def submits(self) -> bool:
        """Whether sessions give it their states: with `encode` they give it records to be written as bytes."""
        return not self._encode

    @property
    def is_direct(self) -> bool:
        """Whether it keeps these states."""
        return not self._encode

    def submit(self, claim: Claim, expected: int, entries: Sequence[RecordWithStates], on_written: OnWritten) -> None:
        """Write *entries* after record number *expected*, all or none, at once: *on_written* is not called."""
        del on_written
        session = self._writable(claim, expected, [entry.record for entry in entries])
        session.stored.extend(entries)
        for entry in entries:
            session.note(entry.record, entry.after)
            self._adopt(entry.record)
        if self._keep is not None:
            self._note_order(session, len(entries))
            self._drop_oldest(self._keep)

    async def append(self, claim: Claim, expected: int, records: Sequence[Record]) -> int:
        """Write *records* after record number *expected*, all or none; return the number of the last one."""
        session = self._writable(claim, expected, records)
        session.stored.extend([_pack(record, session) for record in records] if self._encode else records)
        for record in records:
            session.note(record, None)
            self._adopt(record)
        return session.head

    async def read(self, session_id: str, after: int = 0, limit: int = 1000) -> tuple[Record, ...]:
        """Return up to *limit* records that follow number *after*, from the first one on that is kept."""
        session = self._sessions.get(session_id)
        return () if session is None else session.read(after, limit)

    async def record_of_seq(self, session_id: str, seq: int) -> int:
        """Return the number of the record after which the durable events that follow event *seq* begin."""
        session = self._sessions.get(session_id)
        return 0 if session is None else session.first - 1 + bisect_right(session.seqs, seq)

    async def answer(self, session_id: str, command: str) -> StoredAnswer | None:
        """Return the command and answer stored under a command id; `None` if the id was never used."""
        session = self._sessions.get(session_id)
        numbered = None if session is None or session.answers is None else session.answers.get(command)
        return None if numbered is None else numbered[1]

    async def sessions(
        self, wanted: SessionFilter = ALL_SESSIONS, after: StoredSession | None = None, limit: int = 1000
    ) -> tuple[StoredSession, ...]:
        """Return summaries of up to *limit* of the *wanted* sessions, sorted by `wanted.rank`; all are looked at."""
        summaries = (session.summary() for session in self._sessions.values() if session.head)
        least = None if after is None else wanted.rank(after)
        listed = (
            summary
            for summary in summaries
            if wanted.holds(summary) and (least is None or wanted.rank(summary) > least)
        )
        return tuple(nsmallest(limit, listed, wanted.rank))

    async def summary(self, session_id: str) -> StoredSession | None:
        """Return the summary of a session; `None` if it has no records."""
        session = self._sessions.get(session_id)
        return None if session is None or not session.head else session.summary()

    async def keep(self, claim: Claim, snapshot: Snapshot) -> None:
        """Store a snapshot of a session in place of the previous one."""
        session = self._claimed(claim)
        check_snapshot(claim, snapshot, session.head)
        session.snapshot = _pack(snapshot) if self._encode else snapshot

    async def latest(self, session_id: str, upto: int | None = None, limit: int = 1000) -> Latest:
        """Return a state of a session, and up to *limit* of the records that follow it, up to *upto*.

        Raise `BadRecord` if record *upto* is no longer kept.
        """
        session = self._sessions.get(session_id)
        return Latest(None, ()) if session is None else session.latest(upto, max(limit, 0))

    async def close(self) -> None:
        """No-op: a journal in memory holds no files or threads."""

    async def delete(self, session_id: str, holder: str, at: int) -> int:
        """Delete a session and its sub-agents; return how many there were. Their ids can be used again."""
        names = self._tree(session_id)
        for name in names:
            self._check_free(self._sessions[name], holder, at)
        return sum(self._drop(name) for name in names)

    async def redact(self, session_id: str, first: int, last: int, note: Redaction, holder: str) -> int:
        """Replace the texts of records *first* to *last* by a mark; return how many were replaced now."""
        session = self._sessions.get(session_id)
        if session is None:
            return 0
        self._check_free(session, holder, note.at)
        self._epochs += 1
        session.epoch = self._epochs
        return session.redact(first, last, note, encode=self._encode)

    def _note_order(self, session: _SessionRecords, count: int) -> None:
        """Note that *count* records were submitted of *session*."""
        self._live[session.born] = session
        self._order.extend([session.born] * count)
        session.submitted += count
        self._kept += count

    def _drop_oldest(self, keep: int) -> None:
        """Drop the oldest records until *keep* are left, many of a long list at once: its rest moves each time."""
        counts: dict[_SessionRecords, int] = {}
        if self._kept > keep + keep // SHARE:
            while self._kept > keep:
                session = self._live.get(self._order.popleft())
                if session is not None:
                    counts[session] = counts.get(session, 0) + 1
                    self._kept -= 1
        for session, count in counts.items():
            session.drop_oldest(count)
            session.submitted -= count
        if len(self._order) > 2 * keep + 64:  # most are of sessions that were deleted
            self._order = deque(born for born in self._order if born in self._live)

    def _tree(self, session_id: str) -> list[str]:
        """Return the ids of a session and of its sub-agents, at any depth."""
        names = [session_id] if session_id in self._sessions else []
        for name in names:
            names += self._children.get(name, ())
        return names

    def _drop(self, session_id: str) -> bool:
        """Delete one session; return whether it had records. Earlier claims of it are refused."""
        session = self._sessions.pop(session_id, None)
        siblings = None if session is None or session.parent is None else self._children.get(session.parent)
        if siblings is not None:
            siblings.pop(session_id, None)
        self._children.pop(session_id, None)
        if session is None:
            return False
        if self._live.pop(session.born, None) is not None:
            self._kept -= session.submitted
        return session.head > 0

    def _check_free(self, session: _SessionRecords, holder: str, at: int, take_over: bool | str = False) -> None:
        """Raise `SessionHeld` if another holder than *holder* holds the session at time *at*."""
        if session.is_held:
            holding = Holding(session.holder, self._leases.get(session.holder, 0))
            check_free(session.session_id, holding, holder, at, take_over)

    def _writable(self, claim: Claim, expected: int, records: Sequence[Record]) -> _SessionRecords:
        """Return the session of *claim*; raise `Fenced` or `BadRecord` if *records* must not be written to it."""
        session = self._claimed(claim)
        if expected != session.head:
            raise Fenced(claim.session_id, session.epoch)
        check_numbers(claim, expected, records)
        return session

    def _adopt(self, record: Record) -> None:
        """Note whose sub-agent the session is, if *record* is its first one."""
        parent = None if record.opening is None else parent_of(record)
        if parent is not None:
            self._sessions[record.session_id].parent = parent
            self._children.setdefault(parent, {})[record.session_id] = None

    def _claimed(self, claim: Claim) -> _SessionRecords:
        session = self._sessions.get(claim.session_id)
        if session is None or claim.epoch != session.epoch:
            raise Fenced(claim.session_id, 0 if session is None else session.epoch)
        return session


class ForgettingJournal(MemoryJournal):
    """The journal of a supervisor that was given none: it keeps a session only until it has ended."""

    def forget(self, session_id: str) -> None:
        """Delete one session, which has ended and left its supervisor; no-op if it is not stored."""
        self._drop(session_id)


def _opened(record: Record, after: State) -> Record:
    """Return what is read in place of *record* and those before it: its opening is the state *after* them."""
    return record.but(
        rulings=(), events=(), effects=(), change=NO_CHANGE, began=None, command=None, answer=None, opening=after
    )


def _pack(value: Record | Snapshot, session: _SessionRecords | None = None) -> PackedRecord:
    from agentrail.adapters.journals.message_index import MessageReferences  # noqa: PLC0415 - see the next line
    from agentrail.adapters.journals.packing import pack  # noqa: PLC0415 - costs 20 ms that most sessions need not pay

    if session is not None and session.references is None:
        session.references = MessageReferences()
    return pack(value, None if session is None else session.references)


def _load_snapshot(stored: Snapshot | PackedRecord) -> Snapshot:
    if isinstance(stored, Snapshot):
        return stored
    from agentrail.adapters.journals.packing import unpack_snapshot  # noqa: PLC0415 - see `_pack`

    return unpack_snapshot(stored)

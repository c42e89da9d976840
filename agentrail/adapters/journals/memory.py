"""The journal in memory: for tests, and for sessions that need not survive their process."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Sequence
from functools import partial
from heapq import nsmallest
from typing import TYPE_CHECKING

from agentrail.errors import Fenced
from agentrail.ports.journal import (
    ALL_SESSIONS,
    NO_LEASE,
    About,
    Claim,
    Holding,
    Latest,
    Lease,
    Record,
    Redaction,
    SessionFilter,
    Snapshot,
    StoredAnswer,
    StoredSession,
    check_free,
    check_numbers,
    last_seq,
)
from agentrail.ports.session_summary import about_after, parent_of, stored_session
from agentrail.ports.snapshots import check_snapshot
from agentrail.reprs import in_brackets, some
from agentrail.values.spelling import checked

if TYPE_CHECKING:
    from agentrail.adapters.journals.message_places import MessagePlaces
    from agentrail.adapters.journals.packing import Packed
    from agentrail.values.messages import Message


UNSAID = About()
"""What is said of a session before its first record."""

UNHELD = Holding("", 0)
"""What is noted of a session that nobody holds."""


class _Shelf:
    """All data that is stored of one session."""

    __slots__ = ("about", "commands", "epoch", "held", "parent", "places", "records", "seqs", "session_id", "snapshot")

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.about = UNSAID
        self.epoch = 0
        self.held = UNHELD
        self.parent: str | None = None
        self.records: list[Record | Packed] = []
        self.seqs: array[int] = array("q")  # an array is one object for the garbage collector, a list of numbers many
        self.commands: dict[str, int] = {}
        self.snapshot: Snapshot | Packed | None = None
        self.places: MessagePlaces | None = None

    def read(self, after: int, limit: int) -> tuple[Record, ...]:
        """Return up to *limit* records that follow number *after*."""
        return tuple(_loaded(self, number + 1) for number in range(len(self.records))[after : after + limit])


class MemoryJournal:
    """Stores records in memory; with *encode*, as the bytes that a file would hold, to test that they can be stored.

    With *encode*, a record is written and read in the event loop: megabytes in one, such as images, hold all sessions
    up for that long. It is for tests; a program that has such records uses `SqliteJournal`, which works in a thread.
    """

    @checked
    def __init__(self, *, encode: bool = False) -> None:
        self._encode = encode
        self._shelves: dict[str, _Shelf] = {}
        self._children: dict[str, dict[str, None]] = {}
        self._epochs = 0

    @in_brackets
    def __repr__(self) -> str:
        return some(len(self._shelves), "session") or "empty"

    async def claim(self, session_id: str, holder: str, lease: Lease = NO_LEASE, *, take_over: bool = False) -> Claim:
        """Make the caller the only writer of a session; raise `SessionHeld` if another holder has a lease of it."""
        shelf = self._shelves.setdefault(session_id, _Shelf(session_id))
        if not take_over:
            check_free(session_id, shelf.held, holder, lease.at)
        self._epochs += 1  # one counter for all sessions: a deleted id that is used again gets a new epoch too
        shelf.epoch = self._epochs
        shelf.held = Holding(holder, lease.until)
        return Claim(session_id, shelf.epoch, len(shelf.records))

    async def renew(self, claims: Sequence[Claim], lease: Lease) -> tuple[Claim, ...]:
        """Let the leases of *claims* last as *lease* says; return the claims that are lost."""
        lost: list[Claim] = []
        for claim in claims:
            shelf = self._shelves.get(claim.session_id)
            if shelf is None or shelf.epoch != claim.epoch:
                lost.append(claim)
            else:
                shelf.held = Holding(shelf.held.holder, lease.until)
        return tuple(lost)

    async def release(self, claims: Sequence[Claim]) -> None:
        """End the leases of *claims*, so that other holders may claim their sessions."""
        for claim in claims:
            shelf = self._shelves.get(claim.session_id)
            if shelf is not None and shelf.epoch == claim.epoch:
                shelf.held = Holding(shelf.held.holder, 0)

    async def append(self, claim: Claim, expected: int, records: Sequence[Record]) -> int:
        """Write *records* after record number *expected*, all or none; return the number of the last one."""
        shelf = self._claimed(claim)
        if expected != len(shelf.records):
            raise Fenced(claim.session_id, shelf.epoch)
        check_numbers(claim, expected, records)
        kept = [_packed(record, shelf) for record in records] if self._encode else records
        for record in records:
            shelf.about = about_after(record, shelf.about)
            shelf.seqs.append(last_seq(record, shelf.seqs[-1] if shelf.seqs else 0))
            if record.command is not None:
                shelf.commands[record.command] = record.number
        shelf.records.extend(kept)
        parent = parent_of(records[0]) if records else None
        if parent is not None:
            shelf.parent = parent
            self._children.setdefault(parent, {})[claim.session_id] = None
        return len(shelf.records)

    async def read(self, session_id: str, after: int = 0, limit: int = 1000) -> tuple[Record, ...]:
        """Return up to *limit* records that follow number *after*."""
        shelf = self._shelves.get(session_id)
        return () if shelf is None else shelf.read(after, limit)

    async def place(self, session_id: str, seq: int) -> int:
        """Return the number of the record after which the durable events that follow event *seq* begin."""
        shelf = self._shelves.get(session_id)
        return 0 if shelf is None else bisect_right(shelf.seqs, seq)

    async def answer(self, session_id: str, command: str) -> StoredAnswer | None:
        """Return the command and answer stored under a command id; `None` if the id was never used."""
        shelf = self._shelves.get(session_id)
        number = None if shelf is None else shelf.commands.get(command)
        if shelf is None or number is None:
            return None
        record = _loaded(shelf, number)
        return None if record.answer is None else StoredAnswer(record.arrival.input, record.answer)

    async def sessions(
        self, wanted: SessionFilter = ALL_SESSIONS, after: StoredSession | None = None, limit: int = 1000
    ) -> tuple[StoredSession, ...]:
        """Return summaries of up to *limit* of the *wanted* sessions, sorted by `wanted.rank`; all are looked at."""
        shelves = [shelf for shelf in self._shelves.values() if shelf.records]
        found = (stored_session(_loaded(shelf, len(shelf.records)), shelf.about) for shelf in shelves)
        least = None if after is None else wanted.rank(after)
        listed = (one for one in found if wanted.holds(one) and (least is None or wanted.rank(one) > least))
        return tuple(nsmallest(limit, listed, wanted.rank))

    async def keep(self, claim: Claim, snapshot: Snapshot) -> None:
        """Store a snapshot of a session in place of the previous one."""
        shelf = self._claimed(claim)
        check_snapshot(claim, snapshot, len(shelf.records))
        shelf.snapshot = _packed(snapshot) if self._encode else snapshot

    async def latest(self, session_id: str, upto: int | None = None, limit: int = 1000) -> Latest:
        """Return the snapshot of a session, and up to *limit* of the records that follow it, up to *upto*."""
        shelf = self._shelves.get(session_id)
        if shelf is None:
            return Latest(None, ())
        kept = None if shelf.snapshot is None else _loaded_snapshot(shelf.snapshot)
        snapshot = None if kept is None or (upto is not None and kept.number > upto) else kept
        after = 0 if snapshot is None else snapshot.number
        wanted = limit if upto is None else min(limit, upto - after)
        return Latest(snapshot, shelf.read(after, max(wanted, 0)))

    async def close(self) -> None:
        """No-op: a journal in memory holds no files or threads."""

    async def delete(self, session_id: str, holder: str, at: int) -> int:
        """Delete a session and its sub-agents; return how many there were. Their ids can be used again."""
        names = self._tree(session_id)
        for name in names:
            check_free(name, self._shelves[name].held, holder, at)
        return sum(self._drop(name) for name in names)

    async def redact(self, session_id: str, first: int, last: int, note: Redaction, holder: str) -> int:
        """Replace the texts of records *first* to *last* by a mark; return how many were replaced now."""
        from agentrail.adapters.journals.redacting import about_redacted, redacted  # noqa: PLC0415 - see `_packed`

        shelf = self._shelves.get(session_id)
        if shelf is None:
            return 0
        check_free(session_id, shelf.held, holder, note.at)
        self._epochs += 1
        shelf.epoch = self._epochs
        shelf.snapshot = None
        count = 0
        for place in range(max(first, 1) - 1, min(last, len(shelf.records))):
            record = _loaded(shelf, place + 1)
            count += record.redacted is None
            marked = redacted(record, note)
            shelf.about = about_redacted(shelf.about, (record,))
            shelf.records[place] = _packed(marked) if self._encode else marked
        return count

    def _tree(self, session_id: str) -> list[str]:
        """Return the ids of a session and of its sub-agents, at any depth."""
        names = [session_id] if session_id in self._shelves else []
        for name in names:
            names += self._children.get(name, ())
        return names

    def _drop(self, session_id: str) -> bool:
        """Delete one session; return whether it had records. Earlier claims of it are refused."""
        shelf = self._shelves.pop(session_id, None)
        siblings = None if shelf is None or shelf.parent is None else self._children.get(shelf.parent)
        if siblings is not None:
            siblings.pop(session_id, None)
        self._children.pop(session_id, None)
        return shelf is not None and bool(shelf.records)

    def _claimed(self, claim: Claim) -> _Shelf:
        shelf = self._shelves.get(claim.session_id)
        if shelf is None or claim.epoch != shelf.epoch:
            raise Fenced(claim.session_id, 0 if shelf is None else shelf.epoch)
        return shelf


class ForgettingJournal(MemoryJournal):
    """The journal of a supervisor that was given none: it keeps a session only until it has ended."""

    def forget(self, session_id: str) -> None:
        """Delete one session, which its supervisor has let go; no-op if it is not stored."""
        self._drop(session_id)


def _packed(value: Record | Snapshot, shelf: _Shelf | None = None) -> Packed:
    from agentrail.adapters.journals.message_places import MessagePlaces  # noqa: PLC0415 - see above
    from agentrail.adapters.journals.packing import pack  # noqa: PLC0415 - costs 20 ms that most sessions need not pay

    if shelf is not None and shelf.places is None:
        shelf.places = MessagePlaces()
    return pack(value, None if shelf is None else shelf.places)


def _loaded(shelf: _Shelf, number: int) -> Record:
    kept = shelf.records[number - 1]
    if isinstance(kept, Record):
        return kept
    from agentrail.adapters.journals.packing import unpack  # noqa: PLC0415 - see `_packed`

    return unpack(kept, shelf.session_id, number, partial(_messages, shelf))


def _messages(shelf: _Shelf, number: int) -> Sequence[Message]:
    """Return the messages in the change of a record, which another one refers to."""
    from agentrail.adapters.journals.message_places import messages_in  # noqa: PLC0415 - see `_packed`
    from agentrail.adapters.journals.packing import unpack_messages  # noqa: PLC0415 - see `_packed`

    kept = shelf.records[number - 1]
    return messages_in(kept.change) if isinstance(kept, Record) else unpack_messages(kept)


def _loaded_snapshot(kept: Snapshot | Packed) -> Snapshot:
    if isinstance(kept, Snapshot):
        return kept
    from agentrail.adapters.journals.packing import unpack_snapshot  # noqa: PLC0415 - see `_packed`

    return unpack_snapshot(kept)

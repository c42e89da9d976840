"""The journal in memory: for tests, and for sessions that need not survive their process."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Sequence
from heapq import nsmallest
from itertools import islice
from typing import TYPE_CHECKING, Final

from agentrail.adapters.journals.record_pages import Pages, compress_snapshot, decompress_snapshot
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
    about_after,
    check_free,
    check_numbers,
    check_snapshot,
    last_seq,
    parent_of,
    stored_session,
)
from agentrail.reprs import in_brackets, some
from agentrail.values.argument_checks import checked

if TYPE_CHECKING:
    from agentrail.adapters.journals.message_index import MessagePlaces
    from agentrail.adapters.journals.packing import PackedRecord
    from agentrail.values.messages import Message


UNSAID = About()
"""Title, labels and the like of a session before its first record."""

LOOSE: Final = 512
"""Records of all sessions that are kept as objects, and not in compressed pages: those read again soon are at hand."""

MOST_LOOSE: Final = 4096
"""The most such records (some 6 MB) while the event loop has no idle time; above it, each `append` pages some out."""

AT_ONCE: Final = 16
"""Records of one session that are paged out in one go; each takes some 25 µs."""

UNHELD = Holding("", 0)
"""Holder and lease of a session that nobody has claimed."""


class _Shelf:
    """All data that is stored of one session."""

    __slots__ = (
        "about",
        "commands",
        "epoch",
        "held",
        "last",
        "pages",
        "parent",
        "places",
        "seqs",
        "session_id",
        "snapshot",
    )

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.about = UNSAID
        self.epoch = 0
        self.held = UNHELD
        self.parent: str | None = None
        self.pages = Pages()
        self.last: StoredSession | None = None
        self.seqs: array[int] = array("q")  # an array is one object for the garbage collector, a list of numbers many
        self.commands: dict[str, int] | None = None
        self.snapshot: Snapshot | PackedRecord | bytes | None = None
        self.places: MessagePlaces | None = None

    def read(self, after: int, limit: int) -> tuple[Record, ...]:
        """Return up to *limit* records that follow number *after*."""
        stored_records = islice(self.pages.after(after), max(limit, 0))
        return tuple([self.whole(number, stored) for number, stored in enumerate(stored_records, after + 1)])

    def record(self, number: int) -> Record:
        """Return the record of this number."""
        return self.whole(number, next(self.pages.after(number - 1)))

    def whole(self, number: int, stored: Record | PackedRecord) -> Record:
        """Return the record of this number, which is *stored* in this form."""
        if isinstance(stored, Record):
            return stored
        from agentrail.adapters.journals.packing import unpack  # noqa: PLC0415 - see `_pack`

        return unpack(stored, self.session_id, number, self._messages)

    def _messages(self, number: int) -> Sequence[Message]:
        """Return the messages in the change of a record, which another one refers to."""
        from agentrail.adapters.journals.message_index import messages_in  # noqa: PLC0415 - see `_pack`
        from agentrail.adapters.journals.packing import unpack_messages  # noqa: PLC0415 - see `_pack`

        stored = next(self.pages.after(number - 1))
        return messages_in(stored.change) if isinstance(stored, Record) else unpack_messages(stored)

    def summary(self) -> StoredSession:
        """Return the summary of the session, made from its last record; it outlasts the record in its pages."""
        return self.last or stored_session(self.record(len(self.pages)), self.about)


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
        self._newest: dict[str, _Shelf] = {}  # the sessions with records in no page; the one written last comes last
        self._loose = 0  # how many records these are

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
        return Claim(session_id, shelf.epoch, len(shelf.pages))

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
        shelf = self._claimed_shelf(claim)
        if expected != len(shelf.pages):
            raise Fenced(claim.session_id, shelf.epoch)
        check_numbers(claim, expected, records)
        stored_records = [_pack(record, shelf) for record in records] if self._encode else records
        for record in records:
            shelf.about = about_after(record, shelf.about)
            shelf.seqs.append(last_seq(record, shelf.seqs[-1] if shelf.seqs else 0))
            if record.command is not None:
                if shelf.commands is None:
                    shelf.commands = {}
                shelf.commands[record.command] = record.number
        shelf.pages.newest.extend(stored_records)
        shelf.last = None
        if records and not self._encode:
            self._newest.pop(claim.session_id, None)
            self._newest[claim.session_id] = shelf
            self._loose += len(records)
            if self._loose > MOST_LOOSE:
                self.put_away()
        parent = parent_of(records[0]) if records else None
        if parent is not None:
            shelf.parent = parent
            self._children.setdefault(parent, {})[claim.session_id] = None
        return expected + len(records)

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
        number = None if shelf is None or shelf.commands is None else shelf.commands.get(command)
        if shelf is None or number is None:
            return None
        record = shelf.record(number)
        return None if record.answer is None else StoredAnswer(record.arrival.input, record.answer)

    async def sessions(
        self, wanted: SessionFilter = ALL_SESSIONS, after: StoredSession | None = None, limit: int = 1000
    ) -> tuple[StoredSession, ...]:
        """Return summaries of up to *limit* of the *wanted* sessions, sorted by `wanted.rank`; all are looked at."""
        summaries = (shelf.summary() for shelf in self._shelves.values() if shelf.pages)
        least = None if after is None else wanted.rank(after)
        listed = (
            summary
            for summary in summaries
            if wanted.holds(summary) and (least is None or wanted.rank(summary) > least)
        )
        return tuple(nsmallest(limit, listed, wanted.rank))

    async def keep(self, claim: Claim, snapshot: Snapshot) -> None:
        """Store a snapshot of a session in place of the previous one."""
        shelf = self._claimed_shelf(claim)
        check_snapshot(claim, snapshot, len(shelf.pages))
        shelf.snapshot = _pack(snapshot) if self._encode else compress_snapshot(snapshot)

    async def latest(self, session_id: str, upto: int | None = None, limit: int = 1000) -> Latest:
        """Return the snapshot of a session, and up to *limit* of the records that follow it, up to *upto*."""
        shelf = self._shelves.get(session_id)
        if shelf is None:
            return Latest(None, ())
        newest = None if shelf.snapshot is None else _load_snapshot(shelf.snapshot)
        snapshot = None if newest is None or (upto is not None and newest.number > upto) else newest
        after = 0 if snapshot is None else snapshot.number
        most = limit if upto is None else min(limit, upto - after)
        return Latest(snapshot, shelf.read(after, max(most, 0)))

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
        from agentrail.adapters.journals.redacting import about_redacted, kept_names, redacted  # noqa: PLC0415 - see `_pack`

        shelf = self._shelves.get(session_id)
        if shelf is None:
            return 0
        check_free(session_id, shelf.held, holder, note.at)
        self._epochs += 1
        shelf.epoch = self._epochs
        shelf.snapshot = None
        shelf.last = None
        if shelf.pages and not self._encode:
            self._take_out(shelf)
        records, count = shelf.pages.newest, 0
        names = kept_names(shelf.whole(number, stored) for number, stored in enumerate(shelf.pages.after(0), 1))
        for place in range(max(first, 1) - 1, min(last, len(records))):
            record = shelf.record(place + 1)
            count += record.redacted is None
            marked = redacted(record, note, names)
            shelf.about = about_redacted(shelf.about, (record,))
            records[place] = _pack(marked) if self._encode else marked
        return count

    @property
    def is_crowded(self) -> bool:
        """Whether more records are kept as they are than need be: `put_away` is to be called when there is time."""
        return self._loose > LOOSE

    def put_away(self) -> None:
        """Put the oldest records of the session that was written the longest ago into its pages, some at a time."""
        shelf = next(iter(self._newest.values()))
        if len(shelf.pages.newest) <= AT_ONCE:
            shelf.last = shelf.summary()
        self._loose -= shelf.pages.put_away(AT_ONCE)
        if not shelf.pages.newest:
            del self._newest[shelf.session_id]

    def _take_out(self, shelf: _Shelf) -> None:
        """Make all records of a session its newest ones."""
        self._loose += len(shelf.pages) - len(shelf.pages.newest)
        shelf.pages.take_out()
        self._newest[shelf.session_id] = shelf

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
        if self._newest.pop(session_id, None) is not None and shelf is not None:
            self._loose -= len(shelf.pages.newest)
        return shelf is not None and bool(shelf.pages)

    def _claimed_shelf(self, claim: Claim) -> _Shelf:
        shelf = self._shelves.get(claim.session_id)
        if shelf is None or claim.epoch != shelf.epoch:
            raise Fenced(claim.session_id, 0 if shelf is None else shelf.epoch)
        return shelf


class ForgettingJournal(MemoryJournal):
    """The journal of a supervisor that was given none: it keeps a session only until it has ended."""

    def forget(self, session_id: str) -> None:
        """Delete one session, which its supervisor has let go; no-op if it is not stored."""
        self._drop(session_id)


def _pack(value: Record | Snapshot, shelf: _Shelf | None = None) -> PackedRecord:
    from agentrail.adapters.journals.message_index import MessagePlaces  # noqa: PLC0415 - see the next line
    from agentrail.adapters.journals.packing import pack  # noqa: PLC0415 - costs 20 ms that most sessions need not pay

    if shelf is not None and shelf.places is None:
        shelf.places = MessagePlaces()
    return pack(value, None if shelf is None else shelf.places)


def _load_snapshot(stored: Snapshot | PackedRecord | bytes) -> Snapshot:
    if isinstance(stored, Snapshot):
        return stored
    if isinstance(stored, bytes):
        return decompress_snapshot(stored)
    from agentrail.adapters.journals.packing import unpack_snapshot  # noqa: PLC0415 - see `_pack`

    return unpack_snapshot(stored)

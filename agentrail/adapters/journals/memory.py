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


NO_ABOUT = About()
"""Title, labels and the like of a session before its first record."""

MAX_IDLE_UNPAGED: Final = 512
"""Records of all sessions that are kept as objects, and not in compressed pages: those read again soon are at hand."""

MAX_UNPAGED: Final = 4096
"""The most such records (some 6 MB) while the event loop has no idle time; above it, each `append` pages some out."""

PAGED_AT_ONCE: Final = 16
"""Records of one session that are paged out in one go; each takes some 25 µs."""


class _SessionRecords:
    """All data that is stored of one session; `pages` has its records, the newest ones as objects."""

    __slots__ = (
        "about",
        "commands",
        "epoch",
        "holder",
        "is_held",
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
        self.about = NO_ABOUT
        self.epoch = 0
        self.holder = ""
        self.is_held = False
        self.parent: str | None = None
        self.pages = Pages()
        self.last: StoredSession | None = None
        # an array is one object for the garbage collector, a list of numbers is many objects
        self.seqs: array[int] = array("q")
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
        """Return *stored*, the record *number*, as a `Record`; a packed record is unpacked."""
        if isinstance(stored, Record):
            return stored
        from agentrail.adapters.journals.packing import unpack  # noqa: PLC0415 - see `_pack`

        return unpack(stored, self.session_id, number, self._messages)

    def _messages(self, number: int) -> Sequence[Message]:
        """Return the messages in the change of record *number*, to which a later record refers."""
        from agentrail.adapters.journals.message_index import messages_in  # noqa: PLC0415 - see `_pack`
        from agentrail.adapters.journals.packing import unpack_messages  # noqa: PLC0415 - see `_pack`

        stored = next(self.pages.after(number - 1))
        return messages_in(stored.change) if isinstance(stored, Record) else unpack_messages(stored)

    def summary(self) -> StoredSession:
        """Return the summary of the session: the cached one if its last record is in a page, else from that record."""
        return self.last or stored_session(self.record(len(self.pages)), self.about)


class MemoryJournal:
    """Stores records in memory; with *encode*, as the bytes that a file would hold, to test that they can be stored.

    With *encode*, a record is written and read in the event loop: megabytes in one, such as images, hold all sessions
    up for that long. It is for tests; a program that has such records uses `SqliteJournal`, which works in a thread.
    """

    @checked
    def __init__(self, *, encode: bool = False) -> None:
        self._encode = encode
        self._sessions: dict[str, _SessionRecords] = {}
        self._children: dict[str, dict[str, None]] = {}
        self._epochs = 0
        self._leases: dict[str, int] = {}  # by holder: when its lease ends
        self._newest: dict[str, _SessionRecords] = {}  # sessions with records in no page, by their last write
        self._unpaged = 0  # how many records of all sessions are in no page

    @in_brackets
    def __repr__(self) -> str:
        return some(len(self._sessions), "session") or "empty"

    async def claim(
        self, session_id: str, holder: str, lease: Lease = NO_LEASE, *, take_over: bool | str = False
    ) -> Claim:
        """Make the caller the only writer of a session; raise `SessionHeld` if another holder has a lease of it."""
        session = self._sessions.setdefault(session_id, _SessionRecords(session_id))
        self._check_free(session, holder, lease.at, take_over)
        self._epochs += 1  # one counter for all sessions: a deleted id that is used again gets a new epoch too
        session.epoch = self._epochs
        session.holder, session.is_held = holder, lease.lasts > 0
        if session.is_held:
            if holder not in self._leases:
                self._leases = {other: until for other, until in self._leases.items() if until > lease.at}
            self._leases[holder] = max(self._leases.get(holder, 0), lease.until)
        return Claim(session_id, session.epoch, len(session.pages))

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

    async def append(self, claim: Claim, expected: int, records: Sequence[Record]) -> int:
        """Write *records* after record number *expected*, all or none; return the number of the last one."""
        session = self._claimed(claim)
        if expected != len(session.pages):
            raise Fenced(claim.session_id, session.epoch)
        check_numbers(claim, expected, records)
        stored_records = [_pack(record, session) for record in records] if self._encode else records
        for record in records:
            session.about = about_after(record, session.about)
            session.seqs.append(last_seq(record, session.seqs[-1] if session.seqs else 0))
            if record.command is not None:
                if session.commands is None:
                    session.commands = {}
                session.commands[record.command] = record.number
        session.pages.newest.extend(stored_records)
        session.last = None
        if records and not self._encode:
            self._newest.pop(claim.session_id, None)
            self._newest[claim.session_id] = session
            self._unpaged += len(records)
            if self._unpaged > MAX_UNPAGED:
                self.page_out()
        parent = parent_of(records[0]) if records else None
        if parent is not None:
            session.parent = parent
            self._children.setdefault(parent, {})[claim.session_id] = None
        return expected + len(records)

    async def read(self, session_id: str, after: int = 0, limit: int = 1000) -> tuple[Record, ...]:
        """Return up to *limit* records that follow number *after*."""
        session = self._sessions.get(session_id)
        return () if session is None else session.read(after, limit)

    async def record_of_seq(self, session_id: str, seq: int) -> int:
        """Return the number of the record after which the durable events that follow event *seq* begin."""
        session = self._sessions.get(session_id)
        return 0 if session is None else bisect_right(session.seqs, seq)

    async def answer(self, session_id: str, command: str) -> StoredAnswer | None:
        """Return the command and answer stored under a command id; `None` if the id was never used."""
        session = self._sessions.get(session_id)
        number = None if session is None or session.commands is None else session.commands.get(command)
        if session is None or number is None:
            return None
        record = session.record(number)
        return None if record.answer is None else StoredAnswer(record.arrival.input, record.answer)

    async def sessions(
        self, wanted: SessionFilter = ALL_SESSIONS, after: StoredSession | None = None, limit: int = 1000
    ) -> tuple[StoredSession, ...]:
        """Return summaries of up to *limit* of the *wanted* sessions, sorted by `wanted.rank`; all are looked at."""
        summaries = (session.summary() for session in self._sessions.values() if session.pages)
        least = None if after is None else wanted.rank(after)
        listed = (
            summary
            for summary in summaries
            if wanted.holds(summary) and (least is None or wanted.rank(summary) > least)
        )
        return tuple(nsmallest(limit, listed, wanted.rank))

    async def keep(self, claim: Claim, snapshot: Snapshot) -> None:
        """Store a snapshot of a session in place of the previous one."""
        session = self._claimed(claim)
        check_snapshot(claim, snapshot, len(session.pages))
        session.snapshot = _pack(snapshot) if self._encode else compress_snapshot(snapshot)

    async def latest(self, session_id: str, upto: int | None = None, limit: int = 1000) -> Latest:
        """Return the snapshot of a session, and up to *limit* of the records that follow it, up to *upto*."""
        session = self._sessions.get(session_id)
        if session is None:
            return Latest(None, ())
        newest = None if session.snapshot is None else _load_snapshot(session.snapshot)
        snapshot = None if newest is None or (upto is not None and newest.number > upto) else newest
        after = 0 if snapshot is None else snapshot.number
        most = limit if upto is None else min(limit, upto - after)
        return Latest(snapshot, session.read(after, max(most, 0)))

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
        from agentrail.adapters.journals.redacting import about_redacted, kept_names, redacted  # noqa: PLC0415 - see `_pack`

        session = self._sessions.get(session_id)
        if session is None:
            return 0
        self._check_free(session, holder, note.at)
        self._epochs += 1
        session.epoch = self._epochs
        session.snapshot = None
        session.last = None
        if session.pages and not self._encode:
            self._unpage_all(session)
        records, count = session.pages.newest, 0
        names = kept_names(session.whole(number, stored) for number, stored in enumerate(session.pages.after(0), 1))
        for place in range(max(first, 1) - 1, min(last, len(records))):
            record = session.record(place + 1)
            count += record.redacted is None
            marked = redacted(record, note, names)
            session.about = about_redacted(session.about, (record,))
            records[place] = _pack(marked) if self._encode else marked
        return count

    @property
    def should_page_out(self) -> bool:
        """Whether records should be paged out, by `page_out`, when nothing else is to be done."""
        return self._unpaged > MAX_IDLE_UNPAGED

    def page_out(self) -> None:
        """Page out some of the oldest records of the session that was written the longest ago."""
        session = next(iter(self._newest.values()))
        if len(session.pages.newest) <= PAGED_AT_ONCE:
            session.last = session.summary()
        self._unpaged -= session.pages.page_out(PAGED_AT_ONCE)
        if not session.pages.newest:
            del self._newest[session.session_id]

    def _unpage_all(self, session: _SessionRecords) -> None:
        """Take all records of a session out of their pages, to change some of them."""
        self._unpaged += len(session.pages) - len(session.pages.newest)
        session.pages.unpage_all()
        self._newest[session.session_id] = session

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
        if self._newest.pop(session_id, None) is not None and session is not None:
            self._unpaged -= len(session.pages.newest)
        return session is not None and bool(session.pages)

    def _check_free(self, session: _SessionRecords, holder: str, at: int, take_over: bool | str = False) -> None:
        """Raise `SessionHeld` if another holder than *holder* holds the session at time *at*."""
        if session.is_held:
            holding = Holding(session.holder, self._leases.get(session.holder, 0))
            check_free(session.session_id, holding, holder, at, take_over)

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


def _pack(value: Record | Snapshot, session: _SessionRecords | None = None) -> PackedRecord:
    from agentrail.adapters.journals.message_index import MessagePlaces  # noqa: PLC0415 - see the next line
    from agentrail.adapters.journals.packing import pack  # noqa: PLC0415 - costs 20 ms that most sessions need not pay

    if session is not None and session.places is None:
        session.places = MessagePlaces()
    return pack(value, None if session is None else session.places)


def _load_snapshot(stored: Snapshot | PackedRecord | bytes) -> Snapshot:
    if isinstance(stored, Snapshot):
        return stored
    if isinstance(stored, bytes):
        return decompress_snapshot(stored)
    from agentrail.adapters.journals.packing import unpack_snapshot  # noqa: PLC0415 - see `_pack`

    return unpack_snapshot(stored)

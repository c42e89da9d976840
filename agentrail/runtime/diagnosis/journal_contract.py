"""Checks what a journal returns against the port's contract before a session relies on it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final, TypeVar, cast, get_args

from agentrail.core.vocabulary.changes import Change
from agentrail.core.vocabulary.commands import Answer
from agentrail.core.vocabulary.inputs import AnyInput, Arrival
from agentrail.core.vocabulary.state import State
from agentrail.errors import BadJournal, BadRecord, BadValue
from agentrail.hooks.ruling import Ruling
from agentrail.ports.journal import (
    ALL_SESSIONS,
    NO_LEASE,
    About,
    Claim,
    Journal,
    Latest,
    Lease,
    Record,
    Redaction,
    SessionFilter,
    Snapshot,
    StoredAnswer,
    StoredSession,
)
from agentrail.values.events.envelope import Envelope, Event
from agentrail.values.json import INT_MAX
from agentrail.values.stream import Partial
from agentrail.values.untrusted_values import brief, error_text, number

T = TypeVar("T")

INPUTS: Final = frozenset(get_args(AnyInput))
ANSWERS: Final = frozenset(get_args(Answer))
OURS: Final = "agentrail."
"""Package whose journals are trusted."""

log = logging.getLogger("agentrail.journal")


def held_to_contract(journal: Journal) -> Journal:
    """Return *journal*, wrapped in `CheckedJournal` unless it is one of agentrail's own.

    Those return only values that were checked when they were written or read from the file. To check each again would
    take a third of the calls with which a session comes back.
    """
    return journal if type(journal).__module__.startswith(OURS) else CheckedJournal(journal)


class CheckedJournal:
    """Wraps a journal; raises a `JournalError` if an answer is not what the port promises."""

    __slots__ = ("_journal",)

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    async def claim(
        self, session_id: str, holder: str, lease: Lease = NO_LEASE, *, take_over: bool | str = False
    ) -> Claim:
        """Become the only writer of a session; raise `SessionHeld` if another holder has a lease of it."""
        claimed: object = await self._journal.claim(session_id, holder, lease, take_over=take_over)
        claim = _of(Claim, "claim", claimed)
        if not _is(claim.session_id, session_id):
            raise BadJournal("claim", f"a claim to {brief(claim.session_id)}", f"one to `{session_id}`")
        return Claim(session_id, _whole("claim", claim.epoch), _whole("claim", claim.head))

    async def renew(self, claims: Sequence[Claim], lease: Lease) -> tuple[Claim, ...]:
        """Renew the leases of *claims*; return the claims that are lost, as they were given."""
        claims_by_id = {claim.session_id: claim for claim in claims}
        lost: list[Claim] = []
        for item in _items("renew", await self._journal.renew(claims, lease)):
            renewed = _of(Claim, "renew", item)
            own = claims_by_id.get(renewed.session_id) if _text(renewed.session_id) else None
            if own is None or not _is(renewed.epoch, own.epoch):
                raise BadJournal("renew", brief(item), "one of the claims that it was given")
            lost.append(own)
        return tuple(lost)

    async def release(self, claims: Sequence[Claim]) -> None:
        """End the leases of *claims*."""
        await self._journal.release(claims)

    async def append(self, claim: Claim, expected: int, records: Sequence[Record]) -> int:
        """Write *records* and return the new head, computed here: the journal's own number is not trusted."""
        head = expected + len(records)
        returned: object = await self._journal.append(claim, expected, records)
        if not _is(returned, head):
            log.error("the journal returned head %s when record %d was written", brief(returned), head)
        return head

    async def read(self, session_id: str, after: int = 0, limit: int = 1000) -> tuple[Record, ...]:
        """Return the records after number *after*."""
        return self._sound("read", session_id, after, await self._journal.read(session_id, after, limit))

    def _sound(self, method: str, session_id: str, after: int, values: object) -> tuple[Record, ...]:
        """Return the records that *method* gave, if they are the session's next ones after number *after*; or raise."""
        records = tuple(_items(method, values))
        for number_, record in enumerate(records, after + 1):
            if type(record) is not Record:
                raise BadRecord(session_id, number_, f"the journal gave {brief(record)} for it")
            if not _is(record.number, number_) or not _is(record.session_id, session_id):
                values = f"the journal gave record {brief(record.number)} of session {brief(record.session_id)}"
                raise BadRecord(session_id, number_, values)
        whole = cast("tuple[Record, ...]", records)
        _check_insides(session_id, whole)
        for record in whole:
            problem = _why_unfit(record.change, record.opening)
            if problem:
                raise BadRecord(session_id, record.number, problem)
        return whole

    async def record_of_seq(self, session_id: str, seq: int) -> int:
        """Return the number of the record after which to read to get the events after *seq*."""
        return _whole("record_of_seq", await self._journal.record_of_seq(session_id, seq))

    async def answer(self, session_id: str, command: str) -> StoredAnswer | None:
        """Return the stored answer to a command id, `None` if it is not known."""
        value: object = await self._journal.answer(session_id, command)
        if value is None:
            return None
        stored = _of(StoredAnswer, "answer", value)
        is_one = type(stored.input) in INPUTS and type(stored.answer) in ANSWERS
        if not is_one or _why_unfit(stored.input, stored.answer):
            raise BadJournal("answer", f"{brief(stored.answer)} to {brief(stored.input)}", "an answer to a command")
        return stored

    async def sessions(
        self, wanted: SessionFilter = ALL_SESSIONS, after: StoredSession | None = None, limit: int = 1000
    ) -> tuple[StoredSession, ...]:
        """Return the *wanted* sessions, in the order that `wanted.rank` says."""
        stored: list[StoredSession] = []
        for item in _items("sessions", await self._journal.sessions(wanted, after, limit)):
            session = _of(StoredSession, "sessions", item)
            if type(cast("object", session.session_id)) is not str:
                raise BadJournal("sessions", brief(session.session_id), "the id of a session")
            _of(About, "sessions", session.about)
            _whole("sessions", session.head)
            _whole("sessions", session.active)
            if session.due is not None:
                _whole("sessions", session.due)
            last = stored[-1] if stored else after
            if last is not None and wanted.rank(session) <= wanted.rank(last):
                order = f"{brief(session.session_id)} after `{last.session_id}`"
                raise BadJournal("sessions", order, "a session that comes later")
            stored.append(session)
        return tuple(stored)

    async def keep(self, claim: Claim, snapshot: Snapshot) -> None:
        """Store a snapshot."""
        await self._journal.keep(claim, snapshot)

    async def latest(self, session_id: str, upto: int | None = None, limit: int = 1000) -> Latest:
        """Return the snapshot of a session and the records after it.

        If the snapshot is invalid, which is only a cache, the session's first records are returned.
        """
        latest = _of(Latest, "latest", await self._journal.latest(session_id, upto, limit))
        value: object = latest.snapshot
        snapshot = self._sound_snapshot(session_id, value)
        if snapshot is None and value is not None:
            count = limit if upto is None else min(limit, upto)
            return Latest(None, await self.read(session_id, 0, count))
        after = 0 if snapshot is None else snapshot.number
        return Latest(snapshot, self._sound("latest", session_id, after, latest.records))

    def _sound_snapshot(self, session_id: str, value: object) -> Snapshot | None:
        """Return the snapshot that the journal gave; `None` if it is invalid or of another session."""
        if value is None:
            return None
        match value:
            case Snapshot(session_id=named, number=place, state=State(session_id=inner), since=since):
                fits = _is(named, session_id) and _is(inner, session_id) and _time(place) and place > 0
                fits = fits and (since is None or (_time(since) and since <= place))
                if fits and not _why_unfit(value.state):
                    return value
            case _:
                pass
        log.error("session %s: the journal gave %s for its snapshot; its records are read", session_id, brief(value))
        return None

    async def delete(self, session_id: str, holder: str, at: int) -> int:
        """Delete a session and its sub-agents; return how many sessions that were."""
        return _whole("delete", await self._journal.delete(session_id, holder, at))

    async def redact(self, session_id: str, first: int, last: int, note: Redaction, holder: str) -> int:
        """Replace the texts of records by a mark; return how many records were redacted."""
        return _whole("redact", await self._journal.redact(session_id, first, last, note, holder))

    async def close(self) -> None:
        """Release files, threads and connections."""
        await self._journal.close()


def _check_insides(session_id: str, records: Sequence[Record]) -> None:
    """Raise `BadRecord` if one of *records* has a field of a wrong type, or foreign events, or events out of order."""
    seq: int | None = None
    for record in records:
        for name, holds in FIELDS:
            value: object = getattr(record, name)
            if not holds(value):
                raise BadRecord(session_id, record.number, f"the journal gave {brief(value)} for its `{name}`")
        if record.opening is not None and not _is(record.opening.session_id, session_id):
            raise BadRecord(session_id, record.number, "the journal gave the beginning of another session for it")
        for envelope in record.events:
            if not _is(envelope.session_id, session_id) or not (seq is None or envelope.seq == seq + 1):
                value = f"event {envelope.seq} of session {brief(envelope.session_id)}, where {(seq or 0) + 1} follows"
                raise BadRecord(session_id, record.number, f"the journal gave {value}")
            seq = envelope.seq


def _arrival(value: object) -> bool:
    """Whether *value* is a valid arrival."""
    if type(value) is not Arrival or type(value.input) not in INPUTS or type(value.partial) is not Partial:
        return False
    chance = number(value.random)
    return _time(value.at) and chance is not None and 0 <= chance <= 1


def _time(value: object) -> bool:
    """Whether *value* is a whole number that a time or a position may have."""
    return type(value) is int and 0 <= value <= INT_MAX


def _text(value: object) -> bool:
    """Whether *value* is a text or `None`."""
    return value is None or type(value) is str


def _event(value: object) -> bool:
    """Whether *value* is the envelope of a durable event with valid numbers."""
    if type(value) is not Envelope or not _is(value.n, 0):
        return False
    kind: type = type(value.event)
    if not issubclass(kind, Event):
        return False
    return all(map(_time, (value.seq, value.at, value.turn, value.round)))


def _each(holds: Callable[[object], bool]) -> Callable[[object], bool]:
    """Return a check that a value is a tuple of items that all pass the check *holds*."""
    return lambda value: type(value) is tuple and all(map(holds, cast("tuple[object, ...]", value)))


FIELDS: Final[tuple[tuple[str, Callable[[object], bool]], ...]] = (
    ("arrival", _arrival),
    ("rulings", _each(lambda ruling: type(ruling) is Ruling)),
    ("events", _each(_event)),
    ("effects", _each(lambda name: type(name) is str)),
    ("change", lambda change: type(change) is Change),
    ("began", _text),
    ("command", _text),
    ("answer", lambda answer: answer is None or type(answer) in ANSWERS),
    ("opening", lambda state: state is None or type(state) is State),
    ("due", lambda at_ms: at_ms is None or _time(at_ms)),
    ("at_work", lambda is_at_work: type(is_at_work) is bool),
    ("redacted", lambda note: note is None or type(note) is Redaction),
)
"""Check of each field of a record, but its number and session; deeper errors are found when its change is folded."""


def _why_unfit(*values: object) -> str:
    """Return why *values* cannot be encoded as the types of their fields promise; empty if they can.

    Values that a journal returns become part of the state, which no step checks again.
    """
    from agentrail.codec.values import write  # noqa: PLC0415 - seldom needed: for command ids and for journals of other authors

    try:
        for value in values:
            if value is not None:
                write(value)
    except BadValue as error:
        return str(error)
    except BaseException as error:  # noqa: BLE001, ASYNC103 - whatever the methods of a foreign value raise
        return f"a part of it breaks when it is written: {error_text(error)}"  # noqa: ASYNC104 - nothing is awaited
    return ""


def _is(value: object, expected: object) -> bool:
    """Whether *value* equals *expected* and is of the same class, so that no foreign `__eq__` runs."""
    return type(value) is type(expected) and value == expected


def _of(kind: type[T], method: str, value: object) -> T:
    """Return *value* if it is exactly of class *kind*; raise `BadJournal` otherwise."""
    if type(value) is not kind:
        raise BadJournal(method, brief(value), f"a `{kind.__name__}`")
    return value


def _items(method: str, value: object) -> Sequence[object]:
    """Return *value* if it is a tuple or list; raise `BadJournal` otherwise."""
    if type(value) not in (tuple, list):
        raise BadJournal(method, brief(value), "a tuple")
    return cast("Sequence[object]", value)


def _whole(method: str, value: object) -> int:
    """Return *value* if it is a whole number from 0 on; raise `BadJournal` otherwise."""
    plain = number(value)
    if type(plain) is not int or not 0 <= plain <= INT_MAX:
        raise BadJournal(method, brief(value), "a whole number from 0 on")
    return plain

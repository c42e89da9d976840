"""Checks what a journal of another author returns, before a session relies on it.

Five things are checked, each of which ends as damage of a session if nobody looks: that a value is what the port says,
down to its last field; that a claim, a record and a snapshot are of the session that was asked for; that records and
their events follow each other; that a snapshot lies where it says; and that sessions are listed in order.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final, TypeGuard, TypeVar, cast

from agentrail.errors import BadJournal, BadRecord, BadValue
from agentrail.ports.journal import (
    ALL_SESSIONS,
    NO_LEASE,
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
from agentrail.ports.money import Balance, Expense, MoneyJournal
from agentrail.ports.protocol_members import has_members
from agentrail.values.json import INT_MAX
from agentrail.values.untrusted_values import brief, error_text

T = TypeVar("T")

OURS: Final = "agentrail."
"""Package whose journals are trusted."""

log = logging.getLogger("agentrail.journal")


def held_to_contract(journal: Journal) -> Journal:
    """Return *journal*, wrapped in `CheckedJournal` unless it is one of agentrail's own.

    Those return only values that were checked when they were written or read from the file. To check each again would
    take a third of the calls with which a session comes back.
    """
    if type(journal).__module__.startswith(OURS):
        return journal
    return CheckedMoneyJournal(journal, journal) if has_members(journal, MoneyJournal) else CheckedJournal(journal)


class CheckedJournal:
    """Wraps a journal; raises a `JournalError` if an answer is not what the port promises."""

    __slots__ = ("_journal",)

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    async def claim(
        self, session_id: str, holder: str, lease: Lease = NO_LEASE, *, take_over: bool | str = False
    ) -> Claim:
        """Become the only writer of a session; raise `SessionHeld` if another holder has a lease of it."""
        claim = _of(Claim, "claim", await self._journal.claim(session_id, holder, lease, take_over=take_over))
        if claim.session_id != session_id:
            raise BadJournal("claim", f"a claim to {brief(claim.session_id)}", f"one to `{session_id}`")
        return claim

    async def renew(self, claims: Sequence[Claim], lease: Lease) -> tuple[Claim, ...]:
        """Renew the leases of *claims*; return the claims that are lost, as they were given."""
        lost = {
            (claim.session_id, claim.epoch)
            for claim in _all_are(Claim, "renew", await self._journal.renew(claims, lease))
        }
        return tuple(claim for claim in claims if (claim.session_id, claim.epoch) in lost)

    async def release(self, claims: Sequence[Claim]) -> None:
        """End the leases of *claims*."""
        await self._journal.release(claims)

    async def append(self, claim: Claim, expected: int, records: Sequence[Record]) -> int:
        """Write *records* and return the new head, computed here: the journal's own number is not trusted."""
        head = expected + len(records)
        returned: object = await self._journal.append(claim, expected, records)
        if type(returned) is not int or returned != head:
            log.error("the journal returned head %s when record %d was written", brief(returned), head)
        return head

    async def read(self, session_id: str, after: int = 0, limit: int = 1000) -> tuple[Record, ...]:
        """Return the records after number *after*."""
        return _records("read", session_id, after, await self._journal.read(session_id, after, limit))

    async def record_of_seq(self, session_id: str, seq: int) -> int:
        """Return the number of the record after which to read to get the events after *seq*."""
        return _whole("record_of_seq", await self._journal.record_of_seq(session_id, seq))

    async def answer(self, session_id: str, command: str) -> StoredAnswer | None:
        """Return the stored answer to a command id, `None` if it is not known."""
        stored: object = await self._journal.answer(session_id, command)
        return None if stored is None else _of(StoredAnswer, "answer", stored)

    async def sessions(
        self, wanted: SessionFilter = ALL_SESSIONS, after: StoredSession | None = None, limit: int = 1000
    ) -> tuple[StoredSession, ...]:
        """Return the *wanted* sessions, in the order that `wanted.rank` says."""
        last = after
        sessions = _all_are(StoredSession, "sessions", await self._journal.sessions(wanted, after, limit))
        for session in sessions:
            if last is not None and wanted.rank(session) <= wanted.rank(last):
                order = f"{brief(session.session_id)} after `{last.session_id}`"
                raise BadJournal("sessions", order, "a session that comes later")
            last = session
        return sessions

    async def summary(self, session_id: str) -> StoredSession | None:
        """Return the summary of a session, `None` if it is not stored."""
        returned: object = await self._journal.summary(session_id)
        if returned is None:
            return None
        summary = _of(StoredSession, "summary", returned)
        if summary.session_id != session_id:
            raise BadJournal("summary", f"that of {brief(summary.session_id)}", f"that of `{session_id}`")
        return summary

    async def keep(self, claim: Claim, snapshot: Snapshot) -> None:
        """Store a snapshot."""
        await self._journal.keep(claim, snapshot)

    async def latest(self, session_id: str, upto: int | None = None, limit: int = 1000) -> Latest:
        """Return the snapshot of a session and the records after it.

        If the snapshot is invalid, which is only a cache, the session's first records are returned.
        """
        latest: object = await self._journal.latest(session_id, upto, limit)
        if type(latest) is not Latest:
            raise BadJournal("latest", brief(latest), "a `Latest`")
        snapshot: object = latest.snapshot
        if snapshot is None:
            return Latest(None, _records("latest", session_id, 0, latest.records))
        if _is_snapshot(snapshot, session_id):
            return Latest(snapshot, _records("latest", session_id, snapshot.number, latest.records))
        problem = "session %s: the journal gave %s for its snapshot; its records are read"
        log.error(problem, session_id, brief(snapshot))
        return Latest(None, await self.read(session_id, 0, limit if upto is None else min(limit, upto)))

    async def delete(self, session_id: str, holder: str, at: int) -> int:
        """Delete a session and its sub-agents; return how many sessions that were."""
        return _whole("delete", await self._journal.delete(session_id, holder, at))

    async def redact(self, session_id: str, first: int, last: int, note: Redaction, holder: str) -> int:
        """Replace the texts of records by a mark; return how many records were redacted."""
        return _whole("redact", await self._journal.redact(session_id, first, last, note, holder))

    async def close(self) -> None:
        """Release files, threads and connections."""
        await self._journal.close()


class CheckedMoneyJournal(CheckedJournal):
    """Wraps a journal that keeps money too."""

    __slots__ = ("_money",)

    def __init__(self, journal: Journal, money: MoneyJournal) -> None:
        super().__init__(journal)
        self._money = money

    async def reserve_money(self, expense: Expense, limit: int) -> Balance:
        """Reserve *expense* if that keeps its day within *limit*."""
        return _of(Balance, "reserve_money", await self._money.reserve_money(expense, limit))

    async def settle_money(self, costs: Sequence[tuple[Expense, int]]) -> None:
        """Count what requests have cost in place of their most."""
        await self._money.settle_money(costs)


def _records(method: str, session_id: str, after: int, values: object) -> tuple[Record, ...]:
    """Return the records that *method* gave, if they are the session's next ones after number *after*; or raise."""
    records: list[Record] = []
    seq: int | None = None
    for number, record in enumerate(_items(method, values), after + 1):
        problem = f"the journal gave {brief(record)} for it" if type(record) is not Record else _why_unfit(record)
        if problem:
            raise BadRecord(session_id, number, problem)
        record = cast("Record", record)
        opening = session_id if record.opening is None else record.opening.session_id
        if (record.number, record.session_id, opening) != (number, session_id, session_id):
            value = f"record {record.number} of session `{record.session_id}`, which begins as `{opening}`"
            raise BadRecord(session_id, number, f"the journal gave {value}")
        for envelope in record.events:
            if envelope.session_id != session_id or not (seq is None or envelope.seq == seq + 1):
                value = f"event {envelope.seq} of session {brief(envelope.session_id)}, where {(seq or 0) + 1} follows"
                raise BadRecord(session_id, number, f"the journal gave {value}")
            seq = envelope.seq
        records.append(record)
    return tuple(records)


def _is_snapshot(value: object, session_id: str) -> TypeGuard[Snapshot]:
    """Whether *value* is a snapshot of the session, of a record that there can be."""
    if type(value) is not Snapshot or _why_unfit(value):
        return False
    since = 0 if value.since is None else value.since
    return value.session_id == value.state.session_id == session_id and 0 <= since <= value.number > 0


def _why_unfit(value: object) -> str:
    """Return why *value* cannot be encoded as the types of its fields promise; empty if it can.

    Values that a journal returns become part of the state, which no step checks again.
    """
    from agentrail.codec.values import write  # noqa: PLC0415 - only journals of other authors need it

    try:
        write(value)
    except BadValue as error:
        return str(error)
    except BaseException as error:  # noqa: BLE001, ASYNC103 - whatever the methods of a foreign value raise
        return f"a part of it breaks when it is written: {error_text(error)}"  # noqa: ASYNC104 - nothing is awaited
    return ""


def _of(kind: type[T], method: str, value: object) -> T:
    """Return *value* if it is exactly of class *kind*, with fields of their types; raise `BadJournal` otherwise."""
    if type(value) is not kind or _why_unfit(value):
        raise BadJournal(method, brief(value), f"a `{kind.__name__}`")
    return value


def _items(method: str, value: object) -> Sequence[object]:
    """Return *value* if it is a tuple or list; raise `BadJournal` otherwise."""
    if type(value) not in (tuple, list):
        raise BadJournal(method, brief(value), "a tuple")
    return cast("Sequence[object]", value)


def _all_are(kind: type[T], method: str, value: object) -> tuple[T, ...]:
    """Return the items of *value*, if all are of class *kind*; raise `BadJournal` otherwise."""
    return tuple(_of(kind, method, item) for item in _items(method, value))


def _whole(method: str, value: object) -> int:
    """Return *value* if it is a whole number from 0 on; raise `BadJournal` otherwise."""
    if type(value) is not int or not 0 <= value <= INT_MAX:
        raise BadJournal(method, brief(value), "a whole number from 0 on")
    return value

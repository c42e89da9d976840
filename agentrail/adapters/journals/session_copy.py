"""`SessionCopier`: copies sessions of a journal or export file into another one, and compares what was written.

Records are only added. What the target has of a session is compared with the source, and the rest is appended; so a
copy that was cut is repeated, and goes on. The source is only read: a session that runs there is copied up to the
record that it had when its turn came.
"""

from __future__ import annotations

import platform
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Protocol

import trio

from agentrail.adapters.journals.archive_writer import CannotAddError
from agentrail.errors import AgentrailError, BadId, BadRecord, Fenced, SessionBeingDeleted, SessionHeld
from agentrail.ports.journal import Claim, Lease, Record, StoredSession
from agentrail.values.value import Value

PAGE: Final = 100
"""The most records that are copied at once."""

LISTED: Final = 500
"""The most sessions that are listed at once."""

LASTS: Final = 10 * 60 * 1000
"""Milliseconds for which a session is kept from supervisors of the target, unless its copy is done before."""

GONE: Final = "it was deleted while it was copied"
GREW: Final = "it went on while it was copied; what follows record {} is not copied"
CLAIMED: Final = "somebody else has written to it there meanwhile"
DAMAGED: Final = "record {} cannot be read: {}"
DAMAGED_THERE: Final = "record {} is there, but cannot be read: {}"
DIFFERS: Final = "record {} is there, and is another one; nothing of the session was changed"
REDACTED: Final = "record {} was redacted, and is there with its texts; redact the session there too"
REDACTED_THERE: Final = "record {} was redacted there, and stays so"
NOT_READ_BACK: Final = "record {} was written, but is another one when it is read"


class SessionSource(Protocol):
    """What is read of a journal that is copied."""

    async def sessions(self, *, after: StoredSession | None = None, limit: int = 1000) -> tuple[StoredSession, ...]:
        """Return summaries of up to *limit* sessions, sorted by id; see `Journal.sessions`."""
        ...

    async def read(self, session_id: str, after: int = 0, limit: int = 1000) -> tuple[Record, ...]:
        """Return up to *limit* records that follow number *after*; see `Journal.read`."""
        ...


class SessionTarget(Protocol):
    """What is needed of a journal that sessions are copied to; the methods are those of `Journal`."""

    async def read(self, session_id: str, after: int = 0, limit: int = 1000) -> tuple[Record, ...]:
        """Return up to *limit* records that follow number *after*."""
        ...

    async def claim(self, session_id: str, holder: str, lease: Lease = ...) -> Claim:
        """Make the caller the only writer of a session."""
        ...

    async def append(self, claim: Claim, expected: int, records: Sequence[Record]) -> int:
        """Write *records* after record number *expected*, all or none."""
        ...

    async def release(self, claims: Sequence[Claim]) -> None:
        """End the leases of *claims*."""
        ...


class SessionTotals(Value):
    """How much a journal has."""

    sessions: int = 0
    """Number of sessions."""
    records: int = 0
    """Number of their records."""


async def totals_of(source: SessionSource) -> SessionTotals:
    """Return how many sessions and records *source* has, by its summaries."""
    sessions = records = 0
    last: StoredSession | None = None
    while page := await source.sessions(after=last, limit=LISTED):
        last, sessions = page[-1], sessions + len(page)
        records += sum(stored.head for stored in page)
    return SessionTotals(sessions, records)


class CopiedSession(Value):
    """What has become of one session."""

    session_id: str
    """Id of the session."""
    records: int
    """How many of its records are at the target, and are the same."""
    new: int
    """How many of these were written now."""
    problem: str
    """Why not all of its records could be copied, or what is damaged at the source; empty if all is well."""


class CopyReport:
    """Counts what is copied; a subclass shows it."""

    def __init__(self) -> None:
        self.sessions = 0
        """Sessions that are done, whole or not."""
        self.whole = 0
        """Sessions without a problem."""
        self.records = 0
        """Records that are at the target, and are the same."""
        self.new = 0
        """How many of these were written now."""

    def add_records(self, count: int, *, are_new: bool) -> None:
        """Count records that were compared, and before that written if they *are_new*."""
        self.records += count
        self.new += count if are_new else 0

    def end_session(self, copied: CopiedSession) -> None:
        """Count a session that is done."""
        self.sessions += 1
        self.whole += not copied.problem


class SessionCopier:
    """Copies sessions from *source* to *target*; *now_ms* says for when they are claimed there.

    They are claimed by the same name for each copy on this machine, so that one may go on at once where one was killed.
    """

    def __init__(
        self,
        source: SessionSource,
        target: SessionTarget,
        now_ms: Callable[[], int],
        report: CopyReport,
    ) -> None:
        self.source = source
        self.target = target
        self.holder = f"agentrail journal copy at {platform.node()}"
        self.now_ms = now_ms
        self.report = report

    async def copy_all(self, at_once: int) -> None:
        """Copy all sessions, *at_once* at a time: a journal commits the records of several together."""
        last: StoredSession | None = None
        while page := await self.source.sessions(after=last, limit=LISTED):
            await self._copy_page(deque(page), at_once)
            last = page[-1]

    async def copy(self, session_id: str, head: int | None = None) -> CopiedSession:
        """Copy one session, up to its record number *head*; `None`: up to the last one."""
        copy, problem = _SessionCopy(self, session_id, head), ""
        try:
            await copy.run()
        except (_SessionFailure, CannotAddError, BadId, Fenced, SessionHeld, SessionBeingDeleted) as failure:
            problem = str(failure)
        await copy.release()
        return CopiedSession(session_id, copy.number, copy.new, problem)

    async def _copy_page(self, sessions: deque[StoredSession], at_once: int) -> None:
        errors: list[AgentrailError | OSError] = []
        try:
            async with trio.open_nursery() as nursery:  # noqa: TID251 - its tasks end when the sessions are copied
                for _ in range(at_once):
                    nursery.start_soon(self._work, sessions, errors)
        except BaseExceptionGroup as group:
            if group.subgroup(KeyboardInterrupt) is not None:
                raise KeyboardInterrupt from None
            raise
        if errors:
            raise errors[0]

    async def _work(self, sessions: deque[StoredSession], errors: list[AgentrailError | OSError]) -> None:
        """Copy one of *sessions* after the other until none is left, or a journal fails."""
        while sessions and not errors:
            stored = sessions.popleft()
            try:
                copied = await self.copy(stored.session_id, stored.head)
                self.report.end_session(copied.but(problem=copied.problem or stored.problem))
            except (AgentrailError, OSError) as error:
                errors.append(error)


class _SessionFailure(Exception):  # noqa: N818 - it is told as a problem, not raised to a caller
    """A session cannot be copied further; the others can."""


class _SessionCopy:
    """The copy of one session, from its first record on."""

    def __init__(self, copier: SessionCopier, session_id: str, head: int | None) -> None:
        self._copier = copier
        self._session_id = session_id
        self._head = head
        self._claim: Claim | None = None
        self.number = 0
        """Number of the last record that is the same at both."""
        self.new = 0
        """How many records were written."""

    async def run(self) -> None:
        """Compare what the target has, and append the rest; raise `_SessionFailure` if that cannot be done."""
        while self._head is None or self.number < self._head:
            records = await self._read_source(PAGE if self._head is None else min(PAGE, self._head - self.number))
            if not records:
                break
            if self._claim is None:
                target_records = await self._read_target(len(records))
                _check_same(records, target_records, DIFFERS)
                self._count(len(target_records), are_new=False)
                records = records[len(target_records) :]
            if records:
                await self._append(records)
        if self._head is not None and self.number < self._head:
            raise _SessionFailure(GONE)
        if await self._read_source(1):
            raise _SessionFailure(GREW.format(self.number))

    async def release(self) -> None:
        """Let others claim the session at the target."""
        if self._claim is not None:
            await self._copier.target.release((self._claim,))

    async def _append(self, records: Sequence[Record]) -> None:
        """Append *records* at the target, read them back, and compare."""
        copier = self._copier
        if self._claim is None:
            self._claim = await copier.target.claim(self._session_id, copier.holder, Lease(copier.now_ms(), LASTS))
            if self._claim.head != self.number:
                raise _SessionFailure(CLAIMED)
        await copier.target.append(self._claim, self.number, records)
        copies = await self._read_target(len(records))
        _check_same(records, copies, NOT_READ_BACK)
        if len(copies) < len(records):
            raise _SessionFailure(NOT_READ_BACK.format(self.number + len(copies) + 1))
        self._count(len(records), are_new=True)

    def _count(self, count: int, *, are_new: bool) -> None:
        self.number += count
        self.new += count if are_new else 0
        self._copier.report.add_records(count, are_new=are_new)

    async def _read_source(self, count: int) -> Sequence[Record]:
        """Return up to *count* records that follow at the source, or some of those before a damaged one."""
        while True:
            try:
                return await self._copier.source.read(self._session_id, self.number, count)
            except BadRecord as damage:
                if count == 1:
                    raise _SessionFailure(DAMAGED.format(self.number + 1, damage.problem)) from damage
                count //= 2

    async def _read_target(self, count: int) -> Sequence[Record]:
        try:
            return await self._copier.target.read(self._session_id, self.number, count)
        except BadRecord as damage:
            raise _SessionFailure(DAMAGED_THERE.format(damage.number or self.number + 1, damage.problem)) from damage


def _check_same(records: Sequence[Record], copies: Sequence[Record], otherwise: str) -> None:
    """Raise `_SessionFailure` with the text *otherwise* if one of *copies* is not the record that it should be."""
    for record, copied in zip(records, copies, strict=False):
        if copied == record:
            continue
        if record.redacted is not None and copied.redacted is None:
            otherwise = REDACTED
        elif copied.redacted is not None and record.redacted is None:
            otherwise = REDACTED_THERE
        raise _SessionFailure(otherwise.format(record.number))

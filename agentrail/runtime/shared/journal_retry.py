"""Calls to the journal with retries: which errors are outages, and how to wait until the journal works again."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, TypeVar, cast

import trio

from agentrail.errors import (
    AgentrailError,
    BadRecord,
    BrokenJournal,
    CommitUnknown,
    Fenced,
    JournalFailed,
    JournalUnavailable,
    SessionHeld,
)
from agentrail.ports.journal import (
    ALL_SESSIONS,
    NO_LEASE,
    Claim,
    Journal,
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
    SubmitJournal,
    Withdraw,
    submits,
)
from agentrail.ports.money import Balance, Expense, MoneyJournal
from agentrail.ports.protocol_members import has_members
from agentrail.reprs import in_brackets
from agentrail.runtime.shared.clock import Clock
from agentrail.runtime.shared.untrusted_calls import split
from agentrail.values.untrusted_values import described, leaves

log = logging.getLogger("agentrail.journal")

T = TypeVar("T")

FIRST_PAUSE: Final = 0.1
"""Seconds before the first retry; doubled before each further one."""

MAX_PAUSE: Final = 5.0
"""Longest pause between two attempts, in seconds."""

LOG_EVERY: Final = 60.0
"""Least seconds between two log lines about outages of one journal."""

FAILING: Final = 30.0
"""Seconds for which a journal counts as failing after a failure, if no session writes to it."""

MEANWHILE: Final = "sessions wait and go on by themselves when it is back; until then, calls to them are refused"
"""What the log says of an outage, beside what was found: the advice in the error is for callers."""

WRITE: Final = "write a record of session `{}`"
"""What an append attempts, for errors."""

FINAL: Final = (CommitUnknown, Fenced, BadRecord, SessionHeld)
"""Errors that are never retried and are raised as they are; in a group, the first in this order counts."""

FROM_OUTSIDE: Final = (OSError, EOFError, MemoryError)
"""Built-in exceptions caused by the machine (disk, network); other built-in ones are bugs in the journal."""


def meaning(error: BaseException, attempt: str) -> Exception:
    """Return the library's error for *error* of a journal, raised while it tried to do *attempt*.

    An exception class from a third party (a driver, a client) counts as an outage, like `OSError`. Built-in classes
    such as `KeyError`, and those derived from them, count as bugs in the journal's code.
    """
    parts = tuple(leaves(error))
    for kind in FINAL:
        for leaf in parts:
            if isinstance(leaf, kind):
                return leaf
    ours = next((leaf for leaf in parts if isinstance(leaf, AgentrailError)), None)
    if ours is not None and all(isinstance(leaf, JournalUnavailable) or _is_outage(leaf) for leaf in parts):
        return ours
    if isinstance(error, AgentrailError):
        return error
    if all(map(_is_outage, parts)):
        return JournalFailed(attempt, described(error))
    return BrokenJournal(attempt, described(error))


def _is_outage(error: BaseException) -> bool:
    """Whether *error*, which is not one of the library's own, is an outage and not a bug in the journal's code."""
    if isinstance(error, AgentrailError):
        return False
    pythons_own = next(kind for kind in type(error).__mro__ if kind.__module__ == "builtins")
    return pythons_own is Exception or issubclass(pythons_own, FROM_OUTSIDE)


async def patiently(
    call: Callable[[], Awaitable[T]],
    *,
    waits: Callable[[JournalUnavailable], None] | None = None,
    attempts: int | None = None,
    failed: JournalUnavailable | None = None,
) -> T:
    """Call *call* until it succeeds and return its result; before each pause, *waits* is called with the error.

    With *attempts*, raise `JournalUnavailable` after so many; *failed* is the error of a first attempt already made.
    """
    pause = FIRST_PAUSE
    tries = 0
    while True:
        if failed is None:
            try:
                return await call()
            except JournalUnavailable as error:
                failed = error
        tries += 1
        if tries == attempts:
            raise failed
        if waits is not None:
            waits(failed)
        failed = None
        await trio.sleep(pause)
        pause = min(2 * pause, MAX_PAUSE)


class SteadyJournal:
    """Wraps a journal: translates its exceptions to the library's errors, and logs outages."""

    __slots__ = (
        "_clock",
        "_failed_at",
        "_journal",
        "_logged_at",
        "_unlogged",
        "commits",
        "failures",
        "is_direct",
        "submits",
        "when_committed",
    )

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._clock = clock
        self._journal = journal
        self.submits = submits(journal)
        self.is_direct = submits(journal) and journal.is_direct
        self._logged_at: float | None = None
        self._unlogged = 0
        self.commits = self.failures = 0
        self.when_committed: Callable[[float], None] | None = None  # called with the seconds of each commit
        self._failed_at: float | None = None  # time of the last failure; `None` after a successful write

    @in_brackets
    def __repr__(self) -> str:
        return f"over {self._journal!r}"

    @property
    def is_failing(self) -> bool:
        """Whether a call failed within the last `FAILING` seconds, and nothing was written since."""
        return self._failed_at is not None and self._clock.now() < self._failed_at + FAILING

    async def claim(
        self, session_id: str, holder: str, lease: Lease = NO_LEASE, *, take_over: bool | str = False
    ) -> Claim:
        """Become the only writer of a session; raise `SessionHeld` if another holder has a lease of it."""
        try:
            return await self._journal.claim(session_id, holder, lease, take_over=take_over)
        except BaseException as error:
            self._pass_on(error, "claim session `{}`", session_id)
            raise

    async def renew(self, claims: Sequence[Claim], lease: Lease) -> tuple[Claim, ...]:
        """Renew the leases of *claims*; return the claims that are lost."""
        try:
            return await self._journal.renew(claims, lease)
        except BaseException as error:
            self._pass_on(error, "renew leases of sessions")
            raise

    async def release(self, claims: Sequence[Claim]) -> None:
        """End the leases of *claims*."""
        try:
            await self._journal.release(claims)
        except BaseException as error:
            self._pass_on(error, "release sessions")
            raise

    async def append(self, claim: Claim, expected: int, records: Sequence[Record]) -> int:
        """Write *records* after record *expected* and return the new head."""
        began = 0.0 if self.when_committed is None else self._clock.now()
        try:
            head = await self._journal.append(claim, expected, records)
        except BaseException as error:
            self._pass_on(error, WRITE, claim.session_id)
            raise
        self._note_commit(began)
        return head

    def submit(
        self, claim: Claim, expected: int, entries: Sequence[RecordWithStates], on_written: OnWritten
    ) -> Withdraw | None:
        """Give *entries* to a journal that `submits`; `None` if they are written, else *on_written* is called later."""
        began = 0.0 if self.when_committed is None else self._clock.now()
        report = partial(self._on_written, claim.session_id, began, on_written)
        try:
            withdraw = cast("SubmitJournal", self._journal).submit(claim, expected, entries, report)
        except BaseException as error:
            self._pass_on(error, WRITE, claim.session_id)
            raise
        if withdraw is None:
            self._note_commit(began)
        return withdraw

    def _on_written(
        self, session_id: str, began: float, on_written: OnWritten, result: tuple[Record, ...] | Exception
    ) -> None:
        """Pass on how a submission has ended."""
        try:
            if isinstance(result, Exception):
                result = self._failure(result, WRITE.format(session_id))
            else:
                self._note_commit(began)
        except Exception as crash:  # noqa: BLE001 - of a clock or a log; raised where the session goes on
            result = crash
        on_written(result)

    def _note_commit(self, began: float) -> None:
        """Count a commit; *began* is when it began, if anybody wants to know."""
        self.commits += 1
        if self.when_committed is not None:
            self.when_committed(max(0.0, self._clock.now() - began))
        self._failed_at = None

    async def read(self, session_id: str, after: int = 0, limit: int = 1000) -> tuple[Record, ...]:
        """Return up to *limit* records after number *after*."""
        try:
            return await self._journal.read(session_id, after, limit)
        except BaseException as error:
            self._pass_on(error, "read records of session `{}`", session_id)
            raise

    async def record_of_seq(self, session_id: str, seq: int) -> int:
        """Return the number of the record after which to read to get the events after event *seq*."""
        try:
            return await self._journal.record_of_seq(session_id, seq)
        except BaseException as error:
            self._pass_on(error, "find an event of session `{}`", session_id)
            raise

    async def answer(self, session_id: str, command: str) -> StoredAnswer | None:
        """Return the stored answer to a command id, `None` if it is not known."""
        try:
            return await self._journal.answer(session_id, command)
        except BaseException as error:
            self._pass_on(error, "look up a command id of session `{}`", session_id)
            raise

    async def sessions(
        self, wanted: SessionFilter = ALL_SESSIONS, after: StoredSession | None = None, limit: int = 1000
    ) -> tuple[StoredSession, ...]:
        """Return up to *limit* stored sessions after the id *after*, in the order of their ids."""
        try:
            return await self._journal.sessions(wanted, after, limit)
        except BaseException as error:
            self._pass_on(error, "list its sessions")
            raise

    async def summary(self, session_id: str) -> StoredSession | None:
        """Return the summary of a session, `None` if it is not stored."""
        try:
            return await self._journal.summary(session_id)
        except BaseException as error:
            self._pass_on(error, "look up session `{}`", session_id)
            raise

    async def keep(self, claim: Claim, snapshot: Snapshot) -> None:
        """Store a snapshot in place of the previous one."""
        try:
            await self._journal.keep(claim, snapshot)
        except BaseException as error:
            self._pass_on(error, "keep a snapshot of session `{}`", claim.session_id)
            raise

    async def latest(self, session_id: str, upto: int | None = None, limit: int = 1000) -> Latest:
        """Return the snapshot of a session and the records after it."""
        try:
            return await self._journal.latest(session_id, upto, limit)
        except BaseException as error:
            self._pass_on(error, "read session `{}`", session_id)
            raise

    async def delete(self, session_id: str, holder: str, at: int) -> int:
        """Delete a session and its sub-agents; return how many sessions that were."""
        try:
            return await self._journal.delete(session_id, holder, at)
        except BaseException as error:
            self._pass_on(error, "delete session `{}`", session_id)
            raise

    async def redact(self, session_id: str, first: int, last: int, note: Redaction, holder: str) -> int:
        """Replace the texts of records by a mark; return how many records were redacted."""
        try:
            return await self._journal.redact(session_id, first, last, note, holder)
        except BaseException as error:
            self._pass_on(error, "redact session `{}`", session_id)
            raise

    @property
    def keeps_money(self) -> bool:
        """Whether the journal keeps what tenants spend."""
        return has_members(self._journal, MoneyJournal)

    async def reserve_money(self, expense: Expense, limit: int) -> Balance:
        """Reserve *expense* in a journal that `keeps_money`, if that keeps its day within *limit*."""
        try:
            return await cast("MoneyJournal", self._journal).reserve_money(expense, limit)
        except BaseException as error:
            self._pass_on(error, "reserve money for session `{}`", expense.session_id)
            raise

    async def settle_money(self, costs: Sequence[tuple[Expense, int]]) -> None:
        """Count what requests have cost in place of their most."""
        try:
            await cast("MoneyJournal", self._journal).settle_money(costs)
        except BaseException as error:
            self._pass_on(error, "write what requests have cost")
            raise

    async def close(self) -> None:
        """Close the journal: release its files, threads and connections."""
        try:
            await self._journal.close()
        except BaseException as error:
            self._pass_on(error, "be closed")
            raise

    def _pass_on(self, error: BaseException, attempt: str, about: str = "") -> None:
        """Raise the translation of *error* (see `meaning`); return if *error* needs none."""
        passing, crash = split(error)
        if crash is None:
            return
        if passing is not None:
            raise passing from None
        failure = self._failure(crash, attempt.format(about))
        if failure is not error:
            raise failure from error

    def _failure(self, error: BaseException, attempt: str) -> Exception:
        """Return the translation of *error* (see `meaning`), and note an outage."""
        failure = meaning(error, attempt)
        if isinstance(failure, JournalUnavailable):
            self._failed(failure)
        return failure

    def _failed(self, error: JournalUnavailable) -> None:
        """Log an outage: the first failure, then at most one line per `LOG_EVERY` seconds."""
        self.failures += 1
        self._failed_at = now = self._clock.now()
        if self._logged_at is not None and now < self._logged_at + LOG_EVERY:
            self._unlogged += 1
            return
        more = f" ({self._unlogged} more failures since the line before)" if self._unlogged else ""
        log.error("%s%s; %s", error.found, more, MEANWHILE)
        self._logged_at, self._unlogged = now, 0

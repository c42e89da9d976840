"""What the shell needs of a journal: what changed a session, in order, durable before it is visible.

A journal takes values; how it writes them is its own affair, large payloads included. What several sessions append at
the same time it may commit together. Nothing here is bound to one process: a claim is an epoch, and whoever claims last
is the only one who can write.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from agentrail.core.vocabulary.commands import Answer
from agentrail.core.vocabulary.inputs import AnyInput, Arrival
from agentrail.core.vocabulary.state import State
from agentrail.errors import BadRecord
from agentrail.hooks.ruling import Ruling
from agentrail.values.events.envelope import Envelope
from agentrail.values.events.life import SessionEnded
from agentrail.values.value import Value, value

MACHINE_VERSION = 1
"""Which rules the steps of a record followed; raised by any change of `step` that alters an outcome."""


@value
class Record(Value):
    """One step of one session: everything that belongs together, written together."""

    session_id: str
    """Whose step."""
    number: int
    """Which one, from 1, without a hole."""
    arrival: Arrival
    """What happened, when, and the chance that came with it."""
    rulings: tuple[Ruling, ...] = ()
    """What plugins and validators decided."""
    events: tuple[Envelope, ...] = ()
    """The durable events, as they were published."""
    timers: tuple[tuple[str, int], ...] = ()
    """The timers that are set behind it."""
    began: str | None = None
    """The request whose first chunk came just before, if one did: that alone is not worth a record."""
    command: str | None = None
    """The id of the call that this answers."""
    answer: Answer | None = None
    """The answer."""
    opening: State | None = None
    """In the first record: what the session was spawned as, its specification as data."""
    at_work: bool = False
    """Whether something is under way behind it that a recovery has to settle: a request, a call, a hook's question."""
    version: int = MACHINE_VERSION
    """Which rules the step followed."""


@value
class Claim(Value):
    """The right to write one session's records."""

    session_id: str
    """Whose records."""
    epoch: int
    """Raised at each claim; a writer with an old one is refused."""
    head: int
    """The number of the last record."""


@value
class StoredAnswer(Value):
    """What a command id was used for, and what was answered."""

    input: AnyInput
    """The command."""
    answer: Answer
    """The answer."""


@value
class StoredSession(Value):
    """What a journal tells of a session without reading it."""

    session_id: str
    """Which session."""
    head: int
    """The number of its last record."""
    due: int | None = None
    """When the first of its timers fires."""
    at_work: bool = False
    """Whether something was under way behind its last record."""
    ended: bool = False
    """Whether it has ended."""
    problem: str = ""
    """Why it cannot be read, as far as a look at its outside tells."""


@value
class Snapshot(Value):
    """A session behind one of its records: a cache, so that fewer steps are done again."""

    session_id: str
    """Whose state."""
    number: int
    """Behind which record."""
    state: State
    """What the records up to there lead to."""
    version: int = MACHINE_VERSION
    """Which rules it was made by."""


def stored_session(record: Record) -> StoredSession:
    """Return what a journal tells of a session whose last record is *record*."""
    due = min(at for _, at in record.timers) if record.timers else None
    ended = bool(record.events) and isinstance(record.events[-1].event, SessionEnded)  # nothing comes behind that
    return StoredSession(record.session_id, record.number, due, record.at_work, ended)


def last_seq(record: Record, before: int) -> int:
    """Return the number of the last durable event up to *record*; *before* is that of the record before."""
    return record.events[-1].seq if record.events else before


def check_numbers(claim: Claim, expected: int, records: Sequence[Record]) -> None:
    """Raise `BadRecord` if *records* are not those that follow record *expected* of the claimed session."""
    for number, record in enumerate(records, expected + 1):
        if record.number != number or record.session_id != claim.session_id:
            found = f"it says that it is record {record.number} of session `{record.session_id}`"
            raise BadRecord(claim.session_id, number, found)


def check_snapshot(claim: Claim, snapshot: Snapshot, head: int) -> None:
    """Raise `BadRecord` if *snapshot* is not of the claimed session, or of a record that it does not have."""
    if snapshot.session_id != claim.session_id or not 0 < snapshot.number <= head:
        found = f"there is no such one, so session `{snapshot.session_id}` has no snapshot behind it"
        raise BadRecord(claim.session_id, snapshot.number, found)


def is_usable(snapshot: Snapshot, head: int) -> bool:
    """Whether *snapshot* can be used for a session whose last record is *head*."""
    return snapshot.version == MACHINE_VERSION and snapshot.number <= head


class Journal(Protocol):
    """Keeps records; returns from `append` only after the commit.

    A call that is cancelled has not written anything. One whose records are being written already cannot be cancelled
    any more: it returns what became of them.
    """

    async def claim(self, session_id: str, owner: str) -> Claim:
        """Become the only writer of a session; whoever was it before is refused from now on."""
        ...

    async def append(self, claim: Claim, expected: int, records: Sequence[Record]) -> int:
        """Write *records* behind record *expected*, all or none, and return the new head.

        Raises `Fenced` if somebody else has claimed the session since, `JournalFull` if nothing was written and it may
        be tried again, another `JournalUnavailable` if it may have been, so that the records are read before that, and
        `CommitUnknown` if what is in the journal cannot be known until another process opens it.
        """
        ...

    async def read(self, session_id: str, after: int = 0, limit: int = 1000) -> tuple[Record, ...]:
        """Return up to *limit* records behind number *after*; raise `BadRecord` if one of them is damaged or lost."""
        ...

    async def place(self, session_id: str, seq: int) -> int:
        """Return the number of the record behind which the events after durable event *seq* are to be read."""
        ...

    async def answer(self, session_id: str, command: str) -> StoredAnswer | None:
        """Return what was answered to a command id; `None` if it was never used.

        It is kept as long as the records of the session: an old id that is taken for a new one is carried out twice.
        """
        ...

    async def sessions(self, after: str = "", limit: int = 1000) -> tuple[StoredSession, ...]:
        """Return up to *limit* stored sessions behind the id *after*, in the order of their ids."""
        ...

    async def keep(self, claim: Claim, snapshot: Snapshot) -> None:
        """Keep a snapshot instead of the one before; raises what `append` raises, and may be forgotten at any time."""
        ...

    async def snapshot(self, session_id: str) -> Snapshot | None:
        """Return the snapshot of a session, if there is one that can be used."""
        ...

    async def close(self) -> None:
        """Give back files, threads and connections, behind what is under way; the next call opens them again."""
        ...

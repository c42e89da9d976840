"""What the shell needs of a journal: what changed a session, in order, durable before it is visible."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from agentrail.core.answers import Answer
from agentrail.core.inputs import AnyInput, Arrival
from agentrail.core.state import State
from agentrail.hooks.ruling import Ruling
from agentrail.values.events.envelope import Envelope
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
    """In the first record: what the session was spawned as."""
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


class Journal(Protocol):
    """Keeps records; returns from `append` only after the commit."""

    async def claim(self, session_id: str, owner: str) -> Claim:
        """Become the only writer of a session."""
        ...

    async def append(self, claim: Claim, expected: int, records: Sequence[Record]) -> int:
        """Write *records* behind record *expected*, all or none, and return the new head.

        Raises `Fenced` if somebody else has claimed the session since, `JournalFull` if nothing was written and it may
        be tried again, `CommitUnknown` if whether it was written is not known.
        """
        ...

    async def read(self, session_id: str, after: int = 0, limit: int = 1000) -> tuple[Record, ...]:
        """Return up to *limit* records behind number *after*."""
        ...

    async def answer(self, session_id: str, command: str) -> StoredAnswer | None:
        """Return what was answered to a command id, if it is known."""
        ...

    async def sessions(self, after: str = "", limit: int = 1000) -> tuple[str, ...]:
        """Return up to *limit* ids of stored sessions behind *after*, in order."""
        ...

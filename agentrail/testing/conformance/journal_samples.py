"""Records for tests of journals, and how such tests begin."""

# ruff: noqa: S101 - these are tests

from __future__ import annotations

from collections.abc import Awaitable

from agentrail.core.vocabulary.commands import PromptSent
from agentrail.core.vocabulary.inputs import Arrival, TimerFired
from agentrail.errors import AgentrailError
from agentrail.ports.journal import NO_LEASE, Claim, Journal, Lease, Record
from agentrail.values.content import Text
from agentrail.values.events.envelope import Envelope
from agentrail.values.events.life import AgentStart


def prompted(session_id: str, number: int, text: str = "go on", **more: object) -> Record:
    """Return a record of a prompt, with one event that has the same number; *more* are further fields of the record."""
    events = (Envelope(session_id, number, 0, number, 1, 1, AgentStart(f"p{number}")),)
    arrival = Arrival(PromptSent((Text(text),)), number, 0.5)
    return Record(session_id, number, arrival, events=events).but(**more)


def silent(session_id: str, number: int) -> Record:
    """Return a record without an event."""
    return Record(session_id, number, Arrival(TimerFired("t"), number))


def run_of(session_id: str, first: int, count: int) -> tuple[Record, ...]:
    """Return *count* records of a session, numbered from *first* on."""
    return tuple(prompted(session_id, number) for number in range(first, first + count))


async def refused(kind: type[AgentrailError], doing: Awaitable[object]) -> AgentrailError:
    """Await *doing* and return the error of *kind* that it must raise."""
    try:
        answer = await doing
    except kind as error:
        return error
    raise AssertionError(answer)


async def opened(journal: Journal, session_id: str, count: int = 3, lease: Lease = NO_LEASE) -> Claim:
    """Claim a session, write its first *count* records, and return the claim."""
    claim = await journal.claim(session_id, "test", lease)
    assert await journal.append(claim, 0, run_of(session_id, 1, count)) == count
    return claim

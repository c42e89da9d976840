"""`ReadOnlyJournal`: all is read as in the journal, and nothing is changed or claimed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from agentrail import SessionSpec, open_supervisor
from agentrail.adapters.journals.read_only import ReadOnlyJournal
from agentrail.errors import JournalReadOnly
from agentrail.journals import NO_LEASE, Claim, MemoryJournal, Redaction, SessionFilter, Snapshot
from agentrail.ports.journal import opening_of
from agentrail.testing import ScriptedModel, stall

ID = "trip"


@pytest.fixture
async def journal() -> MemoryJournal:
    """A journal with a session in the middle of its turn, as a process leaves it that is killed."""
    journal = MemoryJournal()
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(SessionSpec(model=ScriptedModel([stall()])), ID)
        await session.prompt("Go.", command="c1")
    return journal


async def test_all_is_read_as_it_is(journal: MemoryJournal) -> None:
    looked_at = ReadOnlyJournal(journal)
    records = await journal.read(ID)
    assert await looked_at.read(ID) == records
    assert await looked_at.sessions() == await journal.sessions() != ()
    assert await looked_at.summary(ID) == await journal.summary(ID) is not None
    assert await looked_at.latest(ID) == await journal.latest(ID)
    assert await looked_at.answer(ID, "c1") == await journal.answer(ID, "c1") is not None
    assert await looked_at.record_of_seq(ID, 1) == await journal.record_of_seq(ID, 1)


async def test_no_session_is_there_to_be_brought_back(journal: MemoryJournal) -> None:
    at_work = SessionFilter(at_work=True)
    assert await journal.sessions(at_work) != ()
    assert await ReadOnlyJournal(journal).sessions(at_work) == ()
    assert await ReadOnlyJournal(journal).sessions(SessionFilter(due_before=10**15)) == ()


CHANGES: dict[str, Callable[[ReadOnlyJournal, Snapshot], Awaitable[object]]] = {
    "claim": lambda journal, _: journal.claim(ID, "me", take_over=True),
    "append": lambda journal, _: journal.append(Claim(ID, 9, 0), 0, ()),
    "keep": lambda journal, snapshot: journal.keep(Claim(ID, 9, 0), snapshot),
    "delete": lambda journal, _: journal.delete(ID, "me", 0),
    "redact": lambda journal, _: journal.redact(ID, 1, 1, Redaction(0, "me"), "me"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
async def test_no_change_is_made(
    journal: MemoryJournal, change: Callable[[ReadOnlyJournal, Snapshot], Awaitable[object]]
) -> None:
    before = await journal.read(ID)
    snapshot = Snapshot(ID, 1, opening_of(before[0]))
    with pytest.raises(JournalReadOnly, match="only looked at here"):
        await change(ReadOnlyJournal(journal), snapshot)
    assert await journal.read(ID) == before


async def test_a_claim_that_nobody_was_given_is_lost(journal: MemoryJournal) -> None:
    looked_at, claim = ReadOnlyJournal(journal), Claim(ID, 9, 0)
    await looked_at.release([claim])
    assert await looked_at.renew([claim], NO_LEASE) == (claim,)

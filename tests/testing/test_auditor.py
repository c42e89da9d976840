"""The auditor of the simulator finds nothing in the records of a session, and each thing that is wrong with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from agentrail import SessionSpec, State, open_supervisor
from agentrail.core.machine.step import Step
from agentrail.journals import MemoryJournal, Record
from agentrail.testing import ScriptedModel
from agentrail.testing.simulator.auditor import Auditor, Book
from agentrail.testing.simulator.rules import RunVerdict
from agentrail.testing.world.outstanding import InvariantBrokenError
from tests.kit import Arrival


async def records() -> Sequence[Record]:
    """Return the records of a session of two turns."""
    journal = MemoryJournal()
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(SessionSpec(model=ScriptedModel(["one", "two"])), "s")
        for command in ("k1", "k2"):
            await session.ask("go", command=command)
    return await journal.read("s", 0, 100)


def broken_rule(written: Sequence[Record], kind: type[Auditor] = Auditor) -> str:
    """Return the rule that *written* breaks; empty if none."""
    verdict = RunVerdict()
    kind(verdict).committed(written)
    return "" if verdict.problem is None else verdict.problem.rule


def renamed(record: Record) -> Record:
    return record if record.command is None else record.but(command="k1")


def overruled(record: Record) -> Record:
    return record.but(rulings=(*record.rulings, *record.rulings)) if record.rulings else record


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (lambda record: record, ""),
        (renamed, "commands"),
        (overruled, "replay"),
        (lambda record: record.but(number=record.number + 1), "numbers"),
    ],
)
async def test_what_is_wrong_with_records_is_found(change: Callable[[Record], Record], rule: str) -> None:
    written = await records()
    assert any(record.rulings for record in written)
    assert broken_rule(list(map(change, written))) == rule


class Breaking(Auditor):
    """An auditor for which each step breaks an invariant."""

    def check(self, book: Book, before: State, arrival: Arrival, step: Step) -> None:
        raise InvariantBrokenError


async def test_a_step_that_breaks_an_invariant_is_found() -> None:
    assert broken_rule((await records())[:1], Breaking) == "session"


@pytest.mark.parametrize(("left", "rule"), [(["s.c1"], "erased"), (["s"], "erased"), (["sc1", "t"], "")])
def test_a_deleted_session_leaves_neither_itself_nor_a_sub_agent(left: Sequence[str], rule: str) -> None:
    verdict = RunVerdict()
    Auditor(verdict).deleted("s", left)
    assert ("" if verdict.problem is None else verdict.problem.rule) == rule

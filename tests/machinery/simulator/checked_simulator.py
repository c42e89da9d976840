"""`CheckedSimulator`: simulates a whole supervisor, and checks each record with the invariants of a session too."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import ClassVar

from agentrail import State
from agentrail.adapters.journals.redacting import MARK
from agentrail.core.machine.step import Step
from agentrail.journals import Record
from agentrail.testing import Simulator
from agentrail.testing.simulator.auditor import Auditor, Book
from agentrail.testing.simulator.environment import Environment
from agentrail.testing.simulator.rules import RunVerdict
from agentrail.testing.simulator.simulator import Report
from tests.kit import Arrival
from tests.machinery.checks.state_invariants import Ledger


class CheckedAuditor(Auditor):
    """An auditor that keeps a ledger of each session; what breaks an invariant breaks the rule `session`."""

    def __init__(self, verdict: RunVerdict) -> None:
        super().__init__(verdict)
        self._ledgers: defaultdict[str, Ledger] = defaultdict(Ledger)

    def check(self, book: Book, old: State, arrival: Arrival, step: Step) -> None:
        self._ledgers[book.session_id].check(old, arrival, step, book.out)
        super().check(book, old, arrival, step)

    def redacted(self, records: Sequence[Record]) -> None:
        super().redacted(records)
        ledger = self._ledgers[records[0].session_id]
        # What the recorder remembers of each turn is stored in redacted form too
        places = [ledger.outcomes.index(outcome) for outcome in ledger.outcomes]
        ledger.outcomes = [f"{MARK} {index}" if index else MARK for index in places]


class CheckedSimulator(Simulator):
    """Runs simulations whose records keep the invariants of a session."""

    program: ClassVar[str] = "tests.machinery.simulator"

    def environment(self, seed: int) -> Environment:
        environment = super().environment(seed)
        environment.auditor = CheckedAuditor(environment.verdict)
        return environment


def simulated(run: tuple[str, int]) -> Report:
    """Run one simulation of mode and seed *run*; return its report.

    It is here because a process that is spawned does not import the module that the command line has run.
    """
    mode, seed = run
    return CheckedSimulator(mode).run(seed)

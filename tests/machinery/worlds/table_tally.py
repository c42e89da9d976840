"""`Tally` counts which rows of the transition table random sessions have reached, and what rows allow and never had.

Sessions that seek prefer inputs for rows that were seldom reached, so that all of the table comes up.
"""

from __future__ import annotations

from collections import Counter
from typing import Final, TypeAlias

from agentrail import State
from agentrail.core.machine.step import Step
from agentrail.core.machine.table import TABLE
from agentrail.core.vocabulary.effects import WriteLog
from agentrail.values.value import Value
from tests.kit import Phase

TableKey: TypeAlias = tuple[Phase, type[Value]]
Promise: TypeAlias = Phase | type[Value]

RARE: Final = 600
"""Weight of a row of the table that was never reached; it is divided by one more than the times it was reached."""

HELD_BACK: Final = 4
"""How much less often an input comes where it came often, while another phase has seldom seen one of its kind.

What ended in its own phase cannot come late in another one, which takes several steps to reach.
"""

SELDOM: Final = 20
"""How often a row is to be reached."""

UNSEEN: Final = 60
"""Weight that a row gets for each phase or effect that it allows and that was never seen."""


class Tally:
    """Counts steps and rows of the transition table over many sessions, with outcomes that rows allow but never had."""

    def __init__(self) -> None:
        self.steps = 0
        self.rows: Counter[TableKey] = Counter()
        self.unseen: dict[TableKey, set[Promise]] = {
            (phase, kind): {*rule.to, *rule.may}
            for phase, rules in TABLE.items()
            for kind, rule in rules.items()
            if rule.to
        }
        # By kind of input: the number of rows that were seldom reached
        self._wanting = Counter(kind for _, kind in self.unseen)

    def note(self, old: State, kind: type[Value], step: Step) -> None:
        """Count one step, which was made in the state *old* with an input of the class *kind*."""
        row = (old.phase, kind)
        self.steps += 1
        self.rows[row] += 1
        if self.rows[row] == SELDOM:
            self._wanting[row[1]] -= 1
        outcomes = self.unseen[row]
        if not outcomes or any(ruling.hook == "on_event" and ruling.critical for ruling in step.rulings):
            return  # a critical `on_event` may have aborted, and its effects belong to the row of an abort
        outcomes.discard(step.state.phase)
        outcomes.difference_update(type(effect) for effect in step.effects if type(effect) is not WriteLog)

    def wanted(self, phase: Phase, kind: type[Value], *, apt: bool = True) -> int:
        """Return the weight of a row for drawing the next input: rare rows weigh more.

        For a move that is not *apt*, what the row allows does not count, because the move would not show it.
        """
        row = (phase, kind)
        unseen = len(self.unseen.get(row, ())) if apt else 0
        weight = 1 + RARE // (1 + self.rows[row]) + UNSEEN * unseen
        is_done = self.rows[row] >= SELDOM and not unseen
        return weight if is_done and self._wanting[kind] else weight * HELD_BACK

    def seldom(self, least: int = SELDOM) -> dict[str, int]:
        """Return the legal rows that were reached less than *least* times, with the numbers."""
        return {_named(row): self.rows[row] for row in self.unseen if self.rows[row] < least}

    def broken(self) -> dict[str, list[str]]:
        """Return by row the allowed phases and effects that were never seen."""
        return {
            _named(row): sorted(outcome.value if isinstance(outcome, Phase) else outcome.__name__ for outcome in unseen)
            for row, unseen in self.unseen.items()
            if unseen
        }


def _named(row: TableKey) -> str:
    return f"{row[0].value} × {row[1].__name__}"

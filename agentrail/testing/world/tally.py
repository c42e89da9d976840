"""How often each row of the transition table was reached, and which of its promises were never seen kept."""

from __future__ import annotations

from collections import Counter
from typing import Final, TypeAlias

from agentrail.core.machine.step import Step
from agentrail.core.machine.table import TABLE
from agentrail.core.vocabulary.effects import WriteLog
from agentrail.core.vocabulary.state import Phase, State
from agentrail.values.value import Value

Row: TypeAlias = tuple[Phase, type[Value]]
Promise: TypeAlias = Phase | type[Value]

RARE: Final = 600
"""How much more often a row that was never reached is sought than one that was reached so often."""

UNSEEN: Final = 60
"""How much more often a row is sought for each of its promises that was never seen."""


class Tally:
    """Counts over any number of sessions."""

    def __init__(self) -> None:
        self.steps = 0
        self.rows: Counter[Row] = Counter()
        self.unseen: dict[Row, set[Promise]] = {
            (phase, kind): {*rule.to, *rule.may}
            for phase, rules in TABLE.items()
            for kind, rule in rules.items()
            if rule.to
        }

    def note(self, before: State, given: type[Value], step: Step) -> None:
        """Count one step."""
        row = (before.phase, given)
        self.steps += 1
        self.rows[row] += 1
        left = self.unseen[row]
        if not left or any(ruling.hook == "on_event" and ruling.critical for ruling in step.rulings):
            return  # what a listener's abort adds belongs to another row
        left.discard(step.state.phase)
        left.difference_update(type(effect) for effect in step.effects if type(effect) is not WriteLog)

    def wanted(self, phase: Phase, kind: type[Value], *, apt: bool = True) -> int:
        """Say how much a row is worth looking for; a move that is not *apt* will not show its promises."""
        row = (phase, kind)
        return RARE // (1 + self.rows[row]) + (UNSEEN * len(self.unseen.get(row, ())) if apt else 0)

    def seldom(self, least: int) -> dict[str, int]:
        """Return the legal rows that were reached less than *least* times."""
        return {_named(row): self.rows[row] for row in self.unseen if self.rows[row] < least}

    def broken(self) -> dict[str, list[str]]:
        """Return the promises that nobody has seen kept, by row."""
        return {
            _named(row): sorted(left.value if isinstance(left, Phase) else left.__name__ for left in unseen)
            for row, unseen in self.unseen.items()
            if unseen
        }


def _named(row: Row) -> str:
    return f"{row[0].value} × {row[1].__name__}"

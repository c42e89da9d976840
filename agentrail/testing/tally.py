"""How often each row of the transition table was reached, and which of its promises were kept."""

from __future__ import annotations

from collections import Counter

from agentrail.core.effects import WriteLog
from agentrail.core.state import Phase, State
from agentrail.core.step import Step
from agentrail.values.value import Value


class Tally:
    """Counts over any number of sessions."""

    def __init__(self) -> None:
        self.steps = 0
        self.rows: Counter[tuple[Phase, type[Value]]] = Counter()
        self.nexts: Counter[tuple[Phase, type[Value], Phase]] = Counter()
        self.effects: Counter[tuple[Phase, type[Value], type[Value]]] = Counter()

    def note(self, before: State, given: type[Value], step: Step) -> None:
        """Count one step."""
        row = (before.phase, given)
        self.steps += 1
        self.rows[row] += 1
        if any(ruling.hook == "on_event" and ruling.critical for ruling in step.rulings):
            return  # what a listener's abort adds belongs to another row
        self.nexts[(*row, step.state.phase)] += 1
        for kind in {type(effect) for effect in step.effects} - {WriteLog}:
            self.effects[(*row, kind)] += 1

"""The clock of a turn: waiting for a person counts towards no limit."""

from __future__ import annotations

from agentrail.core.machine.draft import StepDraft
from agentrail.core.machine.endings import TURN_TIMER


def stop_clock(w: StepDraft) -> None:
    """Stop the clock of the turn, if it has one that runs."""
    s = w.s
    due = dict(s.timers).get(TURN_TIMER)
    if due is not None and s.turn is not None:
        s.turn = s.turn.but(deadline_left=max(0, due - w.at))
        w.clear_timer(TURN_TIMER)


def start_clock(w: StepDraft) -> None:
    """Let the clock of the turn go on, if it was stopped."""
    s = w.s
    if s.turn is not None and s.turn.deadline_left is not None:
        w.set_timer(TURN_TIMER, w.at + s.turn.deadline_left)
        s.turn = s.turn.but(deadline_left=None)

"""Time limit of a turn (`max_turn_seconds`): its clock is stopped while the turn waits for a person."""

from __future__ import annotations

from agentrail.core.machine.draft import StepDraft
from agentrail.core.machine.endings import TURN_TIMER


def stop_clock(w: StepDraft) -> None:
    """Stop the turn's clock and keep the time left. No-op if the turn has no limit or its clock is stopped."""
    s = w.s
    due = dict(s.timers).get(TURN_TIMER)
    if due is not None and s.turn is not None:
        s.turn = s.turn.but(deadline_left=max(0, due - w.at))
        w.clear_timer(TURN_TIMER)


def start_clock(w: StepDraft) -> None:
    """Start the turn's clock again with the time left. No-op if it was not stopped."""
    s = w.s
    if s.turn is not None and s.turn.deadline_left is not None:
        w.set_timer(TURN_TIMER, w.at + s.turn.deadline_left)
        s.turn = s.turn.but(deadline_left=None)

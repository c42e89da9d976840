"""Handles timers that fire."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from agentrail.core.machine.approvals import on_hold_timer
from agentrail.core.machine.draft import StepDraft
from agentrail.core.machine.endings import abort_turn
from agentrail.core.machine.flow import answer
from agentrail.core.machine.requests import request
from agentrail.core.machine.tool_runs import on_call_timer, on_grace
from agentrail.core.vocabulary.effects import CancelAsk
from agentrail.core.vocabulary.inputs import TimerFired
from agentrail.hooks.actions import TimedOut
from agentrail.values.stream import NOTHING_YET


def _on_turn(draft: StepDraft, _: str) -> None:
    """Abort the turn: it has reached its time limit."""
    why = f"the turn took longer than {draft.state.setup.options.max_turn_seconds:g} s"
    partial, draft.partial = draft.partial, NOTHING_YET  # belongs to this turn; the next one may begin in this step
    abort_turn(draft, "deadline", why, partial=partial)


def _on_retry(draft: StepDraft, _: str) -> None:
    """Make the next attempt of the request."""
    request(draft)


def _on_grace(draft: StepDraft, _: str) -> None:
    """Report cancelled calls that still run."""
    on_grace(draft)


def _on_ask(draft: StepDraft, ask_id: str) -> None:
    """Answer a plugin's ask with `TimedOut`, and cancel it if it runs."""
    waiting = next((other for other in draft.state.suspended_runs if other.ask_id == ask_id), None)
    if waiting is not None:
        if waiting.is_sent:
            draft.add_effect(CancelAsk(ask_id))
        answer(draft, ask_id, TimedOut(waiting.pause.deadline or 0.0))


TIMERS: Final[Mapping[str, Callable[[StepDraft, str], None]]] = {
    "turn": _on_turn,
    "retry": _on_retry,
    "grace": _on_grace,
    "call": on_call_timer,
    "hold": on_hold_timer,
    "ask": _on_ask,
}
"""Handler by kind of timer. A timer's name is its kind and, after a colon, the id it is about."""


def on_timer(draft: StepDraft, fired: TimerFired) -> None:
    """Call the handler of a timer. No-op if it was cleared or replaced after it fired."""
    due = dict(draft.state.timers).get(fired.timer)
    if due is None or due > draft.at:
        return
    draft.partial = fired.partial
    draft.drop_timer(fired.timer)
    kind, _, ref = fired.timer.partition(":")
    TIMERS[kind](draft, ref)

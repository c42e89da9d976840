"""Handles timers that fire."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from agentrail.core.machine.approvals import on_hold_timer
from agentrail.core.machine.draft import StepDraft
from agentrail.core.machine.endings import abort_turn
from agentrail.core.machine.flow import answer
from agentrail.core.machine.tool_runs import on_call_timer, on_grace
from agentrail.core.vocabulary.effects import CancelAsk
from agentrail.core.vocabulary.inputs import TimerFired
from agentrail.hooks.actions import TimedOut
from agentrail.values.stream import NOTHING_YET


def _on_turn(w: StepDraft, _: str) -> None:
    why = f"the turn took longer than {w.s.setup.options.max_turn_seconds:g} s"
    partial, w.partial = w.partial, NOTHING_YET  # belongs to this turn; the next one may begin in this step
    abort_turn(w, "deadline", why, partial=partial)


def _on_retry(w: StepDraft, _: str) -> None:
    w.next("request")


def _on_grace(w: StepDraft, _: str) -> None:
    on_grace(w)


def _on_ask(w: StepDraft, ask_id: str) -> None:
    waiting = next((other for other in w.s.suspended if other.ask_id == ask_id), None)
    if waiting is not None:
        if waiting.asked:
            w.ask(CancelAsk(ask_id))
        answer(w, ask_id, TimedOut(waiting.pause.deadline or 0.0))


TIMERS: Final[Mapping[str, Callable[[StepDraft, str], None]]] = {
    "turn": _on_turn,
    "retry": _on_retry,
    "grace": _on_grace,
    "call": on_call_timer,
    "hold": on_hold_timer,
    "ask": _on_ask,
}
"""Handler by kind of timer. A timer's name is its kind and, after a colon, the id it is about."""


def on_timer(w: StepDraft, fired: TimerFired) -> None:
    """Call the handler of a timer. No-op if it was cleared or replaced after it fired."""
    due = dict(w.s.timers).get(fired.timer)
    if due is None or due > w.at:
        return
    w.partial = fired.partial
    w.drop_timer(fired.timer)
    kind, _, ref = fired.timer.partition(":")
    TIMERS[kind](w, ref)

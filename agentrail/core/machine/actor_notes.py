"""A session that gives its memory back while nobody needs it, and is brought up again from its journal.

What a session is told of its actor: it was suspended, it is watched, it crashed.
"""

from __future__ import annotations

from agentrail.core.machine.draft import StepDraft
from agentrail.core.vocabulary.commands import DONE
from agentrail.core.vocabulary.inputs import ActorRestarted, CrashedTooOften, SessionWoke, SleepDue
from agentrail.core.vocabulary.state import Phase, State
from agentrail.values.events.life import (
    InputQuarantined,
    SessionHibernated,
    SessionQuarantined,
    SessionRestarted,
    SessionWoken,
)
from agentrail.values.value import Value


def on_watched(w: StepDraft, _: Value) -> None:
    """Answer; the actor does the rest."""
    w.answer = DONE


def on_restarted(w: StepDraft, restarted: ActorRestarted) -> None:
    """Report a crash that was repaired; whoever crashed while it fell asleep is awake now."""
    w.s.asleep = False
    w.emit(SessionRestarted(restarted.cause))


def on_crashed_too_often(w: StepDraft, crashed: CrashedTooOften) -> None:
    """Report a crash that was not, and remember it: nobody is to start the session again unasked."""
    w.s.crashed = crashed.cause
    if crashed.input:
        w.emit(InputQuarantined(crashed.input, crashed.cause))
    w.emit(SessionQuarantined(crashed.cause))


def on_sleep_due(w: StepDraft, _: SleepDue) -> None:
    """Go to sleep, if nothing is under way; what is held may wait meanwhile."""
    if can_sleep(w.s):
        w.s.asleep = True
        w.emit(SessionHibernated())


def on_woke(w: StepDraft, _: SessionWoke) -> None:
    """Go on as if nothing had been."""
    if w.s.asleep:
        w.s.asleep = False
        w.emit(SessionWoken())


def can_sleep(state: State) -> bool:
    """Whether nothing of a session is under way, and nothing waits but a person's decision; no sub-agent sleeps."""
    busy = state.at_work or state.quarantined or state.queue or state.changes or state.paused
    return state.phase is Phase.IDLE and not (state.asleep or busy or state.setup.path)

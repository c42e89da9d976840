"""What a session is told of its actor: it was suspended, it is watched, it crashed."""

from __future__ import annotations

from agentrail.core.machine.draft import StepDraft
from agentrail.core.vocabulary.answers import DONE
from agentrail.core.vocabulary.inputs import ActorRestarted, CrashedTooOften
from agentrail.values.events.life import InputQuarantined, SessionQuarantined, SessionRestarted
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

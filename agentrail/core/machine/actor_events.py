"""Inputs about the session's actor: it crashed, was suspended or traced, had slow hooks, or sleeps and wakes up."""

from __future__ import annotations

from agentrail.core.machine.draft import StepDraft
from agentrail.core.vocabulary import commands
from agentrail.core.vocabulary.inputs import ActorRestarted, CrashedTooOften, HooksWereSlow, SessionWoke, SleepDue
from agentrail.core.vocabulary.state import Phase, State
from agentrail.values.events.life import (
    InputQuarantined,
    SessionHibernated,
    SessionQuarantined,
    SessionRestarted,
    SessionWoken,
)
from agentrail.values.events.plugins import PluginSlow


def on_watched(w: StepDraft, _: commands.SuspendSent | commands.TraceSent) -> None:
    """Answer `suspend` or `trace`; the actor itself does the work."""
    w.answer = commands.DONE


def on_restarted(w: StepDraft, restarted: ActorRestarted) -> None:
    """Report a crash after which the actor was restarted; one that slept is awake again."""
    w.s.asleep = False
    w.emit(SessionRestarted(restarted.cause))


def on_crashed_too_often(w: StepDraft, crashed: CrashedTooOften) -> None:
    """Report the last crash and keep it in the state: the session is not started again unless a caller asks."""
    w.s.crashed = crashed.cause
    if crashed.input:
        w.emit(InputQuarantined(crashed.input, crashed.cause))
    w.emit(SessionQuarantined(crashed.cause))


def on_slow(w: StepDraft, slow: HooksWereSlow) -> None:
    """Report hooks that took long."""
    w.emit(PluginSlow(slow.plugins, slow.elapsed_ms))


def on_sleep_due(w: StepDraft, _: SleepDue) -> None:
    """Mark the session as asleep, unless work is under way; calls may go on waiting for a person."""
    if can_sleep(w.s):
        w.s.asleep = True
        w.emit(SessionHibernated())


def on_woke(w: StepDraft, _: SessionWoke) -> None:
    """Mark the session as awake."""
    if w.s.asleep:
        w.s.asleep = False
        w.emit(SessionWoken())


def can_sleep(state: State) -> bool:
    """Whether a session may sleep: it is idle without work under way, and is no sub-agent; calls may be held."""
    busy = state.at_work or state.quarantined or state.queue or state.changes or state.paused
    return state.phase is Phase.IDLE and not (state.asleep or busy or state.setup.path)

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


def on_watched(draft: StepDraft, _: commands.SuspendSent | commands.TraceSent) -> None:
    """Accept `suspend` or `trace`; the actor carries it out, the state does not change."""
    draft.answer = commands.DONE


def on_restarted(draft: StepDraft, restarted: ActorRestarted) -> None:
    """Report a crash after which the actor was restarted; if it crashed while asleep, mark the session as awake.

    If the message that it crashed on was put aside, report that too.
    """
    draft.state.asleep = False
    if restarted.input:
        draft.emit(InputQuarantined(restarted.input, restarted.cause))
    draft.emit(SessionRestarted(restarted.cause))


def on_crashed_too_often(draft: StepDraft, crashed: CrashedTooOften) -> None:
    """Report the last crash and keep it in the state: the session is not started again unless a caller asks."""
    draft.state.quarantine_cause = crashed.cause
    if crashed.input:
        draft.emit(InputQuarantined(crashed.input, crashed.cause))
    draft.emit(SessionQuarantined(crashed.cause))


def on_slow(draft: StepDraft, slow: HooksWereSlow) -> None:
    """Report hooks that took long."""
    draft.emit(PluginSlow(slow.plugins, slow.elapsed_ms))


def on_sleep_due(draft: StepDraft, _: SleepDue) -> None:
    """Mark the session as asleep, unless work is under way; calls may go on waiting for a person."""
    if can_sleep(draft.state):
        draft.state.asleep = True
        draft.emit(SessionHibernated())


def on_woke(draft: StepDraft, _: SessionWoke) -> None:
    """Mark the session as awake."""
    if draft.state.asleep:
        draft.state.asleep = False
        draft.emit(SessionWoken())


def can_sleep(state: State) -> bool:
    """Whether a session may sleep: idle, no running work, and no sub-agent. It may have calls held for a person."""
    busy = state.has_running_work or state.quarantined_calls or state.queue or state.plugin_changes or state.is_paused
    return state.phase is Phase.IDLE and not (state.asleep or busy or state.setup.path)

"""The machine: `step(state, arrival, judge) -> Step`. No clock, no chance, no I/O: they come with the arrival."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Final

from agentrail.core import (
    changing,
    crashing,
    ending,
    forking,
    holding,
    inputs,
    prompting,
    recovering,
    requesting,
    running,
    sent,
    sleeping,
    steering,
    streaming,
    subagents,
)
from agentrail.core.agenda import drain, on_settled
from agentrail.core.answers import Answer
from agentrail.core.batch import put
from agentrail.core.calls import CallStatus
from agentrail.core.effects import AnyEffect, CancelAsk, CarryOut, StartCall, WriteLog
from agentrail.core.inputs import Arrival, HooksWereSlow
from agentrail.core.sent import AbortSent
from agentrail.core.state import Phase, State, drafted, finished
from agentrail.core.table import TABLE
from agentrail.core.timing import on_timer
from agentrail.core.work import StepDraft
from agentrail.errors import IllegalInput, LeftItsRow
from agentrail.hooks.judge import Judge
from agentrail.hooks.ruling import Ruling
from agentrail.values.events.envelope import Envelope
from agentrail.values.events.plugins import PluginError, PluginSlow
from agentrail.values.json import freeze_object
from agentrail.values.value import Value, value

Handler = Callable[..., None]
"""Takes the step in the making and the input that its place in the table names."""


@value
class Step(Value):
    """What one input did."""

    state: State
    """The session behind it."""
    effects: tuple[AnyEffect, ...] = ()
    """What the world is to do, in order."""
    events: tuple[Envelope, ...] = ()
    """What is reported, in order."""
    rulings: tuple[Ruling, ...] = ()
    """What plugins and validators decided, in order, empty rulings included."""
    answer: Answer | None = None
    """What the caller gets, if there is one."""

    def changes(self, before: State) -> bool:
        """Whether anything is to be remembered of it."""
        if self.events or self.effects:
            return True
        return any(getattr(self.state, name) is not getattr(before, name) for name in State.__fields__)


def _on_slow(w: StepDraft, slow: HooksWereSlow) -> None:
    w.emit(PluginSlow(slow.plugins, slow.elapsed_ms))


HANDLERS: Final = MappingProxyType[type[Value], Handler](
    {
        inputs.SessionOpened: prompting.on_opened,
        sent.PromptSent: prompting.on_prompt,
        sent.SteerSent: steering.on_steer,
        sent.AbortSent: ending.on_abort,
        sent.ApproveSent: holding.on_approve,
        sent.RejectSent: holding.on_reject,
        sent.RespondSent: holding.on_respond,
        sent.SwitchModelSent: changing.on_switch_model,
        sent.ChangeToolsSent: changing.on_change_tools,
        sent.UpdatePluginSent: changing.on_update_plugin,
        sent.AttachPluginSent: changing.on_attach_plugin,
        sent.DetachPluginSent: changing.on_detach_plugin,
        sent.CompactSent: requesting.on_compact,
        sent.WithdrawSent: prompting.on_withdraw,
        sent.StopSent: ending.on_stop,
        sent.SuspendSent: crashing.on_watched,
        sent.ResumeSent: recovering.on_resumed,
        sent.TraceSent: crashing.on_watched,
        inputs.ActorRestarted: crashing.on_restarted,
        inputs.CrashedTooOften: crashing.on_crashed_too_often,
        inputs.SessionBranched: forking.on_branched,
        inputs.SessionReturned: recovering.on_returned,
        inputs.SleepDue: sleeping.on_sleep_due,
        inputs.SessionWoke: sleeping.on_woke,
        inputs.StreamBegan: streaming.on_began,
        inputs.StreamEnded: streaming.on_ended,
        inputs.StreamCut: streaming.on_cut,
        inputs.StreamStalled: streaming.on_stalled,
        inputs.ToolReturned: running.on_returned,
        inputs.ToolRaised: running.on_raised,
        inputs.ToolStopped: running.on_stopped,
        inputs.CallProbed: running.on_probed,
        inputs.TimerFired: on_timer,
        inputs.AskSettled: on_settled,
        inputs.CompactionEnded: requesting.on_compaction_ended,
        inputs.CompactionFailed: requesting.on_compaction_failed,
        inputs.HooksWereSlow: _on_slow,
        inputs.SubagentStarted: subagents.on_started,
        inputs.SubagentReported: subagents.on_reported,
        inputs.SubagentEnded: subagents.on_ended,
        inputs.ElsewhereUsed: subagents.on_elsewhere,
    }
)
"""One function per input; an input that is not here has no legal row in the table."""


def step(state: State, arrival: Arrival, judge: Judge) -> Step:
    """Apply *arrival* to *state*, which stays as it is; the table says whether and how far it may reach."""
    given = arrival.input
    rule = TABLE[state.phase][type(given)]
    if not rule.to:
        raise IllegalInput(state.phase.value, type(given).__name__, rule.why)
    if state.phase is Phase.ENDED:
        return Step(state)
    w = StepDraft(drafted(state), judge, arrival.at, arrival.random, arrival.partial)
    HANDLERS[type(given)](w, given)
    drain(w)
    if w.subjects is not None:
        w.keep_subjects(w.subjects)
    _audit(state.phase, type(given), w.s.phase, w.effects)
    _learn(w)
    return Step(finished(w.s), tuple(w.effects), tuple(w.events), tuple(w.rulings), w.answer)


def _audit(phase: Phase, given: type[Value], to: Phase, effects: Sequence[AnyEffect]) -> None:
    """Refuse a step that did what its row does not allow; this stays on in production."""
    rule = TABLE[phase][given]
    if to not in rule.to:
        raise LeftItsRow(phase.value, given.__name__, f"it went to `{to.value}`")
    for effect in effects:
        if type(effect) not in rule.may:
            raise LeftItsRow(phase.value, given.__name__, f"it asked for `{type(effect).__name__}`")


def _log_errors(w: StepDraft, ruling: Ruling) -> None:
    """Write down who broke at the last events: nothing comes behind the end, no event either."""
    for error in ruling.errors:
        if isinstance(error, PluginError):
            fields = freeze_object({"plugin": error.plugin, "hook": error.hook, "error": error.error})
            w.ask(WriteLog("error", "a plugin broke when the session had ended", fields))


def _learn(w: StepDraft) -> None:
    """Show the events of the step to the plugins that listen; what that causes is never shown to them.

    A critical plugin that breaks here aborts the open turn, and that goes as the row of an abort allows.
    """
    s = w.s
    if not w.events or not s.seats or len(s.plugin_states) != len(s.seats):
        return
    if not any("on_event" in seat.hooks for seat in s.seats):
        return
    ruling = w.judge.learn(tuple(w.events), s.row, w.context, dict(s.deafness))
    w.take(ruling, report=s.phase is not Phase.ENDED)
    for level, message, fields in ruling.logs:
        w.ask(WriteLog(level, message, fields))
    if s.phase is Phase.ENDED:
        _log_errors(w, ruling)
        return
    if ruling.errors:
        failures = dict(s.deafness)
        for error in ruling.errors:
            if isinstance(error, PluginError):
                failures[error.plugin] = failures.get(error.plugin, 0) + 1
        s.deafness = tuple(failures.items())
    if ruling.critical and s.turn is not None and s.turn.ended is None:
        _abort_for(w, ruling)


def _abort_for(w: StepDraft, ruling: Ruling) -> None:
    """Abort the turn because a critical plugin broke at the events of this step; nothing that it begins may run."""
    phase = w.s.phase
    begun, w.effects = w.effects, []
    calls = {effect.call_id for effect in begun if isinstance(effect, StartCall)}
    for call in w.s.batch.calls if w.s.batch is not None else ():
        if call.call_id in calls:
            put(w, call.but(status=CallStatus.READY, started_at=call.started_at if call.attempt > 1 else 0))
    ending.abort_turn(w, "critical", f"{ruling.by}: {ruling.reason}", partial=w.partial)
    drain(w)
    _audit(phase, AbortSent, w.s.phase, w.effects)
    asks = {effect.ask_id for effect in begun if isinstance(effect, CarryOut)}
    w.effects = [
        *(effect for effect in begun if not isinstance(effect, StartCall | CarryOut)),
        *(effect for effect in w.effects if not (isinstance(effect, CancelAsk) and effect.ask_id in asks)),
    ]

"""The machine: `step(state, arrival, hook_runner) -> Step`, a pure function. Time and randomness come with the arrival.

`redo` makes a recorded step again, with the rulings that were recorded then: for audits, not to bring a session back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FunctionType, MappingProxyType, ModuleType
from typing import Final

from agentrail.core.machine import (
    actor_events,
    approvals,
    configuration,
    due_timers,
    endings,
    flow,
    forking,
    prompts,
    recovery,
    requests,
    responses,
    steering,
    subagents,
    tool_runs,
)
from agentrail.core.machine.draft import StepDraft
from agentrail.core.machine.flow import drain
from agentrail.core.machine.in_doubt_calls import recall
from agentrail.core.machine.table import NO_INPUT, TABLE
from agentrail.core.machine.tool_results import put
from agentrail.core.vocabulary.commands import AbortSent, Answer
from agentrail.core.vocabulary.effects import AnyEffect, CancelAsk, CarryOut, StartCall, WriteLog
from agentrail.core.vocabulary.inputs import INPUTS, Arrival
from agentrail.core.vocabulary.state import ENDED, Phase, State, drafted, finished
from agentrail.core.vocabulary.tool_calls import CallStatus
from agentrail.errors import IllegalInput, LeftItsRow
from agentrail.hooks.hook_runner import HookRunner, RecordedRunner
from agentrail.hooks.ruling import UNLEARNT, Ruling
from agentrail.values.events.envelope import Envelope
from agentrail.values.events.plugins import PluginError
from agentrail.values.events.tools import ToolExecutionStart
from agentrail.values.json import freeze_object
from agentrail.values.untrusted_values import type_name
from agentrail.values.value import Value

Handler = Callable[..., None]
"""Function that handles one or more kinds of input; it takes the step's draft and the input."""


class Step(Value):
    """Result of one step."""

    state: State
    """The session's state after the input."""
    effects: tuple[AnyEffect, ...] = ()
    """Effects for the runtime to carry out, in order."""
    events: tuple[Envelope, ...] = ()
    """Events to publish, in order."""
    rulings: tuple[Ruling, ...] = ()
    """Decisions of plugins and validators, in order, the empty ones included; they are journaled for `redo`."""
    answer: Answer | None = None
    """Answer to the caller; `None` if the input did not come from one."""

    def changes(self, old: State) -> bool:
        """Whether the step did anything that must be journaled; *old* is the state it started from."""
        if self.events or self.effects:
            return True
        return any(getattr(self.state, name) is not getattr(old, name) for name in State.__struct_fields__)


COUNTED_EVERY: Final = 1_000
"""After how many milliseconds of work a step counts them in the state, so that the end of the process loses no more."""


def handlers_of(module: ModuleType) -> Iterator[tuple[type[Value], Handler]]:
    """Yield the handlers of a module, each with the inputs that its second parameter is annotated with."""
    for name, function in vars(module).items():
        if name.startswith("on_") and isinstance(function, FunctionType):
            _, annotation, *_ = function.__annotations__.values()
            kinds = (KINDS.get(kind.rpartition(".")[2]) for kind in annotation.split(" | "))
            yield from ((kind, function) for kind in kinds if kind is not None)


KINDS: Final[Mapping[str, type[Value]]] = {kind.__name__: kind for kind in INPUTS}

GROUPS: Final = (
    prompts,
    steering,
    endings,
    approvals,
    configuration,
    requests,
    actor_events,
    forking,
    recovery,
    responses,
    tool_runs,
    due_timers,
    flow,
    subagents,
)
"""The modules with handlers, one for each group of inputs."""

HANDLERS: Final = MappingProxyType[type[Value], Handler](dict(pair for group in GROUPS for pair in handlers_of(group)))
"""The handler of each kind of input. A kind that is missing here is illegal in every phase."""


def step(state: State, arrival: Arrival, hook_runner: HookRunner) -> Step:
    """Apply *arrival* to *state* and return the result; raise `IllegalInput` if the transition table forbids it.

    It is raised before anything is changed, and also for a value that is no input.
    """
    input_ = arrival.input
    rule = TABLE[state.phase].get(type(input_), NO_INPUT)
    if not rule.to:
        raise IllegalInput(state.phase.value, type_name(input_), rule.why)
    if state.phase is ENDED:
        return Step(state)
    draft = StepDraft(
        drafted(state), hook_runner, arrival.at, arrival.random, arrival.partial, arrival.by, arrival.request
    )
    if arrival.broken:
        draft.emit(*arrival.broken)
    HANDLERS[type(input_)](draft, input_)
    drain(draft)
    if draft.subjects is not None:
        draft.keep_subjects(draft.subjects)
    _audit(state.phase, type(input_), draft.state.phase, draft.effects)
    if draft.events and draft.state.plugins and hook_runner.learns(draft.state.plugins):
        _learn(draft)
    if draft.state.plugins:
        _count_work(draft)
    return Step(finished(draft.state), tuple(draft.effects), tuple(draft.events), tuple(draft.rulings), draft.answer)


def _audit(phase: Phase, kind: type[Value], to: Phase, effects: Sequence[AnyEffect]) -> None:
    """Raise `LeftItsRow` if a step entered a phase, or asked for an effect, that its rule in the table forbids."""
    rule = TABLE[phase][kind]
    if to not in rule.to:
        raise LeftItsRow(phase.value, kind.__name__, f"it went to `{to.value}`")
    for effect in effects:
        if type(effect) not in rule.may:
            raise LeftItsRow(phase.value, kind.__name__, f"it asked for `{type(effect).__name__}`")


def _count_work(draft: StepDraft) -> None:
    """Start or stop counting the time in which the session works, if one of its plugins needs it.

    A long time is added up in between too, because what is not yet added up is lost if the process ends.
    """
    state = draft.state
    since, works = state.working_since_ms, False
    for attached in state.plugins:  # a plain loop for speed: this runs in each step, and few plugins need the time
        if attached.counts_work:
            works = state.runs_without_person
            break
    if since is not None and (not works or (draft.at - since >= COUNTED_EVERY and (draft.events or draft.effects))):
        state.worked_ms = state.worked(draft.at)
        state.working_since_ms = draft.at if works else None
    elif works and since is None:
        state.working_since_ms = draft.at


def _log_errors(draft: StepDraft, ruling: Ruling) -> None:
    """Log plugins that failed on the session's last events: after `SessionEnded` no event may report them."""
    for error in ruling.errors:
        if isinstance(error, PluginError):
            fields = freeze_object({"plugin": error.plugin, "hook": error.hook, "error": error.error})
            draft.add_effect(WriteLog("error", "a plugin broke when the session had ended", fields))


def _learn(draft: StepDraft) -> None:
    """Show the step's events to plugins with `on_event`; events that this causes are never shown to them.

    If a critical plugin fails here, the open turn is aborted under the table's rule for an abort.
    """
    state = draft.state
    if len(state.plugin_states) != len(state.plugins):
        return
    ruling = draft.hook_runner.learn(tuple(draft.events), state.row, draft.context, dict(state.listener_failures))
    if ruling is UNLEARNT:  # the usual case
        draft.rulings.append(ruling)
        return
    draft.record_ruling(ruling, report=state.phase is not Phase.ENDED)
    for level, message, fields in ruling.logs:
        draft.add_effect(WriteLog(level, message, fields))
    if state.phase is Phase.ENDED:
        _log_errors(draft, ruling)
        return
    if ruling.errors:
        failures = dict(state.listener_failures)
        for error in ruling.errors:
            if isinstance(error, PluginError):
                failures[error.plugin] = failures.get(error.plugin, 0) + 1
        state.listener_failures = tuple(failures.items())
    if ruling.critical and state.turn is not None and state.turn.ended is None:
        _abort_for(draft, ruling)


def _abort_for(draft: StepDraft, ruling: Ruling) -> None:
    """Abort the turn because a critical plugin failed in `on_event`; calls that this step would start do not start."""
    phase = draft.state.phase
    begun, draft.effects = draft.effects, []
    calls = {effect.call_id for effect in begun if isinstance(effect, StartCall)}
    asks = {effect.ask_id for effect in begun if isinstance(effect, CarryOut)}
    _take_back_starts(draft, calls | asks)
    for call in draft.state.batch.calls if draft.state.batch is not None else ():
        if call.call_id in calls:
            has_run = call.attempt > 1 or call.person_answer is not None
            put(draft, call.but(status=CallStatus.READY, started_at=call.started_at if has_run else 0))
    recall(draft)
    endings.abort_turn(draft, "critical", f"{ruling.by}: {ruling.reason}", partial=draft.partial)
    drain(draft)
    _audit(phase, AbortSent, draft.state.phase, draft.effects)
    kept_effects = [effect for effect in begun if not isinstance(effect, StartCall | CarryOut)]
    draft.effects = [
        effect
        for effect in (*kept_effects, *draft.effects)
        if not (isinstance(effect, CancelAsk) and effect.ask_id in asks)
    ]


def _take_back_starts(draft: StepDraft, ids: set[str]) -> None:
    """Remove the events that say that the calls and plugins' tools of these *ids* have started: they do not start.

    Plugins have seen them. The events after one that is removed get the numbers that follow.
    """
    state = draft.state
    taken_back = {
        envelope.event.call_id
        for envelope in draft.events
        if isinstance(envelope.event, ToolExecutionStart) and envelope.event.call_id in ids
    }
    if not taken_back:
        return
    state.last_seq -= len(draft.events)
    kept_events = [
        envelope
        for envelope in draft.events
        if not (isinstance(envelope.event, ToolExecutionStart) and envelope.event.call_id in taken_back)
    ]
    draft.events = [envelope.but(seq=state.last_seq + index) for index, envelope in enumerate(kept_events, 1)]
    state.last_seq += len(kept_events)
    state.suspended_runs = tuple(
        [run.but(started_at=None) if run.ask_id in taken_back else run for run in state.suspended_runs]
    )


def redo(state: State, arrival: Arrival, hook_runner: RecordedRunner, began: str | None = None) -> Step:
    """Make a recorded step again; raise `ReplayDiffers` if it asks for other rulings than *hook_runner* has recorded.

    *began* is the id of the request whose response began before the step.
    """
    again = step(state if began is None else responses.begun(state, began), arrival, hook_runner)
    hook_runner.check_all_used()
    return again

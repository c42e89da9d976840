"""Recovery: a session is back from its journal. What was under way is run again, probed, or declared unknown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from agentrail.core.machine.configuration import REPORTS, put_tools, removed_names
from agentrail.core.machine.draft import StepDraft
from agentrail.core.machine.endings import RETRY_TIMER
from agentrail.core.machine.in_doubt_calls import remember
from agentrail.core.machine.requests import request
from agentrail.core.machine.resting import again, let_rest, rest, wake
from agentrail.core.machine.subagents import bring_back
from agentrail.core.machine.tool_results import GRACE_TIMER, call_timer, doubt, has_its_tool, put, tell_of
from agentrail.core.machine.tool_runs import advance_batch, give_up, probe
from agentrail.core.vocabulary import commands
from agentrail.core.vocabulary.effects import ReportStart, SetTimer
from agentrail.core.vocabulary.inputs import SessionBranched, SessionReturned
from agentrail.core.vocabulary.state import AttachedTool, Phase, PluginChange, State, Suspension
from agentrail.core.vocabulary.tool_calls import Call, CallStatus, Hold, can_be_probed
from agentrail.errors import PluginMismatch
from agentrail.hooks.actions import RunTool
from agentrail.hooks.attachments import AttachedPlugin
from agentrail.hooks.ruling import NO_DECISIONS, START, Verdict
from agentrail.values.events.context import CompactEnd
from agentrail.values.events.life import SessionRecovered
from agentrail.values.events.plugins import PluginAttached, PluginOptsUpdated, PluginUpgraded
from agentrail.values.events.response import Retry
from agentrail.values.events.tools import ToolAttached, ToolDetached, ToolsUpdated
from agentrail.values.json import JsonObject, freeze_object
from agentrail.values.tools import CAN_RUN_AGAIN, EffectClass, err

ENDED = "the process ended"
"""Reason given for work that the end of a process interrupted."""

MAX_RUNS = 3
"""The most attempts of a `pure` or `idempotent` call if the process ends during each: the call may be the cause."""


def on_returned(draft: StepDraft, returned: SessionReturned) -> None:
    """Continue a session rebuilt from its journal, with the current code; refuse if a plugin does."""
    problem = reattach(draft, returned.attached_plugins, returned.options)
    if problem is not None:
        draft.refuse(problem)
        return
    state = draft.state
    draft.answer = commands.DONE
    state.incarnation = returned.incarnation  # what waits keeps its id; a copy that comes back elsewhere makes others
    state.asleep = False
    if state.working_since_ms is not None:
        state.working_since_ms = draft.at  # the time in which no process ran the session does not count
    draft.emit(SessionRecovered(returned.records))
    for timer, due_ms in state.timers:
        draft.add_effect(SetTimer(timer, due_ms))
    change_tools(draft, returned)
    draft.put_sections(returned.sections)
    _renew_changes(draft, returned.waiting)
    _drop_changes(draft, returned.without)
    _tell_of_lost(draft, returned.lost)
    _end_detached(draft)
    bring_back(draft, f"{ENDED} while it ran", pause=returned.pause)
    _settle(draft, pause=returned.pause)
    draft.due.clear()  # `go_on` finds what is due
    if returned.pause and state.turn is not None and state.turn.ended is None:
        _pause(draft)
    elif state.is_paused:
        wake(draft)
    else:
        draft.wakes = state.phase is not Phase.IDLE
    draft.add_effect(ReportStart())


def on_resumed(draft: StepDraft, _: commands.ResumeSent) -> None:
    """Continue the turn that was paused by the recovery."""
    draft.answer = commands.DONE
    if draft.state.is_paused:
        wake(draft)


# The code of this process


def reattach(
    draft: StepDraft,
    attached_plugins: tuple[AttachedPlugin, ...],
    options: tuple[tuple[str, tuple[str, ...]], ...] = (),
) -> PluginMismatch | None:
    """Replace the plugins by *attached_plugins*, some with new options; return the error of one that refuses."""
    state = draft.state
    old_plugins = zip(state.plugins, state.plugin_states, strict=True)
    old_rows = {attached.key: (attached, plugin_state) for attached, plugin_state in old_plugins}
    states: list[object] = []
    upgraded: list[PluginUpgraded] = []
    joined: list[PluginAttached] = []
    others = {key: PluginOptsUpdated(key, success=True, dropped=dropped) for key, dropped in options}
    for attached in attached_plugins:
        old, plugin_state = old_rows.get(attached.key, (None, None))
        if old is not None and old.version == attached.version:
            differing = _differing(old.options, attached.options)
            if attached.key in others and differing:
                decided = draft.hook_runner.options(attached, plugin_state, differing)
                draft.rulings.append(decided)
                if decided.verdict is not Verdict.PASS:
                    problem = f"it does not take its options: {decided.reason}"
                    return PluginMismatch(state.session_id, attached.key, problem)
                plugin_state = decided.states[0][1]
            states.append(plugin_state)
            continue
        hook_runner = draft.hook_runner
        is_new = old is None
        ruling = hook_runner.init(attached, draft.context) if is_new else hook_runner.upgrade(attached, plugin_state)
        draft.rulings.append(ruling)
        if ruling.verdict is not Verdict.PASS:
            return PluginMismatch(state.session_id, attached.key, ruling.reason)
        states.append(ruling.states[0][1])
        if old is None:
            joined.append(PluginAttached(attached.key))
            continue
        upgraded.append(PluginUpgraded(attached.key, old.version, attached.version))
    guards = _guards(state.plugins)
    state.plugins, state.plugin_states = attached_plugins, tuple(states)
    if tuple(old_rows) != tuple(attached.key for attached in attached_plugins):
        _take_new_indices(draft)
    elif guards != _guards(attached_plugins):
        _ask_guards_again(draft)
    draft.emit(*upgraded, *others.values(), *joined)
    return None


def _guards(attached_plugins: tuple[AttachedPlugin, ...]) -> list[tuple[str, int, JsonObject]]:
    """Return the plugins that may not be passed by for a call, with what decides how they rule."""
    return [
        (attached.key, attached.version, attached.options)
        for attached in attached_plugins
        if attached.critical and "before_tool" in attached.hooks
    ]


def _differing(old: JsonObject, new: JsonObject) -> JsonObject:
    """Return the options of *new* that are missing or different in *old*."""
    return freeze_object({name: value for name, value in new.items() if name not in old or old[name] != value})


def _take_new_indices(draft: StepDraft) -> None:
    """Adapt paused hooks and held calls to the new list of plugins.

    A paused hook continues at the plugin that asked; new security plugins before it rule at the end. A held call is
    ruled on again.
    """
    state = draft.state
    indices = {attached.key: index for index, attached in enumerate(state.plugins)}
    state.suspended_runs = tuple(_moved(suspension, indices[suspension.plugin]) for suspension in state.suspended_runs)
    for call in () if state.batch is None else state.batch.calls:
        if call.hold is not None:
            put(draft, call.but(hold=call.hold.but(position=START, decisions=NO_DECISIONS)))


def _ask_guards_again(draft: StepDraft) -> None:
    """Have critical plugins rule at the end on calls that they have let pass, as some have other options now.

    A block that is set while a call waits holds for that call too. What rewrites arguments is not asked again.
    """
    state = draft.state
    state.suspended_runs = tuple(_moved(waiting, waiting.pause.position.index) for waiting in state.suspended_runs)
    for call in () if state.batch is None else state.batch.calls:
        if call.hold is not None:
            put(draft, call.but(hold=_ruled_at_the_end(call.hold)))


def _ruled_at_the_end(hold: Hold) -> Hold:
    if hold.position.final:
        return hold.but(position=hold.position.but(index=0))
    return hold.but(decisions=hold.decisions.but(replaced_at=hold.position.index))


def _moved(waiting: Suspension, to: int) -> Suspension:
    """Return the suspended run *waiting* so that it continues at plugin index *to*."""
    pause = waiting.pause.but(position=waiting.pause.position.but(index=to))
    if waiting.hook.hook_name != "before_tool":
        return waiting.but(pause=pause)
    return waiting.but(pause=pause, decisions=waiting.decisions.but(replaced_at=to))


def change_tools(draft: StepDraft, returned: SessionReturned | SessionBranched) -> None:
    """Attach the tools that are new or changed in the current code, and detach those that are gone."""
    if not returned.tools and not returned.removed_tools:
        return
    state = draft.state
    tools = {name: tool for name, tool in state.tools.items() if name not in returned.removed_tools}
    brought = {spec.name: attached.key for attached in state.plugins for spec in attached.tools}
    tools |= {
        spec.name: AttachedTool(spec, returned.revision, plugin=brought.get(spec.name, "")) for spec in returned.tools
    }
    put_tools(draft, tools)
    state.removed_tools = removed_names(state.removed_tools, returned.removed_tools, tools)
    names = tuple(spec.name for spec in returned.tools)
    draft.emit(*(ToolDetached(name) for name in returned.removed_tools), *(ToolAttached(name) for name in names))
    draft.emit(ToolsUpdated(names, returned.removed_tools))


def _renew_changes(draft: StepDraft, attached_plugins: tuple[AttachedPlugin, ...]) -> None:
    """Update queued plugin changes to the plugin descriptions in the current code."""
    renewed = {(attached.key, attached.revision): attached for attached in attached_plugins}
    changes = (_renewed(change, renewed) for change in draft.state.plugin_changes)
    draft.state.plugin_changes = tuple(change for change in changes if change is not None)


def _renewed(change: PluginChange, attached_plugins: Mapping[tuple[str, int], AttachedPlugin]) -> PluginChange | None:
    """Return *change* with the current description of its plugin; `None` if the code overrides all its options."""
    attached = (
        None if change.attached is None else attached_plugins.get((change.attached.key, change.attached.revision))
    )
    if attached is None:
        return change
    options = freeze_object({name: value for name, value in change.options.items() if name in attached.changed})
    return None if change.options and not options else change.but(attached=attached, options=options)


def _drop_changes(draft: StepDraft, keys: tuple[str, ...]) -> None:
    """Report the queued changes of plugins without code as failed, and drop them."""
    dropped = tuple(change for change in draft.state.plugin_changes if change.key in keys)
    if dropped:
        draft.state.plugin_changes = tuple(change for change in draft.state.plugin_changes if change.key not in keys)
        error = f"{ENDED}, and its code is not there any more"
        draft.emit(*(REPORTS[change.kind](change.key, success=False, error=error) for change in dropped))


def _tell_of_lost(draft: StepDraft, lost: tuple[str, ...]) -> None:
    """Queue a notice for the model that names the tools, plugins and jobs that did not survive the restart."""
    state = draft.state
    lost_parts = (*(f"the command in the background {job}" for job in state.background_jobs), *lost)
    state.background_jobs = ()
    if lost_parts:
        state.notices = (
            *state.notices,
            f"{ENDED.capitalize()} and was started again. Gone with it: {'; '.join(lost_parts)}.",
        )


# What was under way


def _end_detached(draft: StepDraft) -> None:
    """Report the calls that were left running in the background as ended: they ended with the process.

    Cancelled calls that had not ended are dropped without an event: their results were given when they were cancelled.
    """
    state = draft.state
    lingering, state.lingering_calls, state.quarantined_calls = state.lingering_calls, (), ()
    draft.clear_timer(GRACE_TIMER)
    for detached in lingering:
        draft.clear_timer(call_timer(detached.call_id))
        remember(draft, detached.doubt)
        what = doubt(None) if detached.doubt is not None else "its answer is lost"
        tell_of(draft, detached, err(f"{ENDED} while it ran; {what}"))


def _settle(draft: StepDraft, *, pause: bool) -> None:
    """Note that all work that was under way has stopped; start nothing yet (`go_on`)."""
    state = draft.state
    if state.request is not None and state.turn is not None:
        draft.emit(Retry(state.turn.attempt, 0, ENDED, dropped_text=state.phase is Phase.STREAMING))
        state.request = None
        state.phase = Phase.RUNNING
        state.turn = state.turn.but(last_error=ENDED)
    if state.compaction is not None and state.compaction.running:
        state.compaction = state.compaction.but(running=False)
        draft.emit(CompactEnd(0, ENDED))
    for call in () if state.batch is None else state.batch.calls:
        if call.status is CallStatus.RUNNING:
            _settle_call(draft, call, pause=pause)
    if not state.is_paused:
        state.suspended_runs = tuple(suspension.but(is_sent=False) for suspension in state.suspended_runs)


def _settle_call(draft: StepDraft, call: Call, *, pause: bool) -> None:
    """Decide what becomes of an interrupted call: wait for its sub-agent, run again, probe, or unknown outcome."""
    if any(agent.call_id == call.call_id and not agent.background for agent in draft.state.subagents):
        if pause:
            let_rest(draft, call)
        else:
            again(draft, call)
        return
    if runs_again(call):
        draft.clear_timer(call_timer(call.call_id))
        put(draft, call.but(status=CallStatus.READY, attempt=call.attempt + 1))
    elif can_be_probed(call.spec) and has_its_tool(draft, call):
        draft.clear_timer(call_timer(call.call_id))
        put(draft, call.but(status=CallStatus.SETTLING))
    else:
        give_up(draft, call)


def runs_again(call: Call) -> bool:
    """Whether a call that the end of the process interrupts is made again."""
    effect = EffectClass.UNSAFE if call.spec is None else call.spec.effect
    retries = 0 if call.spec is None else call.spec.retries or 0
    return effect in CAN_RUN_AGAIN and call.attempt < max(MAX_RUNS, 1 + retries)


class RiskyCall(NamedTuple):
    """A running call that would not be run again after the end of the process."""

    tool: str
    """Name of the tool."""
    call_id: str
    """Id of the call, or of the plugin's request that runs the tool."""


def risky_calls(state: State) -> tuple[RiskyCall, ...]:
    """Return the running calls whose outcome may stay unknown if the process ends now.

    A call that only waits for its sub-agent is none of them: it finds the sub-agent again. A `checkable` call is one,
    because its probe may not know what became of it.
    """
    calls = () if state.batch is None else state.batch.calls.among(CallStatus.RUNNING)
    calls_ = [RiskyCall(call.name, call.call_id) for call in calls if not (runs_again(call) or _has_subagent(call))]
    calls_ += [
        RiskyCall(detached.name, detached.call_id) for detached in state.lingering_calls if not detached.reported
    ]
    for waiting in state.suspended_runs:
        request = waiting.pause.request
        if isinstance(request, RunTool) and waiting.started_at is not None:
            attached = state.tools.get(request.name)
            if attached is None or attached.spec.effect not in CAN_RUN_AGAIN:
                calls_.append(RiskyCall(request.name, waiting.ask_id))
    return tuple(calls_)


def _has_subagent(call: Call) -> bool:
    """Whether the tool of *call* starts sub-agents."""
    return call.spec is not None and "agents" in call.spec.requires


def _pause(draft: StepDraft) -> None:
    """Put the open turn to rest until `resume`, so that nothing of it continues by itself."""
    state = draft.state
    draft.clear_timer(RETRY_TIMER)
    for suspension in state.suspended_runs:
        draft.clear_timer(f"ask:{suspension.ask_id}")
    state.is_paused = state.is_paused or state.phase is not Phase.IDLE
    rest(draft)


def go_on(draft: StepDraft, *, had_asks: bool) -> None:
    """Go on with work that the end of a process has interrupted, but for asks of plugins (*had_asks*: if any).

    A hook that waits for an ask is the only work of its session, unless it is about one call of a batch.
    """
    state = draft.state
    if state.batch is not None:
        waiting = {run.ref for run in state.suspended_runs} | {ref for _, ref in draft.due}
        returned = [call.call_id for call in state.batch.calls.among(CallStatus.RETURNED)]
        hooks = [("after_tool", call_id) for call_id in returned if call_id not in waiting]
        for call in tuple(state.batch.calls.among(CallStatus.SETTLING)):
            probe(draft, call.call_id)
        draft.due.extendleft(reversed(hooks))
        if not hooks:  # else other calls start when the first result has been passed on
            advance_batch(draft)
    elif had_asks:
        return
    elif state.compaction is not None:
        draft.due.appendleft(("before_compact", ""))
    elif state.turn is not None and state.request is None and not draft.has_timer(RETRY_TIMER):
        request(draft)

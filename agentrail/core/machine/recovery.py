"""Recovery: a session is back from its journal. What was under way is run again, probed, or declared unknown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from agentrail.core.machine.configuration import REPORTS, gone, put_tools
from agentrail.core.machine.draft import StepDraft
from agentrail.core.machine.endings import RETRY_TIMER
from agentrail.core.machine.in_doubt_calls import remember
from agentrail.core.machine.resting import again, let_rest, rest, wake
from agentrail.core.machine.subagents import bring_back
from agentrail.core.machine.tool_results import GRACE_TIMER, call_timer, doubt, has_its_tool, put, tell_of
from agentrail.core.machine.tool_runs import CAN_RUN_AGAIN, give_up
from agentrail.core.vocabulary import commands
from agentrail.core.vocabulary.effects import ReportStart, SetTimer
from agentrail.core.vocabulary.inputs import SessionBranched, SessionReturned
from agentrail.core.vocabulary.state import Attached, Due, Phase, PluginChange, State, Suspension
from agentrail.core.vocabulary.tool_calls import Call, CallStatus, can_be_probed
from agentrail.errors import PluginMismatch
from agentrail.hooks.actions import RunTool
from agentrail.hooks.attachments import AttachedPlugin
from agentrail.hooks.ruling import NOTHING_GATHERED, START, Verdict
from agentrail.values.events.context import CompactEnd
from agentrail.values.events.life import SessionRecovered
from agentrail.values.events.plugins import PluginAttached, PluginOptsUpdated, PluginUpgraded
from agentrail.values.events.response import Retry
from agentrail.values.events.tools import ToolAttached, ToolDetached, ToolsUpdated
from agentrail.values.json import JsonObject, freeze_object
from agentrail.values.tools import EffectClass, err

ENDED = "the process ended"
"""Reason given for work that the end of a process interrupted."""

MAX_RUNS = 3
"""The most attempts of a `pure` or `idempotent` call if the process ends during each: the call may be the cause."""


def on_returned(w: StepDraft, returned: SessionReturned) -> None:
    """Continue a session rebuilt from its journal with the code of now; change nothing if a plugin refuses."""
    problem = reseat(w, returned.seats, returned.options)
    if problem is not None:
        w.refuse(problem)
        return
    s = w.s
    w.answer = commands.DONE
    s.asleep = False
    if s.working_since is not None:
        s.working_since = w.at  # nothing worked until now
    w.emit(SessionRecovered(returned.records))
    for timer, at in s.timers:
        w.ask(SetTimer(timer, at))
    change_tools(w, returned)
    w.put_sections(returned.sections)
    _renew_changes(w, returned.waiting)
    _drop_changes(w, returned.without)
    _tell_of_lost(w, returned.lost)
    _end_strays(w)
    bring_back(w, f"{ENDED} while it ran", pause=returned.pause)
    _settle(w, pause=returned.pause)
    if not returned.pause:
        if s.paused:
            wake(w)
    elif s.turn is not None and s.turn.ended is None:
        _pause(w)
    w.ask(ReportStart())


def on_resumed(w: StepDraft, _: commands.ResumeSent) -> None:
    """Continue a turn that was paused when the session came back."""
    w.answer = commands.DONE
    if w.s.paused:
        wake(w)


# The code of this process


def reseat(
    w: StepDraft, seats: tuple[AttachedPlugin, ...], options: tuple[tuple[str, tuple[str, ...]], ...] = ()
) -> PluginMismatch | None:
    """Replace the session's plugins by *seats*, some with new options; return why one refuses, or `None`."""
    s = w.s
    before = {seat.key: (seat, state) for seat, state in zip(s.seats, s.plugin_states, strict=True)}
    states: list[object] = []
    upgraded: list[PluginUpgraded] = []
    joined: list[PluginAttached] = []
    others = {key: PluginOptsUpdated(key, success=True, dropped=dropped) for key, dropped in options}
    for seat in seats:
        old, state = before.get(seat.key, (None, None))
        if old is not None and old.version == seat.version:
            differing = _differing(old.options, seat.options)
            if seat.key in others and differing:
                decided = w.judge.options(seat, state, differing)
                w.rulings.append(decided)
                if decided.verdict is not Verdict.PASS:
                    return PluginMismatch(s.session_id, seat.key, f"it does not take its options: {decided.reason}")
                state = decided.states[0][1]
            states.append(state)
            continue
        ruling = w.judge.init(seat, w.context) if old is None else w.judge.upgrade(seat, state)
        w.rulings.append(ruling)
        if ruling.verdict is not Verdict.PASS:
            return PluginMismatch(s.session_id, seat.key, ruling.reason)
        states.append(ruling.states[0][1])
        if old is None:
            joined.append(PluginAttached(seat.key))
        else:
            upgraded.append(PluginUpgraded(seat.key, old.version, seat.version))
    s.seats, s.plugin_states = seats, tuple(states)
    if tuple(before) != tuple(seat.key for seat in seats):
        _take_new_places(w)
    w.emit(*upgraded, *others.values(), *joined)
    return None


def _differing(old: JsonObject, new: JsonObject) -> JsonObject:
    """Return the options of *new* that are not those of *old*."""
    return freeze_object({name: value for name, value in new.items() if name not in old or old[name] != value})


def _take_new_places(w: StepDraft) -> None:
    """Adapt paused hooks and held calls to the new list of plugins.

    A paused hook continues at the plugin that asked; new security plugins before it rule at the end. A held call is
    ruled on again.
    """
    s = w.s
    places = {seat.key: place for place, seat in enumerate(s.seats)}
    s.suspended = tuple(_moved(suspension, places[suspension.plugin]) for suspension in s.suspended)
    for call in () if s.batch is None else s.batch.calls:
        if call.hold is not None:
            put(w, call.but(hold=call.hold.but(place=START, gathered=NOTHING_GATHERED)))


def _moved(waiting: Suspension, to: int) -> Suspension:
    pause = waiting.pause.but(place=waiting.pause.place.but(seat=to))
    if waiting.hook.moment != "before_tool":
        return waiting.but(pause=pause)
    return waiting.but(pause=pause, gathered=waiting.gathered.but(replaced_at=to))


def change_tools(w: StepDraft, returned: SessionReturned | SessionBranched) -> None:
    """Add or replace the tools that are new or changed in the code, and remove those that are gone."""
    if not returned.tools and not returned.gone:
        return
    s = w.s
    tools = {name: attached for name, attached in s.tools.items() if name not in returned.gone}
    brought = {spec.name: seat.key for seat in s.seats for spec in seat.tools}
    tools |= {
        spec.name: Attached(spec, returned.revision, plugin=brought.get(spec.name, "")) for spec in returned.tools
    }
    put_tools(w, tools)
    s.gone_tools = gone(s.gone_tools, returned.gone, tools)
    names = tuple(spec.name for spec in returned.tools)
    w.emit(*(ToolDetached(name) for name in returned.gone), *(ToolAttached(name) for name in names))
    w.emit(ToolsUpdated(names, returned.gone))


def _renew_changes(w: StepDraft, seats: tuple[AttachedPlugin, ...]) -> None:
    """Update the queued plugin changes to the descriptions that the code of now gives."""
    renewed = {(seat.key, seat.revision): seat for seat in seats}
    changes = (_renewed(change, renewed) for change in w.s.changes)
    w.s.changes = tuple(change for change in changes if change is not None)


def _renewed(change: PluginChange, seats: Mapping[tuple[str, int], AttachedPlugin]) -> PluginChange | None:
    """Return *change* as the code of now describes it, without options that it overrides; `None` if none is left."""
    seat = None if change.seat is None else seats.get((change.seat.key, change.seat.revision))
    if seat is None:
        return change
    options = freeze_object({name: value for name, value in change.options.items() if name in seat.changed})
    return None if change.options and not options else change.but(seat=seat, options=options)


def _drop_changes(w: StepDraft, keys: tuple[str, ...]) -> None:
    """Report queued plugin changes as failed if the plugin's code no longer exists."""
    dropped = tuple(change for change in w.s.changes if change.key in keys)
    if dropped:
        w.s.changes = tuple(change for change in w.s.changes if change.key not in keys)
        error = f"{ENDED}, and its code is not there any more"
        w.emit(*(REPORTS[change.kind](change.key, success=False, error=error) for change in dropped))


def _tell_of_lost(w: StepDraft, lost: tuple[str, ...]) -> None:
    """Queue a notice for the next request that names tools, plugins and jobs that no longer exist."""
    s = w.s
    gone = (*(f"the command in the background {job}" for job in s.jobs), *lost)
    s.jobs = ()
    if gone:
        s.notices = (*s.notices, f"{ENDED.capitalize()} and was started again. Gone with it: {'; '.join(gone)}.")


# What was under way


def _end_strays(w: StepDraft) -> None:
    """Report the calls that were left running in the background: they ended with the process.

    The cancelled calls ended too. They are only forgotten, because their results were given when they were cancelled.
    """
    s = w.s
    lingering, s.lingering, s.quarantined = s.lingering, (), ()
    w.clear_timer(GRACE_TIMER)
    for stray in lingering:
        w.clear_timer(call_timer(stray.call_id))
        remember(w, stray.doubt)
        what = doubt(None) if stray.doubt is not None else "its answer is lost"
        tell_of(w, stray, err(f"{ENDED} while it ran; {what}"))


def _settle(w: StepDraft, *, pause: bool) -> None:
    """Plan what to do about everything that was under way, and start nothing yet."""
    s = w.s
    if s.request is not None and s.turn is not None:
        w.emit(Retry(s.turn.attempt, 0, ENDED, dropped_text=s.phase is Phase.STREAMING))
        s.request = None
        s.phase = Phase.RUNNING
        s.turn = s.turn.but(last_error=ENDED)
        w.next("request")
    if s.compaction is not None and s.compaction.running:
        s.compaction = s.compaction.but(running=False)
        w.emit(CompactEnd(0, ENDED))
        w.next("before_compact")
    for call in () if s.batch is None else s.batch.calls:
        if call.status is CallStatus.RUNNING:
            _settle_call(w, call, pause=pause)
    if s.phase is Phase.EXECUTING_TOOLS:
        w.later("advance_batch")
    if not s.paused:
        s.suspended = tuple(suspension.but(asked=False) for suspension in s.suspended)
        for suspension in s.suspended:
            w.next("ask_again", suspension.ask_id)


def _settle_call(w: StepDraft, call: Call, *, pause: bool) -> None:
    """Plan for an interrupted call: wait for its sub-agent again, run it again, probe it, or declare it unknown."""
    if any(agent.call_id == call.call_id and not agent.background for agent in w.s.subagents):
        if pause:
            let_rest(w, call)
        else:
            again(w, call)
        return
    if runs_again(call):
        w.clear_timer(call_timer(call.call_id))
        put(w, call.but(status=CallStatus.READY, attempt=call.attempt + 1))
    elif can_be_probed(call.spec) and has_its_tool(w, call):
        w.clear_timer(call_timer(call.call_id))
        put(w, call.but(status=CallStatus.SETTLING))
        w.next("probe", call.call_id)
    else:
        give_up(w, call)


def runs_again(call: Call) -> bool:
    """Whether a call that the end of the process interrupts is made again."""
    effect = EffectClass.UNSAFE if call.spec is None else call.spec.effect
    return effect in CAN_RUN_AGAIN and call.attempt < MAX_RUNS


class RiskyCall(NamedTuple):
    """A running call that is not made again after the end of the process."""

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
    calls_ += [RiskyCall(stray.name, stray.call_id) for stray in state.lingering if not stray.reported]
    for waiting in state.suspended:
        request = waiting.pause.request
        if isinstance(request, RunTool) and waiting.started_at is not None:
            attached = state.tools.get(request.name)
            if attached is None or attached.spec.effect not in CAN_RUN_AGAIN:
                calls_.append(RiskyCall(request.name, waiting.ask_id))
    return tuple(calls_)


def _has_subagent(call: Call) -> bool:
    return call.spec is not None and "agents" in call.spec.requires


def _pause(w: StepDraft) -> None:
    """Keep what is due aside until `resume`, so that the open turn does not continue by itself."""
    s = w.s
    waits = any(timer == RETRY_TIMER for timer, _ in s.timers)
    w.clear_timer(RETRY_TIMER)
    for suspension in s.suspended:
        w.clear_timer(f"ask:{suspension.ask_id}")
    s.paused, s.due = (*s.due, *((Due("request"),) if waits else ()), *s.paused), ()
    rest(w)

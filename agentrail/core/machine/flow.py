"""Order of work inside a step: run the due hooks one by one, until none is left; one that must wait is suspended."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from agentrail.core.machine import (
    configuration,
    endings,
    prompts,
    recovery,
    requests,
    responses,
    steering,
    tool_checks,
    tool_runs,
)
from agentrail.core.machine.draft import StepDraft
from agentrail.core.machine.in_doubt_calls import find_doubt, hint_about
from agentrail.core.machine.tool_results import doubt, drop_rulings_on, standing_approvals, tell_of_asked
from agentrail.core.vocabulary.effects import CarryOut
from agentrail.core.vocabulary.inputs import AskSettled, CallsEnded, ToolRaised, ToolReturned, ToolStopped
from agentrail.core.vocabulary.state import Suspension
from agentrail.hooks.actions import Answered, AskAnswer, ChangeTools, Errand, Failed, RunTool, TimedOut
from agentrail.hooks.hook_runner import NO_CONSENT, Consent
from agentrail.hooks.hook_types import BeforeTool, Hook
from agentrail.hooks.ruling import ASK, NO_DECISIONS, PASS, SKIP, START, UNRULED, Decisions, Position, Ruling
from agentrail.values.events.plugins import AskAnswered, AskStarted
from agentrail.values.events.tools import ToolExecutionStart
from agentrail.values.json import JsonObject
from agentrail.values.tools import CAN_RUN_AGAIN
from agentrail.values.value import quick

_started = quick(AskStarted)
_answered = quick(AskAnswered)

Begin = Callable[[StepDraft, str], Hook | None]
Finish = Callable[[StepDraft, str, Hook, Ruling], None]

FLOW: Final[Mapping[str, tuple[Begin, Finish]]] = {
    "session_start": (prompts.begin_session_start, prompts.finish_session_start),
    "session_end": (endings.begin_session_end, endings.finish_session_end),
    "after_turn": (endings.begin_after_turn, endings.finish_after_turn),
    "before_prompt": (prompts.begin_before_prompt, prompts.finish_before_prompt),
    "before_request": (requests.begin_before_request, requests.finish_before_request),
    "after_response": (responses.begin_after_response, responses.finish_after_response),
    "before_tool": (tool_checks.begin_before_tool, tool_checks.finish_before_tool),
    "on_tool_error": (tool_runs.begin_on_tool_error, tool_runs.finish_on_tool_error),
    "after_tool": (tool_runs.begin_after_tool, tool_runs.finish_after_tool),
    "after_tool_batch": (tool_runs.begin_after_tool_batch, tool_runs.finish_after_tool_batch),
    "before_finish": (responses.begin_before_finish, responses.finish_before_finish),
    "before_compact": (requests.begin_before_compact, requests.finish_before_compact),
    "before_steering": (steering.begin_before_steering, steering.finish_before_steering),
    "before_plugin_opts_update": (configuration.begin_opts_update, configuration.finish_opts_update),
}
"""For each hook: the function that builds it, and the function that applies the plugins' ruling."""

OF_ONE_CALL: Final = frozenset({"before_tool", "on_tool_error", "after_tool"})
"""Hooks about one tool call: several of them may be paused at the same time."""

IN_THE_STEP: Final = frozenset({RunTool, ChangeTools})
"""Requests of plugins that are ruled on or carried out in the step; the others are handed to the runtime at once."""

NESTED: Final = "cannot be run to rule on a tool that a plugin runs"
"""Why a plugin that rules on the tool run of another plugin may not run a tool itself: that one would be ruled on too.
"""


def drain(draft: StepDraft) -> None:
    """Run what is due, in order, until nothing is left."""
    due = draft.due
    while True:
        if draft.wakes:
            draft.wakes = False
            _wake(draft)
        elif due:
            _run(draft, *due.popleft())
        elif draft.settles:
            draft.settles = False
            prompts.settle(draft)
        else:
            return


def _wake(draft: StepDraft) -> None:
    """Go on with work that the end of a process has interrupted: repeat the asks of plugins, then all else."""
    waiting = draft.state.suspended_runs
    for run in waiting:
        ask_again(draft, run.ask_id)
    recovery.go_on(draft, had_asks=bool(waiting))


def _run(draft: StepDraft, hook_name: str, ref: str) -> None:
    """Run one due hook. One that no plugin has is finished at once."""
    begin, finish = FLOW[hook_name]
    hook = begin(draft, ref)
    if hook is None:
        return
    unheard = draft.hook_runner.unheard(hook_name, draft.state.plugins)
    if unheard is not None:
        draft.rulings.append(unheard)
        finish(draft, ref, hook, unheard)
    elif hook_name == "before_tool":
        position, consent, decisions = tool_checks.where_before_tool(draft, ref)
        _rule(draft, hook, ref, position, decisions, consent)
    else:
        _rule(draft, hook, ref, START, NO_DECISIONS, NO_CONSENT)


def _rule(draft: StepDraft, hook: Hook, ref: str, position: Position, decisions: Decisions, consent: Consent) -> None:
    """Have the plugins rule on *hook*, then finish or suspend it."""
    state = draft.state
    row = state.row
    if hook.hook_name == "before_plugin_opts_update":
        row = row.but(among=frozenset(attached.key for attached in state.plugins if attached.key != ref))
    decided = draft.hook_runner.run(hook, row, draft.context, position, decisions, consent)
    if decided is UNRULED[hook.hook_name]:  # the usual case: no plugin returned more than a `Continue`
        draft.rulings.append(decided)
    else:
        draft.record_ruling(decided)
        if decided.decisions.emits:
            draft.emit(*decided.decisions.emits)
        if decided.verdict is ASK and decided.pause is not None and state.stop_reason is None:
            _suspend(draft, hook, ref, decided)
            return
    FLOW[hook.hook_name][1](draft, ref, hook, decided)


def _suspend(draft: StepDraft, hook: Hook, ref: str, decided: Ruling, run: str = "") -> None:
    """Suspend *hook* until its plugin's ask has ended.

    *run* is the id of the ask whose tool the hook rules on; empty for all other hooks.
    """
    state = draft.state
    pause = decided.pause
    if pause is None or pause.request is None or decided.by is None:
        return
    responses.say_response(draft)
    ask_id = draft.make_id("ask")
    draft.emit(_started(ask_id, decided.by, hook.hook_name, type(pause.request).__name__))
    handed = type(pause.request) not in IN_THE_STEP
    waiting = Suspension(
        ask_id, hook, ref, decided.by, pause, decided.decisions.without_events(), is_sent=handed, run=run
    )
    state.suspended_runs = (*state.suspended_runs, waiting)
    _begin_ask(draft, waiting)
    if hook.hook_name in OF_ONE_CALL and not run and _waiting(draft, ask_id) is not None:
        tool_runs.advance_batch(draft)  # the other calls of the batch go on meanwhile


def _begin_ask(draft: StepDraft, waiting: Suspension) -> None:
    """Begin a plugin's ask: plugins rule on a tool first; a change of tools is made in this step."""
    request = waiting.pause.request
    if isinstance(request, RunTool):
        if waiting.run:
            answer(draft, waiting.ask_id, Failed(f"`{request.name}` {NESTED}"))
        else:
            _screen(draft, waiting, request)
    elif isinstance(request, ChangeTools):
        answer(draft, waiting.ask_id, configuration.change_for(draft, waiting.plugin, request))
    elif request is not None:
        _hand_over(draft, waiting, request)


def _hand_over(draft: StepDraft, waiting: Suspension, request: Errand) -> None:
    """Add the effect that has the runtime carry out a plugin's ask."""
    state = draft.state
    if not waiting.is_sent:
        handed = waiting.but(is_sent=True)
        state.suspended_runs = tuple([handed if other is waiting else other for other in state.suspended_runs])
    draft.add_effect(CarryOut(waiting.ask_id, waiting.plugin, request, state.using[0], draft.key_of(waiting)))
    _set_deadline(draft, waiting)


def _set_deadline(draft: StepDraft, waiting: Suspension) -> None:
    """Set the timer of an ask. No-op if it is set already: the time counts from the first attempt."""
    timer = f"ask:{waiting.ask_id}"
    if waiting.pause.deadline is not None and not draft.has_timer(timer):
        draft.set_timer(timer, draft.at + int(waiting.pause.deadline * 1000))


def _screen(
    draft: StepDraft,
    waiting: Suspension,
    request: RunTool,
    position: Position = START,
    decisions: Decisions = NO_DECISIONS,
) -> None:
    """Have all other plugins rule on the tool that a plugin asks for, and run it only if they allow it.

    If one of these plugins returns an `Ask` itself, the first ask waits. A hold counts as a refusal, because no person
    can be asked here.
    """
    state = draft.state
    tool = state.tools.get(request.name)
    if tool is None:
        answer(draft, waiting.ask_id, Failed(f"there is no tool `{request.name}`"))
        return
    others = frozenset(attached.key for attached in state.plugins if attached.key != waiting.plugin)
    hook = BeforeTool(request.name, request.args, waiting.ask_id)
    consent = Consent(always=state.approved_always)
    decided = draft.hook_runner.run(hook, state.row.but(among=others), draft.context, position, decisions, consent)
    draft.record_ruling(decided)
    draft.emit(*decided.decisions.emits)
    if decided.verdict is ASK and state.stop_reason is None:
        _set_deadline(draft, waiting)
        _suspend(draft, hook, "", decided, waiting.ask_id)
        return
    args = request.args if decided.decisions.args is None else decided.decisions.args
    problem = _why_not_run(draft, request.name, tool.revision, args, decided)
    if problem is not None:
        answer(draft, waiting.ask_id, Failed(problem))
        return
    if waiting.started_at is None:
        standing = standing_approvals(draft, request.name, decided.decisions.families)
        draft.emit(ToolExecutionStart(waiting.ask_id, request.name, args, standing=standing))
        started = waiting.but(started_at=draft.at, incarnation=state.incarnation)
        state.suspended_runs = tuple(started if other is waiting else other for other in state.suspended_runs)
        waiting = started
    _hand_over(draft, waiting, RunTool(request.name, args))


def _why_not_run(draft: StepDraft, tool: str, revision: int, args: JsonObject, decided: Ruling) -> str | None:
    """Return why the tool of a plugin's ask may not run with *args*; `None` if it may."""
    if decided.verdict not in (PASS, SKIP):
        why = "it would have to ask first" if decided.verdict is ASK else decided.reason
        return f"{decided.by} does not let it run: {why}"
    in_doubt = find_doubt(draft, tool, args)
    if in_doubt is not None:
        return hint_about(in_doubt)
    fits = tool_checks.check(draft, tool, revision, args)
    return None if fits.verdict is PASS else fits.reason


def ask_again(draft: StepDraft, ask_id: str) -> None:
    """Repeat an ask that the end of the process interrupted, unless its tool may be unsafe to run twice."""
    state = draft.state
    waiting = _waiting(draft, ask_id)
    if waiting is None or any(other.run == ask_id for other in state.suspended_runs):
        # If plugins still rule on its tool, it has not started; the ask of the plugin that rules is repeated instead.
        return
    request = waiting.pause.request
    if isinstance(request, RunTool) and waiting.started_at is not None:
        attached = state.tools.get(request.name)
        if attached is None or attached.spec.effect not in CAN_RUN_AGAIN:
            answer(draft, ask_id, Failed(f"the process ended while the tool ran; {doubt(None)}"))
            return
    _begin_ask(draft, waiting)


def on_calls_ended(draft: StepDraft, several: CallsEnded) -> None:
    """Handle the ends of several calls as if each came in a step of its own."""
    for call_end in several.ended:
        match call_end:
            case ToolReturned():
                tool_runs.on_returned(draft, call_end)
            case ToolRaised():
                tool_runs.on_raised(draft, call_end)
            case ToolStopped():
                tool_runs.on_stopped(draft, call_end)
        drain(draft)


STATUS: Final[Mapping[type[AskAnswer], str]] = {Answered: "ok", Failed: "failed", TimedOut: "timed_out"}


def on_settled(draft: StepDraft, settled: AskSettled) -> None:
    """Resume the hook whose ask has ended: call the plugin again with the answer."""
    draft.add_usage(settled.usage)
    answer(draft, settled.ask_id, settled.answer)


def _waiting(draft: StepDraft, ask_id: str) -> Suspension | None:
    """Return the suspended run that waits for *ask_id*; `None` if there is none."""
    for other in draft.state.suspended_runs:
        if other.ask_id == ask_id:
            return other
    return None


def answer(draft: StepDraft, ask_id: str, ask_answer: AskAnswer) -> None:
    """Resume the hook that waits for *ask_id* with the answer. No-op if that hook was dropped meanwhile."""
    state = draft.state
    waiting = _waiting(draft, ask_id)
    if waiting is None:
        return
    state.suspended_runs = tuple([other for other in state.suspended_runs if other is not waiting])
    draft.clear_timer(f"ask:{ask_id}")
    if isinstance(waiting.pause.request, RunTool):
        drop_rulings_on(draft, ask_id)
        tell_of_asked(draft, waiting, ask_answer)
    draft.emit(_answered(ask_id, waiting.plugin, STATUS[type(ask_answer)]))
    position = waiting.pause.position.but(asked=waiting.pause.request, answer=ask_answer)
    if waiting.run:
        ruled = _waiting(draft, waiting.run)
        if ruled is not None and isinstance(ruled.pause.request, RunTool):
            _screen(draft, ruled, ruled.pause.request, position, waiting.decisions)
        return
    consent = NO_CONSENT
    if waiting.hook.hook_name == "before_tool":
        consent = tool_checks.where_before_tool(draft, waiting.ref)[1]
    _rule(draft, waiting.hook, waiting.ref, position, waiting.decisions, consent)

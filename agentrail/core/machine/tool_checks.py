"""Checks before a tool call runs: does the tool exist, do the arguments fit, is it a loop, do plugins allow it."""

from __future__ import annotations

from itertools import islice

from agentrail.core.machine.deferred_tools import hint, is_led, lead, note_found, shown_if_deferred
from agentrail.core.machine.draft import StepDraft
from agentrail.core.machine.endings import abort_turn
from agentrail.core.machine.in_doubt_calls import HOLDER, REPEAT_TIMEOUT, find_doubt, hint_about
from agentrail.core.machine.left_shell import with_folder
from agentrail.core.machine.requests import abort_by
from agentrail.core.machine.tool_results import find, give_error, hold_timer, put
from agentrail.core.machine.tool_runs import advance_batch
from agentrail.core.vocabulary.tool_calls import NEW, READY, RULING, Call, CallStatus, Hold, digest_of
from agentrail.hooks.hook_runner import NO_CONSENT, Consent
from agentrail.hooks.hook_types import BeforeTool, Hook
from agentrail.hooks.ruling import ABORT, BLOCK, HOLD, NO_DECISIONS, PASS, START, Decisions, Pause, Position, Ruling
from agentrail.values.events.people import ApprovalRequired
from agentrail.values.events.tools import LoopDetected, ToolBlocked, ToolCallUnknown
from agentrail.values.json import JsonObject, is_same
from agentrail.values.step_budget import RESPONSE_STEPS, Meter
from agentrail.values.tools import ToolSpec
from agentrail.values.value import quick

_before_tool = quick(BeforeTool)

NAMED_TOOLS = 100
"""How many of the session's tools the error result of a call to an unknown tool names."""


def begin_before_tool(draft: StepDraft, call_id: str) -> Hook | None:
    """Build the `before_tool` hook of a call; `None` if the call got an error result without asking plugins."""
    call = find(draft, call_id)
    if call is None or call.status not in (NEW, RULING):
        return None
    if call.status is NEW:
        ready = _looked_up(draft, call)
        if ready is None:
            advance_batch(draft)
            return None
        call = ready
    args = call.args if call.decisions.args is None else call.decisions.args
    return _before_tool(call.name, args, call_id, approved=call.approved is not None and is_same(args, call.approved))


def where_before_tool(draft: StepDraft, call_id: str) -> tuple[Position, Consent, Decisions]:
    """Return at which plugin the hook of a call continues, its approvals, and the decisions made so far."""
    call = find(draft, call_id)
    if call is None:
        return START, NO_CONSENT, NO_DECISIONS
    return call.position, Consent(call.approved, call.holders, draft.state.approved_always), call.decisions


def _looked_up(draft: StepDraft, call: Call) -> Call | None:
    """Return a new call with its tool and warnings about loops; `None` if a check ended the call or the turn."""
    state = draft.state
    attached = state.tools.get(call.name)
    if call.refusal is not None:
        give_error(draft, call, call.refusal)
        return None
    if attached is None and not is_led(draft, call):
        draft.emit(ToolCallUnknown(call.call_id, call.name))
        give_error(draft, call, f"there is no tool `{call.name}`; the tools are: {_some_tools(draft)}")
        return None
    if state.round >= state.setup.options.max_rounds:
        give_error(
            draft, call, "no more tools may be called in this turn: it has reached its limit; answer without them"
        )
        return None
    notes = _loops(draft, call, None if attached is None else attached.spec)
    if notes is None:
        return None
    if attached is None:
        lead(draft, call.but(notes=notes))
        return None
    if attached.spec.deferred:
        note_found(draft, call.name)
    args = with_folder(draft, attached.spec, call.args)
    call = call.but(args=args, spec=attached.spec, revision=attached.revision, status=RULING, notes=notes)
    put(draft, call)
    problem = unfit(draft, call, call.args)
    if problem is not None:
        give_error(draft, call, problem + shown_if_deferred(attached.spec))
        return None
    return call


def _some_tools(draft: StepDraft) -> str:
    """Return the names of the first tools of the session, and how many more there are."""
    names = draft.state.tools
    listed = ", ".join(f"`{name}`" for name in islice(names, NAMED_TOOLS)) or "none"
    more = len(names) - NAMED_TOOLS
    return f"{listed}{f' and {more} more' if more > 0 else ''}{hint(draft)}"


def unfit(draft: StepDraft, call: Call, args: JsonObject) -> str | None:
    """Return why *args* do not fit the schema of the call's tool; `None` if they do."""
    ruling = check(draft, call.name, call.revision, args)
    return None if ruling.verdict is PASS else f"the arguments do not fit `{call.name}`: {ruling.reason}"


def check(draft: StepDraft, tool: str, revision: int, args: JsonObject) -> Ruling:
    """Ask the judge whether *args* fit the schema of *tool*, and record its ruling."""
    meter = draft.meter
    if meter is None:
        meter = draft.meter = Meter(RESPONSE_STEPS)
    ruling = draft.hook_runner.check(tool, revision, args, meter)
    draft.rulings.append(ruling)
    return ruling


def _loops(draft: StepDraft, call: Call, spec: ToolSpec | None) -> tuple[str, ...] | None:
    """Return warnings for the model if calls repeat; `None` if the turn was aborted for it."""
    state = draft.state
    turn = state.turn
    if turn is None:
        return None
    options = state.setup.options
    notes: list[str] = []
    this = (call.name, call.args)
    repeats = turn.repeats + 1 if turn.last_call == this else 1
    if repeats >= options.repeat_pattern:
        draft.emit(LoopDetected("repeat_pattern", call.name, repeats))
        notes.append(f"this is the same call {repeats} times in a row; try something else")
    subject = _subject(call, spec)
    if subject is not None:
        counts = draft.subjects_of(turn)
        count = counts[subject] = counts.get(subject, 0) + 1
        if count >= options.file_loop_abort:
            draft.emit(LoopDetected("file_loop_abort", call.name, count, subject))
            abort_turn(draft, "loop", f"{count} calls on {subject} in one turn")
            return None
        if count >= options.file_loop_warn:
            draft.emit(LoopDetected("file_loop_warn", call.name, count, subject))
            notes.append(f"this is call {count} on {subject} in this turn; are you going in circles?")
    state.turn = turn.but(last_call=this, repeats=repeats)
    return tuple(notes)


def _subject(call: Call, spec: ToolSpec | None) -> str | None:
    """Return what *call* is about, such as a file and a part of it, by its tool's `subject`; `None` if unknown."""
    if spec is None or spec.subject is None:
        return None
    first, *parts = (spec.subject,) if isinstance(spec.subject, str) else spec.subject
    value = call.args.get(first)
    if not isinstance(value, str):
        return None
    return ", ".join((value, *(f"{name} {call.args[name]}" for name in parts if name in call.args)))


def finish_before_tool(draft: StepDraft, call_id: str, hook: Hook, ruling: Ruling) -> None:
    """Apply the plugins' ruling: the call becomes ready, is held for a person, or gets an error result."""
    call = find(draft, call_id)
    if call is None or call.done or not isinstance(hook, BeforeTool):
        return
    if ruling.verdict is ABORT:
        abort_by(draft, ruling)
        return
    draft.apply(ruling)
    args = call.args if ruling.decisions.args is None else ruling.decisions.args
    if ruling.verdict is BLOCK:
        by = ruling.by or ""
        draft.emit(ToolBlocked(call.call_id, call.name, ruling.reason, by))
        give_error(draft, call, f"blocked by {by}: {ruling.reason}")
    elif (problem := unfit(draft, call, args) if not is_same(args, call.args) else None) is not None:
        give_error(draft, call, problem)
    elif ruling.verdict is HOLD and ruling.pause is not None:
        hold(draft, call.but(args=args), ruling, ruling.pause)
    elif call.approved is not None and not is_same(args, call.approved):
        changed = ", ".join(ruling.decisions.replaced_by)
        pause = Pause(
            Position(len(draft.state.plugins), final=True),
            None,
            None,
            f"{changed} changed the arguments after approval",
        )
        hold(draft, call.but(args=args), ruling.but(by=changed), pause)
    elif call.approved is None and (doubt := find_doubt(draft, call.name, args)) is not None:
        pause = Pause(Position(len(draft.state.plugins), final=True), None, REPEAT_TIMEOUT, hint_about(doubt))
        hold(draft, call.but(args=args), ruling.but(by=HOLDER), pause)
    else:
        call = call.but(args=args, status=READY)
        families = ruling.decisions.families
        put(draft, call.but(decisions=call.decisions.but(families=families)) if families else call)
    if not (draft.due and draft.due[0][0] == "before_tool"):
        advance_batch(draft)


def hold(draft: StepDraft, call: Call, ruling: Ruling, pause: Pause) -> None:
    """Hold *call* until a person approves or rejects it."""
    state = draft.state
    approval_id = draft.make_decision_id("a")
    expires = None if pause.deadline is None else draft.at + int(pause.deadline * 1000)
    doubt = None if ruling.by == HOLDER else find_doubt(draft, call.name, call.args)
    hint = pause.hint if doubt is None else f"{pause.hint} ({hint_about(doubt)})"
    hold_ = Hold(
        approval_id,
        hint,
        plugin=ruling.by or "",
        args=call.args,
        position=pause.position,
        decisions=ruling.decisions.without_events(),
        requested_at=draft.at,
        expires_at=expires,
        family=pause.family,
    )
    put(draft, call.but(status=CallStatus.HELD, hold=hold_))
    if expires is not None:
        draft.set_timer(hold_timer(approval_id), expires)
    draft.emit(
        ApprovalRequired(
            approval_id,
            call.call_id,
            call.name,
            args=call.args,
            hint=hint,
            plugin=hold_.plugin,
            requested_at=draft.at,
            expires_at=expires,
            family=pause.family,
            path=state.setup.path,
            digest=digest_of(hold_, call.name),
        )
    )

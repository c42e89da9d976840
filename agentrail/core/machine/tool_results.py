"""Results of tool calls, and how calls leave a turn before they have ended."""

from __future__ import annotations

from typing import Final

from agentrail.core.machine.draft import StepDraft
from agentrail.core.machine.in_doubt_calls import doubt_about, remember
from agentrail.core.vocabulary.commands import Accepted
from agentrail.core.vocabulary.effects import CancelAsk, CancelCalls
from agentrail.core.vocabulary.state import Suspension
from agentrail.core.vocabulary.tool_calls import (
    DONE,
    TO_START,
    WAITS_FOR_PERSON,
    Batch,
    Call,
    CallStatus,
    DetachedCall,
    touches_files,
)
from agentrail.hooks.actions import Answered, AskAnswer, Failed, RunTool, TimedOut
from agentrail.values.content import Part, Text, ToolCall, text_of
from agentrail.values.events.people import ApprovalResolved
from agentrail.values.events.plugins import AskAnswered
from agentrail.values.events.tools import ToolExecutionEnd, ToolExecutionMetrics, ToolKilled, ToolSkippedForSteering
from agentrail.values.json import JsonObject
from agentrail.values.messages import ToolMessage
from agentrail.values.tools import Effect, EffectClass, Err, StandingApproval, ToolResult, ToolSpec, err, ok
from agentrail.values.value import quick

_message = quick(ToolMessage)

GRACE_TIMER = "grace"

GRACE_MS: Final = 250
"""Milliseconds that a cancelled call may take to end before it is reported as abandoned.

Code that hears its cancellation ends in far less; and a later call that touches files waits for it so long.
"""

NOTICE_CHARS = 200

DOUBT = {
    EffectClass.PURE: "it only reads, so it can be called again",
    EffectClass.IDEMPOTENT: "it can safely be called again",
    EffectClass.CHECKABLE: "it may have taken effect; check before calling it again",
    EffectClass.UNSAFE: "it may have taken effect; find out before calling it again",
}
"""Text for the error result of an interrupted call: what it may have done, by its tool's effect class."""


def doubt(spec: ToolSpec | None) -> str:
    """Return the sentence about the unknown outcome of a call of the tool *spec*."""
    return DOUBT[spec.effect if spec is not None else EffectClass.UNSAFE]


def put(draft: StepDraft, call: Call) -> None:
    """Replace the call of the same id in the open batch. The first replacement of a step copies the list of calls."""
    batch = draft.state.batch
    if batch is None:
        return
    calls = batch.calls
    if calls is not draft.calls:
        draft.calls = calls = calls.drafted()
        draft.state.batch = batch.but(calls=calls)
    calls.replace(call)


def find(draft: StepDraft, call_id: str) -> Call | None:
    """Return the call with this id in the open batch, `None` if there is none."""
    batch = draft.state.batch
    return None if batch is None else batch.calls.find(call_id)


def has_its_tool(draft: StepDraft, call: Call) -> bool:
    """Whether the session still has the tool of *call* as it was when the model called it."""
    attached = draft.state.tools.get(call.name)
    return attached is not None and attached.revision == call.revision


def limited(parts: tuple[Part, ...], most: int) -> tuple[Part, ...]:
    """Return *parts* cut to *most* characters of text and JSON together, with a note at each cut."""
    texts = [text_of((part,)) for part in parts]
    total = sum(map(len, texts))
    if total <= most:
        return parts
    room = most
    parts_: list[Part] = []
    for part, text in zip(parts, texts, strict=True):
        if len(text) <= max(room, 0):  # an image has no text, so it always fits
            parts_.append(part)
        elif room > 0:
            parts_.append(Text(text[:room]))  # JSON that was cut becomes a text
        room -= len(text)
    return (*parts_, Text(f"\n[cut: {most} of {total} characters shown]"))


def give_result(
    draft: StepDraft, call: Call, parts: tuple[Part, ...], *, is_error: bool, details: JsonObject | None = None
) -> None:
    """Give *call* its one result: *parts*, cut to the tool's limit, with warnings added. No-op if it has one."""
    if call.done:
        return
    if call.spec is not None:
        parts = limited(parts, call.spec.max_result_chars)
    if call.notes:
        parts = (*parts, *(Text(f"\n[{note}]") for note in call.notes))
    result = _message(call.call_id, call.name, parts, is_error, details)
    put(draft, call.but(status=DONE, result=result, hold=None, question=None, answer=None))


def give_error(draft: StepDraft, call: Call, text: str) -> None:
    """Give *call* an error result with a text of the session."""
    give_result(draft, call, (Text(text),), is_error=True)


def results_of(batch: Batch) -> tuple[ToolMessage, ...]:
    """Return the results of *batch*, in the order of the calls."""
    return tuple([call.result for call in batch.calls if call.result is not None])


# Calls that leave their turn


def quarantine(draft: StepDraft, detached_calls: tuple[DetachedCall, ...]) -> None:
    """Cancel calls that have left their turn; those still running after `GRACE_MS` are reported later."""
    if not detached_calls:
        return
    draft.state.quarantined_calls = (
        *draft.state.quarantined_calls,
        *(detached.but(since=draft.at) for detached in detached_calls),
    )
    draft.add_effect(CancelCalls(tuple(detached.call_id for detached in detached_calls)))
    draft.set_timer(GRACE_TIMER, next_report(draft))
    for detached in detached_calls:
        draft.clear_timer(call_timer(detached.call_id))


def next_report(draft: StepDraft) -> int:
    """Return when the next cancelled call is to be reported as abandoned, in milliseconds since 1970."""
    return min(detached.since for detached in draft.state.quarantined_calls if not detached.reported) + GRACE_MS


def call_timer(call_id: str) -> str:
    """Return the name of the timer for the time limit of a call."""
    return f"call:{call_id}"


def hold_timer(approval_id: str) -> str:
    """Return the name of the timer for the expiry of a hold."""
    return f"hold:{approval_id}"


def detached_call_of(call: Call, now_ms: int) -> DetachedCall:
    """Return the `DetachedCall` that stands for *call* after it leaves its turn."""
    parallel = call.spec is None or call.spec.parallel
    return DetachedCall(call.call_id, call.name, now_ms, call.started_at, touches_files(call.spec), parallel=parallel)


def release(draft: StepDraft, call: Call, status: str, text: str) -> None:
    """Give a call that waits for a person or its result an error result, and report that it waits no more.

    *status* says why, for the event: `superseded`, `aborted` or `timeout`. One whose result was to come from elsewhere
    may have taken effect there.
    """
    if call.hold is not None:
        draft.clear_timer(hold_timer(call.hold.approval_id))
        draft.emit(ApprovalResolved(call.hold.approval_id, call.call_id, call.name, status))
    elif call.question is not None:
        draft.emit(ApprovalResolved(call.question.ref, call.call_id, call.name, status))
        if call.question.is_for_result:
            draft.clear_timer(call_timer(call.call_id))
        # the tool had begun, and would have gone on with the answer; or the call may have been made elsewhere
        if call.question.is_for_result or call.question.resume is not None:
            remember(draft, doubt_about(draft, call))
            text = f"{text}; {doubt(call.spec)}"
    give_error(draft, call, text)


def tell_dropped(draft: StepDraft, calls: tuple[Call, ...]) -> None:
    """Tell the caller of the step, who sent a text, which *calls* that waited for a person it drops."""
    if calls and isinstance(draft.answer, Accepted):
        draft.answer = draft.answer.but(dropped=tuple([ToolCall(call.call_id, call.name, call.args) for call in calls]))


def skip_for_steering(draft: StepDraft) -> None:
    """Give each unfinished call that is not immune an error result, because of a steering text; cancel running ones.

    Calls that wait for a person, or have not started, get theirs too, even if their tool is immune.
    """
    batch = draft.state.batch
    if batch is None:
        return
    detached_calls: list[DetachedCall] = []
    tell_dropped(draft, draft.state.waiting_calls)
    for call in batch.calls:
        if call.status in WAITS_FOR_PERSON:
            release(draft, call, "superseded", "superseded by a new message of the user")
        elif call.status in TO_START:
            draft.emit(ToolSkippedForSteering(call.call_id, call.name))
            began = "had failed and was to run again" if call.person_answer is None else "was to go on with an answer"
            ran = f"it {began}; {doubt(call.spec)}" if call.started_at else "it did not run"
            give_error(draft, call, f"skipped, because the user has said something new; {ran}")
        elif call.status is CallStatus.RUNNING and not (call.spec is not None and call.spec.immune):
            draft.emit(ToolSkippedForSteering(call.call_id, call.name))
            detached_calls.append(detached_call_of(call, draft.at))
            remember(draft, doubt_about(draft, call))
            give_error(draft, call, f"stopped, because the user has said something new; {doubt(call.spec)}")
    quarantine(draft, tuple(detached_calls))
    drop_suspensions_of_done_calls(draft)


def kill(draft: StepDraft, kill_tools: str, why: str) -> None:
    """Close the calls of an aborted turn: *kill_tools* says which running ones are cancelled, others go on.

    A cancelled call gets an error result, and one that goes on in the background a result that says so.
    """
    batch = draft.state.batch
    if batch is None:
        return
    detached_calls: list[DetachedCall] = []
    for call in batch.calls:
        if call.done:
            continue
        if call.status in WAITS_FOR_PERSON:
            release(draft, call, "aborted", f"aborted: {why}")
        elif call.status is CallStatus.RUNNING and _lives_on(call, kill_tools):
            draft.state.lingering_calls = (
                *draft.state.lingering_calls,
                detached_call_of(call, draft.at).but(doubt=doubt_about(draft, call)),
            )
            give_result(
                draft, call, (Text("the turn was aborted; this call goes on in the background"),), is_error=False
            )
        elif call.status is CallStatus.RETURNED:
            give_error(
                draft, call, f"it ended, but no plugin had passed its result on when the turn was aborted: {why}"
            )
        else:
            draft.emit(ToolKilled(call.call_id, call.name, why))
            if call.status is CallStatus.RUNNING:
                detached_calls.append(detached_call_of(call, draft.at))
            if call.started_at:
                remember(draft, doubt_about(draft, call))
                give_error(draft, call, f"stopped: {why}; {doubt(call.spec)}")
            else:
                give_error(draft, call, f"aborted before it ran: {why}")
    quarantine(draft, tuple(detached_calls))


def kill_lingering(draft: StepDraft, why: str) -> None:
    """Cancel the calls that run on in the background, and report each."""
    detached_calls, draft.state.lingering_calls = draft.state.lingering_calls, ()
    for detached in detached_calls:
        remember(draft, detached.doubt)
        tell_of(draft, detached, err(f"stopped: {why}; {doubt(None)}"))
    quarantine(draft, detached_calls)


def tell_of(draft: StepDraft, detached: DetachedCall, result: ToolResult) -> None:
    """Emit the result of a call that was left running in the background."""
    answer = ok("it is done") if isinstance(result, Effect) else result
    is_error = isinstance(answer, Err)
    draft.emit(
        ToolExecutionEnd(detached.call_id, detached.name, answer.content, is_error, answer.details, late=True),
        ToolExecutionMetrics(
            detached.call_id, detached.name, detached.started_at, draft.at, draft.at - detached.started_at
        ),
    )
    how = "has failed" if is_error else "has ended"
    text = text_of(answer.content)[:NOTICE_CHARS]
    draft.state.notices = (
        *draft.state.notices,
        f"The call {detached.call_id} of `{detached.name}`, which went on in the background, {how}: {text}",
    )


def _lives_on(call: Call, kill_tools: str) -> bool:
    """Whether *call* runs on in the background when its turn is aborted with *kill_tools*."""
    if kill_tools == "none":
        return True
    return kill_tools == "killable" and call.spec is not None and call.spec.immune


def standing_approvals(draft: StepDraft, tool: str, families: tuple[str, ...]) -> tuple[StandingApproval, ...]:
    """Return which *families* of *tool* a person has approved for always."""
    approvals = {(approval.tool, approval.command_family): approval for approval in draft.state.standing_approvals}
    return tuple([approvals.get((tool, family)) or StandingApproval(tool, family) for family in families])


# Paused hooks


def drop_suspension(draft: StepDraft, suspension: Suspension) -> None:
    """Drop a suspended run, and cancel its plugin's ask."""
    draft.state.suspended_runs = tuple(other for other in draft.state.suspended_runs if other is not suspension)
    draft.clear_timer(f"ask:{suspension.ask_id}")
    if suspension.is_sent:
        draft.add_effect(CancelAsk(suspension.ask_id))
    tell_of_asked(draft, suspension, Failed("it was stopped, because nobody waits for it any more"))
    draft.emit(AskAnswered(suspension.ask_id, suspension.plugin, "dropped"))
    drop_rulings_on(draft, suspension.ask_id)


def drop_rulings_on(draft: StepDraft, ask_id: str) -> None:
    """Drop the suspended runs that rule on the tool of ask *ask_id*, because that ask has ended."""
    for suspension in draft.state.suspended_runs:
        if suspension.run == ask_id:
            drop_suspension(draft, suspension)


def tell_of_asked(draft: StepDraft, waiting: Suspension, ask_answer: AskAnswer) -> None:
    """Report the end of the tool that a plugin's ask has run. No-op if it has not started."""
    request, started = waiting.pause.request, waiting.started_at
    if started is None or not isinstance(request, RunTool):
        return
    draft.emit(
        ToolExecutionEnd(
            waiting.ask_id, request.name, (Text(_answer_text(ask_answer)),), not isinstance(ask_answer, Answered)
        ),
        ToolExecutionMetrics(waiting.ask_id, request.name, started, draft.at, draft.at - started),
    )


def _answer_text(ask_answer: AskAnswer) -> str:
    """Return the answer of an ask as text, for the event about its tool."""
    match ask_answer:
        case Answered(value=value):
            return f"{value}"
        case Failed(error=error):
            return error
        case TimedOut(seconds=seconds):
            return f"it was stopped after {seconds:g} s, the time its plugin gave it"


def drop_suspensions_of_done_calls(draft: StepDraft) -> None:
    """Drop the suspended runs about calls that have their result by now."""
    for suspension in draft.state.suspended_runs:
        call = find(draft, suspension.ref) if suspension.ref else None
        if call is not None and call.done:
            drop_suspension(draft, suspension)

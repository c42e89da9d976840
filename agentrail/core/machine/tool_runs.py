"""Running tool calls: start those that may run, take their answers, and finish the batch when all have results."""

from __future__ import annotations

from typing import Final

from agentrail.core.machine.draft import StepDraft
from agentrail.core.machine.endings import close_batch, end_turn
from agentrail.core.machine.handoffs import note_handoff
from agentrail.core.machine.in_doubt_calls import clear_up, doubt_about, remember
from agentrail.core.machine.left_shell import keep_shell
from agentrail.core.machine.requests import abort_by, next_round
from agentrail.core.machine.resting import rest, start_clock, stop_clock, wake
from agentrail.core.machine.tool_results import (
    GRACE_MS,
    GRACE_TIMER,
    call_timer,
    detached_call_of,
    doubt,
    find,
    give_error,
    give_result,
    has_its_tool,
    next_report,
    put,
    quarantine,
    release,
    results_of,
    standing_approvals,
    tell_of,
)
from agentrail.core.vocabulary.effects import ProbeCall, StartCall
from agentrail.core.vocabulary.inputs import CallProbed, ToolRaised, ToolReturned, ToolStopped
from agentrail.core.vocabulary.state import EXECUTING_TOOLS, Draft, Phase
from agentrail.core.vocabulary.tool_calls import (
    DONE,
    NEW,
    READY,
    RETURNED,
    RUNNING,
    Batch,
    Call,
    CallList,
    CallStatus,
    Question,
    touches_files,
)
from agentrail.hooks.hook_types import AfterTool, AfterToolBatch, Hook, OnToolError
from agentrail.hooks.ruling import ABORT, Ruling, Verdict
from agentrail.values.content import Text
from agentrail.values.events.context import Intervention
from agentrail.values.events.life import AgentResumed
from agentrail.values.events.people import AskUser, ResultRequired
from agentrail.values.events.tools import (
    TodoChange,
    ToolAbandoned,
    ToolExecutionEnd,
    ToolExecutionMetrics,
    ToolExecutionStart,
    ToolUnknown,
)
from agentrail.values.messages import Origin, UserMessage
from agentrail.values.tools import (
    CAN_RUN_AGAIN,
    AskPerson,
    CompactNow,
    Effect,
    Err,
    HandOver,
    NotStarted,
    Ok,
    SetTodos,
    ToolEffect,
    ToolResult,
    Unknown,
    err,
    ok,
)
from agentrail.values.value import quick

_after_tool = quick(AfterTool)
_after_tool_batch = quick(AfterToolBatch)
_start_event = quick(ToolExecutionStart)
_end_event = quick(ToolExecutionEnd)
_metrics_event = quick(ToolExecutionMetrics)

_AFTER_ALL: Final = ("after_tool_batch", "")


def advance_batch(draft: StepDraft) -> None:
    """Start calls that are ready; rest if the others all wait for a person; finish the batch if all are done."""
    state = draft.state
    batch = state.batch
    if batch is None or (state.turn is not None and state.turn.ended is not None):
        return
    calls = batch.calls
    if calls.count(NEW):
        return
    state.phase = EXECUTING_TOOLS
    if calls.count(READY):
        calls = _start_ready(draft, batch)
    open_count = len(calls) - calls.count(DONE)
    if open_count and open_count == calls.waiting:
        rest(draft)
    elif state.subagents and state.waits:
        stop_clock(draft)
    else:
        start_clock(draft)
    if not (open_count or _AFTER_ALL in draft.due or (state.suspended_runs and _is_asked_about(state))):
        draft.due.appendleft(_AFTER_ALL)


def _is_asked_about(state: Draft) -> bool:
    """Whether `after_tool_batch` has been suspended."""
    return any(run.hook.hook_name == "after_tool_batch" for run in state.suspended_runs)


def _start_ready(draft: StepDraft, batch: Batch) -> CallList:
    """Start as many ready calls as may run at once, in order; return the batch's calls afterwards."""
    state = draft.state
    running = state.running_calls()
    most = state.setup.options.max_parallel_tools
    if running >= most:
        return batch.calls
    alone = running > 0 and (batch.calls.has_loner or any(not detached.parallel for detached in state.lingering_calls))
    writers = bool(state.quarantined_calls) and any(
        detached.writes and not detached.reported for detached in state.quarantined_calls
    )
    for call in batch.calls.among(READY):
        if call.spec is None or call.not_before:
            continue
        if alone or running >= most or (not call.spec.parallel and running):
            break
        if writers and touches_files(call.spec):
            continue
        if not has_its_tool(draft, call):
            change = "redefined" if call.name in state.tools else "detached"
            give_error(draft, call, f"the tool `{call.name}` was {change} before the call ran")
            continue
        _start(draft, call)
        if not call.spec.elsewhere:  # nothing runs here
            running += 1
            alone = not call.spec.parallel
    return batch.calls if state.batch is None else state.batch.calls


def _start(draft: StepDraft, call: Call) -> None:
    """Start *call*: set its timer and add the effect."""
    if call.started_at:
        call = call.but(status=RUNNING)
    else:
        call = call.but(status=RUNNING, started_at=draft.at, incarnation=draft.state.incarnation)
    put(draft, call)
    if call.approved is not None:
        clear_up(draft, call.name, call.args)
    families = call.decisions.families
    standing = standing_approvals(draft, call.name, families) if families else ()
    draft.emit(_start_event(call.call_id, call.name, call.args, call.attempt, standing))
    if call.spec is not None:
        due_ms = draft.at + int(call.spec.timeout * 1000)
        draft.set_timer(call_timer(call.call_id), due_ms)
        if call.spec.elsewhere:
            await_result(draft, call, due_ms)
            return
    key, answer = draft.key_of(call), call.person_answer
    draft.add_effect(StartCall(call.call_id, call.attempt, call.name, call.revision, call.args, key, answer))


def await_result(draft: StepDraft, call: Call, due_ms: int) -> None:
    """Have *call* wait until *due_ms* for its result, which is made elsewhere: nothing is started here."""
    ref = draft.make_decision_id("r")
    put(draft, call.but(status=CallStatus.ASKING, question=Question(ref, "", (), draft.at, expires_at=due_ms)))
    draft.emit(ResultRequired(ref, call.call_id, call.name, call.args, due_ms, draft.state.setup.path))


def probe(draft: StepDraft, call_id: str) -> None:
    """Ask a tool what became of a call that was running when an earlier process ended.

    Nobody knows it if the tool was detached or redefined while the turn was paused.
    """
    call = find(draft, call_id)
    if call is None or call.status is not CallStatus.SETTLING or call.spec is None:
        return
    if not has_its_tool(draft, call):
        give_up(draft, call)
        return
    put(draft, call.but(status=CallStatus.RUNNING))
    draft.set_timer(call_timer(call_id), draft.at + int(call.spec.timeout * 1000))
    draft.add_effect(ProbeCall(call_id, call.attempt, call.name, call.revision, call.args, draft.key_of(call)))


# What tools answer


def _running(draft: StepDraft, call_id: str, attempt: int) -> Call | None:
    """Return the running call of this id and attempt, its timer cleared; `None` if it has ended or left the turn."""
    call = find(draft, call_id)
    if call is None or call.status is not RUNNING or call.attempt != attempt:
        return None
    draft.clear_timer(call_timer(call_id))
    return call


def on_returned(draft: StepDraft, returned: ToolReturned) -> None:
    """Take a tool's result; if the call no longer belongs to the turn, only note that it ended."""
    if returned.jobs is not None:
        draft.state.background_jobs = returned.jobs
    call = _running(draft, returned.call_id, returned.attempt)
    if call is None:
        closed_late(draft, returned.call_id, returned.result, answered=True)
        return
    result = returned.result
    if isinstance(result, Effect):
        answer = _carry_out(draft, call, result.effect)
        if answer is None:
            advance_batch(draft)
            return
        call, result = find(draft, call.call_id) or call, answer  # a handoff is noted in the call
    take_answer(draft, call, result)


def take_answer(draft: StepDraft, call: Call, answer: Ok | Err) -> None:
    """Report the tool's answer to *call*, then ask `after_tool` about it."""
    keep_shell(draft, call, answer)
    put(draft, call.but(status=RETURNED, answer=answer))
    is_error = not isinstance(answer, Ok)
    draft.emit(
        _end_event(call.call_id, call.name, answer.content, is_error, answer.details),
        _metrics_event(call.call_id, call.name, call.started_at, draft.at, draft.at - call.started_at),
    )
    draft.due.append(("after_tool", call.call_id))


def _carry_out(draft: StepDraft, call: Call, effect: ToolEffect) -> Ok | Err | None:
    """Carry out an effect that a tool returned; return its answer, `None` if the call now waits for a person."""
    match effect:
        case SetTodos(todos=todos):
            draft.state.todos = todos
            draft.emit(TodoChange(todos))
            return ok("the list was updated")
        case CompactNow(reason=reason):
            draft.state.compaction_reason, draft.state.compaction_cause = reason, call.name
            return ok("the context will be compacted before the next request")
        case HandOver():
            return note_handoff(draft, call, effect)
        case AskPerson(question=question, options=options, resume=resume):
            ref = draft.make_decision_id("q")
            put(draft, call.but(status=CallStatus.ASKING, question=Question(ref, question, options, draft.at, resume)))
            draft.emit(AskUser(ref, call.call_id, question, options, draft.state.setup.path))
            return None


def on_raised(draft: StepDraft, raised: ToolRaised) -> None:
    """Handle a tool's exception: ask about a retry if the tool is safe to repeat, else answer with the error."""
    call = _running(draft, raised.call_id, raised.attempt)
    if call is None:
        closed_late(draft, raised.call_id, err(raised.error), answered=True)
        return
    safe = call.spec is not None and call.spec.effect in CAN_RUN_AGAIN
    if safe and call.attempt <= _retries(draft, call):
        put(draft, call.but(status=CallStatus.FAILED, error=raised.error))
        draft.due.append(("on_tool_error", call.call_id))
    else:
        take_answer(draft, call, _failed(call, raised.error))


def _retries(draft: StepDraft, call: Call) -> int:
    """Return how often a call that raised is run again."""
    retries = None if call.spec is None else call.spec.retries
    return draft.state.setup.options.tool_max_retries if retries is None else retries


def _failed(call: Call, error: str) -> Err:
    """Return the error result of *call*, whose tool raised *error*."""
    return err(f"the tool failed: {error}; {doubt(call.spec)}")


def on_stopped(draft: StepDraft, stopped: ToolStopped) -> None:
    """Give a cancelled call that has ended its error result."""
    call = _running(draft, stopped.call_id, stopped.attempt)
    if call is None:
        closed_late(draft, stopped.call_id, err("it was cancelled"), answered=False)
    else:
        remember(draft, doubt_about(draft, call))
        take_answer(draft, call, err(f"the call was cancelled; {doubt(call.spec)}"))


def on_probed(draft: StepDraft, probed: CallProbed) -> None:
    """Continue an interrupted call after its probe: run it, take its result, or declare it unknown."""
    call = _running(draft, probed.call_id, probed.attempt)
    if call is None:
        closed_late(draft, probed.call_id, err("it was interrupted"), answered=False)
        return
    match probed.outcome:
        case NotStarted():
            put(draft, call.but(status=CallStatus.READY))
            advance_batch(draft)
        case Unknown():
            give_up(draft, call)
        case Ok() | Err():
            take_answer(draft, call, probed.outcome)


def give_up(draft: StepDraft, call: Call) -> None:
    """Answer an interrupted call with an error that says its outcome is unknown."""
    draft.clear_timer(call_timer(call.call_id))
    draft.emit(ToolUnknown(call.call_id, call.name))
    remember(draft, doubt_about(draft, call))
    take_answer(draft, call, err(f"the process ended while the call ran; {doubt(call.spec)}"))


def begin_on_tool_error(draft: StepDraft, call_id: str) -> Hook | None:
    """Build the `on_tool_error` hook of a failed call that may be retried."""
    call = find(draft, call_id)
    return None if call is None else OnToolError(call.name, call_id, call.error, call.attempt)


def finish_on_tool_error(draft: StepDraft, call_id: str, _hook: Hook, ruling: Ruling) -> None:
    """Run the call again, or take the failure as its answer if a plugin says so."""
    call = find(draft, call_id)
    if call is None:
        return
    if ruling.verdict is ABORT:
        abort_by(draft, ruling)
        return
    draft.apply(ruling)
    if ruling.verdict is Verdict.SKIP:
        take_answer(draft, call, _failed(call, call.error))
    else:
        wait_ms = 0 if call.spec is None else int(call.spec.wait * 1000)
        not_before = draft.at + wait_ms if wait_ms else 0
        put(draft, call.but(status=CallStatus.READY, attempt=call.attempt + 1, not_before=not_before))
        if not_before:
            draft.set_timer(call_timer(call_id), not_before)
        advance_batch(draft)


def begin_after_tool(draft: StepDraft, call_id: str) -> Hook | None:
    """Build the `after_tool` hook of a call that has its answer."""
    call = find(draft, call_id)
    if call is None or call.status is not RETURNED or call.answer is None:
        return None
    most = None if call.spec is None else call.spec.max_result_chars
    return _after_tool(call.name, call_id, call.answer, call.args, draft.at - call.started_at, most)


def finish_after_tool(draft: StepDraft, call_id: str, _hook: Hook, ruling: Ruling) -> None:
    """Give the call its result, as changed by plugins, or withhold it and abort the turn."""
    state = draft.state
    call = find(draft, call_id)
    if call is None or call.done or call.answer is None:
        return
    answer = call.answer if ruling.decisions.result is None else ruling.decisions.result
    if ruling.verdict is ABORT:
        give_error(draft, call, f"it ended, but its result was withheld: {ruling.reason}")
        abort_by(draft, ruling)
        return
    give_result(draft, call, answer.content, is_error=not isinstance(answer, Ok), details=answer.details)
    draft.apply(ruling)
    texts = ruling.decisions.texts
    if texts and state.batch is not None:
        state.batch = state.batch.but(texts=(*state.batch.texts, *(("after_tool", text) for text in texts)))
    advance_batch(draft)


# When all calls have their results


def begin_after_tool_batch(draft: StepDraft, _: str) -> Hook | None:
    """Build the `after_tool_batch` hook of a batch whose calls all have results."""
    batch = draft.state.batch
    return None if batch is None else _after_tool_batch(results_of(batch))


def finish_after_tool_batch(draft: StepDraft, _ref: str, _hook: Hook, ruling: Ruling) -> None:
    """Append the results to the history, then start the next round or end the turn."""
    state = draft.state
    batch = state.batch
    if batch is None:
        return
    if ruling.verdict is ABORT:
        abort_by(draft, ruling)
        return
    draft.apply(ruling)
    close_batch(draft)
    texts = (*batch.texts, *[("after_tool_batch", text) for text in ruling.decisions.texts])
    if texts:
        draft.append_messages(UserMessage((Text("\n\n".join(text for _, text in texts)),), Origin.INTERVENTION))
        draft.emit(*(Intervention(text, hook) for hook, text in texts))
    if any(goes_on for _, goes_on in batch.decisions):
        draft.emit(AgentResumed(batch.decisions[-1][0]))
        next_round(draft)
    elif not batch.decisions or state.steering:
        next_round(draft)
    else:
        end_turn(draft, "left")


# Calls that still run although their turn no longer waits for them


def closed_late(draft: StepDraft, call_id: str, result: ToolResult, *, answered: bool) -> None:
    """Handle the end of a call that left its turn; report the result if it was left running on purpose."""
    state = draft.state
    state.quarantined_calls = tuple(detached for detached in state.quarantined_calls if detached.call_id != call_id)
    if all(detached.reported for detached in state.quarantined_calls):
        draft.clear_timer(GRACE_TIMER)
    lingered = next((detached for detached in state.lingering_calls if detached.call_id == call_id), None)
    if lingered is not None:
        draft.clear_timer(call_timer(call_id))
        state.lingering_calls = tuple(detached for detached in state.lingering_calls if detached is not lingered)
        tell_of(draft, lingered, result)
        if not answered:
            remember(draft, lingered.doubt)
    if state.phase is Phase.EXECUTING_TOOLS:
        advance_batch(draft)


def on_grace(draft: StepDraft) -> None:
    """Report cancelled calls that still run after `GRACE_MS` as abandoned."""
    state = draft.state
    late = tuple(
        detached
        for detached in state.quarantined_calls
        if not detached.reported and draft.at >= detached.since + GRACE_MS
    )
    draft.emit(*(ToolAbandoned(detached.call_id, detached.name) for detached in late))
    state.quarantined_calls = tuple(
        detached.but(reported=True) if detached in late else detached for detached in state.quarantined_calls
    )
    if any(not detached.reported for detached in state.quarantined_calls):
        draft.set_timer(GRACE_TIMER, next_report(draft))
    if state.phase is Phase.EXECUTING_TOOLS:
        advance_batch(draft)


def take_result(draft: StepDraft, call: Call, result: Ok | Err) -> None:
    """Go on with *call*, which has waited for its *result*."""
    draft.clear_timer(call_timer(call.call_id))
    _go_on(draft, "tool_result")
    take_answer(draft, call.but(question=None), result)


def _go_on(draft: StepDraft, trigger: str) -> None:
    """Wake the turn, because a call waits no more: *trigger* says why, in `AgentResumed`."""
    batch = draft.state.batch
    if batch is not None:
        draft.state.batch = batch.but(decisions=(*batch.decisions, (trigger, True)))
    wake(draft)


def on_call_timer(draft: StepDraft, call_id: str) -> None:
    """Start the next attempt of a call that waits for it, or end a call that has reached its time limit."""
    call = find(draft, call_id)
    if call is None or call.status is not READY:
        _on_time_limit(draft, call_id)
        return
    put(draft, call.but(not_before=0))
    if draft.state.phase is EXECUTING_TOOLS:  # else the turn is paused, and goes on with what is ready
        advance_batch(draft)


def _on_time_limit(draft: StepDraft, call_id: str) -> None:
    """Stop a call that has reached its time limit, or wait no more for its result, and give it an error result."""
    state = draft.state
    call = find(draft, call_id)
    if call is not None and call.question is not None and call.question.is_for_result:
        release(draft, call, "timeout", "no result has come in time")
        _go_on(draft, "tool_result_timeout")
        advance_batch(draft)
        return
    if call is not None and call.status is CallStatus.RUNNING and call.spec is not None:
        detached = detached_call_of(call, draft.at)
        remember(draft, doubt_about(draft, call))
        take_answer(draft, call, err(f"stopped after {call.spec.timeout:g} s, the tool's limit; {doubt(call.spec)}"))
        quarantine(draft, (detached,))
        return
    lingered = next((detached for detached in state.lingering_calls if detached.call_id == call_id), None)
    if lingered is not None:
        state.lingering_calls = tuple(detached for detached in state.lingering_calls if detached is not lingered)
        remember(draft, lingered.doubt)
        tell_of(draft, lingered, err("it ran too long and was stopped"))
        quarantine(draft, (lingered,))
        if state.phase is Phase.EXECUTING_TOOLS:
            advance_batch(draft)

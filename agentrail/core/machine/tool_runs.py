"""Running tool calls: start those that may run, take their answers, and finish the batch when all have results."""

from __future__ import annotations

from agentrail.core.machine.draft import StepDraft
from agentrail.core.machine.endings import close_batch, end_turn
from agentrail.core.machine.in_doubt_calls import clear_up, doubt_about, remember
from agentrail.core.machine.requests import abort_by, next_round
from agentrail.core.machine.resting import key_of, rest, start_clock, stop_clock
from agentrail.core.machine.tool_checks import standing_approvals
from agentrail.core.machine.tool_results import (
    GRACE_TIMER,
    call_timer,
    doubt,
    find,
    give_error,
    give_result,
    has_its_tool,
    next_report,
    put,
    quarantine,
    results_of,
    stray_of,
    tell_of,
)
from agentrail.core.vocabulary.effects import ProbeCall, StartCall
from agentrail.core.vocabulary.inputs import CallProbed, ToolRaised, ToolReturned, ToolStopped
from agentrail.core.vocabulary.state import EXECUTING_TOOLS, Phase
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
from agentrail.values.events.people import AskUser
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
    AskPerson,
    CompactNow,
    Effect,
    EffectClass,
    Err,
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

CAN_RUN_AGAIN = frozenset({EffectClass.PURE, EffectClass.IDEMPOTENT})


def advance_batch(w: StepDraft, _: str) -> None:
    """Start calls that are ready; rest if the others all wait for a person; finish the batch if all are done."""
    s = w.s
    batch = s.batch
    if batch is None or (s.turn is not None and s.turn.ended is not None):
        return
    calls = batch.calls
    if calls.count(NEW):
        return
    s.phase = EXECUTING_TOOLS
    if calls.count(READY):
        calls = _start_ready(w, batch)
    open_count = len(calls) - calls.count(DONE)
    if open_count and open_count == calls.waiting:
        rest(w)
    elif s.subagents and s.waits:
        stop_clock(w)
    else:
        start_clock(w)
    if not open_count:
        w.next("after_tool_batch")


def _start_ready(w: StepDraft, batch: Batch) -> CallList:
    """Start as many ready calls as may run at once, in order; return the batch's calls afterwards."""
    s = w.s
    running = s.running_calls()
    most = s.setup.options.max_parallel_tools
    if running >= most:
        return batch.calls
    alone = running > 0 and batch.calls.has_loner
    writers = bool(s.quarantined) and any(stray.writes and not stray.reported for stray in s.quarantined)
    for call in batch.calls.among(READY):
        if call.spec is None:
            continue
        if alone or running >= most or (not call.spec.parallel and running):
            break
        if writers and touches_files(call.spec):
            continue
        if not has_its_tool(w, call):
            change = "redefined" if call.name in s.tools else "detached"
            give_error(w, call, f"the tool `{call.name}` was {change} before the call ran")
            continue
        _start(w, call)
        running += 1
        alone = not call.spec.parallel
    return batch.calls if s.batch is None else s.batch.calls


def _start(w: StepDraft, call: Call) -> None:
    started = call.started_at or w.at
    put(w, call.but(status=RUNNING, started_at=started))
    if call.approved is not None:
        clear_up(w, call.name, call.args)
    families = call.gathered.families
    standing = standing_approvals(w, call.name, families) if families else ()
    w.emit(_start_event(call.call_id, call.name, call.args, call.attempt, standing))
    if call.spec is not None:
        w.set_timer(call_timer(call.call_id), w.at + int(call.spec.timeout * 1000))
    w.ask(StartCall(call.call_id, call.attempt, call.name, call.revision, call.args, key_of(w, call)))


def probe(w: StepDraft, call_id: str) -> None:
    """Ask a tool what became of a call that was running when an earlier process ended.

    Nobody knows it if the tool was detached or redefined while the turn was paused.
    """
    call = find(w, call_id)
    if call is None or call.status is not CallStatus.SETTLING or call.spec is None:
        return
    if not has_its_tool(w, call):
        give_up(w, call)
        return
    put(w, call.but(status=CallStatus.RUNNING))
    w.set_timer(call_timer(call_id), w.at + int(call.spec.timeout * 1000))
    w.ask(ProbeCall(call_id, call.attempt, call.name, call.revision, call.args, key_of(w, call)))


# What tools answer


def _running(w: StepDraft, call_id: str, attempt: int) -> Call | None:
    call = find(w, call_id)
    if call is None or call.status is not RUNNING or call.attempt != attempt:
        return None
    w.clear_timer(call_timer(call_id))
    return call


def on_returned(w: StepDraft, returned: ToolReturned) -> None:
    """Take a tool's result; if the call no longer belongs to the turn, only note that it ended."""
    if returned.jobs is not None:
        w.s.jobs = returned.jobs
    call = _running(w, returned.call_id, returned.attempt)
    if call is None:
        closed_late(w, returned.call_id, returned.result, answered=True)
        return
    result = returned.result
    if isinstance(result, Effect):
        answer = _carry_out(w, call, result.effect)
        if answer is None:
            w.next("advance_batch")
            return
        result = answer
    take_answer(w, call, result)


def take_answer(w: StepDraft, call: Call, answer: Ok | Err) -> None:
    """Report the answer of *call* and ask `after_tool` about it."""
    put(w, call.but(status=RETURNED, answer=answer))
    is_error = not isinstance(answer, Ok)
    w.emit(
        _end_event(call.call_id, call.name, answer.content, is_error, answer.details),
        _metrics_event(call.call_id, call.name, call.started_at, w.at, w.at - call.started_at),
    )
    w.later("after_tool", call.call_id)


def _carry_out(w: StepDraft, call: Call, effect: ToolEffect) -> Ok | None:
    """Carry out an effect that a tool returned; return its answer, `None` if the call now waits for a person."""
    match effect:
        case SetTodos(todos=todos):
            w.s.todos = todos
            w.emit(TodoChange(todos))
            return ok("the list was updated")
        case CompactNow(reason=reason):
            w.s.compact_wanted, w.s.compact_by = reason, call.name
            return ok("the context will be compacted before the next request")
        case AskPerson(question=question, options=options):
            ref = w.make_id(f"{w.s.session_id}:q")
            put(w, call.but(status=CallStatus.ASKING, question=Question(ref, question, options, w.at)))
            w.emit(AskUser(ref, call.call_id, question, options, w.s.setup.path))
            return None


def on_raised(w: StepDraft, raised: ToolRaised) -> None:
    """Handle a tool's exception: ask about a retry if the tool is safe to repeat, else answer with the error."""
    call = _running(w, raised.call_id, raised.attempt)
    if call is None:
        closed_late(w, raised.call_id, err(raised.error), answered=True)
        return
    safe = call.spec is not None and call.spec.effect in CAN_RUN_AGAIN
    if safe and call.attempt <= w.s.setup.options.tool_max_retries:
        put(w, call.but(status=CallStatus.FAILED, error=raised.error))
        w.later("on_tool_error", call.call_id)
    else:
        take_answer(w, call, _failed(call, raised.error))


def _failed(call: Call, error: str) -> Err:
    return err(f"the tool failed: {error}; {doubt(call.spec)}")


def on_stopped(w: StepDraft, stopped: ToolStopped) -> None:
    """Give a cancelled call that has ended its error result."""
    call = _running(w, stopped.call_id, stopped.attempt)
    if call is None:
        closed_late(w, stopped.call_id, err("it was cancelled"), answered=False)
    else:
        remember(w, doubt_about(w, call))
        take_answer(w, call, err(f"the call was cancelled; {doubt(call.spec)}"))


def on_probed(w: StepDraft, probed: CallProbed) -> None:
    """Continue an interrupted call after its probe: run it, take its result, or declare it unknown."""
    call = _running(w, probed.call_id, probed.attempt)
    if call is None:
        closed_late(w, probed.call_id, err("it was interrupted"), answered=False)
        return
    match probed.found:
        case NotStarted():
            put(w, call.but(status=CallStatus.READY))
            w.next("advance_batch")
        case Unknown():
            give_up(w, call)
        case Ok() | Err():
            take_answer(w, call, probed.found)


def give_up(w: StepDraft, call: Call) -> None:
    """Answer an interrupted call with an error: its outcome is unknown."""
    w.clear_timer(call_timer(call.call_id))
    w.emit(ToolUnknown(call.call_id, call.name))
    remember(w, doubt_about(w, call))
    take_answer(w, call, err(f"the process ended while the call ran; {doubt(call.spec)}"))


def begin_on_tool_error(w: StepDraft, call_id: str) -> Hook | None:
    """Build the `on_tool_error` hook of a failed call that may be retried."""
    call = find(w, call_id)
    return None if call is None else OnToolError(call.name, call_id, call.error, call.attempt)


def finish_on_tool_error(w: StepDraft, call_id: str, _hook: Hook, ruling: Ruling) -> None:
    """Run the call again, or take the failure as its answer if a plugin says so."""
    call = find(w, call_id)
    if call is None:
        return
    if ruling.verdict is ABORT:
        abort_by(w, ruling)
        return
    w.apply(ruling)
    if ruling.verdict is Verdict.SKIP:
        take_answer(w, call, _failed(call, call.error))
    else:
        put(w, call.but(status=CallStatus.READY, attempt=call.attempt + 1))
        w.next("advance_batch")


def begin_after_tool(w: StepDraft, call_id: str) -> Hook | None:
    """Build the `after_tool` hook of a call that has its answer."""
    call = find(w, call_id)
    if call is None or call.status is not RETURNED or call.answer is None:
        return None
    most = None if call.spec is None else call.spec.max_result_chars
    return _after_tool(call.name, call_id, call.answer, call.args, w.at - call.started_at, most)


def finish_after_tool(w: StepDraft, call_id: str, _hook: Hook, ruling: Ruling) -> None:
    """Give the call its result, as changed by plugins, or withhold it and abort the turn."""
    s = w.s
    call = find(w, call_id)
    if call is None or call.done or call.answer is None:
        return
    answer = call.answer if ruling.gathered.result is None else ruling.gathered.result
    if ruling.verdict is ABORT:
        give_error(w, call, f"it ended, but its result was withheld: {ruling.reason}")
        abort_by(w, ruling)
        return
    give_result(w, call, answer.content, is_error=not isinstance(answer, Ok), details=answer.details)
    w.apply(ruling)
    texts = ruling.gathered.texts
    if texts and s.batch is not None:
        s.batch = s.batch.but(texts=(*s.batch.texts, *(("after_tool", text) for text in texts)))
    advance_batch(w, "")


# When all have their results


def begin_after_tool_batch(w: StepDraft, _: str) -> Hook | None:
    """Build the `after_tool_batch` hook of a batch whose calls all have results."""
    batch = w.s.batch
    return None if batch is None else _after_tool_batch(results_of(batch))


def finish_after_tool_batch(w: StepDraft, _ref: str, _hook: Hook, ruling: Ruling) -> None:
    """Append the results to the history, then start the next round or end the turn."""
    s = w.s
    batch = s.batch
    if batch is None:
        return
    if ruling.verdict is ABORT:
        abort_by(w, ruling)
        return
    w.apply(ruling)
    close_batch(w)
    texts = (*batch.texts, *[("after_tool_batch", text) for text in ruling.gathered.texts])
    if texts:
        w.say(UserMessage((Text("\n\n".join(text for _, text in texts)),), Origin.INTERVENTION))
        w.emit(*(Intervention(text, hook) for hook, text in texts))
    if any(goes_on for _, goes_on in batch.decisions):
        w.emit(AgentResumed(batch.decisions[-1][0]))
        next_round(w, "")
    elif not batch.decisions or s.steering:
        next_round(w, "")
    else:
        end_turn(w, "left")


# Calls that still run although their turn no longer waits for them


def closed_late(w: StepDraft, call_id: str, result: ToolResult, *, answered: bool) -> None:
    """Handle the end of a call that left its turn; report the result if it was left running on purpose."""
    s = w.s
    s.quarantined = tuple(stray for stray in s.quarantined if stray.call_id != call_id)
    if all(stray.reported for stray in s.quarantined):
        w.clear_timer(GRACE_TIMER)
    lingered = next((stray for stray in s.lingering if stray.call_id == call_id), None)
    if lingered is not None:
        w.clear_timer(call_timer(call_id))
        s.lingering = tuple(stray for stray in s.lingering if stray is not lingered)
        tell_of(w, lingered, result)
        if not answered:
            remember(w, lingered.doubt)
    if s.phase is Phase.EXECUTING_TOOLS:
        w.next("advance_batch")


def on_grace(w: StepDraft) -> None:
    """Report cancelled calls that still run after `tool_grace` as abandoned."""
    s = w.s
    grace = int(s.setup.options.tool_grace * 1000)
    late = tuple(stray for stray in s.quarantined if not stray.reported and w.at >= stray.since + grace)
    w.emit(*(ToolAbandoned(stray.call_id, stray.name) for stray in late))
    s.quarantined = tuple(stray.but(reported=True) if stray in late else stray for stray in s.quarantined)
    if any(not stray.reported for stray in s.quarantined):
        w.set_timer(GRACE_TIMER, next_report(w))
    if s.phase is Phase.EXECUTING_TOOLS:
        w.next("advance_batch")


def on_call_timer(w: StepDraft, call_id: str) -> None:
    """Stop a call that has reached its time limit, and give it an error result."""
    s = w.s
    call = find(w, call_id)
    if call is not None and call.status is CallStatus.RUNNING and call.spec is not None:
        stray = stray_of(call, w.at)
        remember(w, doubt_about(w, call))
        take_answer(w, call, err(f"stopped after {call.spec.timeout:g} s, the tool's limit; {doubt(call.spec)}"))
        quarantine(w, (stray,))
        return
    lingered = next((stray for stray in s.lingering if stray.call_id == call_id), None)
    if lingered is not None:
        s.lingering = tuple(stray for stray in s.lingering if stray is not lingered)
        remember(w, lingered.doubt)
        tell_of(w, lingered, err("it ran too long and was stopped"))
        quarantine(w, (lingered,))
        if s.phase is Phase.EXECUTING_TOOLS:
            w.next("advance_batch")

"""Rules for single steps, as the guide states them: each checks one step by its input, states, events and effects.

The ledger checks that a session is consistent; these rules check that a step did what its input asks for. They share no
code with the machine's handlers, so that a mistake there shows. They are in groups: prompts, steering, aborts and
decisions of people; what the model sees and says; tool calls, requests and usage; plugins, time and sub-agents.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import dropwhile
from typing import Final

from agentrail import Accepted, State
from agentrail.core.machine.endings import RETRY_TIMER, TURN_TIMER
from agentrail.core.machine.in_doubt_calls import MOST, TURNS_KEPT
from agentrail.core.machine.responses import RETRY_CAP
from agentrail.core.machine.tool_results import call_timer, hold_timer
from agentrail.core.tools_on_demand import CALLER, FINDER, ROOM, definition, free
from agentrail.core.vocabulary.commands import Done, RespondSent, ResultSent, SwitchModelSent
from agentrail.core.vocabulary.effects import CarryOut, StartCall, StartRequest
from agentrail.core.vocabulary.inputs import (
    AskSettled,
    CompactionEnded,
    CompactionFailed,
    SessionReturned,
    StreamCut,
    StreamEnded,
    StreamStalled,
    SubagentReported,
    ToolRaised,
)
from agentrail.core.vocabulary.tool_calls import Call, CallStatus
from agentrail.events import (
    AgentAbort,
    AgentEnd,
    AgentStart,
    AnswerRejected,
    ApprovalRequired,
    ApprovalResolved,
    AskStarted,
    AskUser,
    Event,
    ModelOptionsChanged,
    ModelSwitched,
    PromptDropped,
    PromptReceived,
    PromptRejected,
    ResponseComplete,
    ResultRequired,
    Retry,
    SteeringApplied,
    SteeringReceived,
    StreamError,
    ToolBlocked,
    ToolCallUnknown,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolKilled,
    ToolsFound,
    ToolSkippedForSteering,
    ToolUnknown,
    UserResponded,
)
from agentrail.hooks.hook_run import MAX_ASKS
from agentrail.hooks.hook_types import HOOK_NAMES
from agentrail.hooks.ruling import NO_DECISIONS
from agentrail.models import (
    AssistantMessage,
    Failure,
    FailureKind,
    JsonObject,
    Origin,
    Text,
    ToolMessage,
    ToolSpec,
    Usage,
    UserMessage,
)
from agentrail.plugins import RunTool
from agentrail.testing.world.outstanding import demand
from agentrail.tools import EffectClass
from agentrail.values.json import is_same
from agentrail.values.messages import Added
from agentrail.values.tools import CAN_RUN_AGAIN
from tests.kit import (
    NOTHING_USED,
    AbortSent,
    ApproveSent,
    Phase,
    PromptSent,
    RejectSent,
    SteerSent,
    StopSent,
    TimerFired,
    Verdict,
)
from tests.machinery.checks.transition import Transition


def _aborts(transition: Transition) -> None:
    """Check an abort: queued prompts stay unless it clears them, steering is dropped, and the partial text is kept.

    Which running calls go on is what `kill_tools` says. One that is for another turn than the open one does nothing.
    """
    abort, old, after = transition.input, transition.before, transition.after
    if isinstance(abort, AbortSent) and abort.turn and not old.works_on(abort.turn):
        demand(not transition.events and after.turn is old.turn, "{} is for another turn, and does something", abort)
        return
    if not isinstance(abort, AbortSent) or old.is_starting:
        return
    if not abort.clear_queue and old.stop_reason is None:
        queued = {prompt.ref for prompt in old.queue}
        dropped = {event.ref for event in transition.events if isinstance(event, PromptDropped)}
        demand(not queued & dropped, "{} are dropped by an abort that is to leave the queue", queued & dropped)
    dropped_steering = {
        event.ref for event in transition.events if isinstance(event, SteeringReceived) and event.status == "dropped"
    }
    survivors = {text.ref for text in old.steering} - dropped_steering
    demand(not survivors, "steering {} outlives an abort", survivors)
    if not transition.in_turn:
        return
    lingers = {detached.call_id for detached in after.lingering_calls}
    for call in transition.running:
        immune = call.spec is not None and call.spec.immune
        must_go_on = abort.kill_tools == "none" or (abort.kill_tools == "killable" and immune)
        demand(must_go_on == (call.call_id in lingers), "{} goes on: {}, after {}", call, not must_go_on, abort)
    if old.request is not None and abort.partial.text:
        texts = [message.text for message in after.history if isinstance(message, AssistantMessage)]
        demand(abort.partial.text in texts, "{!r} had come and is not kept", abort.partial.text)


def _steers(transition: Transition) -> None:
    """Check steering: its queue is limited, immune calls are not skipped, and texts are applied in order.

    Steering texts that become prompts come before the prompts that wait.
    """
    old, after = transition.before, transition.after
    demand(len(after.steering) <= after.setup.options.max_steering_queue, "{} steering texts wait", len(after.steering))
    if isinstance(transition.input, SteerSent):
        skipped = {event.call_id for event in transition.events if isinstance(event, ToolSkippedForSteering)}
        for call in transition.running:
            immune = call.spec is not None and call.spec.immune
            demand(not (immune and call.call_id in skipped), "{} is immune and skipped for steering", call)
    if not old.steering:
        return
    refs = tuple(text.ref for text in old.steering)
    text = "\n\n".join(text.text for text in old.steering)
    for event in transition.events:
        if isinstance(event, SteeringApplied) and set(event.refs) == set(refs):
            steering = [m.text for m in after.history if isinstance(m, UserMessage) and m.origin is Origin.STEERING]
            demand(
                event.refs == refs and text in steering, "{} were applied as {}: {}", refs, event.refs, steering[-1:]
            )
    refs_ = [event.ref for event in transition.events if isinstance(event, PromptReceived | PromptRejected)]
    refs_ += [after.next_prompt.ref] if after.next_prompt is not None else []
    order = [*refs_, *(prompt.ref for prompt in after.queue)]
    next_refs = {prompt.ref for prompt in old.queue}
    first = next((index for index, ref in enumerate(order) if ref in next_refs), len(order))
    demand(not set(order[first:]) & set(refs), "steering {} comes after the prompts that wait: {}", refs, order)


def _says_first(transition: Transition) -> None:
    """Check that `before_finish` does not run while a steering text waits, except in the last round that is allowed."""
    old = transition.before
    has_hook = any(ruling.hook == "before_finish" for ruling in transition.step.rulings)
    waited = any(waiting.hook.hook_name == "before_finish" for waiting in old.suspended_runs)
    if has_hook and not waited and old.steering and transition.in_turn:
        last = old.round >= old.setup.options.max_rounds
        demand(last, "before_finish runs, and {} waits", old.steering)


def _supersedes(transition: Transition) -> None:
    """Check that a prompt ends a turn that waits for a person, if the option says `supersede`."""
    prompt, old = transition.input, transition.before
    if not isinstance(prompt, PromptSent) or not isinstance(transition.step.answer, Accepted) or not old.resting:
        return
    if old.setup.options.on_prompt_while_held == "supersede":
        ends = any(isinstance(event, AgentEnd) and event.reason == "superseded" for event in transition.events)
        demand(ends, "a prompt does not supersede what waits for a person")


def _rewrites(transition: Transition) -> None:
    """Check that a text that plugins replaced is in the event about it, and in the history or the queue.

    Steering that an abort in the same step drops is in neither, and is reported a second time, as dropped.
    """
    dropped = [
        text.text for text in transition.events if isinstance(text, SteeringReceived) and text.status == "dropped"
    ]
    for ruling in transition.step.rulings:
        decisions = ruling.decisions
        if ruling.verdict is Verdict.ASK or decisions.text is None:
            continue
        announced = [
            _told(event) for event in transition.events if getattr(event, "replaced_by", ()) == decisions.replaced_by
        ]
        new_text = (
            "\n\n".join((decisions.text, *decisions.texts)) if ruling.hook == "before_steering" else decisions.text
        )
        demand(
            new_text in announced, "{} has replaced a text by {!r}, and {} are told", ruling.hook, new_text, announced
        )
        kind = AssistantMessage if ruling.hook == "after_response" else UserMessage
        texts = [message.text for message in transition.after.history if isinstance(message, kind)]
        steering = "\n".join((*texts, *(text.text for text in transition.after.steering), *dropped))
        is_there = new_text in steering if ruling.hook == "before_steering" else new_text in texts
        demand(is_there or not transition.in_turn, "{!r} replaces a text, and is not in the history", new_text)


def _told(event: Event) -> str:
    match event:
        case PromptReceived(text=text) | SteeringReceived(text=text):
            return text
        case ResponseComplete(message=message):
            return message.text
        case _:
            return ""


# Decisions of people


def _approves(transition: Transition) -> None:
    """Check an approval: the tool is attached and unchanged, and edited arguments were checked.

    Calls are approved for always only if the caller said so and did not edit the arguments.
    """
    approval, old, after = transition.input, transition.before, transition.after
    if not isinstance(approval, ApproveSent) or not isinstance(transition.step.answer, Done):
        return
    for call in transition.calls:
        if call.hold is None or call.hold.approval_id != approval.approval_id:
            continue
        tool = old.tools.get(call.name)
        demand(tool is not None and tool.revision == call.revision, "{} is approved, and its tool has changed", call)
        edited = approval.args is not None and not is_same(approval.args, call.hold.args)
        first = transition.step.rulings[0] if transition.step.rulings else None
        checked = first is not None and first.hook == "check" and first.verdict is Verdict.PASS
        demand(not edited or checked, "{} is carried out, and does not fit the tool", approval)
        more = after.approved_always - old.approved_always
        demand(not more or (approval.always and not edited), "{} is approved for ever by {}", more, approval)


def _leaves(transition: Transition) -> None:
    """Check that a turn ends as `left` only if no decision about its calls asks for a further request."""
    if not any(isinstance(event, AgentEnd) and event.reason == "left" for event in transition.events):
        return
    input_ = transition.input
    goes_on_ = transition.before.batch is not None and any(goes_on for _, goes_on in transition.before.batch.decisions)
    goes_on_ = goes_on_ or isinstance(input_, RespondSent | ResultSent)
    goes_on_ = goes_on_ or (isinstance(input_, ApproveSent | RejectSent) and input_.auto_resume)
    goes_on_ = goes_on_ or (isinstance(input_, TimerFired) and input_.timer.startswith(hold_timer("")))
    demand(not goes_on_, "the turn is left, and a decision wants it to go on")


PEOPLE: Final[tuple[Callable[[Transition], None], ...]] = (
    _aborts,
    _steers,
    _says_first,
    _supersedes,
    _rewrites,
    _approves,
    _leaves,
)
"""The rules; each raises `InvariantBrokenError` if a step breaks it."""


LATELY: Final = 20
"""In how many of the last messages a text is looked for."""

# Tools on demand


def _deferred(state: State) -> list[ToolSpec]:
    return [attached.spec for attached in state.tools.values() if attached.spec.deferred]


def _declares(transition: Transition) -> None:
    """Check that a request declares each tool except deferred ones, which a tool's description names instead.

    A request that the same step gives up again is left out: plugins may have changed the tools after it.
    """
    going = transition.after.request
    for effect in transition.step.effects:
        if not isinstance(effect, StartRequest) or going is None or effect.request.request_id != going.request_id:
            continue
        request, deferred = effect.request, _deferred(transition.after)
        plain = [attached.spec for attached in transition.after.tools.values() if not attached.spec.deferred]
        leading = [tool for tool in request.tools if tool not in plain]
        demand([*request.deferred] == deferred, "{} can be found, and {} are to be", request.deferred, deferred)
        demand([*request.tools[: len(plain)]] == plain, "{} are declared as {}", plain, request.tools)
        demand(len(leading) == (2 if deferred else 0), "{} are declared for the deferred tools {}", leading, deferred)
        unnamed = [tool.name for tool in deferred if tool.name not in leading[0].description]
        demand(not unnamed, "no description names {}", unnamed)


def _finds(transition: Transition) -> None:
    """Check that tools that the model found stay found, and that it gets their definitions again after a compaction."""
    old, after = transition.before, transition.after
    names = {name for event in transition.events if isinstance(event, ToolsFound) for name in event.names}
    lost = {*old.found_tools, *names} - {*after.found_tools}
    demand(not lost, "{} were found, and are forgotten", lost)
    if not isinstance(transition.input, CompactionEnded) or after.history is old.history or not after.found_tools:
        return
    definitions = [definition(spec) for spec in _deferred(after) if spec.name in after.found_tools]
    texts = [message.text for message in after.history] + [*after.notices]
    missing = [definition_ for definition_ in definitions if not any(definition_ in text for text in texts)]
    demand(not missing or sum(map(len, definitions)) > ROOM, "after a compaction nothing tells of {}", missing)


def _resolves(transition: Transition) -> None:
    """Check that a call of `call_tool` is in the history as a call of the tool that it names."""
    ended, old, after = transition.input, transition.before, transition.after
    request = old.request
    if not isinstance(ended, StreamEnded) or request is None or request.request_id != ended.request_id:
        return
    new = after.history[len(old.history) :]
    response = next((message for message in new if isinstance(message, AssistantMessage)), None)
    if response is None or len(response.calls) != len(ended.response.calls) or not _deferred(old):
        return
    finder, caller = free(FINDER, old.tools), free(CALLER, old.tools)
    for sent_call, stored in zip(ended.response.calls, response.calls, strict=True):
        name, args = sent_call.args.get("name"), sent_call.args.get("arguments")
        if sent_call.name == caller and isinstance(name, str) and name != caller and not isinstance(args, str):
            via = "" if name == finder else caller
            demand((stored.name, stored.via) == (name, via), "{} stands in the history as {}", sent_call, stored)


# Answers in a form


def _returns(state: State, ref: str) -> JsonObject | None:
    """Return the schema that the prompt *ref* was sent with; `None` if *state* does not have it."""
    waiting = [*state.queue, *([] if state.next_prompt is None else [state.next_prompt])]
    return next((prompt.returns for prompt in waiting if prompt.ref == ref), None)


def _forms(transition: Transition) -> None:
    """Check that a turn wants the answer form of its prompt, and ends with such an answer or is aborted."""
    old, after, answer = transition.before, transition.after, transition.step.answer
    for event in transition.events:
        match event:
            case AgentStart(ref=ref) if after.turn is not None and after.turn.ref == ref:
                form = _returns(old, ref)
                if isinstance(transition.input, PromptSent) and isinstance(answer, Accepted) and answer.ref == ref:
                    form = transition.input.returns
                demand(form in (None, after.turn.returns), "{} wants {}, its turn {}", ref, form, after.turn.returns)
            case AgentEnd(ref=ref, fits=fits, reason=stop) if old.turn is not None and old.turn.ref == ref:
                formed = bool(old.turn.returns or old.acting.returns)
                demand(formed or not fits, "{} ends with an answer in a form, and wanted none", ref)
                demand(fits or not formed or stop != "end", "{} ends without an answer in its form", ref)
                demand(not fits or _is_object(after.last_text or ""), "{} ends with {!r}", ref, after.last_text)
            case AnswerRejected(attempt=attempt, is_last=is_last):
                most = after.setup.options.answer_max_retries + 1
                over = any(isinstance(other, AgentAbort) and other.kind == "answer" for other in transition.events)
                demand(attempt <= most, "{} is more than the {} that are allowed", event, most)
                demand(is_last == over, "{}, and the turn is aborted: {}", event, over)
            case _:
                pass


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text.strip().removeprefix("```json").strip("`")), dict)
    except ValueError:
        return False


# What was said


def _said(transition: Transition) -> None:
    """Check that the history has the texts with which plugins replaced those of a prompt or response."""
    for ruling in transition.step.rulings:
        text = ruling.decisions.text
        if text is None or ruling.verdict in (Verdict.ABORT, Verdict.BLOCK, Verdict.ASK):
            continue
        if ruling.hook == "before_prompt":
            prompts = [event.text for event in transition.events if isinstance(event, PromptReceived)]
            demand(
                text in prompts and text in _texts(transition, UserMessage), "{!r} is not what the user has said", text
            )
        elif ruling.hook == "after_response":
            demand(text in _texts(transition, AssistantMessage), "{!r} is not what the model has said", text)


def _texts(transition: Transition, kind: type[UserMessage | AssistantMessage]) -> list[str]:
    return [message.text for message in transition.after.history[-LATELY:] if isinstance(message, kind)]


def _files(transition: Transition) -> None:
    """Check that the files of a prompt that starts a turn are in the history as they were sent."""
    prompt, answer, turn = transition.input, transition.step.answer, transition.after.turn
    if not isinstance(prompt, PromptSent) or not isinstance(answer, Accepted) or turn is None or turn.ref != answer.ref:
        return
    files = [part for part in prompt.parts if not isinstance(part, Text)]
    other = list(_parts(transition)) if files else []
    demand(all(file in other for file in files), "of {} only {} are in the history", files, other)


def _parts(transition: Transition) -> Iterator[object]:
    for message in transition.after.history[-LATELY:]:
        if isinstance(message, UserMessage):
            yield from message.parts


SEEN: Final[tuple[Callable[[Transition], None], ...]] = (_declares, _finds, _resolves, _forms, _said, _files)
"""The rules; each raises `InvariantBrokenError` if a step breaks it."""


RULED: Final = (ToolBlocked, ToolCallUnknown, ApprovalRequired)
"""Events of rulings on a new call."""


def _batches(transition: Transition) -> None:
    """Check a batch: a tool that is not `parallel` runs alone, and no call starts before plugins ruled on all.

    The results are in the history in the order of the calls.
    """
    old, after = transition.before, transition.after
    starts = [effect for effect in transition.step.effects if isinstance(effect, StartCall)]
    runs_tool = any(isinstance(event, AskStarted) and event.request == RunTool.__name__ for event in transition.events)
    aborts = [item for item in transition.step.rulings if item.hook == "before_tool" and item.verdict is Verdict.ABORT]
    if (
        isinstance(transition.input, StreamEnded) and aborts and not runs_tool
    ):  # plugins also rule on a tool that a plugin asks for
        demand(not starts, "{} run though a plugin has aborted the turn at a call", starts)
    if isinstance(transition.input, StreamEnded) and not runs_tool:
        following = dropwhile(lambda event: not isinstance(event, ToolExecutionStart), transition.events)
        ruled = [event for event in following if isinstance(event, RULED)]
        demand(not ruled, "{} come after the first of {}, so not all calls were ruled on before", ruled, starts)
    if after.batch is not None:
        busy = [call for call in after.batch.calls if call.status in (CallStatus.RUNNING, CallStatus.SETTLING)]
        alone = any(call.spec is not None and not call.spec.parallel for call in busy)
        demand(not alone or len(busy) == 1, "{} run beside one that runs alone", busy)
        loners = [detached for detached in after.lingering_calls if not detached.parallel]
        demand(runs_tool or not (loners and starts), "{} start beside {}, which run alone", starts, loners)
        new = any(call.status is CallStatus.NEW for call in after.batch.calls)
        demand(not (new and starts), "{} run before all calls are ruled on", starts)
    if old.batch is not None and after.batch is not old.batch and not isinstance(transition.input, CompactionEnded):
        expected = [call.call_id for call in old.batch.calls]
        shortened = after.agent is not old.agent  # a handoff may pass on the messages of the turn alone
        other = {m.call_id for m in old.history if isinstance(m, ToolMessage)} if shortened else set[str]()
        messages = after.history if shortened else after.history[len(old.history) :]
        placed = [m.call_id for m in messages if isinstance(m, ToolMessage) and m.call_id not in other]
        demand(placed in ([], expected), "the results of {} stand as {}", expected, placed)


def _starts(transition: Transition) -> None:
    """Check that each start of a tool that is told is carried out by an effect of the same step."""
    effects = transition.step.effects
    starts = {(effect.call_id, effect.attempt) for effect in effects if isinstance(effect, StartCall)}
    starts |= {(effect.ask_id, 1) for effect in effects if isinstance(effect, CarryOut)}
    # a call that is made elsewhere is told of in the same step
    starts |= {(event.call_id, 1) for event in transition.events if isinstance(event, ResultRequired)}
    for event in transition.events:
        if isinstance(event, ToolExecutionStart):
            demand((event.call_id, event.attempt) in starts, "{} is told, and nothing starts: {}", event, effects)


def _tries_again(transition: Transition) -> None:
    """Check that plugins are asked about a retry of a failed call if and only if the call may be tried again."""
    raised = transition.input
    if not isinstance(raised, ToolRaised):
        return
    for call in transition.running:
        if (call.call_id, call.attempt) == (raised.call_id, raised.attempt) and call.spec is not None:
            may = call.attempt <= transition.before.setup.options.tool_max_retries and call.spec.effect in CAN_RUN_AGAIN
            open_calls = (
                []
                if transition.after.batch is None
                else [other for other in transition.after.batch.calls if not other.done]
            )
            waits = any(other.call_id == call.call_id and other.status is CallStatus.FAILED for other in open_calls)
            is_tried = waits or any(ruling.hook == "on_tool_error" for ruling in transition.step.rulings)
            demand(is_tried == may, "{} broke, and is tried again: {}", call, is_tried)


def _doubts(transition: Transition) -> None:
    """Check that a stopped call of an unsafe tool stays in doubt until it runs again or a person resolves the doubt."""
    after = transition.after
    if after.setup.options.on_repeat_unknown != "hold" or after.phase is Phase.ENDED:
        return
    stopped = {e.call_id for e in transition.events if isinstance(e, ToolSkippedForSteering | ToolKilled | ToolUnknown)}
    unsafe = [(c.call_id, c.name, c.args) for c in transition.running if c.call_id in stopped and _unsafe(c)]
    again = [(e.name, e.args) for e in transition.step.effects if isinstance(e, StartCall)]
    if len(after.in_doubt_calls) == MOST:  # the oldest were dropped
        return
    young = (doubt for doubt in transition.before.in_doubt_calls if after.turn_count - doubt.turn <= TURNS_KEPT)
    unsafe += [(doubt.call_id, doubt.name, doubt.args) for doubt in young if doubt.args is not None]
    cleared = {e.call_id for e in transition.events if isinstance(e, ApprovalResolved) and e.status == "cleared"}
    for call_id, name, args in unsafe:
        if call_id in cleared:
            continue
        is_kept = any(doubt.covers(name, args) for doubt in after.in_doubt_calls)
        runs = any(other == name and is_same(args, args_) for other, args_ in again)
        demand(is_kept or runs, "{} {} may have taken effect, and no doubt is kept", name, args)


def _unsafe(call: Call) -> bool:
    return call.spec is None or call.spec.effect is EffectClass.UNSAFE


def _lingers(transition: Transition) -> None:
    """Check that after a restart an event reports the end of each call that an abort left running."""
    if isinstance(transition.input, SessionReturned) and isinstance(transition.step.answer, Done):
        announced = {event.call_id for event in transition.events if isinstance(event, ToolExecutionEnd) and event.late}
        lost = {detached.call_id for detached in transition.before.lingering_calls} - announced
        demand(not lost, "{} went on in the background, and their end is not reported", lost)


# Requests and usage


def _fails(transition: Transition) -> None:
    """Check that a failed request is retried as often as allowed, after the right pause, or with the next model."""
    cut, turn, request = transition.input, transition.before.turn, transition.before.request
    if transition.after.request is not None:
        demand(
            transition.after.request.stalls < transition.after.setup.options.stall_limit,
            "a request stalls once too often",
        )
    if not isinstance(cut, StreamCut) or turn is None or request is None or cut.request_id != request.request_id:
        return
    now = transition.after.turn if transition.same_turn else None
    fell_back = (
        any(isinstance(event, Retry) for event in transition.events) and now is not None and now.spares != turn.spares
    )
    if fell_back or any(isinstance(event, ModelOptionsChanged | ModelSwitched) for event in transition.events):
        demand(now is None or len(now.spares) < len(turn.spares), "a model of the chain is not used up")
    elif cut.failure.kind is FailureKind.TRANSIENT:
        _pauses(transition, cut.failure, turn.attempt - turn.failed_over)


def _pauses(transition: Transition, failure: Failure, tried: int) -> None:
    options, wait = transition.before.setup.options, failure.retry_after or 0.0
    gave_up = any(isinstance(event, StreamError) for event in transition.events)
    demand(gave_up == (tried > options.max_retries), "attempt {} failed, and is the last: {}", tried, gave_up)
    for event in transition.events:
        if isinstance(event, Retry):
            demand(event.delay_ms >= int(wait * 1000), "{}, where the provider wants {} s", event, wait)
            demand(event.delay_ms <= max(wait, RETRY_CAP) * 1000, "{} is longer than any pause may be", event)


def _counts(transition: Transition) -> None:
    """Check that the usage of the input is added once."""
    more = _used(transition)
    used = transition.before.usage if more is NOTHING_USED else transition.before.usage.plus(more)
    demand(
        transition.after.usage == used,
        "{} leads from {} to {}",
        transition.input,
        transition.before.usage,
        transition.after.usage,
    )


def _used(transition: Transition) -> Usage:
    input_, old, request = transition.input, transition.before, transition.before.request
    now = transition.after.request
    cut = request is not None and (now is None or now.request_id != request.request_id)
    match input_:
        case StreamEnded(request_id=ref, response=response):
            return response.usage if request is not None and request.request_id == ref else NOTHING_USED
        case StreamCut(request_id=ref, partial=partial):
            return partial.usage if request is not None and request.request_id == ref else NOTHING_USED
        case StreamStalled(partial=partial) | AbortSent(partial=partial) | StopSent(partial=partial):
            return partial.usage if cut else NOTHING_USED
        case SteerSent(partial=partial, when="now") | TimerFired(partial=partial):
            return partial.usage if cut else NOTHING_USED
        case AskSettled(usage=usage) | CompactionEnded(usage=usage) | CompactionFailed(usage=usage):
            return usage
        case SubagentReported(child=child, used=used, heard=heard_):
            agent_ = next((agent for agent in old.subagents if agent.child == child), None)
            return NOTHING_USED if agent_ is None or heard_ < agent_.heard else used.minus(agent_.used)
        case _:
            return NOTHING_USED


def _compacts(transition: Transition) -> None:
    """Check that the history is only replaced by the compaction that the session waits for.

    The start of the turn must be within the history, and its rounds within the limit.
    """
    ended, old, after = transition.input, transition.before, transition.after
    if isinstance(ended, CompactionEnded):
        mine = old.compaction is not None and old.compaction.compaction_id == ended.compaction_id
        demand(mine or after.history is old.history, "a compaction that was given up replaces the history")
    if after.turn is not None and after.turn.ended is None:
        demand(after.turn.mark <= len(after.history), "the turn began after its own end")
        demand(after.round <= after.setup.options.max_rounds, "round {} is one too many", after.round)


def adds(transition: Transition) -> None:
    """Check that added context is in its request alone: first or last, in order, with its origin."""
    rulings = [ruling for ruling in transition.step.rulings if ruling.hook == "before_request"]
    request = transition.after.request
    for effect in transition.step.effects:
        if not isinstance(effect, StartRequest) or request is None or not rulings:
            continue
        if effect.request.request_id != request.request_id:
            continue  # a critical listener, for example, aborted the turn in the same step, and the next turn has begun
        decisions = rulings[-1].decisions
        added = (*decisions.front, *decisions.added)
        pieces = () if request.messages is None else request.messages.pieces
        pieces_ = tuple(piece for piece in pieces if isinstance(piece, Added))
        demand(pieces_ == added, "plugins added {}, and the record of the request has {}", added, pieces_)
        messages = tuple(effect.request.messages)
        front = tuple(message_.message for message_ in decisions.front)
        demand(messages[: len(front)] == front, "plugins added {}, and the request begins with {}", front, messages[:3])
        end = tuple(message_.message for message_ in decisions.added)
        demand(
            messages[len(messages) - len(end) :] == end,
            "plugins added {}, and the request ends with {}",
            end,
            messages[-3:],
        )
        demand(
            {message_.by for message_ in added} <= {attached.key for attached in transition.after.plugins},
            "{} is of no plugin",
            added,
        )
        stays = [
            message_ for message_ in (*front, *end) if any(message_ is other for other in transition.after.history)
        ]
        demand(not stays, "{} was added for one request, and is in the history", stays)


def _switches(transition: Transition) -> None:
    """Check that a switch of model by a caller takes effect only after the open turn."""
    old, new = transition.before.turn, transition.after.turn
    if isinstance(transition.input, SwitchModelSent) and old is not None and new is not None:
        demand(old.model == new.model or old.ref != new.ref, "a caller's model is used in the turn that is open")


def _runs_for_plugins(transition: Transition) -> None:
    """Check that a tool that a plugin asks for runs only if the other plugins let it, each with its own answer."""
    runs = [
        item for item in transition.step.effects if isinstance(item, CarryOut) and isinstance(item.request, RunTool)
    ]
    let = [
        item
        for item in transition.step.rulings
        if item.hook == "before_tool" and item.verdict in (Verdict.PASS, Verdict.SKIP)
    ]
    demand(len(runs) <= len(let), "{} run for plugins, and {} were let", runs, let)


WORK: Final[tuple[Callable[[Transition], None], ...]] = (
    _batches,
    _starts,
    _tries_again,
    _doubts,
    _lingers,
    _fails,
    _counts,
    _compacts,
    adds,
    _switches,
    _runs_for_plugins,
)
"""The rules; each raises `InvariantBrokenError` if a step breaks it."""


# Plugins


def _rules(transition: Transition) -> None:
    """Check rulings: an abort or a block drops what other plugins decided, except events; new states are kept.

    Plugins must stay in the order of their priorities, and may not ask too often.
    """
    old_state, after = transition.before, transition.after
    for ruling in transition.step.rulings:
        if ruling.verdict in (Verdict.ABORT, Verdict.BLOCK):
            rest = ruling.decisions.but(emits=())
            demand(rest == NO_DECISIONS, "{} ends with {}, and keeps {}", ruling.hook, ruling.verdict, rest)
    if old_state.plugins is after.plugins and all(
        r.hook in HOOK_NAMES | {"on_event", "check"} for r in transition.step.rulings
    ):
        states = list(old_state.plugin_states)
        for ruling in transition.step.rulings:
            for attached, state in ruling.states:
                states[attached] = state
        demand(tuple(states) == after.plugin_states, "what a plugin remembers is not what it has said")
    row, old = (
        [attached.priority for attached in attached_plugins] for attached_plugins in (after.plugins, old_state.plugins)
    )
    demand(old != sorted(old) or row == sorted(row), "plugins stand in the order {}", row)
    updates = [change.key for change in after.plugin_changes if change.kind == "update"]
    demand(len(updates) == len(set(updates)), "of {} more than the last one waits", updates)
    asks = [count for waiting in after.suspended_runs for _, count in waiting.decisions.asks]
    demand(max(asks, default=0) <= MAX_ASKS, "a plugin asks too often")


# Time, sleep and sub-agents


def _keeps_time(transition: Transition) -> None:
    """Check timers: each running call and hold with a limit has one, and none is left of an ended turn or retry."""
    old, after, fired = transition.before, transition.after, transition.input
    if isinstance(fired, TimerFired):
        due = dict(old.timers).get(fired.timer)
        demand((due is not None and due <= transition.at) or after == old, "{} counts, and is due {}", fired, due)
    parts = ("timers", "batch", "subagents", "request", "turn", "phase")
    if after.phase is Phase.ENDED or all(getattr(after, part) is getattr(old, part) for part in parts):
        return
    calls = () if after.batch is None else after.batch.calls
    waits = {agent.call_id for agent in after.subagents if agent.waits and not agent.background}
    run = {c.call_id for c in calls if c.status is CallStatus.RUNNING} - waits
    holds = {c.hold.approval_id: c.hold.expires_at for c in calls if c.hold is not None}
    timers = {name for name, _ in after.timers}
    delayed = {c.call_id for c in calls if c.status is CallStatus.READY and c.not_before}
    missing = {call_timer(call_id) for call_id in run | delayed} - timers
    demand(not missing, "{} are not set, and the calls run, or wait for another attempt", missing)
    expected = {hold_timer(ref) for ref, until in holds.items() if until is not None}
    names = {name for name in timers if name.startswith(hold_timer(""))}
    demand(names == expected, "of holds the timers {} are set, and {} are wanted", names, expected)
    late = {name for name in timers if name in map(call_timer, waits)}
    demand(not late, "{} go on, and the sub-agents wait for a person", late)
    demand(RETRY_TIMER not in timers or after.request is None, "a retry waits beside a request")
    demand(TURN_TIMER not in timers or after.turn is not None, "the time of no turn is kept")


def _sleeps(transition: Transition) -> None:
    """Check that a session falls asleep only without calls in the background, sub-agents, queued prompts and asks."""
    old, after = transition.before, transition.after
    if after.asleep and not old.asleep:
        lives = (
            old.quarantined_calls,
            old.lingering_calls,
            old.subagents,
            old.queue,
            old.suspended_runs,
        )
        demand(not any(lives), "it falls asleep beside {}", [life for life in lives if life])


def _tells_of_people(transition: Transition) -> None:
    """Check that the session also emits the events about its sub-agents' held calls and questions."""
    report = transition.input
    if isinstance(report, SubagentReported) and any(
        agent.child == report.child for agent in transition.before.subagents
    ):
        for event in report.events:
            if isinstance(event, ApprovalRequired | ApprovalResolved | AskUser | ResultRequired | UserResponded):
                agent_ = next(agent for agent in transition.before.subagents if agent.child == report.child)
                demand(
                    report.heard < agent_.heard or event in transition.events, "{} of a sub-agent is not told", event
                )


PROMISES: Final[tuple[Callable[[Transition], None], ...]] = (
    *PEOPLE,
    *WORK,
    *SEEN,
    _rules,
    _keeps_time,
    _sleeps,
    _tells_of_people,
)
"""The rules; each raises `InvariantBrokenError` if a step breaks it."""


def check_promises(transition: Transition) -> None:
    """Raise `InvariantBrokenError` if *transition* breaks one of the rules in `PROMISES`."""
    for promise in PROMISES:
        promise(transition)

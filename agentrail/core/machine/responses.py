"""Results of requests: complete responses, failures and stalls, with retries and fallback models."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Final

from agentrail.core.answers import UNFIT, read_answer
from agentrail.core.context_window import measured
from agentrail.core.inline_tags import title_in, without_tags
from agentrail.core.machine.deferred_tools import resolve_call
from agentrail.core.machine.draft import StepDraft
from agentrail.core.machine.endings import RETRY_TIMER, abort_turn, end_turn, keep_partial
from agentrail.core.machine.requests import OVERFLOW, abort_by, after_compaction, next_round, request, want_compaction
from agentrail.core.machine.tool_results import find, put
from agentrail.core.vocabulary.effects import CancelRequest
from agentrail.core.vocabulary.inputs import CompactionFailed, StreamCut, StreamEnded, StreamStalled
from agentrail.core.vocabulary.options import Options
from agentrail.core.vocabulary.state import EXECUTING_TOOLS, RUNNING, STREAMING, State, Turn
from agentrail.core.vocabulary.tool_calls import DONE, Batch, first_calls
from agentrail.hooks.hook_types import AfterResponse, BeforeFinish, Hook
from agentrail.hooks.ruling import ABORT, Ruling, Verdict
from agentrail.values.content import Said, Text, ToolCall
from agentrail.values.events.context import CompactEnd, Intervention
from agentrail.values.events.response import (
    AnswerRejected,
    ContextOverflow,
    ResponseComplete,
    Retry,
    StreamError,
    TitleGenerated,
)
from agentrail.values.events.response import StreamStalled as StreamStalledEvent
from agentrail.values.events.tools import ToolCalls
from agentrail.values.messages import LENGTH, REFUSED, TOOL_CALLS, AssistantMessage, Origin, StopReason, UserMessage
from agentrail.values.stream import NOTHING_YET, Failure, FailureKind, Partial, Response
from agentrail.values.value import quick

_after_response = quick(AfterResponse)
_before_finish = quick(BeforeFinish)
_call = quick(ToolCall)
_complete_event = quick(ResponseComplete)
_message_of = quick(AssistantMessage)
_tool_calls = quick(ToolCalls)
_text_of: Callable[[Said], str] = attrgetter("text")

STOPS = {
    StopReason.END: "end",
    StopReason.TOOL_CALLS: "end",
    StopReason.LENGTH: "length",
    StopReason.REFUSED: "refused",
}
"""Maps why the model stopped to how a turn ends if this response is its last."""


MAX_DOUBLED = 64
"""The most doublings of a back-off, so that the float does not overflow however many retries are allowed."""

RETRY_CAP: Final = 60.0
"""Longest wait before a retry, in seconds, unless the provider asks for a longer one.

Rate limits of providers count by the minute, so a longer wait does not help. If the provider asks for a longer one, the
next fallback model, if any, is asked.
"""

RETRY_AFTER_CAP: Final = 600.0
"""Longest wait a provider may ask for, in seconds: its answer is not trusted to hold a turn for a day."""

UNREACHED_MS: Final = 5_000
"""For how many milliseconds a turn tries again while no attempt of it could connect, probably without a network."""

UNREACHED_PACE: Final = 0.25
"""The share of the usual back-off that such a turn waits."""

AGAIN: Final = (
    "Your answer does not fit the form that was asked for: {problem}. Give the whole answer again, in that form."
)
"""The text that goes back to the model with the reason."""

CUT: Final = "it was cut off, because it is longer than one response may be; make it shorter"


def _is_current(draft: StepDraft, request_id: str) -> bool:
    """Whether *request_id* is that of the running request; results of others are ignored."""
    return draft.state.request is not None and draft.state.request.request_id == request_id


def begun(state: State, request_id: str) -> State:
    """Return the state after the first chunk of the response to a request: a fact, not a step, as nothing is decided.

    It has no record of its own, but is part of the next one. No-op if the request is not the running one.
    """
    request, turn = state.request, state.turn
    if request is None or request.request_id != request_id or state.phase is not RUNNING:
        return state
    if turn is not None and turn.unreached_since is not None:
        turn = turn.but(unreached_since=None)
    return state.but(phase=STREAMING, turn=turn)


def on_ended(draft: StepDraft, ended: StreamEnded) -> None:
    """Append a complete response to the history and ask plugins about it; retry once if it is empty."""
    state = draft.state
    if not _is_current(draft, ended.request_id) or state.turn is None:
        return
    state.request = None
    _note_connected(draft)
    response = ended.response
    draft.add_usage(response.usage)
    if state.setup.options.inline_tags:
        response = _cut_tags(draft, response)
    if not response.calls and not any(map(_text_of, response.parts)) and response.stop is not REFUSED:
        _take_nothing(draft, state.turn)
        return
    draft.response = message = _message(draft, state.turn, response)
    state.last_text = message.text
    stop = STOPS[response.stop]
    if stop != state.turn.stop:
        state.turn = state.turn.but(stop=stop)
    if message.calls:
        state.batch = Batch(first_calls(message.calls))
        if response.stop is LENGTH:
            _refuse_the_cut_call(draft, message.calls[-1])
    draft.due.appendleft(("after_response", ""))


def _cut_tags(draft: StepDraft, response: Response) -> Response:
    """Remove inline tags from *response*, and report a title found in them."""
    parts, tags = without_tags(response.parts)
    title = title_in(tags)
    if title:
        draft.emit(TitleGenerated(title))
    return response.but(parts=parts)


def _message(draft: StepDraft, turn: Turn, response: Response) -> AssistantMessage:
    """Return *response* as a message for the history, its calls with ids of the session."""
    calls = () if response.stop is REFUSED else response.calls
    tools = draft.state.tools
    own_calls = tuple([_own(draft, resolve_call(call, tools)) for call in calls]) if calls else ()
    stop = response.stop
    if stop is TOOL_CALLS and not own_calls:
        stop = StopReason.END
    return _message_of(response.parts, own_calls, turn.model, stop, response.usage)


def _own(draft: StepDraft, call: ToolCall) -> ToolCall:
    """Return *call* with an id of the session; the provider's id is kept beside it."""
    return _call(draft.make_id("c"), call.name, call.args, call.provider_id or call.call_id, call.via)


def _refuse_the_cut_call(draft: StepDraft, cut: ToolCall) -> None:
    """Refuse the last call of a response that was cut off in the middle of that call."""
    call = find(draft, cut.call_id)
    if call is not None and not call.done:
        put(draft, call.but(refusal="the response was cut off in the middle of this call; make it again, shorter"))


def _take_nothing(draft: StepDraft, turn: Turn) -> None:
    """Handle an empty response: make the request once more, abort the turn the second time."""
    if turn.empty:
        draft.emit(StreamError("EmptyResponse", "the model answered with nothing, twice"))
        abort_turn(draft, "provider_error", "the model answered with nothing, twice")
        return
    draft.state.turn = turn.but(empty=True, last_error="empty response")
    draft.state.phase = RUNNING
    draft.emit(Retry(turn.attempt, 0, "the model answered with nothing"))
    request(draft)


def begin_after_response(draft: StepDraft, _: str) -> Hook | None:
    """Build the `after_response` hook of a complete response."""
    return None if draft.response is None else _after_response(draft.response)


def say_response(draft: StepDraft) -> None:
    """Append the response of this step to the history, while its hook is paused. No-op for other hooks."""
    message, draft.response = draft.response, None
    if message is not None:
        _say(draft, message)


def _say(draft: StepDraft, message: AssistantMessage) -> None:
    """Append *message* to the history, and note the token count of the context."""
    if message.stop is not REFUSED or message.text:
        # A refusal without text is left out of the history: providers accept no empty message.
        draft.append_messages(message)
    draft.state.token_count = measured(draft.state, message.usage)


def _take_said(draft: StepDraft, message: AssistantMessage, text: str | None) -> AssistantMessage:
    """Append *message* to the history, with *text* if plugins replaced its text; return the appended message."""
    state = draft.state
    is_said, draft.response = draft.response is None, None  # it is in the history already if its hook was suspended
    if text is None:
        if not is_said:
            _say(draft, message)
        return message
    if is_said and state.history and state.history[-1] == message:
        state.history = state.history.first(len(state.history) - 1)
    final = message.saying(text)
    _say(draft, final)
    state.last_text = final.text
    return final


def finish_after_response(draft: StepDraft, _ref: str, hook: Hook, ruling: Ruling) -> None:
    """Continue after a response: rule on its tool calls, or conclude the turn if it has none."""
    state = draft.state
    if isinstance(hook, AfterResponse):
        decisions = ruling.decisions
        draft.emit(_complete_event(_take_said(draft, hook.message, decisions.text), decisions.replaced_by))
    if ruling.verdict is ABORT:
        abort_by(draft, ruling)
        return
    draft.apply(ruling)
    text = "\n\n".join(ruling.decisions.texts)
    if state.batch is None:
        state.phase = RUNNING
        if text and _prolong(draft, text, "after_response"):
            next_round(draft)
        else:
            _conclude(draft)
        return
    if text and _may_prolong(draft, text, "after_response"):
        state.batch = state.batch.but(texts=(*state.batch.texts, ("after_response", text)))
    state.phase = EXECUTING_TOOLS
    draft.emit(_tool_calls(len(state.batch.calls)))
    draft.due.extend([("before_tool", call.call_id) for call in state.batch.calls if call.status is not DONE])


# The final answer


def _conclude(draft: StepDraft) -> None:
    """Conclude a response without calls: ask `before_finish`, or begin a round if steering texts wait.

    An answer that does not fit the schema of the turn first goes back to the model.
    """
    state = draft.state
    if state.turn is None:
        return
    if state.steering and state.round < state.setup.options.max_rounds:
        next_round(draft)
    elif not state.returns or _takes_answer(draft, state.turn):
        draft.due.appendleft(("before_finish", ""))


def _takes_answer(draft: StepDraft, turn: Turn) -> bool:
    """Check the answer of *turn* against its form; return whether it fits.

    One that does not goes back to the model with the reason, in a new round. The turn is aborted if it has had too many
    of them, if no round is left, or if the model refuses to answer.
    """
    state = draft.state
    problem = _problem(draft, turn)
    if problem is None:
        state.turn = turn.but(fits=True)
        return True
    options = state.setup.options
    is_last = turn.stop == "refused" or turn.misfits >= options.answer_max_retries or state.round >= options.max_rounds
    draft.emit(AnswerRejected(turn.misfits + 1, problem, is_last))
    if is_last:
        abort_turn(draft, UNFIT, problem)
        return False
    state.turn = turn.but(misfits=turn.misfits + 1)
    draft.append_messages(UserMessage((Text(AGAIN.format(problem=problem)),), Origin.NOTICE))
    next_round(draft)
    return False


def _problem(draft: StepDraft, turn: Turn) -> str | None:
    """Return why the model's last text is not the answer that *turn* wants; `None` if it is."""
    reply = draft.state.last_text or ""
    if turn.stop == "refused":
        return f"the model refuses to answer: {reply}" if reply else "the model refuses to answer"
    if turn.stop == "length":
        return CUT
    answer = read_answer(reply)
    if isinstance(answer, str):
        return answer
    ruling = draft.hook_runner.answer(draft.state.returns, answer, turn.ref if turn.returns else None)
    draft.rulings.append(ruling)
    return None if ruling.verdict is Verdict.PASS else ruling.reason


def begin_before_finish(_w: StepDraft, _: str) -> Hook:
    """Build the `before_finish` hook of a final answer."""
    return _before_finish()


def finish_before_finish(draft: StepDraft, _ref: str, _hook: Hook, ruling: Ruling) -> None:
    """End the turn, or start another round if a plugin adds a text or steering waits."""
    state = draft.state
    if ruling.verdict is ABORT:
        abort_by(draft, ruling)
        return
    draft.apply(ruling)
    text = "\n\n".join(ruling.decisions.texts)
    prolonged = bool(text) and _prolong(draft, text, "before_finish")
    if prolonged or (state.steering and state.round < state.setup.options.max_rounds):
        next_round(draft)
    elif state.turn is not None:
        end_turn(draft, "max_rounds" if state.round >= state.setup.options.max_rounds else state.turn.stop)


def _may_prolong(draft: StepDraft, text: str, hook: str) -> bool:
    """Whether a plugin's text may add a round to the turn: it counts against limits. If not, report it as dropped."""
    state = draft.state
    if state.turn is None:
        return False
    options = state.setup.options
    if state.round >= options.max_rounds or state.turn.interventions >= options.max_interventions:
        draft.emit(Intervention(text, hook, applied=False))
        return False
    state.turn = state.turn.but(interventions=state.turn.interventions + 1)
    return True


def _prolong(draft: StepDraft, text: str, hook: str) -> bool:
    """Append a plugin's text for another round; return false if a limit forbids it."""
    if not _may_prolong(draft, text, hook):
        return False
    draft.append_messages(UserMessage((Text(text),), Origin.INTERVENTION))
    draft.emit(Intervention(text, hook))
    return True


# Requests that fail


def on_cut(draft: StepDraft, cut: StreamCut) -> None:
    """Handle a failed request by its kind: compact and retry, retry, use a fallback model, or abort the turn."""
    state = draft.state
    if not _is_current(draft, cut.request_id) or state.turn is None:
        return
    state.request = None
    state.phase = RUNNING
    failure = cut.failure
    since = _unreached_since(draft, state.turn, failure, state.turn.attempt - 1)
    if since != state.turn.unreached_since:
        state.turn = state.turn.but(unreached_since=since)
    if failure.kind is FailureKind.OVERFLOW:
        draft.add_usage(cut.partial.usage)
        draft.emit(ContextOverflow(failure.message))
        if state.turn.overflowed:
            abort_turn(draft, "overflow", failure.message)
        else:
            state.turn = state.turn.but(overflowed=True, last_error=failure.message)
            want_compaction(draft, "the provider says the context is too long", OVERFLOW)
    elif failure.kind is FailureKind.TRANSIENT:
        _try_again(draft, state.turn, cut.partial, failure)
    elif failure.here_alone and state.turn.spares:
        _fall_back(draft, state.turn, cut.partial, failure)
    else:
        _give_up(draft, cut.partial, failure)


def _note_connected(draft: StepDraft) -> None:
    """Note that a model could be reached: the time without a connection ends."""
    turn = draft.state.turn
    if turn is not None and turn.unreached_since is not None:
        draft.state.turn = turn.but(unreached_since=None)


def _unreached_since(draft: StepDraft, turn: Turn, failure: Failure, earlier: int) -> int | None:
    """Return when the first failed attempt without a connection began, in ms since 1970; `None` if one connected.

    *earlier* is the number of attempts of the round before the *failure*.
    """
    if failure.unreached_ms is None:
        return None
    is_first = draft.state.round == 1 and not earlier and turn.unreached_since is None
    return draft.at - failure.unreached_ms if is_first else turn.unreached_since


def on_stalled(draft: StepDraft, stalled: StreamStalled) -> None:
    """Report a stall; at the limit, cancel the request and try again."""
    state = draft.state
    if not _is_current(draft, stalled.request_id) or state.turn is None or state.request is None:
        return
    stalls = state.request.stalls + 1
    state.request = state.request.but(stalls=stalls)
    draft.emit(StreamStalledEvent(stalled.elapsed_s, stalls))
    if stalls >= state.setup.options.stall_limit:
        draft.add_effect(CancelRequest(state.request.request_id))
        state.request = None
        state.phase = RUNNING
        _note_connected(draft)
        problem = f"no chunk for {stalled.elapsed_s:g} s (stall {stalls} of this request)"
        failure = Failure(FailureKind.TRANSIENT, "Stalled", problem)
        _try_again(draft, state.turn, stalled.partial, failure)
    else:
        draft.partial = (
            stalled.partial
        )  # kept in the history if a critical plugin raises at the event and so aborts the turn


def _try_again(draft: StepDraft, turn: Turn, partial: Partial, failure: Failure) -> None:
    """Retry after a delay, use a fallback model, or give up."""
    options = draft.state.setup.options
    tried = turn.attempt - turn.failed_over
    asked_to_wait = failure.retry_after or 0.0
    too_long = asked_to_wait > RETRY_CAP
    delay = back_off(options, tried, asked_to_wait, draft.random)
    gives_up = False
    if turn.unreached_since is not None:
        delay = int(delay * UNREACHED_PACE)
        gives_up = is_too_late(draft.at - turn.unreached_since + delay, failure)
    if turn.spares and (tried >= min(options.fallback_after, options.max_retries + 1) or too_long or gives_up):
        _fall_back(draft, turn, partial, failure)
        return
    if tried > options.max_retries or gives_up:
        _give_up(draft, partial, failure)
        return
    draft.add_usage(partial.usage)
    draft.state.turn = turn.but(last_error=failure.message)
    draft.emit(Retry(turn.attempt, delay, failure.message, dropped_text=bool(partial.text)))
    draft.set_timer(RETRY_TIMER, draft.at + delay)


def is_too_late(after_ms: int, failure: Failure) -> bool:
    """Whether another attempt, *after_ms* since the first one without a connection, would end too late.

    It is assumed to take as long as the attempt of *failure*.
    """
    return after_ms + (failure.unreached_ms or 0) > UNREACHED_MS


def back_off(options: Options, tried: int, asked_to_wait: float, random: float) -> int:
    """Return the milliseconds to wait after *tried* failed attempts; *random*, from 0 to 1, shortens them."""
    pause = min(options.retry_base * 2.0 ** min(tried - 1, MAX_DOUBLED), RETRY_CAP)
    return int(1000 * max(pause * (0.5 + random / 2), min(asked_to_wait, RETRY_AFTER_CAP)))


def _fall_back(draft: StepDraft, turn: Turn, partial: Partial, failure: Failure) -> None:
    """Retry with the next fallback model."""
    draft.add_usage(partial.usage)
    draft.emit(Retry(turn.attempt, 0, failure.message, dropped_text=bool(partial.text)))
    _use_spare(draft, turn, failure)
    draft.set_timer(RETRY_TIMER, draft.at)


def _use_spare(draft: StepDraft, turn: Turn, failure: Failure) -> None:
    """Use the next fallback model until the turn ends."""
    spare, *spares = turn.spares
    draft.state.turn = turn.but(
        model=spare.model,
        options=spare.options,
        spares=tuple(spares),
        failed_over=turn.attempt,
        last_error=failure.message,
    )
    reason = f"{failure.error}: {failure.message}"
    draft.emit_switch((turn.model, turn.options), (spare.model, spare.options), reason=reason)


def _give_up(draft: StepDraft, partial: Partial, failure: Failure) -> None:
    """Abort the turn because of *failure*, and keep the partial text."""
    keep_partial(draft, partial)
    if failure.kind is FailureKind.LIMIT:
        abort_turn(draft, "plugin", failure.message)
    else:
        draft.emit(StreamError(failure.error, failure.message))
        abort_turn(draft, "provider_error", failure.message)


def on_compaction_failed(draft: StepDraft, failed: CompactionFailed) -> None:
    """Report the failure and continue with the unchanged history.

    If no model could be reached for as long as requests are retried, the turn continues as after a failed request.
    """
    state = draft.state
    draft.add_usage(failed.usage)
    turn, failure = state.turn, failed.failure
    if state.compaction is None or state.compaction.compaction_id != failed.compaction_id:
        return
    draft.emit(CompactEnd(0, failed.error))
    if turn is None or failure is None:
        after_compaction(draft, failed.error, shorter=False)
        return
    state.compaction = None
    since = _unreached_since(draft, turn, failure, turn.attempt)
    # If the provider answers again that the context is too long, it can be reached, so a compaction can succeed.
    overflowed = turn.overflowed and turn.attempt - turn.failed_over > state.setup.options.max_retries
    state.turn = turn = turn.but(unreached_since=since, overflowed=overflowed)
    is_late = since is not None and is_too_late(draft.at - since, failure)
    if is_late and not turn.spares:
        _give_up(draft, NOTHING_YET, failure)
        return
    if is_late:
        _use_spare(draft, turn, failure)
    request(draft)

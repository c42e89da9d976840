"""Results of requests: complete responses, failures and stalls, with retries and fallback models."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Final

from agentrail.core.answers import UNFIT, read_answer
from agentrail.core.cache_prefix import form_changed
from agentrail.core.context_window import measured
from agentrail.core.inline_tags import title_in, without_tags
from agentrail.core.machine.deferred_tools import meant
from agentrail.core.machine.draft import StepDraft
from agentrail.core.machine.endings import RETRY_TIMER, abort_turn, end_turn, keep_partial
from agentrail.core.machine.requests import OVERFLOW, abort_by, after_compaction, next_round, want_compaction
from agentrail.core.machine.tool_results import find, put
from agentrail.core.vocabulary.effects import CancelRequest, OpenStream
from agentrail.core.vocabulary.inputs import CompactionFailed, StreamBegan, StreamCut, StreamEnded, StreamStalled
from agentrail.core.vocabulary.options import Options
from agentrail.core.vocabulary.state import EXECUTING_TOOLS, RUNNING, STREAMING, Due, Turn
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


MOST_DOUBLED = 64
"""The most doublings of a back-off, so that the float does not overflow however many retries are allowed."""

UNREACHED_MS: Final = 5_000
"""For how many milliseconds a turn tries again while no attempt of it could connect, probably without a network."""

UNREACHED_PACE: Final = 0.25
"""The share of the usual back-off that such a turn waits."""

AGAIN: Final = (
    "Your answer does not fit the form that was asked for: {problem}. Give the whole answer again, in that form."
)
"""The text that goes back to the model with the reason."""

CUT: Final = "it was cut off, because it is longer than one response may be; make it shorter"


def _is_current(w: StepDraft, request_id: str) -> bool:
    return w.s.request is not None and w.s.request.request_id == request_id


def on_began(w: StepDraft, began: StreamBegan) -> None:
    """Note that the response has begun, and publish its buffered deltas."""
    if _is_current(w, began.request_id):
        _note_connected(w)
        w.s.phase = STREAMING
        w.ask(OpenStream(began.request_id))


def on_ended(w: StepDraft, ended: StreamEnded) -> None:
    """Append a complete response to the history and ask plugins about it; retry once if it is empty."""
    s = w.s
    if not _is_current(w, ended.request_id) or s.turn is None:
        return
    s.request = None
    _note_connected(w)
    response = ended.response
    w.count(response.usage)
    if s.returns:
        w.emit(*form_changed(s, by_tool=response.by_tool))
        s.by_tool = response.by_tool
    if s.setup.options.inline_tags:
        response = _cut_tags(w, response)
    if not response.calls and not any(map(_text_of, response.parts)) and response.stop is not REFUSED:
        _take_nothing(w, s.turn)
        return
    w.response = message = _message(w, s.turn, response)
    s.last_reply = message.text
    stop = STOPS[response.stop]
    if stop != s.turn.stop:
        s.turn = s.turn.but(stop=stop)
    if message.calls:
        s.batch = Batch(first_calls(message.calls, s.setup.options.max_calls_per_response))
        if response.stop is LENGTH:
            _refuse_the_cut_call(w, message.calls[-1])
    w.next("after_response")


def _cut_tags(w: StepDraft, response: Response) -> Response:
    """Remove inline tags from *response*, and report a title found in them."""
    parts, tags = without_tags(response.parts)
    title = title_in(tags)
    if title:
        w.emit(TitleGenerated(title))
    return response.but(parts=parts)


def _message(w: StepDraft, turn: Turn, response: Response) -> AssistantMessage:
    calls = () if response.stop is REFUSED else response.calls
    tools = w.s.tools
    own = tuple([_own(w, meant(call, tools)) for call in calls]) if calls else ()
    stop = response.stop
    if stop is TOOL_CALLS and not own:
        stop = StopReason.END
    return _message_of(response.parts, own, turn.model, stop, response.usage)


def _own(w: StepDraft, call: ToolCall) -> ToolCall:
    return _call(w.make_id("c"), call.name, call.args, call.provider_id or call.call_id, call.via)


def _refuse_the_cut_call(w: StepDraft, cut: ToolCall) -> None:
    call = find(w, cut.call_id)
    if call is not None and not call.done:
        put(w, call.but(refusal="the response was cut off in the middle of this call; make it again, shorter"))


def _take_nothing(w: StepDraft, turn: Turn) -> None:
    if turn.empty:
        w.emit(StreamError("EmptyResponse", "the model answered with nothing, twice"))
        abort_turn(w, "provider_error", "the model answered with nothing, twice")
        return
    w.s.turn = turn.but(empty=True, last_error="empty response")
    w.s.phase = RUNNING
    w.emit(Retry(turn.attempt, 0, "the model answered with nothing"))
    w.next("request")


def begin_after_response(w: StepDraft, _: str) -> Hook | None:
    """Build the `after_response` hook of a complete response."""
    return None if w.response is None else _after_response(w.response)


def say_response(w: StepDraft) -> None:
    """Append the response of this step to the history, while its hook is paused. No-op for other hooks."""
    message, w.response = w.response, None
    if message is not None:
        _say(w, message)


def _say(w: StepDraft, message: AssistantMessage) -> None:
    if message.stop is not REFUSED or message.text:
        w.say(message)  # a refusal without text is left out of the history: providers accept no empty message
    w.s.measured = measured(w.s, message.usage)


def _take_said(w: StepDraft, message: AssistantMessage, text: str | None) -> AssistantMessage:
    """Append *message* to the history, with *text* if plugins replaced its own; return what was appended."""
    s = w.s
    is_said, w.response = w.response is None, None  # it is said already if its hook was paused
    if text is None:
        if not is_said:
            _say(w, message)
        return message
    if is_said and s.history and s.history[-1] == message:
        s.history = s.history.first(len(s.history) - 1)
    final = message.saying(text)
    _say(w, final)
    s.last_reply = final.text
    return final


def finish_after_response(w: StepDraft, _ref: str, hook: Hook, ruling: Ruling) -> None:
    """Continue after a response: rule on its tool calls, or conclude the turn if it has none."""
    s = w.s
    if isinstance(hook, AfterResponse):
        gathered = ruling.gathered
        w.emit(_complete_event(_take_said(w, hook.message, gathered.said), gathered.replaced_by))
    if ruling.verdict is ABORT:
        abort_by(w, ruling)
        return
    w.apply(ruling)
    text = "\n\n".join(ruling.gathered.texts)
    if s.batch is None:
        s.phase = RUNNING
        if text and _prolong(w, text, "after_response"):
            next_round(w, "")
        else:
            _conclude(w)
        return
    if text and _may_prolong(w, text, "after_response"):
        s.batch = s.batch.but(texts=(*s.batch.texts, ("after_response", text)))
    s.phase = EXECUTING_TOOLS
    w.emit(_tool_calls(len(s.batch.calls)))
    s.due = (*[Due("before_tool", call.call_id) for call in s.batch.calls if call.status is not DONE], *s.due)


# The final answer


def _conclude(w: StepDraft) -> None:
    """Conclude a response without calls: start a round if steering waits and one is left, else ask `before_finish`.

    An answer that does not fit the form of the turn goes back to the model first.
    """
    s = w.s
    if s.turn is None:
        return
    if s.steering and s.round < s.setup.options.max_turns:
        next_round(w, "")
    elif not s.returns or _takes_answer(w, s.turn):
        w.next("before_finish")


def _takes_answer(w: StepDraft, turn: Turn) -> bool:
    """Check the answer of *turn* against its form; return whether it fits.

    One that does not goes back to the model with the reason, in a new round. The turn is aborted if it has had too many
    of them, if no round is left, or if the model refuses to answer.
    """
    s = w.s
    problem = _problem(w, turn)
    if problem is None:
        s.turn = turn.but(fits=True)
        return True
    options = s.setup.options
    is_last = turn.stop == "refused" or turn.misfits >= options.answer_max_retries or s.round >= options.max_turns
    w.emit(AnswerRejected(turn.misfits + 1, problem, is_last))
    if is_last:
        abort_turn(w, UNFIT, problem)
        return False
    s.turn = turn.but(misfits=turn.misfits + 1)
    w.say(UserMessage((Text(AGAIN.format(problem=problem)),), Origin.NOTICE))
    next_round(w, "")
    return False


def _problem(w: StepDraft, turn: Turn) -> str | None:
    """Return why the last text of the model is no answer for *turn*; `None` if it is one."""
    reply = w.s.last_reply or ""
    if turn.stop == "refused":
        return f"the model refuses to answer: {reply}" if reply else "the model refuses to answer"
    if turn.stop == "length":
        return CUT
    answer = read_answer(reply)
    if isinstance(answer, str):
        return answer
    ruling = w.judge.answer(w.s.returns, answer, turn.ref if turn.returns else None)
    w.rulings.append(ruling)
    return None if ruling.verdict is Verdict.PASS else ruling.reason


def begin_before_finish(_w: StepDraft, _: str) -> Hook:
    """Build the `before_finish` hook of a final answer."""
    return _before_finish()


def finish_before_finish(w: StepDraft, _ref: str, _hook: Hook, ruling: Ruling) -> None:
    """End the turn, or start another round if a plugin adds a text or steering waits."""
    s = w.s
    if ruling.verdict is ABORT:
        abort_by(w, ruling)
        return
    w.apply(ruling)
    text = "\n\n".join(ruling.gathered.texts)
    prolonged = bool(text) and _prolong(w, text, "before_finish")
    if prolonged or (s.steering and s.round < s.setup.options.max_turns):
        next_round(w, "")
    elif s.turn is not None:
        end_turn(w, "max_turns" if s.round >= s.setup.options.max_turns else s.turn.stop)


def _may_prolong(w: StepDraft, text: str, hook: str) -> bool:
    """Count a plugin's text against the turn's limits; return false and report it as dropped if one is reached."""
    s = w.s
    if s.turn is None:
        return False
    options = s.setup.options
    if s.round >= options.max_turns or s.turn.interventions >= options.max_interventions:
        w.emit(Intervention(text, hook, applied=False))
        return False
    s.turn = s.turn.but(interventions=s.turn.interventions + 1)
    return True


def _prolong(w: StepDraft, text: str, hook: str) -> bool:
    if not _may_prolong(w, text, hook):
        return False
    w.say(UserMessage((Text(text),), Origin.INTERVENTION))
    w.emit(Intervention(text, hook))
    return True


# Requests that fail


def on_cut(w: StepDraft, cut: StreamCut) -> None:
    """Handle a failed request by its kind: compact and retry, retry, use a fallback model, or abort the turn."""
    s = w.s
    if not _is_current(w, cut.request_id) or s.turn is None:
        return
    s.request = None
    s.phase = RUNNING
    failure = cut.failure
    since = _unreached_since(w, s.turn, failure, s.turn.attempt - 1)
    if since != s.turn.unreached_since:
        s.turn = s.turn.but(unreached_since=since)
    if failure.kind is FailureKind.OVERFLOW:
        w.count(cut.partial.usage)
        w.emit(ContextOverflow(failure.message))
        if s.turn.overflowed:
            abort_turn(w, "overflow", failure.message)
        else:
            s.turn = s.turn.but(overflowed=True, last_error=failure.message)
            want_compaction(w, "the provider says the context is too long", OVERFLOW)
    elif failure.kind is FailureKind.TRANSIENT:
        _try_again(w, s.turn, cut.partial, failure)
    elif failure.here_alone and s.turn.spares:
        _fall_back(w, s.turn, cut.partial, failure)
    else:
        _give_up(w, cut.partial, failure)


def _note_connected(w: StepDraft) -> None:
    turn = w.s.turn
    if turn is not None and turn.unreached_since is not None:
        w.s.turn = turn.but(unreached_since=None)


def _unreached_since(w: StepDraft, turn: Turn, failure: Failure, earlier: int) -> int | None:
    """Return since when no attempt of *turn* could connect, in milliseconds since 1970; `None` if one did.

    The *failure* comes after so many *earlier* attempts of the round.
    """
    if failure.unreached_ms is None:
        return None
    is_first = w.s.round == 1 and not earlier and turn.unreached_since is None
    return w.at - failure.unreached_ms if is_first else turn.unreached_since


def on_stalled(w: StepDraft, stalled: StreamStalled) -> None:
    """Report a stall; at the limit, cancel the request and try again."""
    s = w.s
    if not _is_current(w, stalled.request_id) or s.turn is None or s.request is None:
        return
    stalls = s.request.stalls + 1
    s.request = s.request.but(stalls=stalls)
    w.emit(StreamStalledEvent(stalled.elapsed_s, stalls))
    if stalls >= s.setup.options.stall_limit:
        w.ask(CancelRequest(s.request.request_id))
        s.request = None
        s.phase = RUNNING
        _note_connected(w)
        problem = f"no chunk for {stalled.elapsed_s:g} s (stall {stalls} of this request)"
        failure = Failure(FailureKind.TRANSIENT, "Stalled", problem)
        _try_again(w, s.turn, stalled.partial, failure)
    else:
        w.partial = stalled.partial  # a critical plugin that raises at the event aborts the turn, which keeps this text


def _try_again(w: StepDraft, turn: Turn, partial: Partial, failure: Failure) -> None:
    options = w.s.setup.options
    tried = turn.attempt - turn.failed_over
    asked_to_wait = failure.retry_after or 0.0
    too_long = asked_to_wait > min(options.retry_cap, options.retry_after_cap)
    delay = back_off(options, tried, asked_to_wait, w.random)
    gives_up = False
    if turn.unreached_since is not None:
        delay = int(delay * UNREACHED_PACE)
        gives_up = is_too_late(w.at - turn.unreached_since + delay, failure)
    if turn.spares and (tried >= min(options.fallback_after, options.max_retries + 1) or too_long or gives_up):
        _fall_back(w, turn, partial, failure)
        return
    if tried > options.max_retries or gives_up:
        _give_up(w, partial, failure)
        return
    w.count(partial.usage)
    w.s.turn = turn.but(last_error=failure.message)
    w.emit(Retry(turn.attempt, delay, failure.message, dropped_text=bool(partial.text)))
    w.set_timer(RETRY_TIMER, w.at + delay)


def is_too_late(after_ms: int, failure: Failure) -> bool:
    """Return whether the next attempt, *after_ms* from the first without a connection, is one too many.

    It is if it ends too late, should it take as long as the one of the *failure*.
    """
    return after_ms + (failure.unreached_ms or 0) > UNREACHED_MS


def back_off(options: Options, tried: int, asked_to_wait: float, random: float) -> int:
    """Return the milliseconds to wait after *tried* failed attempts; *random*, from 0 to 1, shortens them."""
    pause = min(options.retry_base * 2.0 ** min(tried - 1, MOST_DOUBLED), options.retry_cap)
    return int(1000 * max(pause * (0.5 + random / 2), min(asked_to_wait, options.retry_after_cap)))


def _fall_back(w: StepDraft, turn: Turn, partial: Partial, failure: Failure) -> None:
    """Retry with the next fallback model."""
    w.count(partial.usage)
    w.emit(Retry(turn.attempt, 0, failure.message, dropped_text=bool(partial.text)))
    _use_spare(w, turn, failure)
    w.set_timer(RETRY_TIMER, w.at)


def _use_spare(w: StepDraft, turn: Turn, failure: Failure) -> None:
    """Use the next fallback model until the turn ends."""
    spare, *spares = turn.spares
    w.s.turn = turn.but(
        model=spare.model,
        options=spare.options,
        spares=tuple(spares),
        failed_over=turn.attempt,
        last_error=failure.message,
    )
    reason = f"{failure.error}: {failure.message}"
    w.tell_of_switch((turn.model, turn.options), (spare.model, spare.options), reason=reason)


def _give_up(w: StepDraft, partial: Partial, failure: Failure) -> None:
    keep_partial(w, partial)
    if failure.kind is FailureKind.LIMIT:
        abort_turn(w, "plugin", failure.message)
    else:
        w.emit(StreamError(failure.error, failure.message))
        abort_turn(w, "provider_error", failure.message)


def on_compaction_failed(w: StepDraft, failed: CompactionFailed) -> None:
    """Report the failure and continue with the unchanged history.

    If no model could be reached for as long as a request is tried again, the turn goes on as after such a request.
    """
    s = w.s
    w.count(failed.usage)
    turn, failure = s.turn, failed.failure
    if s.compaction is None or s.compaction.compaction_id != failed.compaction_id:
        return
    w.emit(CompactEnd(0, failed.error))
    if turn is None or failure is None:
        after_compaction(w, failed.error, shorter=False)
        return
    s.compaction = None
    since = _unreached_since(w, turn, failure, turn.attempt)
    # If the provider says again that the context is too long, there is a network to compact it with.
    overflowed = turn.overflowed and turn.attempt - turn.failed_over > s.setup.options.max_retries
    s.turn = turn = turn.but(unreached_since=since, overflowed=overflowed)
    is_late = since is not None and is_too_late(w.at - since, failure)
    if is_late and not turn.spares:
        _give_up(w, NOTHING_YET, failure)
        return
    if is_late:
        _use_spare(w, turn, failure)
    w.next("request")

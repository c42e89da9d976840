"""Sessions in each state, reached with as few inputs as possible."""

from __future__ import annotations

from agentrail import Continue, HoldTool, Options, State
from agentrail.core.context_window import ASSUMED, budget_of, room, tokens_of
from agentrail.core.vocabulary.effects import (
    CancelRequest,
    SetTimer,
    StartCall,
    StartCompaction,
    StartRequest,
)
from agentrail.core.vocabulary.state import RunningRequest, Turn
from agentrail.core.vocabulary.tool_calls import Doubt, Hold, digest_of
from agentrail.events import (
    AgentStart,
    ApprovalRequired,
    CompactStart,
    Event,
    PromptReceived,
    RequestStart,
    ToolExecutionEnd,
    ToolExecutionMetrics,
    ToolExecutionStart,
)
from agentrail.hooks.ruling import NO_DECISIONS, START
from agentrail.models import (
    AssistantMessage,
    FrozenObject,
    JsonObject,
    Message,
    ModelRequest,
    Origin,
    StopReason,
    Text,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from agentrail.plugins import AnyPlugin, BeforeTool, Hook
from agentrail.tools import Err, Ok, ok
from agentrail.values.messages import Added, MessageRange, Rearranged
from agentrail.values.stream import CHARS_PER_TOKEN
from tests.cells.bench import NOW, Bench, Now, call, plug
from tests.kit import EMPTY, NOTHING_USED

LOOKING = call("look", path="a")
HINT = "may it?"


def holds(*names: str, timeout: float | None = 120.0, family: str | None = None, name: str = "Holds") -> AnyPlugin:
    """Return a plugin that holds calls to the tools with these *names*; without names, all calls."""

    def answer(hook: Hook, _state: object, _ctx: object) -> object:
        if names and isinstance(hook, BeforeTool) and hook.name not in names:
            return Continue()
        return HoldTool(HINT, timeout=timeout, family=family)

    return plug(name, before_tool=answer, priority=20)


def compacts(
    state: State,
    name: str,
    keep: int,
    messages: tuple[Message, ...] | None = None,
    *,
    window: int | None = None,
    forced: bool = False,
    by_caller: bool = False,
) -> StartCompaction:
    """Return the start of the compaction *name* of a session in *state*."""
    most = tokens_of(state) // 2 * CHARS_PER_TOKEN
    visible = state.history if messages is None else messages
    options, budget = state.setup.options, budget_of(state)
    limit = keep if forced else max(keep, room(state, budget.trigger))
    return StartCompaction(
        name,
        visible,
        keep,
        "m",
        EMPTY,
        most,
        options,
        keep_whole_chars=limit,
        is_assumed=window is None,
        needs_summary=by_caller,
    )


def compact_start(state: State, reason: str, messages: int | None = None, window: int = ASSUMED) -> CompactStart:
    """Return the event of a compaction that starts."""
    return CompactStart(len(state.history) if messages is None else messages, reason, tokens_of(state), window)


def idle(*plugins: AnyPlugin, options: Options | None = None) -> Bench:
    """Return a session that has started and has no prompt yet."""
    return Bench(*plugins, options=options)


def running(*plugins: AnyPlugin, options: Options | None = None) -> Bench:
    """Return a session whose request r2, for the prompt p1, is sent; no chunk has come."""
    bench = idle(*plugins, options=options)
    bench.prompt()
    return bench


def streaming(*plugins: AnyPlugin, options: Options | None = None) -> Bench:
    """Return a session whose response has begun to stream."""
    bench = running(*plugins, options=options)
    bench.begins()
    return bench


def executing(
    *calls: ToolCall, plugins: tuple[AnyPlugin, ...] = (), options: Options | None = None, text: str = ""
) -> Bench:
    """Return a session that executes the calls c3, c4, ... of a response; without *calls*, one call to `look`."""
    bench = streaming(*plugins, options=options)
    bench.answers(text, *(calls or (LOOKING,)))
    return bench


def resting(
    *plugins: AnyPlugin, options: Options | None = None, timeout: float | None = None, family: str | None = None
) -> Bench:
    """Return a session whose only call, c3 to `edit`, is held as s:a4 by the plugin `Holds`, the first in the order."""
    held = holds("edit", timeout=timeout, family=family)
    bench = streaming(held, *plugins, options=options)
    bench.answers("", call("edit", path="a"))
    return bench


# What is expected


def user_message(text: str = "hello", origin: Origin = Origin.PROMPT) -> UserMessage:
    return UserMessage((Text(text),), origin)


def replied(text: str = "", *calls: ToolCall, stop: StopReason | None = None) -> AssistantMessage:
    parts = (Text(text),) if text else ()
    return AssistantMessage(parts, calls, "m", stop or (StopReason.TOOL_CALLS if calls else StopReason.END))


def cut_off(text: str = "so far") -> AssistantMessage:
    return AssistantMessage((Text(text),), model="m", interrupted=True)


def result(call_id: str, name: str, text: str = "done", *, is_error: bool = False) -> ToolMessage:
    return ToolMessage(call_id, name, (Text(text),), is_error)


def failed(call_id: str, name: str, text: str) -> ToolMessage:
    return result(call_id, name, text, is_error=True)


def turn(ref: str = "p1", **changes: object) -> Turn:
    """Return the first turn, after its first request was sent."""
    return Turn(ref, NOW, 0, NOTHING_USED, "m", EMPTY, 1).but(**changes)


def starts(ref: str, request_id: str, text: str = "hello", *, turns: int = 1, messages: int = 1) -> list[Event | Now]:
    """Return the events of a turn that starts, up to its request."""
    return [
        Now(turns, 0),
        PromptReceived(ref, text),
        AgentStart(ref),
        Now(turns, 1),
        RequestStart(request_id, "m", messages, 1),
    ]


STARTED = ("before_prompt", "before_request")
"""The hooks that run when a turn starts."""


def request(old: State, request_id: str, *messages: Message, **changes: object) -> StartRequest:
    """Return the effect that sends a request: the whole history of *old*, then *messages*."""
    full = old.history.and_(*messages)
    specs = tuple(attached.spec for attached in old.tools.values())
    tagged = bool(old.plugins)
    model_request = ModelRequest(
        "m", full, "", (), specs, True, EMPTY, old.session_id, request_id, explains_tags=tagged
    )
    return StartRequest(model_request.but(**changes), old.setup.options.stall_timeout)


def out(request_id: str, stalls: int = 0, *pieces: MessageRange | Added | Message) -> RunningRequest:
    return RunningRequest(request_id, stalls, Rearranged(pieces) if pieces else None)


def cut(request_id: str) -> CancelRequest:
    return CancelRequest(request_id)


def start(call_id: str, name: str, args: JsonObject, attempt: int = 1, revision: int = 0) -> StartCall:
    return StartCall(call_id, attempt, name, revision, args, f"s/{call_id}")


def limit(call_id: str, at_ms: int = NOW, seconds: float = 60.0) -> SetTimer:
    """Return the effect that sets the timer of a call that starts."""
    return SetTimer(f"call:{call_id}", at_ms + int(seconds * 1000))


def run(call_id: str, name: str, args: JsonObject, attempt: int = 1) -> ToolExecutionStart:
    return ToolExecutionStart(call_id, name, args, attempt)


def ran(
    call_id: str, name: str, answer: Ok | Err | None = None, *, at_ms: int = NOW, late: bool = False
) -> list[Event]:
    """Return the events of a call that started at `NOW` and ended at *at_ms*."""
    answer = answer if answer is not None else ok("done")
    return [
        ToolExecutionEnd(call_id, name, answer.content, isinstance(answer, Err), answer.details, late),
        ToolExecutionMetrics(call_id, name, NOW, at_ms, at_ms - NOW),
    ]


def unknown(call_id: str, name: str, args: JsonObject = EMPTY, turn: int = 1) -> Doubt:
    """Return the session's note about a call that may have taken effect."""
    return Doubt(call_id, name, args, turn)


def shown(event: ApprovalRequired) -> ApprovalRequired:
    """Return *event* with the digest of what it shows."""
    hold = Hold(event.approval_id, "", "", event.args, START, NO_DECISIONS, event.requested_at, None, event.family)
    return event.but(digest=digest_of(hold, event.tool))


def path(of: str = "a") -> JsonObject:
    return FrozenObject(path=of)

"""Draws answers of models, tools, compactors and services for random sessions: good ones, odd ones, and failures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from agentrail.core.tools_on_demand import CALLER, FINDER
from agentrail.hooks.actions import Answered, AskAnswer, Failed
from agentrail.testing.world.choose import Choose
from agentrail.values.content import File, Image, Part, Said, Text, Thinking, ToolCall
from agentrail.values.json import EMPTY, FrozenObject, JsonObject
from agentrail.values.messages import Message, StopReason, UserMessage
from agentrail.values.stream import NOTHING_YET, Failure, FailureKind, ModelRequest, Partial, Response
from agentrail.values.tools import (
    ActingAgent,
    AskPerson,
    CompactNow,
    Effect,
    HandOver,
    SetTodos,
    Todo,
    ToolResult,
    err,
    ok,
)
from agentrail.values.usage import NOTHING_USED, Usage

ARGS: Final[tuple[JsonObject, ...]] = tuple(
    FrozenObject(args) for args in ({"path": "a"}, {"path": "b"}, {"path": "secret"}, {"path": 3}, {})
)
FAILURES: Final = (
    Failure(FailureKind.TRANSIENT, "Busy", "try later"),
    Failure(FailureKind.TRANSIENT, "Limited", "try later", retry_after=3.0),
    Failure(FailureKind.PERMANENT, "Refused", "no such model"),
    Failure(FailureKind.OVERFLOW, "TooLong", "too many tokens"),
    Failure(FailureKind.PERMANENT, "Gone", "no such model", here_alone=True),
)
FILES: Final[tuple[Part, ...]] = (
    Image("image/png", "iVBO"),
    File("application/pdf", "JVBE", name="plan.pdf"),
    File("application/pdf", reference="https://example.com/plan.pdf"),
)
"""Parts of prompts and results that are no text."""
RESULTS: Final[tuple[tuple[int, ToolResult], ...]] = (
    (6, ok("done")),
    (2, err("not possible")),
    (1, ok("long " * 10)),
    (1, ok((Text("see"), FILES[1]))),
    (1, Effect(SetTodos((Todo("think"),)))),
    (1, Effect(CompactNow())),
    *[
        (1, Effect(HandOver(ActingAgent("other", system="now you"), history=choice)))
        for choice in ("all", "turn", "summary")
    ],
)
TAGGED: Final = ("<title>well</title>well", "<status>well</status>", "well <status>")
"""Texts with inline tags; the last one has a tag that is not closed."""
FORMED: Final = ('{"sum": 3}', '```json\n{"sum": 4}\n```', '{"sum": "three"}', "it is three", "{}")
"""Answers where a form is wanted: two that fit `scenes.ANSWER`, and three that do not."""
SETTLED: Final[tuple[AskAnswer, ...]] = (Answered("yes"), Answered(None), Failed("no such service"))


def draw_usage(choose: Choose) -> Usage:
    """Draw the usage of one request: none, or a few tokens."""
    used = choose.below(3)
    return Usage(10 * used, used) if used else NOTHING_USED


def draw_call(choose: Choose, names: Sequence[str]) -> ToolCall:
    """Draw a call as a provider gives it, of one of the tools *names* or now and then of an unknown tool.

    The provider's id may be empty, or the same as that of another call.
    """
    args = choose.weighted(((6, ARGS[0]), (4, ARGS[1]), (1, ARGS[2]), (1, ARGS[3]), (1, ARGS[4])))
    name = choose.pick(names) if names and not choose.percent(5) else choose.pick(("nowhere", "read", "seek"))
    if name.startswith(FINDER):
        args = FrozenObject({"query": choose.pick(("seek", "stars and soil", "dig", "nothing of the kind", ""))})
    elif name.startswith(CALLER):
        tool_name = choose.weighted(((6, "seek"), (3, "dig"), (1, FINDER), (1, "nowhere")))
        args = choose.weighted(((9, FrozenObject({"name": tool_name, "arguments": args})), (1, EMPTY)))
    return ToolCall("", name, args, choose.pick(("", "x", "y")))


def draw_response(choose: Choose, request: ModelRequest) -> Response:
    """Draw a whole response to *request*, odd ones included."""
    names = tuple(tool.name for tool in request.tools)
    how = choose.weighted(
        ((5, "text"), (8, "calls"), (2, "both"), (1, "nothing"), (1, "refused"), (1, "length"), (1, "thought"))
    )
    wordless = how in ("calls", "nothing", "thought") or (how == "refused" and choose.percent(30))
    text = () if wordless else (Text("well " * choose.number(1, 12)),)
    if text and choose.percent(10):
        text = (Text(choose.pick(TAGGED)),)
    if text and request.returns and choose.percent(80):
        text = (Text(choose.pick(FORMED)),)
    thoughts: tuple[Said, ...] = (Thinking("hmm"),) if how == "thought" or choose.percent(20) else ()
    if how == "nothing":
        thoughts = ()
    calls: tuple[ToolCall, ...] = ()
    if how in ("calls", "both") or (how in ("refused", "length") and choose.percent(50)):
        calls = tuple(draw_call(choose, names) for _ in range(choose.number(1, 4)))
    stop = StopReason.TOOL_CALLS if calls or choose.percent(10) else StopReason.END
    if how in ("refused", "length"):
        stop = StopReason.REFUSED if how == "refused" else StopReason.LENGTH
    return Response((*thoughts, *text), calls, stop, draw_usage(choose))


def draw_parts(choose: Choose) -> tuple[Part, ...]:
    """Draw the content of a user message: a text, and now and then a file."""
    text = Text(choose.pick(("hello", "please do this ", "look at it " * 12)))
    return (text, choose.pick(FILES)) if choose.percent(10) else (text,)


def draw_partial(choose: Choose, began: bool) -> Partial:
    """Draw the partial response of a stream; nothing if it has not *began*."""
    if not began:
        return NOTHING_YET
    return Partial(choose.pick(("", "so far so ")), choose.pick(("", "hm")), draw_usage(choose))


def draw_failure(choose: Choose) -> Failure:
    """Draw the failure of a request, most often a transient one."""
    return choose.weighted(((4, FAILURES[0]), (1, FAILURES[1]), (1, FAILURES[2]), (2, FAILURES[3]), (1, FAILURES[4])))


def draw_result(choose: Choose, name: str) -> ToolResult:
    """Draw the result of the tool *name*; the tool `talk` mostly asks a question."""
    if name == "talk" and choose.percent(80):
        return Effect(AskPerson("which?", choose.pick(((), ("this", "that")))))
    return choose.weighted(RESULTS)


def draw_answer(choose: Choose) -> AskAnswer:
    """Draw the answer to something that a plugin asked for (action `Ask`)."""
    return choose.pick(SETTLED)


def shortened(messages: Sequence[Message], choose: Choose) -> tuple[Message, ...]:
    """Return a suffix of *messages* that begins at a user message, so that no call is separated from its result."""
    starts = [index for index, message in enumerate(messages) if isinstance(message, UserMessage)]
    return tuple(messages[choose.pick(starts) :]) if starts else tuple(messages)

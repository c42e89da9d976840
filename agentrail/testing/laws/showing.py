"""Draws hooks for one plugin, and puts drawn calls and results into given events.

Calls, results and texts are made of the words that the plugin's code reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from agentrail.hooks.hook_types import (
    AfterResponse,
    AfterTool,
    AfterToolBatch,
    AfterTurn,
    BeforeCompaction,
    BeforeFinish,
    BeforePluginOptsUpdate,
    BeforePrompt,
    BeforeRequest,
    BeforeSteering,
    BeforeTool,
    Hook,
    OnToolError,
    SessionEnd,
    SessionStart,
)
from agentrail.testing.random_calls import CallDrawer
from agentrail.values.content import Text, ToolCall
from agentrail.values.events.envelope import Event
from agentrail.values.events.life import AgentEnd
from agentrail.values.events.response import ResponseComplete
from agentrail.values.messages import AssistantMessage, Message, Origin, ToolMessage, UserMessage
from agentrail.values.tools import Err, Ok, err, ok
from agentrail.values.usage import NOTHING_USED

OF_CALLS: Final = frozenset({"args", "details"})
"""The fields of events that hold the arguments of a call (`args`) or the data of its result (`details`).

`retold` replaces them by drawn ones.
"""


def draw_hook(hook_name: str, caller: CallDrawer) -> Hook:
    """Draw a hook of one *hook_name*, with calls and texts drawn by *caller*."""
    return _DRAWN[hook_name](caller)


def tells_of_calls(event: Event) -> bool:
    """Return whether *event* contains the arguments or the result of a tool call."""
    return isinstance(event, ResponseComplete | AgentEnd) or not OF_CALLS.isdisjoint(event.__struct_fields__)


def retold(event: Event, caller: CallDrawer) -> Event:
    """Return *event* with its tool calls, arguments or details replaced by ones that *caller* draws, if it has any."""
    match event:
        case ResponseComplete():
            return event.but(message=_said(caller))
        case AgentEnd():
            return event.but(messages=_history(caller))
        case _ if tells_of_calls(event):
            drawn = _call(caller)
            new = {"args": drawn.args, "details": drawn.args, "name": drawn.name, "tool": drawn.name}
            return event.but(**{field: value for field, value in new.items() if field in event.__struct_fields__})
        case _:
            return event


def _call(caller: CallDrawer) -> ToolCall:
    return caller.in_turn() if caller.choose.percent(60) else caller.draw()


def _ids(caller: CallDrawer, percent: int) -> Iterator[str]:
    """Yield up to three ids of calls, each with a chance of *percent*, until one is not drawn.

    Each is a draw of its own, so that shrinking can leave it out.
    """
    for number in range(1, 4):
        if not caller.choose.percent(percent):
            return
        yield f"c{number}"


def _result(caller: CallDrawer) -> tuple[ToolCall, Ok | Err]:
    """Draw a call and a result for it; the details of the result are the call's arguments."""
    drawn, text = _call(caller), caller.text()
    return drawn, err(text, drawn.args) if caller.choose.percent(50) else ok(text, drawn.args)


def _message(caller: CallDrawer, call_id: str = "c1") -> ToolMessage:
    drawn, result = _result(caller)
    return ToolMessage(call_id, drawn.name, result.content, isinstance(result, Err), result.details)


def _said(caller: CallDrawer) -> AssistantMessage:
    texts = (Text(caller.text()),) if caller.choose.percent(50) else ()
    calls = tuple(_call(caller).but(call_id=call_id) for call_id in _ids(caller, 50))
    return AssistantMessage(texts or (() if calls else (Text("a"),)), calls, "model0")


def _history(caller: CallDrawer) -> tuple[Message, ...]:
    """Draw a history that a provider accepts: a prompt, a response, and the result of each of its calls."""
    response = _said(caller)
    prompt = UserMessage((Text(caller.text()),), Origin.PROMPT)
    return (prompt, response, *(_message(caller, call.call_id).but(name=call.name) for call in response.calls))


def _after_turn(caller: CallDrawer) -> AfterTurn:
    history = _history(caller)
    if caller.choose.percent(30):
        return AfterTurn("aborted", "user", caller.text(), history, NOTHING_USED, 0, 0)
    return AfterTurn("finished", None, None, history, NOTHING_USED, 0, 0)


def _before_tool(caller: CallDrawer) -> BeforeTool:
    drawn = _call(caller)
    return BeforeTool(drawn.name, drawn.args, "c1", approved=caller.choose.percent(20), final=caller.choose.percent(20))


def _after_tool(caller: CallDrawer) -> AfterTool:
    drawn, result = _result(caller)
    most = 30 if caller.choose.percent(20) else 30_000
    return AfterTool(drawn.name, "c1", result, drawn.args, 40, most)


def _results(caller: CallDrawer) -> AfterToolBatch:
    return AfterToolBatch(tuple(_message(caller, call_id) for call_id in _ids(caller, 70)))


_DRAWN: Final[Mapping[str, Callable[[CallDrawer], Hook]]] = MappingProxyType(
    {
        SessionStart.hook_name: lambda _: SessionStart(),
        SessionEnd.hook_name: lambda caller: SessionEnd(caller.text()),
        AfterTurn.hook_name: _after_turn,
        BeforePrompt.hook_name: lambda caller: BeforePrompt(caller.text(), "p1"),
        BeforeRequest.hook_name: lambda caller: BeforeRequest(_history(caller), caller.choose.number(1, 3)),
        AfterResponse.hook_name: lambda caller: AfterResponse(_said(caller)),
        BeforeTool.hook_name: _before_tool,
        OnToolError.hook_name: lambda caller: OnToolError(
            _call(caller).name, "c1", caller.text(), caller.choose.number(1, 3)
        ),
        AfterTool.hook_name: _after_tool,
        AfterToolBatch.hook_name: _results,
        BeforeFinish.hook_name: lambda _: BeforeFinish(),
        BeforeCompaction.hook_name: lambda caller: BeforeCompaction(_history(caller), caller.text()),
        BeforeSteering.hook_name: lambda caller: BeforeSteering(caller.text(), "s1"),
        BeforePluginOptsUpdate.hook_name: lambda caller: BeforePluginOptsUpdate(caller.name(), caller.args()),
    }
)

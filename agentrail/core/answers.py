"""Answers in a form: the JSON object in a text, and the tool by which a model without an own form gives an answer.

The answer tool exists between the session and the model alone. `with_answer_tool` adds it to the request, and
`without_answer_tool` makes the text of the response of its call, so plugins and the history see a text in any case.
"""

from __future__ import annotations

import json
from typing import Final, cast

import msgspec

from agentrail.core.tools_on_demand import free
from agentrail.errors import NotJson
from agentrail.values.content import Text, ToolCall
from agentrail.values.json import EMPTY, JsonObject, canonical, freeze_object
from agentrail.values.messages import StopReason
from agentrail.values.stream import ModelRequest, Response
from agentrail.values.tools import ToolSpec
from agentrail.values.value import quick

UNFIT: Final = "answer"
"""The kind of the abort of a turn whose answers do not fit."""

_FENCE: Final = "```"

NAME: Final = "answer"
"""Name of the tool; `_` is appended while a tool of the session has the name."""

DESCRIPTION: Final = "Give your final answer. Call this once, alone, when everything else is done."

HINT: Final = "Give your final answer by calling the tool `{name}`, and not as text."
"""The section of the system prompt that tells the model to use the tool."""

LAST_HINT: Final = "Give your final answer now by calling the tool `{name}`. No other tool can be called any more."
"""The section in its place if no other tool may be called."""

_tool = quick(ToolSpec)

_UNREAD: Final = ""
"""The only key of arguments that were no valid JSON; a model adapter puts the invalid text under it."""


def read_answer(text: str) -> JsonObject | str:
    """Return the JSON object in *text*, which may stand in a Markdown code fence; else the reason as text."""
    try:
        answer = _read(_unfenced(text))
    except (ValueError, RecursionError) as error:
        return f"it is no JSON: {error}"
    if not isinstance(answer, dict):
        return "it is no JSON object"
    try:
        return freeze_object(cast("dict[str, object]", answer))
    except NotJson as error:
        return f"it is no JSON: {error}"


def _read(text: str) -> object:
    """Return the value of the JSON *text*; raise `ValueError` or `RecursionError` with the place if it is no JSON."""
    try:
        return cast("object", msgspec.json.decode(text))
    except (ValueError, RecursionError):
        return cast("object", json.loads(text))  # slower, but its error tells a model where the text is wrong


def _unfenced(text: str) -> str:
    """Return *text* without the Markdown code fence around it, if there is one."""
    if not text.lstrip().startswith(_FENCE):
        return text
    first, _, rest = text.strip().partition("\n")
    inside, _, last = rest.rpartition("\n")
    return inside if first.rstrip() in {_FENCE, f"{_FENCE}json"} and last.strip() == _FENCE else text


def with_answer_tool(request: ModelRequest) -> tuple[ModelRequest, str]:
    """Return *request* with the answer tool in place of the schema, and the name of the tool.

    If the model may call no other tools, it must call this one. They stay declared, so that the provider's prompt cache
    still fits.
    """
    name = free(NAME, [tool.name for tool in (*request.tools, *request.deferred)])
    tool = _tool(name, DESCRIPTION, request.returns)
    hint = HINT if request.may_call else LAST_HINT
    changed_request = request.but(
        tools=(*request.tools, tool),
        may_call=True,
        must_call="" if request.may_call or not request.tools else name,
        sections=(*request.sections, (name, hint.format(name=name))),
        returns=EMPTY,
    )
    return changed_request, name


def without_answer_tool(response: Response, name: str) -> Response:
    """Return *response* with the last call of the answer tool as its only text, if it calls no other tool.

    Calls of the answer tool beside others are left out: the model answers again when it has their results.
    """
    response = response.but(by_tool=True)
    answers = [call for call in response.calls if call.name == name] if response.calls else ()
    if not answers:
        return response
    others = tuple(call for call in response.calls if call.name != name)
    if others:
        return response.but(calls=others)
    stop = StopReason.END if response.stop is StopReason.TOOL_CALLS else response.stop
    return response.but(parts=(Text(_call_text(answers[-1])),), calls=(), stop=stop)


def _call_text(call: ToolCall) -> str:
    """Return the arguments of an answer call as text; arguments that were not valid JSON as the model wrote them."""
    return str(call.args[_UNREAD]) if len(call.args) == 1 and _UNREAD in call.args else canonical(call.args)

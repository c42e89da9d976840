"""Requests of chat completions: a pure projection of ours, in the dialect of each server."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Final, cast

from agentrail.adapters.models.history import ANY_ID, Asked, ModelTurn, Result, UserTurn, system_of, turns_of
from agentrail.adapters.models.openai.requests import schema_of, text_of, url_of
from agentrail.adapters.models.settings import Settings
from agentrail.adapters.models.wire_format import Rendered
from agentrail.values.content import Image, Part, Text, Thinking
from agentrail.values.json import Json, JsonObject, canonical, freeze
from agentrail.values.stream import ModelRequest
from agentrail.values.tools import ToolSpec
from agentrail.values.value import Value, value

PATH: Final = "/chat/completions"

FIELDS: Final = ("reasoning_content", "reasoning")
"""Where thoughts stand; the signature of a thought is the field that it came in."""

DETAILS: Final = "reasoning_details"
"""Where OpenRouter has thoughts as their models sealed them; as a signature, `:` and the JSON of them follow."""

AN_IMAGE: Final = "(the image follows)"
IMAGE_OF: Final = "The image that `{name}` returned:"


@value
class Dialect(Value):
    """What a server wants otherwise than most."""

    max_tokens: str = "max_tokens"
    """How the limit of the answer is called."""
    asks_usage: bool = True
    """Whether usage comes only if it is asked for."""
    thoughts: bool = False
    """Whether it takes back the thoughts that it gave."""
    empty_thoughts: bool = False
    """Whether each message with calls must have thoughts, and be they empty."""
    effort: str = "reasoning_effort"
    """Where the effort stands; behind a dot, inside of an object."""
    no_effort: JsonObject | None = None
    """How it is told not to think, if not by the effort `none`."""
    ids: re.Pattern[str] = ANY_ID
    """Ids of calls that it takes."""


USUAL: Final = Dialect()
OWN: Final = Dialect(max_tokens="max_completion_tokens")

DIALECTS: Final = {
    "openai-chat": Dialect(thoughts=True),
    "deepseek": Dialect(thoughts=True, empty_thoughts=True, no_effort={"thinking": {"type": "disabled"}}),
    "fireworks": Dialect(thoughts=True),
    "groq": OWN,
    "llamacpp": Dialect(thoughts=True),
    "mistral": Dialect(asks_usage=False, ids=re.compile(r"[a-zA-Z0-9]{9}")),
    "ollama": Dialect(thoughts=True),
    "openrouter": Dialect(thoughts=True, effort="reasoning.effort"),
    "vllm": Dialect(thoughts=True),
}
"""The dialects by provider; who is not here speaks the usual one."""


def render(request: ModelRequest, provider: str, model: str, settings: Settings) -> Rendered:
    """Return the HTTP path and body of *request* for *model*."""
    dialect = _dialect(provider, settings)
    body: dict[str, Json] = {"model": model, "stream": True}
    if dialect.asks_usage:
        body["stream_options"] = {"include_usage": True}
    body["messages"] = _messages(request, provider, dialect)
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
        body["tool_choice"] = _choice(request, settings)
    if settings.max_tokens is not None:
        body[dialect.max_tokens] = settings.max_tokens
    if settings.temperature is not None:
        body["temperature"] = settings.temperature
    if settings.stop:
        body["stop"] = settings.stop
    if settings.reasoning_effort:
        body |= _effort(settings.reasoning_effort, dialect)
    if settings.response_format is not None:
        body["response_format"] = _format(settings.response_format)
    return Rendered(PATH, body)


def _dialect(provider: str, settings: Settings) -> Dialect:
    """Return how *provider* speaks; at an address of one's own `openai-chat` is any server."""
    if provider == "openai-chat" and not settings.base_url:
        return OWN
    return DIALECTS.get(provider, USUAL)


def _effort(effort: str, dialect: Dialect) -> JsonObject:
    if effort == "none" and dialect.no_effort is not None:
        return dialect.no_effort
    outer, _, inner = dialect.effort.partition(".")
    return {outer: {inner: effort} if inner else effort}


def _format(schema: JsonObject) -> JsonObject:
    if not schema:
        return {"type": "json_object"}
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}


def _tool(tool: ToolSpec) -> JsonObject:
    function: JsonObject = {"name": tool.name, "description": tool.description, "parameters": schema_of(tool)}
    return {"type": "function", "function": function}


def _choice(request: ModelRequest, settings: Settings) -> Json:
    if not request.may_call:
        return "none"
    if settings.tool_choice == "tool":
        return {"type": "function", "function": {"name": settings.tool}}
    return "required" if settings.tool_choice == "any" else settings.tool_choice


def _messages(request: ModelRequest, provider: str, dialect: Dialect) -> list[Json]:
    messages: list[Json] = []
    system = system_of(request)
    if system:
        messages.append({"role": "system", "content": "\n\n".join(system)})
    for turn in turns_of(request.messages, provider, dialect.ids):
        match turn:
            case UserTurn(results=results, parts=parts):
                messages += map(_result, results)
                said = (*_images(results), *parts)
                if said:
                    messages.append({"role": "user", "content": _content(said)})
            case ModelTurn():
                messages.append(_answer(turn, dialect))
    return messages


def _result(result: Result) -> JsonObject:
    """Return what a tool said; a message of a tool holds only text."""
    text = text_of(result.parts)
    return {"role": "tool", "tool_call_id": result.wire_id, "content": text or AN_IMAGE}


def _images(results: Iterable[Result]) -> Iterable[Part]:
    """Return the images of *results* as if the user showed them."""
    for result in results:
        images = [part for part in result.parts if isinstance(part, Image)]
        if images:
            yield Text(IMAGE_OF.format(name=result.name))
            yield from images


def _content(parts: Sequence[Part]) -> Json:
    """Return *parts* as text if they are: there are servers that take nothing else."""
    if not any(isinstance(part, Image) for part in parts):
        return text_of(parts)
    return [
        {"type": "image_url", "image_url": {"url": url_of(part)}}
        if isinstance(part, Image)
        else {"type": "text", "text": text_of((part,))}
        for part in parts
    ]


def _answer(turn: ModelTurn, dialect: Dialect) -> JsonObject:
    message: dict[str, Json] = {"role": "assistant"}
    text = "".join(part.text for part in turn.parts if isinstance(part, Text))
    if text:
        message["content"] = text
    if dialect.thoughts:
        for part in turn.parts:
            if isinstance(part, Thinking):
                message |= _thought(part)
    if turn.asked:
        message["tool_calls"] = [_call(asked) for asked in turn.asked]
        if dialect.empty_thoughts:
            message.setdefault(FIELDS[0], "")
    return message


def _thought(part: Thinking) -> JsonObject:
    field, _, details = (part.signature or "").partition(":")
    if field == DETAILS:
        return {field: freeze(cast("object", json.loads(details)))}
    return {field: part.text} if field in FIELDS else {}


def _call(asked: Asked) -> JsonObject:
    function: JsonObject = {"name": asked.call.name, "arguments": canonical(asked.call.args)}
    return {"id": asked.wire_id, "type": "function", "function": function}

"""Writes a `ModelRequest` as a request for a chat completion, in the dialect of each server, by pure functions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Final, cast

from agentrail.adapters.models.model_turns import (
    ANY_ID,
    Asked,
    ModelTurn,
    Result,
    UserTurn,
    refuse_tool_search,
    system_of,
    turns_of,
    with_sections,
)
from agentrail.adapters.models.openai.requests import NO_NAME, schema_of, text_of, url_of
from agentrail.adapters.models.providers.unsupported_media import seen_by
from agentrail.adapters.models.settings import Settings
from agentrail.adapters.models.wire_format import PDF, Rendered, Takes
from agentrail.values.content import File, Image, Part, Text, Thinking
from agentrail.values.json import Json, JsonObject, canonical, freeze
from agentrail.values.stream import ModelRequest
from agentrail.values.tools import ToolSpec
from agentrail.values.value import Value

PATH: Final = "/chat/completions"

FIELDS: Final = ("reasoning_content", "reasoning")
"""Fields of an answer that may contain thinking. The field's name becomes `Thinking.signature`, and is used again."""

DETAILS: Final = "reasoning_details"
"""Field in which OpenRouter sends thinking with its models' signatures. `Thinking.signature` keeps it as JSON.

The signature is this name, `:` and the JSON.
"""

IMAGE_OF: Final = "The image that `{name}` returned:"
"""The text before the images of the tool `name`, in a message of the user."""

FILE_OF: Final = "The file that `{name}` returned:"
"""The text before the files, or files and images, of the tool `name`."""


BRIDGE: Final = "I have the results."
"""What the model says between results and a message of the user, for models that want something there."""

OF_MISTRAL: Final = re.compile("mistral|mixtral|codestral|magistral|ministral|devstral|pixtral", re.IGNORECASE)
"""Names of Mistral's models, at any provider: their templates refuse a message of the user after a result."""


class Dialect(Value, gc=True):
    """The points in which a server's API differs from the usual chat completions."""

    max_tokens: str = "max_tokens"
    """The name of the field for the most tokens of the answer."""
    asks_usage: bool = True
    """Whether the request has to ask for usage with `stream_options`."""
    thoughts: bool = False
    """Whether the server takes back the thinking of earlier answers."""
    empty_thoughts: bool = False
    """Whether each message with tool calls must have a field for thinking, even an empty one."""
    effort: str = "reasoning_effort"
    """The name of the field for the effort; `outer.inner` means the field `inner` of the object `outer`."""
    no_effort: JsonObject | None = None
    """The fields that switch thinking off; `None` if the effort `none` does."""
    ids: re.Pattern[str] = ANY_ID
    """The pattern of ids of calls that the server takes."""
    schemas: bool = True
    """Whether the server takes a schema for the answer, beside tools and in a stream."""
    files: Takes = Takes()
    """The files that the server takes."""
    bridges: bool = False
    """Whether the server wants a message of the model between a result and the next message of the user."""
    demands: bool = False
    """Whether the server is known to heed the demand to call one tool; some refuse or overlook it."""
    tells_cost: bool = False
    """Whether the server tells the cost of an answer with its usage, if it is asked."""


USUAL: Final = Dialect()
"""The dialect of servers that are not in `DIALECTS`."""

OWN: Final = Dialect(max_tokens="max_completion_tokens", demands=True, files=Takes((PDF,), ids=True))
"""The dialect of OpenAI itself."""

DIALECTS: Final = {
    "azure-chat": OWN,
    "openai-chat": Dialect(thoughts=True, files=Takes((PDF,), ids=True)),
    "deepseek": Dialect(
        thoughts=True, empty_thoughts=True, no_effort={"thinking": {"type": "disabled"}}, schemas=False
    ),
    "fireworks": Dialect(thoughts=True, demands=True),
    "groq": OWN.but(schemas=False, files=Takes()),
    "llamacpp": Dialect(thoughts=True),
    "mistral": Dialect(demands=True, asks_usage=False, ids=re.compile(r"[a-zA-Z0-9]{9}"), bridges=True),
    "ollama": Dialect(thoughts=True),
    "openrouter": Dialect(thoughts=True, effort="reasoning.effort", files=Takes((PDF,)), tells_cost=True),
    "vllm": Dialect(thoughts=True, demands=True),
}
"""The dialect of each provider; one that is not here has the dialect `USUAL`."""


def render(request: ModelRequest, provider: str, model: str, settings: Settings) -> Rendered:
    """Return *request* as an HTTP request (path, body, headers) for *model*."""
    refuse_tool_search(settings)
    dialect = _dialect(provider, settings)
    bridges = dialect.bridges or OF_MISTRAL.search(model) is not None
    dialect = dialect.but(files=seen_by(dialect.files, provider, model), bridges=bridges)
    body: dict[str, Json] = {"model": model, "stream": True}
    if dialect.asks_usage:
        body["stream_options"] = {"include_usage": True}
    if dialect.tells_cost:
        body["usage"] = {"include": True}
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


def takes_schema(provider: str) -> bool:
    """Whether the servers of *provider* take a schema for the answer."""
    return DIALECTS.get(provider, USUAL).schemas


def demands(provider: str, settings: Settings) -> bool:
    """Whether the servers of *provider* heed the demand to call one tool."""
    return _dialect(provider, settings).demands


def takes(provider: str, model: str) -> Takes:
    """Return which files and images *model* takes at the servers of *provider*."""
    return seen_by(DIALECTS.get(provider, USUAL).files, provider, model)


def _dialect(provider: str, settings: Settings) -> Dialect:
    """Return the dialect of *provider*. `openai-chat` is OpenAI itself, or any server if `base_url` is set."""
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
    for turn in with_sections(turns_of(request.messages, provider, dialect.files, dialect.ids), request):
        match turn:
            case UserTurn(results=results, said=parts):
                messages += map(_result, results)
                user_parts = (*_images(results), *parts)
                if user_parts and results and dialect.bridges:
                    messages.append({"role": "assistant", "content": BRIDGE})
                if user_parts:
                    messages.append({"role": "user", "content": _content(user_parts)})
            case ModelTurn():
                messages.append(_answer(turn, dialect))
    return messages


def _result(result: Result) -> JsonObject:
    """Return the message with the result of a call. It can contain only text; images and files follow separately."""
    text = text_of(result.parts) or result.follows
    return {"role": "tool", "tool_call_id": result.wire_id, "content": text}


def _has_file(result: Result) -> bool:
    return any(isinstance(part, File) for part in result.parts)


def _images(results: Iterable[Result]) -> Iterable[Part]:
    """Return the images and files of *results* as parts of a message of the user, after a text that names the tool."""
    for result in results:
        images = result.outside
        if images:
            yield Text((FILE_OF if _has_file(result) else IMAGE_OF).format(name=result.name))
            yield from images


def _content(parts: Sequence[Part]) -> Json:
    """Return *parts* as plain text if there is nothing else, because some servers take only that; else as a list."""
    if not any(isinstance(part, Image | File) for part in parts):
        return text_of(parts)
    return [_part(part) for part in parts]


def _part(part: Part) -> JsonObject:
    match part:
        case Image():
            return {"type": "image_url", "image_url": {"url": url_of(part)}}
        case File(reference=reference, name=name):
            data: JsonObject = {"filename": name or NO_NAME, "file_data": "" if reference else url_of(part)}
            return {"type": "file", "file": {"file_id": reference} if reference else data}
        case _:
            return {"type": "text", "text": text_of((part,))}


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
        message["tool_calls"] = [_call(call) for call in turn.asked]
        if dialect.empty_thoughts:
            message.setdefault(FIELDS[0], "")
    return message


def _thought(part: Thinking) -> JsonObject:
    field, _, details = (part.signature or "").partition(":")
    if field == DETAILS:
        return {field: freeze(cast("object", json.loads(details)))}
    return {field: part.text} if field in FIELDS else {}


def _call(call: Asked) -> JsonObject:
    function: JsonObject = {"name": call.call.name, "arguments": canonical(call.call.args)}
    return {"id": call.wire_id, "type": "function", "function": function}

"""Writes a `ModelRequest` as a request of the Responses API, by pure functions.

The provider is asked to store nothing. The model's reasoning comes encrypted with its answers, and later requests send
it back.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final, cast

from agentrail.adapters.models.model_turns import (
    NONE,
    Asked,
    ModelTurn,
    Result,
    RoleTurn,
    ToolSearch,
    UserTurn,
    plain,
    system_of,
    tool_search,
    turns_of,
    with_sections,
)
from agentrail.adapters.models.providers.unsupported_media import seen_by
from agentrail.adapters.models.settings import Settings
from agentrail.adapters.models.wire_format import ANY, Rendered, Takes
from agentrail.core.tools_on_demand import FINDER
from agentrail.errors import BadModelOptions
from agentrail.values.content import File, Image, Part, Said, Text, Thinking
from agentrail.values.json import Json, JsonObject, canonical, freeze_object
from agentrail.values.stream import ModelRequest
from agentrail.values.tools import ToolSpec

PATH: Final = "/responses"

ENCRYPTED: Final = "reasoning.encrypted_content"

PLAIN: Final = ("gpt-3", "gpt-4", "chatgpt-", "gpt-5-chat")
"""Prefixes of the names of models without reasoning; they refuse a request for encrypted reasoning."""

SEAL: Final = "reasoning:"
"""Prefix of `Thinking.signature` for reasoning; the id of the item, `:` and the encrypted reasoning follow it."""

PHASE: Final = "phase:"
"""Prefix of `Thinking.signature` for a `Thinking` without text that keeps the `phase` of the message after it."""

WEB_SEARCH: Final = "web_search_call"
"""Type of an item that says that the provider has searched the web."""

SEARCHED: Final = f"{WEB_SEARCH}:"
"""Prefix of `Thinking.signature` for a `Thinking` without text that keeps an item of the type `WEB_SEARCH`, as JSON.

The item goes back: the provider refuses reasoning without the item that followed it.
"""

WEB_SEARCH_FIELDS: Final = ("id", "status", "action")
"""What is kept of such an item beside its type."""

TAKES: Final = Takes((ANY,), (ANY,), ids=True)
"""Files that the API takes."""

NO_NAME: Final = "file"
"""Name of a file without one; the API demands one for bytes."""

NO_STOP: Final = "`stop` is not known to this provider; `openai-chat:…` has it"


def render(request: ModelRequest, provider: str, model: str, settings: Settings) -> Rendered:
    """Return *request* as an HTTP request (path, body, headers) for *model*."""
    if settings.stop:
        raise BadModelOptions(NO_STOP)
    turns = with_sections(turns_of(request.messages, provider, seen_by(TAKES, provider, model)), request)
    search = tool_search(request, settings)
    # the provider's form has no name for the finder: answers are read with the usual one
    if search.finder != FINDER:
        search = NONE
    body: dict[str, Json] = {
        "model": model,
        "stream": True,
        "store": False,
        "input": [item for turn in turns for item in _items(turn, search)],
    }
    if not model.startswith(PLAIN):
        body["include"] = [ENCRYPTED]
    system = system_of(request)
    if system:
        body["instructions"] = "\n\n".join(system)
    if request.tools:
        body["tools"] = [_finder(tool) if tool.name == search.finder else _tool(tool) for tool in request.tools]
        body["tool_choice"] = _choice(request, settings)
    if settings.max_tokens is not None:
        body["max_output_tokens"] = settings.max_tokens
    if settings.temperature is not None:
        body["temperature"] = settings.temperature
    if settings.reasoning_effort:
        body["reasoning"] = {"effort": settings.reasoning_effort}
    if settings.response_format is not None:
        body["text"] = {"format": _format(settings.response_format)}
    return Rendered(PATH, body)


def schema_of(tool: ToolSpec) -> JsonObject:
    """Return the JSON Schema of the arguments of *tool*, with `type` and `properties`, which OpenAI demands."""
    return {"type": "object", "properties": {}, **tool.parameters}


def url_of(media: Image | File) -> str:
    """Return a `data:` URL with the content of an image or a file."""
    return f"data:{media.media_type};base64,{media.data}"


def text_of(parts: Iterable[Part]) -> str:
    """Return the texts among *parts*, and data as JSON, with an empty line between them; the rest is left out."""
    return "\n\n".join(part.text for part in plain(parts) if isinstance(part, Text))


def _format(schema: JsonObject) -> JsonObject:
    return {"type": "json_schema", "name": "answer", "schema": schema} if schema else {"type": "json_object"}


def _tool(tool: ToolSpec) -> JsonObject:
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": schema_of(tool),
        "strict": False,  # the API's default is true, and most schemas of tools break the rules of that mode
    }


def _finder(tool: ToolSpec) -> JsonObject:
    """Return the tool that finds others, in the provider's own form."""
    form: JsonObject = {"type": "tool_search", "execution": "client"}
    return {**form, "description": tool.description, "parameters": tool.parameters}


def _choice(request: ModelRequest, settings: Settings) -> Json:
    if not request.may_call:
        return "none"
    if settings.tool_choice == "tool":
        return {"type": "function", "name": settings.tool}
    return "required" if settings.tool_choice == "any" else settings.tool_choice


def _items(turn: RoleTurn, search: ToolSearch) -> Iterable[JsonObject]:
    match turn:
        case UserTurn(results=results, said=parts):
            for result in results:
                yield _search_result_json(result, search) if result.name == search.finder else _result(result)
            if parts:
                yield {"role": "user", "content": [_part(part) for part in parts]}
        case ModelTurn(parts=parts, asked=calls):
            yield from _parts_json(parts)
            for call in calls:
                yield _looking(call) if call.call.name == search.finder else _call(call)


def _part(part: Part) -> JsonObject:
    match part:
        case Image():
            return {"type": "input_image", "image_url": url_of(part), "detail": "auto"}
        case File(provider=provider, reference=reference, name=name):
            if reference:
                return {"type": "input_file", "file_id" if provider else "file_url": reference}
            return {"type": "input_file", "filename": name or NO_NAME, "file_data": url_of(part)}
        case Text(text=text):
            return {"type": "input_text", "text": text}
        case _:
            return {"type": "input_text", "text": canonical(part.data)}


def _result(result: Result) -> JsonObject:
    """Return the result of a call: as plain text, which every server takes, or as parts if it has images or files."""
    parts = result.parts
    has_media = any(isinstance(part, Image | File) for part in parts)
    output: Json = [_part(part) for part in parts] if has_media else text_of(parts)
    return {"type": "function_call_output", "call_id": result.wire_id, "output": output}


def _looking(call: Asked) -> JsonObject:
    """Return a call of the tool that finds others, in the provider's own form."""
    form: JsonObject = {"type": "tool_search_call", "execution": "client", "status": "completed"}
    return {**form, "call_id": call.wire_id, "arguments": call.call.args}


def _search_result_json(result: Result, search: ToolSearch) -> JsonObject:
    """Return the result of a call of the tool that finds others: the definitions of the tools that it has found."""
    form: JsonObject = {"type": "tool_search_output", "execution": "client", "status": "completed"}
    tools: list[Json] = [{**_tool(tool), "defer_loading": True} for tool in search.loaded(result)]
    return {**form, "call_id": result.wire_id, "tools": tools}


def _parts_json(parts: Iterable[Said]) -> Iterable[JsonObject]:
    phase: JsonObject = {}
    for part in parts:
        if isinstance(part, Text):
            yield {"role": "assistant", "content": part.text, **phase}
            phase = {}
        else:
            signature = part.signature or ""
            if signature.startswith(PHASE):
                phase = {"phase": signature.removeprefix(PHASE)}
            elif signature.startswith(SEAL):
                yield _reasoning(part, signature.removeprefix(SEAL))
            elif signature.startswith(SEARCHED):
                yield from _web_search(signature.removeprefix(SEARCHED))


def _web_search(item: str) -> Iterable[JsonObject]:
    """Yield the kept *item* as the provider takes it; nothing if it was damaged where it was stored."""
    try:
        fields: object = json.loads(item)
    except (ValueError, RecursionError):
        return
    if isinstance(fields, dict) and "id" in fields:
        item_fields = {
            key: value for key, value in cast("dict[str, object]", fields).items() if key in WEB_SEARCH_FIELDS
        }
        yield freeze_object(item_fields | {"type": WEB_SEARCH})


def _reasoning(thought: Thinking, seal: str) -> JsonObject:
    item_id, _, encrypted = seal.partition(":")
    summary: list[Json] = [{"type": "summary_text", "text": thought.text}] if thought.text else []
    return {"type": "reasoning", "id": item_id, "summary": summary, "encrypted_content": encrypted}


def _call(call: Asked) -> JsonObject:
    return {
        "type": "function_call",
        "call_id": call.wire_id,
        "name": call.call.name,
        "arguments": canonical(call.call.args),
    }

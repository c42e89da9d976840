"""Writes a `ModelRequest` as a request of the Messages API, by pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from agentrail.adapters.models.anthropic.thinking import manner_of, temperature_of
from agentrail.adapters.models.cache_marks import marks_of, passing_of
from agentrail.adapters.models.model_turns import (
    Asked,
    ModelTurn,
    Result,
    RoleTurn,
    ToolSearch,
    UserTurn,
    fixed_of,
    media_of_failed,
    system_of,
    tool_search,
    turns_of,
    with_sections,
    without_thoughts,
)
from agentrail.adapters.models.providers.unsupported_media import seen_by
from agentrail.adapters.models.settings import Settings
from agentrail.adapters.models.wire_format import PDF, TEXTS, Rendered, Takes, text_in
from agentrail.errors import BadModelOptions
from agentrail.values.content import File, Image, Part, Said, Text
from agentrail.values.json import Json, JsonObject
from agentrail.values.stream import ModelRequest
from agentrail.values.tools import ToolSpec

VERSION_HEADER: Final = "anthropic-version"
VERSION: Final = "2026-10-21"
"""The version of the API, sent as a header. The official SDK sends the same; its types describe this version."""
OLDER: Final = "2023-06-01"
"""The version before it, sent with a field of `SAMPLING`: the newer one refuses these for all models."""
SAMPLING: Final = frozenset({"temperature", "top_p", "top_k"})
PATH: Final = "/v1/messages"

REDACTED: Final = "redacted:"
"""Prefix of `Thinking.signature` for thinking that arrived encrypted, without text. The encrypted data follows it."""

MARK: Final = {"type": "ephemeral"}
"""The cache mark of a block: the provider caches the request up to and including this block for some minutes."""

NO_SCHEMA: Final = "`response_format` is empty, and this provider wants a JSON Schema"

MAX_TOKENS: Final = 32_000
"""The default of `max_tokens`, the most tokens of an answer; the API demands a number."""

MAX_TOKENS_OF: Final[Mapping[str, int]] = {
    "claude-3-7": MAX_TOKENS,
    "claude-3-5": 8_192,
    "claude-3-": 4_096,
}
"""The default of `max_tokens` for old models, by prefix of the model's name; the first prefix that fits counts."""

TAKES: Final = Takes((PDF, TEXTS), (PDF,), ids=True)
"""Files that the API takes."""


def render(request: ModelRequest, provider: str, model: str, settings: Settings) -> Rendered:
    """Return *request* as an HTTP request (path, body, headers) for *model*."""
    turns = with_sections(turns_of(request.messages, provider, seen_by(TAKES, provider, model)), request)
    search = tool_search(request, settings)
    most = settings.max_tokens or _max_tokens(model)
    manner = manner_of(model, settings, most, turns)
    sent_turns = turns if manner.thoughts else tuple(map(without_thoughts, turns))
    marks = marks_of(request, settings, turns)
    body: dict[str, Json] = {
        "model": model,
        "max_tokens": most,
        "stream": True,
        "messages": _messages(
            sent_turns, search, marks, passing_of(request, provider, seen_by(TAKES, provider, model))
        ),
    }
    system = system_of(request)
    if system:
        body["system"] = _system(request, system, marks)
    if request.tools:
        body["tools"] = _tools(request.tools, search, marked="tools" in marks)
        body["tool_choice"] = _choice(request, settings)
    if (temperature := temperature_of(settings)) is not None:
        body["temperature"] = temperature
    if settings.stop:
        body["stop_sequences"] = settings.stop
    if manner.thinking is not None:
        body["thinking"] = manner.thinking
    output: dict[str, Json] = {"effort": manner.effort} if manner.effort else {}
    if settings.response_format is not None:
        if not settings.response_format:
            raise BadModelOptions(NO_SCHEMA)
        output["format"] = {"type": "json_schema", "schema": settings.response_format}
    if output:
        body["output_config"] = output
    betas = {"anthropic-beta": manner.betas} if manner.betas else {}
    version = VERSION if SAMPLING.isdisjoint((*body, *settings.extra)) else OLDER
    return Rendered(PATH, body, {VERSION_HEADER: version, **betas})


def _max_tokens(model: str) -> int:
    return next((most for prefix, most in MAX_TOKENS_OF.items() if model.startswith(prefix)), MAX_TOKENS)


def _choice(request: ModelRequest, settings: Settings) -> JsonObject:
    if not request.may_call:
        return {"type": "none"}
    if settings.tool_choice == "tool":
        return {"type": "tool", "name": settings.tool}
    return {"type": settings.tool_choice}


def _tools(tools: Iterable[ToolSpec], search: ToolSearch, *, marked: bool) -> list[Json]:
    rendered = [_tool(tool) for tool in tools]
    found_later: list[Json] = [{**_tool(tool), "defer_loading": True} for tool in search.tools.values()]
    return [*_mark_cache(rendered, len(rendered) - 1, marked=marked), *found_later]


def _tool(tool: ToolSpec) -> dict[str, Json]:
    schema: JsonObject = {"type": "object", **tool.parameters}
    return {"name": tool.name, "description": tool.description, "input_schema": schema}


def _system(request: ModelRequest, system: tuple[str, ...], marks: frozenset[str]) -> list[Json]:
    blocks: list[dict[str, Json]] = [{"type": "text", "text": text} for text in system]
    has_fixed = bool(fixed_of(request))
    _mark_cache(blocks, 0, marked=has_fixed and "system" in marks)
    return _mark_cache(blocks, len(blocks) - 1, marked=len(blocks) > has_fixed and "sections" in marks)


def _mark_cache(blocks: list[dict[str, Json]], index: int, *, marked: bool) -> list[Json]:
    if marked and 0 <= index < len(blocks):
        blocks[index]["cache_control"] = MARK
    return list(blocks)


def _messages(
    turns: Sequence[RoleTurn], search: ToolSearch, marks: frozenset[str], passing: tuple[int, int]
) -> list[Json]:
    """Return *turns*, which end with the user, as JSON.

    *passing* is the number of turns, and of blocks in the turn before them, that are not in later requests: the mark
    stands before them.
    """
    rendered = [_message(turn, search) for turn in turns]
    last = len(rendered) - 1 - passing[0]
    if "answered" in marks:
        _mark(rendered[last - 2][1], len(rendered[last - 2][1]) - 1)
    if "messages" in marks:
        _mark(rendered[last][1], len(rendered[last][1]) - 1 - passing[1])
    if isinstance(turns[-1], UserTurn) and turns[-1].sections is not None:
        rendered[-1][1].append(_part(turns[-1].sections))
    return [{"role": role, "content": list(blocks)} for role, blocks in rendered]


def _mark(blocks: list[JsonObject], index: int) -> None:
    if index >= 0:
        blocks[index] = {**blocks[index], "cache_control": MARK}


def _message(turn: RoleTurn, search: ToolSearch) -> tuple[str, list[JsonObject]]:
    match turn:
        case UserTurn(results=results, parts=parts):
            answers = [_result(result, search) for result in results]
            return "user", [*answers, *map(_part, media_of_failed(results)), *map(_part, parts)]
        case ModelTurn(parts=model_parts, asked=calls):
            return "assistant", [*map(_part_json, model_parts), *map(_call, calls)]


def _part(part: Part) -> JsonObject:
    match part:
        case Image(media_type=media_type, data=data):
            return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}
        case File():
            named: JsonObject = {"title": part.name} if part.name else {}
            return {"type": "document", "source": _source(part), **named}
        case Text(text=text):
            return {"type": "text", "text": text}
        case _:
            return {"type": "text", "text": str(part.data)}


def _source(file: File) -> JsonObject:
    if file.provider:
        return {"type": "file", "file_id": file.reference}
    if file.reference:
        return {"type": "url", "url": file.reference}
    if file.media_type.startswith(TEXTS):
        return {"type": "text", "media_type": "text/plain", "data": text_in(file)}
    return {"type": "base64", "media_type": file.media_type, "data": file.data}


def _result(result: Result, search: ToolSearch) -> JsonObject:
    references: list[Json] = [{"type": "tool_reference", "tool_name": tool.name} for tool in search.loaded(result)]
    rendered: dict[str, Json] = {
        "type": "tool_result",
        "tool_use_id": result.wire_id,
        "content": references or [_part(part) for part in result.inside],
    }
    if result.is_error:
        rendered["is_error"] = True
    return rendered


def _part_json(part: Said) -> JsonObject:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    signature = part.signature or ""
    if signature.startswith(REDACTED):
        return {"type": "redacted_thinking", "data": signature.removeprefix(REDACTED)}
    return {"type": "thinking", "thinking": part.text, "signature": signature}


def _call(call: Asked) -> JsonObject:
    return {"type": "tool_use", "id": call.wire_id, "name": call.call.name, "input": call.call.args}

"""Writes a `ModelRequest` as a request of the Converse API, by pure functions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from urllib.parse import quote

from agentrail.adapters.models.anthropic.requests import NO_SCHEMA, REDACTED
from agentrail.adapters.models.anthropic.thinking import Manner, manner_of, temperature_of
from agentrail.adapters.models.cache_marks import marks_of, passing_of
from agentrail.adapters.models.model_turns import (
    Asked,
    ModelTurn,
    Result,
    RoleTurn,
    UserTurn,
    fixed_of,
    media_of_failed,
    refuse_tool_search,
    system_of,
    turns_of,
    with_sections,
    without_thoughts,
)
from agentrail.adapters.models.providers.unsupported_media import seen_by
from agentrail.adapters.models.settings import Settings
from agentrail.adapters.models.wire_format import A_FILE, PDF, Rendered, Takes
from agentrail.core.cloud_names import maker_name
from agentrail.errors import BadModelOptions
from agentrail.values.content import File, Image, Part, Said, Text
from agentrail.values.json import EMPTY, Json, JsonObject, canonical
from agentrail.values.stream import ModelRequest
from agentrail.values.tools import ToolSpec

STREAM: Final = "application/vnd.amazon.eventstream"
"""The media type of the answer."""

DOCUMENTS: Final[Mapping[str, str]] = {
    PDF: "pdf",
    "application/msword": "doc",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/vnd.ms-excel": "xls",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
}
"""The API's format for each media type of a document that is no text."""

TAKES: Final = Takes(tuple(DOCUMENTS))
"""Files that the API takes. Texts are sent as texts."""

FORCED: Final = re.compile(r"(?:^|\.)(?:amazon\.nova|mistral\.)")
"""Models beside Claude that can be made to call a tool."""

CACHING: Final = re.compile(r"(?:^|\.)(?:amazon\.nova|anthropic\.claude)")
"""Models that take marks for the prompt cache; others refuse a request with one."""

WITHOUT_TOOL_MARKS: Final = re.compile(r"(?:^|\.)amazon\.nova")
"""Models that take no mark behind the tools."""

POINT: Final[JsonObject] = {"cachePoint": {"type": "default"}}
"""The cache mark: the provider caches the request up to this block for some minutes."""

MAX_THINKING_TOKENS: Final = 32_000
"""The most tokens of an answer that is written with thinking, if the options do not say it."""

NO_CALLS: Final = ("Tools", "You cannot call a tool now. Answer in words.")
"""A section for requests in which no tool may be called: the API has no other way to say it."""


def claude_of(model: str) -> str:
    """Return the name that Anthropic has for *model*; empty if it is not Anthropic's."""
    maker, _, name = maker_name(f"bedrock:{model}").partition(":")
    return name if maker == "anthropic" else ""


def render(request: ModelRequest, provider: str, model: str, settings: Settings) -> Rendered:
    """Return *request* as an HTTP request (path, body, headers) for *model*."""
    refuse_tool_search(settings)
    takes = seen_by(TAKES, provider, model)
    if request.tools and not (request.may_call and settings.tool_choice != "none"):
        request = request.but(sections=(*request.sections, NO_CALLS))
    turns = with_sections(turns_of(request.messages, provider, takes), request)
    marks = marks_of(request, settings, turns) if CACHING.search(model) else frozenset[str]()
    manner = _manner(model, settings, turns)
    if not manner.thoughts:
        turns = tuple(map(without_thoughts, turns))
    body = _configs(model, settings, manner)
    body["messages"] = _messages(turns, marks, passing_of(request, provider, takes))
    if system := system_of(request):
        body["system"] = _system(request, system, marks)
    if tools := _tools(request.tools, turns, has_mark="tools" in marks and not WITHOUT_TOOL_MARKS.search(model)):
        body["toolConfig"] = {"tools": tools, **(_choice(settings) if request.tools else {})}
    path = f"/model/{quote(model, safe='')}/converse-stream"
    return Rendered(path, body, {"accept": STREAM})


def _configs(model: str, settings: Settings, manner: Manner) -> dict[str, Json]:
    """Return the fields with the limits, the thinking and the form of the answer."""
    inference: dict[str, Json] = {}
    thinks_by_budget = manner.thinking is not None and "budget_tokens" in manner.thinking
    if (limit := settings.max_tokens or (MAX_THINKING_TOKENS if thinks_by_budget else None)) is not None:
        inference["maxTokens"] = limit
    if (temperature := temperature_of(settings) if claude_of(model) else settings.temperature) is not None:
        inference["temperature"] = temperature
    if settings.stop:
        inference["stopSequences"] = settings.stop
    further: dict[str, Json] = {} if manner.thinking is None else {"thinking": manner.thinking}
    if manner.betas:
        further["anthropic_beta"] = [manner.betas]
    output: dict[str, Json] = {"effort": manner.effort} if manner.effort else {}
    if settings.response_format is not None:
        output["textFormat"] = _form(settings.response_format)
    configs = {"inferenceConfig": inference, "additionalModelRequestFields": further, "outputConfig": output}
    return {name: config for name, config in configs.items() if config}


def _manner(model: str, settings: Settings, turns: Sequence[RoleTurn]) -> Manner:
    """Return how the request controls the thinking of *model*; models other than Claude get the effort as it is."""
    claude = claude_of(model)
    if claude:
        return manner_of(claude, settings, settings.max_tokens or MAX_THINKING_TOKENS, turns)
    return Manner(effort=settings.reasoning_effort)


def _form(schema: JsonObject) -> JsonObject:
    if not schema:
        raise BadModelOptions(NO_SCHEMA)
    return {"type": "json_schema", "structure": {"jsonSchema": {"schema": canonical(schema), "name": "answer"}}}


def _choice(settings: Settings) -> dict[str, Json]:
    """Return the choice; that no tool may be called is said in words (`NO_CALLS`), which leaves the cache as it is."""
    if settings.tool_choice == "tool":
        return {"toolChoice": {"tool": {"name": settings.tool}}}
    return {"toolChoice": {"any" if settings.tool_choice == "any" else "auto": EMPTY}}


def _tools(tools: Sequence[ToolSpec], turns: Iterable[RoleTurn], *, has_mark: bool) -> list[Json]:
    """Return the tools, or the names of those that were called if there are none: the API refuses calls without."""
    if not tools:
        names = dict.fromkeys(call.call.name for turn in turns if isinstance(turn, ModelTurn) for call in turn.asked)
        return [{"toolSpec": {"name": name, "inputSchema": {"json": {"type": "object"}}}} for name in names]
    return [*map(_tool, tools), *([POINT] if has_mark else [])]


def _tool(tool: ToolSpec) -> JsonObject:
    described: JsonObject = {"description": tool.description} if tool.description else EMPTY
    schema: JsonObject = {"type": "object", **tool.parameters}
    return {"toolSpec": {"name": tool.name, **described, "inputSchema": {"json": schema}}}


def _system(request: ModelRequest, system: tuple[str, ...], marks: frozenset[str]) -> list[Json]:
    blocks: list[Json] = [{"text": text} for text in system]
    has_fixed = bool(fixed_of(request))
    if len(blocks) > has_fixed and "sections" in marks:
        blocks.append(POINT)
    if has_fixed and "system" in marks:
        blocks.insert(1, POINT)
    return blocks


def _messages(turns: Sequence[RoleTurn], marks: frozenset[str], passing: tuple[int, int]) -> list[Json]:
    """Return *turns*, which end with the user, as JSON.

    *passing* is the number of turns, and of blocks in the turn before them, that are not in later requests: the mark
    stands before them.
    """
    names = DocumentNames()
    rendered = [_message(turn, names) for turn in turns]
    last = len(rendered) - 1 - passing[0]
    if "answered" in marks:
        rendered[last - 2][1].append(POINT)
    if "messages" in marks and (size := len(rendered[last][1]) - passing[1]) > 0:
        rendered[last][1].insert(size, POINT)
    if isinstance(turns[-1], UserTurn) and turns[-1].sections is not None:
        rendered[-1][1].append({"text": turns[-1].sections.text})
    return [{"role": role, "content": list(blocks)} for role, blocks in rendered]


class DocumentNames:
    """Names documents by their number: the API wants different ones, and a file's own may be an instruction."""

    __slots__ = ("_count",)

    def __init__(self) -> None:
        self._count = 0

    def next(self) -> str:
        """Return the next name."""
        self._count += 1
        return f"file {self._count}"


def _message(turn: RoleTurn, names: DocumentNames) -> tuple[str, list[JsonObject]]:
    match turn:
        case UserTurn(results=results, parts=parts):
            blocks = [_result(result, names) for result in results]
            blocks += [_part(part, names) for part in (*media_of_failed(results), *parts)]
            has_document = any("document" in block for block in blocks)
            if has_document and not any("text" in block for block in blocks):
                blocks.append({"text": A_FILE})  # the API refuses a document without a text beside it
            return "user", blocks
        case ModelTurn(parts=model_parts, asked=calls):
            return "assistant", [*map(_part_json, model_parts), *map(_call, calls)]


def _part(part: Part, names: DocumentNames) -> JsonObject:
    match part:
        case Image(media_type=media_type, data=data):
            return {"image": {"format": media_type.partition("/")[2], "source": {"bytes": data}}}
        case File(media_type=media_type, data=data):
            form = DOCUMENTS.get(media_type, DOCUMENTS[PDF])
            return {"document": {"format": form, "name": names.next(), "source": {"bytes": data}}}
        case Text(text=text):
            return {"text": text}
        case _:
            return {"text": str(part.data)}


def _result(result: Result, names: DocumentNames) -> JsonObject:
    content: list[Json] = [_part(part, names) for part in result.inside]
    status = "error" if result.is_error else "success"
    return {"toolResult": {"toolUseId": result.wire_id, "content": content, "status": status}}


def _part_json(part: Said) -> JsonObject:
    if isinstance(part, Text):
        return {"text": part.text}
    signature = part.signature or ""
    if signature.startswith(REDACTED):
        return {"reasoningContent": {"redactedContent": signature.removeprefix(REDACTED)}}
    return {"reasoningContent": {"reasoningText": {"text": part.text, "signature": signature}}}


def _call(call: Asked) -> JsonObject:
    return {"toolUse": {"toolUseId": call.wire_id, "name": call.call.name, "input": call.call.args}}

"""Writes a `ModelRequest` as a request of the Gemini API, by pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import quote

from agentrail.adapters.models.gemini.schema_subset import schema_subset
from agentrail.adapters.models.gemini.thought_signatures import ALONE, CALL, TEXT, THOUGHT, split_call_seal, split_seal
from agentrail.adapters.models.model_turns import (
    Asked,
    ModelTurn,
    Result,
    RoleTurn,
    UserTurn,
    refuse_tool_search,
    system_of,
    turns_of,
    with_sections,
)
from agentrail.adapters.models.providers.unsupported_media import seen_by
from agentrail.adapters.models.settings import Settings
from agentrail.adapters.models.wire_format import ANY, Rendered, Takes
from agentrail.values.content import File, Image, Part, Said, Text
from agentrail.values.json import Json, JsonObject
from agentrail.values.stream import ModelRequest
from agentrail.values.tools import ToolSpec

PATH: Final = "/v1beta/{model}:streamGenerateContent?alt=sse"

TAKES: Final = Takes((ANY,), (ANY,), ids=True)
"""Files that the API takes."""

OLDER: Final = ("gemini-1", "gemini-2", "gemma", "learnlm")
"""Prefixes of the names of older models.

They demand no signatures, take no images within tool results, and take a budget in tokens for thinking.
"""

UNSIGNED: Final = "skip_thought_signature_validator"
"""The signature to send with the first call of a response without signatures, such as one of another model.

The API accepts this constant in place of a real signature.
"""

LEVELS: Final[Mapping[str, str]] = {
    "none": "MINIMAL",
    "minimal": "MINIMAL",
    "low": "LOW",
    "medium": "MEDIUM",
    "high": "HIGH",
    "xhigh": "HIGH",
    "max": "HIGH",
}
"""The API's thinking level for each effort; there is no level without thinking."""

BUDGETS: Final[Mapping[str, int]] = {
    "none": 0,
    "minimal": 512,
    "low": 2_048,
    "medium": 8_192,
    "high": 16_384,
    "xhigh": 24_576,
    "max": 24_576,
}
"""The budget for thinking, in tokens, for each effort; for the models in `OLDER`, which know no levels."""

PRO: Final = "-pro"
"""The part of a model's name that marks models whose thinking cannot be switched off."""

MIN_LEVEL: Final = "LOW"
"""The lowest level of `PRO` models; they do not know `MINIMAL`."""

MIN_BUDGET: Final = 128
"""The smallest budget of older `PRO` models, in tokens."""

SAYS_NOTHING: Final = frozenset({"$schema", "description", "title", "type"})
"""Keywords of a tool's schema that demand nothing of the arguments beyond being an object."""

MODES: Final[Mapping[str, str]] = {"auto": "AUTO", "any": "ANY", "none": "NONE", "tool": "ANY"}
"""The API's calling mode for each `tool_choice`."""


def render(request: ModelRequest, provider: str, model: str, settings: Settings) -> Rendered:
    """Return *request* as an HTTP request (path, body, headers) for *model*."""
    refuse_tool_search(settings)
    turns = with_sections(turns_of(request.messages, provider, seen_by(TAKES, provider, model)), request)
    body: dict[str, Json] = {"contents": [_content(turn, model) for turn in turns]}
    system = system_of(request)
    if system:
        body["systemInstruction"] = {"role": "user", "parts": [{"text": text} for text in system]}
    if request.tools:
        body["tools"] = [{"functionDeclarations": [_declaration(tool) for tool in request.tools]}]
        body["toolConfig"] = {"functionCallingConfig": _choice(request, settings)}
    config = _config(model, settings)
    if config:
        body["generationConfig"] = config
    name = model if "/" in model else f"models/{model}"
    return Rendered(PATH.format(model=quote(name, safe="/")), body)


def _config(model: str, settings: Settings) -> dict[str, Json]:
    config: dict[str, Json] = {}
    if settings.max_tokens is not None:
        config["maxOutputTokens"] = settings.max_tokens
    if settings.temperature is not None:
        config["temperature"] = settings.temperature
    if settings.stop:
        config["stopSequences"] = settings.stop
    if settings.reasoning_effort:
        config["thinkingConfig"] = _thinking(model, settings.reasoning_effort)
    if settings.response_format is not None:
        config["responseMimeType"] = "application/json"
        if settings.response_format:
            config["responseJsonSchema"] = schema_subset(settings.response_format)
    return config


def _thinking(model: str, effort: str) -> JsonObject:
    """Return the `thinkingConfig` of *model* for *effort*. Thoughts are included in the answer, unless it is `none`."""
    always = PRO in model
    if model.startswith(OLDER):
        budget = max(BUDGETS[effort], MIN_BUDGET if always else 0)
        config: dict[str, Json] = {"thinkingBudget": budget}
    else:
        level = LEVELS[effort]
        config = {"thinkingLevel": MIN_LEVEL if always and level == LEVELS["none"] else level}
    return config if effort == "none" else {**config, "includeThoughts": True}


def _choice(request: ModelRequest, settings: Settings) -> JsonObject:
    if not request.may_call:
        return {"mode": MODES["none"]}
    mode: JsonObject = {"mode": MODES[settings.tool_choice]}
    return {**mode, "allowedFunctionNames": [settings.tool]} if settings.tool_choice == "tool" else mode


def _declaration(tool: ToolSpec) -> JsonObject:
    """Return the declaration of *tool*, without a schema if it has no arguments.

    The API may refuse the schema of an object without properties.
    """
    declaration: dict[str, Json] = {"name": tool.name, "description": tool.description}
    if any(item for key, item in tool.parameters.items() if key not in SAYS_NOTHING):
        declaration["parametersJsonSchema"] = schema_subset({"type": "object", **tool.parameters})
    return declaration


# Messages


def _content(turn: RoleTurn, model: str) -> JsonObject:
    match turn:
        case UserTurn(results=results, said=parts):
            inside = not model.startswith(OLDER)
            answers = [_result(result, inside=inside) for result in results]
            outside = [] if inside else [_part(part) for result in results for part in result.outside]
            return {"role": "user", "parts": [*answers, *outside, *map(_part, parts)]}
        case ModelTurn(parts=model_parts, asked=calls_):
            parts_said, seals = _parts_json(model_parts)
            if calls_ and not seals and not model.startswith(OLDER):
                seals = {"0": UNSIGNED}
            calls = [_call(call, seals.get(str(number), "")) for number, call in enumerate(calls_)]
            return {"role": "model", "parts": [*parts_said, *calls]}


def _part(part: Part) -> JsonObject:
    match part:
        case Image(media_type=media_type, data=data):
            return {"inlineData": {"mimeType": media_type, "data": data}}
        case File(media_type=media_type, data=data, reference=reference):
            if reference:
                return {"fileData": {"mimeType": media_type, "fileUri": reference}}
            return {"inlineData": {"mimeType": media_type, "data": data}}
        case Text(text=text):
            return {"text": text}
        case _:
            return {"text": str(part.data)}


def _result(result: Result, *, inside: bool) -> JsonObject:
    """Return *result* as a part. With *inside*, its images are in the part; otherwise they follow the results."""
    output = "\n".join(part.text for part in result.parts if isinstance(part, Text))
    response: dict[str, Json] = {
        "id": result.wire_id,
        "name": result.name,
        "response": {"error" if result.is_error else "output": output},
    }
    images: list[Json] = [_part(part) for part in result.parts if inside and isinstance(part, Image | File)]
    if images:
        response["parts"] = images
    return {"functionResponse": response}


def _parts_json(said_parts: Iterable[Said]) -> tuple[list[JsonObject], dict[str, str]]:
    """Return the parts with their signatures, and the signatures of the calls by the number of the call, as text."""
    parts: list[JsonObject] = []
    seals: dict[str, str] = {}
    for part in said_parts:
        if isinstance(part, Text):
            parts.append({"text": part.text})
            continue
        position, signature = split_seal(part)
        if position == CALL:
            number, call_signature = split_call_seal(signature)
            seals[number] = call_signature
        elif position == THOUGHT:
            parts.append({"text": part.text, "thought": True, "thoughtSignature": signature})
        elif position == TEXT and parts and parts[-1].keys() == {"text"}:
            parts[-1] = {**parts[-1], "thoughtSignature": signature}
        elif position in {TEXT, ALONE}:
            parts.append({"text": "", "thoughtSignature": signature})
    return parts, seals


def _call(wire_call: Asked, signature: str) -> JsonObject:
    call: JsonObject = {
        "functionCall": {"id": wire_call.wire_id, "name": wire_call.call.name, "args": wire_call.call.args},
    }
    return {**call, "thoughtSignature": signature} if signature else call

"""What a provider reads of a rendered request, in the order in which it reads it: tools, system prompt, messages."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final, cast

from agentrail.adapters.models.provider_requests import demanding, with_demanded
from agentrail.adapters.models.providers import format_of
from agentrail.adapters.models.settings import read_settings
from agentrail.core.answers import with_answer_tool
from agentrail.models import PROVIDERS, ModelRequest
from tests.adapters.models.goldens import OWN
from tests.kit import thaw

HEAD: Final = (
    "additionalModelRequestFields",
    "outputConfig",
    *("model", "thinking", "output_config", "reasoning", "reasoning_effort", "text", "response_format"),
    "generationConfig",
)
"""Fields on which all depends that a model reads: another model, effort or form of the answer has another cache."""

READ: Final = (*HEAD, "tools", "system", "systemInstruction", "instructions", "input", "messages", "contents")
"""Fields of a body that a model reads, in order. Anthropic documents this order; the others document none."""

WITH_CHOICE: Final = (*READ[: READ.index("messages")], "tool_choice", *READ[READ.index("messages") :])
"""The fields for models of Anthropic.

With another `tool_choice`, messages are read again, but neither tools nor system prompt. The table
"What invalidates the cache" in its guide to prompt caching says so; the others say nothing of it.
"""

POINT: Final = {"cachePoint": {"type": "default"}}
"""A block that is a cache mark."""

UNREAD: Final = frozenset({"cache_control", "cachePoint", "maxOutputTokens", "temperature", "stopSequences"})
"""Fields within these that the model does not read."""


def prompt_of(request: ModelRequest, reader: str) -> bytes:
    """Return the bytes of *request* that *reader* compares with what it has in its cache, without cache marks.

    The reader is a provider with an own wire format, or a model. The bytes begin with the name of the request's model,
    which may be none of the reader's.
    """
    provider, _, model = OWN.get(reader, reader).partition(":")
    wire = format_of(PROVIDERS[provider])
    settings = read_settings(request.options)
    request = with_demanded(request, settings)
    if request.returns:  # as `RemoteModel.stream` has the answer take its form
        form = wire.form(request, provider, model)
        settings = settings.but(response_format=form)
        if form is None:
            request, _ = with_answer_tool(request)
    if request.must_call:
        settings = demanding(request, settings, able=wire.demands(provider, model, settings))
    body = flat(cast("Mapping[str, object]", thaw(wire.render(request, provider, model, settings).body)))
    is_claude = provider == "anthropic" or "claude" in model.lower()
    if is_claude and "system" not in body:
        body = _with_system(body)
    keys = WITH_CHOICE if is_claude else READ
    items = [_unmarked(item) for key in keys for item in _items(body.get(key, ())) if item != POINT]
    read = b"".join(json.dumps(item).encode() for item in items if item)
    return request.model.encode() + read


def flat(body: Mapping[str, object]) -> Mapping[str, object]:
    """Return *body* with tools and their choice where most APIs have them, and not in a field `toolConfig`."""
    config = cast("Mapping[str, object]", body.get("toolConfig", {}))
    if "tools" not in config:
        return body
    return {**body, "tools": config["tools"], "tool_choice": config.get("toolChoice", {})}


def _with_system(body: Mapping[str, object]) -> Mapping[str, object]:
    """Return *body* with the messages of the system prompt in a field of their own, as Anthropic has them."""
    messages = cast("list[Mapping[str, object]]", body["messages"])
    system = [message for message in messages if message["role"] == "system"]
    return {**body, "system": system, "messages": [message for message in messages if message["role"] != "system"]}


def common(one: bytes, other: bytes) -> int:
    """Return how many bytes *one* and *other* begin with alike."""
    places = (index for index, (here, there) in enumerate(zip(one, other, strict=False)) if here != there)
    return next(places, min(len(one), len(other)))


def _items(found: object) -> list[object]:
    return list(cast("list[object]", found)) if isinstance(found, list | tuple) else [found]


def _unmarked(found: object) -> object:
    if isinstance(found, dict):
        items = cast("dict[str, object]", found).items()
        return {key: _unmarked(item) for key, item in items if key not in UNREAD}
    if not isinstance(found, list):
        return found
    return [_unmarked(item) for item in cast("list[object]", found) if item != POINT]

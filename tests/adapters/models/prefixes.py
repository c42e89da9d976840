"""What a provider reads of a rendered request, in the order in which it reads it: tools, system prompt, messages."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final, cast

from agentrail.adapters.models.providers import PROVIDERS, format_of
from agentrail.adapters.models.settings import read_settings
from agentrail.values.json import EMPTY, thaw
from agentrail.values.stream import ModelRequest
from tests.adapters.models.goldens import OWN

READ: Final = ("tools", "system", "systemInstruction", "instructions", "input", "messages", "contents")
"""Fields of a body that a model reads, in order. Anthropic documents this order; the others document none."""


def prompt_of(request: ModelRequest, provider: str) -> bytes:
    """Return the bytes of *request* that *provider* compares with what it has in its cache, without cache marks."""
    wire, model = format_of(PROVIDERS[provider]), OWN[provider].partition(":")[2]
    body = cast("Mapping[str, object]", thaw(wire.render(request, provider, model, read_settings(EMPTY)).body))
    return b"".join(json.dumps(_unmarked(item)).encode() for key in READ for item in _items(body.get(key, ())))


def common(one: bytes, other: bytes) -> int:
    """Return how many bytes *one* and *other* begin with alike."""
    places = (place for place, (here, there) in enumerate(zip(one, other, strict=False)) if here != there)
    return next(places, min(len(one), len(other)))


def _items(found: object) -> list[object]:
    return list(cast("list[object]", found)) if isinstance(found, list | tuple) else [found]


def _unmarked(found: object) -> object:
    if isinstance(found, dict):
        items = cast("dict[str, object]", found).items()
        return {key: _unmarked(item) for key, item in items if key != "cache_control"}
    return [_unmarked(item) for item in cast("list[object]", found)] if isinstance(found, list) else found

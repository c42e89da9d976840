"""The client side of Google's Gemini API, its method `streamGenerateContent`.

The formats follow the public documentation and the types of `python-genai`, read in November 2026.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from agentrail.adapters.models.gemini.content_decoder import ContentDecoder
from agentrail.adapters.models.gemini.faults import FAULTS
from agentrail.adapters.models.gemini.requests import OLDER, TAKES, render
from agentrail.adapters.models.providers.unsupported_media import seen_by
from agentrail.adapters.models.wire_format import WireFormat
from agentrail.values.json import JsonObject
from agentrail.values.stream import ModelRequest


def _form(request: ModelRequest, _provider: str, model: str) -> JsonObject | None:
    return None if request.tools and model.startswith(OLDER) else request.returns


def _key_headers(key: str) -> Mapping[str, str]:
    return {"x-goog-api-key": key}


FORMAT: Final = WireFormat(
    FAULTS, render, ContentDecoder, partial(seen_by, TAKES), form=_form, key_headers=_key_headers
)

"""The client side of Amazon Bedrock's Converse API, its operation `ConverseStream`.

The formats follow the public documentation and the service model of `botocore` 1.44, read in November 2026.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from agentrail.adapters.models.anthropic.answer_form import strict_form, takes_schema
from agentrail.adapters.models.anthropic.thinking import can_force
from agentrail.adapters.models.bedrock.converse_decoder import ConverseDecoder
from agentrail.adapters.models.bedrock.faults import FAULTS
from agentrail.adapters.models.bedrock.frame_reader import FrameReader
from agentrail.adapters.models.bedrock.requests import FORCED, TAKES, claude_of, render
from agentrail.adapters.models.providers.unsupported_media import seen_by
from agentrail.adapters.models.settings import Settings
from agentrail.adapters.models.wire_format import WireFormat
from agentrail.values.json import JsonObject
from agentrail.values.stream import ModelRequest


def _form(request: ModelRequest, _provider: str, model: str) -> JsonObject | None:
    claude = claude_of(model)
    return strict_form(request.returns) if claude and takes_schema(claude) else None


def _demands(_provider: str, model: str, settings: Settings) -> bool:
    claude = claude_of(model)
    return can_force(claude, settings) if claude else FORCED.search(model) is not None


FORMAT: Final = WireFormat(
    FAULTS, render, ConverseDecoder, partial(seen_by, TAKES), form=_form, demands=_demands, reader=FrameReader
)

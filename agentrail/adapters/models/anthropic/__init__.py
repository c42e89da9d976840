"""The client side of Anthropic's Messages API, used with streamed answers.

The formats follow the public documentation and the types of `anthropic-sdk-python`, read in November 2026.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from agentrail.adapters.models.anthropic.answer_form import strict_form, takes_schema
from agentrail.adapters.models.anthropic.faults import FAULTS
from agentrail.adapters.models.anthropic.message_decoder import MessageDecoder
from agentrail.adapters.models.anthropic.requests import TAKES, render
from agentrail.adapters.models.anthropic.thinking import can_force
from agentrail.adapters.models.providers.unsupported_media import seen_by
from agentrail.adapters.models.settings import Settings
from agentrail.adapters.models.wire_format import WireFormat
from agentrail.values.json import JsonObject
from agentrail.values.stream import ModelRequest


def _form(request: ModelRequest, _provider: str, model: str) -> JsonObject | None:
    return strict_form(request.returns) if takes_schema(model) else None


def _demands(_provider: str, model: str, settings: Settings) -> bool:
    return can_force(model, settings)


FORMAT: Final = WireFormat(FAULTS, render, MessageDecoder, partial(seen_by, TAKES), form=_form, demands=_demands)

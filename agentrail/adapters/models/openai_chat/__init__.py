"""The client side of OpenAI's chat completions, with streamed answers, for OpenAI and all servers with the same API.

The formats follow the public documentation of OpenAI and of these other servers, and the types of `openai-python`, read
in November 2026.
"""

from __future__ import annotations

from typing import Final

from agentrail.adapters.models.openai.faults import FAULTS
from agentrail.adapters.models.openai_chat.chat_decoder import ChatDecoder
from agentrail.adapters.models.openai_chat.requests import demands, render, takes, takes_schema
from agentrail.adapters.models.settings import Settings
from agentrail.adapters.models.wire_format import WireFormat
from agentrail.values.json import JsonObject
from agentrail.values.stream import ModelRequest


def _form(request: ModelRequest, provider: str, _model: str) -> JsonObject | None:
    return request.returns if takes_schema(provider) else None


def _demands(provider: str, _model: str, settings: Settings) -> bool:
    return demands(provider, settings)


FORMAT: Final = WireFormat(FAULTS, render, ChatDecoder, takes, form=_form, demands=_demands)

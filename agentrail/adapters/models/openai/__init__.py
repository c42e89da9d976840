"""The client side of OpenAI's Responses API, with streamed answers, none of which is stored at the provider.

The formats follow the public documentation and the types of `openai-python`, read in November 2026.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from agentrail.adapters.models.openai.faults import FAULTS
from agentrail.adapters.models.openai.requests import TAKES, render
from agentrail.adapters.models.openai.response_decoder import ResponseDecoder
from agentrail.adapters.models.providers.unsupported_media import seen_by
from agentrail.adapters.models.wire_format import WireFormat

FORMAT: Final = WireFormat(FAULTS, render, ResponseDecoder, partial(seen_by, TAKES))

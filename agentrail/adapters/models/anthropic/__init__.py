"""Anthropic's Messages API, as a stream.

Shapes: the public documentation and the types of `anthropic-sdk-python`, read in November 2026.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, final

from agentrail.adapters.models.anthropic.answers import MessageDecoder
from agentrail.adapters.models.anthropic.faults import FAULTS
from agentrail.adapters.models.anthropic.requests import render
from agentrail.adapters.models.provider_errors import Faults
from agentrail.adapters.models.settings import Settings
from agentrail.adapters.models.wire_format import Decoder, Rendered
from agentrail.values.stream import ModelRequest


@final
class Messages:
    """The wire format `anthropic`."""

    @property
    def faults(self) -> Faults:
        """What its errors mean."""
        return FAULTS

    def key_headers(self, key: str) -> Mapping[str, str]:
        """Return the headers that hold the key."""
        return {"authorization": f"Bearer {key}"}

    def render(self, request: ModelRequest, provider: str, model: str, settings: Settings) -> Rendered:
        """Return *request* for *model*, the name without its *provider*."""
        return render(request, provider, model, settings)

    def decoder(self) -> Decoder:
        """Return what reads the next answer."""
        return MessageDecoder()


FORMAT: Final = Messages()

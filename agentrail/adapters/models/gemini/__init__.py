"""The client side of Google's Gemini API, its method `streamGenerateContent`.

The formats follow the public documentation and the types of `python-genai`, read in November 2026.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, final

from agentrail.adapters.models.gemini.answers import ContentDecoder
from agentrail.adapters.models.gemini.faults import FAULTS
from agentrail.adapters.models.gemini.requests import OLDER, TAKES, render
from agentrail.adapters.models.provider_errors import Faults
from agentrail.adapters.models.providers.unsupported_media import seen_by
from agentrail.adapters.models.settings import Settings
from agentrail.adapters.models.wire_format import Decoder, Rendered, Takes
from agentrail.values.json import JsonObject
from agentrail.values.stream import ModelRequest


@final
class GenerateContent:
    """The wire format `gemini`: how requests to the Gemini API are written and its answers are read."""

    @property
    def faults(self) -> Faults:
        """The provider's error codes with our exceptions; `provider_errors` looks errors up there."""
        return FAULTS

    def key_headers(self, key: str) -> Mapping[str, str]:
        """Return the HTTP headers that carry the API key."""
        return {"x-goog-api-key": key}

    def render(self, request: ModelRequest, provider: str, model: str, settings: Settings) -> Rendered:
        """Return *request* as an HTTP request; *model* is the model's name without its *provider*."""
        return render(request, provider, model, settings)

    def form(self, request: ModelRequest, provider: str, model: str) -> JsonObject | None:  # noqa: ARG002 - others ask
        """Return the schema of the answer as *model* takes it; `None` if the answer has to come by a tool."""
        return None if request.tools and model.startswith(OLDER) else request.returns

    def demands(self, provider: str, model: str, settings: Settings) -> bool:  # noqa: ARG002 - others ask
        """Whether a request can demand the call of one tool."""
        return True

    def takes(self, provider: str, model: str) -> Takes:
        """Return which files and images *model* of *provider* takes."""
        return seen_by(TAKES, provider, model)

    def decoder(self) -> Decoder:
        """Return a new decoder for the events of one answer."""
        return ContentDecoder()


FORMAT: Final = GenerateContent()

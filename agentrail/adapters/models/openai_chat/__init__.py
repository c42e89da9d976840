"""The client side of OpenAI's chat completions, with streamed answers, for OpenAI and all servers with the same API.

The formats follow the public documentation of OpenAI and of these other servers, and the types of `openai-python`, read
in November 2026.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, final

from agentrail.adapters.models.openai.faults import FAULTS
from agentrail.adapters.models.openai_chat.answers import ChatDecoder
from agentrail.adapters.models.openai_chat.requests import demands, render, takes, takes_schema
from agentrail.adapters.models.provider_errors import Faults
from agentrail.adapters.models.settings import Settings
from agentrail.adapters.models.wire_format import Decoder, Rendered, Takes
from agentrail.values.json import JsonObject
from agentrail.values.stream import ModelRequest


@final
class ChatCompletions:
    """The wire format `openai_chat`: how requests for chat completions are written and their answers are read."""

    @property
    def faults(self) -> Faults:
        """The provider's error codes with our exceptions; `provider_errors` looks errors up there."""
        return FAULTS

    def key_headers(self, key: str) -> Mapping[str, str]:
        """Return the HTTP headers that carry the API key."""
        return {"authorization": f"Bearer {key}"}

    def render(self, request: ModelRequest, provider: str, model: str, settings: Settings) -> Rendered:
        """Return *request* as an HTTP request; *model* is the model's name without its *provider*."""
        return render(request, provider, model, settings)

    def form(self, request: ModelRequest, provider: str, model: str) -> JsonObject | None:  # noqa: ARG002 - others ask
        """Return the schema of the answer as *model* takes it; `None` if the answer has to come by a tool."""
        return request.returns if takes_schema(provider) else None

    def demands(self, provider: str, model: str, settings: Settings) -> bool:  # noqa: ARG002 - others ask
        """Whether a request can demand the call of one tool."""
        return demands(provider, settings)

    def takes(self, provider: str, model: str) -> Takes:
        """Return which files and images *model* of *provider* takes."""
        return takes(provider, model)

    def decoder(self) -> Decoder:
        """Return a new decoder for the events of one answer."""
        return ChatDecoder()


FORMAT: Final = ChatCompletions()

"""The models of Vertex AI: Google's and Anthropic's, each in its own format, under Google Cloud's addresses.

The formats follow the public documentation, `python-genai` and `anthropic-sdk-python`, read in
November 2026.
"""

from __future__ import annotations

from agentrail.core.cloud_names import maker_name
from agentrail.values.messages import AssistantMessage, Message
from agentrail.values.stream import ModelRequest


def with_own_thoughts(request: ModelRequest, maker: str) -> ModelRequest:
    """Return *request* with the answers of other makers than *maker* as those of other providers.

    Signatures of Google's models mean nothing to those of Anthropic, though both are at Vertex AI.
    """
    return request.but(messages=tuple([_with_maker(message, maker) for message in request.messages]))


def _with_maker(message: Message, maker: str) -> Message:
    if not isinstance(message, AssistantMessage):
        return message
    name = maker_name(message.model)
    return message if name.startswith(f"{maker}:") else message.but(model=name)

"""OpenAI's chat completions at Azure."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from agentrail.adapters.models.azure import key_headers, with_version
from agentrail.adapters.models.openai_chat import FORMAT as OPENAI_CHAT
from agentrail.adapters.models.settings import Settings
from agentrail.adapters.models.wire_format import Rendered
from agentrail.values.stream import ModelRequest


def render(request: ModelRequest, provider: str, model: str, settings: Settings) -> Rendered:
    """Return *request* as an HTTP request for the deployment *model*, which the older API names in the path."""
    rendered = OPENAI_CHAT.render(request, provider, model, settings)
    deployment = f"/deployments/{quote(model, safe='')}" if settings.api_version else ""
    return rendered.but(path=with_version(deployment + rendered.path, settings))


FORMAT: Final = OPENAI_CHAT._replace(render=render, key_headers=key_headers)

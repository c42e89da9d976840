"""OpenAI's Responses API at Azure."""

from __future__ import annotations

from typing import Final

from agentrail.adapters.models.azure import key_headers, with_version
from agentrail.adapters.models.openai import FORMAT as OPENAI
from agentrail.adapters.models.settings import Settings
from agentrail.adapters.models.wire_format import Rendered
from agentrail.values.stream import ModelRequest


def render(request: ModelRequest, provider: str, model: str, settings: Settings) -> Rendered:
    """Return *request* as an HTTP request (path, body, headers) for the deployment *model*."""
    rendered = OPENAI.render(request, provider, model, settings)
    return rendered.but(path=with_version(rendered.path, settings))


FORMAT: Final = OPENAI._replace(render=render, key_headers=key_headers)

"""Anthropic's models at Vertex AI."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from agentrail.adapters.models.anthropic import FORMAT as ANTHROPIC
from agentrail.adapters.models.settings import Settings
from agentrail.adapters.models.wire_format import Rendered
from agentrail.values.stream import ModelRequest

VERSION: Final = "vertex-2023-10-16"
"""The version of the API, which stands in the body here."""


def render(request: ModelRequest, provider: str, model: str, settings: Settings) -> Rendered:
    """Return *request* as an HTTP request (path, body, headers) for *model*, which is named in the path alone."""
    rendered = ANTHROPIC.render(request, provider, model, settings)
    body = {name: value for name, value in rendered.body.items() if name != "model"}
    path = f"/publishers/anthropic/models/{quote(model, safe='@')}:streamRawPredict"
    return rendered.but(path=path, body={"anthropic_version": VERSION, **body})


FORMAT: Final = ANTHROPIC._replace(render=render)

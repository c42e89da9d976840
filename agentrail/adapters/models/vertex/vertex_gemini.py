"""Google's models at Vertex AI."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from agentrail.adapters.models.gemini import FORMAT as GEMINI
from agentrail.adapters.models.settings import Settings
from agentrail.adapters.models.vertex import with_own_thoughts
from agentrail.adapters.models.wire_format import Rendered, bearer
from agentrail.values.stream import ModelRequest


def render(request: ModelRequest, provider: str, model: str, settings: Settings) -> Rendered:
    """Return *request* as an HTTP request (path, body, headers) for *model*."""
    rendered = GEMINI.render(with_own_thoughts(request, "gemini"), provider, model, settings)
    return rendered.but(path=f"/publishers/google/models/{quote(model, safe='')}:streamGenerateContent?alt=sse")


FORMAT: Final = GEMINI._replace(render=render, key_headers=bearer)

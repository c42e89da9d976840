"""The APIs of OpenAI at Azure: the same bodies, with other addresses and headers.

The formats follow the public documentation and the class for Azure in `openai-python`, read in November 2026.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

from agentrail.adapters.models.settings import Settings


def key_headers(key: str) -> Mapping[str, str]:
    """Return the HTTP header that carries the API key."""
    return {"api-key": key}


def with_version(path: str, settings: Settings) -> str:
    """Return *path* with the version of the older API, if the options name one."""
    return f"{path}?api-version={quote(settings.api_version)}" if settings.api_version else path

"""`origin_of`: what two URLs have in common if they lead to the same server."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

PORTS: Final = {"https": 443, "http": 80}
"""The port of a URL that names none, by scheme."""


def origin_of(url: str) -> tuple[str, str | None, int | None]:
    """Return scheme, host and port of *url*, by which two URLs are compared; raise `ValueError` for an odd port."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or PORTS.get(parts.scheme)

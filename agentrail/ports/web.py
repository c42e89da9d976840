"""What tools need of the web: one page, as text, within limits."""

from __future__ import annotations

from typing import Protocol

from agentrail.values.value import Value, value

MAX_PAGE = 2 * 1024 * 1024
"""Bytes of a page that are read."""


@value
class Page(Value):
    """What was found at an address."""

    url: str
    """Where it was in the end, behind all redirects."""
    status: int
    """What the server answered, such as 200 or 404."""
    media_type: str
    """What the server says that it is, such as `text/html`."""
    text: str
    """Its text; HTML as Markdown, unless it was wanted as it is."""
    cut: bool = False
    """Whether it is longer than what was read."""


class Web(Protocol):
    """Fetches pages; it says `WebRefused` to addresses that nobody outside should reach, and `WebFailed` else."""

    async def fetch(self, url: str, *, timeout: float, raw: bool = False) -> Page:  # noqa: ASYNC109 - a limit of the fetch
        """Return what is at *url*."""
        ...

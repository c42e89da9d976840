"""`Web`: fetches a web page as text, within limits, for the tool `web_fetch`."""

from __future__ import annotations

from typing import Protocol

from agentrail.values.value import Authored

MAX_PAGE = 2 * 1024 * 1024
"""Bytes of a page that are read at most."""


class Page(Authored):
    """A fetched page."""

    url: str
    """Address of the page after all redirects."""
    status: int
    """HTTP status of the answer, such as 200 or 404."""
    media_type: str
    """Media type that the server gives, such as `text/html`."""
    text: str
    """Text of the page; HTML is turned into Markdown unless `raw` was set."""
    cut: bool = False
    """Whether the page is longer than the part that was read."""


class Web(Protocol):
    """Fetches pages. Raises `WebRefused` for addresses that tools must not reach, and `WebFailed` if a fetch fails."""

    async def fetch(self, url: str, *, timeout: float, raw: bool = False) -> Page:  # noqa: ASYNC109 - a limit of the fetch
        """Return the page at *url*; with *raw*, HTML as it is; *timeout* is in seconds."""
        ...

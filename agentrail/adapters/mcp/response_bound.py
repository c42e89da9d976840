"""Bounds what is read of one answer of an MCP server over HTTP: the package `mcp` reads a JSON body of any size."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

import httpx2

from agentrail.adapters.mcp.pipes import MAX_MESSAGE

PLAIN: Final = frozenset({"", "identity"})
"""Encodings of a body that is as long as it says; a small one in another encoding may become a huge one."""

EVENTS: Final = "text/event-stream"


class _BoundedBody(httpx2.AsyncByteStream):
    """The body of a response, which fails when it is too long."""

    def __init__(self, body: httpx2.AsyncByteStream, problem: str = "") -> None:
        self._body = body
        self._problem = problem

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._problem:
            raise httpx2.StreamError(self._problem)
        length = 0
        async for piece in self._body:
            length += len(piece)
            if length > MAX_MESSAGE:
                problem = f"it has more than {MAX_MESSAGE} bytes"
                raise httpx2.StreamError(problem)
            yield piece

    async def aclose(self) -> None:
        """Close the connection."""
        await self._body.aclose()


async def bound_body(response: httpx2.Response) -> None:  # noqa: ASYNC124 - httpx2 awaits it
    """Bound the body of *response*, which was not read yet; a stream of events is bounded event by event."""
    stream = response.stream
    encoding = response.headers.get("content-encoding", "").strip().lower()
    if not isinstance(stream, httpx2.AsyncByteStream):
        return
    if encoding not in PLAIN:
        response.stream = _BoundedBody(stream, "it is compressed, which was not asked for")
    elif not response.headers.get("content-type", "").lower().startswith(EVENTS):
        response.stream = _BoundedBody(stream)

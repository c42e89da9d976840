"""`AsgiBody`: the body of a request of an ASGI server, and the news that its client has gone: both are received."""

from __future__ import annotations

from typing import Final, cast

import trio

from agentrail.api.limits import HostLimits
from agentrail.host.asgi.asgi_scope import ReceiveMessage
from agentrail.host.requests.received_body import LINGER, MAX_DROPPED, ReceivedBody

DISCONNECT: Final = "http.disconnect"

PIECE: Final = 64 * 1024
"""The most bytes that are read at once; the events of a server may have more."""


class AsgiBody(ReceivedBody):
    """Reads a body as `http.request` events."""

    __slots__ = ("_has_end", "_is_gone", "_receive_message")

    def __init__(self, receive: ReceiveMessage, length: int | None, limits: HostLimits) -> None:
        super().__init__(length, limits, bytearray())
        self._receive_message = receive
        self._has_end = length == 0
        """Whether the last event of the body has come, or none is needed."""
        self._is_gone = False
        """Whether the client has gone."""

    @property
    def ended(self) -> bool:
        """Whether the whole body has been taken."""
        return self._has_end and not self._buffer

    def leave(self) -> bool:
        """Drop nothing, as it is no next request; return whether the client may send more of it."""
        return not (self._has_end or self._is_gone)

    def _take(self) -> bytes:
        content = bytes(self._buffer[:PIECE])
        del self._buffer[:PIECE]
        return content

    async def _more(self) -> bool:
        if not self._is_gone:
            message = await self._receive_message()
            self._is_gone = message["type"] == DISCONNECT
            self._buffer.extend(cast("bytes", message.get("body", b"")))
            self._has_end = self._has_end or not (self._is_gone or message.get("more_body", False))
        return not self._is_gone

    async def drop(self) -> None:
        """Receive the rest of the body for a while, and drop it: a client that sends all of it first waits for that."""
        with trio.move_on_after(LINGER):
            for _ in range(MAX_DROPPED):
                self._buffer.clear()
                if self._has_end or not await self._more():
                    return

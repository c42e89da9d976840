"""`Inbound`: what a connection has received and not used yet."""

from __future__ import annotations

import math
from typing import Final, cast

import trio

from agentrail.host.http11.http_messages import PeerGone
from agentrail.host.http11.inbound.request_head import refuse_control
from agentrail.host.http11.refusals import CUT_HEAD, ENDLESS_LINE, LATE_HEAD, LONG_HEAD, HttpRefusal
from agentrail.host.http11.sending import received_at_once
from agentrail.wire.limits import HostLimits

PIECE: Final = 64 * 1024
"""The most bytes that are received, or sent, at once."""

_END: Final = b"\r\n\r\n"


class Inbound:
    """The receiving side of a connection."""

    __slots__ = ("_limits", "_stream", "buffer")

    def __init__(self, stream: trio.abc.Stream, limits: HostLimits) -> None:
        self._stream = stream
        self._limits = limits
        self.buffer = bytearray()

    async def more(self, within: float) -> bool | None:
        """Receive; return whether something came, `None` if nothing did *within* so many seconds."""
        with trio.move_on_after(within):
            return await self.more_whenever()
        return None

    async def more_whenever(self) -> bool:
        """Receive, however long it takes; return false at the end of the peer's bytes."""
        try:
            received = await self._stream.receive_some(PIECE)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise PeerGone from error
        self.buffer += received
        return bool(received)

    async def shake_hands(self) -> None:
        """Begin TLS, if the connection uses it and has not begun."""
        stream: object = self._stream
        if isinstance(stream, trio.SSLStream):
            try:
                await cast("trio.SSLStream[trio.SocketStream]", stream).do_handshake()
            except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                raise PeerGone from error

    def more_at_once(self) -> bool:
        """Receive what the system has; return whether that is anything. With TLS it has none that is readable."""
        received = received_at_once(self._stream, PIECE)
        self.buffer += received
        return bool(received)

    async def head(self) -> bytes:
        """Return the bytes of the next head, of which some are there already; raise `HttpRefusal` if none can come."""
        seen = 0
        deadline = math.inf
        while (end := self.buffer.find(_END, max(seen - len(_END), 0), self._limits.header_bytes)) < 0:
            self._refuse(seen)
            seen = len(self.buffer)
            if deadline == math.inf:
                deadline = trio.current_time() + self._limits.header_seconds
            came = await self.more(max(deadline - trio.current_time(), 0))
            if came is None:
                raise HttpRefusal(LATE_HEAD, self._limits.header_seconds)
            if not came:
                raise HttpRefusal(CUT_HEAD)
        head = bytes(self.buffer[: end + len(_END)])
        del self.buffer[: len(head)]
        return head

    def _refuse(self, seen: int) -> None:
        """Raise `HttpRefusal` if what is there cannot become a head; the first *seen* bytes are known to be good."""
        buffer, most = self.buffer, self._limits.header_bytes
        end = min(len(buffer), most)
        refuse_control(buffer, max(seen - 1, 0), end - buffer.endswith(b"\r", 0, end))
        if len(buffer) >= most:
            raise HttpRefusal(LONG_HEAD if b"\r\n" in buffer[:most] else ENDLESS_LINE, most)

"""`Inbound`: the receiving side of a connection, with the bytes that were received and not parsed yet."""

from __future__ import annotations

import os
from typing import Final, cast

import trio

from agentrail.api.limits import HostLimits
from agentrail.host.http11.request_head import refuse_control
from agentrail.host.requests.http_messages import PeerGone
from agentrail.host.requests.refusals import BAD_HEAD, ENDLESS_LINE, LATE_HEAD, LONG_HEAD, HttpRefusal

PIECE: Final = 64 * 1024
"""The most bytes that are received, or sent, at once."""

_END: Final = b"\r\n\r\n"


def receive_at_once(stream: trio.abc.Stream, most: int) -> bytes:
    """Return up to *most* bytes that have already arrived; no bytes if none have, or if the stream uses TLS."""
    if not isinstance(stream, trio.SocketStream):
        return b""
    try:
        return os.read(stream.socket.fileno(), most)
    except OSError:  # nothing is there, or the peer has gone
        return b""


class Inbound:
    """The receiving side of a connection."""

    __slots__ = ("_limits", "_stream", "buffer")

    def __init__(self, stream: trio.abc.Stream, limits: HostLimits) -> None:
        self._stream = stream
        self._limits = limits
        self.buffer = bytearray()

    async def more_whenever(self) -> bool:
        """Receive into `buffer` without a time limit; return false if the peer has closed its side."""
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
        """Receive what has already arrived, without waiting; return whether there was any. With TLS, always false."""
        received = receive_at_once(self._stream, PIECE)
        self.buffer += received
        return bool(received)

    async def head(self) -> bytes:
        """Receive the rest of the next head, and take it from `buffer`; raise `HttpRefusal` if it is not valid."""
        end = self._head_end(0)
        if end < 0:
            end = await self._late_head_end()
        head = bytes(self.buffer[: end + len(_END)])
        del self.buffer[: len(head)]
        return head

    async def _late_head_end(self) -> int:
        """Receive until `buffer` has a whole head; return the index of its end."""
        seconds = self._limits.header_seconds
        with trio.move_on_after(seconds):
            while True:
                searched = len(self.buffer)
                if not await self.more_whenever():
                    raise HttpRefusal(BAD_HEAD)
                end = self._head_end(searched)
                if end >= 0:
                    return end
        raise HttpRefusal(LATE_HEAD, seconds)

    def _head_end(self, searched: int) -> int:
        """Return the index of the head's end, -1 if it is incomplete; *searched* bytes were checked before."""
        end = self.buffer.find(_END, max(searched - len(_END), 0), self._limits.header_bytes)
        if end < 0:
            self._refuse(searched)
        return end

    def _refuse(self, searched: int) -> None:
        """Raise `HttpRefusal` if `buffer` cannot become a valid head; *searched* bytes of it were checked before."""
        buffer, most = self.buffer, self._limits.header_bytes
        end = min(len(buffer), most)
        refuse_control(buffer, max(searched - 1, 0), end - buffer.endswith(b"\r", 0, end))
        if len(buffer) >= most:
            raise HttpRefusal(LONG_HEAD if b"\r\n" in buffer[:most] else ENDLESS_LINE, most)

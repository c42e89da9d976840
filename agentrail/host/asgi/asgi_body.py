"""`AsgiBody`: the body of a request of an ASGI server, and the news that its client has gone: both are received."""

from __future__ import annotations

from typing import Final, cast

import trio

from agentrail.api.limits import HostLimits
from agentrail.host.asgi.asgi_scope import AsgiMessage, ReceiveMessage
from agentrail.host.requests.body_time import LINGER, MAX_DROPPED, BodyTime
from agentrail.host.requests.http_messages import Body
from agentrail.host.requests.refusals import CUT_BODY, HttpRefusal

DISCONNECT: Final = "http.disconnect"

PIECE: Final = 64 * 1024
"""The most bytes that are read at once; the events of a server may have more."""


class AsgiBody(Body):
    """Reads a body as `http.request` events. One task at a time may read it, or wait until the client has gone."""

    def __init__(self, receive: ReceiveMessage, length: int | None, limits: HostLimits) -> None:
        self._receive = receive
        self._length = length
        self._limits = limits
        self._time = BodyTime(limits)
        self._unread = bytearray()
        """What has come and was not read."""
        self._has_end = False
        """Whether the last event of the body has come."""
        self._is_gone = False
        """Whether the client has gone."""

    @property
    def length(self) -> int | None:
        """The number of bytes that the client has announced; `None` if it has not."""
        return self._length

    @property
    def limit(self) -> int:
        """The most bytes that `read` takes, if it is given no limit."""
        return self._limits.body_bytes

    @property
    def is_unread(self) -> bool:
        """Whether the client may send more of it."""
        return self._length != 0 and not (self._has_end or self._is_gone)

    async def chunk(self) -> bytes:
        """Return the next bytes, of any number; no bytes at the end."""
        while not self._unread and not self._has_end:
            if self._is_gone:
                raise HttpRefusal(CUT_BODY)
            await self._receive_in_time()
        content = bytes(self._unread[:PIECE])
        del self._unread[:PIECE]
        return content

    async def gone(self) -> None:
        """Return when the client has gone.

        What it sends meanwhile is kept up to the size of a head; beyond that nothing is read, and this never returns.
        """
        while not self._is_gone:
            if len(self._unread) > self._limits.header_bytes:
                await trio.sleep_forever()
            self._take(await self._receive())

    async def drop(self) -> None:
        """Receive the rest of the body for a while, and drop it: a client that sends all of it first waits for that."""
        with trio.move_on_after(LINGER):
            for _ in range(MAX_DROPPED):
                if self._has_end or self._is_gone:
                    return
                self._unread.clear()
                self._take(await self._receive())

    async def _receive_in_time(self) -> None:
        """Wait for the next event; raise `HttpRefusal` if it does not come in time."""
        time, began = self._time, trio.current_time()
        seconds_left = time.left
        with trio.move_on_after(time.of_piece) as scope:
            self._take(await self._receive())
        time.add(trio.current_time() - began, len(self._unread))
        if scope.cancelled_caught:
            raise time.refusal(seconds_left)

    def _take(self, message: AsgiMessage) -> None:
        if message["type"] == DISCONNECT:
            self._is_gone = True
        else:
            self._unread += cast("bytes", message.get("body", b""))
            self._has_end = not message.get("more_body", False)

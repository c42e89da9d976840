"""`EagerListener`: accepts the connections that wait, and not one in each pass of the event loop.

After a deployment all clients come at once. A pass takes longer the more of them are served, so the last ones would
wait for the turns of the first ones.
"""

from __future__ import annotations

import os
import socket
from typing import Final, TypeAlias

import trio

from agentrail.host.http11.certificates import Certificate

AT_ONCE: Final = 16
"""The most connections that are accepted in one pass; fewer begin to be served in it (`BEGUN_AT_ONCE`).

Clients that find the queue of the system full, which takes some 4,000, try again only seconds later.
"""


Stream: TypeAlias = trio.SocketStream | trio.SSLStream[trio.SocketStream]


class EagerListener(trio.abc.Listener[Stream]):
    """Accepts at *listener*, for *tls* or without; up to `AT_ONCE` calls of `accept` return in one pass of the loop.

    If it is *shared* with another process, the connections that wait when it is closed are left to that one.
    """

    def __init__(self, listener: trio.SocketListener, tls: Certificate | None = None, *, shared: bool = False) -> None:
        self._listener = listener
        self._tls = tls
        self._shared = shared
        self.last: list[Stream] = []
        """Connections that waited when it was closed; they would be reset with it."""
        self._plain: socket.socket | None = None
        self._left = 0

    async def accept(self) -> Stream:  # noqa: ASYNC910 - that is its purpose
        """Return the next connection; raise what `trio.SocketListener` raises."""
        if self._left:
            self._left -= 1
            waiting = self._next()
            if waiting is not None:
                return waiting
        stream = await self._listener.accept()
        self._left = AT_ONCE - 1
        return self._readied(stream)

    def _next(self) -> Stream | None:
        """Accept a connection that waits; return `None` if none does, or on an error, which `listener` meets again."""
        if self._plain is None:  # a second socket object, because Trio has no `accept` that does not wait
            self._plain = socket.socket(fileno=os.dup(self._listener.socket.fileno()))
            self._plain.setblocking(False)
        try:
            found, _ = self._plain.accept()
        except OSError:
            return None
        return self._readied(trio.SocketStream(trio.socket.from_stdlib_socket(found)))

    def _readied(self, stream: trio.SocketStream) -> Stream:
        if self._tls is None:
            return stream
        return trio.SSLStream(stream, self._tls.context, server_side=True, https_compatible=True)

    async def aclose(self) -> None:
        """Accept what waits, unless the listener is shared, and close it."""
        while not self._shared and (stream := self._next()) is not None:
            self.last.append(stream)
        if self._plain is not None:
            self._plain.close()
        await self._listener.aclose()

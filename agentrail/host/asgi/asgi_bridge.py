"""`AsgiBridge`: an app on an asyncio server: the host runs on Trio in another thread, and events cross by streams.

An item of a stream is a piece of a body or a frame: those that gather cross at once.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from functools import partial
from types import TracebackType
from typing import Final, Self, cast

from agentrail.api.limits import HostLimits
from agentrail.app.supervisor import Supervisor
from agentrail.bridge.bridge_reader import AsyncBody, HeldOpen
from agentrail.bridge.streams import Exchange
from agentrail.bridge.trio_thread import TrioThread
from agentrail.host.asgi.asgi_messages import AsgiMessage, ReceiveMessage, SendMessage, disconnected
from agentrail.host.asgi.asgi_service import AsgiService

WINDOW: Final = (4, 16)
"""The most events on their way from one client, each of which may be a large piece of a body, and to it."""

AFTER_DRAIN: Final = 10.0
"""Seconds from the end of the last turn to that of the thread: sessions are parked, and plugins stopped."""


class AsgiBridge:
    """Holds the host open in its thread, and passes requests to it."""

    def __init__(
        self, thread: TrioThread[object], holder: AsyncBody[AsgiService] | HeldOpen[AsgiService], seconds: float
    ) -> None:
        self._thread = thread
        self._holder = holder
        self._seconds = seconds
        """Seconds after which a client that takes nothing counts as gone."""
        self._service: AsgiService
        """The host in the thread; there while it is open."""

    @classmethod
    def alone(cls, opening: AbstractAsyncContextManager[AsgiService], limits: HostLimits) -> AsgiBridge:
        """Return the bridge to a host in a thread of its own."""
        thread = TrioThread(opening, limits.drain_seconds + AFTER_DRAIN)
        return cls(cast("TrioThread[object]", thread), AsyncBody(thread), limits.write_seconds)

    @classmethod
    def beside(
        cls, thread: TrioThread[object], opening: AbstractAsyncContextManager[AsgiService], limits: HostLimits
    ) -> AsgiBridge:
        """Return the bridge to a host in the *thread* of a supervisor that is open already."""
        return cls(thread, HeldOpen(thread, opening), limits.write_seconds)

    def __len__(self) -> int:
        """Number of requests under way."""
        return len(self._service)

    @property
    def supervisor(self) -> Supervisor:
        """The supervisor of the sessions, in the thread."""
        return self._service.supervisor

    async def __aenter__(self) -> Self:
        """Open the host."""
        self._service = await self._holder.enter()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the host."""
        await self._holder.leave(error)  # noqa: ASYNC102 - it bounds its own time, and ends before it is cancelled

    def end_soon(self) -> None:
        """Refuse requests, and end streams and WebSockets: the server is about to end."""
        self._service.end_soon()

    async def serve(self, scope: AsgiMessage, receive: ReceiveMessage, send: SendMessage) -> None:
        """Answer one request."""
        exchange = Exchange[AsgiMessage](self._thread, disconnected(scope), WINDOW, self._seconds)
        await exchange.run(partial(self._service.serve, scope), receive, send)

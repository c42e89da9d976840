"""`HttpServer`: listens at one or more addresses, and serves their connections with one handler.

`allow_open_files`: lets the process of a server open as many files as it may have connections.
"""

from __future__ import annotations

import logging
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Final, TypeAlias

import trio

from agentrail.api.limits import DEFAULTS, HostLimits
from agentrail.host.delayed_tasks import DelayedTasks
from agentrail.host.http11.http_connection import HttpConnection
from agentrail.host.http11.listening import EagerListener, Inherited, ListenAddress, Listening, PeerStream, opened
from agentrail.host.http11.response_writer import DateHeader
from agentrail.host.http11.web_socket import CLOSINGS
from agentrail.host.requests.access_log import RequestNote
from agentrail.host.requests.exchange import OnAnswer
from agentrail.host.requests.http_messages import LINGER, Handler
from agentrail.host.requests.places import Places
from agentrail.host.requests.proxies import NO_PROXIES, UNIX, Proxies, limited_network
from agentrail.nurseries import open_shielded_nursery
from agentrail.runtime.shared.admission import Gate
from agentrail.runtime.shared.untrusted_calls import Contained, tell

log = logging.getLogger("agentrail.http")

OTHER_FILES: Final = 512
"""Descriptors for all besides connections: journals, programs in sandboxes, connections to models."""

TOO_FEW: Final = (
    "this process may open %d files, and needs up to %d for its connections: when none is left, nobody is heard; raise "
    "the limit (`LimitNOFILE`, `ulimit -n`), or set `connections` to less"
)


def allow_open_files(connections: int) -> None:
    """Raise the limit of open files of this process to what so many *connections* need; log it if that is refused.

    Most shells and services begin with 1,024. That would be met before `connections` is, so that no connection would
    be closed for another: clients that say nothing could keep all others out, and whoever asks for the health of the
    host.
    """
    if sys.platform == "win32":
        return
    try:
        import resource  # noqa: PLC0415 - not there on every system
    except ImportError:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = connections + OTHER_FILES
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    most = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    except (OSError, ValueError):  # macOS has another limit besides the hard one
        most = soft
    if most < needed:
        log.warning(TOO_FEW, most, needed)


INTERNET: Final = frozenset({socket.AF_INET, socket.AF_INET6})

MAX_TOLD: Final = 256
"""How many connections beyond the limits are heard at once, for the health of the host; others are told why not.

Each takes a descriptor until its client has read that and closes, so these are enough for some thousands a second.
With one more, the oldest that waits is closed, which is a reset for it.
"""

BEGUN_AT_ONCE: Final = 4
"""The most connections whose first request is begun in one pass of the event loop.

When thousands of clients connect again at the same time, all others would wait until each of them was served.
"""

Started: TypeAlias = trio.TaskStatus[Sequence[Listening]]


def nobody_counts(note: RequestNote, status: int, seconds: float) -> None:
    """No-op: the default of `on_answer`, for a server whose requests are not counted."""


def admit_all(connected: trio.socket.SocketType) -> bool:
    """Admit each peer: the default of `admits`."""
    del connected
    return True


class HttpServer:
    """Serves connections until it is drained. Its *handler* is called once for each request."""

    def __init__(
        self,
        handler: Handler,
        now_ms: Callable[[], int],
        limits: HostLimits = DEFAULTS,
        proxies: Proxies = NO_PROXIES,
    ) -> None:
        self.handler = handler
        self.limits = limits
        self.proxies = proxies
        self.places = Places(limits)
        self.date = DateHeader(now_ms)
        self.late = DelayedTasks()
        self.closing = Gate(CLOSINGS)
        self.on_answer: OnAnswer = nobody_counts
        self.admits: Callable[[trio.socket.SocketType], bool] = admit_all
        """Whether the peer of a unix socket is answered; others are closed without a word."""
        self._draining = trio.Event()
        self._drained = trio.Event()
        self._ended = trio.Event()
        self._within = 0.0
        self._resting: dict[HttpConnection, None] = {}
        # connections beyond the limits, the oldest first
        self._turned_away: dict[HttpConnection, None] = {}
        self._turns = trio.CapacityLimiter(BEGUN_AT_ONCE)

    def __repr__(self) -> str:
        return f"<HttpServer with {len(self)} connections, {len(self._resting)} waiting>"

    def __len__(self) -> int:
        """Number of open connections."""
        return self.places.open

    @property
    def draining(self) -> bool:
        """Whether each connection ends with its next answer."""
        return self._draining.is_set()

    @property
    def drained(self) -> bool:
        """Whether a connection takes no more requests."""
        return self._drained.is_set()

    async def serve(
        self,
        addresses: Sequence[ListenAddress],
        *,
        task_status: Started = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Listen at the *addresses*, report the bound ones to `task_status`, and serve until the server is drained."""
        allow_open_files(self.limits.connections + MAX_TOLD)
        try:
            async with AsyncExitStack() as stack:
                listening = [await stack.enter_async_context(opened(address)) for address in addresses]
                watchers = await stack.enter_async_context(open_shielded_nursery())
                watchers.start_soon(self.late.run)
                watchers.start_soon(self.closing.run)
                async with trio.open_nursery() as connections:  # noqa: TID251 - the connections end with the server
                    async with trio.open_nursery() as accepting:  # noqa: TID251 - it ends when the server is drained
                        for address, listening_ in zip(addresses, listening, strict=True):
                            # The next process accepts at an inherited socket too, so this process leaves new
                            # connections to it from `begin_drain` on. At its own sockets, this process accepts until
                            # `drain`.
                            until = self._draining if isinstance(address, Inherited) else self._drained
                            await accepting.start(self._accept, listening_.listeners, connections, until)
                        task_status.started(listening)
                    await self._drained.wait()  # at inherited sockets alone, accepting has ended before
                    connections.cancel_scope.deadline = trio.current_time() + self._within
                    for connection in tuple(self._resting):
                        connection.drain()
        finally:
            self._ended.set()

    async def _accept(
        self,
        listeners: Sequence[EagerListener],
        connections: trio.Nursery,
        until: trio.Event,
        *,
        task_status: trio.TaskStatus[object],
    ) -> None:
        """Accept connections at *listeners*, and serve them in *connections*; close the listeners at *until*."""
        accept = partial(trio.serve_listeners, self._serve, [*listeners], handler_nursery=connections)
        try:
            async with trio.open_nursery() as nursery:  # noqa: TID251 - it ends with the event
                task_status.started(await nursery.start(accept))
                await until.wait()
                nursery.cancel_scope.cancel()
        finally:
            for listener in listeners:
                for stream in listener.last:
                    connections.start_soon(self._serve, stream)

    def begin_drain(self) -> None:
        """Answer one more request of each connection, and accept no more at inherited sockets."""
        self._draining.set()

    async def drain(self, within: float) -> None:
        """Stop accepting, let requests end *within* so many seconds, and return after the last one.

        Connections on which a request has been answered are closed; new ones have `SILENT` seconds to send theirs.
        Streamed answers must end by themselves when the server is drained; what is left then is cancelled.
        """
        self.begin_drain()
        self._within = within
        self._drained.set()
        await self._ended.wait()

    # For the connections

    def rests(self, connection: HttpConnection) -> None:
        """Note that the connection waits for a request."""
        self._resting[connection] = None

    def works(self, connection: HttpConnection) -> None:
        """Note that the connection has a request, or has ended."""
        self._resting.pop(connection, None)

    async def turn(self) -> None:
        """Wait until the connection may begin its first request: only a few may in one pass of the event loop."""
        async with self._turns:
            pass  # acquired and released at once: waiters get their places pass by pass of the event loop

    async def _serve(self, stream: PeerStream) -> None:
        """Serve one connection. Nothing that it raises may reach `trio.serve_listeners`: that would end the server."""
        with Contained(_log_failure):
            peer = _peer_of(stream)
            if peer == UNIX and not self.admits(_socket_of(stream)):
                await trio.aclose_forcefully(stream)
                return
            network = limited_network(peer, self.proxies)
            refusal = self.places.make_room(network)
            connection = HttpConnection(stream, peer, self, refusal)
            if refusal is not None:
                await self._turn_away(stream, connection)
                return
            connection.place.enter(network, connection.end)
            try:
                await self._serve_or_close(stream, connection)
            finally:
                connection.place.leave()

    async def _serve_or_close(self, stream: PeerStream, connection: HttpConnection) -> None:
        try:
            await connection.serve()
        finally:
            # With TLS, closing sends a last message. A peer that does not read would hold that up, so the time is
            # limited.
            with trio.move_on_after(LINGER):
                await stream.aclose()

    async def _turn_away(self, stream: PeerStream, connection: HttpConnection) -> None:
        """Let a connection beyond the limits say what it asks for, and close it; at once if `MAX_TOLD` others answer.

        It has room of its own, in which the newest is always heard: clients that say nothing cannot fill it.
        """
        if len(self._turned_away) >= MAX_TOLD:
            oldest = next((other for other in self._turned_away if not other.place.is_for_health), None)
            if oldest is None:
                await trio.aclose_forcefully(stream)
                return
            del self._turned_away[oldest]
            oldest.place.close()
        self._turned_away[connection] = None
        connection.place.enter(None, connection.end)
        try:
            await self._serve_or_close(stream, connection)
        finally:
            connection.place.leave()
            self._turned_away.pop(connection, None)


def _log_failure(error: BaseException) -> None:
    tell(log, error, "a connection failed", words=False)


def _peer_of(stream: PeerStream) -> str:
    """Return the IP address of the peer, `unix` on a unix socket, and no text if it has gone already."""
    connected = _socket_of(stream)
    if connected.family not in INTERNET:
        return UNIX
    try:
        return str(connected.getpeername()[0])
    except OSError:
        return ""


def _socket_of(stream: PeerStream) -> trio.socket.SocketType:
    return (stream.transport_stream if isinstance(stream, trio.SSLStream) else stream).socket

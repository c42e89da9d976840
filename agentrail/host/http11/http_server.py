"""`HttpServer`: listens at one or more addresses, and serves their connections with one handler.

`HttpConnection`: serves the requests of one connection, one after the other.

`allow_open_files`: lets the process of a server open as many files as it may have connections.
"""

from __future__ import annotations

import logging
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, suppress
from functools import partial
from typing import Final, TypeAlias, TypeGuard

import trio

from agentrail.api.limits import DEFAULTS, HostLimits
from agentrail.api.socket_frames import TOO_MANY_CONNECTIONS, TRY_LATER
from agentrail.host.delayed_tasks import DelayedTasks
from agentrail.host.http11.inbound import PIECE, ConnectionBody, Inbound
from agentrail.host.http11.listening import (
    AT_ONCE,
    EagerListener,
    Inherited,
    ListenAddress,
    Listening,
    PeerStream,
    opened,
)
from agentrail.host.http11.request_head import NO_HEAD, ConnectionHead, handshake_answer, read_head, upgrade_problem
from agentrail.host.http11.response_writer import DateHeader, ResponseWriter, write_head
from agentrail.host.http11.web_socket import CLOSINGS, WebSocket
from agentrail.host.requests.access_log import REQUEST_ID, RequestNote
from agentrail.host.requests.connection_slots import HEALTH, MAX_HEARD, SILENT, ConnectionSlots, ConnectionState
from agentrail.host.requests.exchange import OnAnswer, RequestExchange, sent_headers
from agentrail.host.requests.http_messages import (
    LINGER,
    MAX_DROPPED,
    Handler,
    Headers,
    HttpResponse,
    PeerGone,
    Upgrade,
    problem_answer,
)
from agentrail.host.requests.proxies import NO_PROXIES, UNIX, Proxies, limited_network
from agentrail.host.requests.refusals import HttpRefusal
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


def files_needed(connections: int, listeners: int = 1) -> int:
    """Return how many descriptors a server of so many *connections* has open at most, for clients.

    Besides those that have a slot, these are the connections that are heard without one, and those that each of its
    *listeners* has just accepted.
    """
    return connections + MAX_HEARD + AT_ONCE * listeners


def allow_open_files(needed: int) -> None:
    """Raise the limit of open files of this process to what is *needed*; log it if that is refused.

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
        other_files: int = OTHER_FILES,
    ) -> None:
        self.handler = handler
        self.limits = limits
        self.proxies = proxies
        self.slots = ConnectionSlots(limits)
        self.date = DateHeader(now_ms)
        self.late = DelayedTasks()
        self.closing = Gate(CLOSINGS)
        """Lets the WebSockets go, a few per pass, whose clients are too slow."""
        self.on_answer: OnAnswer = nobody_counts
        self.admits: Callable[[trio.socket.SocketType], bool] = admit_all
        """Whether the peer of a unix socket is answered; others are closed without a word."""
        self._draining = trio.Event()
        self._drained = trio.Event()
        self._ended = trio.Event()
        self._within = 0.0
        self._other_files = other_files
        """Descriptors that the process needs for all besides the connections of this server."""
        self._resting: dict[HttpConnection, None] = {}
        self._turns = trio.CapacityLimiter(BEGUN_AT_ONCE)

    def __repr__(self) -> str:
        return f"<HttpServer with {len(self)} connections, {len(self._resting)} waiting>"

    def __len__(self) -> int:
        """Number of open connections."""
        return self.slots.open

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
        allow_open_files(files_needed(self.limits.connections, len(addresses)) + self._other_files)
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
        for listener in listeners:
            listener.may_accept = self._may_accept
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
            pass  # acquired and released at once: waiters get their turns pass by pass of the event loop

    def _may_accept(self) -> bool:
        """Whether connections may be accepted now; not if those would be closed for them that are about to begin.

        These wait in a line that moves in each pass of the event loop, however long requests take, so it is over soon.
        """
        return not self.slots.is_crowded or self._turns.statistics().tasks_waiting < MAX_HEARD // 2

    async def _serve(self, stream: PeerStream) -> None:
        """Serve one connection. Nothing that it raises may reach `trio.serve_listeners`: that would end the server."""
        with Contained(_log_failure):
            peer = _peer_of(stream)
            if peer == UNIX and not self.admits(_socket_of(stream)):
                await trio.aclose_forcefully(stream)
                return
            connection = HttpConnection(stream, peer, self)
            network = limited_network(peer, self.proxies)
            if not connection.slot.enter(network, connection):
                await trio.lowlevel.checkpoint()  # those that are about to read have done so then
                if not connection.slot.enter(network, connection):
                    await trio.aclose_forcefully(stream)
                    return
            try:
                await self._serve_or_close(stream, connection)
            finally:
                connection.slot.leave()

    async def _serve_or_close(self, stream: PeerStream, connection: HttpConnection) -> None:
        try:
            await connection.serve()
        finally:
            # With TLS, closing sends a last message. A peer that does not read would hold that up, so the time is
            # limited.
            with trio.move_on_after(LINGER):
                await stream.aclose()


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


def _has_socket(stream: trio.abc.Stream) -> TypeGuard[PeerStream]:
    """Whether *stream* is that of a socket, with TLS or without; false for one in memory."""
    return isinstance(stream, trio.SocketStream | trio.SSLStream)


CHUNKED: Final[Headers] = (("transfer-encoding", "chunked"),)


class HttpConnection(RequestExchange):
    """One connection, from its first byte to its end."""

    __slots__ = ("_body", "_head", "_inbound", "_is_new", "_outbound", "_rest", "_service", "_stream", "_websocket")

    def __init__(self, stream: trio.abc.Stream, peer: str, service: HttpServer) -> None:
        self._outbound = ResponseWriter(stream, service.limits)
        super().__init__(service, service.handler, peer, self._outbound)
        self._stream = stream
        self._service = service
        self._inbound = Inbound(stream, service.limits)
        self._rest: trio.CancelScope | None = None
        """Scope of the wait for a request; `None` while there is one."""
        self._is_new = True
        """Whether no request has come yet."""
        self._head = NO_HEAD
        """The head of the current request; `NO_HEAD` as long as it is not known."""
        self._body: ConnectionBody | None = None
        """The body of the current request; `None` as long as its head is not known."""
        self._websocket: WebSocket | None = None
        """The WebSocket that the connection carries; `None` if it carries none."""

    def __repr__(self) -> str:
        return f"<HttpConnection from {self.peer}, {'waiting' if self._rest else 'working'}>"

    def end_rest(self) -> None:
        """Close the connection if it waits for a request; otherwise no-op: its request is served first."""
        if self._rest is not None:
            self._rest.cancel()

    def has_unread(self) -> bool:
        """Whether something has come on the connection that is not read yet."""
        if self._inbound.is_fresh or not _has_socket(self._stream):
            return self._inbound.is_fresh
        connected = _socket_of(self._stream)
        return connected.fileno() >= 0 and connected.is_readable()

    def end(self, refusal: HttpRefusal) -> None:
        """Close the connection at once, so that it takes no descriptor any more; its tasks end by themselves.

        Its peer is told *refusal*, as far as the system takes it without waiting.
        """
        if self._websocket is not None:
            self._websocket.say_goodbye_now(TRY_LATER, TOO_MANY_CONNECTIONS)
        elif self._rest is None and not self._outbound.status:
            self._begin(problem_answer(refusal.problem), is_unread=True)
            self._outbound.end_at_once(refusal.problem.content)
        if _has_socket(self._stream):
            _socket_of(self._stream).close()
        if self._rest is not None:
            self._rest.cancel()
        else:
            super().end(refusal)

    def drain(self) -> None:
        """Close the connection if it is idle; a new one has `SILENT` seconds more for its first request."""
        if not self._is_new:
            self.end_rest()
        elif self._rest is not None:
            self._rest.deadline = min(self._rest.deadline, trio.current_time() + SILENT)

    async def serve(self) -> None:
        """Serve requests until the peer or the server is done."""
        try:
            while await self._wait_for_request() and await self._serve_one(RequestNote()):
                pass
            refusal = self.slot.refusal
            if refusal is not None and not (self._outbound.status or self.slot.closed_by is not None):
                await self._refuse(refusal)
        except PeerGone:
            return

    # One request

    async def _wait_for_request(self) -> bool:
        """Wait for the first byte of a request; return false if none comes."""
        if self._inbound.buffer:
            return True
        came: bool | None = None
        with trio.move_on_after(self._patience()) as rest:
            self._rest = rest
            self._service.rests(self)
            self.slot.state = (
                ConnectionState.IDLE
                if not self._is_new
                else ConnectionState.UNDER_WAY
                if self._has_tls
                else ConnectionState.SILENT
            )
            try:
                if self._is_new:
                    await self._inbound.shake_hands()
                came = await self._inbound.more_whenever()
            finally:
                self._rest = None
                self._service.works(self)
        if came is None:  # cancelled: a request that arrived just before is answered all the same
            came = self._inbound.more_at_once() or bool(self._inbound.buffer)
        self.slot.state = ConnectionState.ASKING if self._inbound.has_head else ConnectionState.UNDER_WAY
        # One without a slot waits when its head is known: it may ask for the health.
        if self._is_new and came and self.slot.refusal is None:
            await self._service.turn()
        self._is_new = False
        return came

    @property
    def _has_tls(self) -> bool:
        return isinstance(self._stream, trio.SSLStream)

    def _patience(self) -> float:
        """Return for how many seconds to wait for a request."""
        limits = self._service.limits
        if self._service.drained or (self.slot.refusal is not None and not (self._is_new and self._has_tls)):
            return SILENT if self._is_new else 0
        return limits.header_seconds if self._is_new else limits.idle_seconds

    async def _read(self) -> tuple[ConnectionHead, ConnectionBody]:
        self._head, self._body = NO_HEAD, None
        head = self._head = read_head(await self._inbound.head())
        self._note.line = head.method, head.target
        self._know(head.headers)
        if self.slot.refusal is not None and head.path not in HEALTH:
            self.slot.state = ConnectionState.ASKING
            await self._service.turn()
        body = self._body = ConnectionBody(head, self._inbound, self._service.limits, self._outbound.say_continue)
        return head, body

    def _begin(self, response: HttpResponse, *, is_unread: bool) -> bool:
        head, can_chunk = self._head, self._head.can_chunk and not isinstance(response.content, bytes)
        is_last = is_unread or head.is_last or self.slot.refusal is not None
        ends = is_last or self._service.draining or self.slot.closed_by is not None
        server_headers: Headers = ("date", self._service.date.text()), (REQUEST_ID, self._note.id)
        headers = sent_headers(response, server_headers + CHUNKED if can_chunk else server_headers, closes=ends)
        # the answer to HEAD has no chunks, not even the last one
        is_chunked = can_chunk and head.method != "HEAD"
        self._outbound.begin(response.status, write_head(response.status, headers), is_chunked=is_chunked)
        return not ends

    async def _end(self, last: bytes, *, is_unread: bool) -> None:
        await self._outbound.end(last)
        if self._body is not None:
            self._body.detach()
        if is_unread:
            await self._linger()

    def _upgrade_problem(self) -> str:
        return upgrade_problem(self._head)

    def _socket(self, upgrade: Upgrade, headers: Headers) -> WebSocket:
        service, received = self._service, bytes(self._inbound.buffer)
        answer = handshake_answer(self._head, upgrade.subprotocol, headers)
        self._websocket = WebSocket(self._stream, received, answer, service.limits, service.closing)
        return self._websocket

    async def _converse(self, response: HttpResponse, upgrade: Upgrade) -> None:
        await super()._converse(response, upgrade)
        self._websocket = None
        await self._linger()

    async def _linger(self) -> None:
        """Read and drop bytes for a while: closing with unread bytes resets TCP, and the peer would lose the answer."""
        self.slot.free()
        self.slot.state = ConnectionState.IDLE
        with (
            trio.move_on_after(LINGER) as self._scope,
            suppress(trio.BrokenResourceError, trio.ClosedResourceError),
        ):
            if isinstance(self._stream, trio.SocketStream):
                await self._stream.send_eof()
            for _ in range(MAX_DROPPED):
                if not await self._stream.receive_some(PIECE):
                    return

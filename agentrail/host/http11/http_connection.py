"""`HttpConnection`: serves the requests of one connection, one after the other."""

from __future__ import annotations

from contextlib import suppress
from typing import Final, Protocol

import trio

from agentrail.host.http11.inbound import PIECE, ConnectionBody, Inbound
from agentrail.host.http11.request_head import NO_HEAD, ConnectionHead, handshake_answer, read_head, upgrade_problem
from agentrail.host.http11.response_writer import DateHeader, Outbound, write_head
from agentrail.host.http11.web_socket import WebSocket
from agentrail.host.requests.access_log import REQUEST_ID, RequestNote
from agentrail.host.requests.exchange import ExchangeServer, RequestExchange, sent_headers
from agentrail.host.requests.http_messages import LINGER, MAX_DROPPED, Handler, Headers, HttpResponse, PeerGone, Upgrade
from agentrail.host.requests.places import SILENT
from agentrail.host.requests.refusals import HttpRefusal
from agentrail.runtime.shared.admission import Gate

CHUNKED: Final[Headers] = (("transfer-encoding", "chunked"),)


class Service(ExchangeServer, Protocol):
    """What the connections of a server share."""

    handler: Handler
    date: DateHeader
    closing: Gate
    """Lets the WebSockets go, a few per pass, whose clients are too slow."""

    @property
    def draining(self) -> bool:
        """Whether each connection ends with its next answer."""
        ...

    @property
    def drained(self) -> bool:
        """Whether a connection takes no more requests."""
        ...

    def rests(self, connection: HttpConnection) -> None:
        """Note that the connection waits for a request."""
        ...

    def works(self, connection: HttpConnection) -> None:
        """Note that the connection has a request, or has ended."""
        ...

    async def turn(self) -> None:
        """Wait until the connection may begin its first request: only a few may in one pass of the event loop."""
        ...


class HttpConnection(RequestExchange):
    """One connection, from its first byte to its end."""

    __slots__ = ("_body", "_head", "_inbound", "_is_new", "_outbound", "_rest", "_service", "_stream")

    def __init__(
        self, stream: trio.abc.Stream, peer: str, service: Service, refusal: HttpRefusal | None = None
    ) -> None:
        self._outbound = Outbound(stream, service.limits)
        super().__init__(service, service.handler, peer, self._outbound, refusal)
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

    def __repr__(self) -> str:
        return f"<HttpConnection from {self.peer}, {'waiting' if self._rest else 'working'}>"

    def end_rest(self) -> None:
        """Close the connection if it waits for a request; otherwise no-op: its request is served first."""
        if self._rest is not None:
            self._rest.cancel()

    def end(self) -> None:
        """End the connection for another one; a request that has come just now is refused, not lost."""
        if self._rest is not None:
            self._rest.cancel()
        else:
            super().end()

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
            if self._refusal is not None and not (self._outbound.status or self.place.is_closed):
                await self._refuse(self._refusal)
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
            self.place.is_idle = not self._is_new
            try:
                if self._is_new:
                    await self._inbound.shake_hands()
                came = await self._inbound.more_whenever()
            finally:
                self._rest = None
                self.place.is_idle = False
                self._service.works(self)
        if came is None:  # cancelled: a request that arrived just before is answered all the same
            came = self._inbound.more_at_once()
        # A connection beyond the limits does not wait: it could not be closed meanwhile for who asks for the health.
        if self._is_new and came and self._refusal is None:
            await self._service.turn()
        self._is_new = False
        return came

    def _patience(self) -> float:
        """Return for how many seconds to wait for a request."""
        limits = self._service.limits
        if self._service.drained or self._refusal is not None:
            return SILENT if self._is_new else 0
        return limits.header_seconds if self._is_new else limits.idle_seconds

    async def _read(self) -> tuple[ConnectionHead, ConnectionBody]:
        self._head, self._body = NO_HEAD, None
        head = self._head = read_head(await self._inbound.head())
        self._note.line = head.method, head.target
        self._know(head.headers)
        body = self._body = ConnectionBody(head, self._inbound, self._service.limits, self._outbound.say_continue)
        return head, body

    def _begin(self, response: HttpResponse, *, is_unread: bool) -> bool:
        head, can_chunk = self._head, self._head.can_chunk and not isinstance(response.content, bytes)
        is_last = is_unread or head.is_last or self._refusal is not None
        ends = is_last or self._service.draining or self.place.is_closed
        own: Headers = ("date", self._service.date.text()), (REQUEST_ID, self._note.id)
        headers = sent_headers(response, own + CHUNKED if can_chunk else own, closes=ends)
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
        return WebSocket(self._stream, received, answer, service.limits, service.closing)

    async def _converse(self, response: HttpResponse, upgrade: Upgrade) -> None:
        await super()._converse(response, upgrade)
        await self._linger()

    async def _linger(self) -> None:
        """Read and drop bytes for a while: closing with unread bytes resets TCP, and the peer would lose the answer."""
        self.place.free()
        self.place.is_idle = True
        with (
            trio.move_on_after(LINGER) as self._scope,
            suppress(trio.BrokenResourceError, trio.ClosedResourceError),
        ):
            if isinstance(self._stream, trio.SocketStream):
                await self._stream.send_eof()
            for _ in range(MAX_DROPPED):
                if not await self._stream.receive_some(PIECE):
                    return

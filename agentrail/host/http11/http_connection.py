"""`HttpConnection`: serves the requests of one connection, one after the other."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Protocol

import trio

from agentrail.api.limits import HostLimits
from agentrail.host.delayed_tasks import DelayedTasks
from agentrail.host.http11.handshake import handshake_answer, upgrade_problem
from agentrail.host.http11.receive_buffer import PIECE, Inbound
from agentrail.host.http11.request_body import ConnectionBody
from agentrail.host.http11.request_head import RequestHead, read_head
from agentrail.host.http11.response_head import ResponseHead, write_head
from agentrail.host.http11.response_writer import DateHeader, Outbound
from agentrail.host.http11.web_socket import WebSocket
from agentrail.host.requests.access_log import REQUEST_ID, RequestNote, tell_request
from agentrail.host.requests.answering import StreamedAnswer, StreamFailed, call_handler, internal_error
from agentrail.host.requests.body_time import LINGER, MAX_DROPPED
from agentrail.host.requests.http_messages import (
    Handler,
    Headers,
    HttpRequest,
    HttpResponse,
    PeerGone,
    Streaming,
    Upgrade,
    problem_answer,
)
from agentrail.host.requests.places import HEALTH, SILENT, ConnectionPlace, Places
from agentrail.host.requests.proxies import Proxies
from agentrail.host.requests.refusals import CLOSED_FOR_ANOTHER, HttpRefusal
from agentrail.runtime.shared.admission import Gate
from agentrail.runtime.shared.untrusted_calls import Contained

log = logging.getLogger("agentrail.http")


class Service(Protocol):
    """What the connections of a server share."""

    handler: Handler
    limits: HostLimits
    proxies: Proxies
    places: Places
    date: DateHeader
    late: DelayedTasks
    """Runs what watches the peers of streamed answers."""
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

    def answered(self, note: RequestNote, status: int, seconds: float) -> None:
        """Record that the answer begins *seconds* after its request; status 0: the client went away before."""
        ...

    async def turn(self) -> None:
        """Wait until the connection may begin its first request: only a few may in one pass of the event loop."""
        ...


class HttpConnection:
    """One connection, from its first byte to its end.

    With a *refusal*, it is one too many: only a request for the health of the host is answered, any other is refused.
    """

    __slots__ = (
        "_began",
        "_client",
        "_counted",
        "_first",
        "_inbound",
        "_note",
        "_outbound",
        "_refusal",
        "_rest",
        "_scope",
        "_service",
        "_stream",
        "peer",
        "place",
    )

    def __init__(
        self, stream: trio.abc.Stream, peer: str, service: Service, refusal: HttpRefusal | None = None
    ) -> None:
        self._stream = stream
        self._service = service
        self._refusal = refusal
        self.peer = self._client = peer
        self.place = ConnectionPlace(service.places if refusal is None else None)
        self._inbound = Inbound(stream, service.limits)
        self._outbound = Outbound(stream, service.limits)
        self._rest: trio.CancelScope | None = None
        self._scope: trio.CancelScope | None = None  # of the request under way, or of what follows its answer
        self._first = True
        self._note = RequestNote()
        self._counted = False
        self._began = trio.current_time()

    def __repr__(self) -> str:
        return f"<HttpConnection from {self.peer}, {'waiting' if self._rest else 'working'}>"

    def end_rest(self) -> None:
        """Close the connection if it waits for a request; otherwise no-op: its request is served first."""
        if self._rest is not None:
            self._rest.cancel()

    def end(self) -> None:
        """End the connection for another one; a request that has come just now is refused, not lost."""
        scope = self._rest or self._scope
        if scope is not None:
            scope.cancel()

    def drain(self) -> None:
        """Close the connection if it is idle; a new one has `SILENT` seconds more for its first request."""
        if not self._first:
            self.end_rest()
        elif self._rest is not None:
            self._rest.deadline = min(self._rest.deadline, trio.current_time() + SILENT)

    async def serve(self) -> None:
        """Serve requests until the peer or the server is done."""
        try:
            while await self._wait_for_request() and await self._serve_one():
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
            self.place.is_idle = not self._first
            try:
                if self._first:
                    await self._inbound.shake_hands()
                came = await self._inbound.more_whenever()
            finally:
                self._rest = None
                self.place.is_idle = False
                self._service.works(self)
        if came is None:  # cancelled: a request that arrived just before is answered all the same
            came = self._inbound.more_at_once()
        # A connection beyond the limits does not wait: it could not be closed meanwhile for who asks for the health.
        if self._first and came and self._refusal is None:
            await self._service.turn()
        self._first = False
        return came

    def _patience(self) -> float:
        """Return for how many seconds to wait for a request."""
        limits = self._service.limits
        if self._service.drained or self._refusal is not None:
            return SILENT if self._first else 0
        return limits.header_seconds if self._first else limits.idle_seconds

    async def _serve_one(self) -> bool:
        """Serve a request; return whether another may follow."""
        self._began = trio.current_time()
        self._client, self._note = self.peer, RequestNote()
        self._outbound.status = self._outbound.sent = 0
        self._counted = False
        try:
            with trio.CancelScope() as self._scope:
                return await self._answer_request()
            if self._outbound.status:
                return False
            raise HttpRefusal(CLOSED_FOR_ANOTHER)
        except HttpRefusal as refusal:
            self._count(refusal.problem.status)
            await self._refuse(refusal)
            return False
        finally:
            self.place.free()
            seconds = trio.current_time() - self._began
            outbound = self._outbound
            self._count(0)
            tell_request(self._client, outbound.status, outbound.sent, seconds, self._note)

    async def _refuse(self, refusal: HttpRefusal) -> None:
        """Answer with *refusal*, after which the connection ends."""
        head = write_head(problem_answer(refusal.problem), self._own_headers(), can_chunk=False, close=True)
        await self._outbound.answer(head, refusal.problem.content)
        await self._linger()

    def _count(self, status: int) -> None:
        """Report the *status* of the request's answer to the server. No-op if it was reported already."""
        if not self._counted:
            self._counted = True
            self._service.answered(self._note, status, trio.current_time() - self._began)

    async def _answer_request(self) -> bool:
        if self.place.is_closed:
            raise HttpRefusal(CLOSED_FOR_ANOTHER)
        head, body = await self._read()
        if self._refusal is not None and head.path not in HEALTH:
            raise self._refusal
        request = HttpRequest(
            "GET" if head.method == "HEAD" else head.method,
            head.path,
            head.query,
            head.headers,
            self._client,
            body,
            self._peer_gone,
            upgrade_problem(head),
            self._note,
            self.place,
        )
        self.place.is_for_health = head.path in HEALTH
        response = await call_handler(self._service.handler, request)
        self.place.is_for_health = False
        try:
            return await self._send_response(response, head, body)
        finally:
            response.abandon()

    async def _send_response(self, response: HttpResponse, head: RequestHead, body: ConnectionBody) -> bool:
        """Send the answer to the request with *head*; return whether another request may follow."""
        if isinstance(response.content, Upgrade):
            self._count(response.status)
            await self._hand_over(head, response, response.content)
            return False
        unread = not (body.ended or body.take_what_is_there())
        is_last = head.is_last or self._refusal is not None
        ends = unread or is_last or self._service.draining or self.place.is_closed
        first = write_head(response, self._own_headers(), can_chunk=head.can_chunk, close=ends)
        self._count(response.status)
        await self._send(response, first, bare=head.method == "HEAD", watching=not unread)
        body.detach()
        if unread:
            await self._linger()
        return not (ends or self.place.is_closed)

    async def _send(self, response: HttpResponse, first: ResponseHead, *, bare: bool, watching: bool) -> None:
        content = response.content
        if bare or isinstance(content, Upgrade):
            await self._outbound.answer(first, b"")
        elif isinstance(content, bytes):
            await self._outbound.answer(first, content)
        else:
            self._outbound.begin(first)
            last = await self._stream_by(content, watching=watching)
            await self._outbound.end(last or b"")

    async def _read(self) -> tuple[RequestHead, ConnectionBody]:
        raw = await self._inbound.head()
        head = read_head(raw)
        self._note.line = head.method, head.target
        proxies = self._service.proxies
        self._client = proxies.client(self.peer, head.headers)
        self._note.id = proxies.request_id(self.peer, head.headers) or self._note.id
        limits, say_continue = self._service.limits, self._outbound.say_continue
        return head, ConnectionBody(head, self._inbound, limits, say_continue)

    async def _hand_over(self, head: RequestHead, response: HttpResponse, upgrade: Upgrade) -> None:
        """Open the WebSocket that *head* asks for; return when the conversation on it has ended."""
        self._outbound.status = response.status
        headers = (*response.headers, (REQUEST_ID, self._note.id))
        answer, service = handshake_answer(head, upgrade.subprotocol, headers), self._service
        received = bytes(self._inbound.buffer)
        socket = WebSocket(self._stream, received, answer, service.limits, service.closing)
        failed: list[BaseException] = []
        with Contained(failed.append):
            await upgrade.converse(socket)
        self._outbound.sent = socket.sent
        if failed:
            internal_error(failed[0], self._note)
        await self._linger()

    def _own_headers(self) -> Headers:
        return ("date", self._service.date.text()), (REQUEST_ID, self._note.id)

    async def _stream_by(self, streaming: Streaming, *, watching: bool) -> bytes | None:
        """Run *streaming*, which sends the pieces of an answer; return the last piece. See `StreamedAnswer`."""
        gone = self._peer_gone if watching else trio.sleep_forever
        answer = StreamedAnswer(self._outbound.piece, gone, self._service.late, self._note)
        try:
            return await answer.run(streaming)
        except StreamFailed as error:
            failure = error
        await self._outbound.break_off()  # so that the client can see that the answer is cut
        raise failure

    async def _peer_gone(self) -> None:
        """Return when the peer has closed the connection.

        What the peer sends meanwhile is buffered up to the size of a head; beyond that nothing is read, and this never
        returns.
        """
        with suppress(PeerGone):
            while await self._inbound.more_whenever():
                if len(self._inbound.buffer) > self._service.limits.header_bytes:
                    await trio.sleep_forever()

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

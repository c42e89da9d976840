"""`AsgiSocket`: a WebSocket that an ASGI server carries. The server answers pings, and sends its own.

Reads the scope of a request from an ASGI server, and checks it as a request to our own server is checked.

`AsgiBody`: the body of a request of an ASGI server, and the news that its client has gone: both are received.

`AsgiAnswer`: sends the answer to one request by the `send` of an ASGI server.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, MutableMapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final, TypeAlias, cast

import trio

from agentrail.api.limits import LEAST_RATE, HostLimits
from agentrail.api.operation_table import DOCUMENT, FILE, SESSION, STORE
from agentrail.host.requests.exchange import AnswerWriter
from agentrail.host.requests.http_messages import (
    LINGER,
    MAX_DROPPED,
    Headers,
    MessageSocket,
    PeerGone,
    ReceivedBody,
    SocketClosed,
)
from agentrail.host.requests.proxies import UNIX
from agentrail.host.requests.refusals import LONG_HEAD, HttpRefusal
from agentrail.host.requests.request_checks import RequestHead, check_headers, check_method, check_path, split_target

AsgiMessage: TypeAlias = MutableMapping[str, object]
"""A scope, or an event: names and values as the specification of ASGI has them."""

ReceiveMessage: TypeAlias = Callable[[], Awaitable[AsgiMessage]]
SendMessage: TypeAlias = Callable[[AsgiMessage], Awaitable[None]]

BODILESS: Final = frozenset({"GET", "HEAD"})
"""Methods whose requests have no body here, unless they announce its length."""

SUBPROTOCOLS: Final = "sec-websocket-protocol"
"""The header that tells which protocols a WebSocket may speak."""

AROUND_HEADER: Final = 4
"""Bytes of a header beside its name and value: a colon, a space, CR and LF."""


def disconnected(scope: AsgiMessage) -> AsgiMessage:
    """Return the event by which a server says that the client has gone."""
    return {"type": f"{scope['type']}.disconnect"}


def peer_of(scope: AsgiMessage) -> str:
    """Return the address of the peer; `unix` if the server knows none, as on a unix socket."""
    client = cast("tuple[str, int] | None", scope.get("client"))
    return client[0] if client else UNIX


def line_of(scope: AsgiMessage) -> tuple[str, str]:
    """Return the method and the target of the request, as they were sent."""
    query = _text(scope.get("query_string"))
    path = _text(scope.get("raw_path")) or str(scope["path"])
    return str(scope.get("method", "GET")), f"{path}?{query}" if query else path


def headers_of(scope: AsgiMessage) -> Headers:
    """Return the headers of the request, with their names in lower case.

    Some servers tell the protocols that a WebSocket may speak only beside the headers.
    """
    pairs = cast("Iterable[tuple[bytes, bytes]]", scope["headers"])
    headers = tuple([(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in pairs])
    protocols = cast("Iterable[str]", scope.get("subprotocols") or ())
    if protocols and SUBPROTOCOLS not in dict(headers):
        return (*headers, (SUBPROTOCOLS, ", ".join(protocols)))
    return headers


def head_of(scope: AsgiMessage, headers: Headers, limits: HostLimits, route: str | None) -> RequestHead:
    """Return the head of the request with *headers*; raise `HttpRefusal` if it is not valid.

    Its path is below the one at which the app is mounted. With *route*, the path of a route, the app serves that one
    alone, wherever it is mounted.
    """
    method, target = line_of(scope)
    check_method(method)
    once = check_headers(headers)
    byte_count = len(target) + sum([len(name) + len(value) + AROUND_HEADER for name, value in headers])
    if byte_count > limits.header_bytes:
        raise HttpRefusal(LONG_HEAD, limits.header_bytes)
    # The path as it was sent shows more than the decoded one: `%2F` is a slash there.
    _, query = split_target(target) if scope.get("raw_path") else ("", _text(scope.get("query_string")))
    path = _path_below(scope)
    check_path(path)
    if route is not None:
        parameters = cast("Mapping[str, object]", scope.get("path_params") or {})
        path = route
        for parameter in (SESSION, FILE, STORE, DOCUMENT):
            path = path.replace(parameter, str(parameters.get(parameter[1:-1], "")))
    length = once.get("content-length", "")
    if length.isdecimal():
        return RequestHead(method, path, query, headers, int(length))
    return RequestHead(method, path, query, headers, 0 if method in BODILESS else None)


def _path_below(scope: AsgiMessage) -> str:
    """Return the path below the one at which the app is mounted, which some servers leave out of `path`."""
    path, root = str(scope["path"]), str(scope.get("root_path") or "")
    below = path.removeprefix(root)
    return below or "/" if not below or below.startswith("/") else path


def _text(raw: object) -> str:
    return raw.decode("latin-1") if isinstance(raw, bytes) else ""


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


SEND_SIZE: Final = 64 * 1024
"""The most bytes of one event: a server may hold an event back until the client takes it."""

HTTP: Final = "http.response"
DENIAL: Final = "websocket.http.response"
"""Begins the types of the events with the answer to a request for a WebSocket that is not opened."""


class AsgiAnswer(AnswerWriter):
    """The sending side of one request."""

    __slots__ = ("_kind", "_limits", "_send_message", "_start")

    def __init__(self, send: SendMessage, limits: HostLimits, kind: str) -> None:
        super().__init__()
        self._send_message = send
        self._limits = limits
        self._kind = kind
        """Begins the types of its events: `HTTP` or `DENIAL`."""
        self._start: AsgiMessage | None = None
        """The event with the head, until the first piece is sent."""

    def begin(self, status: int, headers: Headers) -> None:
        """Begin the answer, whose head is sent with its first piece or its end."""
        self.status = status
        raw = [(name.lower().encode(), value.encode()) for name, value in headers]
        self._start = {"type": f"{self._kind}.start", "status": status, "headers": raw}

    async def piece(self, data: bytes) -> None:
        """Send a piece of the content, after which more will come."""
        await self._send(data, more_body=True)

    async def rest(self, content: bytes, *, is_end: bool) -> None:
        """Send the rest of the content, which the client has to take in time; it ends the answer if *is_end*."""
        seconds = self._limits.answer_seconds + len(content) / LEAST_RATE
        with trio.move_on_after(seconds) as scope:
            for start in range(0, max(len(content), 1), SEND_SIZE):
                more_body = not is_end or start + SEND_SIZE < len(content)
                await self._send(content[start : start + SEND_SIZE], more_body=more_body)
        if scope.cancelled_caught:
            raise PeerGone

    async def break_off(self) -> None:
        """If the head of a failed streamed answer is still unsent, send it, so that the client sees a cut answer."""
        if self._start is not None:
            await self.piece(b"")

    async def _send(self, data: bytes, *, more_body: bool) -> None:
        self.sent += len(data)
        start, self._start = self._start, None
        body: AsgiMessage = {"type": f"{self._kind}.body", "body": data, "more_body": more_body}
        for message in (body,) if start is None else (start, body):
            with trio.move_on_after(self._limits.write_seconds) as scope:
                try:
                    await self._send_message(message)
                except OSError as error:  # by the specification, a server may say so that the client has gone
                    raise PeerGone from error
            if scope.cancelled_caught:
                raise PeerGone


TOO_BIG: Final = 1009
TOO_LONG: Final = "the message is too long"


class AsgiSocket(MessageSocket):
    """Messages of an open WebSocket, as events of ASGI."""

    def __init__(self, receive: ReceiveMessage, send: SendMessage, accept: AsgiMessage, limits: HostLimits) -> None:
        self._receive = receive
        self._send = send
        self._accept = accept
        """The event that opens the WebSocket."""
        self._limits = limits
        self._most = limits.body_bytes + limits.header_bytes
        """The most bytes of a message from the client."""
        self._sent = 0
        self._is_closed = False

    @property
    def sent(self) -> int:
        """How many bytes of messages were sent."""
        return self._sent

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[None, None]:
        """Answer the handshake. The server reads; a message is taken from it when one is wanted."""
        with suppress(SocketClosed):  # the next `receive` says so
            await self._put(self._accept)
        yield

    async def receive(self) -> str | bytes:
        """Return the next message; raise `SocketClosed` if none comes any more."""
        if self._is_closed:
            raise SocketClosed
        event = await self._receive()
        text, data = event.get("text"), event.get("bytes")
        if event["type"] == "websocket.receive" and isinstance(message := data if text is None else text, str | bytes):
            if len(message) <= self._most and len(_bytes(message)) <= self._most:
                return message
            await self._put({"type": "websocket.close", "code": TOO_BIG, "reason": TOO_LONG})
        self._is_closed = True
        raise SocketClosed

    def send_now(self, messages: Sequence[bytes]) -> bool:  # noqa: ARG002 - none of them
        """Send nothing, and return false: an ASGI server takes an event only from a task that may wait."""
        return False

    async def send(self, messages: Sequence[bytes]) -> None:
        """Send texts; raise `SocketClosed` if that is not possible any more."""
        for message in messages:
            await self._put({"type": "websocket.send", "text": message.decode()})
            self._sent += len(message)

    async def ping(self) -> None:
        """Return at once: the server sends pings, and ends a WebSocket whose client answers none."""
        await trio.lowlevel.checkpoint()
        if self._is_closed:
            raise SocketClosed

    async def close(self, code: int, reason: str) -> None:
        """Close the WebSocket; no-op if it is closed. The server waits for the client's part of it."""
        with suppress(SocketClosed):
            await self._put({"type": "websocket.close", "code": code, "reason": reason})
        self._is_closed = True

    async def _put(self, event: AsgiMessage) -> None:
        """Send an event; raise `SocketClosed` if the WebSocket is closed, or its client takes nothing for too long."""
        if self._is_closed:
            raise SocketClosed
        with trio.move_on_after(self._limits.write_seconds) as scope:
            try:
                await self._send(event)
            except OSError as error:  # by the specification, a server may say so that the client has gone
                self._is_closed = True
                raise SocketClosed from error
        if scope.cancelled_caught:
            self._is_closed = True
            raise SocketClosed


def _bytes(message: str | bytes) -> bytes:
    return message.encode(errors="surrogatepass") if isinstance(message, str) else message

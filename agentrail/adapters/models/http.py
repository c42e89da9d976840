"""The HTTP client of all models; the only module here that imports httpx.

One client per supervisor, with a pool of connections. Our own limiter stands before the pool and the pool itself has
no limit: httpcore 1.0 loses the slots of requests that are cancelled while they queue in it (encode/httpcore#1093).
A request that is cancelled or fails closes its connection; only one whose body was read to its end is used again, so
no answer can reach the wrong request. Redirects are not followed, and no cookie is kept; the proxies and certificates
that the environment names are used.
"""

from __future__ import annotations

import json
import logging
import math
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Final, Protocol, runtime_checkable

import httpx  # noqa: ASYNC127 - the client that pyproject.toml names
import trio

from agentrail.adapters.models.decompression import PLAIN, Unpacker
from agentrail.adapters.models.no_proxy import is_final, is_kept_from_proxies, why_unusable
from agentrail.errors import (
    CertificateRefused,
    ConnectionFailed,
    EncodingRefused,
    ModelError,
    NoFirstByte,
    NoNextByte,
    PermanentModelError,
    ProxyRefused,
    ServerMissing,
    StreamEndedEarly,
    StreamGarbled,
    WrongEndpoint,
)
from agentrail.values.foreign import leaves
from agentrail.values.json import JsonObject
from agentrail.values.value import Value, value

CONNECTIONS: Final = 100
"""Requests of one supervisor that may be out at once."""

KEPT: Final = 20
"""Connections that are kept open for the next request."""

LIMITS: Final = httpx.Limits(max_connections=None, max_keepalive_connections=KEPT)

MAX_BODY: Final = 64 * 1024
"""Bytes that are read of an answer that is no stream."""

LINGER: Final = 0.25
"""Seconds that a stream may take to end after its last event; after them its connection is not used again."""

CLOSING: Final = 1.0
"""Seconds that closing a connection may take."""

OK: Final = range(200, 300)

PROXY_WANTS_PASSWORD: Final = 407

LOGGED: Final = 5
"""What httpx logs of an answer: method, address, version, status and, last, the server's own words."""

Heard = Callable[[bytes], bool]
"""Takes a piece of the stream; returns whether the answer is complete."""


@value
class Patience(Value):
    """How long we wait."""

    connect: float
    """Seconds to connect."""
    first_byte: float
    """Seconds to the first byte of the stream, connecting included."""
    next_byte: float
    """Seconds from one byte of the stream to the next."""


@value
class Post(Value):
    """A request as it goes out."""

    url: str
    """The URL."""
    headers: Mapping[str, str]
    """Its headers; they may hold a key, so a post is never shown."""
    body: JsonObject
    """The body, as JSON."""
    patience: Patience
    """How long we wait."""

    def __repr__(self) -> str:
        return f"<Post to {self.url}>"


@value
class HttpAnswer(Value):
    """Status, headers and body of an answer; a stream has been passed on already, so it has no body here."""

    status: int
    """HTTP status."""
    headers: Mapping[str, str]
    """Its headers; the names are in lower case."""
    body: bytes = b""
    """The body of an answer that is no stream, as much of it as was read."""


class Http:
    """The client of one supervisor."""

    __slots__ = ("_clients", "_limiter", "_transport")

    def __init__(self, connections: int = CONNECTIONS, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self._limiter = trio.CapacityLimiter(connections)
        self._transport = transport
        self._clients: dict[bool, httpx.AsyncClient] = {}

    def client(self, url: str) -> httpx.AsyncClient:
        """Return what httpx calls a client; it is made for the first request, because that takes a while."""
        direct = is_kept_from_proxies(url)
        client = self._clients.get(direct)
        if client is None:
            client = self._clients[direct] = httpx.AsyncClient(
                transport=httpx.AsyncHTTPTransport(limits=LIMITS) if direct else self._transport,
                limits=LIMITS,
                cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
                follow_redirects=False,
            )
        return client

    async def close(self) -> None:
        """Close all connections."""
        for client in self._clients.values():
            await client.aclose()

    async def post(self, post: Post, heard: Heard) -> HttpAnswer:
        """Make one request; give a stream to *heard* piece by piece, and return how it was answered.

        Raises what is said in `agentrail.errors.models`; an answer that is no stream is returned, whatever it says.
        """
        async with self._limiter:
            try:
                client = self.client(post.url)
            except (httpx.InvalidURL, ValueError, ImportError, OSError) as error:
                unusable = why_unusable(error)
            else:
                return await HttpExchange(client, post, heard).run()
        raise PermanentModelError(unusable)  # outside of the handler: the context would show the proxy's password


def _says_nothing_received(record: logging.LogRecord) -> bool:
    """Whether a line of httpcore's log is free of what a server sends: it may echo a key, also where it garbles."""
    line = record.getMessage()
    return "receive_response" not in line or not ("return_value" in line or "exception" in line)


def _without_reason(record: logging.LogRecord) -> bool:
    """Take out of a line of httpx's log what a server says beside its status."""
    if isinstance(record.args, tuple) and len(record.args) == LOGGED:
        record.args = (*record.args[:-1], "…")
    return True


logging.getLogger("httpcore.http11").addFilter(_says_nothing_received)
logging.getLogger("httpx").addFilter(_without_reason)


class RequestBody(httpx.AsyncByteStream):
    """The body of a request.

    httpx has a generator for it, which nobody closes when the request is cancelled while it goes out.
    """

    def __init__(self, body: bytes) -> None:
        self._rest = [body]

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if not self._rest:
            raise StopAsyncIteration
        return self._rest.pop()


@runtime_checkable
class Closable(Protocol):
    """What httpcore calls a stream."""

    async def aclose(self) -> None:
        """Close it."""
        ...


class Handshake:
    """Watches how a request connects, and closes what httpcore loses if that is cancelled within the handshake."""

    __slots__ = ("_socket",)

    def __init__(self) -> None:
        self._socket: object = None

    async def __call__(self, name: str, info: Mapping[str, object]) -> None:
        """Take note of what httpcore does."""
        if name.endswith("connect_tcp.complete"):
            self._socket = info.get("return_value")
        elif name.endswith("start_tls.failed") and isinstance(self._socket, Closable):
            # Cancelled in the handshake, httpcore does not close the socket below it.
            with trio.move_on_after(CLOSING, shield=True):
                await self._socket.aclose()


class HttpExchange:
    """One request and its answer."""

    __slots__ = ("_begun", "_client", "_complete", "_fault", "_heard", "_post", "_scope")

    def __init__(self, client: httpx.AsyncClient, post: Post, heard: Heard) -> None:
        self._client = client
        self._post = post
        self._heard = heard
        self._begun = False
        self._complete = False
        self._fault: ModelError | None = None
        self._scope = trio.CancelScope()

    async def run(self) -> HttpAnswer:
        """Make the request."""
        request = self._request()
        patience = self._post.patience
        self._scope.deadline = trio.current_time() + patience.first_byte
        answer: HttpAnswer | None = None
        try:
            with self._scope:
                answer = await self._sent(request)
        except httpx.ProxyError as error:
            self._fault = _by_proxy(str(error))
        except (httpx.HTTPError, httpx.StreamError) as error:
            if self._fault is None and not self._complete:
                raise self._translated(error) from error
        if self._fault is not None:
            raise self._fault
        if answer is not None:
            return answer
        if self._complete:
            return HttpAnswer(OK.start, {})
        if self._begun:
            problem = f"nothing came for {patience.next_byte:g} seconds"
            raise NoNextByte(problem)
        problem = f"nothing came for {patience.first_byte:g} seconds"
        raise NoFirstByte(problem)

    def _request(self) -> httpx.Request:
        post = self._post
        try:
            body = json.dumps(post.body, separators=(",", ":"), ensure_ascii=False).encode()
            timeout = httpx.Timeout(None, connect=post.patience.connect)
            request = self._client.build_request(
                "POST", post.url, headers=post.headers, content=body, timeout=timeout, extensions={"trace": Handshake()}
            )
        except (httpx.InvalidURL, ValueError, TypeError) as error:
            problem = f"no request can be made for it ({type(error).__name__})"
            raise WrongEndpoint(problem) from None
        request.stream = RequestBody(body)
        return request

    async def _sent(self, request: httpx.Request) -> HttpAnswer:
        response = await self._client.send(request, stream=True)
        try:
            if response.status_code == PROXY_WANTS_PASSWORD:
                raise _by_proxy(str(PROXY_WANTS_PASSWORD))
            headers = {name.lower(): value for name, value in response.headers.items()}
            encoding = headers.get("content-encoding", "").strip().lower() or PLAIN
            if response.status_code in OK:
                unpacker = Unpacker(encoding)
                if not _is_document(headers):
                    await self._stream(response, unpacker)
                    return HttpAnswer(response.status_code, headers)
            return HttpAnswer(response.status_code, headers, _plain(await self._body(response), encoding))
        finally:
            # A request that is cancelled gives its connection back; otherwise it counts as used for good.
            with trio.move_on_after(CLOSING, shield=True):
                await response.aclose()

    async def _stream(self, response: httpx.Response, unpacker: Unpacker) -> None:
        """Let the stream be heard; a fault in it closes the response, which ends the iteration and all below it."""
        patience = self._post.patience
        async for piece in response.aiter_raw():
            if self._complete or self._fault is not None:
                continue
            self._begun = True
            try:
                self._complete = await self._hear(piece, unpacker)
            except ModelError as fault:
                self._fault = fault
                await response.aclose()
            self._scope.deadline = trio.current_time() + (LINGER if self._complete else patience.next_byte)

    async def _hear(self, packed: bytes, unpacker: Unpacker) -> bool:
        """Unpack *packed* and let it be heard in slices, between which other tasks run; return whether all is heard."""
        for number, piece in enumerate(unpacker.pieces(packed)):
            if number:
                await trio.lowlevel.checkpoint()
            if self._heard(piece):
                return True
        return False

    async def _body(self, response: httpx.Response) -> bytes:
        """Return the body up to the limit, or what has come of it in time: the status says the most already.

        Closing the response makes the iteration fail, which ends all the generators below it; leaving it would not.
        """
        body = bytearray()
        self._scope.deadline = math.inf
        try:
            with trio.move_on_after(self._post.patience.next_byte):
                async for piece in response.aiter_raw():
                    body += piece
                    if len(body) > MAX_BODY:
                        await response.aclose()
        except (httpx.HTTPError, httpx.StreamError):
            pass  # what has come of an error is all there is to show
        return bytes(body[:MAX_BODY])

    def _translated(self, error: Exception) -> ModelError:
        """Return agentrail's error for an exception of httpx."""
        said = _said(error)
        what = f"{type(error).__name__}: {said}" if said else type(error).__name__
        match error:
            case httpx.ConnectError() if _is_caused_by(error, ConnectionRefusedError):
                return ServerMissing(f"nothing listens on the way to {self._post.url}")
            case httpx.ConnectError() if _is_caused_by(error, ssl.SSLCertVerificationError):
                return CertificateRefused(f"{said}; it was on the way to {self._post.url}")
            case httpx.ConnectError() | httpx.ConnectTimeout():
                return ConnectionFailed(f"{what}; it was on the way to {self._post.url}")
            case httpx.UnsupportedProtocol() | httpx.LocalProtocolError():
                return WrongEndpoint(what)
            case httpx.RemoteProtocolError() | httpx.ReadError() if self._begun:
                return StreamEndedEarly(what)
            case _:
                return ConnectionFailed(what)


def _is_caused_by(error: BaseException, kind: type[OSError]) -> bool:
    """Whether every address of the host has failed with *kind*."""
    return all(_is_behind(leaf, kind) for leaf in leaves(error))


def _is_behind(error: BaseException, kind: type[OSError]) -> bool:
    behind = error.__cause__ or error.__context__
    return isinstance(error, kind) or (behind is not None and _is_caused_by(behind, kind))


def _by_proxy(said: str) -> ModelError:
    """Return our own error for what a proxy *said*: its status, and then words that may repeat its password."""
    status = said.partition(" ")[0]
    number = int(status) if status.isdecimal() else 0
    if is_final(number):
        return ProxyRefused(f"it answers {number}")
    answers = f"answers {number}" if number else "gives no way"
    return ConnectionFailed(f"the proxy that the environment names {answers}")


def _said(error: BaseException) -> str:
    """Return the text of *error*, or of its cause: for a failed handshake, httpx's own error has no text."""
    behind: BaseException | None = error
    while behind is not None and not str(behind):
        behind = behind.__cause__ or behind.__context__
    return "" if behind is None else str(behind)


def _plain(body: bytes, encoding: str) -> bytes:
    """Return the *body* of an error unpacked, as far as it can be: its status says the most already."""
    found = b""
    try:
        for piece in Unpacker(encoding, MAX_BODY).pieces(body):
            found += piece
    except (EncodingRefused, StreamGarbled):
        pass
    return found


def _is_document(headers: Mapping[str, str]) -> bool:
    """Whether an answer is one document and no stream, whatever was asked for."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind in {"application/json", "text/html"}

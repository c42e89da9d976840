"""The HTTP client of all models; the only module here that imports httpx.

Each supervisor has one client with a pool of connections. Our own `CapacityLimiter` limits the requests, and the pool
has no limit: httpcore 1.0 loses the slots of requests that are cancelled while they queue in its pool
(encode/httpcore#1093).

A request that is cancelled or fails closes its connection. A connection is used again only if the answer was read to
its end, so no answer can reach the wrong request. Redirects are not followed and no cookies are kept. The proxies and
certificates that environment variables name are used.

Uncompressed answers are asked for, but proxies may compress them all the same. httpx would unpack them, but leaves its
generators open if that fails.
"""

from __future__ import annotations

import logging
import math
import socket
import ssl
import zlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Final, Protocol, runtime_checkable

import httpx  # noqa: ASYNC127 - the client that pyproject.toml names
import trio

from agentrail.adapters import tls_contexts
from agentrail.adapters.models.environment_proxies import is_final, is_kept_from_proxies, why_unusable
from agentrail.adapters.models.provider_errors import SHOWN
from agentrail.errors import (
    CertificateRefused,
    ConnectionFailed,
    EncodingRefused,
    ModelError,
    NoFirstByte,
    NoNextByte,
    PermanentModelError,
    ProviderNotReached,
    ProxyRefused,
    ServerMissing,
    StreamEndedEarly,
    StreamGarbled,
    WrongEndpoint,
)
from agentrail.ports.protocol_members import has_members
from agentrail.values.untrusted_values import leaves
from agentrail.values.value import Value

PLAIN: Final = frozenset({"", "identity"})
"""The values of `Content-Encoding` of an answer that is not packed."""

PACKED: Final = frozenset({"gzip", "deflate"})
"""The values of `Content-Encoding` that are unpacked. Never two in a row, which make gigabytes of a few kilobytes."""

ANY_ZLIB: Final = 32 + zlib.MAX_WBITS
"""The `wbits` with which zlib detects by itself whether the data is gzip or deflate."""

UNPACKED: Final = "it is said to be packed, and cannot be unpacked: {}"

CONNECTIONS: Final = 100
"""The most requests of one supervisor that run at the same time, unless `Http` is given another number; others wait."""

KEPT: Final = 20
"""The most idle connections that are kept open for later requests."""

LIMITS: Final = httpx.Limits(max_connections=None, max_keepalive_connections=KEPT)

MAX_BODY: Final = 64 * 1024
"""The usual `Post.max_body`: what is longer is dropped."""

LINGER: Final = 0.25
"""Seconds that the server has to end a stream after its last event; after that the connection is closed."""

OK: Final = range(200, 300)

PROXY_WANTS_PASSWORD: Final = 407

LOGGED: Final = 5
"""The number of arguments of httpx's log line: method, URL, version, status and last the server's reason phrase."""

Heard = Callable[[bytes], bool]
"""Takes a piece of the stream; returns whether the answer is complete."""


class Patience(Value):
    """The time limits of one request."""

    connect: float
    """The most seconds to connect."""
    first_byte: float
    """The most seconds from the start, connecting included, to the first byte of the stream."""
    next_byte: float
    """The most seconds from one byte of the stream to the next."""


class Post(Value, gc=True):
    """A POST request."""

    url: str
    """The URL."""
    headers: Mapping[str, str]
    """The headers. They may contain an API key, so `repr` does not show them."""
    body: bytes
    """The body: JSON, already encoded, because some headers are made from its bytes."""
    patience: Patience
    """The time limits of the request."""
    max_body: int = MAX_BODY
    """The most bytes that are kept of an answer that is not a stream, also after it is unpacked."""

    def __repr__(self) -> str:
        return f"<Post to {self.url}>"


class HttpAnswer(Value, gc=True):
    """Status, headers and body of an answer; the body is empty if the answer was a stream, passed to `on_bytes`."""

    status: int
    """HTTP status."""
    headers: Mapping[str, str]
    """The headers; their names are in lower case."""
    body: bytes = b""
    """The body of an answer that is not a stream, up to `Post.max_body` bytes."""


class Http:
    """The HTTP client of one supervisor."""

    __slots__ = ("_clients", "_limiter", "_transport")

    def __init__(self, connections: int = CONNECTIONS, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self._limiter = trio.CapacityLimiter(connections)
        self._transport = transport
        self._clients: dict[bool, httpx.AsyncClient] = {}

    def client(self, url: str) -> httpx.AsyncClient:
        """Return the httpx client for *url*, which `prepare` has made: with proxies, or without (see `NO_PROXY`)."""
        return self._clients[is_kept_from_proxies(url)]

    async def prepare(self, url: str) -> None:
        """Make the httpx client for *url* before its first use. No-op if it is made."""
        direct = is_kept_from_proxies(url)
        if direct in self._clients:
            return
        tls = await tls_contexts.of_httpx() if direct or self._transport is None else True
        if direct not in self._clients:  # another request may have made it meanwhile
            self._clients[direct] = httpx.AsyncClient(
                transport=httpx.AsyncHTTPTransport(verify=tls, limits=LIMITS) if direct else self._transport,
                verify=tls,
                limits=LIMITS,
                cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
                follow_redirects=False,
            )

    async def close(self) -> None:
        """Close all connections."""
        for client in self._clients.values():
            await client.aclose()

    async def post(self, post: Post, on_bytes: Heard) -> HttpAnswer:
        """Send *post*; pass the pieces of a streamed answer to *on_bytes*, and return status and headers.

        An answer that is not a stream is returned with its body, whatever its status. A failed connection or a time
        limit raises an exception of `agentrail.errors.models`.
        """
        async with self._limiter:
            try:
                await self.prepare(post.url)
                client = self.client(post.url)
            except (httpx.InvalidURL, ValueError, ImportError, OSError) as error:
                unusable = why_unusable(error)
            else:
                return await HttpExchange(client, post, on_bytes).run()
        # raised outside of the `except`: the error's context would show the proxy's password
        raise PermanentModelError(unusable)


def _says_nothing_received(record: logging.LogRecord) -> bool:
    """Whether a line of httpcore's log is free of text from a server: a server may echo the API key."""
    line = record.getMessage()
    return "receive_response" not in line or not ("return_value" in line or "exception" in line)


def _without_texts(record: logging.LogRecord) -> bool:
    """Remove the URL's query and the server's reason phrase from a line of httpx's log; return true: it is written.

    The query may hold words of a conversation: those of a search, or of an address that a model wrote.
    """
    if isinstance(record.args, tuple) and len(record.args) == LOGGED:
        method, url, *others, _ = record.args
        record.args = (method, str(url).partition("?")[0], *others, "…")
    return True


logging.getLogger("httpcore.http11").addFilter(_says_nothing_received)
logging.getLogger("httpx").addFilter(_without_texts)


class RequestBody(httpx.AsyncByteStream):
    """The body of a request; httpx's own is an async generator, which stays open if the request is cancelled."""

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
    """Interface: the part of httpcore's network stream that is used here."""

    async def aclose(self) -> None:
        """Close the stream."""
        ...


class Handshake:
    """Knows whether a request has connected; closes its socket if it is cancelled in the TLS handshake.

    httpcore leaves the socket open then.
    """

    __slots__ = ("_socket",)

    def __init__(self) -> None:
        self._socket: object = None

    @property
    def has_connected(self) -> bool:
        """Whether a new connection was made, to the provider or to a proxy before it."""
        return self._socket is not None

    async def __call__(self, name: str, info: Mapping[str, object]) -> None:
        """Remember the connected socket; close it if the TLS handshake fails. httpcore calls this with each event."""
        if name.endswith("connect_tcp.complete"):
            self._socket = info.get("return_value")
        elif name.endswith("start_tls.failed") and has_members(self._socket, Closable):
            # If cancelled in the handshake, httpcore leaves the socket open. `aclose` closes it before its checkpoint:
            # tests/adapters/models/test_http.py::test_a_request_that_is_cut_in_the_handshake_leaves_no_connection_open
            await self._socket.aclose()


class HttpExchange:
    """One request and its answer."""

    __slots__ = ("_begun", "_client", "_complete", "_fault", "_handshake", "_heard", "_post", "_scope")

    def __init__(self, client: httpx.AsyncClient, post: Post, on_bytes: Heard) -> None:
        self._client = client
        self._post = post
        self._heard = on_bytes
        self._begun = False
        self._complete = False
        self._fault: ModelError | None = None
        self._handshake = Handshake()
        self._scope = trio.CancelScope()

    async def run(self) -> HttpAnswer:
        """Send the request and return its answer, within the time limits; see `Http.post`."""
        request = self._request()
        patience = self._post.patience
        self._scope.deadline = trio.current_time() + patience.first_byte
        answer: HttpAnswer | None = None
        try:
            with self._scope:
                answer = await self._send(request)
        except httpx.ProxyError as error:
            self._fault = _by_proxy(str(error))
        except (httpx.HTTPError, httpx.StreamError) as error:
            if self._fault is None and not self._complete:
                raise self._model_error(error) from error
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
            timeout = httpx.Timeout(None, connect=post.patience.connect)
            request = self._client.build_request(
                "POST",
                post.url,
                headers=post.headers,
                content=post.body,
                timeout=timeout,
                extensions={"trace": self._handshake},
            )
        except (httpx.InvalidURL, ValueError, TypeError) as error:
            problem = f"no request can be made for it ({type(error).__name__})"
            raise WrongEndpoint(problem) from None
        request.stream = RequestBody(post.body)
        return request

    async def _send(self, request: httpx.Request) -> HttpAnswer:
        response = await self._client.send(request, stream=True)
        try:
            if response.status_code == PROXY_WANTS_PASSWORD:
                raise _by_proxy(str(PROXY_WANTS_PASSWORD))
            headers = {name.lower(): value for name, value in response.headers.items()}
            encoding = headers.get("content-encoding", "").strip().lower()
            if response.status_code in OK and encoding not in PACKED | PLAIN:
                problem = f"it is encoded as `{encoding[:SHOWN]}`, and plain text was asked for"
                raise EncodingRefused(problem)
            if response.status_code in OK and not _is_document(headers):
                unpack = bytes if encoding in PLAIN else zlib.decompressobj(wbits=ANY_ZLIB).decompress
                await self._stream(response, unpack)
                return HttpAnswer(response.status_code, headers)
            return HttpAnswer(
                response.status_code, headers, _unpacked(await self._body(response), encoding, self._post.max_body)
            )
        finally:
            # No shield: a cancellation comes out of httpcore alone, which has closed everything then, see `_hear`.
            await response.aclose()  # noqa: ASYNC102 - see above

    async def _stream(self, response: httpx.Response, unpack: Callable[[bytes], bytes]) -> None:
        """Pass the stream to `heard` piece by piece, as *unpack* returns them; each has a new time limit.

        A fault closes the response.
        """
        patience = self._post.patience
        async for piece in response.aiter_raw():
            if self._complete or self._fault is not None:
                continue
            self._begun = True
            try:
                self._complete = self._heard(unpack(piece))
            except (ModelError, zlib.error) as fault:
                self._fault = fault if isinstance(fault, ModelError) else StreamGarbled(UNPACKED.format(fault))
                await response.aclose()
            self._scope.deadline = trio.current_time() + (LINGER if self._complete else patience.next_byte)
        await trio.lowlevel.checkpoint_if_cancelled()

    async def _body(self, response: httpx.Response) -> bytes:
        """Return the body, up to `Post.max_body` bytes, or the part that arrived in time before the connection broke.

        At the limit the response is closed, not the loop left: closing makes the iteration fail, and with it all of
        httpx's generators end.
        """
        body = bytearray()
        self._scope.deadline = math.inf
        try:
            with trio.move_on_after(self._post.patience.next_byte):
                async for piece in response.aiter_raw():
                    body += piece
                    if len(body) > self._post.max_body:
                        await response.aclose()
        except (httpx.HTTPError, httpx.StreamError):
            pass  # the part that has arrived is returned: the status and a partial text are still worth reporting
        return bytes(body[: self._post.max_body])

    def _model_error(self, error: Exception) -> ModelError:
        """Return agentrail's exception for the exception *error* of httpx."""
        reason = _reason(error)
        what = f"{type(error).__name__}: {reason}" if reason else type(error).__name__
        match error:
            case httpx.ConnectError() if _is_caused_by(error, ConnectionRefusedError):
                return ServerMissing(f"nothing listens on the way to {self._post.url}")
            case httpx.ConnectError() | httpx.ConnectTimeout() if not self._handshake.has_connected:
                return ProviderNotReached(f"{self._obstacle(error)}, on the way to {self._post.url}")
            case httpx.ConnectError() if _is_caused_by(error, ssl.SSLCertVerificationError):
                return CertificateRefused(f"{reason}; it was in a request to {self._post.url}")
            case httpx.ConnectError() | httpx.ConnectTimeout():
                return ConnectionFailed(f"{what}; it was in a request to {self._post.url}")
            case httpx.UnsupportedProtocol() | httpx.LocalProtocolError():
                return WrongEndpoint(what)
            case httpx.RemoteProtocolError() | httpx.ReadError() if self._begun:
                return StreamEndedEarly(what)
            case _:
                return ConnectionFailed(what)

    def _obstacle(self, error: Exception) -> str:
        """Return why no connection was made, from *error* of httpx, as text for an error message."""
        if isinstance(error, httpx.ConnectTimeout):
            return f"nobody answers within {self._post.patience.connect:g} seconds"
        causes = list(_last_causes(error))
        reasons = "; ".join(dict.fromkeys(map(str, causes)))
        if all(isinstance(cause, socket.gaierror) for cause in causes):
            return f"a name cannot be resolved ({reasons})"
        return reasons


def _last_causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the first causes of *error*; there are several if several addresses of a name were tried."""
    for leaf in leaves(error):
        cause = leaf.__cause__ or leaf.__context__
        if cause is None:
            yield leaf
        else:
            yield from _last_causes(cause)


def _is_caused_by(error: BaseException, kind: type[OSError]) -> bool:
    """Whether *error* was caused by an exception of *kind*; if several addresses were tried, by such ones alone."""
    return all(_is_behind(leaf, kind) for leaf in leaves(error))


def _is_behind(error: BaseException, kind: type[OSError]) -> bool:
    cause = error.__cause__ or error.__context__
    return isinstance(error, kind) or (cause is not None and _is_caused_by(cause, kind))


def _by_proxy(reason: str) -> ModelError:
    """Return the exception for *reason*, a refusal by a proxy; only its status, as the rest may hold a password."""
    status = reason.partition(" ")[0]
    number = int(status) if status.isdecimal() else 0
    if is_final(number):
        return ProxyRefused(f"it answers {number}")
    answers = f"answers {number}" if number else "gives no way"
    return ConnectionFailed(f"the proxy that the environment names {answers}")


def _reason(error: BaseException) -> str:
    """Return the text of *error* or of its nearest cause with one; httpx's error for a failed handshake has none."""
    cause: BaseException | None = error
    while cause is not None and not str(cause):
        cause = cause.__cause__ or cause.__context__
    return "" if cause is None else str(cause)


def _unpacked(body: bytes, encoding: str, most: int) -> bytes:
    """Return the beginning of the *body* of an answer unpacked; empty if it cannot be read."""
    if encoding in PLAIN:
        return body
    try:
        return zlib.decompressobj(wbits=ANY_ZLIB).decompress(body, most) if encoding in PACKED else b""
    except zlib.error:
        return b""


def _is_document(headers: Mapping[str, str]) -> bool:
    """Whether the answer is one document (JSON or HTML) instead of the requested stream."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind in {"application/json", "text/html"}

"""`HolderConnection`: one HTTP exchange with another host of the cluster, whose answer is read piece by piece.

`WholeFrames`: puts the frames of a stream of events together again, which comes in pieces of any length.

How a call is sent on to another host, and which headers of that host's answer the client gets.

The headers are lists of what hosts read and send: an authenticator may find a key in any header, and what listens at
the address of a holder may send any.
"""

from __future__ import annotations

import re
from typing import Final, cast
from urllib.parse import urlencode

import h11
import trio

from agentrail.api.operation_table import JSON, HostCall
from agentrail.api.problems import MEDIA_TYPE
from agentrail.api.socket_frames import query_pairs
from agentrail.api.views import to_json, to_plain
from agentrail.host.cluster.cluster_options import Cluster
from agentrail.host.operations.call import COMMAND, OperationCall, Upload
from agentrail.host.requests.access_log import REQUEST_ID
from agentrail.host.requests.http_messages import OWNED, Body, Headers, WrappedBody
from agentrail.remote.transport.host_address import CutError, HostAddress, dial_address
from agentrail.values.json import EMPTY, JsonObject

CONNECT_SECONDS: Final = 2.0
"""How long a connection to another host may take: it is near."""

SILENT_SECONDS: Final = 120.0
"""How long another host may take for a request, and then send nothing of an answer that has begun.

In a stream, signs of life come more often.
"""

HEAD_SECONDS: Final = 3600.0
"""How long it may take until the answer begins: it waits for the end of a turn."""

CONTENT_SECONDS: Final = 120.0
"""How long an answer that is no stream may take from then on."""

WELL_WITHIN: Final = 2.0
"""Seconds in which another host has to say whether it is well."""

HEALTH: Final = ("GET", "/healthz")
"""What is asked of a host without a key."""

HEAD_BYTES: Final = 64 * 1024
"""The most bytes of the head of an answer."""

CONTENT_BYTES: Final = 64 * 1024 * 1024
"""The most bytes of an answer that is no stream: it may be a page of messages with images in them."""

CHUNK: Final = 64 * 1024


class HolderGoneError(Exception):
    """The other host cannot be reached, or has gone before its answer was whole."""


class HolderUnfitError(HolderGoneError):
    """What listens at the address of the other host answers as no host does, or no host may be there."""


class HolderSilentError(HolderGoneError):
    """The other host takes connections and answers nothing on them, not even whether it is well."""


class HolderRefusedError(HolderGoneError):
    """Nobody listens at the address of the other host."""


class HolderConnection:
    """A connection for one request to the host at *holder*, which listens at *endpoint*, and its answer."""

    def __init__(self, stream: trio.abc.Stream, holder: str, endpoint: HostAddress) -> None:
        self.holder = holder
        """Address of the host."""
        self.endpoint = endpoint
        """Where it listened."""
        self._stream = stream
        self._waiting = trio.CancelScope()
        self._is_cut = self._is_silent = False
        self.waits_since: float | None = None
        """Since when nothing has come that is waited for, in the time of Trio; `None` if nothing is waited for."""
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_BYTES)
        self._peeked: bytes | None = None
        self.status = 0
        """Status of the answer."""
        self.headers: Headers = ()
        """Headers of the answer, but for those of the connection."""

    async def ask(self, authority: str, method: str, target: str, headers: Headers, body: bytes) -> None:
        """Send a request, and read the head of its answer; raise `HolderGoneError` if there is none."""
        own_headers = [("host", authority), ("connection", "close"), ("content-length", str(len(body)))]
        request = h11.Request(method=method, target=target, headers=[*own_headers, *headers])
        data = b"".join(self._http.send(event) or b"" for event in (request, h11.Data(data=body), h11.EndOfMessage()))
        try:
            self._waiting.deadline = trio.current_time() + SILENT_SECONDS
            with self._waiting:
                await self._stream.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise HolderGoneError from None
        if self._waiting.cancelled_caught and not self._is_cut:
            raise HolderUnfitError
        event: h11.Event | None = None
        with trio.move_on_after(HEAD_SECONDS):
            while not isinstance(event := await self._next(HEAD_SECONDS), h11.Response):
                pass
        if not isinstance(event, h11.Response):
            raise HolderUnfitError
        self.status = event.status_code
        pairs = [(name.decode(), value.decode("latin-1")) for name, value in event.headers]
        self.headers = tuple(pair for pair in pairs if pair[0] not in OWNED)

    async def peek(self) -> bytes:
        """Return the whole answer, which `content` will return too."""
        self._peeked = await self.content()
        return self._peeked

    async def piece(self) -> bytes:
        """Return the next bytes of the answer, none at its end; raise `HolderGoneError` if it is cut."""
        while True:
            match await self._next(SILENT_SECONDS):
                case h11.Data(data=data):
                    return bytes(data)
                case h11.EndOfMessage():
                    return b""
                case _:
                    pass

    async def content(self) -> bytes:
        """Return the whole answer; raise `HolderUnfitError` if it is too large or too slow."""
        if self._peeked is not None:
            return self._peeked
        with trio.move_on_after(CONTENT_SECONDS):
            pieces = bytearray()
            while piece := await self.piece():
                pieces += piece
                if len(pieces) > CONTENT_BYTES:
                    raise HolderUnfitError
            return bytes(pieces)
        raise HolderUnfitError

    def cut(self, *, is_silent: bool = False) -> None:
        """End the exchange: whoever waits for more of the answer gets `HolderGoneError`, or `HolderSilentError`."""
        self._is_cut, self._is_silent = True, is_silent
        self._waiting.cancel()

    async def _next(self, seconds: float) -> h11.Event:
        try:
            while (event := self._http.next_event()) is h11.NEED_DATA:
                if self._is_cut:
                    raise HolderSilentError if self._is_silent else HolderGoneError
                with trio.move_on_after(seconds) as self._waiting:
                    self.waits_since = trio.current_time()
                    self._http.receive_data(bytes(await self._stream.receive_some(CHUNK)))
                self.waits_since = None
                if self._waiting.cancelled_caught:
                    raise HolderSilentError if self._is_silent else HolderGoneError
        except (trio.BrokenResourceError, trio.ClosedResourceError, h11.RemoteProtocolError):
            raise HolderGoneError from None
        if not isinstance(event, h11.Event) or isinstance(event, h11.ConnectionClosed):
            raise HolderGoneError
        return event

    async def close(self) -> None:
        """Close the connection at once."""
        await trio.aclose_forcefully(self._stream)


async def connect(cluster: Cluster, address: str) -> tuple[HolderConnection, str]:
    """Connect to the host at *address*; return the connection, and what its header `Host` has to be.

    A host that is not where it was is looked for again. Raise `HolderUnfitError` if none of *cluster* may be there.
    """
    if not cluster.has(address):
        raise HolderUnfitError
    is_refused = False
    with trio.move_on_after(CONNECT_SECONDS):
        endpoint, tried = await cluster.find(address), None
        while endpoint is not None and endpoint != tried:
            try:
                return await _dial(cluster, address, endpoint), endpoint.authority
            except OSError as error:
                is_refused = _is_refusal(error.__cause__ or error)
            except CutError:
                pass
            cluster.lose(address)
            endpoint, tried = await cluster.find(address), endpoint
    cluster.lose(address)
    raise HolderRefusedError if is_refused else HolderGoneError


async def is_well(cluster: Cluster, address: str) -> bool:
    """Return whether the host at *address* answers when it is asked for its health, whatever it says."""
    with trio.move_on_after(WELL_WITHIN):
        try:
            connection, authority = await connect(cluster, address)
            try:
                await connection.ask(authority, *HEALTH, (), b"")
            finally:
                await connection.close()  # noqa: ASYNC102 - it waits for nothing
        except HolderGoneError:
            return False
        return True
    return False


async def _dial(cluster: Cluster, address: str, endpoint: HostAddress) -> HolderConnection:
    """Connect to the host at *address*, which listens at *endpoint*, and see where that is before anything is sent."""
    stream = await dial_address(endpoint, None)
    transport = _below_tls(stream)
    try:
        if isinstance(transport, trio.SocketStream) and not endpoint.unix:
            peer = str(transport.socket.getpeername()[0])
            if not cluster.has_peer(address, peer):
                raise HolderUnfitError
    except BaseException:
        await trio.aclose_forcefully(stream)
        raise
    return HolderConnection(stream, address, endpoint)


def _below_tls(stream: trio.abc.Stream) -> trio.abc.Stream:
    if isinstance(stream, trio.SSLStream):
        return cast("trio.SSLStream[trio.abc.Stream]", stream).transport_stream
    return stream


def _is_refusal(error: BaseException) -> bool:
    """Whether nobody listened: at any of the IP addresses, if a name has several."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(_is_refusal, cast("BaseExceptionGroup[BaseException]", error).exceptions))
    return isinstance(error, ConnectionRefusedError)


END_OF_FRAME: Final = b"\n\n"

FRAME_BYTES: Final = 64 * 1024 * 1024
"""The most bytes of a frame: it may have messages with images in them."""


class WholeFrames:
    """Keeps what has come of the next frame; each piece is looked at once, however long the frame is."""

    __slots__ = ("_buffer",)

    def __init__(self) -> None:
        self._buffer = bytearray()

    def add(self, piece: bytes) -> bytes:
        """Return the frames that are whole now that *piece* has come, with their ends; empty if there are none.

        Raise `HolderUnfitError` if one is too large.
        """
        start = max(len(self._buffer) - len(END_OF_FRAME) + 1, 0)
        self._buffer += piece
        last = self._buffer.rfind(END_OF_FRAME, start)
        if last < 0:
            if len(self._buffer) > FRAME_BYTES:
                raise HolderUnfitError
            return b""
        end = last + len(END_OF_FRAME)
        whole_frames = bytes(self._buffer[:end])
        del self._buffer[:end]
        return whole_frames

    def rest(self) -> bytes:
        """Return what has come after the last whole frame."""
        return bytes(self._buffer)


PASSED: Final = frozenset({"accept", "accept-language", "if-none-match", "last-event-id", "user-agent"})
"""Headers of a client that another host is told. A key is in none of them: that host believes the signature."""

FORWARDED_FOR: Final = "x-forwarded-for"
CONTENT_TYPE: Final = "content-type"
LOCATION: Final = "location"
CHALLENGE: Final = "www-authenticate"
BEARER: Final = "Bearer"
"""The challenge of hosts: for others, a browser asks its user for a password."""
API_PREFIX: Final = "/v1/"
"""How a URL begins to which an answer may lead the client."""

SENT: Final = frozenset(
    {
        "allow",
        "cache-control",
        CONTENT_TYPE,
        LOCATION,
        "retry-after",
        CHALLENGE,
        "x-accel-buffering",
        "content-disposition",
        "content-security-policy",
        "cross-origin-resource-policy",
        "etag",
        "x-content-type-options",
    }
)
"""Headers of an answer that the client gets: those that hosts send."""

OTHER_CONTENT: Final = "application/octet-stream"
"""The type of content that no host sends: a browser does nothing with it."""

_VALUE: Final = re.compile(r"[ -~\t]{0,4096}")
"""Matches values that can be sent on: nothing in them ends a line."""


def passed_headers(call: OperationCall) -> Headers:
    """Return the headers with which *call* is sent to another host, without its signature."""
    body = call.body(object)
    headers = [
        (FORWARDED_FOR, call.peer),
        (REQUEST_ID, call.note.id),
    ]  # believed if this host is named there as a proxy
    headers += [header for header in call.headers if header[0] in PASSED]
    media_type = body.media_type if isinstance(body, Upload) else "" if body is None else JSON
    if media_type:
        headers.append((CONTENT_TYPE, media_type))
    if call.key is not None:
        headers.append((COMMAND, call.key))
    return tuple(headers)


class KeptBody(WrappedBody):
    """A body that can be read again."""

    __slots__ = ("_index", "_pieces")

    def __init__(self, body: Body) -> None:
        super().__init__(body)
        self._pieces: list[bytes] = []
        self._index = 0

    def rewind(self) -> None:
        """Let the next reader begin with the first piece."""
        self._index = 0

    async def chunk(self) -> bytes:
        """Return the next piece; one that was read before comes from memory."""
        if self._index == len(self._pieces):
            self._pieces.append(await self._body.chunk())
        piece = self._pieces[self._index]
        if piece:
            self._index += 1
        return piece


async def passed_content(call: OperationCall) -> bytes:
    """Return the body of *call* as another host reads it."""
    body = call.body(object)
    if isinstance(body, Upload):
        return await body.content.read(call.limits.file_bytes)
    return b"" if body is None else to_json(body)


def passed_query(call: OperationCall) -> str:
    """Return the query of *call* as another host reads it."""
    query = call.query(object)
    fields = EMPTY if query is None else cast("JsonObject", to_plain(query))
    return urlencode(query_pairs(fields), errors="surrogatepass")


def sent_headers(call: HostCall, headers: Headers) -> Headers:
    """Return those of the *headers* of another host's answer to *call* that the client gets."""
    types = {call.media, JSON, MEDIA_TYPE}
    return tuple(
        [
            (name, OTHER_CONTENT if name == CONTENT_TYPE and value not in types else value)
            for name, value in headers
            if name in SENT
            and _VALUE.fullmatch(value)
            and (name != LOCATION or value.startswith(API_PREFIX))
            and (name != CHALLENGE or value == BEARER)
        ]
    )

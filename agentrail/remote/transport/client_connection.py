"""`ClientConnection`: sends and receives over one WebSocket until it is cut, and says why it was cut or refused."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, cast

import h11
import trio
from trio_websocket import ConnectionClosed, ConnectionRejected, WebSocketConnection, wrap_client_stream
from wsproto.frame_protocol import Opcode
from wsproto.utilities import LocalProtocolError, ProtocolError

from agentrail.api import problems
from agentrail.api.socket_frames import PATH, SUBPROTOCOL, USER
from agentrail.errors import BadText
from agentrail.remote.transport.host_address import (
    ABNORMAL,
    CUT,
    CutError,
    Dial,
    HostAddress,
    HostKey,
    cut_reason,
    first_in,
)
from agentrail.remote.transport.host_subscription import RefusalFrame, read_host_frame
from agentrail.values.json import JsonObject


def document_in(rejected: ConnectionRejected) -> JsonObject | None:
    """Return the problem document in a response; `None` if there is none."""
    media = dict(rejected.headers or ()).get(b"content-type", b"").decode("latin-1").partition(";")[0].strip()
    if media != problems.MEDIA_TYPE:
        return None
    try:
        frame = read_host_frame(f'{{"problem":{(rejected.body or b"").decode(errors="replace")}}}')
    except BadText:
        return None
    return frame.problem if isinstance(frame, RefusalFrame) else None


def describe_rejection(rejected: ConnectionRejected) -> str:
    """Describe a response that has no problem document, for an error message."""
    return f"it answers the handshake of a WebSocket with status {rejected.status_code}"


def refusal_in(answer: bytes) -> ConnectionRejected | None:
    """Return the response in what came before the connection was closed, whose body that may end; `None` if none is."""
    http = h11.Connection(h11.CLIENT)
    http.send(h11.Request(method="GET", target="/", headers=[("Host", "localhost")]))
    http.send(h11.EndOfMessage())
    head: h11.Response | None = None
    body = b""
    try:
        for data in (answer, b""):
            http.receive_data(data)
            while not isinstance(event := http.next_event(), h11.ConnectionClosed | type):  # a type: more is needed
                if isinstance(event, h11.Response):
                    head = event
                elif isinstance(event, h11.Data):
                    body += event.data
    except h11.RemoteProtocolError:
        pass  # its body is cut
    return None if head is None else ConnectionRejected(head.status_code, tuple(head.headers), body)


WRITE_SECONDS: Final = 20.0
"""How long the host may take nothing of what is sent."""

CLOSE_SECONDS: Final = 0.5
"""How long it may take to send a close frame."""

MAX_ANSWER: Final = 128 * 1024
"""The most bytes of a host's answer to the handshake, the body included if it refuses."""

NO_WEBSOCKET: Final = "it does not speak WebSocket as a host does"


class NotAHostError(Exception):
    """The server is no agentrail host, or has another version of the interface."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem
        """What it did, in words."""


class WatchedStream(trio.abc.Stream):
    """A stream to a host. If it ends before the handshake is made, it ends the wait for that."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self.answer = b""
        """What has come before the handshake was made."""
        self.shaking = trio.CancelScope()
        """The scope of the handshake: trio-websocket would wait for the rest of an answer that has ended."""
        self._is_sending = False
        self._leaving: trio.CancelScope | None = None
        self.is_open = False
        """Whether the handshake is made."""
        self.heard_at = trio.current_time()
        """When the host last sent anything."""
        self.problem = CUT
        """Why it was cut, in words."""

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Return what the host sends."""
        try:
            data = bytes(await self._stream.receive_some(max_bytes))
        except (trio.BrokenResourceError, trio.ClosedResourceError) as broken:
            self._break(cut_reason(broken))
            raise
        self.heard_at = trio.current_time()
        if not self.is_open:
            self.answer += data
            if not data:
                self._break("it closed the connection during the handshake")
            if len(self.answer) > MAX_ANSWER:
                raise NotAHostError(problem=f"its answer to the handshake has more than {MAX_ANSWER} bytes")
        return data

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send *data*; nothing is sent after a part of a frame."""
        if self._is_sending:
            raise trio.BrokenResourceError
        self._is_sending = True
        try:
            with trio.fail_after(WRITE_SECONDS):
                await self._stream.send_all(data)
        except trio.TooSlowError:
            self._break(f"it took nothing for {WRITE_SECONDS:g} s")
            raise trio.BrokenResourceError from None
        except (trio.BrokenResourceError, trio.ClosedResourceError) as broken:
            self._break(cut_reason(broken))
            raise
        self._is_sending = False
        if self._leaving is not None and data[0] & 0x0F == Opcode.CLOSE:
            self._leaving.cancel()

    async def wait_send_all_might_not_block(self) -> None:
        """Wait until something can be sent."""
        await self._stream.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()
        if not self.is_open:  # so trio-websocket does with one that breaks a rule
            raise NotAHostError(NO_WEBSOCKET)

    async def leave(self, websocket: WebSocketConnection) -> None:
        """Send a close frame if that is possible soon, and close the stream without waiting for an answer."""
        # Shielded: a caller that leaves by a cancellation would otherwise close without a close frame.
        with trio.move_on_after(CLOSE_SECONDS, shield=True) as self._leaving:
            await websocket.aclose()
        await self.drop()

    async def drop(self) -> None:
        """Close the stream at once."""
        await trio.aclose_forcefully(self._stream)

    def _break(self, problem: str) -> None:
        """Note why it is cut, once; end the handshake, if it is not made."""
        if self.problem == CUT:
            self.problem = problem
        if not self.is_open:
            self.shaking.cancel()


MAX_MESSAGE: Final = 64 * 1024 * 1024
"""The most characters of one message of a host: an answer may be a page of messages with images in them."""

OPEN_SECONDS: Final = 10.0
"""How long a connection may take, the handshake included."""

QUIET_SECONDS: Final = 25.0
"""After how long without a word of the host it is asked for one."""

PONG_SECONDS: Final = 20.0
"""How long the host has to answer that."""

CHUNK: Final = 16 * 1024
"""The most bytes that are read at once: between two reads trio-websocket lets nobody else run."""

TOO_SLOW: Final = f"it did not answer within {OPEN_SECONDS:g} s"
BROKEN: Final = "a rule of WebSocket was broken"
BROKEN_RULES: Final = frozenset({1002, 1007})
"""Codes of a close because of it: the host's, or those with which wsproto ends what it cannot read."""

TOO_LARGE: Final = f"Exceeded maximum message size: {MAX_MESSAGE} bytes"
"""What trio-websocket gives as the reason for which it closes; its code would be taken for one of the host."""


class Authority(str):
    """Host and port as they are: wsproto would encode them by `idna`, in which a long name with a port has no form."""

    __slots__ = ()

    def encode(self, encoding: str = "", errors: str = "") -> bytes:  # noqa: ARG002 - none is wanted
        """Return the bytes of the header."""
        return super().encode("ascii")


class ClientConnection:
    """One WebSocket, with what waits to be sent over it; `open_connection` makes it."""

    def __init__(self, websocket: WebSocketConnection, stream: WatchedStream, take: Callable[[str], None]) -> None:
        self._websocket = websocket
        self._stream = stream
        self._dispatch = take
        self._texts: deque[str] = deque()
        self._work = trio.Event()
        self._cut: CutError | None = None
        self.has_heard = False
        """Whether the host has said anything since the handshake: a message, or a pong."""

    @property
    def user(self) -> str:
        """The user of the key, as ids of sessions have it; empty if they have none."""
        return dict(self._websocket.handshake_headers).get(USER.encode(), b"").decode("latin-1")

    @property
    def cut(self) -> CutError:
        """How it was cut, once it is."""
        return self._cut or cut_of(ConnectionClosed(self._websocket.closed), self._stream.problem)

    def post(self, text: str) -> None:
        """Queue *text* to be sent."""
        self._texts.append(text)
        self._work.set()

    async def run(self) -> None:
        """Send and receive until the connection is cut.

        It begins with a ping: the pong sets `has_heard`, even if the host has nothing to send.
        """
        async with trio.open_nursery() as nursery:  # noqa: TID251 - its tasks end with the connection
            for work in (self._read, self._write, self._watch, self._ping):
                nursery.start_soon(self._until_cut, work, nursery.cancel_scope)

    async def _until_cut(self, work: Callable[[], Awaitable[None]], scope: trio.CancelScope) -> None:
        try:
            await work()
        except (CutError, ConnectionClosed, LocalProtocolError) as error:
            self._cut = self._cut or cut_of(error, self._stream.problem)
            scope.cancel()

    async def _read(self) -> None:
        while True:
            received = await self._websocket.get_message()
            if isinstance(received, bytes):
                raise CutError(problem="it sent a message that is no text")
            self.has_heard = True
            try:
                self._dispatch(received)
            except BadText as bad:
                raise CutError(problem=f"it sent a message that cannot be read: {bad.args[0]}") from None

    async def _write(self) -> None:
        while True:
            while self._texts:
                await self._websocket.send_message(self._texts.popleft())
            self._work = trio.Event()
            await self._work.wait()

    async def _ping(self) -> None:
        await self._websocket.ping()
        self.has_heard = True

    async def _watch(self) -> None:
        while True:
            heard_at = self._stream.heard_at
            await trio.sleep_until(heard_at + QUIET_SECONDS)
            if self._stream.heard_at == heard_at:
                with trio.move_on_after(PONG_SECONDS):
                    await self._ping()
            if self._stream.heard_at == heard_at:
                raise CutError(problem=f"nothing came from it for {QUIET_SECONDS + PONG_SECONDS:g} s")


@asynccontextmanager
async def open_connection(
    address: HostAddress, key: HostKey, dial: Dial, take: Callable[[str], None]
) -> AsyncGenerator[ClientConnection, None]:
    """Connect to a host; *take* is called with each of its messages.

    Raises `ConnectionRejected`, `NotAHostError` or `CutError` if there is no connection. One that is broken while it is
    in use ends the block without an error.
    """
    deadline = trio.current_time() + OPEN_SECONDS
    stream = WatchedStream(await _dialled(dial, deadline))
    try:
        async with trio.open_nursery() as nursery:  # noqa: TID251 - for the task of trio-websocket
            websocket = await _open_websocket(nursery, stream, address, key, deadline)
            if websocket is None:
                raise refusal_in(stream.answer) or CutError(stream.problem)
            stream.is_open = True
            try:
                if websocket.subprotocol != SUBPROTOCOL:
                    raise NotAHostError(problem=f"it does not speak the protocol `{SUBPROTOCOL}`")
                yield ClientConnection(websocket, stream, take)
            finally:
                await stream.leave(websocket)  # noqa: ASYNC102 - it is shielded, and bounds its own time
                nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        error = _cause_in(group, is_open=stream.is_open)
        if error is not None:
            raise error from None
    finally:
        if not stream.is_open:
            await stream.drop()  # noqa: ASYNC102 - it closes at once


async def _open_websocket(
    nursery: trio.Nursery, stream: WatchedStream, address: HostAddress, key: HostKey, deadline: float
) -> WebSocketConnection | None:
    """Make the handshake; return `None` if *stream* has ended before."""
    with trio.fail_at(deadline), stream.shaking:
        return await wrap_client_stream(
            nursery,
            cast("trio.SocketStream", stream),  # it takes any stream
            Authority(address.authority),
            f"{address.prefix}{PATH}",
            subprotocols=[SUBPROTOCOL],
            extra_headers=[key.header],
            max_message_size=MAX_MESSAGE,
            receive_buffer_size=CHUNK,
        )
    return None


def _cause_in(group: BaseExceptionGroup[BaseException], *, is_open: bool) -> BaseException | None:
    """Return the error that *group* stands for; `None` if a connection that *is_open* has ended by a broken rule."""
    _, others = group.split(trio.Cancelled)
    match error := first_in(others):
        case ConnectionClosed() | LocalProtocolError() if is_open:
            return None  # trio-websocket could not say that a rule was broken, or answered a ping after a close
        case trio.TooSlowError():
            return CutError(TOO_SLOW)
        case CutError() | NotAHostError() | ConnectionRejected():
            return error
        case ProtocolError() | h11.ProtocolError() | UnicodeError() if not is_open:
            return NotAHostError(NO_WEBSOCKET)
        case _:
            return group


async def _dialled(dial: Dial, deadline: float) -> trio.abc.Stream:
    try:
        with trio.fail_at(deadline):
            return await dial()
    except trio.TooSlowError:
        raise CutError(TOO_SLOW) from None
    except OSError as failed:
        raise CutError(cut_reason(failed)) from None


def cut_of(error: CutError | ConnectionClosed | LocalProtocolError, problem: str) -> CutError:
    """Return how a connection was cut by *error*; *problem* says what the stream knows."""
    if isinstance(error, CutError):
        return error
    closed = error.reason if isinstance(error, ConnectionClosed) else None
    if closed is None:
        return CutError(BROKEN if problem == CUT else problem)
    if closed.code == ABNORMAL:
        return CutError(problem)
    if closed.reason == TOO_LARGE:
        return CutError(problem=f"it sent a message of more than {MAX_MESSAGE} characters")
    what = BROKEN if closed.code in BROKEN_RULES else "it closed the connection"
    suffix = f": {closed.reason}" if closed.reason else ""
    return CutError(f"{what} ({closed.code}{suffix})", closed.code, closed.reason or "")

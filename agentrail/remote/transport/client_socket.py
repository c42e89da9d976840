"""One WebSocket to a host: the handshake, whole messages, and how it ended.

It uses wsproto directly. trio-websocket, which the host uses, waits for ever if the connection is cut during the
handshake of a client, and holds messages back behind a pong that cannot be sent.

`OpenConnection`: sends and receives over one WebSocket until it is cut.

Reads the response with which a host, or something else, refuses the handshake of a WebSocket.
"""

from __future__ import annotations

import os
import ssl
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, cast

import trio
from wsproto import ConnectionType, WSConnection, events
from wsproto.connection import ConnectionState
from wsproto.utilities import ProtocolError

from agentrail.api import problems
from agentrail.api.socket_frames import PATH, SUBPROTOCOL
from agentrail.errors import BadText
from agentrail.remote.transport.host_address import HostAddress, HostKey
from agentrail.remote.transport.host_frames import RefusalFrame, read_host_frame
from agentrail.values.json import JsonObject
from agentrail.values.value import Value

MAX_MESSAGE: Final = 64 * 1024 * 1024
"""The most characters of one message of a host: an answer may be a page of messages with images in them."""

MOST_FRAGMENTS: Final = MAX_MESSAGE // 4096
"""The most fragments of one message: tiny and empty ones take memory too."""

MAX_REJECTION: Final = 64 * 1024
"""The most bytes of the response that are kept when a host refuses the handshake."""

OPEN_SECONDS: Final = 10.0
"""How long a connection may take, the handshake included."""

WRITE_SECONDS: Final = 20.0
"""How long the host may take nothing of what is sent."""

CUT: Final = "the connection was cut"

_CHUNK: Final = 64 * 1024
_NO_CODE: Final = 1006


class CutError(Exception):
    """The connection is over, or was never made."""

    def __init__(self, problem: str, code: int = _NO_CODE, reason: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        """What happened, in words."""
        self.code = code
        """Code of the host's close frame; 1006 if there was none."""
        self.reason = reason
        """Reason in that frame; empty if it had none."""


class OtherError(Exception):
    """What answers is no agentrail host, or one of another version."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem
        """What it did, in words."""


class Rejection(Value, gc=True):
    """The response with which the handshake was refused."""

    status: int
    """Its status."""
    media: str
    """Its media type."""
    body: bytes
    """Its body, cut to `MAX_REJECTION`."""


class RejectedError(Exception):
    """The handshake was refused by a response."""

    def __init__(self, rejection: Rejection) -> None:
        super().__init__(rejection.status)
        self.rejection = rejection
        """The response."""


class ClientSocket:
    """One open connection. One task receives, and one sends."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self._protocol = WSConnection(ConnectionType.CLIENT)
        self._found: deque[events.Event] = deque()
        self._parts: list[str] = []
        self._length = 0
        self._is_sending = False
        self.heard_at = trio.current_time()
        """When the host last sent anything."""

    async def shake(self, address: HostAddress, key: HostKey) -> None:
        """Make the handshake; raise `RejectedError`, `OtherError` or `CutError`."""
        request = events.Request(
            host=address.authority,
            target=f"{address.prefix}{PATH}",
            subprotocols=[SUBPROTOCOL],
            extra_headers=[key.header],
        )
        await self.send(request)
        status, media, body = 0, "", b""
        while True:
            data = await self._read()
            if not data and status:
                raise RejectedError(Rejection(status, media, body))
            if not data:
                raise CutError(problem="it closed the connection during the handshake")
            try:
                self._protocol.receive_data(data)
                events_ = [*self._protocol.events()]
            except ProtocolError:
                raise OtherError(problem="it does not speak HTTP as a host does") from None
            for event in events_:
                match event:
                    case events.AcceptConnection(subprotocol=subprotocol):
                        if subprotocol != SUBPROTOCOL:
                            raise OtherError(problem=f"it does not speak the protocol `{SUBPROTOCOL}`")
                        return
                    case events.RejectConnection(status_code=status, headers=headers, has_body=has_body):
                        media = dict(headers).get(b"content-type", b"").decode("latin-1").partition(";")[0].strip()
                        if not has_body:
                            raise RejectedError(Rejection(status, media, b""))
                    case events.RejectData(data=piece, body_finished=is_over):
                        body = (body + piece)[:MAX_REJECTION]
                        if is_over:
                            raise RejectedError(Rejection(status, media, body))
                    case _:
                        pass

    async def receive(self) -> str | events.Ping | events.Pong:
        """Return the next message, whole, or ping, which the caller has to answer, or pong; raise `CutError`."""
        while True:
            while self._found:
                received = self._told(self._found.popleft())
                if received is not None:
                    return received
            data = await self._read()
            if not data:
                raise CutError(CUT)
            try:
                self._protocol.receive_data(data)
                self._found.extend(self._protocol.events())
            except ProtocolError as broken:
                raise CutError(problem=f"it broke a rule of WebSocket: {broken}") from None

    def _told(self, event: events.Event) -> str | events.Ping | events.Pong | None:
        """Return what a caller gets of *event*; `None` if it is a piece of a message."""
        match event:
            case events.TextMessage(data=data, message_finished=is_whole):
                self._parts.append(data)
                self._length += len(data)
                if self._length > MAX_MESSAGE:
                    raise CutError(problem=f"it sent a message of more than {MAX_MESSAGE} characters")
                if len(self._parts) > MOST_FRAGMENTS:
                    raise CutError(problem=f"it sent a message in more than {MOST_FRAGMENTS} fragments")
                if not is_whole:
                    return None
                text = "".join(self._parts)
                self._parts, self._length = [], 0
                return text
            case events.BytesMessage():
                raise CutError(problem="it sent a message that is no text")
            case events.CloseConnection(code=code, reason=reason):
                if self._protocol.state is ConnectionState.OPEN:  # wsproto's advice, and no word of the host
                    raise CutError(problem=f"it broke a rule of WebSocket: {reason}")
                suffix = f": {reason}" if reason else ""
                raise CutError(problem=f"it closed the connection ({code}{suffix})", code=code, reason=reason or "")
            case events.Ping() | events.Pong():
                return event
            case _:
                return None

    async def _read(self) -> bytes:
        try:
            data = await self._stream.receive_some(_CHUNK)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as broken:
            raise CutError(_reason(broken)) from None
        self.heard_at = trio.current_time()
        return bytes(data)

    async def send(self, event: events.Event) -> None:
        """Send *event*; raise `CutError` if the host does not take it."""
        try:
            data = self._protocol.send(event)
        except ProtocolError:
            raise CutError(problem="the host has closed the connection") from None
        self._is_sending = True
        try:
            with trio.fail_after(WRITE_SECONDS):
                await self._stream.send_all(data)
        except trio.TooSlowError:
            raise CutError(problem=f"it took nothing for {WRITE_SECONDS:g} s") from None
        except (trio.BrokenResourceError, trio.ClosedResourceError) as broken:
            raise CutError(_reason(broken)) from None
        self._is_sending = False

    async def close(self) -> None:
        """Say good-bye if that is possible at once, and close the connection."""
        # Shielded: a caller that leaves by a cancellation would otherwise close without a close frame.
        with trio.move_on_after(0.5, shield=True):
            if not self._is_sending:  # else half of a frame may have been sent
                with suppress(CutError):
                    await self.send(events.CloseConnection(code=1000))
        await trio.aclose_forcefully(self._stream)


async def open_websocket(address: HostAddress, key: HostKey, tls: ssl.SSLContext | None) -> ClientSocket:
    """Connect to a host; raise `RejectedError`, `OtherError` or `CutError`."""
    socket: ClientSocket | None = None
    try:
        with trio.fail_after(OPEN_SECONDS):
            stream = await _connected(address, tls)
            socket = ClientSocket(stream)
            try:
                await socket.shake(address, key)
            except BaseException:
                await trio.aclose_forcefully(stream)
                raise
    except trio.TooSlowError:
        raise CutError(problem=f"it did not answer within {OPEN_SECONDS:g} s") from None
    return socket


async def _connected(address: HostAddress, tls: ssl.SSLContext | None) -> trio.abc.Stream:
    try:
        if address.unix:
            return await trio.open_unix_socket(address.unix)
        plain = await trio.open_tcp_stream(address.host, address.port)
    except OSError as failed:
        raise CutError(_reason(failed)) from None
    if not address.tls:
        return plain
    stream = trio.SSLStream(
        plain, tls or ssl.create_default_context(), server_hostname=address.host, https_compatible=True
    )
    try:
        await stream.do_handshake()
    except trio.BrokenResourceError as broken:
        await trio.aclose_forcefully(stream)
        raise CutError(problem=f"no encrypted connection: {_reason(broken)}") from None
    except BaseException:
        await trio.aclose_forcefully(stream)
        raise
    return stream


def _reason(error: BaseException) -> str:
    """Return the words of the system for *error*."""
    cause = error.__cause__
    while isinstance(cause, BaseExceptionGroup):
        cause = next(iter(cast("BaseExceptionGroup[BaseException]", cause).exceptions))
    for failure in (cause, error):
        if isinstance(failure, ssl.SSLCertVerificationError):
            return f"its certificate is not trusted: {failure.verify_message}"
        if isinstance(failure, ssl.SSLError):
            return f"TLS failed: {failure.reason}"
        if isinstance(failure, OSError):
            number = failure.errno or 0
            return os.strerror(number) if number > 0 else failure.strerror or str(failure)
    return CUT


QUIET_SECONDS: Final = 25.0
"""After how long without a word of the host it is asked for one."""

PONG_SECONDS: Final = 20.0
"""How long the host has to answer that."""


class OpenConnection:
    """One WebSocket, with what waits to be sent over it."""

    def __init__(self, socket: ClientSocket, take: Callable[[str], None]) -> None:
        self._socket = socket
        self._take = take
        self._texts: deque[str] = deque()
        self._controls: deque[events.Event] = deque(maxlen=4)
        self._work = trio.Event()
        self._cut: CutError | None = None
        self.has_heard = False
        """Whether the host has said anything since the handshake."""

    def post(self, text: str) -> None:
        """Send *text* when its turn comes."""
        self._texts.append(text)
        self._work.set()

    async def run(self) -> CutError:
        """Send and receive until the connection is cut; return how that was. It is closed then."""
        self._control(events.Ping())  # its answer tells that the host is there
        try:
            async with trio.open_nursery() as nursery:  # noqa: TID251 - its tasks end with the connection
                for work in (self._read, self._write, self._watch):
                    nursery.start_soon(self._until_cut, work, nursery.cancel_scope)
        finally:
            await self._socket.close()  # noqa: ASYNC102 - it is shielded, and bounds its own time
        return self._cut or CutError("it was left")

    async def _until_cut(self, work: Callable[[], Awaitable[None]], scope: trio.CancelScope) -> None:
        try:
            await work()
        except CutError as cut:
            self._cut = self._cut or cut
            scope.cancel()

    async def _read(self) -> None:
        while True:
            received = await self._socket.receive()
            if isinstance(received, events.Ping):
                self._control(received.response())
                continue
            self.has_heard = True
            if isinstance(received, str):
                try:
                    self._take(received)
                except BadText as bad:
                    raise CutError(problem=f"it sent a message that cannot be read: {bad.args[0]}") from None

    async def _write(self) -> None:
        while True:
            while self._controls or self._texts:
                if self._controls:
                    await self._socket.send(self._controls.popleft())
                else:
                    await self._socket.send(events.TextMessage(data=self._texts.popleft()))
            self._work = trio.Event()
            await self._work.wait()

    def _control(self, event: events.Event) -> None:
        self._controls.append(event)
        self._work.set()

    async def _watch(self) -> None:
        while True:
            heard_at = self._socket.heard_at
            await trio.sleep_until(heard_at + QUIET_SECONDS)
            if self._socket.heard_at == heard_at:
                self._control(events.Ping())
                await trio.sleep(PONG_SECONDS)
            if self._socket.heard_at == heard_at:
                raise CutError(problem=f"nothing came from it for {QUIET_SECONDS + PONG_SECONDS:g} s")


def document_in(rejection: Rejection) -> JsonObject | None:
    """Return the problem document in a response; `None` if there is none."""
    if rejection.media != problems.MEDIA_TYPE:
        return None
    try:
        frame = read_host_frame(f'{{"problem":{rejection.body.decode(errors="replace")}}}')
    except BadText:
        return None
    return frame.problem if isinstance(frame, RefusalFrame) else None


def said_by(rejection: Rejection) -> str:
    """Return what a response without a problem document says, in words."""
    return f"it answers the handshake of a WebSocket with status {rejection.status}"

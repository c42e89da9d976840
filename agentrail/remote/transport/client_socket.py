"""`ClientSocket`: one WebSocket to a host: makes the handshake, sends and receives whole messages."""

from __future__ import annotations

import os
import secrets
import ssl
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, TypeAlias, cast

import trio

from agentrail.api.websocket_protocol import (
    NORMAL,
    Closed,
    MessageReader,
    Ping,
    Pong,
    Received,
    close_frame,
    frame,
)
from agentrail.remote.transport.client_handshake import ClientHandshake
from agentrail.remote.transport.host_address import HostAddress, HostKey

MAX_MESSAGE: Final = 64 * 1024 * 1024
"""The most bytes of one message of a host: an answer may be a page of messages with images in them."""

OPEN_SECONDS: Final = 10.0
"""How long a connection may take, the handshake included."""

WRITE_SECONDS: Final = 20.0
"""How long the host may take nothing of what is sent."""

CUT: Final = "the connection was cut"
TRUST_IT: Final = "`SSL_CERT_FILE` names those that have signed it"

Dial: TypeAlias = Callable[[], Awaitable[trio.abc.Stream]]
"""Connects to a host, each time that a connection is needed; it raises `OSError` or `CutError` if that fails."""

_CHUNK: Final = 64 * 1024
_ABNORMAL: Final = 1006


class CutError(Exception):
    """The connection was cut, or could not be made; `problem` says why."""

    def __init__(self, problem: str, code: int = _ABNORMAL, reason: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        """What happened, in words."""
        self.code = code
        """Code of the host's close frame; 1006 if there was none."""
        self.reason = reason
        """Reason in that frame; empty if it had none."""


class ClientSocket:
    """One open connection. One task receives, and one sends."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self._reader = MessageReader(MAX_MESSAGE, of_client=False)
        self._received: deque[Received] = deque()
        self._is_sending = False
        self.heard_at = trio.current_time()
        """When the host last sent anything."""
        self.user = ""
        """The user of the key, as ids of sessions have it; empty if they have none."""

    async def shake(self, address: HostAddress, key: HostKey) -> None:
        """Make the handshake; raise `RejectedError`, `NotAHostError` or `CutError`."""
        handshake = ClientHandshake(address, key)
        await self._send(handshake.request())
        early: bytes | None = None
        while early is None:
            data = await self._read()
            early = handshake.read(data)
            if early is None and not data:
                raise CutError(problem="it closed the connection during the handshake")
        self.user = handshake.user
        self._received.extend(self._reader.read(early))

    async def receive(self) -> str | Ping | Pong:
        """Return the next whole message, pong or ping (the caller has to answer it); raise `CutError` at the end."""
        while not self._received:
            broken = self._reader.broken
            if broken is not None:
                raise CutError(problem=f"it broke a rule of WebSocket: {broken.reason}")
            data = await self._read()
            if not data:
                raise CutError(CUT)
            self._received.extend(self._reader.read(data))
        match self._received.popleft():
            case bytes():
                raise CutError(problem="it sent a message that is no text")
            case Closed(code, reason):
                suffix = f": {reason}" if reason else ""
                raise CutError(problem=f"it closed the connection ({code}{suffix})", code=code, reason=reason)
            case received:
                return received

    async def _read(self) -> bytes:
        try:
            data = await self._stream.receive_some(_CHUNK)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as broken:
            raise CutError(cut_reason(broken)) from None
        self.heard_at = trio.current_time()
        return bytes(data)

    async def send(self, opcode: int, content: bytes) -> None:
        """Send a message, a ping or a pong; raise `CutError` if the host does not take it."""
        await self._send(frame(opcode, content, secrets.token_bytes(4)))

    async def _send(self, data: bytes) -> None:
        self._is_sending = True
        try:
            with trio.fail_after(WRITE_SECONDS):
                await self._stream.send_all(data)
        except trio.TooSlowError:
            raise CutError(problem=f"it took nothing for {WRITE_SECONDS:g} s") from None
        except (trio.BrokenResourceError, trio.ClosedResourceError) as broken:
            raise CutError(cut_reason(broken)) from None
        self._is_sending = False

    async def close(self) -> None:
        """Send a close frame if that is possible at once, and close the connection."""
        # Shielded: a caller that leaves by a cancellation would otherwise close without a close frame.
        with trio.move_on_after(0.5, shield=True):
            if not self._is_sending:  # no frame is half sent: a close frame in the middle of one would be garbage
                with suppress(CutError):
                    await self._send(close_frame(NORMAL, "", secrets.token_bytes(4)))
        await trio.aclose_forcefully(self._stream)


async def open_websocket(address: HostAddress, key: HostKey, dial: Dial) -> ClientSocket:
    """Connect to a host; raise `RejectedError`, `NotAHostError` or `CutError`."""
    socket: ClientSocket | None = None
    try:
        with trio.fail_after(OPEN_SECONDS):
            stream = await dial()
            socket = ClientSocket(stream)
            try:
                await socket.shake(address, key)
            except BaseException:
                await trio.aclose_forcefully(stream)
                raise
    except trio.TooSlowError:
        raise CutError(problem=f"it did not answer within {OPEN_SECONDS:g} s") from None
    except OSError as failed:
        raise CutError(cut_reason(failed)) from None
    return socket


async def dial_address(address: HostAddress, tls: ssl.SSLContext | None) -> trio.abc.Stream:
    """Connect to *address*; raise `OSError`, or `CutError` if there is no encrypted connection."""
    if address.unix:
        return await trio.open_unix_socket(address.unix)
    plain = await trio.open_tcp_stream(address.host, address.port)
    if not address.tls:
        return plain
    stream = trio.SSLStream(
        plain, tls or ssl.create_default_context(), server_hostname=address.host, https_compatible=True
    )
    try:
        await stream.do_handshake()
    except trio.BrokenResourceError as broken:
        await trio.aclose_forcefully(stream)
        raise CutError(problem=f"no encrypted connection: {cut_reason(broken)}") from None
    except BaseException:
        await trio.aclose_forcefully(stream)
        raise
    return stream


def cut_reason(error: BaseException) -> str:
    """Return the words of the system for *error*."""
    cause = error.__cause__
    while isinstance(cause, BaseExceptionGroup):
        cause = next(iter(cast("BaseExceptionGroup[BaseException]", cause).exceptions))
    for failure in (cause, error):
        if isinstance(failure, ssl.SSLCertVerificationError):
            return f"its certificate is not trusted: {failure.verify_message} ({TRUST_IT})"
        if isinstance(failure, ssl.SSLError):
            return f"TLS failed: {failure.reason}"
        if isinstance(failure, OSError):
            number = failure.errno or 0
            return os.strerror(number) if number > 0 else failure.strerror or str(failure)
    return CUT

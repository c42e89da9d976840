"""`WatchedStream`: what a WebSocket is spoken over; it knows when the host was heard last, and why it was cut."""

from __future__ import annotations

from typing import Final

import trio
from trio_websocket import WebSocketConnection
from wsproto.frame_protocol import Opcode

from agentrail.remote.transport.dialling import CUT, cut_reason

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

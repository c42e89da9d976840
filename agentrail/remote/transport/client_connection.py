"""`ClientConnection`: sends and receives over one WebSocket until it is cut."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

import trio

from agentrail.api.websocket_protocol import PING, PONG, TEXT, Ping
from agentrail.errors import BadText
from agentrail.remote.transport.client_socket import ClientSocket, CutError

QUIET_SECONDS: Final = 25.0
"""After how long without a word of the host it is asked for one."""

PONG_SECONDS: Final = 20.0
"""How long the host has to answer that."""


class ClientConnection:
    """One WebSocket, with what waits to be sent over it."""

    def __init__(self, socket: ClientSocket, take: Callable[[str], None]) -> None:
        self._socket = socket
        self._dispatch = take
        self._texts: deque[str] = deque()
        self._controls: deque[tuple[int, bytes]] = deque(maxlen=4)
        self._work = trio.Event()
        self._cut: CutError | None = None
        self.has_heard = False
        """Whether the host has said anything since the handshake."""

    def post(self, text: str) -> None:
        """Queue *text* to be sent."""
        self._texts.append(text)
        self._work.set()

    async def run(self) -> CutError:
        """Send and receive until the connection is cut, and close it; return the reason of the cut."""
        self._control(PING)  # the pong sets `has_heard`, even if the host has nothing to send
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
            if isinstance(received, Ping):
                self._control(PONG, received.content)
                continue
            self.has_heard = True
            if isinstance(received, str):
                try:
                    self._dispatch(received)
                except BadText as bad:
                    raise CutError(problem=f"it sent a message that cannot be read: {bad.args[0]}") from None

    async def _write(self) -> None:
        while True:
            while self._controls or self._texts:
                if self._controls:
                    await self._socket.send(*self._controls.popleft())
                else:
                    await self._socket.send(TEXT, self._texts.popleft().encode())
            self._work = trio.Event()
            await self._work.wait()

    def _control(self, opcode: int, content: bytes = b"") -> None:
        self._controls.append((opcode, content))
        self._work.set()

    async def _watch(self) -> None:
        while True:
            heard_at = self._socket.heard_at
            await trio.sleep_until(heard_at + QUIET_SECONDS)
            if self._socket.heard_at == heard_at:
                self._control(PING)
                await trio.sleep(PONG_SECONDS)
            if self._socket.heard_at == heard_at:
                raise CutError(problem=f"nothing came from it for {QUIET_SECONDS + PONG_SECONDS:g} s")

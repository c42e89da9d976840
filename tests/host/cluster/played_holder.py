"""What listens at an address that the journal has as that of a host, and is none: it answers what the test says."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial

import trio
from attrs import field, frozen

from agentrail import SessionSpec
from agentrail.journals import Lease, MemoryJournal
from agentrail.runtime.shared.clock import Clock
from tests.host.cluster.several import open_member

ENDS = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n"


@frozen
class PlayedHolder:
    """The address of what is no host, and the heads of the requests that it got."""

    address: str
    heads: list[bytes] = field(factory=list)

    @property
    def headers(self) -> dict[str, str]:
        """The headers of the last request."""
        lines = self.heads[-1].decode().split("\r\n")[1:]
        return {name.lower(): value for name, _, value in [line.partition(": ") for line in lines]}


@asynccontextmanager
async def played_holder(
    answer: bytes | Callable[[trio.SocketStream], Awaitable[None]], host: str = "127.0.0.1"
) -> AsyncGenerator[PlayedHolder]:
    """Answer each connection on loopback with *answer*, and yield where that is, by the name *host*."""
    heads: list[bytes] = []

    async def serve(stream: trio.SocketStream) -> None:
        data = b""
        while b"\r\n\r\n" not in data:
            piece = await stream.receive_some()
            if not piece:
                return
            data += piece
        heads.append(data.partition(b"\r\n\r\n")[0])
        with suppress(trio.BrokenResourceError):
            await (stream.send_all(answer) if isinstance(answer, bytes) else answer(stream))

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, serve, 0, host="127.0.0.1"))
        yield PlayedHolder(f"http://{host}:{listeners[0].socket.getsockname()[1]}", heads)
        nursery.cancel_scope.cancel()


async def journal_with(holder: str, spec: SessionSpec) -> MemoryJournal:
    """Return a journal with the session `trip` of `ann`, of which it says that the *holder* has it for a minute."""
    journal = MemoryJournal()
    async with open_member(journal, spec) as desk:
        assert (await desk.ann.post("/v1/sessions", json={"session": "trip"})).status_code == 201
    await journal.claim("h.acme.ann.trip", holder, Lease(Clock().now_ms(), 60_000))
    return journal

"""Clients of WebSocket for a host without a server: each is a pair of streams in memory."""

from __future__ import annotations

import json
import math
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any, Final

import trio
from trio.testing import lockstep_stream_pair, memory_stream_pair

from agentrail.api.limits import DEFAULTS
from agentrail.host.http11.request_head import handshake_answer, read_head
from agentrail.host.http11.web_socket import WebSocket
from agentrail.host.operations.host_operations import Application
from agentrail.host.requests.http_messages import HttpRequest, Upgrade
from agentrail.runtime.shared.admission import Gate
from tests.host.model.expecting import ModelError, expect
from tests.host.model.in_process import GivenBody
from tests.host.model.people import Person
from tests.host.rfc6455.raw_frames import Opcode, frame
from tests.host.rfc6455.raw_peer import KEY, Peer, read_answer

Message = dict[str, Any]

HANDSHAKE: Final = (
    ("connection", "Upgrade"),
    ("upgrade", "websocket"),
    ("sec-websocket-version", "13"),
    ("sec-websocket-key", KEY),
)
PATIENCE: Final = 100.0
"""Virtual seconds after which what has not come never will."""


class UnansweredError(ModelError):
    """A call has no answer."""

    def __init__(self, name: str, closes: list[bytes]) -> None:
        super().__init__("each call is answered", name, closes)


class Line:
    """A client: what comes is kept by the id that it has, and pings are answered."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self._ids = count(1)
        self._came = trio.lowlevel.ParkingLot()
        self.messages: list[Message] = []
        self.is_over = False

    async def send(self, **message: object) -> str:
        """Send a message, and return its id: one of its own, unless it has one."""
        name = str(message.setdefault("id", str(next(self._ids))))
        await self.peer.say(json.dumps(message))
        return name

    async def ask(self, name: str, session: str | None = None, **more: object) -> Message:
        """Make a call, and return its answer."""
        about = {} if session is None else {"session": session}
        return await self.answer(await self.send(call=name, **about, **more))

    async def answer(self, name: str) -> Message:
        """Wait for the answer to a call, or for the end of the line."""
        with trio.move_on_after(PATIENCE):
            while not self.is_over:
                for message in self.messages:
                    if message.get("id") == name and ("status" in message or "problem" in message):
                        return message
                await self._came.park()
        raise UnansweredError(name, self.peer.heard.closes)

    def of(self, name: str) -> list[Message]:
        """Return what has come with an id."""
        return [message for message in self.messages if message.get("id") == name]

    async def read(self) -> None:
        """Body of the task that reads."""
        heard = self.peer.heard
        going = True
        while going:
            going = await self.peer.more(math.inf)
            self.messages += map(json.loads, heard.texts)
            heard.texts.clear()
            for ping in heard.pings:
                await self.peer.send(frame(Opcode.PONG, ping))
            heard.pings.clear()
            self._came.unpark_all()
        self.is_over = True
        self._came.unpark_all()


@asynccontextmanager
async def line(application: Application, person: Person, *, reads: bool = True) -> AsyncGenerator[Line]:
    """Open a line of a *person*; leaving it cuts it. One that *reads* nothing takes no bytes either."""
    mine, theirs = memory_stream_pair() if reads else lockstep_stream_pair()
    headers = (("host", "127.0.0.1"), ("authorization", f"Bearer {person.key}"), *HANDSHAKE)
    lines = ["GET /v1/ws HTTP/1.1", *(f"{name}: {value}" for name, value in headers), "", ""]
    head = read_head("\r\n".join(lines).encode())
    request = HttpRequest("GET", head.path, "", head.headers, "127.0.0.1", GivenBody(b""), upgrade_problem="")
    response = await application.answer(request)
    content = response.content
    assert isinstance(content, Upgrade), response
    async with trio.open_nursery() as nursery:

        async def serve() -> None:
            failed = None
            answer = handshake_answer(head, content.subprotocol, response.headers)
            try:
                await content.converse(WebSocket(theirs, b"", answer, DEFAULTS, Gate(math.inf)))
            except* (trio.BrokenResourceError, trio.ClosedResourceError):
                pass
            except* Exception as group:  # noqa: BLE001 - whatever a broken host does
                failed = repr(group.exceptions)
            expect("a connection does not fail", failed, None)
            await theirs.aclose()

        async def read() -> None:
            with reading:
                await open_line.read()

        nursery.start_soon(serve)
        reading = trio.CancelScope()
        open_line = Line(await read_answer(mine))
        expect("a handshake is answered", open_line.peer.answer.status, 101)
        if reads:
            nursery.start_soon(read)
        yield open_line
        reading.cancel()
        await mine.aclose()

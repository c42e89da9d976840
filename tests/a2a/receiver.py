"""A receiver of push notifications on loopback, which notes what comes, and answers as it is told."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Final

import h11
import trio
from attrs import field, frozen

from tests.patience import within

TAKEN: Final = b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"


def answer(status: int, *headers: str) -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status} X", "Content-Length: 0", *headers, "Connection: close", "", ""]).encode()


@frozen
class Notification:
    """A request that has come."""

    target: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def task(self) -> Mapping[str, object]:
        """The task that it tells of, in protocol 1.0."""
        (shape,) = json.loads(self.body).values()
        return dict(shape)

    @property
    def state(self) -> object:
        shape: object = self.task["status"]
        assert isinstance(shape, dict)
        return shape["state"].removeprefix("TASK_STATE_")


@frozen
class Receiver:
    """Notes all connections and requests."""

    port: int
    answers: list[bytes] = field(factory=list)
    """Answers to the next requests; then all are taken."""
    requests: list[Notification] = field(factory=list)
    connections: list[object] = field(factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    async def hear(self, stream: trio.SocketStream) -> None:
        self.connections.append(stream.socket.getpeername())
        machine, body, head = h11.Connection(h11.SERVER), b"", None
        while True:
            match machine.next_event():
                case h11.NEED_DATA:
                    machine.receive_data(await stream.receive_some(65536))
                case h11.Request() as request:
                    head = request
                case h11.Data(data=data):
                    body += bytes(data)
                case h11.EndOfMessage():
                    break
                case _:
                    return
        assert head is not None
        headers = {name.decode(): value.decode() for name, value in head.headers}
        self.requests.append(Notification(head.target.decode(), headers, body))
        await stream.send_all(self.answers.pop(0) if self.answers else TAKEN)
        await stream.aclose()

    async def until(self, count: int) -> list[Notification]:
        """Wait until *count* requests have come."""
        with trio.fail_after(within(30)):
            while len(self.requests) < count:  # noqa: ASYNC110 - the sender is another task
                await trio.sleep(0.01)
        return self.requests


@asynccontextmanager
async def receiving(host: str = "127.0.0.1") -> AsyncGenerator[Receiver]:
    """Listen at a port of this machine."""
    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host=host)
        receiver = Receiver(listeners[0].socket.getsockname()[1])
        nursery.start_soon(trio.serve_listeners, receiver.hear, listeners)
        yield receiver
        nursery.cancel_scope.cancel()

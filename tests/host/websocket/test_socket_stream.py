import math
import os
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import pytest
import trio
from wsproto.frame_protocol import FrameProtocol

from agentrail.api.limits import DEFAULTS, HostLimits
from agentrail.host.websocket.web_socket import SocketStream, text_frame
from agentrail.runtime.shared.admission import Gate

OPEN = Gate(math.inf)
ROOM = 4 * 1024 * 1024


@asynccontextmanager
async def connected(
    limits: HostLimits = DEFAULTS, closing: Gate = OPEN
) -> AsyncGenerator[tuple[SocketStream, socket.socket]]:
    """Give the stream of a WebSocket, and the other side of its connection."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with theirs:
        async with trio.SocketStream(trio.socket.from_stdlib_socket(ours)) as below:
            yield SocketStream(below, b"", b"", limits, closing), theirs


async def received(theirs: socket.socket, size: int) -> bytes:
    """Read so many bytes."""
    theirs.setblocking(False)
    found, other = b"", trio.socket.from_stdlib_socket(theirs)
    while len(found) < size:
        found += await other.recv(ROOM)
    return found


async def test_no_frame_follows_the_one_that_closes() -> None:
    async with connected() as (stream, theirs):
        await stream.send_all(b"\x81\x01a")
        await stream.say_goodbye(1002, "a rule")
        await stream.send_all(b"\x81\x01b")
        assert stream.send_now(b"\x81\x01c")
        await stream.say_goodbye(1000, "again")
        assert theirs.recv(1000) == b"\x81\x01a" + b"\x88\x08\x03\xeaa rule"


async def test_what_the_system_takes_is_sent_without_a_wait() -> None:
    async with connected() as (stream, theirs):
        assert stream.send_now(b"\x81\x01a")
        assert stream.sent == 3
        assert theirs.recv(1000) == b"\x81\x01a"


async def test_what_the_system_does_not_take_goes_out_before_any_other_frame() -> None:
    """Such as the pong that trio-websocket sends by itself."""
    wide = text_frame(os.urandom(ROOM))
    async with connected() as (stream, theirs), trio.open_nursery() as nursery:
        assert not stream.send_now(wide)
        assert 0 < stream.sent < len(wide)
        for each in (b"\x8a\x00", b"", b"\x89\x00"):
            nursery.start_soon(stream.send_all, each)
            await trio.testing.wait_all_tasks_blocked()
        assert await received(theirs, len(wide) + 4) == wide + b"\x8a\x00\x89\x00"


async def test_what_is_given_while_another_frame_is_sent_follows_it() -> None:
    wide = text_frame(os.urandom(ROOM))
    async with connected() as (stream, theirs), trio.open_nursery() as nursery:
        nursery.start_soon(stream.send_all, wide)
        await trio.testing.wait_all_tasks_blocked()
        assert not stream.send_now(b"\x81\x01a")
        nursery.start_soon(stream.send_all, b"")
        assert await received(theirs, len(wide) + 3) == wide + b"\x81\x01a"


class Closing(Gate):
    """A gate that tells when somebody has come to it."""

    __slots__ = ("come",)

    def __init__(self) -> None:
        super().__init__(1)
        self.come = trio.Event()

    def enter(self, admit: Callable[[], None]) -> None:
        super().enter(admit)
        self.come.set()


async def test_a_client_that_is_too_slow_is_closed_when_it_is_its_turn() -> None:
    closing, ends = Closing(), list[str]()
    closing.enter(lambda: ends.append("first"))
    closing.come = trio.Event()
    async with connected(HostLimits(write_seconds=0.05), closing) as (stream, _), trio.open_nursery() as nursery:

        async def send() -> None:
            with pytest.raises(trio.BrokenResourceError):
                await stream.send_all(text_frame(bytes(ROOM)))
            ends.append("second")

        nursery.start_soon(send)
        await closing.come.wait()
        await trio.testing.wait_all_tasks_blocked()
        assert ends == ["first"]
        nursery.start_soon(closing.run)
        while len(ends) < 2:
            await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert ends == ["first", "second"]


@pytest.mark.parametrize("size", [0, 1, 125, 126, 127, 65_535, 65_536, 65_537])
def test_a_text_is_framed_as_by_wsproto(size: int) -> None:
    frames = FrameProtocol(client=False, extensions=[])
    assert text_frame(b"a" * size) == frames.send_data("a" * size, fin=True)

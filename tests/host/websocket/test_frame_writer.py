import math
import os
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import pytest
import trio

from agentrail.api.limits import DEFAULTS
from agentrail.host import HostLimits
from agentrail.host.http11.web_socket import FrameWriter
from agentrail.host.http11.websocket_protocol import TEXT, frame
from agentrail.runtime.shared.admission import Gate

OPEN = Gate(math.inf)
ROOM = 4 * 1024 * 1024


@asynccontextmanager
async def connected(
    limits: HostLimits = DEFAULTS, closing: Gate = OPEN
) -> AsyncGenerator[tuple[FrameWriter, socket.socket]]:
    """Give what sends frames, and the other side of its connection."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with theirs:
        async with trio.SocketStream(trio.socket.from_stdlib_socket(ours)) as below:
            yield FrameWriter(below, limits.write_seconds, closing), theirs


async def received(theirs: socket.socket, size: int) -> bytes:
    """Read so many bytes."""
    theirs.setblocking(False)
    content, other = b"", trio.socket.from_stdlib_socket(theirs)
    while len(content) < size:
        content += await other.recv(ROOM)
    return content


async def test_no_frame_follows_the_one_that_closes() -> None:
    async with connected() as (writer, theirs):
        await writer.send_all(b"\x81\x01a")
        await writer.say_goodbye(1002, "a rule")
        await writer.send_all(b"\x81\x01b")
        assert writer.send_now(b"\x81\x01c")
        await writer.say_goodbye(1000, "again")
        assert theirs.recv(1000) == b"\x81\x01a" + b"\x88\x08\x03\xeaa rule"


async def test_what_the_system_takes_is_sent_without_a_wait() -> None:
    async with connected() as (writer, theirs):
        assert writer.send_now(b"\x81\x01a")
        assert writer.sent == 3
        assert theirs.recv(1000) == b"\x81\x01a"


async def test_what_the_system_does_not_take_goes_out_before_any_other_frame() -> None:
    """Such as the pong that answers a ping."""
    wide = frame(TEXT, os.urandom(ROOM))
    async with connected() as (writer, theirs), trio.open_nursery() as nursery:
        assert not writer.send_now(wide)
        assert 0 < writer.sent < len(wide)
        for piece in (b"\x8a\x00", b"", b"\x89\x00"):
            nursery.start_soon(writer.send_all, piece)
            await trio.testing.wait_all_tasks_blocked()
        assert await received(theirs, len(wide) + 4) == wide + b"\x8a\x00\x89\x00"


async def test_what_is_given_while_another_frame_is_sent_follows_it() -> None:
    wide = frame(TEXT, os.urandom(ROOM))
    async with connected() as (writer, theirs), trio.open_nursery() as nursery:
        nursery.start_soon(writer.send_all, wide)
        await trio.testing.wait_all_tasks_blocked()
        assert not writer.send_now(b"\x81\x01a")
        nursery.start_soon(writer.send_all, b"")
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
    async with connected(HostLimits(write_seconds=0.05), closing) as (writer, _), trio.open_nursery() as nursery:

        async def send() -> None:
            with pytest.raises(trio.BrokenResourceError):
                await writer.send_all(frame(TEXT, bytes(ROOM)))
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

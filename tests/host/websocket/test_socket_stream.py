import socket

import trio

from agentrail.host.websocket.socket_stream import SocketStream
from agentrail.wire.limits import HostLimits


async def test_no_frame_follows_the_one_that_closes() -> None:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with theirs:
        async with trio.SocketStream(trio.socket.from_stdlib_socket(ours)) as below:
            stream = SocketStream(below, b"", b"", HostLimits())
            await stream.send_all(b"\x81\x01a")
            await stream.say_goodbye(1002, "a rule")
            await stream.send_all(b"\x81\x01b")
            await stream.say_goodbye(1000, "again")
        assert theirs.recv(1000) == b"\x81\x01a" + b"\x88\x08\x03\xeaa rule"

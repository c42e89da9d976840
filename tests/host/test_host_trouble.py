"""A host in trouble: clients that go too early or come twice, sessions that do not come back, and its own end."""

from __future__ import annotations

import json
import socket
import struct

import trio

from agentrail.host.plugins.host_plugin import HostPlugin
from agentrail.host.plugins.plugin_values import RequestEnd
from tests.host.hosted import KEYS, open_desk, scripted
from tests.host.test_host import until


class Ends(HostPlugin):
    """Notes how requests end."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def on_request_end(self, context: RequestEnd) -> None:
        self.heard.append(f"{context.kind} {context.outcome} {context.error}")


async def test_a_request_ends_although_its_client_went_before_the_first_byte() -> None:
    ends = Ends()
    async with open_desk(scripted("word " * 300), [ends]) as desk:  # more frames than may wait for a client
        host, _, port = desk.serving.url.removeprefix("http://").partition(":")
        stream = await trio.open_tcp_stream(host, int(port))
        body = json.dumps({"message": "hi", "session": "trip"})
        head = f"POST /v1/stream HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {KEYS['ann']}\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        await stream.send_all(f"{head}{body}".encode())
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # it is reset, not closed
        await trio.aclose_forcefully(stream)
        await until(lambda: bool(ends.heard))
    assert ends.heard == ["stream finished None"]

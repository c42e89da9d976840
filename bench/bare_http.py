"""A bare loop around h11, for keep-alive connections: what HTTP costs without limits, checks, deadlines and logs."""

from __future__ import annotations

import sys
from typing import Final

import h11
import trio

FRAME: Final = b'id: 3.17\nevent: MessageDelta\ndata: {"$":"Envelope","n":17,"event":{"delta":"some words "}}\n\n'
"""An event, as short as one of a host may be."""


async def serve(stream: trio.SocketStream) -> None:
    """Answer each request with two bytes, and a POST with as many events as the program is told, each by itself."""
    events = int(sys.argv[1]) if sys.argv[1:] else 0
    posted = False
    machine = h11.Connection(h11.SERVER)
    async with stream:
        while True:
            event = machine.next_event()
            if event is h11.NEED_DATA:
                machine.receive_data(await stream.receive_some(65536))
            elif isinstance(event, h11.Request):
                posted = event.method == b"POST"
            elif isinstance(event, h11.EndOfMessage) and posted:
                await say_events(stream, machine, events)
                machine.start_next_cycle()
            elif isinstance(event, h11.EndOfMessage):
                headers = [("content-type", "text/plain"), ("content-length", "2")]
                data = machine.send(h11.Response(status_code=200, headers=headers)) or b""
                data += machine.send(h11.Data(data=b"ok")) or b""
                data += machine.send(h11.EndOfMessage()) or b""
                await stream.send_all(data)
                machine.start_next_cycle()
            elif isinstance(event, h11.ConnectionClosed):
                return


async def say_events(stream: trio.SocketStream, machine: h11.Connection, events: int) -> None:
    """Answer with so many events, as a server does that writes each when it comes."""
    headers = [("content-type", "text/event-stream"), ("transfer-encoding", "chunked")]
    await stream.send_all(machine.send(h11.Response(status_code=200, headers=headers)) or b"")
    for _ in range(events):
        await stream.send_all(machine.send(h11.Data(data=FRAME)) or b"")
    await stream.send_all(machine.send(h11.EndOfMessage()) or b"")


async def main() -> None:
    """Serve on any free port of loopback, and print it."""
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    print(listeners[0].socket.getsockname()[1], flush=True)
    await trio.serve_listeners(serve, listeners)


if __name__ == "__main__":
    trio.run(main)

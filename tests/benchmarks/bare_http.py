"""A bare loop around h11, for keep-alive connections: what HTTP costs without limits, checks, deadlines and logs."""

from __future__ import annotations

import h11
import trio


async def serve(stream: trio.SocketStream) -> None:
    """Answer each request with two bytes."""
    machine = h11.Connection(h11.SERVER)
    async with stream:
        while True:
            event = machine.next_event()
            if event is h11.NEED_DATA:
                machine.receive_data(await stream.receive_some(65536))
            elif isinstance(event, h11.EndOfMessage):
                headers = [("content-type", "text/plain"), ("content-length", "2")]
                data = machine.send(h11.Response(status_code=200, headers=headers)) or b""
                data += machine.send(h11.Data(data=b"ok")) or b""
                data += machine.send(h11.EndOfMessage()) or b""
                await stream.send_all(data)
                machine.start_next_cycle()
            elif isinstance(event, h11.ConnectionClosed):
                return


async def main() -> None:
    """Serve on any free port of loopback, and print it."""
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    print(listeners[0].socket.getsockname()[1], flush=True)
    await trio.serve_listeners(serve, listeners)


if __name__ == "__main__":
    trio.run(main)

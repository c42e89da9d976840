"""A load balancer in front of hosts: each connection goes to any that accepts one."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import trio

CHUNK = 65536


class Balancer:
    """Passes connections on to hosts, each with its IP address and port, but for those that are `out`."""

    def __init__(self, hosts: list[tuple[str, int]], chance: Random) -> None:
        self._hosts = hosts
        self._chance = chance
        self._lines: dict[tuple[str, int], set[trio.SocketStream]] = {host: set() for host in hosts}
        self.out: set[tuple[str, int]] = set()
        self.port = 0

    def take_out(self, host: tuple[str, int]) -> None:
        """Send nobody to *host* any more, and cut those who are there, as a check of its health would."""
        self.out.add(host)
        for line in self._lines[host]:
            line.socket.close()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Accept connections until cancelled."""
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        self.port = listeners[0].socket.getsockname()[1]
        task_status.started()
        await trio.serve_listeners(self._serve, listeners)

    async def _serve(self, client: trio.SocketStream) -> None:
        async with client:
            for host in self._chance.sample(self._hosts, len(self._hosts)):
                if host in self.out:
                    continue
                with suppress(OSError, trio.TooSlowError):
                    with trio.fail_after(1):
                        server = await trio.open_tcp_stream(*host)
                    async with server:
                        await self._join(host, client, server)
                    return

    async def _join(self, host: tuple[str, int], client: trio.SocketStream, server: trio.SocketStream) -> None:
        self._lines[host].add(server)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_pass, client, server, nursery.cancel_scope)
                nursery.start_soon(_pass, server, client, nursery.cancel_scope)
        finally:
            self._lines[host].discard(server)


async def _pass(source: trio.SocketStream, sink: trio.SocketStream, scope: trio.CancelScope) -> None:
    with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
        while piece := await source.receive_some(CHUNK):
            await sink.send_all(piece)
    scope.cancel()

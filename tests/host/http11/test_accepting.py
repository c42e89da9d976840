"""How connections are accepted that wait together."""

from __future__ import annotations

import socket
from contextlib import ExitStack

import trio

from agentrail.api.limits import HostLimits
from agentrail.host.http11.listening import AT_ONCE, EagerListener, Inherited
from tests.host.http11.served import everything, request, served, statuses
from tests.passes import Passes

COUNT = 3 * AT_ONCE


def _listening() -> tuple[socket.socket, tuple[str, int]]:
    listener = socket.create_server(("127.0.0.1", 0), backlog=COUNT)
    return listener, listener.getsockname()


async def test_connections_that_wait_are_accepted_many_in_a_pass() -> None:
    listener, address = _listening()
    listener.setblocking(False)
    with ExitStack() as stack:
        for _ in range(COUNT):
            stack.enter_context(socket.create_connection(address))
        passes = Passes()
        async with EagerListener(trio.SocketListener(trio.socket.from_stdlib_socket(listener))) as eager:
            trio.lowlevel.add_instrument(passes)
            accepted = [await eager.accept() for _ in range(COUNT)]
            trio.lowlevel.remove_instrument(passes)
            with trio.move_on_after(0) as scope:  # noqa: ASYNC100 - `accept` waits when nobody does
                await eager.accept()
        for stream in accepted:
            await trio.aclose_forcefully(stream)
    assert scope.cancelled_caught
    assert passes.count <= COUNT // AT_ONCE


async def test_processes_that_share_a_socket_take_turns() -> None:
    listener, address = _listening()
    listener.setblocking(False)
    counts = [0, 0]
    with ExitStack() as stack:
        for _ in range(COUNT):
            stack.enter_context(socket.create_connection(address))

        async def accept(place: int) -> None:
            own = trio.SocketListener(trio.socket.from_stdlib_socket(listener.dup()))
            async with EagerListener(own, shared=True) as shared:
                while sum(counts) < COUNT:
                    await trio.aclose_forcefully(await shared.accept())
                    counts[place] += 1
            nursery.cancel_scope.cancel()

        async with trio.open_nursery() as nursery:
            for place in range(2):
                nursery.start_soon(accept, place)
    listener.close()
    assert sum(counts) == COUNT
    assert min(counts) > COUNT // 3


async def test_each_connection_that_waited_for_a_server_is_served() -> None:
    listener, address = _listening()
    with ExitStack() as stack:
        waiting = [stack.enter_context(socket.create_connection(address)) for _ in range(COUNT)]
        for client in waiting:
            client.sendall(request("GET / HTTP/1.1", "Connection: close"))
        async with served(limits=HostLimits(connections_per_address=COUNT), address=Inherited(listener)) as one:
            for client in waiting:
                client.setblocking(False)
                stream = trio.SocketStream(trio.socket.from_stdlib_socket(client))
                assert statuses(await everything(stream)) == [200]
        assert len(one.seen) == COUNT

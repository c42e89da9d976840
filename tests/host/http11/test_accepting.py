"""How connections are accepted that wait together."""

from __future__ import annotations

import errno
import os
import resource
import socket
from collections.abc import Generator
from contextlib import ExitStack, contextmanager

import pytest
import trio
from trio.testing import MockClock

from agentrail.host import HostLimits
from agentrail.host.http11.http_server import OTHER_FILES, files_needed
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

        async def accept(index: int) -> None:
            socket_listener = trio.SocketListener(trio.socket.from_stdlib_socket(listener.dup()))
            async with EagerListener(socket_listener, shared=True) as shared:
                while sum(counts) < COUNT:
                    await trio.aclose_forcefully(await shared.accept())
                    counts[index] += 1
            nursery.cancel_scope.cancel()

        async with trio.open_nursery() as nursery:
            for index in range(2):
                nursery.start_soon(accept, index)
    listener.close()
    assert sum(counts) == COUNT
    assert min(counts) > COUNT // 3


async def test_each_connection_that_waited_for_a_server_is_served() -> None:
    listener, address = _listening()
    with ExitStack() as stack:
        waiting = [stack.enter_context(socket.create_connection(address)) for _ in range(COUNT)]
        for client in waiting:
            client.sendall(request("GET / HTTP/1.1", "Connection: close"))
        async with served(limits=HostLimits(connections_per_address=COUNT), address=Inherited(listener)) as server:
            for client in waiting:
                client.setblocking(False)
                stream = trio.SocketStream(trio.socket.from_stdlib_socket(client))
                assert statuses(await everything(stream)) == [200]
        assert len(server.seen) == COUNT


@contextmanager
def open_files(most: int) -> Generator[int]:
    """Let this process open *most* files during the `with` block, unless it asks for more; yield its hard limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    try:
        yield hard
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextmanager
def no_descriptor_left() -> Generator[None]:
    """Let this process open no file during the `with` block."""
    free = os.dup(0)
    os.close(free)
    with open_files(free):
        yield


async def test_a_server_may_open_as_many_files_as_it_may_have_connections(caplog: pytest.LogCaptureFixture) -> None:
    with open_files(256) as hard:
        async with served(limits=HostLimits(connections=200)):
            assert resource.getrlimit(resource.RLIMIT_NOFILE) == (files_needed(200) + OTHER_FILES, hard)
        async with served(limits=HostLimits(connections=1)):
            assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= 200
        assert not caplog.records
        async with served(limits=HostLimits(connections=hard)):
            assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
        assert f"may open {hard} files, and needs up to {files_needed(hard) + OTHER_FILES}" in caplog.text


async def test_a_process_without_descriptors_says_so_once_and_serves_when_it_has_some(
    caplog: pytest.LogCaptureFixture, autojump_clock: MockClock
) -> None:
    assert autojump_clock.autojump_threshold == 0
    async with served() as server:
        early, late = await server.connect(), socket.socket()
        await early.send_all(request())
        assert (await early.receive_some()).startswith(b"HTTP/1.1 200")  # whatever is opened late is open
        late.setblocking(False)
        with no_descriptor_left():
            with pytest.raises(OSError, match=os.strerror(errno.EMFILE)):
                os.dup(0)
            with pytest.raises(BlockingIOError):
                late.connect(("127.0.0.1", server.port))
            await trio.sleep(60)
            await early.send_all(request())
            assert (await early.receive_some()).startswith(b"HTTP/1.1 200")
            assert [record.levelname for record in caplog.records] == ["ERROR"]
        stream = trio.SocketStream(trio.socket.from_stdlib_socket(late))
        await stream.send_all(request("GET / HTTP/1.1", "Connection: close"))
        assert statuses(await everything(stream)) == [200]
        await trio.aclose_forcefully(stream)
        await trio.aclose_forcefully(early)
        await trio.sleep(60)
        assert statuses(await server.talk(request("GET / HTTP/1.1", "Connection: close"))) == [200]
    begin, end = [record.getMessage() for record in caplog.records]
    assert "no connection can be accepted" in begin
    assert os.strerror(errno.EMFILE) in begin
    assert end.startswith("connections are accepted again, after 1")

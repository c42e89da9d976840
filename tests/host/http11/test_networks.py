"""Whose connections are counted together."""

from __future__ import annotations

from pathlib import Path

import trio
import trio.testing

from agentrail.host import HostLimits
from agentrail.host.http11.listening import UnixSocket
from agentrail.host.requests.proxies import network_of
from tests.each_case import each_case
from tests.host.http11.served import request, served, statuses


@each_case(
    [
        ("10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1", "10.0.0.2", False),
        ("10.0.0.1", "::ffff:10.0.0.1", True),
        ("2001:db8:1:2::1", "2001:db8:1:2:ffff::9", True),
        ("2001:db8:1:2::1", "2001:db8:1:3::1", False),
        ("::ffff:10.0.0.1", "::ffff:10.0.0.2", False),
        ("127.0.0.1", "127.255.0.9", True),
        ("127.0.0.1", "::1", True),
        ("127.0.0.1", "::ffff:127.0.0.2", True),
        ("127.0.0.1", "128.0.0.1", False),
        ("fe80::1%eth0", "fe80::2%eth0", True),
        ("", "", True),
    ]
)
def test_an_address_is_counted_with_its_network(address: str, other: str, together: bool) -> None:
    assert (network_of(address) == network_of(other)) is together


async def test_connections_of_a_unix_socket_are_not_counted_by_address(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    limits = HostLimits(connections_per_address=1)
    async with served(limits=limits, address=UnixSocket(path)) as server:
        streams = [await trio.open_unix_socket(path) for _ in range(3)]
        for stream in streams:
            await stream.send_all(request())
            assert statuses(await stream.receive_some()) == [200]
        await trio.testing.wait_all_tasks_blocked()
        assert repr(server.server) == "<HttpServer with 3 connections, 3 waiting>"
        for stream in streams:
            await stream.aclose()

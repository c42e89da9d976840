"""Where a server listens: ports, TLS, unix sockets."""

from __future__ import annotations

import os
import socket
import ssl
import stat
from pathlib import Path

import pytest
import trio
import trustme

from agentrail.adapters.file_lock import try_lock_file
from agentrail.errors import CannotListen
from agentrail.host import HostLimits
from agentrail.host.http11 import unix_listener
from agentrail.host.http11.listening import Certificate, Tcp, UnixSocket, opened
from tests.host.http11.served import everything, request, served, statuses
from tests.patience import PATIENCE

CLOSE = request("GET / HTTP/1.1", "Connection: close")


async def _ask(path: Path) -> list[int]:
    async with await trio.open_unix_socket(path) as stream:
        await stream.send_all(CLOSE)
        return statuses(await everything(stream))


async def test_a_port_that_is_taken_is_named() -> None:
    async with opened(Tcp()) as first:
        with pytest.raises(CannotListen, match=f"cannot listen at 127.0.0.1:{first.port}: .*choose another"):
            async with opened(Tcp(port=first.port)):
                pass


@pytest.mark.parametrize("address", [Tcp("no.such.host.invalid"), Tcp(port=65536), Tcp(port=-1), Tcp("1.2.3.4.5")])
async def test_an_address_that_is_none_is_named(address: Tcp) -> None:
    with pytest.raises(CannotListen):
        async with opened(address):
            pass


async def test_a_port_is_found_and_told() -> None:
    async with opened(Tcp("localhost")) as host:
        assert host.url == f"http://localhost:{host.port}"
        assert host.port > 0
    async with opened(Tcp("::1")) as host:
        assert host.url == f"http://[::1]:{host.port}"


# Unix sockets


async def test_a_unix_socket_is_for_its_user_alone_and_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    async with served(address=UnixSocket(path)) as server:
        assert stat.filemode(path.lstat().st_mode) == "srw-------"
        assert await _ask(path) == [200]
        assert server.seen[0].peer == "unix"
    assert not list(tmp_path.iterdir())  # noqa: ASYNC240


async def test_a_socket_at_which_somebody_listens_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    async with served(address=UnixSocket(path)):
        with pytest.raises(CannotListen, match="another program listens there"):
            async with opened(UnixSocket(path)):
                pass
        assert await _ask(path) == [200]


async def test_a_socket_at_which_nobody_listens_any_more_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    async with served(address=UnixSocket(path)):
        assert await _ask(path) == [200]


async def test_a_folder_that_another_process_keeps_locked_is_not_waited_for_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unix_listener, "LOCK_WITHIN", 0.05)
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        assert try_lock_file(folder)
        holder = f"process {os.getpid()} of user {os.getuid()}"
        with (
            pytest.raises(CannotListen, match=f"{holder} has locked its folder `{tmp_path}`.*; end that process, or"),
            trio.fail_after(PATIENCE),
        ):
            async with opened(UnixSocket(tmp_path / "socket")):
                pass
    finally:
        os.close(folder)
    async with served(address=UnixSocket(tmp_path / "socket")):
        assert await _ask(tmp_path / "socket") == [200]


async def test_a_file_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    path.write_text("mine")
    for other in (path, tmp_path):
        with pytest.raises(CannotListen, match="no socket"):
            async with opened(UnixSocket(other)):
                pass
    assert path.read_text() == "mine"


async def test_the_socket_of_another_is_left(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    async with served(address=UnixSocket(path)):
        path.rename(tmp_path / "moved")
        with socket.socket(socket.AF_UNIX) as other:
            other.bind(str(path))
    assert path.exists()  # noqa: ASYNC240


async def test_a_path_that_cannot_be_is_named(tmp_path: Path) -> None:
    for path in (tmp_path / "none" / "socket", tmp_path / ("a" * 200)):
        with pytest.raises(CannotListen, match="cannot listen at unix:"):
            async with opened(UnixSocket(path)):
                pass


async def test_of_two_that_start_at_once_one_listens(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    texts: list[str] = []

    async def start() -> None:
        try:
            async with opened(UnixSocket(path)):
                texts.append("listens")
                await trio.testing.wait_all_tasks_blocked()
        except CannotListen:
            texts.append("refused")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(start)
        nursery.start_soon(start)
    assert sorted(texts) == ["listens", "refused"]


# TLS


class Certified:
    """A server with a certificate, and a client that trusts it."""

    def __init__(self, folder: Path) -> None:
        authority = trustme.CA()
        issued = authority.issue_cert("127.0.0.1", "localhost")
        self.pem = folder / "server.pem"
        issued.private_key_and_cert_chain_pem.write_to_path(self.pem)
        self.authority = folder / "authority.pem"
        authority.cert_pem.write_to_path(self.authority)
        self.client = ssl.create_default_context()
        authority.configure_trust(self.client)

    @property
    def address(self) -> Tcp:
        return Tcp(tls=Certificate(self.pem))

    async def connect(self, port: int) -> trio.SSLStream[trio.SocketStream]:
        plain = await trio.open_tcp_stream("127.0.0.1", port)
        return trio.SSLStream(plain, self.client, server_hostname="localhost", https_compatible=True)


@pytest.fixture
def certified(tmp_path: Path) -> Certified:
    return Certified(tmp_path)


async def test_requests_are_served_by_tls(certified: Certified) -> None:
    async with served(address=certified.address) as server, await certified.connect(server.port) as stream:
        await stream.send_all(request("POST / HTTP/1.1", "Content-Length: 3") + b"abc" + CLOSE)
        answers = await everything(stream)
    assert statuses(answers) == [200, 200]
    assert server.seen[0].peer == "127.0.0.1"


async def test_what_is_no_tls_is_closed_and_harms_nobody(certified: Certified) -> None:
    async with served(address=certified.address) as server:
        for sent in (request(), b"\x16\x03\x01\x00\x05hello", b"\x00" * 100, b""):
            assert statuses(await server.talk(sent)) == []
        async with await certified.connect(server.port) as stream:
            await stream.send_all(CLOSE)
            assert statuses(await everything(stream)) == [200]
    assert len(server.seen) == 1


async def test_a_handshake_that_does_not_come_takes_no_place_for_long(certified: Certified) -> None:
    limits = HostLimits(header_seconds=0.05)
    async with served(limits=limits, address=certified.address) as server, await server.connect() as stream:
        assert await everything(stream) == b""


async def test_old_versions_of_tls_are_refused(certified: Certified) -> None:
    assert certified.address.tls is not None
    assert certified.address.tls.context.minimum_version == ssl.TLSVersion.TLSv1_2

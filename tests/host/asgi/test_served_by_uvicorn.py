"""`agentrail serve --server uvicorn`: the same host, behind a server that nobody here wrote."""

from __future__ import annotations

import signal
import socket
import ssl
from pathlib import Path

import pytest
import trio
import trustme

import agentrail
from agentrail.cli.command import main
from agentrail.cli.exit_codes import WRONG_USAGE
from tests.host.commanded import LOG, SERVE, commanded
from tests.host.hosted import KEYS, LINES
from tests.host.rfc6455.raw_frames import Opcode, frame
from tests.host.rfc6455.raw_peer import shaken, upgrade

BY_UVICORN = ("--server", "uvicorn", "--port", "0")
APP = """
from agentrail import SessionSpec
from agentrail.host import Profile
desk = Profile("desk", SessionSpec(model="demo"))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "keys.txt").write_text(LINES, encoding="utf-8")
    (tmp_path / "keys.txt").chmod(0o600)
    return tmp_path


def certified(folder: Path) -> ssl.SSLContext:
    """Write a certificate of 127.0.0.1 into *folder*, and return the context of a client that trusts it."""
    authority, trusted = trustme.CA(), ssl.create_default_context()
    authority.configure_trust(trusted)
    certificate = authority.issue_cert("127.0.0.1")
    certificate.private_key_and_cert_chain_pem.write_to_path(folder / "own.pem")
    return trusted


@pytest.mark.long
@pytest.mark.parametrize("has_tls", [False, True], ids=["plain", "tls"])
async def test_a_session_is_talked_to_by_uvicorn_and_comes_back(folder: Path, *, has_tls: bool) -> None:
    trusted = certified(folder)
    tls = ["--tls", "own.pem", "own.pem"] if has_tls else []
    command = [*SERVE, "app.py", "--keys", "keys.txt", "--journal", "kept.db", *BY_UVICORN, *tls]
    for count in (2, 4):
        async with commanded(command, folder) as served:
            assert "agentrail serves the Profile `desk` of app.py by uvicorn at http" in served.printed
            assert served.url.startswith("https" if has_tls else "http:")
            async with agentrail.connect(served.url, KEYS["ann"], tls=trusted) as host:
                session = await host.spawn("desk", "trip", command="open")
                assert "demo model" in (await session.ask("Hi")).text
                assert len(await session.messages()) == count
            served.process.send_signal(signal.SIGTERM)
            assert await served.process.wait() == 0
    assert "Traceback" not in (folder / LOG).read_text(encoding="utf-8")


@pytest.mark.long
async def test_a_websocket_that_its_peer_has_begun_to_end_is_in_nobody_s_way(folder: Path) -> None:
    trusted = certified(folder)
    command = [*SERVE, "app.py", "--keys", "keys.txt", *BY_UVICORN, "--tls", "own.pem", "own.pem"]
    async with commanded(command, folder) as served:
        tcp = await trio.open_tcp_stream("127.0.0.1", int(served.url.rpartition(":")[2]))
        async with trio.SSLStream(tcp, trusted, server_hostname="127.0.0.1") as stream:
            peer = await shaken(stream, upgrade("/v1/ws", f"Authorization: Bearer {KEYS['ann']}"))
            await peer.send(frame(Opcode.CLOSE, b"\x03\xe8"))
            while not peer.heard.closes:
                assert await peer.more()
            served.process.send_signal(signal.SIGTERM)  # the connection lasts until the peer has ended TLS too
            assert await served.process.wait() == 0, served.log
    assert "Traceback" not in served.log


@pytest.mark.long
@pytest.mark.parametrize("family", ["tcp", "unix"])
async def test_the_address_of_an_inherited_socket_is_told(folder: Path, family: str) -> None:
    path = folder / "s"
    address = ("127.0.0.1", 0) if family == "tcp" else str(path)
    kind = socket.AF_INET if family == "tcp" else socket.AF_UNIX
    with socket.create_server(address, family=kind) as listener:
        name, number = listener.getsockname(), listener.fileno()
        url = f"unix:{path}" if family == "unix" else f"http://127.0.0.1:{name[1]}"
        command = [*SERVE, "app.py", "--keys", "keys.txt", "--server", "uvicorn", "--descriptor", str(number)]
        async with commanded(command, folder, descriptors=[number]) as served:
            assert f"by uvicorn at {url}\n" in served.printed
            async with agentrail.connect(url, KEYS["ann"]) as host:
                assert "demo model" in (await (await host.spawn("desk", "trip")).ask("Hi")).text


@pytest.mark.long
@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (
            (),
            "--server uvicorn needs keys, as an app does not know who reaches its server: give --keys PATH",
        ),
        (("--keys", "keys.txt", "--port", "65536"), "cannot listen at 127.0.0.1:65536: there is no such port"),
        (("--keys", "keys.txt", "--tls", "gone.pem", "key.pem"), "gone.pem cannot be read"),
    ],
)
async def test_what_uvicorn_cannot_serve_is_told(folder: Path, arguments: tuple[str, ...], problem: str) -> None:
    command = [*SERVE, "app.py", *BY_UVICORN, *arguments]
    done = await trio.run_process(command, cwd=folder, capture_stderr=True, check=False)
    assert (done.returncode, problem in done.stderr.decode()) == (2, True)


@pytest.mark.parametrize("other", [["--unix", "s"], ["--token", "x" * 32], ["--cores", "2"], ["--reload", __file__]])
def test_options_that_uvicorn_has_no_use_for_are_refused(other: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", *other, *BY_UVICORN]) == WRONG_USAGE
    assert "--server is for one process at a port, without --unix, --cores" in capsys.readouterr().err

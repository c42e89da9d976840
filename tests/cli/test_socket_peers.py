"""Who is at the other end of the socket of a journal: no other user, and nobody in a sandbox."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

import httpx
import pytest
import trio

from agentrail.adapters import peer_process
from agentrail.adapters.peer_process import StrangePeerError, check_peer
from agentrail.cli.agents.agent_source import profile_of
from agentrail.cli.host.unix_endpoint import UnixEndpoint
from agentrail.errors import CannotListen
from agentrail.host import Host
from agentrail.host.authentication.authenticators import SocketOwner
from agentrail.sandboxes import BubblewrapSandbox, Command
from tests.patience import PATIENCE
from tests.sandboxes.kinds import needs_bubblewrap

pytestmark = pytest.mark.long

STRANGER: Final = 12345
"""Number of a user who is nobody here."""

PYTHON: Final = shutil.which("python3", path="/usr/bin:/bin")
"""A Python that other users may run, too."""

needs_root = pytest.mark.skipif(
    os.getuid() != 0 or PYTHON is None, reason="only root starts processes of other users, by a Python for all of them"
)


@asynccontextmanager
async def served_for_its_owner(path: Path) -> AsyncGenerator[None]:
    """Serve at the socket *path* as `chat` does: a request there needs no token."""
    async with Host(profile_of, authenticator=SocketOwner()).serving(unix=path):
        yield


async def status_at(path: Path) -> int:
    transport = httpx.AsyncHTTPTransport(uds=str(path))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        return (await client.get("/v1/sessions")).status_code


ASKS: Final = """
import socket, sys
with socket.socket(socket.AF_UNIX) as line:
    line.connect(sys.argv[1])
    try:
        line.sendall(b"GET /v1/sessions HTTP/1.1\\r\\nhost: localhost\\r\\nconnection: close\\r\\n\\r\\n")
        print("got", line.recv(100) or "nothing")
    except (BrokenPipeError, ConnectionResetError):
        print("got nothing")
"""
"""Asks for the sessions at a socket, and prints the beginning of the answer."""


@needs_bubblewrap
async def test_a_confined_command_that_reaches_the_socket_is_not_answered(tmp_path: Path) -> None:
    (tmp_path / "ask.py").write_text(ASKS)
    async with served_for_its_owner(tmp_path / "s.sock"):
        sandbox = BubblewrapSandbox(tmp_path)
        command = "/usr/bin/env python3 ask.py s.sock"
        done = await sandbox.execute(Command(command, timeout=20, merge=True))
        assert "got nothing" in done.stdout.text
        assert await status_at(tmp_path / "s.sock") == 200


@needs_root
async def test_a_process_of_another_user_is_not_answered_whatever_the_modes_are() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)  # noqa: ASYNC240
        async with served_for_its_owner(folder / "s.sock"):
            (folder / "s.sock").chmod(0o777)
            command = [str(PYTHON), "-c", ASKS, str(folder / "s.sock")]
            done = await trio.run_process(command, capture_stdout=True, capture_stderr=True, check=False, user=STRANGER)
            assert done.stdout == b"got nothing\n", done.stderr


@contextmanager
def listening(path: Path, *, user: int | None) -> Generator[None]:
    """Have another process listen at *path*, whose file is this user's: it was swapped after it was looked at."""
    code = "import socket, sys; socket.socket(fileno=int(sys.argv[1])).listen(); print(flush=True); sys.stdin.read()"
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(path))
        command = [sys.executable if user is None else str(PYTHON), "-c", code, str(bound.fileno())]
        with subprocess.Popen(  # noqa: S603 - our own program
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=(bound.fileno(),), user=user
        ) as process:
            assert process.stdout is not None
            process.stdout.readline()
            yield
            process.communicate()


@needs_root
async def test_a_socket_of_this_user_at_which_another_user_listens_is_not_talked_to(tmp_path: Path) -> None:
    endpoint = UnixEndpoint(tmp_path / "j.db")
    with listening(endpoint.socket, user=STRANGER), pytest.raises(CannotListen, match=f"is of user {STRANGER}"):
        await endpoint.reach()


async def test_a_socket_at_which_another_process_of_this_user_listens_is_talked_to(tmp_path: Path) -> None:
    endpoint = UnixEndpoint(tmp_path / "j.db")
    with listening(endpoint.socket, user=None):
        await trio.aclose_forcefully(await endpoint.reach())


@needs_bubblewrap
async def test_a_socket_at_which_a_confined_command_listens_is_not_talked_to(tmp_path: Path) -> None:
    code = (
        "import socket; s = socket.socket(socket.AF_UNIX); s.bind('planted'); s.listen(); print('here', flush=True); "
        "s.accept()[0].recv(1)"
    )
    sandbox = BubblewrapSandbox(tmp_path)
    here = trio.Event()
    async with trio.open_nursery() as nursery:
        process = sandbox.prepare(
            Command(f'/usr/bin/env python3 -c "{code}"', timeout=2 * PATIENCE, merge=True), lambda *_: here.set()
        )
        nursery.start_soon(process.run)
        with trio.fail_after(PATIENCE):
            await here.wait()
        async with await trio.open_unix_socket(tmp_path / "planted") as line:
            with pytest.raises(StrangePeerError, match=r"in a sandbox or a container.*\(namespaces: .*mnt.*\)"):
                check_peer(line.socket)
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("option", [peer_process.SO_PEERPIDFD, 12345], ids=["new kernel", "old kernel"])
def test_a_process_that_has_ended_is_nobody(option: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_process, "SO_PEERPIDFD", option)
    path = tmp_path / "s.sock"
    with socket.socket(socket.AF_UNIX) as line:
        with listening(path, user=None):
            line.connect(str(path))
            check_peer(line)
        with pytest.raises(ConnectionRefusedError, match="has ended"):
            check_peer(line)

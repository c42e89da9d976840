"""A socket that another process has opened: between two that serve, connections wait. Real processes and signals."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
import trio
import trio.testing

from agentrail import SessionSpec
from agentrail.errors import BadChoice, CannotListen
from agentrail.host import Host, Profile
from tests.host.commanded import SERVE, commanded
from tests.host.hosted import KEYS, LINES
from tests.patience import PATIENCE

WITH_KEYS = (*SERVE, "--keys", "keys.txt")
ANYWHERE = "0.0.0.0"  # noqa: S104 - it is refused


@pytest.fixture
def listener() -> Generator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "keys.txt").write_text(LINES, encoding="utf-8")
    (tmp_path / "keys.txt").chmod(0o600)
    return tmp_path


@asynccontextmanager
async def served(command: tuple[str, ...], folder: Path, listener: socket.socket) -> AsyncGenerator[str]:
    """Start a process that serves, yield what it says, and end it by SIGTERM."""
    async with commanded(command, folder, descriptors=(listener.fileno(),)) as process:
        yield process.printed
        process.process.send_signal(signal.SIGTERM)
        assert await process.process.wait() == 0


@pytest.mark.long
async def test_between_two_processes_connections_wait(folder: Path, listener: socket.socket) -> None:
    command = (*WITH_KEYS, "--descriptor", str(listener.fileno()))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    statuses = Counter[int]()
    headers = {"authorization": f"Bearer {KEYS['ann']}", "connection": "close"}

    async def ask(client: httpx.AsyncClient) -> None:
        statuses[(await client.get("/v1/sessions")).status_code] += 1

    with trio.fail_after(90):
        async with httpx.AsyncClient(base_url=url, headers=headers, timeout=60, trust_env=False) as client:
            async with served(command, folder, listener) as server:
                assert f"at {url}\n" in server
                await ask(client)
            async with trio.open_nursery() as nursery:
                for _ in range(20):
                    nursery.start_soon(ask, client)
                await trio.testing.wait_all_tasks_blocked()
                assert statuses == {200: 1}
                async with served(command, folder, listener):
                    with trio.fail_after(30):
                        while statuses.total() < 21:  # noqa: ASYNC110 - the other process answers them
                            await trio.sleep(0.02)
    assert statuses == {200: 21}


ACTIVATED = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ.update(LISTEN_FDS=sys.argv[2], LISTEN_PID=str(os.getpid()))
os.execv(sys.argv[3], sys.argv[3:])
"""


@pytest.mark.long
async def test_systemd_passes_one_on(folder: Path, listener: socket.socket) -> None:
    activated = (sys.executable, "-c", ACTIVATED, str(listener.fileno()), "1", *WITH_KEYS)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    with trio.fail_after(60):
        async with served(activated, folder, listener) as server:
            assert f"at {url}\n" in server
            async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=PATIENCE) as client:
                assert (await client.get("/healthz")).status_code == 200


@pytest.mark.long
async def test_of_two_that_systemd_passes_on_none_is_taken(folder: Path, listener: socket.socket) -> None:
    activated = (sys.executable, "-c", ACTIVATED, str(listener.fileno()), "2", *WITH_KEYS)
    descriptors = (listener.fileno(),)
    done = await trio.run_process(activated, cwd=folder, capture_stderr=True, check=False, pass_fds=descriptors)
    assert done.returncode == 2
    assert b"systemd gives 2 sockets, and one is served; give its unit one `ListenStream=`" in done.stderr


async def test_what_does_not_listen_is_refused(tmp_path: Path) -> None:
    host = Host([Profile("desk", SessionSpec(model="demo"))])
    with socket.socket() as idle, socket.socket(type=socket.SOCK_DGRAM) as packets, (tmp_path / "a").open("wb") as file:
        for descriptor, problem in (
            (idle.fileno(), "nothing listens there"),
            (packets.fileno(), "it is no stream socket"),
            (file.fileno(), "not a socket|non-socket|not socket"),
            (-1, "cannot listen at descriptor -1"),
        ):
            with pytest.raises(CannotListen, match=f"(?i){problem}"):
                async with host.serving(descriptor=descriptor):
                    pass
            if descriptor >= 0:
                os.fstat(descriptor)  # it is still open


async def test_without_keys_one_for_everybody_is_refused() -> None:
    host = Host([Profile("desk", SessionSpec(model="demo"))])
    descriptor = socket.create_server((ANYWHERE, 0)).detach()
    with pytest.raises(BadChoice, match=r"host='0\.0\.0\.0'"):
        async with host.serving(descriptor=descriptor):
            pass

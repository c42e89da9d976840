"""The hosts on a database are replaced one after the other by newer code, while clients talk to all of them.

`AGENTRAIL_PROFILE=campaign` does it with more hosts and sessions.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import pytest
import trio
from attrs import define

import agentrail
from agentrail.journals import PostgresJournal
from tests.adapters.journals.postgres.server import needs_postgres
from tests.free_port import free_port
from tests.host.commanded import SERVE, Served, commanded
from tests.host.deployed.client import Answer, Client
from tests.host.deployed.crowd import checked, come_to_rest, deployment, ended
from tests.host.hosted import KEYS
from tests.profiles import CAMPAIGN

pytestmark = pytest.mark.long

DESK = Path(__file__).with_name("desk.py")
HOSTS = 3 if CAMPAIGN else 2
SESSIONS = 100 if CAMPAIGN else 4
LONGEST = 0.3
TURNS = 1
"""Turns that each client has, at least, with each set of hosts."""

NEWER = "7.7.7"
NEWER_CODE = f'''"""The version of a later release."""

__version__ = "{NEWER}"
'''


@define(slots=False)
class BalancedClient(Client):
    """A client behind a balancer, which sends each request to any of the hosts that take some."""

    ports: Sequence[int] = ()

    @asynccontextmanager
    async def _asked(
        self, method: str, path: str, headers: Sequence[tuple[str, str]], body: bytes = b""
    ) -> AsyncGenerator[Answer]:
        self.port = self.chance.choice(self.ports)
        async with super()._asked(method, path, headers, body) as answer:
            yield answer


@define
class Upgrade:
    """Hosts whose code is replaced."""

    folder: Path
    journal: str
    clients: list[BalancedClient]
    ports: list[int]
    """Of the hosts that take requests."""

    async def host(self, port: int, code: Path, *, task_status: trio.TaskStatus[Served]) -> None:
        """Serve with *code* at *port* until the process ends."""
        env = {**environment(code), "JOURNAL": self.journal, "ADDRESS": f"http://127.0.0.1:{port}"}
        async with commanded([*SERVE, str(DESK), "--port", str(port)], self.folder, env=env) as served:
            self.ports.append(port)
            task_status.started(served)
            await served.process.wait()

    async def leave(self, port: int, served: Served) -> None:
        """End a host; the balancer has noticed that it is not ready."""
        self.ports.remove(port)
        await ended(served)

    async def turns(self) -> None:
        """Wait until each client had some turns."""
        counts = [len(client.acknowledged) for client in self.clients]
        with trio.fail_after(60):
            for client, count in zip(self.clients, counts, strict=True):
                while len(client.acknowledged) < count + TURNS:  # noqa: ASYNC110 - no event tells of it
                    await trio.sleep(0.05)


def environment(code: Path) -> dict[str, str]:
    """Return the environment of a process with the package in the folder *code*."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(code), str(Path(__file__).parents[3])])}


def newer_code(folder: Path) -> Path:
    """Return a folder with a copy of the package that has a later version."""
    package = folder / "agentrail"
    shutil.copytree(Path(agentrail.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "version.py").write_text(NEWER_CODE, encoding="utf-8")
    return folder


async def version(env: Mapping[str, str]) -> str:
    """Return the version of agentrail that a process with the environment *env* runs."""
    command = [sys.executable, "-P", "-c", "import agentrail; print(agentrail.__version__)"]
    return (await trio.run_process(command, env=env, capture_stdout=True)).stdout.decode().strip()


@pytest.mark.campaign
@needs_postgres
async def test_hosts_that_are_replaced_by_newer_code_lose_no_word(tmp_path: Path, url: str) -> None:
    older, newer = Path(agentrail.__file__).parents[1], newer_code(tmp_path / "newer")
    assert await version(environment(newer)) == NEWER != await version(environment(older))
    async with deployment(tmp_path / "desk") as deployed, trio.open_nursery() as processes:
        ports: list[int] = []
        clients = [
            BalancedClient(0, KEYS["ann"], f"s{number}", Random(number), LONGEST, ports=ports)
            for number in range(SESSIONS)
        ]
        upgrade = Upgrade(deployed.folder, url, clients, ports)
        first = [free_port() for _ in range(HOSTS)]
        hosts = [(port, await processes.start(upgrade.host, port, older)) for port in first]
        async with trio.open_nursery() as nursery:
            for client in clients:
                nursery.start_soon(client.use)
            await upgrade.turns()
            for port, served in hosts:
                await upgrade.leave(port, served)
                await processes.start(upgrade.host, port, newer)
                await upgrade.turns()
            await come_to_rest(clients)
        processes.cancel_scope.cancel()
    figures = await checked(deployed, clients, PostgresJournal(url))
    print(f"\n{SESSIONS} sessions, {HOSTS} hosts replaced: {dict(figures)}")  # noqa: T201
    assert (figures["unknown"], figures["refused"], figures["aborted"]) == (0, 0, 0), figures
    assert len(deployed.times("ended")) == len(deployed.times("began"))
    assert figures["cuts"] >= SESSIONS

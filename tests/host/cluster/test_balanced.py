"""What the file of Compose says is run: a balancer in front of three hosts, of which one is killed and one drained."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from random import Random

import pytest
import trio

from agentrail.journals import PostgresJournal
from tests.adapters.journals.postgres.server import needs_postgres
from tests.docs.sources import ROOT
from tests.free_port import free_port
from tests.host.cluster.several import KEY
from tests.host.commanded import SERVE, Served, commanded
from tests.host.deployed.client import Client
from tests.host.deployed.crowd import checked, come_to_rest, deployment
from tests.host.deployed.line_client import LineClient
from tests.host.hosted import KEYS
from tests.patience import PATIENCE

pytestmark = pytest.mark.long

FOLDER = ROOT / "docs" / "examples" / "cluster"
HAPROXY = shutil.which("haproxy", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
HOSTS = ("host-1", "host-2", "host-3")
LEASE = 2

needs_haproxy = pytest.mark.skipif(HAPROXY is None, reason="NOT PROVED: run `make balancer` first: no haproxy here")


def command() -> list[str]:
    """Return the options of the hosts, as the file of Compose gives them, for this machine."""
    (text,) = re.findall(r"^  command: (\[.*\])$", (FOLDER / "compose.yaml").read_text(encoding="utf-8"), re.MULTILINE)
    options: list[str] = json.loads(text)
    here = {"0.0.0.0": "127.0.0.1", "172.30.87.0/24": "127.0.0.0/8"}  # noqa: S104 - it is what is replaced
    assert set(here) <= set(options)
    return [here.get(option, option) for option in options]


@asynccontextmanager
async def serving(folder: Path, database: str, port: int) -> AsyncGenerator[Served]:
    """Serve by a host of the file of Compose, with its program, options and environment."""
    env = {**os.environ, "DATABASE_URL": database, "CLUSTER_KEY": KEY, "ADDRESS": f"http://127.0.0.1:{port}"}
    async with commanded([*SERVE, "app.py", *command(), "--port", str(port)], folder, env=env) as served:
        yield served


@asynccontextmanager
async def balancing(folder: Path, ports: Sequence[int]) -> AsyncGenerator[int]:
    """Run the balancer with its file in front of hosts at *ports*; yield its own port."""
    port, text = free_port(), (FOLDER / "haproxy.cfg").read_text(encoding="utf-8")
    places = {"bind :8765": f"bind 127.0.0.1:{port}"}
    places |= {f"{name}:8765": f"127.0.0.1:{number}" for name, number in zip(HOSTS, ports, strict=True)}
    for address, here in places.items():
        assert text.count(address) == 1
        text = text.replace(address, here)
    (folder / "haproxy.cfg").write_text(text, encoding="utf-8")
    async with trio.open_nursery() as nursery:
        with (folder / "haproxy.log").open("ab") as log:
            run = partial(trio.run_process, stdout=log, stderr=log, check=False)
            process: trio.Process = await nursery.start(run, [str(HAPROXY), "-db", "-f", str(folder / "haproxy.cfg")])
        with trio.fail_after(PATIENCE):
            while not await is_open(port):
                assert process.poll() is None, (folder / "haproxy.log").read_text(encoding="utf-8")
                await trio.sleep(0.02)
        try:
            yield port
        finally:
            process.kill()


async def is_open(port: int) -> bool:
    try:
        await (await trio.open_tcp_stream("127.0.0.1", port)).aclose()
    except OSError:
        return False
    return True


async def go_on(clients: Sequence[Client]) -> None:
    """Wait until each client has had two more prompts taken."""
    counts = [len(client.acknowledged) for client in clients]
    with trio.fail_after(PATIENCE):
        for client, count in zip(clients, counts, strict=True):
            while len(client.acknowledged) < count + 2:  # noqa: ASYNC110 - no event tells of it
                await trio.sleep(0.05)


@pytest.mark.campaign
@needs_postgres
@needs_haproxy
async def test_clients_of_a_balancer_notice_but_a_pause(tmp_path: Path, url: str) -> None:
    ports = [free_port() for _ in HOSTS]
    async with deployment(tmp_path / "desk") as hosts:
        program = (FOLDER / "app.py").read_text(encoding="utf-8")
        assert "lease=10" in program
        (hosts.folder / "app.py").write_text(program.replace("lease=10", f"lease={LEASE}"), encoding="utf-8")
        (hosts.folder / "keys").mkdir()
        (hosts.folder / "keys.txt").rename(hosts.folder / "keys" / "keys.txt")
        async with AsyncExitStack() as stack:
            served = [await stack.enter_async_context(serving(hosts.folder, url, port)) for port in ports]
            balancer = await stack.enter_async_context(balancing(hosts.folder, ports))
            nursery = await stack.enter_async_context(trio.open_nursery())
            chance = Random("balancer")
            kinds = (Client, LineClient, Client, LineClient)
            clients = [kind(balancer, KEYS["ann"], f"s{index}", chance, 0.1) for index, kind in enumerate(kinds)]
            for client in clients:
                nursery.start_soon(client.use)
            for client in clients:
                await client.began()
            await go_on(clients)
            served[0].process.kill()
            assert await served[0].process.wait() == -signal.SIGKILL
            await go_on(clients)
            served[1].process.terminate()
            assert await served[1].process.wait() == 0
            await go_on(clients)
            await come_to_rest(clients)
            nursery.cancel_scope.cancel()
        figures = await checked(hosts, clients, PostgresJournal(url))
    print(f"\n{dict(figures)}")  # noqa: T201
    assert (figures["refused"], figures["aborted"]) == (0, 0)
    assert figures["cuts"] > 0

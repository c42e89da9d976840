"""Hosts of one PostgreSQL server behind a load balancer, clients of theirs, and what can go wrong with all of them."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from itertools import cycle
from pathlib import Path
from random import Random
from subprocess import PIPE

import psycopg
import trio
from attrs import define, field

from agentrail.adapters.journals.sql.sql_tables import as_stored, as_text
from agentrail.journals import PostgresJournal
from tests.adapters.journals.postgres.server import PostgresServer
from tests.free_port import free_port
from tests.host.cluster.balancer import Balancer
from tests.host.cluster.busy_clients import BusyClient, BusyLineClient
from tests.host.cluster.networks import Networks
from tests.host.cluster.several import LEASE
from tests.host.deployed.crowd import Deployment, checked, come_to_rest, deployment
from tests.host.hosted import KEYS
from tests.patience import PATIENCE

DESK = Path(__file__).with_name("desk.py")
LONGEST = 0.3
PORT = 8765
WINDOW = 5.0
"""Seconds over which claims are counted."""
FORGE = (sys.executable, "-m", "tests.host.cluster.forge")
STOPS = "immediate stops of PostgreSQL"
KILLS = ("kills of ", STOPS)
"""How the names of figures begin that count kills."""
HELD = """select s.id from agentrail.session s join agentrail.lease l on l.key = s.lease
where s.held = 1 and l.holder = %b and l.until > agentrail.now_ms()"""


@define
class Endpoint:
    """One host: where it is, and its process as long as it runs."""

    ip: str
    """Where other hosts reach it."""
    port: int
    front: str
    """IP address where the balancer reaches it."""
    listens: str = "127.0.0.1"
    """IP address at which it listens."""
    around: tuple[str, ...] = ()
    """The command that runs its process, such as one that enters a network namespace."""
    clock: float = 0.0
    """By how many seconds its clock is wrong."""
    pid: int = 0
    """Its process; 0 if none runs."""

    @property
    def address(self) -> str:
        """How other hosts reach it."""
        return f"http://{self.ip}:{self.port}"

    @property
    def end(self) -> tuple[str, int]:
        """How the balancer reaches it."""
        return self.front, self.port


@define(eq=False)
class Forge:
    """The process that makes hosts in one network namespace."""

    process: trio.Process
    _lock: trio.Lock = field(factory=trio.Lock)

    async def make(self, env: Mapping[str, str], args: Sequence[str]) -> int:
        """Have a host made, and return the id of its process."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        async with self._lock:
            await self.process.stdin.send_all(json.dumps({"env": env, "args": args}).encode() + b"\n")
            text = b""
            while not text.endswith(b"\n"):
                piece = await self.process.stdout.receive_some()
                assert piece, text
                text += piece
        return int(text)


@define
class Crew:
    """The hosts, their server, and clients that use them until the end."""

    hosts: Deployment
    server: PostgresServer
    endpoints: list[Endpoint]
    balancer: Balancer
    nursery: trio.Nursery
    chance: Random
    url: str
    lease: float
    program: Sequence[str] = (str(DESK),)
    """What hosts serve, with the options of that."""
    clients: list[BusyClient] = field(factory=list)
    deaths: list[tuple[float, frozenset[str]]] = field(factory=list)
    """When each host died, and the names of its sessions."""
    figures: Counter[str] = field(factory=Counter)
    _forges: dict[tuple[str, ...], Forge] = field(factory=dict)
    _forging: trio.Lock = field(factory=trio.Lock)

    # Hosts

    async def start(self, endpoint: Endpoint) -> None:
        """Have a process serve at *endpoint*."""
        env = {"JOURNAL": self.url, "ADDRESS": endpoint.address, "CLOCK": str(endpoint.clock), "LEASE": str(self.lease)}
        forge = await self._forge(endpoint.around)
        endpoint.pid = await forge.make(env, [*self.program, "--host", endpoint.listens, "--port", str(endpoint.port)])
        with trio.fail_after(4 * PATIENCE):  # the first of all have to import what they need, all at once
            while not await _accepts(endpoint):  # noqa: ASYNC110 - no event tells of it
                await trio.sleep(0.02)

    async def _forge(self, around: tuple[str, ...]) -> Forge:
        async with self._forging:
            if around not in self._forges:
                env = {**self.hosts.env, "PYTHONPATH": str(Path(__file__).parents[3])}
                run = partial(trio.run_process, cwd=self.hosts.folder, env=env, stdin=PIPE, stdout=PIPE)
                process: trio.Process = await self.nursery.start(run, [*around, *FORGE])
                self._forges[around] = Forge(process)
        return self._forges[around]

    async def kill(self, endpoint: Endpoint) -> None:
        """Kill a host, and wait for its end."""
        await self.kill_process(endpoint.pid, endpoint.address, "hosts")
        with suppress(ProcessLookupError):
            while True:  # its parent is the forge
                os.kill(endpoint.pid, 0)
                await trio.sleep(0.01)

    async def kill_process(self, pid: int, holder: str, kind: str) -> None:
        """Kill a process, and note what it had as the *holder* of sessions."""
        held = await self.held_by(holder)
        os.kill(pid, signal.SIGKILL)
        self.deaths.append((time.monotonic(), held))
        self.figures[f"kills of {kind}"] += 1

    async def held_by(self, holder: str) -> frozenset[str]:
        """Return the names of the sessions that a holder has; none while the server is away."""
        return await trio.to_thread.run_sync(self._held, holder)

    def _held(self, holder: str) -> frozenset[str]:
        try:
            with psycopg.connect(self.server.url, connect_timeout=2) as connection:
                rows = connection.execute(HELD.encode(), [as_stored(holder)], binary=True).fetchall()
        except psycopg.Error:
            return frozenset()
        return frozenset(as_text(row[0]).rpartition(".")[2] for row in rows)

    async def restart(self, endpoint: Endpoint) -> None:
        """Kill a host, and start it again after a while."""
        await self.kill(endpoint)
        await trio.sleep(self.chance.uniform(0, 1.5 * self.lease))
        await self.start(endpoint)

    async def stop_for_a_while(self, endpoint: Endpoint) -> None:
        """Stop a host for longer than its lease; then it goes on, as if no time had passed."""
        self.figures["stopped and continued"] += 1
        os.kill(endpoint.pid, signal.SIGSTOP)
        self.balancer.take_out(endpoint.end)
        try:
            await trio.sleep(self.lease * self.chance.uniform(1.5, 2.5))
        finally:
            os.kill(endpoint.pid, signal.SIGCONT)
            self.balancer.out.discard(endpoint.end)

    async def cut_off(self, number: int, of: Networks, names: Sequence[str]) -> None:
        """Cut a host off from networks for a while; the balancer notices if it is one of them."""
        endpoint = self.endpoints[number]
        self.figures["partitions"] += 1
        self.figures[f"cut off from {', '.join(names)}"] += 1
        for name in names:
            of.cut(name, number)
        if "clients" in names:
            self.balancer.take_out(endpoint.end)
        try:
            await trio.sleep(self.lease * self.chance.uniform(0.5, 2.5))
        finally:
            for name in names:
                of.join(name, number)
            self.balancer.out.discard(endpoint.end)

    # The server

    async def kill_server(self) -> None:
        """Kill all processes of PostgreSQL, or end it at once, and start it again."""
        if self.chance.random() < 0.5:
            self.figures["kills of PostgreSQL"] += 1
            await trio.to_thread.run_sync(self.server.kill)
        else:
            self.figures[STOPS] += 1
            await trio.to_thread.run_sync(self.server.stop, signal.SIGQUIT)
        await trio.sleep(self.chance.uniform(0, 0.5))
        await trio.to_thread.run_sync(self.server.start)

    # Clients

    def admit(self, count: int) -> None:
        """Let clients come."""
        kinds: Sequence[type[BusyClient]] = (BusyClient, BusyLineClient)
        for number, kind in zip(range(count), cycle(kinds), strict=False):
            name = f"s{number}"
            client = kind(self.balancer.port, KEYS["ann"], name, Random(f"{self.chance.random()} {name}"), LONGEST, 0.2)
            self.clients.append(client)
            self.nursery.start_soon(client.use)

    @property
    def kills(self) -> int:
        """How many processes were killed."""
        return sum(count for name, count in self.figures.items() if name.startswith(KILLS))

    async def audit(self) -> None:
        """Have the clients come to rest, check what they were told, and complete the figures."""
        await come_to_rest(self.clients)
        self.figures += await checked(self.hosts, self.clients, PostgresJournal(self.url))
        self.figures["late writes refused"] = len(self.hosts.calls("fenced"))
        for client in self.clients:
            met = client.problems + (client.errors if isinstance(client, BusyLineClient) else Counter())
            self.figures += Counter({f"met {name}": count for name, count in met.items()})
        self.figures["forks"] = sum(client.forks for client in self.clients)

    def table(self) -> str:
        """Return the figures as lines."""
        rows = [f"{name}: {count}" for name, count in self.figures.items()]
        rows.append(f"claims a second of a session that another host holds, at most: {self.claims_per_second():.1f}")
        if gaps := self.gaps():
            p50, p99 = (gaps[int(len(gaps) * share)] for share in (0.5, 0.99))
            rows.append(f"{len(gaps)} gaps after kills: p50 {p50:.2f} s, p99 {p99:.2f} s")
        return "\n".join(["", f"kills: {self.kills}", *rows])

    def claims_per_second(self) -> float:
        """Return how often a second one host claims a session that another one holds, at most, over `WINDOW`."""
        times: dict[str, list[float]] = {}
        for key, claimed_at in self.hosts.calls("held"):
            times.setdefault(key, []).append(claimed_at)
        return max((_most_within(WINDOW, sorted(claims)) for claims in times.values()), default=0) / WINDOW

    def gaps(self) -> list[float]:
        """Return for how long clients heard nothing of the sessions that a host had when it died, sorted."""
        by_name = {client.session: client for client in self.clients}
        times: list[float] = []
        for died, names in self.deaths:
            for name in names & by_name.keys():
                later = [time for time in by_name[name].times if time > died]
                times += [later[0] - died] if later else []
        return sorted(times)


def _most_within(seconds: float, times: Sequence[float]) -> int:
    """Return how many of *times*, which are sorted, are within as many seconds, at most."""
    return max(bisect_right(times, time + seconds) - first for first, time in enumerate(times))


async def _accepts(endpoint: Endpoint) -> bool:
    """Whether a host accepts connections."""
    try:
        stream = await trio.open_tcp_stream(*endpoint.end)
    except OSError:
        return False
    await stream.aclose()
    return True


@asynccontextmanager
async def crew(
    folder: Path,
    server: PostgresServer,
    endpoints: list[Endpoint],
    seed: object,
    *,
    lease: float = LEASE,
    url: str = "",
    program: Sequence[str] = (str(DESK),),
) -> AsyncGenerator[Crew]:
    """Run hosts at *endpoints* on a *server*, which they reach at *url*."""
    chance = Random(str(seed))
    async with deployment(folder) as hosts, trio.open_nursery() as nursery:
        balancer = Balancer([endpoint.end for endpoint in endpoints], chance)
        await nursery.start(balancer.run)
        members = Crew(hosts, server, endpoints, balancer, nursery, chance, url or server.url, lease, program)
        try:
            async with trio.open_nursery() as starting:
                for endpoint in endpoints:
                    starting.start_soon(partial(members.start, endpoint))
            yield members
        finally:
            for pid in filter(None, [endpoint.pid for endpoint in endpoints]):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            nursery.cancel_scope.cancel()


def on_loopback(count: int, clocks: Sequence[float] = (0.0,)) -> list[Endpoint]:
    """Return endpoints for hosts on loopback."""
    pairs = zip(range(count), cycle(clocks), strict=False)
    return [Endpoint("127.0.0.1", free_port(), "127.0.0.1", clock=clock) for _, clock in pairs]


def on_networks(of: Networks) -> list[Endpoint]:
    """Return endpoints for hosts, each in its namespace."""
    return [
        Endpoint(of.address("hosts", number), PORT, of.address("clients", number), "0.0.0.0", of.around(number))  # noqa: S104 - it has networks of its own
        for number in range(of.count)
    ]

"""Whole prompts through the port of `agentrail serve --cores 2`, beside one process in the same run.

`python -m bench.cores`

Clients and PostgreSQL use the same cores. So what the processes themselves use is printed too: with a machine for
clients and database, two processes answer as many more prompts as they have more CPU for the same work each.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Final, NamedTuple

import trio

from tests.adapters.journals.postgres.server import PostgresServer, folder_of_servers
from tests.host.commanded import SERVE, Served, commanded

CLIENTS: Final = 16
SECONDS: Final = 3.0
WARM: Final = 1.0
REPEATS: Final = 3
OF_ONE: Final = 1.6
AGENT: Final = """\
import os
from agentrail import SessionSpec
from agentrail.host import Host, HostLimits, Profile
from agentrail.journals import PostgresJournal
from agentrail.testing import ScriptedModel

def spec(_: object) -> SessionSpec:
    return SessionSpec(model=ScriptedModel(["fine"], repeat_last=True))

limits = HostLimits(requests_per_second=100_000, sessions=1_000, drain_seconds=1)
host = Host([Profile("desk", spec)], journal=PostgresJournal(os.environ["JOURNAL"]), limits=limits)
"""
TICKS: Final = os.sysconf("SC_CLK_TCK")


class Measured(NamedTuple):
    """One run."""

    prompts: float
    """Prompts a second."""
    cpu_ms: float
    """Milliseconds of CPU of the processes, for each prompt."""
    shares: tuple[int, ...]
    """Sessions of each process."""


def pids(served: Served) -> list[int]:
    """Return the processes that serve."""
    threads = Path(f"/proc/{served.process.pid}/task").iterdir()
    children = [int(word) for thread in threads for word in (thread / "children").read_text().split()]
    return children or [served.process.pid]


def cpu(served: Served) -> float:
    """Return the seconds of CPU that the processes have used."""
    ticks = 0
    for pid in pids(served):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / TICKS


class Line:
    """A connection of one client, which is kept."""

    def __init__(self, stream: trio.SocketStream, token: str) -> None:
        self._stream = stream
        self._head = f"Host: 127.0.0.1\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n"

    async def ask(self, route: str, body: str = "") -> bytes:
        """Send a request, and return the content of its answer."""
        await self._stream.send_all(
            f"{route} HTTP/1.1\r\n{self._head}Content-Length: {len(body)}\r\n\r\n{body}".encode()
        )
        data = b""
        while b"\r\n\r\n" not in data:
            data += await self._stream.receive_some(65536)
        head, _, content = data.partition(b"\r\n\r\n")
        match = re.search(rb"content-length: (\d+)", head)
        assert match is not None, data
        assert b" 200 " in head[:20], data
        while len(content) < int(match[1]):
            content += await self._stream.receive_some(65536)
        return content


async def measure(served: Served, run: str) -> Measured:
    """Prompt as many sessions as there are clients, each again and again on its own connection."""
    count, is_counted, port = 0, False, int(served.url.rpartition(":")[2])
    lines = [Line(await trio.open_tcp_stream("127.0.0.1", port), served.token) for _ in range(CLIENTS)]

    async def talk(line: Line, number: int) -> None:
        nonlocal count
        while True:
            await line.ask("POST /v1/chat", json.dumps({"session": f"{run}-{number}", "message": "hi"}))
            count += is_counted

    async with trio.open_nursery() as nursery:
        for number, line in enumerate(lines):
            nursery.start_soon(talk, line, number)
        await trio.sleep(WARM)
        is_counted, used, began = True, cpu(served), time.perf_counter()
        await trio.sleep(SECONDS)
        rate, used = count / (time.perf_counter() - began), cpu(served) - used
        nursery.cancel_scope.cancel()
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    rows = json.loads(await Line(stream, served.token).ask("GET /v1/tree/rows?limit=1000"))
    hosts = Counter(row["host"] for row in rows["items"] if row["session"].rpartition(".")[2].startswith(run))
    return Measured(rate, 1_000 * used / max(count, 1), tuple(hosts.values()))


async def run(url: str, folder: Path) -> bool:
    """Measure one process and two in turns, and print what was found; return whether the figure is met."""
    (folder / "agent.py").write_text(AGENT)  # noqa: ASYNC240 - nothing else runs yet
    by_cores: dict[int, list[Measured]] = {1: [], 2: []}
    for number in range(REPEATS):
        for cores, found in by_cores.items():
            command = [*SERVE, "agent.py", "--cores", str(cores), "--port", "0"]
            async with commanded(command, folder, env={**os.environ, "JOURNAL": url}) as served:
                found.append(await measure(served, f"r{number}c{cores}"))
                served.process.terminate()
                await served.process.wait()
            print(f"{cores} processes: {found[-1]}", flush=True)
    ratio = statistics.median(two.prompts / one.prompts for one, two in zip(*by_cores.values(), strict=True))
    cost = statistics.median(two.cpu_ms / one.cpu_ms for one, two in zip(*by_cores.values(), strict=True))
    print(
        f"two processes answer {ratio:.2f} times the prompts of one (figure {OF_ONE}), at {cost:.2f} of the CPU of each"
    )
    return bool(ratio >= OF_ONE)


def main() -> int:
    """Start a server, and print the figures; return 1 if one is missed."""
    with folder_of_servers() as folder, tempfile.TemporaryDirectory() as own:
        server = PostgresServer(folder)
        server.make()
        server.start()
        try:
            return 0 if trio.run(run, server.url, Path(own)) else 1
        finally:
            server.kill()


if __name__ == "__main__":
    raise SystemExit(main())

"""How long a viewer sees nothing when the host of a session is killed, with the settings that users get.

Two hosts on PostgreSQL; one runs a session that streams, and the viewer has subscribed at the other one. The first is
killed at some moment of its lease, and the stream goes on where the viewer is.
"""

from __future__ import annotations

import inspect
import statistics
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from random import Random

import trio

from agentrail import connect
from agentrail.host import Cluster
from tests.adapters.journals.postgres.server import PostgresServer, folder_of_servers
from tests.free_port import free_port
from tests.host.cluster.test_killed import kill, serving
from tests.host.hosted import KEYS, LINES

KILLS = 20
WITHIN = 2.5
WATCHED = 1.0
"""Seconds for which the session is watched after it has come back."""

LEASE = float(inspect.signature(Cluster).parameters["lease"].default)


async def gap(folder: Path, url: str, name: str, chance: Random) -> tuple[float, float]:
    """Kill the host of the session *name*; return the longest gap, and what of it passed after the kill."""
    ports = free_port(), free_port()
    times: list[float] = []
    async with (
        serving(folder, url, ports[0], LEASE) as dying,
        serving(folder, url, ports[1], LEASE),
        connect(f"http://127.0.0.1:{ports[0]}", KEYS["ann"], patience=60) as first,
        connect(f"http://127.0.0.1:{ports[1]}", KEYS["ann"], patience=60) as second,
        trio.open_nursery() as nursery,
    ):
        await (await first.spawn("slow", name)).prompt("go")

        async def view() -> None:
            async with second.session(name).subscribe(since=0) as events:
                async for _ in events:
                    times.append(time.monotonic())  # noqa: PERF401 - it is read meanwhile

        nursery.start_soon(view)
        while len(times) < 20:  # noqa: ASYNC110 - no event tells of it
            await trio.sleep(0.02)
        await trio.sleep(chance.uniform(0, LEASE))
        await kill(dying)
        killed = time.monotonic()
        while times[-1] < killed + 0.05:  # noqa: ASYNC110 - as above
            await trio.sleep(0.02)
        back = next(at for at in times if at > killed + 0.05)
        await trio.sleep(WATCHED)
        nursery.cancel_scope.cancel()
    return max(later - at for at, later in pairwise(times)), back - killed


async def run(folder: Path, url: str) -> bool:
    """Kill hosts, print the gaps, and return whether the longest is short enough."""
    (folder / "keys.txt").write_text(LINES, encoding="utf-8")  # noqa: ASYNC240 - nothing else runs yet
    (folder / "keys.txt").chmod(0o600)  # noqa: ASYNC240 - as above
    chance, gaps = Random("gaps"), list[float]()
    for number in range(KILLS):
        longest, back = await gap(folder, url, f"s{number}", chance)
        gaps.append(longest)
        print(f"{longest:.2f} s, back {back:.2f} s after the kill", flush=True)
    print(
        f"{KILLS} hosts killed, lease {LEASE:g} s: gap {statistics.median(gaps):.2f} s median, "
        f"{max(gaps):.2f} s at most (bar {WITHIN})"
    )
    return max(gaps) <= WITHIN


def main() -> int:
    """Start a server, and measure; return 1 if the bar is missed."""
    with folder_of_servers() as folder, tempfile.TemporaryDirectory() as own:
        server = PostgresServer(folder)
        server.make()
        server.start()
        try:
            return 0 if trio.run(run, Path(own), server.url) else 1
        finally:
            server.kill()


if __name__ == "__main__":
    raise SystemExit(main())

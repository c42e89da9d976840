"""Print how long an abort over a WebSocket takes until another client hears of it, and until its tool is gone.

    python -m bench.sockets [abort|tools|slow]

`abort`: 200 sessions stream to 200 clients. `slow`: 2,000 clients listen, and half of them stop reading. Exits with 1
if a figure is missed. `AGENTRAIL_BENCH=small` takes a tenth of everything.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE
from typing import Final

import httpx
import trio

from agentrail import SessionSpec
from agentrail.host import ApiKeys, Host, HostLimits, Profile
from agentrail.host.authentication.api_keys import new_key, render_keys
from agentrail.models import EmitChunk, ModelRequest, Response, TextChunk
from agentrail.sandboxes import LocalSandbox
from agentrail.testing import ScriptedModel, call, say
from agentrail.tools.builtin import shell
from bench.host import Serving, serving
from bench.load import percentile
from bench.rig import InstantModel
from bench.socket_clients import Caller

SMALL: Final = os.environ.get("AGENTRAIL_BENCH", "full") == "small"
PART: Final = 10 if SMALL else 1

SESSIONS: Final = 200 // PART
ABORTS: Final = 1_000 // PART
TOOLS: Final = 50 // PART
CLIENTS: Final = 2_000 // PART
APART: Final = 0.1
"""Seconds between the pieces of an answer that is streamed."""

WIDE: Final = "x" * 16 * 1024
WIDE_APART: Final = 0.8
"""Seconds between pieces of this text."""

ABORT: Final = 10.0
"""Milliseconds from the call to the event at another client, of which 99 of 100 take no more."""
GONE: Final = 1.0
"""Seconds from the call until the process of the tool is gone."""
HELD: Final = 256.0
"""KiB that the host holds for a client that does not read."""
ABORT_BESIDE: Final = 20.0
"""Milliseconds of an abort beside clients that do not read."""

PATIENCE: Final = 120.0
"""Seconds in which clients that do not read have to be closed: their buffers fill first, then ten pass."""

MARK: Final = "4242"
ROW, KEY = new_key("acme", "ann", ["talk", "observe", "operate"])


def sleeper() -> SessionSpec:
    """Return an agent that runs a program which does not end."""
    script = [say(calls=[call("shell", {"command": f"sleep {MARK}"})])]
    return SessionSpec(model=ScriptedModel(script, repeat_last=True), tools=[shell], sandbox=LocalSandbox(Path.cwd()))


class WideModel:
    """Streams large pieces without end: buffers fill, and what is measured is not the time that pieces cost."""

    name = "scripted:wide"

    async def stream(self, request: ModelRequest, emit: EmitChunk) -> Response:
        """Answer."""
        while True:
            await trio.sleep(WIDE_APART)
            emit(TextChunk(WIDE))


async def serve(keys: str) -> None:
    """Serve on any free port of loopback, and print it."""
    profiles = [
        Profile("stream", SessionSpec(model=InstantModel(chunks=100_000, delay=APART))),
        Profile("wide", SessionSpec(model=WideModel())),
        Profile("tool", sleeper()),
    ]
    limits = HostLimits(
        requests_per_second=1e9,
        burst=10**9,
        sessions=10**6,
        streams=10**6,
        connections=10**5,
        connections_per_address=10**5,
        ping_seconds=1e6,  # these clients answer none
    )
    async with Host(profiles, authenticator=ApiKeys(lines=keys), limits=limits).serving() as found:
        print(found.url.rpartition(":")[2], flush=True)
        await trio.sleep_forever()


@contextmanager
def audience(server: Serving, reading: int, resting: int, sessions: list[str]) -> Generator[subprocess.Popen[str]]:
    """Have so many clients listen, in a process of their own."""
    command = [sys.executable, "-m", "bench.socket_clients", str(server.port), KEY, str(reading)]
    with subprocess.Popen([*command, str(resting), *sessions], stdin=PIPE, stdout=PIPE, text=True) as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == "listening\n"
            yield process
        finally:
            process.kill()


async def begun(caller: Caller, agent: str, count: int) -> list[str]:
    """Open sessions that stream, and return their ids."""
    found: list[str] = []
    for _ in range(count):
        session = (await caller.call("open_session", agent=agent))["body"]["session"]
        await caller.send(listen="events", session=session, types=["AgentAbort", "ToolExecutionStart"])
        assert (await caller.call("prompt", session, message="go on"))["status"] == 202
        found.append(session)
    return found


async def aborts(caller: Caller, watcher: Caller, sessions: list[str], count: int) -> list[float]:
    """Return the seconds from each call to the event at *watcher*, another client."""
    taken: list[float] = []
    for number in range(count):
        session = sessions[number % len(sessions)]
        began = time.perf_counter()
        await caller.send(call="abort", session=session)
        await watcher.until("AgentAbort", session)
        taken.append(time.perf_counter() - began)
        while (await caller.call("prompt", session, message="go on"))["status"] != 202:
            pass
        caller.heard.clear()
        await trio.sleep(0.01)
    return taken


async def clients(server: Serving, agent: str, count: int) -> tuple[Caller, Caller, list[str]]:
    """Return one that calls, one that hears of aborts, and the sessions that stream."""
    watcher = await Caller.connect(server.port, KEY)
    sessions = await begun(watcher, agent, count)
    watcher.heard.clear()
    return await Caller.connect(server.port, KEY), watcher, sessions


async def measure_aborts(server: Serving) -> int:
    """Print how long aborts take; return 1 if that is too long."""
    caller, watcher, sessions = await clients(server, "stream", SESSIONS)
    with audience(server, SESSIONS, 0, sessions):
        taken = await aborts(caller, watcher, sessions, ABORTS)
    p50, p99 = percentile(taken, 0.5), percentile(taken, 0.99)
    print(f"abort beside {SESSIONS} streams: p50 {p50:.2f} ms, p99 {p99:.2f} ms (figure {ABORT:g})")
    return int(p99 > ABORT)


def running() -> int:
    """Return how many processes of the tool run."""
    found = 0
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found += each.read_bytes() == f"sleep\0{MARK}\0".encode()
        except OSError:
            continue
    return found


async def until(holds: Callable[[], bool]) -> None:
    """Look at the processes of the machine until something *holds* of them."""
    while not holds():  # noqa: ASYNC110 - no event tells of a process of another one
        await trio.sleep(0.005)


async def measure_tools(server: Serving) -> int:
    """Print how long it takes until the process of an aborted tool is gone; return 1 if that is too long."""
    caller, watcher, _ = await clients(server, "stream", SESSIONS)
    longest = 0.0
    for _ in range(TOOLS):
        (session,) = await begun(watcher, "tool", 1)
        with trio.fail_after(30):
            await until(lambda: running() > 0)
            began = time.perf_counter()
            await caller.send(call="abort", session=session)
            await until(lambda: running() == 0)
        longest = max(longest, time.perf_counter() - began)
    print(f"the process of an aborted tool is gone within {longest:.3f} s of {TOOLS} times (figure {GONE:g})")
    return int(longest > GONE)


async def connections(client: httpx.AsyncClient) -> int:
    """Return how many connections are open at the host, as its metrics say."""
    text = (await client.get("/metrics")).text
    return int(float(next(line.split()[1] for line in text.splitlines() if line.startswith("agentrail_connections "))))


async def measure_slow(server: Serving) -> int:
    """Print what clients cost that do not read, and what becomes of them; return 1 if a figure is missed."""
    caller, watcher, sessions = await clients(server, "wide", 20)
    taken: list[float] = []
    held = gone = 0.0
    url, headers = f"http://127.0.0.1:{server.port}", {"authorization": f"Bearer {KEY}"}
    async with httpx.AsyncClient(base_url=url, headers=headers, trust_env=False, timeout=60) as client:
        with audience(server, CLIENTS // 2, 0, sessions):
            before, usual = server.kib(), await connections(client)
            with audience(server, 0, CLIENTS // 2, sessions) as resting:
                began = time.perf_counter()
                while not gone and time.perf_counter() < began + PATIENCE:
                    taken += await aborts(caller, watcher, sessions, 10)
                    held = max(held, (server.kib() - before) / (CLIENTS // 2))
                    gone = time.perf_counter() - began if await connections(client) <= usual else 0.0
                assert resting.stdin
                assert resting.stdout
                print("read on", file=resting.stdin, flush=True)
                ends: dict[str, int] = json.loads(resting.stdout.readline())
    p99 = percentile(taken, 0.99)
    print(f"a client that does not read holds {held:.0f} KiB (figure {HELD:g})")
    print(f"all of them are closed {gone:.1f} s after they have stopped to read: {ends}")
    print(
        f"abort beside {CLIENTS // 2} of them: p50 {percentile(taken, 0.5):.2f} ms, p99 {p99:.2f} ms"
        f" (figure {ABORT_BESIDE:g})"
    )
    return int(held > HELD or p99 > ABORT_BESIDE or not gone or any("without" in end for end in ends))


MEASURES: Final = {"abort": measure_aborts, "tools": measure_tools, "slow": measure_slow}


def main(names: list[str]) -> int:
    """Measure, print, and return 1 if a figure is missed."""
    missed = 0
    for name in names or MEASURES:
        with serving("bench.sockets", "serve", render_keys([ROW])) as server:
            missed |= trio.run(MEASURES[name], server)
    return missed


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        trio.run(serve, sys.argv[2])
    else:
        sys.exit(main(sys.argv[1:]))

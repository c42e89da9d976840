"""Print how soon clients are served again that all reconnect within five seconds, and how late the host's loop is then.

    python -m bench.reconnects

The host runs in a process of its own, and measures the lag of its loop there. Exits with 1 if a figure is missed.
`AGENTRAIL_BENCH=small` takes 300 clients instead of 10,000.
"""

from __future__ import annotations

import os
import sys
import time
from subprocess import PIPE, Popen
from typing import Final

import trio

from agentrail import SessionSpec
from agentrail.host import ApiKeys, Host, HostLimits, Profile
from agentrail.host.authentication.api_keys import new_key, render_keys
from agentrail.testing import ScriptedModel
from bench.socket_clients import Caller

CLIENTS: Final = 300 if os.environ.get("AGENTRAIL_BENCH", "full") == "small" else 10_000
SESSIONS: Final = 100
WITHIN: Final = 5.0
"""Seconds over which all reconnect."""
SERVED: Final = 30.0
"""Seconds from the first reconnect until all have what they missed."""
LAG: Final = 250.0
"""Milliseconds by which the loop of the host may be late."""
TICK: Final = 0.01
AT_ONCE: Final = 50
"""Connections that are made at once before the cut, and turns that are begun."""

ROW, KEY = new_key("acme", "ann", ["talk"])


async def serve(keys: str) -> None:
    """Serve, and print the port; then, at each line of the standard input, how late the loop was since the last."""
    spec = SessionSpec(model=ScriptedModel(["here I am"], repeat_last=True))
    many = 10**6
    limits = HostLimits(
        requests_per_second=1e9,
        burst=10**9,
        sessions=many,
        streams=many,
        connections=many,
        connections_per_address=many,
        ping_seconds=1e6,  # these clients answer none
    )
    worst = 0.0

    async def tell() -> None:
        nonlocal worst
        async for _ in trio.wrap_file(sys.stdin):
            print(worst * 1000, flush=True)
            worst = 0.0
        nursery.cancel_scope.cancel()

    async with (
        Host([Profile("desk", spec)], authenticator=ApiKeys(lines=keys), limits=limits).serving() as found,
        trio.open_nursery() as nursery,
    ):
        print(found.url.rpartition(":")[2], flush=True)
        nursery.start_soon(tell)
        while True:
            due = trio.current_time() + TICK
            await trio.sleep_until(due)
            worst = max(worst, trio.current_time() - due)


async def connected(port: int, session: str, slots: trio.CapacityLimiter, found: list[Caller]) -> None:
    """Connect and listen from now on."""
    async with slots:
        caller = await Caller.connect(port, KEY)
        await caller.send(listen="events", session=session)
        await caller.next()
    found.append(caller)


async def again(port: int, session: str, since: str, after: float, ends: list[float]) -> None:
    """Reconnect *after* so many seconds, and note when what was missed has come."""
    await trio.sleep(after)
    caller = await Caller.connect(port, KEY)
    await caller.send(listen="events", session=session, since=since)
    await caller.until("AgentEnd")
    ends.append(time.perf_counter())


async def measure(port: int, process: Popen[str]) -> int:
    """Connect, cut all, let turns pass, reconnect, and print; return 1 if a figure is missed."""
    talker, slots = await Caller.connect(port, KEY), trio.CapacityLimiter(AT_ONCE)
    sessions = [(await talker.call("open_session"))["body"]["session"] for _ in range(SESSIONS)]
    callers: list[Caller] = []
    async with trio.open_nursery() as nursery:
        for number in range(CLIENTS):
            nursery.start_soon(connected, port, sessions[number % SESSIONS], slots, callers)
    for caller in callers:
        await caller.leave()
    for session in sessions:
        await talker.call("ask", session, message="hello")
    lag(process)
    ends: list[float] = []
    began = time.perf_counter()
    async with trio.open_nursery() as nursery:
        for number in range(CLIENTS):
            after = WITHIN * number / CLIENTS
            nursery.start_soon(again, port, sessions[number % SESSIONS], "1.0", after, ends)
    served, late = max(ends) - began, lag(process)
    print(f"{len(ends)} clients that reconnect within {WITHIN:g} s are served after {served:.1f} s (figure {SERVED:g})")
    print(f"the loop of the host is late by {late:.0f} ms at most (figure {LAG:g})")
    return int(served > SERVED or late > LAG)


def lag(process: Popen[str]) -> float:
    """Return the milliseconds by which the loop of the host was late since this was asked last."""
    assert process.stdin
    assert process.stdout
    print(file=process.stdin, flush=True)
    return float(process.stdout.readline())


def main() -> int:
    """Measure, print, and return 1 if a figure is missed."""
    command = [sys.executable, "-m", "bench.reconnects", "serve", render_keys([ROW])]
    with Popen(command, stdin=PIPE, stdout=PIPE, text=True) as process:
        try:
            assert process.stdout
            return trio.run(measure, int(process.stdout.readline()), process)
        finally:
            process.kill()


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        trio.run(serve, sys.argv[2])
    else:
        sys.exit(main())

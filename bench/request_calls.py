"""Print how many Python calls and task steps a streamed request takes in a host: load does not move these counts.

`python -m bench.request_calls`
"""

from __future__ import annotations

import gc
import socket
import sys
import time
from types import FrameType
from typing import NamedTuple

import trio
from trio.testing import MockClock

from agentrail import SessionSpec
from agentrail.host import ApiKeys, Host, HostLimits, Profile
from agentrail.host.authentication.api_keys import render_keys
from bench.hosted import ROW, STREAMED, Client
from bench.rig import InstantModel

REQUESTS = 100

PAUSE = 0.005
"""Seconds after which the host waits for the next request, however busy the machine is."""

MOST = 1_745.0
"""Python calls that a streamed request of `STREAMED` chunks may take."""


class Counts(NamedTuple):
    """What one request takes, on average."""

    calls: float
    """Python calls in the thread of the event loop; each time a coroutine goes on is one."""
    steps: float
    """How often the scheduler runs a task."""


class _Steps(trio.abc.Instrument):
    def __init__(self) -> None:
        self.count = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """Count."""
        self.count += 1


def measured() -> Counts:
    """Count while time stands still: what the host does now and then counts for no request."""
    return trio.run(counted, clock=MockClock())


async def counted(chunks: int = STREAMED) -> Counts:
    """Return the counts of a streamed request with so many *chunks*, whose client is another thread."""
    calls, steps = 0, _Steps()

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    limits = HostLimits(requests_per_second=1e9, burst=10**9)
    profile = Profile("streams", SessionSpec(model=InstantModel(chunks=chunks)))
    async with Host([profile], authenticator=ApiKeys(lines=render_keys([ROW])), limits=limits).serving() as found:
        with Client(socket.create_connection(("127.0.0.1", int(found.url.rpartition(":")[2])))) as client:

            def requests() -> None:
                for _ in range(REQUESTS):
                    time.sleep(PAUSE)
                    client.stream("trip")

            await trio.to_thread.run_sync(requests)  # for what is made once, on first use
            gc.collect()
            before = sys.getprofile()
            trio.lowlevel.add_instrument(steps)
            sys.setprofile(count)
            try:
                await trio.to_thread.run_sync(requests)
            finally:
                sys.setprofile(before)
                trio.lowlevel.remove_instrument(steps)
    return Counts(calls / REQUESTS, steps.count / REQUESTS)


def main() -> int:
    """Count, print, and return 1 if a request takes too much."""
    counts = measured()
    print(f"a streamed request with {STREAMED} chunks: {counts.calls:,.0f} Python calls (figure {MOST:,.0f}),", end=" ")
    print(f"{counts.steps:.1f} task steps")
    return int(counts.calls > MOST)


if __name__ == "__main__":
    sys.exit(main())

"""A live server gets requests that are nearly right, and goes on as if nothing had been."""

from __future__ import annotations

import gc
import logging
import math
import random
import resource
import time
from collections import Counter
from pathlib import Path
from typing import Final

import pytest
import trio

from agentrail.host.http11.http_messages import HttpRequest, HttpResponse, Send
from agentrail.wire.limits import HostLimits
from tests.host.http11.mutating import mutated
from tests.host.http11.served import Served, echo, everything, request, served, statuses
from tests.profiles import CAMPAIGN

REQUESTS: Final = 1_000_000 if CAMPAIGN else 30_000
WARMING: Final = 2_000
PEERS: Final = 8
MIB: Final = 2**20
MOST_MEMORY: Final = 16 * MIB
LONGEST_STEP: Final = 0.05

KNOWN: Final = frozenset({100, 200, 400, 411, 413, 414, 417, 431, 501, 505})


class Steps(trio.abc.Instrument):
    """Measures the longest step of any task, in CPU: other programs may take the processor away."""

    def __init__(self) -> None:
        self.longest = 0.0
        self._began = math.inf

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._began = time.thread_time()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self.longest = max(self.longest, time.thread_time() - self._began)


def memory() -> int:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * resource.getpagesize()


async def either(asked: HttpRequest) -> HttpResponse:
    async def write(send: Send) -> None:
        await send(b"a")
        await send(b"b")

    if asked.path == "/stream":
        return HttpResponse(200, (), write)
    return await echo(asked)


class Peers:
    """Send mutated requests, and count the statuses that come back."""

    def __init__(self, one: Served, seed: int) -> None:
        self._one = one
        self._chance = random.Random(seed)
        self.told: Counter[int] = Counter()

    async def send(self, count: int) -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(PEERS):
                nursery.start_soon(self._send, count // PEERS)

    async def _send(self, count: int) -> None:
        for number in range(count):
            self.told.update(statuses(await self._one.talk(mutated(self._chance))))
            if number % 100 == 0:
                self._one.seen.clear()
                async with await self._one.connect() as stream:
                    await stream.send_all(request("GET / HTTP/1.1", "Connection: close"))
                    assert statuses(await everything(stream)) == [200]


async def test_mutated_requests_do_no_harm(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    steps = Steps()
    async with served(either, HostLimits()) as one:
        peers = Peers(one, seed=20)
        await peers.send(WARMING)
        before = memory()
        trio.lowlevel.add_instrument(steps)
        await peers.send(REQUESTS - WARMING)
        trio.lowlevel.remove_instrument(steps)
        grown = memory() - before
        assert one.server.connections == 0
    assert [record.getMessage() for record in caplog.records] == []
    assert peers.told.keys() == KNOWN
    assert grown <= MOST_MEMORY
    if CAMPAIGN:
        assert steps.longest <= LONGEST_STEP

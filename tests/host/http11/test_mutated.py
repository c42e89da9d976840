"""A live server gets requests that are nearly right, and goes on as if nothing had been."""

from __future__ import annotations

import logging
import random
from collections import Counter
from typing import Final

import pytest
import trio

from agentrail.host import HostLimits
from agentrail.host.requests.http_messages import HttpRequest, HttpResponse, Send
from tests.host.http11.harmless import harmless
from tests.host.http11.mutating import mutated
from tests.host.http11.served import Served, echo, everything, request, served, statuses
from tests.profiles import CAMPAIGN

pytestmark = pytest.mark.long

REQUESTS: Final = 1_000_000 if CAMPAIGN else 30_000
WARMING: Final = 2_000
PEERS: Final = 8

KNOWN: Final = frozenset({100, 200, 400, 411, 413, 414, 417, 431, 501, 505})


async def either(http_request: HttpRequest) -> HttpResponse:
    async def write(send: Send) -> None:
        await send(b"a")
        await send(b"b")

    if http_request.path == "/stream":
        return HttpResponse(200, (), write)
    return await echo(http_request)


class Peers:
    """Send mutated requests, and count the statuses that come back."""

    def __init__(self, server: Served, seed: int) -> None:
        self._one = server
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


@pytest.mark.campaign
async def test_mutated_requests_do_no_harm(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    async with served(either, HostLimits()) as server:
        peers = Peers(server, seed=20)
        await peers.send(WARMING)
        with harmless():
            await peers.send(REQUESTS - WARMING)
        assert len(server.server) == 0
    assert [record.getMessage() for record in caplog.records] == []
    assert peers.told.keys() == KNOWN

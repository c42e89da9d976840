"""A whole host gets requests and bodies that are nearly right, by all its routes, and goes on as before."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from random import Random
from typing import Final

import pytest
import trio

from agentrail.host import ApiKeys, Host, HostLimits, Profile, Serving
from tests.host.http11.harmless import harmless
from tests.host.http11.mutating import TOKENS, mutated_bytes
from tests.host.http11.served import everything, statuses
from tests.host.model.agent import agent
from tests.host.model.in_process import DrawnRequest
from tests.host.model.mutated_bodies import draw_request, sent
from tests.host.model.people import LINES, PEOPLE
from tests.profiles import CAMPAIGN

pytestmark = pytest.mark.long

REQUESTS: Final = 1_000_000 if CAMPAIGN else 5_000
WARMING: Final = 3_000
PEERS: Final = 8
BOSS: Final = next(person for person in PEOPLE if "admin" in person.scopes)
WAITING: Final = frozenset(
    {"ag_ui_follow", "ag_ui_run", "ask", "chat", "events", "reply", "stream", "task_result", "wait_tasks"}
)
"""Calls whose answer may take long: who has sent the last request has left them."""

A_CONNECTION: Final = 20
"""Requests on one connection; the last one may be no HTTP."""


@asynccontextmanager
async def served() -> AsyncGenerator[Serving]:
    limits = HostLimits(requests_per_second=1e9, burst=10**9, sessions=10_000, streams=10_000)
    host = Host([Profile("desk", agent())], authenticator=ApiKeys(lines=LINES), limits=limits)
    async with host.serving() as serving:
        yield serving


class Peers:
    """Send requests that are nearly right, and count what comes back."""

    def __init__(self, serving: Serving, seed: int) -> None:
        self._serving = serving
        self._port = int(serving.url.rpartition(":")[2])
        self._chance = Random(seed)
        self._whole = self._drawn()
        self.told: Counter[int] = Counter()

    async def send(self, count: int) -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(PEERS):
                nursery.start_soon(self._send, count // PEERS // A_CONNECTION)

    async def _send(self, connections: int) -> None:
        chance = self._chance
        for number in range(connections):
            pieces = [sent(next(self._whole)) for _ in range(A_CONNECTION - 1)]
            pieces.append(sent(draw_request(chance)[1]))
            if chance.random() < 0.7:
                pieces[-1] = mutated_bytes(chance, pieces[-1], TOKENS, pieces)
            answers = await self._talk(b"".join(pieces))
            answer_statuses = statuses(answers)
            self.told.update(answer_statuses)
            assert b"internal-error" not in answers
            assert len(answer_statuses) >= A_CONNECTION - 1 or b"\r\nconnection: close\r\n" in answers.lower(), pieces
            if number % 5 == 0:
                await self._good()

    async def _good(self) -> None:
        """Make good requests, which must be answered; the last ones erase what sessions have piled up."""
        head = f"host: 127.0.0.1\r\nauthorization: Bearer {BOSS.key}\r\n"
        answers = await self._talk(f"GET /v1/sessions?owner=*&limit=1000 HTTP/1.1\r\n{head}\r\n".encode())
        assert statuses(answers) == [200]
        listed = json.loads(answers.partition(b"\r\n\r\n")[2])["items"]
        deletions = [f"DELETE /v1/sessions/{row['session']} HTTP/1.1\r\n{head}\r\n" for row in listed]
        assert len(statuses(await self._talk("".join(deletions).encode()))) == len(deletions)

    def _drawn(self) -> Iterator[DrawnRequest]:
        """Yield requests that are answered to a client that has sent its last: it has left chats and streams."""
        while True:
            route, request = draw_request(self._chance)
            if route.call.name not in WAITING:
                yield request

    async def _talk(self, data: bytes) -> bytes:
        async with await trio.open_tcp_stream("127.0.0.1", self._port) as stream, trio.open_nursery() as nursery:
            nursery.start_soon(send_all, stream, data)
            return await everything(stream)


async def send_all(stream: trio.SocketStream, data: bytes) -> None:
    try:
        await stream.send_all(data)
        await stream.send_eof()
    except trio.BrokenResourceError:  # the server has had enough
        pass


async def answered_statuses(peers_of: type[Peers], caplog: pytest.LogCaptureFixture) -> Counter[int]:
    """Have peers send to a host, see that it comes to no harm, and return the statuses of its answers."""
    caplog.set_level(logging.ERROR)
    async with served() as serving:
        peers = peers_of(serving, seed=20)
        await peers.send(WARMING)
        with harmless():
            await peers.send(REQUESTS - WARMING)
    # How long a step takes hangs on the machine: in `harmless`, the campaign measures it.
    assert [record.getMessage() for record in caplog.records if record.name != "agentrail.watchdog"] == []
    assert 500 not in peers.told
    return peers.told


async def test_mutated_requests_do_a_host_no_harm(caplog: pytest.LogCaptureFixture) -> None:
    assert await answered_statuses(Peers, caplog)

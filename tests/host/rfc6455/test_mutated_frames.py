"""A whole host gets messages and frames that are nearly right over WebSockets, and goes on as before."""

from __future__ import annotations

import json
from typing import Final

import pytest
import trio

from tests.host.http11 import test_mutated_host
from tests.host.http11.test_mutated_host import A_CONNECTION, send_all
from tests.host.model.people import PEOPLE
from tests.host.rfc6455.mutated_frames import connection
from tests.host.rfc6455.raw_frames import Opcode, frame
from tests.host.rfc6455.raw_peer import Heard, Peer, connected

pytestmark = pytest.mark.long

CODES: Final = frozenset({None, 1000, 1002, 1003, 1007, 1008, 1009, 1014})
"""Codes of closes, those of the client among them that come back."""


OPEN: Final = frame(Opcode.TEXT, b'{"id":"open","call":"open_session","body":{"session":"s1"}}')
LAST: Final = frame(Opcode.TEXT, b'{"id":"last","call":"commands"}')


async def _played(peer: Peer, frames: list[bytes], last: bytes) -> Heard:
    """Send frames, and when all of them have been read, the *last* bytes; return what came."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(peer.send, b"".join([OPEN, *frames, LAST]))
        while not any('"last"' in text for text in peer.heard.texts) and await peer.more():
            pass
    assert isinstance(peer.stream, trio.SocketStream)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(send_all, peer.stream, last)
        return await peer.rest()


class Peers(test_mutated_host.Peers):
    """Send frames that are nearly right, and count the statuses of answers."""

    async def _send(self, connections: int) -> None:
        chance = self._chance
        for number in range(connections):
            key = f"authorization: Bearer {chance.choice(PEOPLE[:4]).key}"
            async with connected(self._port, "/v1/ws", [key]) as peer:
                heard = await _played(peer, *connection(chance, A_CONNECTION))
            result = [json.loads(text) for text in heard.texts]
            self.told.update(text["status"] for text in result if "status" in text)
            assert heard.code in CODES or 3000 <= (heard.code or 0) < 5000, heard
            assert not any("internal-error" in text for text in heard.texts), heard
            if number % 5 == 0:
                await self._good()


@pytest.mark.campaign
async def test_mutated_frames_do_a_host_no_harm(caplog: pytest.LogCaptureFixture) -> None:
    report = await test_mutated_host.answered_statuses(Peers, caplog)
    assert {200, 201, 202, 204, 403, 404, 409, 422} <= report.keys()

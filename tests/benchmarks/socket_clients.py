"""Clients of `WS /v1/ws` for benchmarks: one whose messages are read, and many that only read bytes."""

from __future__ import annotations

import json
import sys
from itertools import count
from typing import Any, Final, Self

import trio

from tests.host.rfc6455.raw_frames import Opcode, frame
from tests.host.rfc6455.raw_peer import Peer, shaken, upgrade

PATH: Final = "/v1/ws"

Message = dict[str, Any]


class Caller:
    """A connection that makes calls, and hears what it listens to."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._ids = count(1)
        self.heard: list[Message] = []

    @classmethod
    async def connect(cls, port: int, key: str) -> Self:
        """Connect to a host of this machine."""
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        peer = await shaken(stream, upgrade(PATH, f"Authorization: Bearer {key}"))
        assert peer.answer.status == 101, peer.answer
        return cls(peer)

    async def send(self, **message: object) -> str:
        """Send a message, and return its id."""
        name = str(next(self._ids))
        await self._peer.say(json.dumps({"id": name, **message}))
        return name

    async def call(self, name: str, session: str | None = None, **body: object) -> Message:
        """Make a call, and return its answer."""
        about = {} if session is None else {"session": session}
        asked = await self.send(call=name, body=body, **about)
        while (got := await self.next())["id"] != asked:
            self.heard.append(got)
        return got

    async def next(self) -> Message:
        """Return the next message."""
        found: Message = json.loads(await self._peer.next_text())
        return found

    async def until(self, event: str, session: str | None = None) -> Message:
        """Return the next *event*, of a session or of any."""
        while True:
            got = self.heard.pop(0) if self.heard else await self.next()
            if got.get("event") == event and session in {None, got["data"]["session_id"]}:
                return got


async def audience(port: int, key: str, reading: int, resting: int, sessions: list[str]) -> None:
    """Listen by many connections to *sessions* in turn; some never read on. Print a line when all listen.

    Then print for each connection that is closed what came last: the bytes of a close frame, if there was one.
    """
    slots = trio.CapacityLimiter(50)
    async with trio.open_nursery() as nursery:
        listening = trio.Semaphore(0)
        for number in range(reading + resting):
            nursery.start_soon(_listen, port, key, sessions[number % len(sessions)], number < reading, slots, listening)
        for _ in range(reading + resting):
            await listening.acquire()
        print("listening", flush=True)


async def _listen(
    port: int, key: str, session: str, reads: bool, slots: trio.CapacityLimiter, listening: trio.Semaphore
) -> None:
    async with slots:
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        peer = await shaken(stream, upgrade(PATH, f"Authorization: Bearer {key}"))
        assert peer.answer.status == 101, peer.answer
        asked = json.dumps({"id": "1", "listen": "events", "session": session, "since": "0"})
        await stream.send_all(frame(Opcode.TEXT, asked.encode()))
        await stream.receive_some(65536)
    listening.release()
    last = b""
    while reads:
        piece = await stream.receive_some(65536)
        if not piece:
            print("ended", last[-40:].hex(), flush=True)
            return
        last = piece
    await trio.sleep_forever()


if __name__ == "__main__":
    port, key, reading, resting, *sessions = sys.argv[1:]
    trio.run(audience, int(port), key, int(reading), int(resting), sessions)

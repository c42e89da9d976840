"""Clients of `WS /v1/ws` for benchmarks: one whose messages are read, and many that only read bytes."""

from __future__ import annotations

import json
import socket
import sys
from collections import Counter
from itertools import count
from typing import Any, Final, Self

import trio

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

    async def leave(self) -> None:
        """Cut the connection."""
        await trio.aclose_forcefully(self._peer.stream)

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

    After a line on the standard input, those that rest read what there is, and what they have come to is printed.
    """
    slots = trio.CapacityLimiter(50)
    woken = trio.Event()
    ends = Counter[str]()
    async with trio.open_nursery() as nursery:
        listening = trio.Semaphore(0)
        for number in range(reading + resting):
            session = sessions[number % len(sessions)]
            if number < reading:
                nursery.start_soon(_listen, port, key, session, slots, listening)
            else:
                nursery.start_soon(_rest, port, key, session, slots, listening, woken, ends)
        for _ in range(reading + resting):
            await listening.acquire()
        print("listening", flush=True)
        await trio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True)
        woken.set()
        if reading:
            await trio.sleep_forever()
    print(json.dumps(ends), flush=True)


async def _begun(port: int, key: str, session: str, room: int) -> Peer:
    """Listen to a session; *room* is how many bytes the system keeps that are not read, 0 as many as usual."""
    below = trio.socket.socket()
    if room:
        below.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
    await below.connect(("127.0.0.1", port))
    peer = await shaken(trio.SocketStream(below), upgrade(PATH, f"Authorization: Bearer {key}"))
    assert peer.answer.status == 101, peer.answer
    await peer.say(json.dumps({"id": "1", "listen": "events", "session": session, "since": "0"}))
    await peer.more()
    return peer


async def _listen(port: int, key: str, session: str, slots: trio.CapacityLimiter, listening: trio.Semaphore) -> None:
    async with slots:
        stream = (await _begun(port, key, session, 0)).stream
    listening.release()
    while await stream.receive_some(65536):
        pass


async def _rest(
    port: int,
    key: str,
    session: str,
    slots: trio.CapacityLimiter,
    listening: trio.Semaphore,
    woken: trio.Event,
    ends: Counter[str],
) -> None:
    """Listen and read nothing, until woken; then note the code of the close, and whether there is a cursor."""
    async with slots:
        peer = await _begun(port, key, session, 4096)
    listening.release()
    await woken.wait()
    while await peer.more():
        pass
    cursors = [found for text in peer.heard.texts if (found := json.loads(text).get("cursor"))]
    ends[f"code {peer.heard.code}, {'with' if cursors else 'without'} a cursor"] += 1


if __name__ == "__main__":
    port, key, reading, resting, *sessions = sys.argv[1:]
    trio.run(audience, int(port), key, int(reading), int(resting), sessions)

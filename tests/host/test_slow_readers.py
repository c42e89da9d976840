"""Clients that stop reading their streams: they cost their connection, a little memory, and nobody else's time."""

from __future__ import annotations

import gc
import socket
import tracemalloc
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
import trio

from agentrail import SessionSpec, Subscription
from agentrail.api.limits import DEFAULTS
from agentrail.host import HostLimits
from agentrail.testing import ScriptedModel, say
from tests.host.hosted import KEYS, Desk, frames, listening, open_desk
from tests.patience import PATIENCE

MOST_HELD = 256 * 1024
LONG = say(chunks=["so much text in each of them " * 80] * 200)
LIMITS = HostLimits(write_seconds=2.0, drain_seconds=0.5)


def long_spec() -> SessionSpec:
    return SessionSpec(model=ScriptedModel([LONG], repeat_last=True))


@asynccontextmanager
async def stalled(desk: Desk, path: str) -> AsyncGenerator[trio.SocketStream]:
    """Ask for a stream, and never read it; the system keeps little for this client."""
    host, _, port = desk.serving.url.removeprefix("http://").partition(":")
    tcp = trio.socket.socket()
    tcp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    await tcp.connect((host, int(port)))
    async with trio.SocketStream(tcp) as stream:
        head = f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {KEYS['ann']}\r\n\r\n"
        await stream.send_all(head.encode())
        yield stream


async def connections(desk: Desk) -> int:
    """Return how many connections the host has, without the one that asks."""
    text = (await desk.clients["root"].get("/metrics", headers={"connection": "close"})).text
    (line,) = [line for line in text.splitlines() if line.startswith("agentrail_connections ")]
    return int(float(line.split()[1])) - 1


async def talk(desk: Desk, turns: int) -> None:
    for _ in range(turns):
        answer = await desk.ann.post("/v1/chat", json={"message": "go", "session": "trip"})
        assert answer.json()["stop_reason"] == "end"


def test_a_connection_is_closed_within_ten_seconds() -> None:
    """The system takes the first bytes that a client does not read, and others may be closed before it."""
    assert DEFAULTS.write_seconds == 6


@pytest.mark.long
async def test_who_stops_reading_is_cut_and_goes_on_from_its_cursor() -> None:
    async with open_desk(long_spec(), limits=LIMITS) as desk:
        await desk.ann.post("/v1/sessions", json={"session": "trip"})
        path = "/v1/sessions/trip/events"
        async with listening(desk, "GET", path) as reader:
            await desk.ann.post("/v1/sessions/trip/prompt", json={"message": "go"})
            text = await reader.until(lambda text: "event: AgentStart" in text)
            connected = await connections(desk)
            await talk(desk, 3)
            with trio.fail_after(PATIENCE):
                while await connections(desk) >= connected:  # noqa: ASYNC110 - the host sees it
                    await trio.sleep(0.05)
        heard = [frame["id"] for frame in frames(text)]
        async with listening(desk, "GET", path, since=heard[-1]) as reader:
            rest = frames(await reader.until(lambda text: text.count("event: AgentEnd") == 4))
        heard += [frame["id"] for frame in rest if "id" in frame]
        durable = [int(frame.partition(".")[0]) for frame in heard if frame.endswith(".0")]
        assert durable == list(range(durable[0], durable[0] + len(durable)))


@pytest.mark.long
@pytest.mark.parametrize("readers", [1, 20])
async def test_what_is_held_for_each_is_a_cursor_and_little_more(readers: int) -> None:
    limits = HostLimits(write_seconds=1_000, drain_seconds=0.5)
    async with open_desk(long_spec(), limits=limits) as desk, AsyncExitStack() as stack:
        await desk.ann.post("/v1/sessions", json={"session": "trip"})
        await talk(desk, 1)
        for _ in range(readers):
            await stack.enter_async_context(stalled(desk, "/v1/sessions/trip/events"))
        tracemalloc.start()
        try:
            await talk(desk, 10)
            with trio.fail_after(PATIENCE):
                while waiting():  # noqa: ASYNC110 - the host lets go of it in its own time
                    await trio.sleep(0.05)
            held = memory()
            await stack.aclose()
            with trio.fail_after(PATIENCE):
                while await connections(desk) > 1:  # noqa: ASYNC110 - the host sees it
                    await trio.sleep(0.05)
            held -= memory()
        finally:
            tracemalloc.stop()
        assert held / readers <= MOST_HELD


def waiting() -> int:
    """Return how many events wait for subscribers."""
    return sum(item.waiting for item in gc.get_objects() if isinstance(item, Subscription))


def memory() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]

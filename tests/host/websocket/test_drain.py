"""A host that ends tells its clients to connect again, after the answers to their calls."""

from __future__ import annotations

from functools import partial

import trio

from agentrail.host import HostLimits
from agentrail.journals import MemoryJournal
from agentrail.testing import stall
from tests.host.hosted import Desk, open_desk, scripted
from tests.host.websocket.talking import problem, talking

AGAIN = (1012, "the host restarts; reconnect, and continue from your last cursor")


async def closes(desk: Desk, *, busy: bool, task_status: trio.TaskStatus[None]) -> None:
    """Open a socket, with a call under way if it is *busy*, and expect the close that says to connect again."""
    async with talking(desk) as talker:
        if busy:
            await talker.say(id="1", call="chat", body={"message": "stay", "session": "trip"})
        assert (await talker.ask("commands"))["status"] == 200
        task_status.started()
        assert await talker.closed() == AGAIN


async def test_an_idle_socket_is_closed_at_once() -> None:
    limits = HostLimits(drain_seconds=60)
    async with trio.open_nursery() as nursery, open_desk(scripted("one"), limits=limits) as desk:
        await nursery.start(partial(closes, desk, busy=False))


async def test_a_call_that_takes_longer_than_the_host_may_wait_ends_with_the_same_code() -> None:
    limits = HostLimits(drain_seconds=0.3)
    async with trio.open_nursery() as nursery, open_desk(scripted(stall(after=1)), limits=limits) as desk:
        await nursery.start(partial(closes, desk, busy=True))


async def listens(desk: Desk, *, task_status: trio.TaskStatus[None]) -> None:
    """Listen to a session; expect to be told that the host is closing, and not that the session has ended."""
    async with talking(desk) as talker:
        await talker.ask("open_session", body={"session": "trip"})
        await talker.say(id="e", listen="events", session="trip")
        assert (await talker.heard()).keys() == {"id", "cursor"}
        task_status.started()
        last = (await talker.until(lambda message: "end" in message))[-1]
        assert problem(last) == "host-closing"
        assert await talker.closed() == AGAIN


async def test_a_subscription_to_a_session_that_is_parked_does_not_seem_to_have_ended() -> None:
    async with trio.open_nursery() as nursery, open_desk(scripted("one"), journal=MemoryJournal()) as desk:
        await nursery.start(listens, desk)

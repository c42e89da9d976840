"""A host that ends tells its clients to connect again, after the answers to their calls."""

from __future__ import annotations

from functools import partial

import trio

from agentrail.testing import stall
from agentrail.wire.limits import HostLimits
from tests.host.hosted import Desk, open_desk, scripted
from tests.host.websocket.talking import talking

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

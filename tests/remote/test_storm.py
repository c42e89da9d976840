"""Many lines that are cut at once, again and again: each is served again, and misses nothing durable."""

from __future__ import annotations

from typing import Final

import pytest
import trio

from agentrail.events import Cursor
from agentrail.remote.transport.host_connection import open_line
from agentrail.remote.transport.host_subscription import EventFrame
from tests.host.hosted import open_desk, scripted
from tests.profiles import CAMPAIGN
from tests.remote.cut_sessions import LIMITS
from tests.remote.cut_visitors import KEY
from tests.remote.playing_host import Relay

pytestmark = pytest.mark.long

LINES: Final = 1000 if CAMPAIGN else 100
TIMES: Final = 10 if CAMPAIGN else 3
"""How often all are cut: 10,000 reconnects in the campaign, 300 in CI."""

UNCUT: Final = 10**12


async def listen(
    relay: Relay, log: list[Cursor], task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """Keep the durable events that a line hears, up to the end of a run."""
    async with open_line(relay.url, KEY) as line, line.listen("events", "trip", since=Cursor(0)) as heard:
        task_status.started()
        async for frame in heard:
            if isinstance(frame, EventFrame) and frame.cursor.n == 0:
                log.append(frame.cursor)
                if frame.event == "AgentEnd":
                    return


async def test_all_lines_are_served_again_when_all_are_cut_at_once() -> None:
    async with open_desk(scripted("at last"), limits=LIMITS) as desk, open_line(desk.serving.url, KEY) as line:
        await line.call("open_session", body={"session": "trip"})
        relay = Relay(int(desk.serving.url.rpartition(":")[2]), lambda: UNCUT)
        logs: list[list[Cursor]] = [[] for _ in range(LINES)]
        async with relay.relaying(), trio.open_nursery() as nursery:
            for log in logs:
                await nursery.start(listen, relay, log)
            for _ in range(TIMES):
                await relay.all_open(LINES)
                relay.cut_all()
            await line.call("chat", body={"message": "hello", "session": "trip"})
    assert logs == [[Cursor(seq) for seq in range(1, len(logs[0]) + 1)]] * LINES
    assert relay.connections >= LINES * TIMES

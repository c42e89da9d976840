"""Clients of a host that runs sessions, cut at random bytes: compared with a line to it that is not cut."""

from __future__ import annotations

import logging
import random
from collections import Counter
from typing import Final

import pytest
import trio

from agentrail.remote.transport.host_connection import open_line
from agentrail.remote.transport.host_subscription import EventFrame
from tests.host.hosted import open_desk
from tests.kit import watching
from tests.profiles import CAMPAIGN
from tests.remote.cut_sessions import LIMITS, Crashes, agent
from tests.remote.cut_visitors import KEY, LineVisitor, StreamVisitor, Visitor
from tests.remote.playing_host import Relay

pytestmark = pytest.mark.long

CUTS: Final = 10_000 if CAMPAIGN else 300
SESSIONS: Final = 8
SECONDS: Final = 7200 if CAMPAIGN else 600
LIVED: Final = {"AgentEnd", "AgentAbort", "ToolExecutionEnd", "SessionRestarted", "SessionHibernated", "SessionWoken"}


@pytest.mark.parametrize("kind", [LineVisitor, StreamVisitor])
async def test_cuts_at_random_bytes_cost_a_session_nothing(
    kind: type[Visitor], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)  # of thousands of crashes, which it would keep
    draw, crashes = random.Random(0), Crashes(random.Random(1))
    async with open_desk(agent(), limits=LIMITS) as desk:
        url = desk.serving.url
        relay = Relay(int(url.rpartition(":")[2]), lambda: draw.choice((draw.randint(1, 800), draw.randint(1, 20_000))))
        visitors = [kind(relay, f"s{number}", CUTS) for number in range(SESSIONS)]
        async with open_line(url, KEY) as line:
            for visitor in visitors:  # one that crashes before it has started would be none
                await line.call("open_session", body={"session": visitor.name})
        with trio.fail_after(SECONDS), watching(crashes):
            async with relay.relaying(), trio.open_nursery() as nursery:
                for visitor in visitors:
                    nursery.start_soon(visitor.visit, url)
    assert relay.cuts >= CUTS
    for visitor in visitors:
        visitor.check()
    heard = Counter(frame.event for visitor in visitors for frame in visitor.log if isinstance(frame, EventFrame))
    assert heard.keys() >= LIVED
    print(f"\n{relay.cuts} cuts, {dict(heard)}, {dict(crashes.seen)}")  # noqa: T201

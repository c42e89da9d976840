"""A line that is cut at random bytes: nothing durable is lost, doubled or out of order, and prompts are sent once."""

from __future__ import annotations

import random
from typing import Final

import pytest
import trio

from agentrail.events import Cursor
from agentrail.remote.transport.host_connection import HostConnection
from agentrail.remote.transport.host_subscription import EventFrame, GapFrame, SubscriptionFrame
from tests.profiles import CAMPAIGN
from tests.remote.played_sessions import DELTAS, PlayedSession, SessionsHost
from tests.remote.playing_host import KEY, Relay

pytestmark = pytest.mark.long

CUTS: Final = 10_000 if CAMPAIGN else 300
LINES: Final = 8
UNCUT: Final = 10**12


class Visitor:
    """A client with one line: it prompts a session, and keeps a log of what it hears."""

    def __init__(self, relay: Relay, name: str) -> None:
        self.relay = relay
        self.name = name
        self.log: list[SubscriptionFrame] = []
        self.sent: list[str] = []

    async def talk(self, line: HostConnection) -> None:
        """Prompt while there are cuts to make, then once more, and listen until that is over."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.listen, line)
            while self.relay.cuts < CUTS:
                await self.prompt(line, f"{self.name} {len(self.sent)}")
            self.relay.budget = lambda: UNCUT
            await self.prompt(line, "last")

    async def prompt(self, line: HostConnection, text: str) -> None:
        """Prompt the session."""
        self.sent.append(text)
        await line.call("prompt", session=self.name, body={"message": text})

    async def listen(self, line: HostConnection) -> None:
        """Keep a log, up to the end of the last prompt."""
        async with line.listen("events", self.name, since=Cursor(0)) as heard:
            async for frame in heard:
                self.log.append(frame)
                if isinstance(frame, EventFrame) and frame.data == {"ended": "last"}:
                    return


def check(visitor: Visitor, session: PlayedSession) -> None:
    """Compare the log of a client with what the session has said."""
    events = [frame for frame in visitor.log if isinstance(frame, EventFrame)]
    cursors = [frame.cursor for frame in events]
    assert cursors == sorted(set(cursors))
    assert [frame.data for frame in events if frame.cursor.n == 0] == session.durable
    delta_cursors = {Cursor(seq, n) for seq, count in session.deltas.items() for n in range(1, count + 1)}
    assert {cursor for cursor in cursors if cursor.n} <= delta_cursors
    gaps = [frame for frame in visitor.log if isinstance(frame, GapFrame)]
    missed = sorted(delta_cursors - {*cursors})
    assert [missing for missing in missed if not any(gap.start < missing <= gap.end for gap in gaps)] == []
    assert [frame["prompt"] for frame in session.durable if "prompt" in frame] == visitor.sent
    assert set(session.carried_out.values()) == {1}
    assert len(session.carried_out) == len(visitor.sent)


@pytest.mark.campaign
async def test_cuts_at_random_bytes_cost_nothing() -> None:
    draw = random.Random(0)
    host = SessionsHost(play=lambda _: [])
    with host.playing():
        relay = Relay(host.port, lambda: draw.choice((draw.randint(1, 600), draw.randint(1, 6000))))
        visitors = [Visitor(relay, f"session-{number}") for number in range(LINES)]
        with trio.fail_after(1200):
            async with relay.relaying(), trio.open_nursery() as nursery:
                for visitor in visitors:
                    nursery.start_soon(relay.visited, KEY, visitor.talk)
    assert relay.cuts >= CUTS
    for visitor in visitors:
        check(visitor, host.sessions[visitor.name])
    deltas = sum(len(visitor.sent) * DELTAS for visitor in visitors)
    heard = sum(
        len([frame for frame in visitor.log if isinstance(frame, EventFrame) and frame.cursor.n])
        for visitor in visitors
    )
    assert 0 < heard < deltas

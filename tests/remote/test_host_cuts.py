"""Lines to a host that runs sessions, cut at random bytes: compared with a line to it that is not cut."""

from __future__ import annotations

import random
from typing import Final, cast

import trio

from agentrail import SessionSpec, tool
from agentrail.remote.host_frames import EventFrame, GapFrame
from agentrail.remote.line import Line, open_line
from agentrail.remote.line_subscription import Told
from agentrail.testing import ScriptedModel
from agentrail.testing.scripted import Saying, call, say
from agentrail.values.events.envelope import Cursor
from agentrail.values.messages import ToolMessage
from agentrail.values.stream import ModelRequest
from agentrail.wire.limits import HostLimits
from tests.host.hosted import KEYS, open_desk
from tests.profiles import CAMPAIGN
from tests.remote.playing_host import Relay

CUTS: Final = 10_000 if CAMPAIGN else 300
SESSIONS: Final = 8
UNCUT: Final = 10**12
KEY: Final = KEYS["ann"]
LAST: Final = "the last"
LIMITS: Final = HostLimits(
    drain_seconds=0.5,
    requests_per_second=1e6,
    burst=10**6,
    connections=10_000,
    connections_per_address=10_000,
    streams=10_000,
)


@tool
async def look(place: str) -> str:
    """Look at a place.

    Args:
        place: The place.
    """
    await trio.sleep(0.01)
    return f"nothing at {place}"


def answered(request: ModelRequest) -> Saying:
    """Call a tool, then say so much that a cut falls into it."""
    if isinstance(request.messages[-1], ToolMessage):
        return say("so it is " * 10, delay=0.002)
    return say("a look ", calls=[call("look", {"place": "home"})])


class Visitor:
    """A client of one session: it prompts through a relay, and keeps a log; beside it one line is not cut."""

    def __init__(self, relay: Relay, name: str) -> None:
        self.relay = relay
        self.name = name
        self.log: list[Told] = []
        self.whole: list[Told] = []
        self.sent: list[str] = []
        self.kept: list[str] = []

    async def visit(self, direct: str) -> None:
        """Prompt while there are cuts to make, then once more, and listen until that is over."""
        async with open_line(direct, KEY) as line, trio.open_nursery() as nursery:
            await line.call("open_session", body={"session": self.name})
            nursery.start_soon(self.listen, line, self.whole)
            await self.relay.visited(KEY, self.talk)
        async with open_line(direct, KEY) as line:
            self.kept = await self.prompts(line)

    async def talk(self, line: Line) -> None:
        """Prompt and listen; some prompts are waited for, others not."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.listen, line, self.log)
            while self.relay.cuts < CUTS:
                await self.prompt(line, f"{self.name} {len(self.sent)}", waits=False)
                await self.prompt(line, f"{self.name} {len(self.sent)}", waits=True)
            self.relay.budget = lambda: UNCUT
            await self.prompt(line, LAST, waits=True)

    async def prompt(self, line: Line, text: str, *, waits: bool) -> None:
        """Prompt the session, and wait for the end of the turn if it *waits*."""
        self.sent.append(text)
        if waits:
            await line.call("chat", body={"message": text, "session": self.name})
        else:
            await line.call("prompt", session=self.name, body={"message": text})

    async def listen(self, line: Line, log: list[Told]) -> None:
        """Keep a log, up to the end of the last turn."""
        async with line.listen("events", self.name, since=Cursor(0)) as heard:
            async for told in heard:
                log.append(told)
                if isinstance(told, EventFrame) and told.event == "AgentEnd" and LAST in str(told.data):
                    return

    async def prompts(self, line: Line) -> list[str]:
        """Return the prompts that the session has kept."""
        found: list[str] = []
        after: int | None = 0
        while after is not None:
            page = cast("dict[str, object]", await line.call("messages", session=self.name, query={"after": after}))
            for message in cast("list[dict[str, object]]", page["items"]):
                if message["$"] == "UserMessage":
                    found += [str(part["text"]) for part in cast("list[dict[str, object]]", message["parts"])]
            after = cast("int | None", page["next"])
        return found

    def check(self) -> None:
        """Compare the log with what was heard without cuts."""
        whole = {told.cursor: told for told in self.whole if isinstance(told, EventFrame)}
        events = [told for told in self.log if isinstance(told, EventFrame)]
        cursors = [told.cursor for told in events]
        assert cursors == sorted(set(cursors))
        durable = [told for told in whole.values() if told.cursor.n == 0]
        assert [told.cursor.seq for told in durable] == [*range(1, len(durable) + 1)]
        assert [told.data for told in events if told.cursor.n == 0] == [told.data for told in durable]
        gaps = [told for told in self.log if isinstance(told, GapFrame)]
        missed = sorted({*whole} - {*cursors})
        assert [one for one in missed if not any(gap.start < one <= gap.end for gap in gaps)] == []
        assert self.kept == self.sent


async def test_cuts_at_random_bytes_cost_a_session_nothing() -> None:
    draw = random.Random(0)
    spec = SessionSpec(model=ScriptedModel([answered], repeat_last=True), tools=[look])
    async with open_desk(spec, limits=LIMITS) as desk:
        url = desk.serving.url
        relay = Relay(int(url.rpartition(":")[2]), lambda: draw.choice((draw.randint(1, 800), draw.randint(1, 20_000))))
        visitors = [Visitor(relay, f"s{number}") for number in range(SESSIONS)]
        with trio.fail_after(2400):
            async with relay.relaying(), trio.open_nursery() as nursery:
                for visitor in visitors:
                    nursery.start_soon(visitor.visit, url)
    assert relay.cuts >= CUTS
    for visitor in visitors:
        visitor.check()

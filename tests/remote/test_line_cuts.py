"""A line that is cut at random bytes: nothing durable is lost, doubled or out of order, and prompts are sent once."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from typing import Final, cast

import pytest
import trio
from attrs import define, field
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed

from agentrail.events import Cursor
from agentrail.remote.transport.host_connection import HostConnection
from agentrail.remote.transport.host_subscription import EventFrame, GapFrame, SubscriptionFrame
from tests.profiles import CAMPAIGN
from tests.remote.playing_host import KEY, Message, PlayingHost, Relay

# What the playing host has: durable events, deltas of which the newest are kept, prompts by command id

KEPT: Final = 8
"""How many of the newest deltas are kept."""

PAUSE: Final = 0.005
"""Seconds between deltas: turns last as long as a reconnect, so that cuts fall into them."""

DELTAS: Final = 12
"""How many deltas a turn has."""


@define
class PlayedSession:
    """What a session has said."""

    durable: list[Message] = field(factory=list)
    deltas: Counter[int] = field(factory=Counter)
    commands: dict[str, Message] = field(factory=dict)
    carried_out: Counter[str] = field(factory=Counter)
    changed: asyncio.Event = field(factory=asyncio.Event)

    def tell(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()

    def say(self, data: Message) -> None:
        self.durable.append(data)
        self.tell()

    @property
    def end(self) -> Cursor:
        return Cursor(len(self.durable), self.deltas[len(self.durable)])

    def after(self, start: Cursor) -> tuple[list[Message], Cursor]:
        """Return the messages after *start*, a gap first, and where they end."""
        messages: list[Message] = []
        last = len(self.durable)
        first_kept = max(0, self.deltas[last] - KEPT)
        lost = [Cursor(seq, self.deltas[seq]) for seq in range(start.seq, last) if self.deltas[seq]]
        lost += [Cursor(last, first_kept)] if first_kept else []
        if lost and lost[-1] > start:
            messages.append({"gap": {"from": str(start), "to": str(lost[-1])}})
        messages += [
            {"cursor": f"{seq}.0", "event": "Said", "data": self.durable[seq - 1]}
            for seq in range(start.seq + 1, last + 1)
        ]
        first = max(first_kept, start.n) if start.seq == last else first_kept
        messages += [
            {"cursor": f"{last}.{n}", "event": "Delta", "data": {"n": n}}
            for n in range(first + 1, self.deltas[last] + 1)
        ]
        return messages, max(start, self.end)

    async def prompt(self, text: str, command: str) -> Message:
        """Carry out a prompt, once for each command id."""
        if command not in self.commands:
            self.carried_out[command] += 1
            self.commands[command] = {"seq": len(self.durable) + 1}
            self.say({"prompt": text})
            for n in range(1, DELTAS + 1):
                await asyncio.sleep(PAUSE)
                self.deltas[len(self.durable)] = n
                self.tell()
            self.say({"ended": text})
        return self.commands[command]


@define
class SessionsHost(PlayingHost):
    """A host that plays sessions."""

    sessions: dict[str, PlayedSession] = field(factory=dict)

    async def handle(self, connection: ServerConnection) -> None:
        """Serve one connection."""
        tasks: dict[str, asyncio.Task[None]] = {}
        try:
            async for text in connection:
                message: Message = json.loads(text)
                name = str(message["id"])
                if "end" in message:
                    if name in tasks:
                        tasks.pop(name).cancel()
                    continue
                session = self.sessions.setdefault(str(message["session"]), PlayedSession())
                work = self.listen if "listen" in message else self.call
                tasks[name] = asyncio.create_task(work(connection, session, message))
        except ConnectionClosed:
            pass
        finally:
            for task in tasks.values():
                task.cancel()
            await asyncio.gather(*tasks.values(), return_exceptions=True)

    async def call(self, connection: ServerConnection, session: PlayedSession, message: Message) -> None:
        """Answer a prompt; it is carried out also if the client has gone."""
        body = cast("dict[str, str]", message["body"])
        work = asyncio.create_task(session.prompt(body["message"], str(message["command"])))
        answer = await asyncio.shield(work)
        await connection.send(json.dumps({"id": message["id"], "status": 202, "body": answer}))

    async def listen(self, connection: ServerConnection, session: PlayedSession, message: Message) -> None:
        """Send what there is, then what comes."""
        start = message.get("since")
        seq, _, n = str(start).partition(".")
        position = session.end if start is None else Cursor(int(seq), int(n))
        await connection.send(json.dumps({"id": message["id"], "cursor": str(position)}))
        while True:
            changed = session.changed
            frames, position = session.after(position)
            for frame in frames:
                await connection.send(json.dumps({"id": message["id"], **frame}))
            await changed.wait() if changed is session.changed else None


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

"""Sessions that a playing host has: durable events, deltas of which the newest are kept, prompts by command id."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Final, cast

from attrs import define, field
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed

from agentrail.events import Cursor
from tests.remote.playing_host import Message, PlayingHost

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

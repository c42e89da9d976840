"""Clients whose connections are cut, by WebSocket and by server-sent events; beside each, a line that is not cut."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from typing import Final, cast

import trio

from agentrail.api.sse_frames import GAP, read_cursor
from agentrail.events import Cursor
from agentrail.remote.transport.host_connection import HostConnection, open_line
from agentrail.remote.transport.host_subscription import EventFrame, GapFrame, SubscriptionFrame
from tests.host.deployed.client import Answer, CutError
from tests.host.hosted import KEYS
from tests.remote.cut_sessions import NOWHERE, SILENCE
from tests.remote.playing_host import Relay

KEY: Final = KEYS["ann"]
LAST: Final = "the last"
UNCUT: Final = 10**12
ROUND: Final = ("", f" {SILENCE}", f" {NOWHERE}", "")
"""What messages say beside their number, in turn."""


class Visitor(ABC):
    """A client of one session: it prompts through a relay, and keeps a log; beside it one line is not cut."""

    def __init__(self, relay: Relay, name: str, cuts: int) -> None:
        self.relay = relay
        self.name = name
        self.cuts = cuts
        self.log: list[SubscriptionFrame] = []
        self.whole: list[SubscriptionFrame] = []
        self.sent: list[str] = []
        self.kept: list[str] = []
        self._news = trio.Event()

    async def visit(self, direct: str) -> None:
        """Prompt while there are cuts to make, then once more, and listen until that is over."""
        async with open_line(direct, KEY) as line:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.listen_uncut, line)
                await self.use()
            self.kept = await self.prompts(line)

    @abstractmethod
    async def use(self) -> None:
        """Listen to the session and prompt it, through the relay."""

    @abstractmethod
    async def say(self, text: str, *, waits: bool) -> None:
        """Prompt the session, and wait for the end of the turn if it *waits*."""

    async def take_turns(self) -> None:
        """Prompt; some prompts are waited for, others not, and now and then the session rests before the next one."""
        while self.relay.cuts < self.cuts:
            await self.prompt(f"{self.name} {len(self.sent)}{ROUND[len(self.sent) // 2 % 4]}", waits=False)
            await self.prompt(f"{self.name} {len(self.sent)}", waits=True)
            if len(self.sent) % 8 == 0:
                await self.rest()
        self.relay.budget = lambda: UNCUT
        await self.prompt(LAST, waits=True)

    async def prompt(self, text: str, *, waits: bool) -> None:
        self.sent.append(text)
        await self.say(text, waits=waits)

    async def rest(self) -> None:
        """Wait until the session hibernates, if it does not do so already."""
        names = {"PromptReceived", "SessionHibernated"}
        while True:
            heard = [frame.event for frame in self.whole if isinstance(frame, EventFrame) and frame.event in names]
            if heard[-1:] == ["SessionHibernated"]:
                return
            await self._news.wait()

    async def listen_uncut(self, line: HostConnection) -> None:
        async with line.listen("events", self.name, since=Cursor(0)) as heard:
            async for frame in heard:
                self.whole.append(frame)
                news, self._news = self._news, trio.Event()
                news.set()
                if is_last(frame):
                    return

    async def prompts(self, line: HostConnection) -> list[str]:
        """Return the prompts that the session has kept."""
        texts: list[str] = []
        after: int | None = 0
        while after is not None:
            page = cast("dict[str, object]", await line.call("messages", session=self.name, query={"after": after}))
            for message in cast("list[dict[str, object]]", page["items"]):
                if message["$"] == "UserMessage":
                    texts += [str(part["text"]) for part in cast("list[dict[str, object]]", message["parts"])]
            after = cast("int | None", page["next"])
        return texts

    def check(self) -> None:
        """Compare the log with what was heard without cuts."""
        by_cursor = {frame.cursor: frame for frame in self.whole if isinstance(frame, EventFrame)}
        events = [frame for frame in self.log if isinstance(frame, EventFrame)]
        cursors = [frame.cursor for frame in events]
        assert cursors == sorted(set(cursors))
        durable = [frame for frame in by_cursor.values() if frame.cursor.n == 0]
        assert [frame.cursor.seq for frame in durable] == [*range(1, len(durable) + 1)]
        assert [frame.data for frame in events if frame.cursor.n == 0] == [frame.data for frame in durable]
        gaps = [frame for frame in self.log if isinstance(frame, GapFrame)]
        missed = sorted({*by_cursor} - {*cursors})
        assert [cursor for cursor in missed if not any(gap.start < cursor <= gap.end for gap in gaps)] == []
        assert self.kept == self.sent


def is_last(frame: SubscriptionFrame) -> bool:
    """Whether this is the end of the last turn."""
    return isinstance(frame, EventFrame) and frame.event == "AgentEnd" and LAST in str(frame.data)


class LineVisitor(Visitor):
    """Talks over a WebSocket, which the line makes again."""

    async def use(self) -> None:
        await self.relay.visited(KEY, self._talk)

    async def _talk(self, line: HostConnection) -> None:
        self._line = line
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._listen, line)
            await self.take_turns()

    async def say(self, text: str, *, waits: bool) -> None:
        if waits:
            await self._line.call("chat", body={"message": text, "session": self.name})
        else:
            await self._line.call("prompt", session=self.name, body={"message": text})

    async def _listen(self, line: HostConnection) -> None:
        """Keep a log, up to the end of the last turn."""
        async with line.listen("events", self.name, since=Cursor(0)) as heard:
            async for frame in heard:
                self.log.append(frame)
                if is_last(frame):
                    return


class StreamVisitor(Visitor):
    """Hears server-sent events, each time from the last one on, and sends a request again until it is answered."""

    async def use(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._listen)
            await self.take_turns()

    async def say(self, text: str, *, waits: bool) -> None:
        path = "/v1/chat" if waits else f"/v1/sessions/{self.name}/prompt"
        body = {"message": text, "session": self.name} if waits else {"message": text}
        headers = [("content-type", "application/json"), ("idempotency-key", text.replace(" ", "-"))]
        while True:
            try:
                async with self._asked("POST", path, headers, json.dumps(body).encode()) as answer:
                    data = b"".join([piece async for piece in answer.pieces()])
                    assert answer.status in {200, 202}, data
                    return
            except CutError:
                continue

    async def _listen(self) -> None:
        """Keep a log, up to the end of the last turn."""
        while not any(map(is_last, self.log[-1:])):
            since = next((str(frame.cursor) for frame in reversed(self.log) if isinstance(frame, EventFrame)), "0")
            try:
                async with self._asked("GET", f"/v1/sessions/{self.name}/events", [("last-event-id", since)]) as answer:
                    assert answer.status == 200, answer.status
                    await self._hear(answer)
            except CutError:
                continue

    async def _hear(self, answer: Answer) -> None:
        text = b""
        async with aclosing(answer.pieces()) as pieces:
            async for piece in pieces:
                *frames, text = (text + piece).split(b"\n\n")
                for frame in map(read_told, map(bytes.decode, frames)):
                    if frame is not None:
                        self.log.append(frame)
                        if is_last(frame):  # what comes behind it may be in the same piece
                            return

    @asynccontextmanager
    async def _asked(
        self, method: str, path: str, headers: list[tuple[str, str]], body: bytes = b""
    ) -> AsyncGenerator[Answer]:
        """Send a request on a connection of its own, and yield the answer; raise `CutError` if none comes."""
        async with await trio.open_tcp_stream("127.0.0.1", self.relay.port) as stream:
            answer = Answer(stream)
            all_headers = [("host", "127.0.0.1"), ("authorization", f"Bearer {KEY}"), *headers]
            await answer.ask(method, path, [*all_headers, ("content-length", str(len(body)))], body)
            yield answer


def read_told(frame: str) -> SubscriptionFrame | None:
    """Return what a frame tells; `None` if it is a heartbeat."""
    fields = dict(line.split(": ", 1) for line in frame.split("\n") if ": " in line)
    if "data" not in fields:
        return None
    data = json.loads(fields["data"])
    if fields["event"] == GAP:
        start, end = read_cursor(data["from"]), read_cursor(data["to"])
        assert start is not None
        assert end is not None
        return GapFrame("", start, end)
    cursor = read_cursor(fields["id"])
    assert cursor is not None
    return EventFrame("", cursor, fields["event"], data)

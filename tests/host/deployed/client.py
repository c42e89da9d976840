"""A client of a deployed host: it prompts one session, hears its events, and goes on by itself after each cut."""

from __future__ import annotations

import json
import math
import time
from collections import Counter
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from random import Random

import h11
import trio
from attrs import define, field, frozen

LATER = frozenset({502, 503})
"""Statuses after which the same request is sent again: a balancer says 502 when its host has been cut off."""


@frozen
class Heard:
    """An event of the stream."""

    cursor: tuple[int, int]
    name: str
    ref: str | None
    approval: str = ""
    """Id of the call that waits for a decision."""


class CutError(Exception):
    """The connection has ended before the answer was whole."""


@define
class Client:
    """One user's client of one session, and its log."""

    port: int
    key: str
    session: str
    chance: Random
    longest: float
    """The most seconds that a tool takes."""
    rest: float = math.inf
    """The most seconds for which it stays away when it is told to."""
    acknowledged: dict[str, str] = field(factory=dict)
    """The ids of prompts that the host has taken, by their texts."""
    heard: list[Heard] = field(factory=list)
    cuts: list[tuple[float, float]] = field(factory=list)
    """When each stream ended, and when the next one began."""
    statuses: Counter[int] = field(factory=Counter)
    problems: Counter[str] = field(factory=Counter)
    """How often it was told to come again, by type of problem, or by the status that a balancer gives."""
    refused: int = 0
    """Connections that nobody has accepted."""
    sent: int = 0
    over: bool = False
    rests: trio.Event = field(factory=trio.Event)
    """Set when the last turn has ended."""
    news: trio.Event = field(factory=trio.Event)
    """Set when the next event is heard."""

    async def use(self) -> None:
        """Open the session, and hear and prompt it until `over`; the turn that is under way then ends first."""
        await self.open()
        await self.take_turns()

    async def open(self) -> None:
        """Open the session; the same command opens it once."""
        await self.command("POST", "/v1/sessions", {"session": self.session}, "open")

    async def take_turns(self) -> None:
        """Hear and prompt the session until `over`."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.listen)
            while not self.over:
                await self.take_turn()
            nursery.cancel_scope.cancel()
        self.rests.set()

    async def take_turn(self) -> None:
        """Send a prompt, and wait for the end of its turn."""
        ref = await self.begin_turn()
        while not self.has_ended(ref):
            await self.news.wait()

    async def begin_turn(self, more: str = "") -> str:
        """Send a prompt that ends with *more*; return its id."""
        self.sent += 1
        text = f"{self.session}-{self.sent} {self.chance.uniform(0.1 * self.longest, self.longest):.2f}{more}"
        self.acknowledged[text] = ref = await self.say(text)
        return ref

    def has_ended(self, ref: str) -> bool:
        """Whether the end of the turn of a prompt has been heard."""
        return any(frame.ref == ref and frame.name in ("AgentEnd", "AgentAbort") for frame in self.heard)

    async def began(self) -> None:
        """Wait until an event has been heard."""
        while not self.heard:
            await self.news.wait()

    async def say(self, text: str) -> str:
        """Send a prompt until it is acknowledged, and return its id."""
        accepted = await self.command("POST", f"/v1/sessions/{self.session}/prompt", {"message": text}, text)
        return accepted["ref"]

    async def command(
        self, method: str, path: str, body: Mapping[str, object], command: str, *refused: str
    ) -> dict[str, str]:
        """Send a command until it is answered; each time with the same id.

        It may be *refused* with a problem of such a type.
        """
        headers = [("content-type", "application/json"), ("idempotency-key", command.replace(" ", "-"))]
        while True:
            try:
                async with self._asked(method, path, headers, json.dumps(body).encode()) as answer:
                    data = b"".join([piece async for piece in answer.pieces()])
                    if answer.status < 300 or any(f':{problem}"'.encode() in data for problem in refused):
                        document: dict[str, str] = json.loads(data or b"{}")
                        return document
                    self._note_problem(answer.status, data)
                    await trio.sleep(min(answer.retry_after, self.rest))
            except CutError:
                await trio.sleep(0.02)

    async def listen(self) -> None:
        """Hear the events of the session, each time from the last one on."""
        ended: float | None = None
        while True:
            since = "{}.{}".format(*self.heard[-1].cursor) if self.heard else "0"
            try:
                path = f"/v1/sessions/{self.session}/events"
                async with self._asked("GET", path, [("last-event-id", since)]) as answer:
                    if answer.status == 200:
                        if ended is not None:
                            self.cuts.append((ended, time.monotonic()))
                        await self._hear(answer)
                        ended = time.monotonic()
                    else:
                        data = b"".join([piece async for piece in answer.pieces()])
                        self._note_problem(answer.status, data)
                        await trio.sleep(min(answer.retry_after, self.rest))
            except CutError:
                ended = ended or time.monotonic()
                await trio.sleep(0.02)

    def _note_problem(self, status: int, data: bytes) -> None:
        """Note that a request has to be sent again; fail if it need not be."""
        assert status in LATER, (status, data)
        is_hosts = data.startswith(b"{")
        self.problems[json.loads(data)["type"].rpartition(":")[2] if is_hosts else str(status)] += 1

    async def _hear(self, answer: Answer) -> None:
        text = b""
        try:
            async for piece in answer.pieces():
                *frames, text = (text + piece).split(b"\n\n")
                for frame in frames:
                    self._take(frame.decode())
        except CutError:
            pass

    def _take(self, frame: str) -> None:
        fields = dict(line.split(": ", 1) for line in frame.split("\n") if ": " in line)
        if "id" not in fields:
            return
        seq, part = fields["id"].split(".")
        event = json.loads(fields["data"])["event"]
        self.hear(Heard((int(seq), int(part)), fields["event"], event.get("ref"), event.get("approval_id", "")))

    def hear(self, heard: Heard) -> None:
        """Note an event."""
        self.heard.append(heard)
        news, self.news = self.news, trio.Event()
        news.set()

    @asynccontextmanager
    async def _asked(
        self, method: str, path: str, headers: Sequence[tuple[str, str]], body: bytes = b""
    ) -> AsyncGenerator[Answer]:
        """Send a request on a connection of its own, and yield the answer; raise `CutError` if none comes."""
        try:
            stream = await trio.open_tcp_stream("127.0.0.1", self.port)
        except OSError as error:
            self.refused += 1
            raise CutError from error
        async with stream:
            answer = Answer(stream)
            all_headers = [("host", "127.0.0.1"), ("authorization", f"Bearer {self.key}"), *headers]
            await answer.ask(method, path, [*all_headers, ("content-length", str(len(body)))], body)
            self.statuses[answer.status] += 1
            yield answer


class Answer:
    """The answer to one request."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._parser = h11.Connection(h11.CLIENT)
        self.status = 0
        self.retry_after = 0.0

    async def ask(self, method: str, path: str, headers: Sequence[tuple[str, str]], body: bytes) -> None:
        """Send the request, and read the head of the answer."""
        sent = self._parser.send(h11.Request(method=method, target=path, headers=[*headers])) or b""
        sent += self._parser.send(h11.Data(data=body)) or b""
        sent += self._parser.send(h11.EndOfMessage()) or b""
        try:
            await self._stream.send_all(sent)
        except trio.BrokenResourceError as error:
            raise CutError from error
        head = await self._next()
        assert isinstance(head, h11.Response), head
        self.status = head.status_code
        self.retry_after = float(dict(head.headers).get(b"retry-after", b"0"))

    async def pieces(self) -> AsyncGenerator[bytes]:
        """Yield the content as it comes; raise `CutError` if it has no end."""
        while isinstance(event := await self._next(), h11.Data):
            yield bytes(event.data)

    async def _next(self) -> h11.Event:
        try:
            while True:
                event = self._parser.next_event()
                if not isinstance(event, type) or event is not h11.NEED_DATA:
                    break
                self._parser.receive_data(await self._stream.receive_some(65536))
        except (trio.BrokenResourceError, h11.RemoteProtocolError) as error:
            raise CutError from error
        if not isinstance(event, h11.Event):  # paused or over
            raise CutError
        if isinstance(event, h11.ConnectionClosed):
            raise CutError
        return event

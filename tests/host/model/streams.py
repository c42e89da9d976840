"""Streams of one session, read from any cursor, beside what the journal has: nothing is missing, or there twice."""

from __future__ import annotations

import json
from random import Random
from typing import Final

import trio
from attrs import frozen
from trio.testing import MockClock

from agentrail import SessionSpec
from agentrail.api.limits import DEFAULTS
from agentrail.api.sse_frames import GAP
from agentrail.events import Cursor
from agentrail.host import ApiKeys, Host, Profile
from agentrail.host.host_server import Opened
from agentrail.testing import ScriptedModel, say
from agentrail.testing.simulator.virtual import ClockWatch, run
from tests.host.model.expecting import ModelError, expect
from tests.host.model.in_process import DrawnRequest, ask, first_of, opened
from tests.host.model.people import LINES, PEOPLE
from tests.host.model.tenants import limits
from tests.kit import Failpoint, watching

HEADERS: Final = (("authorization", f"Bearer {PEOPLE[0].key}"), ("content-type", "application/json"))
EVENTS: Final = "/v1/sessions/s1/events"


@frozen
class Frame:
    """One frame of a stream of events."""

    name: str
    cursor: Cursor | None
    data: str


def read_frames(text: str) -> list[Frame]:
    """Return the frames of a stream, without heartbeats."""
    frames = list[Frame]()
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line)
        if fields:
            seq, _, n = fields.get("id", "").partition(".")
            frames.append(Frame(fields["event"], Cursor(int(seq), int(n)) if seq else None, fields["data"]))
    return frames


class Streams:
    """A host with one session, and what those have heard who listen to it."""

    def __init__(self, draw: Random, words: str, opened_host: Opened, nursery: trio.Nursery) -> None:
        self._draw = draw
        self._words = words
        self._found = opened_host
        self._nursery = nursery

    async def post(self, path: str, body: object) -> None:
        request = DrawnRequest("POST", path, HEADERS, json.dumps(body).encode())
        answer = await ask(self._found.application, request, lambda _: None)
        expect("accepted", answer.status in {200, 201}, True)

    def listen(self, since: str) -> list[bytes]:
        """Listen from now on; return the list to which the frames come."""
        heard = list[bytes]()
        headers = (*HEADERS, ("last-event-id", since)) if since else HEADERS
        self._nursery.start_soon(ask, self._found.application, DrawnRequest("GET", EVENTS, headers), heard.append)
        return heard

    async def check(self) -> None:
        """Let some listen from the beginning; then from each cursor on, what follows must be the rest."""
        await self.post("/v1/sessions", {"session": "s1"})
        listening = [self.listen("0") for _ in range(self._draw.randint(1, 4))]
        await trio.sleep(1)
        encoded = self._found.frames.encoded
        turns = self._draw.randint(1, 3)
        for _ in range(turns):
            await self.post("/v1/chat", {"session": "s1", "message": "hi"})
        await trio.sleep(1)
        frames = read_frames(b"".join(listening[0]).decode())
        for other in listening[1:]:
            expect("all hear the same", read_frames(b"".join(other).decode()), frames)
        new = [frame for frame in frames if frame.name != "SessionStarted"]
        expect("encoded once", self._found.frames.encoded - encoded <= len(new), True)
        text = "".join(json.loads(frame.data)["event"]["delta"] for frame in frames if frame.name == "MessageDelta")
        expect("all deltas", text, self._words * turns)
        cursors = [frame.cursor for frame in frames if frame.cursor is not None]
        expect("in order", cursors, sorted(set(cursors)))
        durable = [frame for frame in frames if frame.cursor is not None and frame.cursor.n == 0]
        expect("all records", [frame.cursor.seq for frame in durable if frame.cursor], list(range(1, len(durable) + 1)))
        for _ in range(3):
            await self.check_from(frames, durable, self._draw.choice(cursors))

    async def check_from(self, all_frames: list[Frame], durable: list[Frame], since: Cursor) -> None:
        """Check what is heard after *since*: each durable event, and a gap if others are gone."""
        heard = self.listen(str(since))
        await trio.sleep(1)
        frames = read_frames(b"".join(heard).decode())
        rest = [frame for frame in durable if frame.cursor is not None and frame.cursor > since]
        expect("the rest", [frame for frame in frames if frame.cursor is not None and frame.cursor.n == 0], rest)
        missed = [frame for frame in all_frames if frame.cursor is not None and frame.cursor > since and frame.cursor.n]
        deltas = [frame for frame in frames if frame.cursor is not None and frame.cursor.n]
        expect("a gap is told", any(frame.name == GAP for frame in frames), missed != deltas)


def streamed(seed: int) -> None:
    """Play a host from *seed*; raise `ModelError` if a stream is not what it must be."""
    draw = Random(seed)
    words = "word " * draw.randint(1, 6)
    spec = SessionSpec(model=ScriptedModel([say(words)], repeat_last=True))
    apart = draw.choice((0.0, 0.0, DEFAULTS.heartbeat_seconds))

    host = Host([Profile("desk", spec)], limits=limits())

    async def live(clock: MockClock) -> None:
        def published(point: Failpoint) -> None:
            """Let it be time for a heartbeat just when those who listen have got an event, and have not run yet."""
            if point is Failpoint.PUBLISHED:
                clock.jump(apart)

        with watching(published):
            async with opened(host, ApiKeys(lines=LINES)) as opened_host, trio.open_nursery() as nursery:
                await Streams(draw, words, opened_host, nursery).check()
                nursery.cancel_scope.cancel()

    try:
        run(seed, ClockWatch(), live)
    except* ModelError as group:
        raise first_of(group, ModelError) from None

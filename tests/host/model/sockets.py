"""A host and its WebSockets beside a simple model: whose answers, whose events, what is missing, and how lines end."""

from __future__ import annotations

import gc
import json
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from random import Random
from typing import Final

import trio
from attrs import frozen
from trio.testing import MockClock

from agentrail import SessionSpec
from agentrail.api.limits import DEFAULTS, PONG_SECONDS, UNSENT_BYTES
from agentrail.errors import NotAuthenticated
from agentrail.events import Cursor
from agentrail.host import ApiKeys, Host, HostLimits, Identity, Profile
from agentrail.host.host_server import Opened
from agentrail.host.websocket.send_queue import SendQueue
from agentrail.testing import ScriptedModel, say
from agentrail.testing.simulator.virtual import ClockWatch, run
from tests.host.model.expecting import ModelError, expect
from tests.host.model.in_process import first_of, opened
from tests.host.model.people import LINES, PEOPLE
from tests.host.model.socket_lines import Line, Message, line

ANN: Final = PEOPLE[0]
EVE: Final = next(person for person in PEOPLE if person.tenant == "acm")
"""Has the name of Ann in another tenant."""
BOB: Final = next(person for person in PEOPLE if person.user == "bob")
"""Talks with sessions of his own in Ann's tenant."""

NAMES: Final = ("s1", "s2", "s3")
SETTLED: Final = 3.0
"""Seconds in which turns come to their end."""

WIDE: Final = "x" * 20_000
"""What the model says to a session whose events are many bytes."""


class Keys:
    """Authenticator whose keys can be withdrawn."""

    def __init__(self) -> None:
        self._keys = ApiKeys(lines=LINES)
        self.withdrawn = False

    async def identify(self, headers: Sequence[tuple[str, str]]) -> Identity:
        """Return whose key it is, unless it was withdrawn."""
        if self.withdrawn:
            raise NotAuthenticated("withdrawn")
        return await self._keys.identify(headers)


@frozen
class Heard:
    """An event that came on a subscription."""

    name: str
    session: str
    cursor: Cursor
    data: str


def events(messages: list[Message]) -> list[Heard]:
    """Return the events among the messages of one subscription."""
    heard_messages = list[Heard]()
    for message in messages:
        if "event" in message:
            seq, _, n = message["cursor"].partition(".")
            data = message["data"]
            heard_messages.append(
                Heard(message["event"], data["session_id"], Cursor(int(seq), int(n)), json.dumps(data))
            )
    return heard_messages


def durable(heard: list[Heard]) -> list[Heard]:
    return [frame for frame in heard if frame.cursor.n == 0]


class Sockets:
    """A host with some sessions, and lines to it."""

    def __init__(self, draw: Random, opened_host: Opened, keys: Keys, lines: AsyncExitStack) -> None:
        self._draw = draw
        self._found = opened_host
        self._keys = keys
        self._lines = lines

    async def line(self, *, reads: bool = True) -> Line:
        return await self._lines.enter_async_context(line(self._found.application, ANN, reads=reads))

    # What is checked, one after the other

    async def check(self) -> None:
        """Check it all on one host; the end of the host is the last."""
        first, second = await self.line(), await self.line()
        for name in NAMES:
            expect("a session is opened", (await first.ask("open_session", body={"session": name}))["status"], 201)
        checks: list[Callable[[Line, Line], Awaitable[None]]] = [
            self.check_ids,
            self.check_commands,
            self.check_events,
            self.check_foreign,
            self.check_slow,
        ]
        self._draw.shuffle(checks)
        for check in checks:
            await check(first, second)
        await self.check_ends(first, second)

    async def check_ids(self, first: Line, second: Line) -> None:
        """Many calls at once have each its own answer; an id that is in use is refused, and free afterwards."""
        session_names = [self._draw.choice(NAMES) for _ in range(self._draw.randint(2, 10))]
        ids = [await first.send(call="show_session", session=name) for name in session_names]
        for name, session_name in zip(ids, session_names, strict=True):
            answer = await first.answer(name)
            expect("an answer is that of its call", answer["body"]["session"].rpartition(".")[2], session_name)
        first.messages.clear()
        for session_name in ("s1", "s2"):
            await first.send(id="same", call="chat", body={"session": session_name, "message": f"to {session_name}"})
        await trio.sleep(SETTLED)
        responses = [
            frame.get("status", frame["problem"]["type"].rpartition(":")[2] if "problem" in frame else "")
            for frame in first.of("same")
        ]
        expect("an id in use is refused", sorted(map(str, responses)), ["200", "bad-frame"])
        first.messages.clear()
        expect("an id is free again", (await first.ask("show_session", "s1", id="same"))["status"], 200)

    async def check_commands(self, first: Line, second: Line) -> None:
        """What is sent again under its command id, on the same line or another, is done once."""
        listening = await self.listen(second, "s1")
        call = {"body": {"message": "once"}, "command": f"c{self._draw.random()}"}
        answers = [await event.ask("prompt", "s1", **call) for event in (first, second, first)]
        expect("sent again, the answer is the same", [answer["status"] for answer in answers], [202] * 3)
        await trio.sleep(SETTLED)
        names = [event.name for event in events(second.of(listening))]
        expect("a command is carried out once", names.count("PromptReceived"), 1)
        await second.send(id=listening, end=True)

    async def check_events(self, first: Line, second: Line) -> None:
        """Each subscription has the events of its session, once and in order; one that comes back has the rest."""
        encoded = self._found.frames.encoded
        pairs = [(open_line, name) for name in NAMES for open_line in (first, second, second)]
        ids = [(open_line, name, await self.listen(open_line, name)) for open_line, name in pairs]
        for name in self._draw.sample(NAMES, 2):
            await first.ask("chat", body={"session": name, "message": "hi"})
        await trio.sleep(SETTLED)
        events_by_name = {name: events(open_line.of(listening)) for open_line, name, listening in ids}
        for open_line, name, listening in ids:
            heard = events(open_line.of(listening))
            expect("events are of the session", {frame.session.rpartition(".")[2] for frame in heard} <= {name}, True)
            expect("all hear the same", heard, events_by_name[name])
            cursors = [frame.cursor for frame in heard]
            expect("in order, each once", cursors, sorted(set(cursors)))
        expect("encoded once", self._found.frames.encoded - encoded <= sum(map(len, events_by_name.values())), True)
        await self.check_end_of_one(ids)
        name = self._draw.choice([name for name in NAMES if events_by_name[name]])
        await self.check_return(name, events_by_name[name])

    async def check_end_of_one(self, ids: list[tuple[Line, str, str]]) -> None:
        """The end of a subscription ends it, and no other."""
        ended, *others = self._draw.sample(ids, len(ids))
        await ended[0].send(id=ended[2], end=True)
        await trio.sleep(1)
        expect("an end is told", ended[0].of(ended[2])[-1].get("end"), True)
        counts = [len(events(open_line.of(listening))) for open_line, _, listening in (ended, *others)]
        for name in NAMES:
            await others[0][0].ask("chat", body={"session": name, "message": "more"})
        await trio.sleep(SETTLED)
        grown = [
            len(events(open_line.of(listening))) > count
            for (open_line, _, listening), count in zip((ended, *others), counts, strict=True)
        ]
        expect("what has ended is over, all else goes on", grown, [False] + [True] * len(others))
        for open_line, _, listening in others:
            await open_line.send(id=listening, end=True)

    async def check_return(self, name: str, heard_messages: list[Heard]) -> None:
        """A client that comes back with a cursor gets what follows, and is told what is gone."""
        since = self._draw.choice(heard_messages).cursor
        async with line(self._found.application, ANN) as again:
            listening = await self.listen(again, name, since=str(since))
            some = await self.listen(again, name, since=str(since), types=["PromptReceived", "AgentEnd"])
            await trio.sleep(1)
            came = again.of(listening)
            heard = events(came)
            rest = [event for event in durable(heard_messages) if event.cursor > since]
            expect("the rest", durable(heard)[: len(rest)], rest)
            expect("nothing comes again", all(event.cursor > since for event in heard), True)
            missed = {event.cursor for event in heard_messages if event.cursor > since} - {
                event.cursor for event in heard
            }
            expect("a gap is told", any("gap" in frame for frame in came) or not missed, True)
            few = {event.name for event in events(again.of(some))}
            expect("the types hold for what is replayed", few <= {"PromptReceived", "AgentEnd"}, True)

    async def check_foreign(self, first: Line, second: Line) -> None:
        """Nobody listens to a session of others, or hears from one."""
        async with line(self._found.application, self._draw.choice((EVE, BOB))) as other:
            for session_name in ("s1", "ann.s1"):
                listening = await self.listen(other, session_name)
                await first.ask("chat", body={"session": "s1", "message": "secret"})
                await trio.sleep(1)
                expect("a foreign session is not heard", events(other.of(listening)), [])
                expect("a foreign session is refused", any("problem" in frame for frame in other.of(listening)), True)

    async def check_slow(self, first: Line, second: Line) -> None:
        """A client that does not read keeps nobody waiting, holds little, and is sent away."""
        slow = await self.line(reads=False)
        for name in NAMES:
            await slow.send(listen="events", session=name, since="0")
        listening = await self.listen(second, "s3")
        chats = self._draw.randint(20, 30)
        for number in range(chats):
            with trio.move_on_after(SETTLED) as waited:
                await first.ask("chat", body={"session": "s3", "message": f"wide {number}"})
            expect("who does not read keeps nobody waiting", waited.cancelled_caught, False)
            if number % 10 == 0:
                unsent = [item.unsent for item in gc.get_objects() if type(item) is SendQueue]
                expect("who does not read is kept little for", max(unsent) <= UNSENT_BYTES, True)
        await trio.sleep(SETTLED)
        data = [item.data for item in events(second.of(listening)) if item.name == "MessageDelta"]
        expect("others hear all", sum(item.count(WIDE) for item in data), chats)
        with trio.move_on_after(DEFAULTS.write_seconds + DEFAULTS.ping_seconds + PONG_SECONDS):
            while await slow.peer.more(1_000):
                pass
        await second.send(id=listening, end=True)

    async def check_ends(self, first: Line, second: Line) -> None:
        """A withdrawn key ends its lines, and so does a host that stops, each with its code."""
        if self._draw.random() < 0.5:
            self._keys.withdrawn = True
            await trio.sleep(2 * DEFAULTS.heartbeat_seconds)
            code = 1008
        else:
            self._found.drain.end()
            await trio.sleep(SETTLED)
            code = 1012
        expect("a line ends with a code", [line.peer.heard.code for line in (first, second)], [code] * 2)

    async def listen(self, line: Line, session: str, **more: object) -> str:
        """Listen to a session from now on, or from where *more* says; what came before is not asked for."""
        listening = await line.send(listen="events", session=session, **more)
        await trio.sleep(0.5)
        return listening


def socketed(seed: int) -> None:
    """Play a host from *seed*; raise `ModelError` if a WebSocket does otherwise than it must."""
    draw = Random(seed)

    def answer(request: object) -> object:
        return say(WIDE if "wide" in repr(request)[-2_000:] else "word " * draw.randint(1, 6))

    spec = SessionSpec(model=ScriptedModel([answer], repeat_last=True))  # type: ignore[list-item]  # it is one
    limits = HostLimits(requests_per_second=1e6, burst=10**6, sessions=1000)
    host = Host([Profile("desk", spec)], limits=limits)

    async def live(_: MockClock) -> None:
        keys = Keys()
        async with opened(host, keys) as opened_host, AsyncExitStack() as lines:
            await Sockets(draw, opened_host, keys, lines).check()

    try:
        run(seed, ClockWatch(), live)
    except* ModelError as group:
        raise first_of(group, ModelError) from None

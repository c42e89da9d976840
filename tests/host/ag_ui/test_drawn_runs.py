"""Worlds that are drawn: whatever others do, and wherever a connection is cut, a front end shows what was said."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any, Final

import pytest
import trio
from attrs import define, field

from agentrail import SessionSpec, tool
from agentrail.host import ApiKeys, Host, Profile
from agentrail.host.ag_ui.shown_messages import shown_messages
from agentrail.host.host_server import Opened
from agentrail.journals import MemoryJournal
from agentrail.models import ToolCall
from agentrail.plugins import HumanApproval
from agentrail.testing import ScriptedModel, call, permanent, say, transient
from agentrail.testing.simulator.virtual import ClockWatch, run
from agentrail.tools.builtin import ask_user
from tests.host.ag_ui.front_end import ENDS, Frame, apply, check_run, parsed
from tests.host.model.expecting import ModelError, expect
from tests.host.model.in_process import DrawnRequest, ask, first_of, opened
from tests.host.model.people import LINES, PEOPLE
from tests.host.model.tenants import limits
from tests.kit import Element
from tests.profiles import CAMPAIGN

HEADERS: Final = (("authorization", f"Bearer {PEOPLE[0].key}"), ("content-type", "application/json"))
TURNS: Final = 4
LONGEST: Final = 600.0
"""Virtual seconds within which all is over."""


@tool(effect="pure")
async def look(at: str, seconds: float) -> str:
    """Look at something, which takes some time."""
    await trio.sleep(seconds)
    return f"saw {at}"


@tool(effect="pure")
async def pay(to: str) -> str:
    """Pay somebody."""
    return f"paid {to}"


@tool(effect="pure")
async def fail(why: str) -> str:
    """Fail."""
    raise ValueError(why)


class Story:
    """What the model of a drawn session does, request after request."""

    def __init__(self, draw: Random) -> None:
        self._draw = draw
        self._number = 0

    def next(self, _: object = None) -> Element:
        """Return the next answer, which differs from all before it."""
        draw, self._number = self._draw, self._number + 1
        words = " ".join(f"w{self._number}x{index}" for index in range(draw.randint(1, 6)))
        delay = draw.choice((None, 0.0, 0.1, 0.5))
        kind = draw.random()
        if kind < 0.1:
            return transient(after=draw.randint(0, 4), retry_after=0.0)
        if kind < 0.13:
            return permanent(after=draw.randint(0, 4))
        thinking = f"thinks {self._number}" if draw.random() < 0.3 else ""
        calls = [self._call(index) for index in range(draw.randint(1, 3))] if kind < 0.6 else []
        return say(words if draw.random() < 0.8 or not calls else "", thinking=thinking, calls=calls, delay=delay)

    def _call(self, index: int) -> ToolCall:
        name = f"{self._number}.{index}"
        choices = (
            call("look", {"at": name, "seconds": self._draw.choice((0.0, 0.3, 2.0))}),
            call("pay", {"to": name}),
            call("fail", {"why": name}),
            call("nowhere", {"at": name}),
            call("look", {"seconds": name}),
            call("ask_user", {"question": name}),
            call("task", {"agent": "helper", "description": name, "prompt": name}),
        )
        return self._draw.choice(choices)


def specification(draw: Random) -> SessionSpec:
    helper = SessionSpec(
        model=ScriptedModel([Story(Random(draw.random())).next], repeat_last=True),
        description="Helps.",
        tools=[look, pay],
        plugins=[HumanApproval(tools=["pay"], timeout=None)],
    )
    return SessionSpec(
        model=ScriptedModel([Story(draw).next], repeat_last=True),
        tools=[look, pay, fail, ask_user],
        plugins=[HumanApproval(tools=["pay"], timeout=None)],
        agents={"helper": helper},
    )


class HostSlot:
    """Where a host serves, or none: it may end, and another one go on with its journal."""

    def __init__(self) -> None:
        self.host: Opened | None = None

    async def serving(self) -> Opened:
        """Return the host, as soon as one serves."""
        while self.host is None:  # noqa: ASYNC110 - in virtual time
            await trio.sleep(0.05)
        return self.host


@define
class Window:
    """A front end of one thread: it is cut off now and then, and goes on from the last frame that it has."""

    draw: Random
    slot: HostSlot
    messages: list[Frame] = field(factory=list)
    interrupts: list[Frame] = field(factory=list)
    runs: int = 0
    cuts: int = 0
    last: int = 0
    """Number of the last event that it has heard of."""

    async def ask(self, request: DrawnRequest, *, is_cut: bool) -> str:
        """Make a request; return what came of the stream, in whole frames."""
        pieces = list[bytes]()
        with trio.CancelScope() as scope:
            if is_cut:
                scope.deadline = trio.current_time() + self.draw.choice((0.0, 0.05, 0.2, 0.7, 2.0))
            host = await self.slot.serving()
            answer = await ask(host.application, request, pieces.append)
            if answer.content:
                return answer.content.decode()
        text = b"".join(pieces)
        if is_cut:
            text = text[: self.draw.randint(len(text) // 2, len(text))]
        return text.decode(errors="ignore").rpartition("\n\n")[0]

    async def run(self, body: Frame) -> list[Frame]:
        """Send *body*, and return the frames of its run; it is cut off some times."""
        self.runs += 1
        run_id = f"run-{self.runs}"
        frame: Frame = {"threadId": "s1", "runId": run_id, "messages": [], **body}
        first = DrawnRequest("POST", "/v1/ag-ui", HEADERS, json.dumps(frame).encode())
        return await self.all_frames(first, run_id)

    async def join(self) -> list[Frame]:
        """Join the session as it is."""
        self.runs += 1
        run_id = f"run-{self.runs}"
        return await self.all_frames(DrawnRequest("GET", f"/v1/sessions/s1/ag-ui?run={run_id}", HEADERS), run_id)

    async def all_frames(self, request: DrawnRequest, run_id: str) -> list[Frame]:
        pairs = list[tuple[str, Frame]]()
        while not pairs or pairs[-1][1]["type"] not in ENDS:
            text = await self.ask(request, is_cut=self.draw.random() < 0.6)
            if text.startswith("{"):
                kind = json.loads(text)["type"].rpartition(":")[2]
                if kind == "host-closing":
                    await trio.sleep(0.1)
                    continue
                raise Refused(kind)
            pairs += parsed(text)
            if pairs:
                self.cuts += 1
                headers = (*HEADERS, ("last-event-id", pairs[-1][0]))
                request = DrawnRequest("GET", f"/v1/sessions/s1/ag-ui?run={run_id}", headers)
        frames = [frame for _, frame in pairs]
        self.last = int(pairs[-1][0].partition(".")[0])
        check_run(frames)
        for frame in frames:
            apply(frame, self.messages)
        outcome: dict[str, Any] = frames[-1].get("outcome", {})
        self.interrupts = outcome.get("interrupts", [])
        return frames

    def answers(self) -> list[Frame]:
        """Return an answer to each interrupt."""
        payloads: dict[str, list[object]] = {
            "tool_call": [{"approved": True}, {"approved": True}, {"approved": False, "reason": "no"}],
            "input_required": [{"answer": "blue"}, "red"],
        }
        return [
            {"interruptId": interrupt["id"], "status": "cancelled"}
            if self.draw.random() < 0.1
            else {
                "interruptId": interrupt["id"],
                "status": "resolved",
                "payload": self.draw.choice(payloads[interrupt["reason"]]),
            }
            for interrupt in self.interrupts
        ]


class Refused(Exception):  # noqa: N818 - what happens to a client
    """A request was refused, with this kind of problem."""


class World:
    """One session, the front end that is looked at, and others who use the session too."""

    def __init__(self, draw: Random) -> None:
        self.draw = draw
        self.slot = HostSlot()
        self.window = Window(draw, self.slot)
        self.looks = 0
        self.lives = 0
        self.over = trio.Event()

    async def play(self) -> None:
        with trio.fail_after(LONGEST):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.disturb)
                for turn in range(TURNS):
                    await self.turn({"messages": [{"id": f"u{turn}", "role": "user", "content": f"says {turn}"}]})
                nursery.cancel_scope.cancel()
        self.over.set()

    async def turn(self, body: Frame) -> None:
        """Send something, and answer what it asks for, until the turn is over."""
        while True:
            try:
                await self.window.run(body)
                self.compare()
            except Refused as refused:
                # others have decided meanwhile
                expect("refusal", refused.args[0] in {"unknown-approval", "queue-full"}, True)
                await self.window.join()
            if not self.window.interrupts:
                return
            body = {"resume": self.window.answers()}

    def compare(self) -> None:
        """Compare what the front end shows with the journal, if nobody works in the session."""
        sessions = [] if self.slot.host is None else self.slot.host.supervisor.sessions()
        here = [session for session in sessions if session.id.endswith(".s1")]
        if not here:
            return
        state = here[0].inspect()
        if state.turn is None and not state.subagents and state.last_seq == self.window.last:
            self.looks += 1
            shown_view, stored = view(self.window.messages), view(shown_messages(state))
            expect("the same conversation", (sorted(shown_view - stored), sorted(stored - shown_view)), ([], []))

    async def disturb(self) -> None:
        """Do at random times what others may do in the session."""
        while True:
            await trio.sleep(self.draw.choice((0.3, 1.0, 3.0)))
            path, body = self.draw.choice(
                (
                    ("steer", {"text": f"steers at {trio.current_time()}", "when": "now"}),
                    ("steer", {"text": f"steers at {trio.current_time()}"}),
                    ("abort", {}),
                    ("prompt", {"message": f"prompts at {trio.current_time()}"}),
                    ("decide", {}),
                    ("decide", {}),
                )
            )
            if path == "decide":
                await self.decide()
            else:
                await self.post(path, body)

    async def decide(self) -> None:
        host = await self.slot.serving()
        for session in [candidate for candidate in host.supervisor.sessions() if candidate.id.endswith(".s1")]:
            for held in session.status().held[:1]:
                visible = held.id.removeprefix("h.acme.")
                if held.kind == "question":
                    await self.post("respond", {"ref": visible, "answer": "green"})
                else:
                    await self.post("approve", {"approval": visible})

    async def post(self, path: str, body: Frame) -> None:
        request = DrawnRequest("POST", f"/v1/sessions/s1/{path}", HEADERS, json.dumps(body).encode())
        host = await self.slot.serving()
        await ask(host.application, request, lambda _: None)


def view(messages: list[Frame]) -> Counter[tuple[str, str]]:
    """Return what is said and returned in *messages*; thoughts are kept only if the provider needs them again."""
    return Counter(
        (message["role"], str(message["content"]))
        for message in messages
        if message["role"] != "reasoning"
        and "subagentRunId" not in message
        and (message["content"] or message["role"] == "tool")
    )


def drawn(seed: int, done: Callable[[World], None] = lambda _: None) -> None:
    """Play a world from *seed*; raise an error if the front end shows what is not so, or a frame does not fit."""
    draw, journal = Random(seed), MemoryJournal()

    async def live(_: object) -> None:
        world = World(draw)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(world.play)
            while not world.over.is_set():
                host = Host([Profile("desk", lambda _: specification(draw))], journal=journal, limits=limits())
                async with opened(host, ApiKeys(lines=LINES)) as opened_host:
                    world.lives += 1
                    world.slot.host = opened_host
                    with trio.move_on_after(draw.choice((1.0, 5.0, LONGEST))):
                        await world.over.wait()
                    world.slot.host = None
        done(world)

    try:
        run(seed, ClockWatch(), live)
    except* ModelError as group:
        raise first_of(group, ModelError) from None


pytestmark = pytest.mark.long

WORLDS: Final = 2_000 if CAMPAIGN else 15


def test_a_front_end_shows_what_was_said() -> None:
    figures = Counter[str]()

    def count(world: World) -> None:
        figures.update(cuts=world.window.cuts, looks=world.looks)

    for seed in range(WORLDS):
        drawn(seed, count)
    assert figures["cuts"] > 5 * WORLDS
    assert figures["looks"] > WORLDS

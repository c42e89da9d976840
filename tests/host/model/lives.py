"""Whole lives of requests over a host with random plugins, which fail, hang and answer anywhere, some of them cut off.

Each host is played from a seed. What its plugins were called with is compared with what the contract says.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Final

import trio
from attrs import define, field, frozen

from agentrail import SessionSpec, tool
from agentrail.errors import BrokenPlugin
from agentrail.host import (
    Allow,
    ApiKeys,
    BeforeToolCall,
    Deny,
    HandledResponse,
    Host,
    HostPlugin,
    Profile,
    Request,
    RequestContext,
    RequestEnd,
)
from agentrail.host.host_server import Opened
from agentrail.host.plugins.host_plugin import HOOKS
from agentrail.models import ModelRequest, ToolMessage
from agentrail.testing import ScriptedModel, call, say
from agentrail.testing.simulator.virtual import ClockWatch, run
from agentrail.tools import ToolContext
from tests.host.model.expecting import expect
from tests.host.model.in_process import Answer, DrawnRequest, ask, cut_after, opened
from tests.host.model.people import LINES, PEOPLE
from tests.host.model.tenants import limits
from tests.host.plugins.probes import hangs, later, raises, returns
from tests.kit import Element

INTERCEPTED: Final = 429
ENTRIES: Final = ("chat", "chat", "stream", "prompt", "steer")
WORDS: Final = ("", "", "note", "child", "slow")
GOOD: Final[dict[str, tuple[object, ...]]] = {
    "intercept": (None, None, None, None, HandledResponse(INTERCEPTED)),
    "before_tool_call": (Allow(), Allow(), Allow({"text": "other"}), Deny("no")),
}
BAD: Final[tuple[Callable[..., object], ...]] = (raises, hangs, returns(object()))
SETTLED: Final = 200.0
"""Seconds in which all turns have ended, with all hooks that hang."""
QUIET: Final = 20.0
"""Seconds without a call of a plugin after which the next request may come: a hook that hangs is given two."""


@frozen
class Heard:
    """One call of a hook."""

    plugin: str
    hook: str
    request: str
    """Id of the request; empty if it is about none."""
    did: str
    """What the hook did: `passes`, `answers` or `fails`."""
    about: str = ""
    """Of a tool call: its session and id; of an end: the outcome."""


def _about(args: Sequence[object]) -> tuple[str, str]:
    """Return the id of the request that a hook was called for, and what else it is about."""
    match args:
        case [Request(context=context), *_]:
            return context.request_id, ""
        case [BeforeToolCall() as event, *_]:
            return event.context.request_id, f"{event.path[-1]}/{event.call_id}"
        case [RequestEnd() as end, *_]:
            return end.request_id, end.outcome
        case [RequestContext() as context, *_]:
            return context.request_id, ""
        case _:
            return "", ""


@define
class Lives:
    """The plugins of a host, and what they heard."""

    draw: Random
    plugins: list[HostPlugin] = field(factory=list)
    heard: list[Heard] = field(factory=list)
    ran: list[str] = field(factory=list)
    """Sessions and calls of the tools that ran."""
    ends: Counter[tuple[str, str]] = field(factory=Counter)
    """How the intercepting of requests that were not cut off ended, by entry point."""
    crossed: set[str] = field(factory=set)
    """Requests beside which a session was steered: that may stop a call that runs or is ruled on; no hook follows."""

    def drawn(self, count: int) -> None:
        """Draw *count* plugins, and one that has all hooks, never fails, and comes last."""
        draw = self.draw
        for index in range(count):
            trouble = draw.choice((0.0, 0.1, 0.4))
            hooks = [hook for hook in HOOKS if draw.random() < 0.6]
            read = {"priority": draw.randint(-2, 2), "critical": draw.random() < 0.2}
            self.plugins.append(self.plugin(f"p{index}", hooks, trouble, read))
        self.plugins.append(self.plugin("last", HOOKS, None, {"priority": -9}))

    def plugin(self, name: str, hooks: Sequence[str], trouble: float | None, read: Mapping[str, object]) -> HostPlugin:
        """Return a plugin that notes its calls; its hooks fail as often as *trouble* says; `None`: they only pass."""

        def member(hook: str) -> Callable[..., object]:
            def called(_: object, *args: object) -> object:
                did, act = self.act(hook, trouble)
                self.heard.append(Heard(name, hook, _about(args)[0], did, _about(args)[1]))
                return act(*args)

            return called

        members = {"name": name, "deadline": 2.0, **read, **{hook: member(hook) for hook in hooks}}
        host_plugin: HostPlugin = type("Drawn", (HostPlugin,), members)()
        return host_plugin

    def act(self, hook: str, trouble: float | None) -> tuple[str, Callable[..., object]]:
        if trouble is None:
            return "passes", returns(Allow() if hook == "before_tool_call" else None)
        if self.draw.random() < (trouble / 10 if hook == "start" else trouble):
            return "fails", self.draw.choice(BAD)
        value = self.draw.choice(GOOD.get(hook, (None,)))
        if isinstance(value, Allow) and value.input is not None:
            return "passes", lambda event: value if event.tool == "note" else Allow()
        does = self.draw.choice((returns(value), lambda *_: later(value)))
        return "answers" if isinstance(value, HandledResponse | Deny) else "passes", does

    # What is known

    @property
    def ordered(self) -> list[HostPlugin]:
        return sorted(self.plugins, key=lambda plugin: -plugin.priority)

    def having(self, hook: str) -> list[str]:
        return [plugin.name for plugin in self.ordered if hook in vars(type(plugin))]

    def called(self, hook: str, request: str = "", about: str | None = None) -> list[Heard]:
        return [
            frame
            for frame in self.heard
            if frame.hook == hook and frame.request == request and (about is None or frame.about == about)
        ]

    def first_that_ends(self, calls: list[Heard], hook: str) -> tuple[list[str], str]:
        """Return who has to be called, and how it ends: `answers`, `fails` (a critical plugin) or `passes`."""
        critical = {plugin.name for plugin in self.plugins if plugin.critical}
        names = self.having(hook)
        for index, heard in enumerate(calls):
            if heard.did == "answers" or (heard.did == "fails" and heard.plugin in critical):
                return names[: index + 1], heard.did
        return names, "passes"

    def requests(self) -> list[str]:
        """Return the ids of all requests, in the order in which they began."""
        return list(dict.fromkeys(frame.request for frame in self.heard if frame.request))

    # What is checked

    def check_request(self, id_: str) -> str:
        """Check all calls for a request that is over; return how its intercepting ended."""
        mine = [heard for heard in self.heard if heard.request == id_]
        starts = [heard.plugin for heard in self.called("on_request_start", id_)]
        expect("starts in order", starts, self.having("on_request_start"))
        expect("starts first", [heard.hook for heard in mine[: len(starts)]], ["on_request_start"] * len(starts))
        intercepts = self.called("intercept", id_)
        expected, end = self.first_that_ends(intercepts, "intercept")
        expect("first answer wins", [heard.plugin for heard in intercepts], expected)
        ends = self.called("on_request_end", id_)
        expect("ends in order", [heard.plugin for heard in ends], self.having("on_request_end"))
        persisted = [heard.plugin for heard in self.called("on_turn_persisted", id_)]
        outcome = ends[-1].about
        if end != "passes":
            expect("intercepted", outcome, "intercepted" if end == "answers" else "failed")
            expect(
                "nothing after an intercept",
                {heard.hook for heard in mine[len(starts) + len(expected) :]},
                {"on_request_end"},
            )
        elif persisted or outcome == "finished":
            expect("persisted once", persisted, self.having("on_turn_persisted"))
        if outcome in {"finished", "intercepted"}:
            expect("ends last", mine[-len(ends) :], ends)
        return end

    def check_tools(self) -> None:
        """Check all tool calls: the first deny wins, and what was denied did not run."""
        tool_calls = dict.fromkeys(
            (heard.request, heard.about) for heard in self.heard if heard.hook == "before_tool_call"
        )
        denied = set[str]()
        for request, about in tool_calls:
            calls = self.called("before_tool_call", request, about)
            expected, end = self.first_that_ends(calls, "before_tool_call")
            ruled = [heard.plugin for heard in calls]
            after = self.called("after_tool_call", request, about)
            if end == "passes" and not after and request in self.crossed:
                expect("ruled in order until steered", ruled, expected[: len(ruled)])
                expect("what was not ruled on did not run", ruled == expected or about not in self.ran, True)
                continue
            expect("first deny wins", ruled, expected)
            if end == "passes":
                hooks, _ = self.first_that_ends(after, "after_tool_call")
                expect("after each call that ran", [heard.plugin for heard in after], hooks)
            else:
                expect("nothing after a deny", after, [])
                denied.add(about)
        expect("each call is ruled on", sorted(set(self.ran) - {about for _, about in tool_calls}), [])
        expect("a deny holds", sorted(set(self.ran) & denied), [])

    def check_life(self, *, started: bool) -> None:
        """Check that plugins were stopped in the exact reverse of their start."""
        names = [entry.name for entry in self.ordered]
        starting, stopping = ([entry.plugin for entry in self.called(hook)] for hook in ("start", "stop"))
        lived = names if started else names[: names.index(starting[-1])]
        begun = names if started else names[: names.index(starting[-1]) + 1]
        expect("starts of the host", starting, [name for name in begun if name in self.having("start")])
        expect("stops of the host", stopping, [name for name in reversed(lived) if name in self.having("stop")])


def agent_spec(lives: Lives) -> SessionSpec:
    """Return the agent: it calls its tool, or a sub-agent that calls it, if the message says so."""

    @tool(effect="pure")
    async def note(text: str, ctx: ToolContext) -> str:
        """Note a text."""
        await trio.lowlevel.checkpoint()
        lives.ran.append(f"{ctx.session_id}/{ctx.call_id}")
        return f"noted {text}"

    def answer(request: ModelRequest) -> Element:
        text = request.messages[-1].text
        if isinstance(request.messages[-1], ToolMessage):
            return say("done", delay=None)
        if "child" in text:
            no_repeat = str(len(request.messages))  # else it is held if it was stopped before
            return say(calls=[call("task", {"agent": "helper", "description": no_repeat, "prompt": "note"})])
        if "note" in text:
            return say(calls=[call("note", {"text": text})])
        return say("one two three", delay=0.3 if "slow" in text else None)

    def model() -> ScriptedModel:
        return ScriptedModel([answer], repeat_last=True)

    helper = SessionSpec(model=model(), tools=[note], description="Helps.")
    return SessionSpec(model=model(), tools=[note], agents={"helper": helper})


def asked_for(draw: Random) -> DrawnRequest:
    """Draw a request to talk, by any entry point."""
    entry, name = draw.choice(ENTRIES), draw.choice(("s1", "s2"))
    text = f"hello {draw.choice(WORDS)}"
    path = f"/v1/{entry}" if entry in {"chat", "stream"} else f"/v1/sessions/{name}/{entry}"
    body = {"text": text} if entry == "steer" else {"message": text}
    headers = (("authorization", f"Bearer {PEOPLE[0].key}"), ("content-type", "application/json"))
    content = {**body, "session": name} if entry in {"chat", "stream"} else body
    return DrawnRequest("POST", path, headers, json.dumps(content).encode())


def entry_of(request: DrawnRequest) -> str:
    return request.target.rpartition("/")[2]


async def _one(lives: Lives, opened_host: Opened) -> None:
    """Make a request or two at once, let them come to their end, and check their lives."""
    requests_before = lives.requests()
    draw = lives.draw
    cuts = [draw.randrange(20) if draw.random() < 0.2 else None for _ in range(draw.choice((1, 1, 1, 2)))]
    drawn_requests = [asked_for(draw) for _ in cuts]
    answers = list[Answer]()

    async def talk(request: DrawnRequest, steps: int | None) -> None:
        with trio.CancelScope() as scope, cut_after(scope, steps):
            answers.append(await ask(opened_host.application, request, lambda _: None))

    async with trio.open_nursery() as nursery:
        for request, steps in zip(drawn_requests, cuts, strict=True):
            nursery.start_soon(talk, request, steps)
    heard = -1
    while heard != len(lives.heard):
        heard = len(lives.heard)
        await trio.sleep(QUIET)
    new = [id_ for id_ in lives.requests() if id_ not in requests_before]
    ends = [lives.check_request(id_) for id_ in new]
    if len(drawn_requests) > 1 and "steer" in map(entry_of, drawn_requests):
        lives.crossed.update(new)
    if cuts == [None]:
        expect("one life", len(new), 1)
        statuses = {"answers": {INTERCEPTED}, "fails": {503}, "passes": {200, 202}}[ends[0]]
        expect("status", answers[0].status in statuses, True)
        lives.ends[entry_of(drawn_requests[0]), ends[0]] += 1


def lived(seed: int, count: int) -> Lives:
    """Play a host from *seed* with *count* requests, and check it; return what its plugins heard."""
    lives = Lives(Random(seed))
    lives.drawn(lives.draw.randint(0, 11))
    host = Host([Profile("desk", agent_spec(lives))], lives.plugins, on_plugin_error=lambda *_: None, limits=limits())

    started = True

    async def live(_: object) -> None:
        nonlocal started
        try:
            async with opened(host, ApiKeys(lines=LINES)) as opened_host:
                for name in ("s1", "s2"):
                    await _opened(opened_host, name)
                for _ in range(count):
                    await _one(lives, opened_host)
                await trio.sleep(SETTLED)
                for request in lives.requests():  # what came late would be in the life of an earlier one
                    lives.check_request(request)
        except BrokenPlugin:
            started = False

    run(seed, ClockWatch(), live)
    lives.check_tools()
    lives.check_life(started=started)
    return lives


async def _opened(opened_host: Opened, name: str) -> None:
    headers = (("authorization", f"Bearer {PEOPLE[0].key}"), ("content-type", "application/json"))
    answer = await ask(
        opened_host.application,
        DrawnRequest("POST", "/v1/sessions", headers, json.dumps({"session": name}).encode()),
        lambda _: None,
    )
    expect("a session is opened", answer.status, 201)

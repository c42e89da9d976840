"""Whole sessions by the clocks of `hostile.OddClock`: every turn ends well, no session does, and nothing spins."""

from __future__ import annotations

import random
from contextlib import suppress
from types import SimpleNamespace
from typing import Final

import trio
from trio._core import _run as scheduler  # pyright: ignore[reportPrivateUsage]  # there is no other way

from agentrail import (
    Ask,
    Context,
    Continue,
    HoldTool,
    Plugin,
    SessionHandle,
    SessionSpec,
    State,
    Supervisor,
    open_supervisor,
)
from agentrail.errors import RateLimited, SessionAsleep, TransientModelError
from agentrail.journals import Journal, MemoryJournal
from agentrail.models import (
    AssistantMessage,
    EmitChunk,
    FrozenObject,
    JsonObject,
    Limit,
    ModelRequest,
    Response,
    StopReason,
    Text,
    ToolCall,
)
from agentrail.plugins import BeforeTool, CallService
from agentrail.runtime.handle import wake
from agentrail.runtime.shared import clock as clocks
from agentrail.testing.simulator.virtual import swapped
from agentrail.tools import EffectClass, ToolContext, ToolResult, ToolSpec
from property_tests.borders import quiet
from property_tests.hostile import Chance, OddClock, draw_day
from property_tests.volume import profile

SCENES: Final = {"ci": 30, "campaign": 20_000}

MOST_STEPS: Final = 5_000
"""Steps of tasks that one scene may take; most take a fifth of it."""

LIVES: Final = 3
"""Supervisors of one scene, one after the other, over one journal."""

TURNS: Final = 3
"""Turns of each life."""


class Model:
    """Fails now and then, calls each tool once per turn, and answers."""

    name = "clocked"

    def __init__(self, chance: Chance) -> None:
        self.chance = chance

    async def stream(self, request: ModelRequest, emit: EmitChunk) -> Response:
        """Answer."""
        await trio.sleep(self.chance.choice((0.0, 1.0, 100.0)))
        if not self.chance.randrange(3):
            raise self.chance.choice((RateLimited("later", 7.0), TransientModelError("later", None)))
        if request.may_call and not getattr(request.messages[-1], "call_id", None):
            return Response((), (ToolCall("", "sleeps"), ToolCall("", "held")), StopReason.TOOL_CALLS)
        return Response((Text("fine"),))


class Sleeps:
    """A tool that never returns by itself."""

    def __init__(self, name: str) -> None:
        self.spec = ToolSpec(
            name, "sleeps", FrozenObject({"type": "object"}), timeout=20.0, effect=EffectClass.IDEMPOTENT
        )

    async def execute(self, args: JsonObject, ctx: ToolContext) -> ToolResult:
        """Sleep forever."""
        await trio.sleep_forever()
        raise AssertionError


class Holds(Plugin[None]):
    """Asks a service that never answers about calls of one tool, and after the timeout holds them for a person."""

    def before_tool(self, hook: BeforeTool, state: None, ctx: Context) -> Continue[None] | Ask[None] | HoldTool[None]:
        """Ask the service; after the timeout hold the call."""
        if hook.name != "held":
            return Continue(state)
        return Ask(CallService("never", 1), deadline=9.0) if hook.answer is None else HoldTool("wait", timeout=30.0)


async def _never(_: object) -> None:
    await trio.sleep_forever()


async def _at_rest(session: SessionHandle) -> State:
    """Wait until the turn is over and return the state; `ask` is no use, as it returns when a call is held."""
    pause = 5.0
    while True:
        with suppress(SessionAsleep):
            await wake(session)
            if session.inspect().turn is None:
                return session.inspect()
        await trio.sleep(pause)
        pause *= 2  # where the time of day went back by years, the turn waits for years


async def _live(supervisor: Supervisor, chance: Chance, *, crashes: bool) -> None:
    """Continue the session; check that every turn ends well, even one that was begun before a restart."""
    spec = SessionSpec(
        model=Model(chance),
        tools=[Sleeps("sleeps"), Sleeps("held")],
        plugins=[Holds()],
        services={"never": _never},
        hibernate_after=chance.choice((None, 3e6)),
        max_retries=20,
    )
    session = await supervisor.open("clocked", spec)
    for _ in range(TURNS):
        await session.ask("go")
        last = (await _at_rest(session)).history[-1]
        assert isinstance(last, AssistantMessage), last
        assert last.parts == (Text("fine"),), last
        await trio.sleep(chance.choice((0.0, 10.0, 1e7)))
    if crashes:
        await session.prompt("go on")
        await trio.sleep(chance.choice((0.0, 1.0, 10.0, 50.0)))


def play(seed: int) -> int:
    """Play one scene, and return how many steps its tasks took."""
    chance = random.Random(seed)
    odd = OddClock(chance, "Timers.run", MOST_STEPS)

    async def live(journal: Journal, *, crashes: bool) -> None:
        limits = {"clocked": Limit(requests_per_minute=2)} if chance.randrange(2) else {}
        day = SimpleNamespace(time=lambda: draw_day(chance))
        with swapped(clocks, "time", day):
            async with open_supervisor(journal=journal, limits=limits, seed=1, stop_within=None) as supervisor:
                await _live(supervisor, chance, crashes=crashes)
                assert not supervisor.crashes()

    async def main() -> None:
        journal = MemoryJournal()
        try:
            for life in range(LIVES):
                await live(journal, crashes=life + 1 < LIVES)
        finally:
            odd.calm = True

    known = scheduler._r.getstate()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    scheduler._r.seed(seed)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    try:
        with swapped(scheduler, "_ALLOW_DETERMINISTIC_SCHEDULING", True):
            trio.run(main, clock=odd, instruments=[odd])
    finally:
        scheduler._r.setstate(known)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    return odd.steps


def test_every_turn_ends_by_any_clock() -> None:
    first = 0 if profile() == "ci" else random.SystemRandom().randrange(2**32)
    with quiet():
        for seed in range(first, first + SCENES[profile()]):
            try:
                play(seed)
            except BaseException as error:
                error.add_note(f"seed {seed}")
                raise

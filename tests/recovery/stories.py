"""Short conversations during which the process may die; together they reach every failpoint."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

import trio
from attrs import frozen

from agentrail import Ask, Context, Continue, Plugin, SessionHandle, SessionSpec
from agentrail.errors import TransientModelError
from agentrail.models import (
    EmitChunk,
    Json,
    JsonObject,
    ModelRequest,
    Response,
    StopReason,
    Text,
    TextChunk,
    ToolCall,
    UserMessage,
)
from agentrail.plugins import BeforePrompt, CallService
from agentrail.testing import call
from agentrail.tools import EffectClass, NotStarted, Ok, Probed, ToolContext, ToolSpec, Unknown, ok
from tests.recovery.mortal import World

TAKES = 1.0
"""Seconds that the tool takes."""

SLEEPY = 10.0
"""Seconds without work after which a session of the story "sleep" sleeps."""


class Work:
    """A tool that takes a second; at its start it has an effect that cannot be undone."""

    def __init__(self, world: World, effect: EffectClass) -> None:
        self.spec = ToolSpec("work", "works", effect=effect)
        self._world = world

    async def execute(self, args: JsonObject, ctx: ToolContext) -> Ok:
        await self._world.alive()
        self._world.ran.append(ctx.idempotency_key)
        await trio.sleep(TAKES)
        await self._world.alive()
        self._world.ended.add(ctx.idempotency_key)
        return ok("worked")

    async def probe(self, key: str) -> Probed:
        await trio.lowlevel.checkpoint()
        if key not in self._world.ran:
            return NotStarted()
        return ok("found") if key in self._world.ended else Unknown()


TASK = {"agent": "helper", "description": "helps", "prompt": "help"}


class Thinker:
    """A model that calls the tool once for each prompt, and answers with text after the result."""

    name = "thinker"

    def __init__(self, world: World, tool_call: ToolCall) -> None:
        self._world = world
        self._call = tool_call

    async def stream(self, request: ModelRequest, emit: EmitChunk) -> Response:
        if self._world.failures and not self._world.dead:
            self._world.failures -= 1
            message = "busy"
            raise TransientModelError(message)
        for word in ("let ", "me ", "see"):
            await trio.sleep(0.1)
            emit(TextChunk(word))
        last = request.messages[-1]
        asked_value = isinstance(last, UserMessage) and last.text == "work"
        return Response(
            (Text("let me see"),),
            (self._call,) if asked_value else (),
            StopReason.TOOL_CALLS if asked_value else StopReason.END,
        )


@frozen
class Curious(Plugin[int]):
    """Asks a service about each prompt, and counts the answers."""

    def init(self, ctx: Context) -> int:
        return 0

    def before_prompt(self, hook: BeforePrompt, state: int, ctx: Context) -> Continue[int] | Ask[int]:
        return Ask(CallService("know")) if hook.answer is None else Continue(state + 1)


async def know(_: Json) -> Json:
    await trio.sleep(0.1)
    return "known"


async def prompted(world: World, session: SessionHandle) -> None:
    """Send the prompt."""
    accepted = await session.prompt("work", command="prompt")
    await world.alive()
    world.told["prompt"] = accepted.ref


async def rested(session: SessionHandle) -> None:
    """Wait until no work is under way and no turn is open."""
    while session.inspect().has_running_work or session.inspect().turn is not None:  # noqa: ASYNC110 - nobody sets an event
        await trio.sleep(0.05)


async def talk(world: World, session: SessionHandle) -> None:
    """Send the prompt, and wait for the end of its turn."""
    await prompted(world, session)
    await rested(session)


async def abort_work(world: World, session: SessionHandle) -> None:
    """Abort while the tool runs."""
    await prompted(world, session)
    while not world.ran and session.inspect().turn is not None:  # noqa: ASYNC110 - nobody sets an event
        await trio.sleep(0.05)
    await aborted(world, session)


async def abort_words(world: World, session: SessionHandle) -> None:
    """Abort while the model streams text."""
    await prompted(world, session)
    await trio.sleep(0.15)
    await aborted(world, session)


async def aborted(world: World, session: SessionHandle) -> None:
    await session.abort("enough", command="abort")
    await world.alive()
    world.told["abort"] = "done"
    await rested(session)


async def compact(world: World, session: SessionHandle) -> None:
    """Send the prompt, wait, and then compact the context."""
    await talk(world, session)
    await session.compact(command="compact")
    await world.alive()
    world.told["compact"] = "done"
    await rested(session)


async def sleep(world: World, session: SessionHandle) -> None:
    """Send the prompt, wait until the session sleeps, and wake it."""
    await talk(world, session)
    await trio.sleep(3 * SLEEPY)
    accepted = await session.prompt("more", command="more")
    await world.alive()
    world.told["more"] = accepted.ref
    await rested(session)


@frozen
class Story:
    """What the caller does, which failures there are, and whether the process has died once before."""

    script: Callable[[World, SessionHandle], Awaitable[None]] = talk
    failures: int = 0
    full: int = 0
    curious: bool = False
    sleepy: bool = False
    comes_back: bool = False
    delegates: bool = False

    def begin(self) -> World:
        return World(failures=self.failures, full=self.full)

    def spec(self, world: World, effect: EffectClass) -> SessionSpec:
        helper = SessionSpec(model=Thinker(world, call("work")), description="helps")
        return SessionSpec(
            model=Thinker(world, call("task", TASK) if self.delegates else call("work")),
            agents={"helper": helper} if self.delegates else {},
            tools=[Work(world, effect)],
            plugins=[Curious()] if self.curious else [],
            services={"know": know},
            hibernate_after=SLEEPY if self.sleepy else None,
        )


STORIES: Mapping[str, Story] = {
    "talk": Story(),
    "retry": Story(failures=1),
    "full": Story(full=1),
    "ask": Story(curious=True),
    "compact": Story(compact),
    "abort work": Story(abort_work),
    "abort words": Story(abort_words),
    "come back": Story(comes_back=True),
    "sleep": Story(sleep, sleepy=True),
    "delegate": Story(delegates=True),
}

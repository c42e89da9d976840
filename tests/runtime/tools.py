"""Tools that behave in different ways, for tests of the runtime."""

from collections.abc import Awaitable, Callable

import trio
from attrs import define

from agentrail.models import FrozenObject, JsonObject
from agentrail.tools import Effect, EffectClass, ToolContext, ToolResult, ToolSpec, ok

Body = Callable[[JsonObject, ToolContext], Awaitable[ToolResult]]


@define
class Fake:
    """A tool made of a function; it keeps the context of each call."""

    spec: ToolSpec
    body: Body
    calls: list[ToolContext]

    async def execute(self, args: JsonObject, ctx: ToolContext) -> ToolResult:
        self.calls.append(ctx)
        return await self.body(args, ctx)


def fake(
    name: str,
    body: Body,
    *,
    immune: bool = False,
    parallel: bool = True,
    timeout: float = 60.0,
    effect: EffectClass = EffectClass.UNSAFE,
    requires: frozenset[str] = frozenset(),
) -> Fake:
    schema = FrozenObject({"type": "object"})
    spec = ToolSpec(
        name,
        f"a tool called {name}",
        schema,
        timeout=timeout,
        immune=immune,
        parallel=parallel,
        effect=effect,
        requires=requires,
    )
    return Fake(spec, body, [])


def quick(name: str = "quick", text: str = "done") -> Fake:
    """Return a tool that answers at once."""

    async def body(_args: JsonObject, _ctx: ToolContext) -> ToolResult:
        await trio.lowlevel.checkpoint()
        return ok(text)

    return fake(name, body)


def slow(name: str = "slow", seconds: float = 3.0, *, immune: bool = False, timeout: float = 60.0) -> Fake:
    """Return a tool that takes *seconds*, and ends when it is cancelled."""

    async def body(_args: JsonObject, _ctx: ToolContext) -> ToolResult:
        await trio.sleep(seconds)
        return ok(f"done after {seconds:g} s")

    return fake(name, body, immune=immune, timeout=timeout)


def swallowing(name: str = "swallowing", seconds: float = 3.0) -> Fake:
    """Return a tool that catches its cancellation and goes on."""

    async def body(_args: JsonObject, _ctx: ToolContext) -> ToolResult:
        end = trio.current_time() + seconds
        while trio.current_time() < end:
            try:
                await trio.sleep_until(end)
            except trio.Cancelled:
                with trio.CancelScope(shield=True):
                    await trio.sleep(0.01)
        return ok("as if nothing had been")

    return fake(name, body)


def shielded(name: str = "shielded", seconds: float = 3.0) -> Fake:
    """Return a tool that a shield protects from cancellation."""

    async def body(_args: JsonObject, _ctx: ToolContext) -> ToolResult:
        with trio.CancelScope(shield=True):
            await trio.sleep(seconds)
        return ok("done behind a shield")

    return fake(name, body)


def wanting(name: str, effect: Effect) -> Fake:
    """Return a tool that returns *effect* for the session to carry out."""

    async def body(_args: JsonObject, _ctx: ToolContext) -> ToolResult:
        await trio.lowlevel.checkpoint()
        return effect

    return fake(name, body)


def raising(name: str = "raising", error: Exception | None = None, effect: EffectClass = EffectClass.UNSAFE) -> Fake:
    """Return a tool that raises."""

    async def body(_args: JsonObject, _ctx: ToolContext) -> ToolResult:
        await trio.lowlevel.checkpoint()
        raise error or RuntimeError("it broke")

    return fake(name, body, effect=effect)

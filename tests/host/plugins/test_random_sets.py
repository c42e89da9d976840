"""Random sets of host plugins, which fail and hang anywhere, under random requests, some of them cancelled."""

from collections.abc import Callable
from random import Random
from typing import Final

import pytest
import trio
import trio.testing
from attrs import define, field

from agentrail.errors import BrokenPlugin, OutsideError
from agentrail.host import Allow, Deny, HandledResponse, HostPlugin
from agentrail.host.plugins.host_plugin import HOOKS
from agentrail.host.plugins.host_tools import ToolService
from agentrail.host.plugins.plugin_runner import HostPluginRow
from agentrail.models import FrozenObject
from tests.host.plugins.probes import CONTEXT, REQUEST, hangs, later, raises, returns
from tests.kit import freeze_object
from tests.profiles import CAMPAIGN

pytestmark = pytest.mark.long

REQUESTS: Final = 20_000 if CAMPAIGN else 2_000
A_HOST: Final = 20
"""Requests for each set of plugins."""
CALL: Final = freeze_object(
    {"hook": "before_tool_call", "tool": "note", "arguments": {"n": 0}, "call_id": "c1", "path": ["s1"]}
)


@define
class World:
    """What was called, in order, and what each call did."""

    draw: Random
    calls: list[tuple[str, str]] = field(factory=list)
    did: list[str] = field(factory=list)

    def called(self, hook: str) -> list[str]:
        return [name for name, called in self.calls if called == hook]

    def clear(self) -> None:
        self.calls.clear()
        self.did.clear()


GOOD: Final[dict[str, list[object]]] = {
    "intercept": [None, None, None, HandledResponse(429)],
    "before_tool_call": [Allow(), Allow(), Allow({"n": 1}), Deny("no")],
}


def acts(hook: str, draw: Random, trouble: float) -> tuple[str, Callable[..., object]]:
    """Draw what a call does: a name of it, and the function."""
    if draw.random() < trouble:
        return draw.choice([("fails", raises), ("fails", hangs), ("fails", returns(object()))])
    value = draw.choice(GOOD.get(hook, [None]))
    verdict = "answers" if isinstance(value, HandledResponse | Deny) else "passes"
    return verdict, draw.choice([returns(value), lambda *_: later(value)])


def plugin(world: World, name: str) -> HostPlugin:
    """Draw a plugin with some of the hooks."""
    draw = world.draw
    trouble = draw.choice([0.0, 0.1, 0.5])

    def member(hook: str, trouble: float) -> Callable[..., object]:
        def called(_: object, *args: object) -> object:
            verdict, act = acts(hook, draw, trouble)
            world.calls.append((name, hook))
            world.did.append(verdict)
            return act(*args)

        return called

    members: dict[str, object] = {
        hook: member(hook, trouble / 10 if hook == "start" else trouble) for hook in HOOKS if draw.random() < 0.7
    }
    read = {"name": name, "priority": draw.randint(-2, 2), "critical": draw.random() < 0.2, "deadline": 2.0}
    host_plugin: HostPlugin = type("Drawn", (HostPlugin,), {**members, **read})()
    return host_plugin


def first_that_ends(world: World, plugins: HostPluginRow, hook: str) -> tuple[list[str], str | None]:
    """Return who has to be called, and how it ends: by an answer, a failed critical plugin, or not at all."""
    critical = {plugin.name for plugin in plugins.plugins if plugin.critical}
    names = [plugin.name for plugin in plugins.having(hook)]
    for index, (name, did) in enumerate(zip(world.called(hook), world.did, strict=False)):
        if did == "answers" or (did == "fails" and name in critical):
            return names[: index + 1], "answered" if did == "answers" else name
    return names, None


async def check_intercept(world: World, plugins: HostPluginRow) -> None:
    world.clear()
    try:
        outcome: object = await plugins.intercept(REQUEST)
    except OutsideError as error:
        outcome = error.args[1]
    expected, end = first_that_ends(world, plugins, "intercept")
    assert world.called("intercept") == expected
    assert outcome == (HandledResponse(429) if end == "answered" else end)


async def check_tool(world: World, plugins: HostPluginRow) -> None:
    world.clear()
    ruling = await ToolService(plugins, lambda _: CONTEXT).serve(CALL)
    expected, end = first_that_ends(world, plugins, "before_tool_call")
    assert world.called("before_tool_call") == expected
    assert isinstance(ruling, FrozenObject)
    assert ("deny" in ruling) == (end is not None)
    assert end is None or (ruling["deny"] == "no") == (end == "answered")


async def check_request(world: World, plugins: HostPluginRow) -> None:
    """Make a request, which may be cancelled anywhere; each start has its end, in order, and no other has."""
    await check_intercept(world, plugins)
    await check_tool(world, plugins)
    world.clear()
    with trio.move_on_after(world.draw.choice([0.1, 1.0, 3.0, 1e9])) as scope:
        async with plugins.request(CONTEXT):
            await trio.sleep(world.draw.choice([0.0, 0.7]))
            await plugins.turn_persisted(CONTEXT)
    started, ended = world.called("on_request_start"), world.called("on_request_end")
    with_start = [plugin.name for plugin in plugins.having("on_request_start")]
    with_end = [plugin.name for plugin in plugins.having("on_request_end")]
    assert started == with_start[: len(started)]
    assert [name for name in ended if name in with_start] == [name for name in started if name in with_end]
    assert ended == with_end[: len(ended)]
    assert world.calls[-len(ended) :] == [(name, "on_request_end") for name in ended] or not ended
    if not scope.cancelled_caught:
        assert (started, ended) == (with_start, with_end)
        assert world.called("on_turn_persisted") == [plugin.name for plugin in plugins.having("on_turn_persisted")]


async def check_host(seed: int, count: int) -> None:
    world = World(Random(seed))
    drawn = [plugin(world, f"p{index}") for index in range(world.draw.randint(0, 12))]
    plugins = HostPluginRow(drawn, lambda *_: None)
    names = [entry.name for entry in plugins.plugins]
    assert names == [entry.name for entry in sorted(drawn, key=lambda entry: -entry.priority)]
    failed = False
    starting = stopping = list[str]()
    try:
        async with plugins.running():
            starting = world.called("start")
            for _ in range(count):
                await check_request(world, plugins)
            world.clear()
        stopping = world.called("stop")
    except BrokenPlugin:
        failed = True
        starting, stopping = world.called("start"), world.called("stop")
    with_start, with_stop = ({entry.name for entry in plugins.having(hook)} for hook in ("start", "stop"))
    last = starting[-1] if failed else None
    lived = names[: names.index(last)] if last is not None else names
    assert starting == [name for name in names if name in with_start and (name in lived or name == last)]
    assert stopping == [name for name in reversed(lived) if name in with_stop]


def test_start_and_stop_are_mirrored_ends_are_paired_and_the_first_answer_counts() -> None:
    async def all_of_them() -> None:
        for seed in range(REQUESTS // A_HOST):
            await check_host(seed, A_HOST)

    trio.run(all_of_them, clock=trio.testing.MockClock(autojump_threshold=0))

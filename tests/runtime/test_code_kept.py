"""Plugins and tools can be changed without limit: a session keeps only the code that its state names."""

from collections.abc import Awaitable, Callable

import pytest
import trio
from attrs import frozen

from agentrail import Plugin, SessionHandle
from agentrail.errors import AgentrailError
from agentrail.testing import call, say
from tests.kit import Element
from tests.runtime.tools import quick, slow
from tests.runtime.world import World, until


@frozen
class Plain(Plugin[None]):
    """Has an option and no hooks."""

    figure: int = 0


CHANGES: dict[str, Callable[[SessionHandle, int], Awaitable[None]]] = {
    "update": lambda session, n: session.update_plugin(Plain, figure=n),
    "refused attach": lambda session, n: session.attach_plugin(Plain(n)),
    "replace": lambda session, _: session.replace_tools(quick()),
    "refused tool": lambda session, _: session.attach_tools(quick()),
}


def code_of(session: SessionHandle) -> tuple[int, int, int]:
    """Return how many plugins, validators and tools a session keeps."""
    code = session._session.code  # noqa: SLF001 - what is kept there is the point
    return len(code.hook_runner._plugins), len(code.hook_runner._validators), len(code.tools)  # noqa: SLF001


@pytest.mark.parametrize("name", CHANGES)
async def test_many_changes_leave_nothing_behind(world: World, name: str) -> None:
    session = await world.spawn(["hello"], tools=[quick()], plugins=[Plain()])
    for number in range(20):
        try:
            await CHANGES[name](session, number)
        except AgentrailError:
            assert name.startswith("refused")
    assert code_of(session) == (1, 1, 1)
    assert (await session.ask("hi")).text == "hello"


@pytest.mark.long
async def test_what_waits_for_the_end_of_the_turn_is_kept(world: World) -> None:
    session = await world.spawn([say("a b c", delay=1.0), "again"], plugins=[Plain()])
    await session.prompt("hi")
    await session.update_plugin(Plain, figure=1)
    await session.attach_tools(quick())
    assert code_of(session) == (2, 1, 1)
    await until(lambda: session.status().phase == "idle")
    assert session._session.code.hook_runner.plugin(session.inspect().plugins[0]) == Plain(1)  # noqa: SLF001
    assert (await session.ask("hi")).text == "again"


async def test_what_an_open_call_uses_is_kept(world: World) -> None:
    script: list[Element] = [say(calls=[call("slow"), call("slow")]), "done"]
    session = await world.spawn(script, tools=[slow()], max_parallel_tools=1)
    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.ask, "hi")
            await until(lambda: session.status().phase == "executing_tools")
            await session.replace_tools(slow(seconds=1))
            assert code_of(session) == (0, 2, 2)
    assert [message.text for message in session.messages()][2:4] == [
        "done after 3 s",
        "the tool `slow` was redefined before the call ran",
    ]
    with pytest.raises(AgentrailError):
        await session.attach_tools(slow())
    assert code_of(session) == (0, 1, 1)

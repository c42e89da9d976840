"""Sources of tools that replace others while calls of their tools are held: no call runs in the wrong source."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest
import trio

from agentrail.errors import RefusedError, SourceFailed
from agentrail.events import ToolsUpdated
from agentrail.models import JsonObject
from agentrail.plugins import HumanApproval
from agentrail.ports.tool import Offer
from agentrail.testing import call, say
from agentrail.tools import Ok, ToolContext, ok
from tests.coded import coded
from tests.runtime.test_sources import Scripted, Supply, breaking, silent, tools
from tests.runtime.tools import fake
from tests.runtime.world import World, settle, until


def working(name: str, ran: list[str], *, text: str = "A fake.", then: Supply | None = None) -> Supply:
    """Return a source that offers the tool `far`; each call appends *name* to *ran*."""

    async def supply(offer: Offer) -> None:
        async def work(_args: JsonObject, _ctx: ToolContext) -> Ok:
            ran.append(name)
            return ok(name)

        tool = fake("far", work)
        tool.spec = tool.spec.but(description=text)
        await offer([tool])
        if then is not None:
            await then(offer)
        await trio.sleep_forever()

    return supply


FAR: Final = say(calls=[call("far")])


async def test_what_takes_the_place_of_another_runs_its_own_code_though_it_says_the_same_of_itself(
    world: World,
) -> None:
    ran: list[str] = []
    session = await world.spawn([FAR, "1", FAR, "2"], tools=[Scripted("one", [working("old", ran)])])
    await session.ask("go")
    await session.replace_tools(Scripted("one", [working("new", ran)]))
    await session.ask("go")
    assert ran == ["old", "new"]


async def test_a_source_that_offers_a_tool_again_with_other_code_runs_that(world: World) -> None:
    ran: list[str] = []
    source = Scripted("one", [working("old", ran, then=working("new", ran))])
    session = await world.spawn([FAR, "1"], tools=[source])
    await settle()
    await session.ask("go")
    assert ran == ["new"]


async def test_one_that_cannot_join_changes_nothing_for_what_is_held(world: World) -> None:
    ran: list[str] = []
    guard = HumanApproval(tools=["far"])
    session = await world.spawn([FAR, "1"], tools=[Scripted("one", [working("old", ran)])], plugins=[guard])
    (held,) = (await session.ask("go")).held
    with pytest.raises(SourceFailed):
        await session.replace_tools(Scripted("one", [breaking]))
    with trio.move_on_after(5):
        await session.replace_tools(Scripted("one", [silent]))
    assert len(world.heard(session).of(ToolsUpdated)) == 1
    await session.approve(held.id)
    await until(lambda: not session.status().turn_open)
    assert ran == ["old"]


@pytest.mark.parametrize("is_there", [False, True])
async def test_a_caller_may_give_up_while_the_session_is_suspended(world: World, *, is_there: bool) -> None:
    ran: list[str] = []
    session = await world.spawn([FAR, "1"], tools=[Scripted("one", [working("old", ran)])] if is_there else [])
    await session.suspend()
    began = trio.current_time()
    with trio.move_on_after(5) as scope:
        await session.replace_tools(Scripted("one", [working("new", ran)]))
    assert (scope.cancelled_caught, trio.current_time() - began) == (True, 5)
    await session.resume()
    await settle()
    assert tools(session) == (["far"] if is_there else [])
    if not is_there:
        await session.attach_tools(Scripted("one", [working("old", ran)]))
    await session.ask("go")
    assert ran == ["old"]


async def test_a_session_that_ends_while_it_is_suspended_leaves_no_source_that_was_given_up(world: World) -> None:
    session = await world.spawn([])
    await session.suspend()
    with trio.move_on_after(5):
        await session.attach_tools(Scripted("one", [working("new", [])]))
    await session.stop()
    await settle()
    names = [task.name for task in descendants(world.nursery.parent_task) if "source one" in task.name]
    assert names == []


def descendants(task: trio.lowlevel.Task) -> Iterator[trio.lowlevel.Task]:
    for nursery in task.child_nurseries:
        for child in nursery.child_tasks:
            yield child
            yield from descendants(child)


@pytest.mark.parametrize("how", ["replaced", "detached and attached", "changed by itself"])
async def test_a_call_that_is_held_for_the_tool_of_one_source_runs_on_no_other(world: World, how: str) -> None:
    ran: list[str] = []
    go = trio.Event()

    async def change(offer: Offer) -> None:
        await go.wait()
        await working("new", ran, text="Another one.")(offer)

    guard = HumanApproval(tools=["far"])
    source = Scripted("one", [working("old", ran, then=change)])
    session = await world.spawn([FAR, FAR, "fine"], tools=[source], plugins=[guard])
    (held,) = (await session.ask("go")).held
    new = Scripted("one", [working("new", ran)])
    if how == "replaced":
        await session.replace_tools(new)
    elif how == "changed by itself":
        go.set()
        await settle()
    else:
        await session.detach_tools("one")
        await session.attach_tools(new)
    with pytest.raises(
        RefusedError, check=coded("tool-changed"), match="its tool `far` was detached or redefined since; reject it"
    ):
        await session.approve(held.id)
    assert ran == []
    await session.reject(held.id, reason="it is another tool now")
    await until(lambda: not session.status().turn_open)
    assert session.messages()[-1].text == "rejected by the user: it is another tool now"
    (again,) = (await session.ask("again")).held
    await session.approve(again.id)
    await until(lambda: not session.status().turn_open)
    assert ran == ["new"]


@pytest.mark.parametrize(("text", "asked_again"), [("A fake.", False), ("Sends it to others.", True)])
async def test_what_is_approved_always_ends_when_the_tool_of_a_source_changes(
    world: World, text: str, asked_again: bool
) -> None:
    ran: list[str] = []
    guard = HumanApproval(tools=["far"])
    source = Scripted("one", [working("old", ran)])
    session = await world.spawn([FAR, "1", FAR, "2", FAR, "3"], tools=[source], plugins=[guard])
    (held,) = (await session.ask("go")).held
    await session.approve(held.id, always=True)
    await until(lambda: not session.status().turn_open)
    assert (await session.ask("go")).held == ()
    await session.replace_tools(Scripted("one", [working("new", ran, text=text)]))
    assert bool((await session.ask("go")).held) == asked_again
    assert ran == ["old", "old", *([] if asked_again else ["new"])]

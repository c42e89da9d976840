"""Sources of tools that join or leave a living session: one step each, and a failure leaves nothing behind."""

from __future__ import annotations

import pytest
import trio

from agentrail import SessionSpec, open_supervisor
from agentrail.errors import SessionNotAlive, SourceFailed, UnknownTool, UsageError
from agentrail.events import ToolAttached, ToolDetached, ToolsUpdated
from agentrail.ports.tool import Offer
from agentrail.testing import ScriptedModel
from tests.coded import coded
from tests.runtime.journals import TestJournal
from tests.runtime.test_sources import Scripted, breaking, offering, silent, spec_with, tools
from tests.runtime.tools import quick
from tests.runtime.world import World, settle, until


async def test_a_source_joins_in_one_step_and_leaves_in_one(world: World) -> None:
    async def late(offer: Offer) -> None:
        await trio.sleep(20)
        await offering("a", "b")(offer)

    session = await world.spawn([], tools=[quick("own")])
    began = trio.current_time()
    await session.attach_tools(Scripted("one", [late]))
    assert (trio.current_time() - began, tools(session)) == (20, ["own", "a", "b"])
    await session.detach_tools("one")
    assert tools(session) == ["own"]
    await trio.sleep(1000)
    heard = world.heard(session)
    assert [(event.attached, event.detached, event.source) for event in heard.of(ToolsUpdated)] == [
        (("a", "b"), (), "one"),
        ((), ("a", "b"), ""),
    ]
    assert [event.name for event in heard.of(ToolAttached)] == [event.name for event in heard.of(ToolDetached)]


async def test_its_tools_come_and_go_and_it_is_started_again(world: World) -> None:
    async def change(offer: Offer) -> None:
        await trio.sleep(1)
        await offer([quick("b")])

    source = Scripted("one", [offering("a", then=change), offering("c")])
    session = await world.spawn([])
    await session.attach_tools(source)
    await trio.sleep(1)
    await settle()
    assert tools(session) == []
    await trio.sleep(10)
    assert (tools(session), len(source.started)) == (["c"], 2)


@pytest.mark.parametrize("script", [[breaking], [breaking, offering("a")]], ids=["always", "once"])
async def test_one_that_dies_at_once_is_told_and_leaves_nothing(world: World, script: list[object]) -> None:
    source = Scripted("one", script)  # type: ignore[arg-type]  # the ids are of another type
    session = await world.spawn([])
    with pytest.raises(SourceFailed, match=r"cannot attach the tools of `one`: .*no power.*can be tried again"):
        await session.attach_tools(source)
    await trio.sleep(1000)
    assert (tools(session), len(source.started)) == ([], 1)
    assert world.heard(session).of(ToolsUpdated) == []
    await session.attach_tools(Scripted("one", [offering("a")]))
    assert tools(session) == ["a"]


async def test_one_that_ends_without_a_word_is_told(world: World) -> None:
    async def nothing(_: Offer) -> None:
        await trio.sleep(1)

    session = await world.spawn([])
    with pytest.raises(SourceFailed, match="it ended"):
        await session.attach_tools(Scripted("one", [nothing]))


async def test_one_that_never_starts_is_waited_for_as_long_as_the_caller_likes(world: World) -> None:
    session = await world.spawn([])
    with trio.move_on_after(30) as scope:
        await session.attach_tools(Scripted("one", [silent]))
    assert scope.cancelled_caught
    assert (trio.current_time() - (scope.deadline - 30), tools(session)) == (30, [])
    await session.attach_tools(Scripted("one", [offering("a")]))
    assert tools(session) == ["a"]


async def test_one_that_has_joined_stays_if_the_session_is_suspended_at_once(world: World) -> None:
    session = await world.spawn([])

    async def suspending(offer: Offer) -> None:
        await offer([quick("a")])
        session._session.mailbox.suspend()  # noqa: SLF001 - before anything else can run
        await trio.sleep_forever()

    await session.attach_tools(Scripted("one", [suspending]))
    await session.resume()
    await settle()
    assert tools(session) == ["a"]


async def test_a_session_that_has_ended_starts_none(world: World) -> None:
    session = await world.spawn([])
    await session.stop()
    source = Scripted("one", [offering("a")])
    with pytest.raises(SessionNotAlive):
        await session._session.join_source(source, None)  # noqa: SLF001 - it may end after the handle has looked
    assert source.started == []


@pytest.mark.long
async def test_a_caller_who_goes_while_it_joins_leaves_nothing(world: World) -> None:
    for pause in range(40):

        async def slowly(offer: Offer, pause: int = pause) -> None:
            for _ in range(pause):
                await trio.lowlevel.checkpoint()
            await offering("a")(offer)

        session = await world.spawn([])
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(session.attach_tools, Scripted("one", [slowly]))
                for _ in range(20):
                    await trio.lowlevel.checkpoint()
                scope.cancel()
        await settle()
        other = tools(session)
        assert other in ([], ["a"])
        if other:  # it had joined before
            await session.detach_tools("one")
        else:
            await session.attach_tools(Scripted("one", [offering("a")]))


async def test_two_of_one_name_are_refused_and_one_may_take_the_place_of_the_other(world: World) -> None:
    first = Scripted("one", [offering("a", "b")])
    session = await world.spawn([], tools=[first])
    with pytest.raises(
        UsageError, check=coded("source-exists"), match="a source of tools named `one` is attached already"
    ):
        await session.attach_tools(Scripted("one", [offering("c")]))
    with pytest.raises(SourceFailed):
        await session.replace_tools(Scripted("one", [breaking]))
    assert tools(session) == ["a", "b"]
    await session.replace_tools(Scripted("one", [offering("b", "c")]))
    assert tools(session) == ["b", "c"]
    last = world.heard(session).of(ToolsUpdated)[-1]
    assert (last.attached, last.detached) == (("b", "c"), ("a", "b"))  # whatever it says of itself, `b` is other code


async def test_one_that_could_not_be_replaced_goes_on_until_it_is_detached(world: World) -> None:
    go, ended = trio.Event(), trio.Event()

    async def change(offer: Offer) -> None:
        await go.wait()
        await offer([quick("b")])
        try:
            await trio.sleep_forever()
        finally:
            ended.set()

    async def slow_death(_: Offer) -> None:
        go.set()
        await trio.sleep(1)
        message = "no power"
        raise OSError(message)

    session = await world.spawn([], tools=[Scripted("one", [offering("a", then=change)])])
    with pytest.raises(SourceFailed):
        await session.replace_tools(Scripted("one", [slow_death]))
    assert tools(session) == ["b"]
    assert not ended.is_set()
    await session.detach_tools("one")
    await settle()
    assert tools(session) == []
    assert ended.is_set()


async def test_a_source_is_attached_alone(world: World) -> None:
    session = await world.spawn([])
    with pytest.raises(UsageError, check=coded("source-alone"), match="`one` together with others"):
        await session.attach_tools(quick("own"), Scripted("one", [offering("a")]))
    assert tools(session) == []


async def test_what_is_neither_a_tool_nor_a_source_is_refused_with_what_there_is(world: World) -> None:
    session = await world.spawn([], tools=[quick("own"), Scripted("one", [offering("a")])])
    with pytest.raises(UnknownTool, match=r"no tool `two` \(attached: `own`, `a`\)"):
        await session.detach_tools("one", "two")
    assert tools(session) == ["own", "a"]
    await session.detach_tools("one", "own")
    assert tools(session) == []


async def test_a_session_that_ends_meanwhile_says_so(world: World) -> None:
    session = await world.spawn([])

    async def stop() -> None:
        await trio.sleep(1)
        await session.stop()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(stop)
        with pytest.raises(SessionNotAlive):
            await session.attach_tools(Scripted("one", [silent]))


async def test_it_is_attached_once_under_one_command_id(world: World) -> None:
    source = Scripted("one", [offering("a")])
    session = await world.spawn([])
    await session.attach_tools(source, command="c")
    await session.detach_tools("one")
    await session.attach_tools(source, command="c")
    assert (tools(session), len(source.started)) == ([], 1)


async def test_what_was_detached_stays_away_over_a_restart() -> None:
    journal = TestJournal()
    source = Scripted("one", [offering("a")])
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(spec_with(source), "s")
        await session.detach_tools("one")
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.resume("s", spec_with(source))
        assert (tools(session), len(source.started)) == ([], 1)
        await session.attach_tools(source)
        assert tools(session) == ["a"]
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.resume("s", spec_with(source))
        assert tools(session) == ["a"]


async def test_what_was_attached_and_is_in_no_specification_is_gone_after_a_restart_and_said_so() -> None:
    journal = TestJournal()
    spec = SessionSpec(model=ScriptedModel([]))
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(spec, "s")
        await session.attach_tools(Scripted("one", [offering("a")]))
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.resume("s", spec)
        await until(lambda: tools(session) == [])
        await session.attach_tools(Scripted("one", [offering("a")]))
        assert tools(session) == ["a"]

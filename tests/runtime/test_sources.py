"""Sources of tools: attached and detached in one step, restarted when they end, and ended with their session."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

import pytest
import trio
from attrs import define, field

from agentrail import SessionHandle, SessionSpec, open_supervisor
from agentrail.core.vocabulary.effects import StartCall
from agentrail.core.vocabulary.tool_calls import CallStatus
from agentrail.errors import BadSpec, UnknownTool
from agentrail.events import ToolAttached, ToolDetached, ToolsUpdated
from agentrail.models import JsonObject
from agentrail.plugins import HumanApproval
from agentrail.ports.tool import Offer
from agentrail.runtime.work.tool_call import LateCalls
from agentrail.testing import ScriptedModel, call, say
from agentrail.tools import EffectClass, Ok, ToolContext, ok
from tests.kit import EMPTY, Element
from tests.runtime.journals import TestJournal
from tests.runtime.tools import fake, quick
from tests.runtime.world import World, settle, spec_of, until

Supply = Callable[[Offer], Awaitable[None]]


@define
class Scripted:
    """A source with a behaviour for each start; the last one is used for all further starts."""

    name: str
    script: Sequence[Supply]
    started: list[float] = field(factory=list)

    def check(self) -> None:
        pass

    async def supply(self, working_dir: str, offer: Offer) -> None:
        self.started.append(trio.current_time())
        await self.script[min(len(self.started), len(self.script)) - 1](offer)


def offering(*names: str, then: Supply | None = None) -> Supply:
    async def supply(offer: Offer) -> None:
        await offer([quick(name) for name in names])
        if then is not None:
            await then(offer)
        else:
            await trio.sleep_forever()

    return supply


async def breaking(_: Offer) -> None:
    message = "no power"
    raise OSError(message)


async def silent(_: Offer) -> None:
    await trio.sleep_forever()


def spec_with(source: Scripted) -> SessionSpec:
    return spec_of(ScriptedModel([]), tools=[source])


def tools(session: SessionHandle) -> list[str]:
    return list(session.inspect().tools)


async def test_the_session_is_there_when_each_source_has_offered_tools_or_could_not(world: World) -> None:
    async def late(offer: Offer) -> None:
        await trio.sleep(5)
        await offering("late")(offer)

    start = trio.current_time()
    sources = [Scripted("one", [late]), Scripted("two", [offering("a", "b")]), Scripted("three", [breaking])]
    session = await world.spawn([], tools=[quick("own"), *sources])
    assert trio.current_time() - start == 5
    assert tools(session) == ["own", "a", "b", "late"]
    await settle()
    assert sorted(world.heard(session).of(ToolsUpdated), key=lambda event: event.source) == [
        ToolsUpdated(("late",), (), "one"),
        ToolsUpdated((), (), "three", ("OSError: no power",)),
        ToolsUpdated(("a", "b"), (), "two"),
    ]


async def test_a_change_is_one_step_and_names_only_what_changes(world: World) -> None:
    async def change(offer: Offer) -> None:
        await trio.sleep(1)
        await offer([quick("b"), quick("c")])
        await offer([quick("b"), quick("c")])
        await trio.sleep_forever()

    session = await world.spawn([], tools=[Scripted("one", [offering("a", "b", then=change)])])
    await trio.sleep(2)
    assert tools(session) == ["b", "c"]
    heard = world.heard(session)
    assert heard.of(ToolsUpdated) == [ToolsUpdated(("a", "b"), (), "one"), ToolsUpdated(("c",), ("a",), "one")]
    assert [event.name for event in heard.of(ToolAttached)] == ["a", "b", "c"]
    assert [event.name for event in heard.of(ToolDetached)] == ["a"]


async def test_it_is_started_again_later_and_later_and_says_so_once(world: World) -> None:
    source = Scripted("one", [offering("a", then=breaking), breaking])
    session = await world.spawn([], tools=[source])
    await trio.sleep(600)
    assert tools(session) == []
    gaps = [later - earlier for earlier, later in zip(source.started, source.started[1:], strict=False)]
    for number, gap in enumerate(gaps):
        assert min(0.5 * 2**number, 60) / 2 <= gap <= min(0.5 * 2**number, 60)
    assert len(gaps) > 10
    assert world.heard(session).of(ToolsUpdated) == [
        ToolsUpdated(("a",), (), "one"),
        ToolsUpdated((), ("a",), "one", ("OSError: no power",)),
    ]


async def test_one_that_ran_for_long_is_started_again_soon(world: World) -> None:
    async def steady(offer: Offer) -> None:
        await offer([quick("a")])
        await trio.sleep(100)

    source = Scripted("one", [breaking, breaking, breaking, breaking, steady, steady])
    await world.spawn([], tools=[source])
    await trio.sleep(1000)
    assert source.started[5] - source.started[4] <= 100.5


async def test_tools_of_others_are_left_alone(world: World) -> None:
    async def wait(offer: Offer) -> None:
        await trio.sleep(1)
        await offer([quick("a"), quick("b")])
        await trio.sleep(1)
        await offer([])
        await trio.sleep_forever()

    session = await world.spawn([], tools=[quick("own"), Scripted("one", [offering("own", "a", then=wait)])])
    assert tools(session) == ["own", "a"]
    await session.detach_tools("a")
    await session.attach_tools(quick("b", "mine"))
    await trio.sleep(1.5)
    assert tools(session) == ["own", "b", "a"]
    await trio.sleep(1)
    assert tools(session) == ["own", "b"]
    left_out = "`{}` is left out: there is another tool of that name"
    updates = [event for event in world.heard(session).of(ToolsUpdated) if event.source]
    assert [event.problems for event in updates] == [(left_out.format("own"),), (left_out.format("b"),), ()]


async def test_a_change_that_others_have_overtaken_is_tried_again(world: World) -> None:
    go = trio.Event()

    async def change(offer: Offer) -> None:
        await go.wait()
        await offer([quick("b")])
        await trio.sleep_forever()

    session = await world.spawn([], tools=[Scripted("one", [offering("a", then=change)])])
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(_detach_if_there, session, "a")
        go.set()
    await settle()
    assert tools(session) == ["b"]


async def _detach_if_there(session: SessionHandle, name: str) -> None:
    with suppress(UnknownTool):
        await session.detach_tools(name)


async def test_it_ends_with_its_session_whatever_it_raises_then(world: World) -> None:
    ended: list[str] = []

    async def stubborn(offer: Offer) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            try:
                await offering("a")(offer)
            finally:
                ended.append("a")
                message = "I did not want to end"
                raise OSError(message)

    source = Scripted("one", [stubborn])
    session = await world.spawn([], tools=[source])
    other = await world.spawn(["hello"])
    await session.stop()
    await trio.sleep(1000)
    assert (ended, len(source.started)) == (["a"], 1)
    assert (await other.ask("hi")).text == "hello"


async def test_a_spawn_that_is_cancelled_while_a_source_starts_leaves_nothing(world: World) -> None:
    source = Scripted("one", [silent])
    with trio.move_on_after(5):
        await world.supervisor.spawn(spec_with(source), "s-1")
    assert world.supervisor.sessions() == ()
    await trio.sleep(1000)
    assert len(source.started) == 1


async def test_a_session_that_is_stopped_while_a_source_starts_is_not_waited_for(world: World) -> None:
    async def stop() -> None:
        await trio.sleep(1)
        await world.supervisor.session("s-1").stop()

    world.nursery.start_soon(stop)
    with trio.fail_after(2):
        await world.supervisor.spawn(spec_with(Scripted("one", [silent])), "s-1")
    assert world.supervisor.sessions() == ()


async def test_two_sources_of_one_name_are_refused(world: World) -> None:
    with pytest.raises(BadSpec, match="two sources called `one`"):
        await world.spawn([], tools=[Scripted("one", [silent]), Scripted("one", [breaking])])


# Over a restart


async def over_a_restart(bring: Supply, *script: Element) -> tuple[list[str], list[str]]:
    """In a second process, approve a call to a tool of a source; return the keys of its runs, and all texts."""
    journal = TestJournal()
    ran: list[str] = []

    async def work(_args: JsonObject, ctx: ToolContext) -> Ok:
        ran.append(ctx.idempotency_key)
        await trio.sleep(10)
        return ok("worked")

    async def offer_it(offer: Offer) -> None:
        await offer([fake("far", work)])
        await trio.sleep_forever()

    async def offer_it_later(offer: Offer) -> None:
        await bring(offer)
        await offer_it(offer)

    def spec(supply: Supply, *script: Element) -> SessionSpec:
        guard = HumanApproval(tools=["far"])
        return SessionSpec(model=ScriptedModel(script), tools=[Scripted("there", [supply])], plugins=[guard])

    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(spec(offer_it, say(calls=[call("far")])), "s")
        (held,) = (await session.ask("go")).held
    async with open_supervisor(journal=journal) as supervisor, trio.open_nursery() as nursery:
        nursery.start_soon(supervisor.resume, "s", spec(offer_it_later, *script))
        await until(supervisor.sessions)
        (again,) = supervisor.sessions()
        await again.approve(held.id)
        await until(lambda: not again.status().turn_open)
        await settle()
        return ran, [message.text for message in again.messages()]


@pytest.mark.long
async def test_a_call_that_was_approved_waits_for_the_source_of_its_tool() -> None:
    async def wait(_: Offer) -> None:
        await trio.sleep(3)

    ran, text = await over_a_restart(wait, "fine")
    assert [key.partition("-")[0] for key in ran] == ["s/c3"]
    assert [text[-3], text[-1]] == ["worked", "fine"]


@pytest.mark.long
async def test_a_call_whose_source_does_not_come_back_has_an_error() -> None:
    async def give_up(offer: Offer) -> None:
        await trio.sleep(3)
        await breaking(offer)

    ran, text = await over_a_restart(give_up, "what a pity")
    assert ran == []
    assert "`far`" in text[-3]
    assert text[-1] == "what a pity"


@pytest.mark.long
async def test_a_call_whose_source_comes_back_with_another_tool_of_the_name_has_an_error() -> None:
    async def other(offer: Offer) -> None:
        tool = quick("far")
        tool.spec = tool.spec.but(description="Another one.")
        await trio.sleep(3)
        await offer([tool])
        await trio.sleep_forever()

    ran, text = await over_a_restart(other, "what a pity")
    assert ran == []
    assert "`far` was redefined before the call ran" in text[-3]
    assert text[-1] == "what a pity"


async def test_a_call_that_waits_for_its_source_can_be_aborted() -> None:
    journal = TestJournal()

    def spec(supply: Supply, *script: Element) -> SessionSpec:
        return SessionSpec(model=ScriptedModel(script), tools=[Scripted("there", [supply])])

    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(spec(slowly, say(calls=[call("far")])), "s")
        await session.prompt("go")
        await trio.sleep(1)
    async with open_supervisor(journal=journal) as supervisor, trio.open_nursery() as nursery:
        nursery.start_soon(supervisor.resume, "s", spec(silent, "never asked"))
        await until(supervisor.sessions)
        (again,) = supervisor.sessions()
        await settle()
        assert [c.status for c in again.inspect().batch.calls] == [CallStatus.RUNNING]  # type: ignore[union-attr]
        await again.abort(kill_tools="all")
        await settle()
        assert (again.status().turn_open, again.inspect().quarantined_calls) == (False, ())
        nursery.cancel_scope.cancel()


def test_a_call_that_is_cancelled_while_no_source_starts_makes_no_later_one_wait() -> None:
    late = LateCalls()
    assert late.drop("c1") is None
    assert not late.takes(StartCall("c2", 1, "far", 0, EMPTY, "s/c2"))


def test_a_call_that_is_cancelled_while_a_source_starts_leaves_the_others_waiting() -> None:
    late = LateCalls()
    late.expect()
    item, two = (StartCall(name, 1, "far", 0, EMPTY, f"s/{name}") for name in ("c1", "c2"))
    assert late.takes(item)
    assert late.takes(two)
    assert late.drop("c1") is item
    assert late.release() == (two,)


async def slowly(offer: Offer) -> None:
    async def work(_args: JsonObject, _ctx: ToolContext) -> Ok:
        await trio.sleep_forever()

    await offer([fake("far", work, effect=EffectClass.PURE)])
    await trio.sleep_forever()

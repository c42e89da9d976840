"""Sessions forked from others, and what stays as it was in the original."""

import pytest
import trio

from agentrail import SessionSpec, open_supervisor
from agentrail.errors import (
    PluginMismatch,
    SessionCrashed,
    SessionExists,
    SessionNotAlive,
    SessionStored,
    UnknownRecord,
    UnknownSession,
    UsageError,
    WrongType,
)
from agentrail.events import AgentEnd, SessionForked
from agentrail.models import Json, JsonObject, Usage
from agentrail.plugins import BudgetGuard, HumanApproval
from agentrail.testing import ScriptedModel, call, say
from agentrail.tools import Ok, ToolContext, ok
from tests.coded import coded
from tests.kit import NOTHING_USED, Element
from tests.runtime.families import agent, tasks
from tests.runtime.journals import TestJournal
from tests.runtime.poison import PoisonedResponse
from tests.runtime.test_resuming import NewerTurns, Turns
from tests.runtime.tools import fake
from tests.runtime.world import World, check_records, until


async def test_a_fork_goes_its_own_way(world: World) -> None:
    origin = await world.spawn(["one", "mine", "yours"], "s", plugins=[Turns()])
    await origin.ask("hi")
    fork = await origin.fork(id="t")
    assert (await origin.ask("and?")).text == "mine"
    assert (await fork.ask("or?")).text == "yours"
    assert [message.text for message in fork.messages()] == ["hi", "one", "or?", "yours"]
    assert fork.inspect().plugin_states == origin.inspect().plugin_states == (2,)
    assert world.supervisor.session("t") is fork
    async with fork.subscribe(since=0, types=[SessionForked]) as events:
        first = await anext(aiter(events))
    assert isinstance(first.event, SessionForked)
    assert (first.session_id, first.event.origin) == ("t", "s")


async def test_a_fork_of_an_earlier_time_lists_what_was_done_since(world: World) -> None:
    async def send(_args: JsonObject, _ctx: ToolContext) -> Ok:  # noqa: ASYNC124
        return ok("sent")

    script: list[Element] = ["one", say(calls=[call("send", {"to": "ann"})]), "two", "other"]
    origin = await world.spawn(script, "s", tools=[fake("send", send)])
    await origin.ask("hi")
    head = (await world.journal.sessions())[0].head
    await origin.ask("send it")
    fork = await origin.fork(at=head)
    assert [message.text for message in fork.messages()] == ["hi", "one"]
    (first,) = await world.journal.read(fork.id, 0, 1)
    assert [envelope.event for envelope in first.events] == [SessionForked("s", head, ('send {"to":"ann"}',))]
    assert (await fork.ask("rather not")).text == "other"


async def test_a_fork_may_end_before_the_turn_of_a_prompt(world: World) -> None:
    origin = await world.spawn(["one", "two", "three", "other", "again"], "s")
    refs = [(await origin.ask(text)).ref for text in ("hi", "and?", "or?")]
    fork = await origin.fork(at=refs[1])
    assert [message.text for message in fork.messages()] == ["hi", "one"]
    await fork.ask("rather?")
    assert [message.text for message in fork.messages()] == ["hi", "one", "rather?", "other"]
    first = await world.supervisor.fork("s", at=refs[0])
    assert first.messages() == ()
    for handle, ref in ((origin, "p-none"), (fork, refs[0])):  # a turn of the original is none of the fork
        with pytest.raises(
            UsageError,
            check=coded("unknown-turn"),
            match=f"session `{handle.id}` has begun no turn with the prompt `{ref}`",
        ):
            await handle.fork(at=ref)


async def test_a_queued_prompt_has_no_turn_before_it_is_taken(world: World) -> None:
    async def wait(_args: JsonObject, _ctx: ToolContext) -> Ok:
        await trio.sleep_forever()
        raise AssertionError

    origin = await world.spawn([say(calls=[call("wait")])], "s", tools=[fake("wait", wait)])
    await origin.prompt("hi")
    queued = await origin.prompt("later")
    with pytest.raises(UsageError, check=coded("unknown-turn")):
        await origin.fork(at=queued.ref)


@pytest.mark.parametrize("at_ms", [0, -1, 1000])
async def test_a_time_that_was_not_is_refused_and_nothing_is_left(world: World, at_ms: int) -> None:
    origin = await world.spawn(["one"], "s")
    await origin.ask("hi")
    with pytest.raises(UnknownRecord, match=f"no record {at_ms}"):
        await origin.fork(at=at_ms, id="t")
    assert [session.id for session in world.supervisor.sessions()] == ["s"]
    assert (await origin.fork(id="t")).id == "t"
    with pytest.raises(SessionExists):
        await origin.fork(id="t")


async def test_any_time_of_a_session_can_be_forked(world: World) -> None:
    script: list[Element] = [say(calls=[call("look"), call("look", {"at": 1})]), "fine"]

    async def look(_args: JsonObject, _ctx: ToolContext) -> Ok:  # noqa: ASYNC124
        return ok("seen")

    origin = await world.spawn([*script, *["more"] * 20], "s", tools=[fake("look", look)], plugins=[Turns()])
    await origin.ask("look")
    head = (await world.journal.sessions())[0].head
    for index in range(1, head + 1):
        fork = await origin.fork(at=index, id=f"fork-{index}")
        assert (await fork.ask("go on")).text == "more"


async def test_a_held_call_can_be_decided_in_both(world: World) -> None:
    ran: list[str] = []

    async def write(_args: JsonObject, ctx: ToolContext) -> Ok:  # noqa: ASYNC124
        ran.append(ctx.idempotency_key)
        return ok("written")

    guard = HumanApproval(tools=frozenset({"write"}))
    script: list[Element] = [say(calls=[call("write")]), "here", "there"]
    origin = await world.spawn(script, "s", tools=[fake("write", write)], plugins=[guard])
    (held,) = (await origin.ask("write")).held
    fork = await origin.fork(id="t")
    (again,) = fork.status().held
    assert again.id != held.id
    await origin.approve(held.id)
    await until(lambda: not origin.status().turn_open)
    await fork.approve(again.id)
    await until(lambda: not fork.status().turn_open)
    assert [key.partition("-")[0] for key in ran] == ["s/c3", "t/c3"]


async def test_a_fork_comes_back_from_the_journal_like_any_session() -> None:
    journal = TestJournal()
    spec = SessionSpec(model=ScriptedModel(["one", "two", "three"]), plugins=[Turns()])
    async with open_supervisor(journal=journal) as supervisor:
        origin = await supervisor.spawn(spec, "s")
        await origin.ask("hi")
        await (await origin.fork(id="t")).ask("there?")
    async with open_supervisor(journal=journal) as supervisor:
        again = await supervisor.resume("t", spec)
        assert (await again.ask("still?")).text == "three"
        assert [message.text for message in again.messages()] == ["hi", "one", "there?", "two", "still?", "three"]
        assert again.inspect().plugin_states == (3,)
    report = [type(e.event) for record in await journal.read("t", 0, 100) for e in record.events]
    assert report.count(AgentEnd) == 2


async def looks(_args: JsonObject, _ctx: ToolContext) -> Ok:  # noqa: ASYNC124
    return ok("seen")


async def test_a_fork_of_a_time_before_the_code_changed_has_the_code_of_now() -> None:
    journal = TestJournal()
    async with open_supervisor(journal=journal) as supervisor:
        spec = SessionSpec(model=ScriptedModel(["one"]), tools=[fake("look", looks)], plugins=[Turns()])
        origin = await supervisor.spawn(spec, "s")
        await origin.ask("hi")
        head = (await supervisor.stored())[0].head
    script: list[Element] = [say(calls=[call("look")]), "two"]
    tools = [fake("look", looks, timeout=7.0)]
    guard = HumanApproval(tools=frozenset({"write*"}))
    spec = SessionSpec(model=ScriptedModel(script), tools=tools, plugins=[NewerTurns(), guard])
    async with open_supervisor(journal=journal) as supervisor:
        origin = await supervisor.resume("s", spec)
        fork = await origin.fork(at=head, id="t")
        assert (await fork.ask("look")).text == "two"
        state = fork.inspect()
        assert [message.text for message in state.history][-2:] == ["seen", "two"]
        assert state.tools["look"].spec.timeout == 7.0
        assert dict(zip((attached.key for attached in state.plugins), state.plugin_states, strict=True))["Turns"] == 101
        assert {attached.key for attached in state.plugins} == {"Turns", "HumanApproval"}
        await check_records(journal, fork)


class StubbornTurns(NewerTurns):
    def upgrade(self, old: Json) -> int:
        raise ValueError(old)


StubbornTurns.__name__ = "Turns"


async def test_a_fork_whose_plugins_cannot_be_brought_forward_does_not_start() -> None:
    journal = TestJournal()
    async with open_supervisor(journal=journal) as supervisor:
        origin = await supervisor.spawn(SessionSpec(model=ScriptedModel(["one"])), "s")
        await origin.ask("hi")
        fork = await origin.fork(id="t")
        await fork.attach_plugin(Turns())
        head = next(stored.head for stored in await supervisor.stored() if stored.session_id == "t")
    async with open_supervisor(journal=journal) as supervisor:
        fork = await supervisor.resume("t", SessionSpec(model=ScriptedModel([]), plugins=[NewerTurns()]))
    async with open_supervisor(journal=journal) as supervisor:
        fork = await supervisor.resume("t", SessionSpec(model=ScriptedModel([]), plugins=[StubbornTurns()]))
        with pytest.raises(PluginMismatch, match="Turns"):
            await fork.fork(at=head, id="u")
        assert [session.id for session in supervisor.sessions()] == ["t"]
        assert [stored.session_id for stored in await supervisor.stored()] == ["s", "t"]


async def test_what_a_session_has_let_go_stays_gone_in_its_forks(world: World) -> None:
    spec: dict[str, object] = {"tools": [fake("look", looks)], "plugins": [Turns()]}
    origin = await world.spawn(["one"], "s", **spec)
    await origin.detach_tools("look")
    await origin.detach_plugin(Turns)
    fork = await origin.fork(id="t")
    assert (fork.inspect().plugins, dict(fork.inspect().tools)) == ((), {})


@pytest.mark.parametrize("ids", [("s", "t"), ("s", "t", "u")])
async def test_it_stays_gone_in_a_fork_that_another_process_brings_back(ids: tuple[str, ...]) -> None:
    journal = TestJournal()
    spec = SessionSpec(model=ScriptedModel(["one"]), tools=[fake("look", looks), fake("see", looks)], plugins=[Turns()])
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(spec, ids[0])
        await session.detach_tools("look")
        await session.detach_plugin(Turns)
        for other in ids[1:]:
            session = await session.fork(id=other)
    for _ in range(2):
        async with open_supervisor(journal=journal) as supervisor:
            again = await supervisor.resume(ids[-1], spec)
            assert (again.inspect().plugins, list(again.inspect().tools)) == ((), ["see"])


async def test_what_joined_while_a_session_lived_and_was_let_go_stays_gone_too() -> None:
    journal = TestJournal()
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(SessionSpec(model=ScriptedModel(["one"])), "s")
        await session.attach_tools(fake("look", looks), fake("see", looks))
        await session.attach_plugin(Turns())
        await session.detach_tools("look", "see")
        await session.detach_plugin(Turns)
        await session.attach_tools(fake("see", looks))
    spec = SessionSpec(model=ScriptedModel(["one"]), tools=[fake("look", looks), fake("see", looks)], plugins=[Turns()])
    async with open_supervisor(journal=journal) as supervisor:
        again = await supervisor.resume("s", spec)
        assert (again.inspect().plugins, list(again.inspect().tools)) == ((), ["see"])
        await again.attach_plugin(Turns())
        await again.attach_tools(fake("look", looks))
    async with open_supervisor(journal=journal) as supervisor:
        again = await supervisor.resume("s", spec)
        assert [attached.key for attached in again.inspect().plugins] == ["Turns"]
        assert sorted(again.inspect().tools) == ["look", "see"]


# From what is stored


def one(*answers: Element) -> SessionSpec:
    return SessionSpec(model=ScriptedModel(answers), name="one", plugins=[PoisonedResponse()])


async def test_a_session_that_has_ended_can_be_forked_also_in_another_process() -> None:
    journal = TestJournal()
    async with open_supervisor(journal=journal) as supervisor:
        origin = await supervisor.spawn(one("here"), "s")
        await origin.ask("hi")
        await origin.stop()
    async with open_supervisor(journal=journal) as supervisor:
        fork = await supervisor.fork("s", one("there"), id="t")
        assert (await fork.ask("and?")).text == "there"
        assert [message.text for message in fork.messages()] == ["hi", "here", "and?", "there"]
        with pytest.raises(SessionNotAlive):
            await supervisor.resume("s", one())
        await check_records(journal, fork)


async def test_one_that_was_set_aside_can_be_forked_before_the_message_that_broke_it_also_in_another_process() -> None:
    journal = TestJournal()
    async with open_supervisor(journal=journal) as supervisor:
        origin = await supervisor.spawn(one("here", "poison"), "s")
        await origin.ask("hi")
        head = (await supervisor.stored())[0].head
        with pytest.raises(SessionCrashed):
            await origin.ask("go")
    async with open_supervisor(journal=journal, specs={"one": lambda: one("there")}) as supervisor:
        for time, past in ((head, ["hi", "here"]), (None, ["hi", "here", "go"])):
            fork = await supervisor.fork("s", at=time)
            assert (await fork.ask("and?")).text == "there"
            assert [message.text for message in fork.messages()] == [*past, "and?", "there"]
        assert "s" not in [session.id for session in supervisor.sessions()]


async def test_one_that_is_here_is_forked_with_the_code_that_it_has(world: World) -> None:
    origin = await world.spawn(["one", "yours"], "s")
    await origin.ask("hi")
    fork = await world.supervisor.fork("s", id="t")
    assert (await fork.ask("or?")).text == "yours"
    other = await world.supervisor.fork("s", SessionSpec(model=ScriptedModel(["theirs"])), id="u")
    assert (await other.ask("or?")).text == "theirs"


async def test_what_cannot_be_forked_is_refused_and_leaves_nothing(world: World) -> None:
    origin = await world.spawn(["one"], "s", name="unknown")
    await origin.stop()
    with pytest.raises(UsageError, check=coded("spec-missing"), match="unknown"):
        await world.supervisor.fork("s")
    with pytest.raises(UnknownSession):
        await world.supervisor.fork("nobody", SessionSpec(model=ScriptedModel([])))
    with pytest.raises(WrongType):
        await world.supervisor.fork("s", "demo")  # type: ignore[arg-type]
    with pytest.raises(SessionStored):
        await world.supervisor.fork("s", SessionSpec(model=ScriptedModel([])), id="s")
    with pytest.raises(UnknownSession):
        await origin.fork()
    assert world.supervisor.sessions() == ()


async def test_what_others_have_used_of_shared_limits_is_nothing_to_a_fork_of_a_sub_agent(world: World) -> None:
    agents = {
        "reader": agent([say("read", usage=Usage(49_000, 50_000))], model_options={"max_tokens": 10}),
        "finder": agent([say("found", delay=30.0), "mine"], model_options={"max_tokens": 10}),
    }
    guard = BudgetGuard(max_turn_tokens=100_000)
    session = await world.spawn([tasks(*agents), "fine"], "p", agents=agents, plugins=[guard])
    await session.prompt("go")
    await until(lambda: any(child.inspect().shared_usage.total_tokens for child in world.supervisor.sessions()))
    (child,) = [session_ for session_ in world.supervisor.sessions() if session_.inspect().shared_usage.total_tokens]
    fork = await child.fork(id="t")
    assert (fork.inspect().shared_usage, fork.inspect().shared_worked_ms) == (NOTHING_USED, 0)
    assert (await fork.ask("x" * 10_000)).text == "mine"

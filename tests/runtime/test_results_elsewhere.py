"""Calls of tools that are `elsewhere` wait for `session.result`: what it takes, refuses, and takes once."""

from typing import TypedDict

import pytest
import trio

from agentrail import Context, Continue, HeldCall, HoldTool, Plugin, SessionHandle, SessionSpec, open_supervisor, tool
from agentrail.errors import BadResult, BadTool, ResultNotWanted, SessionNotAlive, WrongDecision, WrongType
from agentrail.events import AgentResumed, ApprovalResolved, ResultRequired, ToolExecutionStart
from agentrail.journals import MemoryJournal
from agentrail.models import Data, Text
from agentrail.plugins import BeforeTool, BlockTool
from agentrail.testing import ScriptedModel, call, say
from agentrail.tools import Err, Ok, err, make_spec, ok
from tests.kit import Element
from tests.runtime.families import agent, task
from tests.runtime.tools import quick
from tests.runtime.world import World, settle


class Weather(TypedDict):
    degrees: int


@tool(elsewhere=True, timeout=60)
async def deploy(to: str) -> str:
    """Deploy it."""
    raise NotImplementedError


@tool(elsewhere=True, effect="pure")
async def weather(city: str) -> Weather:
    """Look up the weather."""
    raise NotImplementedError


DEPLOYS: list[Element] = [say(calls=[call("deploy", {"to": "prod"})]), "Deployed."]
ASKS: list[Element] = [say(calls=[call("weather", {"city": "Bonn"})]), "Nice."]


class Guard(Plugin):
    def before_tool(
        self, hook: BeforeTool, state: None, ctx: Context
    ) -> Continue[None] | HoldTool[None] | BlockTool[None]:
        if hook.args.get("to") == "mars":
            return BlockTool("too far")
        return Continue() if hook.approved else HoldTool("may it?", timeout=None)


async def awaited_call(session: SessionHandle, text: str = "go") -> HeldCall:
    """Prompt *session*, and return the call that then waits for its result."""
    reply = await session.ask(text)
    (held,) = reply.held
    assert (reply.stop_reason, held.kind, held.hint, held.family) == ("held", "result", "", None)
    return held


def results(session: SessionHandle) -> list[str]:
    """Return the results of calls in the conversation of *session*."""
    return [message.text for message in session.messages() if type(message).__name__ == "ToolMessage"]


async def test_the_call_gets_the_result_and_the_model_goes_on(world: World) -> None:
    session = await world.spawn(DEPLOYS, tools=[deploy])
    held = await awaited_call(session)
    await settle()
    required = world.heard(session).only(ResultRequired)
    assert (required.ref, required.tool, dict(required.args), required.expires_at) == (
        held.id,
        "deploy",
        {"to": "prod"},
        held.expires_at,
    )
    assert len(world.heard(session).of(ToolExecutionStart)) == 1
    await session.by("ci").result(required, ok("it is up"))
    assert (await session.reply()).text == "Deployed."
    assert results(session) == ["it is up"]
    assert world.heard(session).only(AgentResumed).trigger == "tool_result"


async def test_a_result_that_does_not_fit_its_schema_is_refused_and_can_be_corrected(world: World) -> None:
    session = await world.spawn(ASKS, tools=[weather])
    held = await awaited_call(session)
    wrong = (ok("warm"), ok("[3]"), ok('{"degrees": "3"}'), Ok((Data({}),)), Ok((Text("{}"), Text("{}"))), Ok(()))
    for result in wrong:
        with pytest.raises(BadResult, match="does not fit the schema of `weather`"):
            await session.result(held, result)
    for nothing in (3, "warm", None, Ok, {"degrees": 3}):
        with pytest.raises(WrongType):
            await session.result(held, nothing)  # type: ignore[arg-type]  # that is tried
    await session.result(held, ok('{"degrees": 3}'))
    await session.reply()
    assert results(session) == ['{"degrees": 3}']


async def test_an_error_needs_no_schema(world: World) -> None:
    session = await world.spawn(ASKS, tools=[weather])
    await session.result(await awaited_call(session), err("the station is down"))
    await session.reply()
    assert results(session) == ["the station is down"]


async def test_the_same_result_counts_once_and_another_one_is_refused(world: World) -> None:
    session = await world.spawn([*DEPLOYS, *DEPLOYS], tools=[deploy])
    held = await awaited_call(session)
    refused: list[Exception] = []

    async def give(text: str) -> None:
        try:
            await session.result(held.id, ok(text))
        except ResultNotWanted as error:
            refused.append(error)

    async with trio.open_nursery() as nursery:
        for text in ("one", "one", "two"):
            nursery.start_soon(give, text)
    await session.reply()
    assert results(session) in (["one"], ["two"])
    assert len(refused) == (1 if results(session) == ["one"] else 2)
    await give(results(session)[0])
    assert len(refused) == (1 if results(session) == ["one"] else 2)
    await session.result(await awaited_call(session, "again"), ok("other"))  # the same tool, another call
    await session.reply()
    assert results(session)[1:] == ["other"]


async def test_a_result_after_the_deadline_is_refused_and_the_model_is_told(world: World) -> None:
    session = await world.spawn([*DEPLOYS, *DEPLOYS], tools=[deploy])
    held = await awaited_call(session)
    await trio.sleep(61)
    assert (await session.reply()).text == "Deployed."
    assert results(session) == [
        "no result has come in time; it may have taken effect; find out before calling it again"
    ]
    assert world.heard(session).only(ApprovalResolved).status == "timeout"
    with pytest.raises(ResultNotWanted, match="its time was over"):
        await session.result(held, ok("late"))
    doubted = await session.ask("again")  # the first may have taken effect, so an equal one asks a person
    assert [call.kind for call in doubted.held] == ["approval"]


@pytest.mark.parametrize("how", ["abort", "steer", "stop"])
async def test_a_result_for_a_turn_that_is_over_is_refused(how: str) -> None:
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(SessionSpec(model=ScriptedModel(DEPLOYS), tools=[deploy]))
        held = await awaited_call(session)
        if how == "steer":
            assert (await session.steer("leave it")).dropped
        else:
            await (session.abort() if how == "abort" else session.stop())
        with pytest.raises(ResultNotWanted if how != "stop" else SessionNotAlive):
            await session.result(held, ok("late"))


async def test_plugins_are_asked_before_anybody_elsewhere_is(world: World) -> None:
    calls = [call("deploy", {"to": "mars"}), call("deploy", {"to": "prod"})]
    session = await world.spawn([say(calls=calls), "Done."], tools=[deploy], plugins=[Guard()])
    reply = await session.ask("go")
    assert [call.kind for call in reply.held] == ["approval"]
    assert world.heard(session).of(ResultRequired) == []
    with pytest.raises(WrongDecision, match=r"use `session.approve` or `session.reject`"):
        await session.result(reply.held[0], ok("it is up"))
    await session.approve(reply.held[0])
    (held,) = (await session.reply()).held
    for wrong in (session.approve(held), session.reject(held), session.respond(held, "it is up")):
        with pytest.raises(WrongDecision, match=r"use `session.result`"):
            await wrong
    await session.result(held, ok("it is up"))
    await session.reply()
    assert results(session) == ["blocked by Guard: too far", "it is up"]


async def test_other_calls_run_meanwhile_also_where_one_may_run_at_a_time(world: World) -> None:
    calls = [call("deploy", {"to": "a"}), call("quick"), call("deploy", {"to": "b"})]
    session = await world.spawn([say(calls=calls), "Done."], tools=[deploy, quick()], max_parallel_tools=1)
    reply = await session.ask("go")
    assert [held.args["to"] for held in reply.held] == ["a", "b"]
    for held in reversed(reply.held):
        await session.result(held, ok(f"{held.args['to']} is up"))
    await session.reply()
    assert results(session) == ["a is up", "done", "b is up"]


async def test_a_sub_agents_call_gets_its_result_by_its_parent(world: World) -> None:
    finder = agent(ASKS, tools=[weather])
    session = await world.spawn([task(), "fine"], "p", agents={"finder": finder})
    (held,) = (await session.ask("go")).held
    assert (held.kind, held.path) == ("result", ("p", "c3"))
    with pytest.raises(BadResult):
        await session.result(held, ok("warm"))
    await session.result(held, ok('{"degrees": 3}'))
    assert (await session.reply()).text == "fine"


async def test_a_fork_waits_for_a_result_of_its_own(world: World) -> None:
    session = await world.spawn(DEPLOYS, tools=[deploy])
    held = await awaited_call(session)
    fork = await session.fork()
    (other,) = fork.status().held
    assert (other.kind, other.expires_at, other.id == held.id) == ("result", held.expires_at, False)
    with pytest.raises(ResultNotWanted):
        await fork.result(held, ok("of the original"))
    await fork.result(other, ok("of the fork"))
    await settle()
    assert (results(fork), results(session)) == (["of the fork"], [])


async def test_it_outlives_the_process_and_so_does_what_was_given() -> None:
    spec = SessionSpec(name="s", model=ScriptedModel([*DEPLOYS, "Again."]), tools=[deploy, quick()])
    journal = MemoryJournal()
    async with open_supervisor(journal=journal, specs={"s": lambda: spec}) as supervisor:
        held = await awaited_call(await supervisor.spawn(spec, "s"))
    async with open_supervisor(journal=journal, specs={"s": lambda: spec}) as supervisor:
        session = await supervisor.resume("s", spec)
        assert session.status().held == (held,)
        await session.result(held, ok("it is up"))
    async with open_supervisor(journal=journal, specs={"s": lambda: spec}) as supervisor:
        session = await supervisor.resume("s", spec)
        await session.reply()
        await session.result(held, ok("it is up"))  # of another process, which had not heard of it
        with pytest.raises(ResultNotWanted):
            await session.result(held, ok("it is down"))
        assert results(session) == ["it is up"]


def test_what_needs_a_body_is_no_option_of_a_tool_without_one() -> None:
    with pytest.raises(BadTool, match="`immune`, or run alone"):
        make_spec("away", "Is away.", {}, elsewhere=True, immune=True)
    with pytest.raises(BadTool, match="`immune`, or run alone"):
        make_spec("away", "Is away.", {}, elsewhere=True, parallel=False)
    with pytest.raises(BadTool, match="nothing to probe"):
        make_spec("away", "Is away.", {}, elsewhere=True, effect="checkable")
    with pytest.raises(BadTool, match="must be true or false"):
        make_spec("away", "Is away.", {}, elsewhere=1)  # type: ignore[arg-type]  # that is tried


def test_a_result_is_text_or_has_fields() -> None:
    with pytest.raises(BadTool, match="annotate it"):

        @tool(elsewhere=True)
        async def away() -> list[int]:
            """Be away."""
            return []

    assert weather.spec.result["required"] == ("degrees",)
    assert (deploy.spec.result, deploy.spec.timeout, weather.spec.timeout) == ({}, 60.0, 86_400.0)
    assert isinstance(err(""), Err)

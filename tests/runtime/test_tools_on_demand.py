"""Tools on demand: they are named, found, called through a tool that stays the same, and not forgotten."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import pytest

from agentrail import SessionHandle, SessionSpec, open_supervisor, tool
from agentrail.errors import ToolExists
from agentrail.events import AgentEnd, LoopDetected, ToolBlocked, ToolCallUnknown, ToolExecutionStart, ToolsFound
from agentrail.models import AssistantMessage, Json, Message, Origin, ToolCall, ToolMessage, UserMessage
from agentrail.plugins import BudgetGuard, HumanApproval, SecurityGuard
from agentrail.ports.tool import Offer
from agentrail.testing import ScriptedModel, call, say
from tests.kit import Element
from tests.runtime.journals import TestJournal
from tests.runtime.test_sources import Scripted, Supply
from tests.runtime.tools import Fake, quick
from tests.runtime.world import World, settle, until


@tool(deferred=True)
async def pay_bill(amount: int, to: str = "me") -> str:
    """Pay a bill.

    Args:
        amount: How much, in cents.
        to: Who gets it.
    """
    return f"paid {amount} to {to}"


@tool(deferred=True)
async def delete_file(path: str) -> str:
    """Delete a file for good."""
    return f"deleted {path}"


@tool
async def look() -> str:
    """Look around."""
    return "dark"


ALL: Final = (look, pay_bill, delete_file)


def find(query: str) -> ToolCall:
    return call("find_tools", {"query": query})


def through(name: str, args: Mapping[str, Json] | None = None) -> ToolCall:
    return call("call_tool", {"name": name, "arguments": args or {}})


def results(session: SessionHandle) -> list[ToolMessage]:
    return [message for message in session.messages() if isinstance(message, ToolMessage)]


def calls_of(session: SessionHandle) -> list[ToolCall]:
    answers = [message for message in session.messages() if isinstance(message, AssistantMessage)]
    return [new_call for message in answers for new_call in message.calls]


def notices(messages: Sequence[Message]) -> list[str]:
    """Return what the session has told the model of tools."""
    texts = [m.text for m in messages if isinstance(m, UserMessage) and m.origin is Origin.NOTICE]
    return [text for text in texts if "Further tools" in text]


async def test_the_model_gets_names_finds_a_tool_and_calls_it(world: World) -> None:
    model = ScriptedModel([say(calls=[find("pay a bill")]), say(calls=[through("pay_bill", {"amount": 5})]), "done"])
    session = await world.spawn(model, tools=ALL)
    await session.ask("go")
    names = [[spec.name for spec in request.tools] for request in model.requests]
    assert names == [["look", "find_tools", "call_tool"]] * 3
    assert len({request.tools for request in model.requests}) == 1, "the tools of a request stay the same"
    assert "pay_bill, delete_file" in model.requests[0].tools[1].description
    assert "How much, in cents" not in f"{model.requests[0].tools}"
    actual, paid = results(session)
    assert (actual.name, actual.is_error, "How much, in cents" in actual.text) == ("find_tools", False, True)
    assert "delete_file" not in actual.text
    assert (paid.name, paid.text) == ("pay_bill", "paid 5 to me")
    assert session.inspect().found_tools == ("pay_bill",)
    await settle()
    heard = world.heard(session)
    assert heard.only(ToolsFound).names == ("pay_bill",)
    assert [(e.name, e.args) for e in heard.of(ToolExecutionStart)] == [("pay_bill", {"amount": 5})]
    new_value = calls_of(session)[1]
    assert (new_value.name, new_value.args, new_value.via) == ("pay_bill", {"amount": 5}, "call_tool")


@pytest.mark.parametrize(
    ("tool_call", "says"),
    [
        (call("pay_bill", {"amount": 5}), "paid 5 to me"),
        (call("call_tool", {"name": "pay_bill", "arguments": '{"amount": 5}'}), "paid 5 to me"),
        (call("call_tool", {"name": "look"}), "dark"),
        (through("find_tools", {"query": "bill"}), "Pay a bill."),
    ],
    ids=["by its own name", "with arguments as text", "a usual tool", "the finder"],
)
async def test_what_is_meant_just_works(world: World, tool_call: ToolCall, says: str) -> None:
    session = await world.spawn([say(calls=[tool_call]), "done"], tools=ALL)
    await session.ask("go")
    (result,) = results(session)
    assert (result.is_error, says in result.text) == (False, True), result


@pytest.mark.parametrize(
    ("tool_call", "says"),
    [
        (through("pay_bill", {"amount": "much"}), '"How much, in cents."'),
        (call("pay_bill"), '"How much, in cents."'),
        (through("pay_bil"), "`find_tools` finds"),
        (call("call_tool", {"arguments": {}}), "`find_tools` shows"),
        (call("call_tool", {"name": "pay_bill", "arguments": "much"}), "`find_tools` shows"),
        (through("call_tool", {"name": "pay_bill"}), "`find_tools` shows"),
        (call("find_tools"), "takes `query`"),
        (call("find_tools", {"query": " "}), "takes `query`"),
    ],
    ids=["misfit", "no arguments", "unknown", "no name", "bad arguments", "itself", "no query", "blank"],
)
async def test_what_cannot_be_meant_says_how(world: World, tool_call: ToolCall, says: str) -> None:
    session = await world.spawn([say(calls=[tool_call]), "done"], tools=ALL)
    await session.ask("go")
    (result,) = results(session)
    assert (result.is_error, says in result.text) == (True, True), result


async def test_a_session_without_such_tools_has_neither_of_the_two(world: World) -> None:
    model = ScriptedModel([say(calls=[find("look"), through("look")]), "done"])
    session = await world.spawn(model, tools=[look])
    await session.ask("go")
    assert [spec.name for spec in model.requests[0].tools] == ["look"]
    await settle()
    assert [event.name for event in world.heard(session).of(ToolCallUnknown)] == ["find_tools", "call_tool"]


async def test_tools_of_these_names_keep_them(world: World) -> None:
    own_value = [quick("find_tools", "mine"), quick("call_tool", "mine too")]
    model = ScriptedModel(
        [
            say(calls=[find("x"), through("pay_bill", {"amount": 1})]),
            say(calls=[call("find_tools_", {"query": "bill"})]),
            say(calls=[call("call_tool_", {"name": "pay_bill", "arguments": {"amount": 1}})]),
            "done",
        ]
    )
    session = await world.spawn(model, tools=[*own_value, pay_bill])
    await session.ask("go")
    names = ["find_tools", "call_tool", "find_tools_", "call_tool_"]
    assert [spec.name for spec in model.requests[0].tools] == names
    mine, too, actual, paid = (result.text for result in results(session))
    assert (mine, too, paid) == ("mine", "mine too", "paid 1 to me")
    assert "call them with `call_tool_`" in model.requests[0].tools[2].description
    assert "Call these with `call_tool_`" in actual


# Guards


async def test_a_guard_rules_on_the_tool_and_its_arguments(world: World) -> None:
    script: list[Element] = [say(calls=[through("delete_file", {"path": "/etc/shadow"})]), "done"]
    guard = SecurityGuard(path_args=("path",))
    session = await world.spawn(script, tools=ALL, plugins=[guard])
    await session.ask("go")
    await settle()
    blocked = world.heard(session).only(ToolBlocked)
    assert (blocked.name, blocked.plugin) == ("delete_file", "SecurityGuard")
    assert world.heard(session).of(ToolExecutionStart) == []


async def test_a_person_approves_the_tool_and_its_arguments(world: World) -> None:
    script: list[Element] = [say(calls=[find("bill")]), say(calls=[through("pay_bill", {"amount": 5})]), "done"]
    session = await world.spawn(script, tools=ALL, plugins=[HumanApproval(tools=("pay_bill",))])
    (held,) = (await session.ask("go")).held
    assert (held.tool, held.args) == ("pay_bill", {"amount": 5})
    await session.approve(held.id, args={"amount": 4})
    await until(lambda: not session.status().turn_open)
    assert results(session)[-1].text == "paid 4 to me"


async def test_a_budget_of_calls_counts_each_once(world: World) -> None:
    calls = [through("pay_bill", {"amount": number}) for number in (1, 2, 3)]
    session = await world.spawn([say(calls=calls), "done"], tools=ALL, plugins=[BudgetGuard(max_calls=2)])
    await session.ask("go")
    await settle()
    assert len(world.heard(session).of(ToolExecutionStart)) == 2
    assert world.heard(session).only(ToolBlocked).name == "pay_bill"


async def test_the_same_call_again_is_a_loop_and_different_ones_are_none(world: World) -> None:
    same = [say(calls=[through("pay_bill", {"amount": 1})])] * 3
    different = [say(calls=[through("pay_bill", {"amount": number})]) for number in (2, 3, 4)]
    session = await world.spawn([*different, *same, "done"], tools=ALL)
    await session.ask("go")
    await settle()
    assert world.heard(session).only(LoopDetected) == LoopDetected("repeat_pattern", "pay_bill", 3)


async def test_looking_for_the_same_again_is_a_loop(world: World) -> None:
    session = await world.spawn([*[say(calls=[find("bill")])] * 3, "done"], tools=ALL)
    await session.ask("go")
    await settle()
    assert world.heard(session).only(LoopDetected) == LoopDetected("repeat_pattern", "find_tools", 3)
    assert "try something else" in results(session)[-1].text


async def test_in_the_last_round_nothing_is_found(world: World) -> None:
    session = await world.spawn([say(calls=[find("bill")])], tools=ALL, max_rounds=1)
    await session.ask("go")
    assert results(session)[0].is_error
    await settle()
    assert world.heard(session).only(AgentEnd).reason == "max_rounds"


# What is remembered


async def test_what_was_found_is_told_again_after_a_compaction(world: World) -> None:
    script: list[Element] = [say(calls=[find("bill")]), "found", "long " * 400, "a summary", "still", "and still"]
    model = ScriptedModel(script)
    session = await world.spawn(model, tools=ALL)
    for text in ("look for it", "and then?"):
        await session.ask(text)
    await session.compact()
    await settle()
    assert not any("How much" in message.text for message in session.messages())
    await session.ask("and now?")
    (notice,) = notices(model.requests[-1].messages)
    assert ("How much, in cents" in notice, "call_tool" in notice, "delete_file" in notice) == (True, True, False)
    assert model.requests[-1].tools == model.requests[0].tools
    await session.ask("and now?")
    assert notices(model.requests[-1].messages) == [notice], "once"


async def test_what_the_kept_messages_still_tell_is_not_told_again(world: World) -> None:
    model = ScriptedModel(["long " * 400, say(calls=[find("bill")]), "found", "a summary", "well"])
    session = await world.spawn(model, tools=ALL)
    for text in ("first", "look for it"):
        await session.ask(text)
    await session.compact()
    await settle()
    assert any("How much, in cents" in message.text for message in session.messages())
    await session.ask("and now?")
    assert notices(model.requests[-1].messages) == []


async def test_a_definition_that_is_too_long_is_told_if_it_is_the_only_one(world: World) -> None:
    new_tool = quick("lamp")
    new_tool.spec = new_tool.spec.but(description="It shines. " * 4_000, deferred=True)
    model = ScriptedModel([say(calls=[find("lamp")]), "done"])
    session = await world.spawn(model, tools=[new_tool])
    await session.ask("go")
    (result,) = results(session)
    assert session.inspect().found_tools == ("lamp",)
    assert '"name":"lamp"' in result.text


async def test_what_was_found_is_known_in_another_process_and_in_a_fork() -> None:
    journal = TestJournal()
    script: list[Element] = [
        say(calls=[find("bill")]),
        "found",
        say(calls=[through("pay_bill", {"amount": 5})]),
        "paid",
    ]
    spec = SessionSpec(model=ScriptedModel(script[:2]), tools=ALL)
    async with open_supervisor(journal=journal, seed=1) as supervisor:
        session = await supervisor.spawn(spec, "s")
        await session.ask("look for it")
    async with open_supervisor(journal=journal, seed=1) as supervisor:
        session = await supervisor.resume("s", SessionSpec(model=ScriptedModel(script[2:]), tools=ALL))
        assert session.inspect().found_tools == ("pay_bill",)
        fork = await session.fork()
        assert fork.inspect().found_tools == ("pay_bill",)
        await session.ask("pay")
        assert results(session)[-1].text == "paid 5 to me"


async def test_a_found_tool_that_is_replaced_is_told_again(world: World) -> None:
    model = ScriptedModel([say(calls=[find("bill")]), "found", "ok"])
    session = await world.spawn(model, tools=ALL)
    await session.ask("look for it")

    @tool(name="pay_bill", deferred=True)
    async def pay_in_euros(euros: int) -> str:
        """Pay a bill in euros."""
        return f"paid {euros}"

    await session.replace_tools(pay_in_euros)
    await session.ask("and now?")
    (notice,) = notices(model.requests[-1].messages)
    assert ("in euros" in notice, "have changed" in notice) == (True, True)


async def test_a_found_tool_that_is_detached_is_gone_and_comes_back_known(world: World) -> None:
    pays = through("pay_bill", {"amount": 5})
    model = ScriptedModel([say(calls=[find("bill")]), "found", say(calls=[pays]), "no", say(calls=[pays]), "yes"])
    session = await world.spawn(model, tools=ALL)
    await session.ask("look for it")
    await session.detach_tools("pay_bill")
    await session.ask("pay")
    assert "pay_bill" not in model.requests[-1].tools[1].description
    assert "there is no tool `pay_bill`" in results(session)[-1].text
    await session.attach_tools(pay_bill)
    await session.ask("pay")
    assert results(session)[-1].text == "paid 5 to me"
    assert session.inspect().found_tools == ("pay_bill",)


async def test_a_source_that_comes_back_without_a_found_tool_is_no_harm(world: World) -> None:
    def offers(*names: str) -> Supply:
        async def supply(offer: Offer) -> None:
            tools = [quick(name) for name in names]
            for item in tools:
                item.spec = item.spec.but(deferred=True)
            await offer(tools)
            await until(lambda: go)
            go.clear()

        return supply

    go: list[bool] = []
    model = ScriptedModel([say(calls=[find("far")]), "found", say(calls=[through("far")]), "gone"])
    session = await world.spawn(model, tools=[Scripted("one", [offers("far", "near"), offers("near")])])
    await session.ask("look for it")
    assert session.inspect().found_tools == ("far",)
    go.append(True)
    await until(lambda: list(session.inspect().tools) == ["near"])
    await session.compact()
    await session.ask("and now?")
    assert "there is no tool `far`" in results(session)[-1].text
    assert notices(model.requests[-1].messages) == []


async def test_many_tools_make_a_bounded_answer(world: World) -> None:
    def big(number: int) -> Fake:
        new_tool = quick(f"lamp_{number}")
        new_tool.spec = new_tool.spec.but(description="Switch a lamp. " + "It shines. " * 400, deferred=True)
        return new_tool

    model = ScriptedModel([say(calls=[find("lamp")]), say(calls=[find("lamp_77")]), say(calls=[find("boat")]), "done"])
    session = await world.spawn(model, tools=[big(number) for number in range(100)])
    await session.ask("go")
    many, item, none = results(session)
    assert len(many.text) < 20_000
    assert "97 more fit, among them lamp_3, lamp_4" in many.text
    assert '"name":"lamp_77"' in item.text.splitlines()[1]
    assert (none.is_error, "No tool fits 'boat'" in none.text) == (False, True)
    assert session.inspect().found_tools[-1] == "lamp_77"


async def test_a_tool_of_a_name_that_is_there_is_refused_as_ever(world: World) -> None:
    session = await world.spawn([], tools=ALL)
    with pytest.raises(ToolExists):
        await session.attach_tools(pay_bill)

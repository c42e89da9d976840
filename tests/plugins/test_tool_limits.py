"""Limits of single tools: `BudgetGuard(calls=…)`, which blocks a call, or has the model answer."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from attrs import evolve

from agentrail import SessionSpec, open_supervisor, tool
from agentrail.errors import BadOptions, PluginRefused, TurnAborted
from agentrail.journals import SqliteJournal
from agentrail.models import ToolMessage
from agentrail.plugins import BudgetGuard
from agentrail.testing import ScriptedModel, call, say
from tests.kit import Element
from tests.runtime.families import agent, task


@tool(effect="pure")
async def look(page: str) -> str:
    """Look at a page."""
    return f"seen {page}"


@tool(effect="pure")
async def think() -> str:
    """Think."""
    return "thought"


def looks(*pages: str) -> Element:
    return say(calls=[call("look", {"page": page}) for page in pages])


def spec_of(guard: BudgetGuard, *script: Element) -> SessionSpec:
    return SessionSpec(model=ScriptedModel([*script, "done", "done"]), tools=[look, think], plugins=[guard])


async def results(guard: BudgetGuard, *script: Element) -> list[str]:
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(spec_of(guard, *script))
        await session.ask("go")
        return [message.text for message in session.messages() if isinstance(message, ToolMessage)]


OVER: Final = "blocked by BudgetGuard: calls.look=2 is used up"
ANSWER: Final = "no more tools may be called in this turn; answer with what you have"


async def test_calls_over_a_limit_are_blocked_also_those_of_one_response() -> None:
    guard = BudgetGuard(calls={"look": 2})
    thinks = say(calls=[call("think")])
    assert await results(guard, looks("a", "b", "c"), thinks, looks("d")) == [
        "seen a",
        "seen b",
        OVER,
        "thought",
        OVER,
    ]
    assert await results(BudgetGuard(calls={"look": 0}), looks("a")) == [OVER.replace("2", "0")]


async def test_a_turn_ends_with_an_answer() -> None:
    guard = BudgetGuard(calls={"look": 2}, at_limit="answer")
    model = ScriptedModel([looks("a", "b", "c", "d"), say(calls=[call("think")]), "what I have", looks("e"), "again"])
    async with open_supervisor() as supervisor:
        spec = SessionSpec(model=model, tools=[look, think], plugins=[guard])
        session = await supervisor.spawn(spec)
        assert (await session.ask("go")).text == "what I have"
        texts = [message.text for message in session.messages() if isinstance(message, ToolMessage)]
        blocked = f"blocked by BudgetGuard: {ANSWER}"
        assert texts == ["seen a", "seen b", f"{OVER}; {ANSWER}", blocked, blocked]
        assert ANSWER in str(model.requests[1])
        assert ANSWER not in str(model.requests[0])
        assert (await session.ask("more")).text == "again"  # the limit is that of the session


async def test_a_model_that_never_answers_is_stopped() -> None:
    guard = BudgetGuard(calls={"look": 0}, at_limit="answer")
    async with open_supervisor() as supervisor:
        model = ScriptedModel([looks("a")], repeat_last=True)
        session = await supervisor.spawn(SessionSpec(model=model, tools=[look], plugins=[guard]))
        with pytest.raises(TurnAborted, match="the model calls tools instead of answering"):
            await session.ask("go")
        assert len(model.requests) == 4


async def test_the_model_is_told_the_limits_before() -> None:
    for at_limit, what in (("block", "further calls are refused"), ("answer", "then answer with what you have")):
        model = ScriptedModel(["done"])
        async with open_supervisor() as supervisor:
            guard = BudgetGuard(calls={"look": 2, "think": 1}, at_limit=at_limit)
            session = await supervisor.spawn(SessionSpec(model=model, tools=[look, think], plugins=[guard]))
            await session.ask("go")
        told = f"The most calls of these tools in this session ({what}): `look`: 2, `think`: 1."
        assert told in str(model.requests[0])


async def test_counts_outlive_a_restart_and_a_fork_has_those_of_its_place(tmp_path: Path) -> None:
    guard = BudgetGuard(calls={"look": 2})
    async with open_supervisor(journal=SqliteJournal(tmp_path / "j.db")) as supervisor:
        session = await supervisor.spawn(spec_of(guard, looks("a")), id="s")
        await session.ask("go")
    async with open_supervisor(journal=SqliteJournal(tmp_path / "j.db")) as supervisor:
        session = await supervisor.resume("s", spec_of(guard, looks("b", "c")))
        turn = await session.prompt("on")
        await session.reply()
        assert session.messages()[-2].text == OVER
        for at, expected in ((None, [OVER, OVER]), (turn.ref, ["seen x", OVER])):
            fork = await supervisor.fork("s", spec_of(guard, looks("x", "y")), at=at)
            await fork.ask("again")
            assert [message.text for message in fork.messages()[-3:-1]] == expected


async def test_a_sub_agent_has_what_is_left() -> None:
    inner = ScriptedModel([looks("b", "c"), "inner done"])
    child = agent(inner, tools=[look])
    script = [looks("a"), task("helper", "look"), "done"]
    spec = SessionSpec(
        model=ScriptedModel(script),
        tools=[look, think],
        agents={"helper": child},
        plugins=[BudgetGuard(calls={"look": 2, "think": 1})],
    )
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(spec)
        await session.ask("go")
    texts = [message.text for message in inner.requests[1].messages if isinstance(message, ToolMessage)]
    assert texts == ["seen b", "blocked by BudgetGuard: calls.look=1 is used up"]


async def test_a_limit_of_an_unknown_tool_is_refused() -> None:
    async with open_supervisor() as supervisor:
        with pytest.raises(PluginRefused, match="`calls` limits `loook`, and the tools are `look`, `think`"):
            await supervisor.spawn(spec_of(BudgetGuard(calls={"loook": 1})))
        await supervisor.spawn(spec_of(BudgetGuard(calls={"shop__buy": 1})))  # a server may offer it later


@pytest.mark.parametrize(
    "calls",
    [{"look": -1}, {"look": True}, {"look": 1.0}, {"look": "1"}, {"look": None}, {"": 1}, {" ": 1}, {5: 1}, [], "look",
     {"look": float("nan")}, {"look": float("inf")}, {"look": {}}, None],
)  # fmt: skip
def test_what_is_no_limit_is_refused(calls: object) -> None:
    with pytest.raises(BadOptions, match="calls"):
        BudgetGuard(calls=calls)  # type: ignore[arg-type]


@pytest.mark.parametrize("at_limit", ["stop", "", None, True, 5])
def test_another_end_is_refused(at_limit: object) -> None:
    with pytest.raises(BadOptions, match="at_limit"):
        BudgetGuard(at_limit=at_limit)  # type: ignore[arg-type]


def test_a_limit_may_be_huge() -> None:
    guard = BudgetGuard(calls={"look": 2**60})
    assert evolve(guard) == guard
    assert hash(guard) == hash(BudgetGuard(calls={"look": 2**60}))

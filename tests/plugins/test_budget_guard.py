"""`BudgetGuard`: limits of seconds, what is counted in them, and states that stay small."""

from __future__ import annotations

import pytest
import trio

from agentrail import BlockTool, Context, Continue, Skip
from agentrail.codec.json_text import to_text
from agentrail.codec.plugin_states import data_of
from agentrail.errors import TransientModelError, TurnAborted
from agentrail.events import PluginEvent, ToolBlocked
from agentrail.models import Json, JsonObject, Usage
from agentrail.plugins import BeforeCompaction, BeforeRequest, BeforeTool, BudgetGuard, HumanApproval
from agentrail.plugins.budget import Spent
from agentrail.testing import call, check_plugin, fail, say
from agentrail.tools import ToolContext, ToolResult, ok
from tests.kit import Element, freeze
from tests.runtime.conftest import run_in_virtual_time
from tests.runtime.tools import Fake, fake
from tests.runtime.world import open_world, settle

in_virtual_time = pytest.mark.trio(run=run_in_virtual_time)


def slow(seconds: float) -> Fake:
    async def body(_args: JsonObject, _ctx: ToolContext) -> ToolResult:
        await trio.sleep(seconds)
        return ok("done")

    return fake("slow", body)


@in_virtual_time
async def test_no_request_begins_when_the_seconds_of_requests_are_used_up() -> None:
    async with open_world() as world:
        script: list[Element] = [say("one", delay=4.0), say("two", delay=0.5), say("three", delay=2.5), "never"]
        session = await world.spawn(script, plugins=[BudgetGuard(max_seconds=5)])
        await session.ask("a")
        await trio.sleep(3600)  # a session that rests uses nothing
        await session.ask("b")
        await session.ask("b")
        with pytest.raises(TurnAborted, match=r"max_seconds=5 is used up: 7 s have been worked"):
            await session.ask("c")
        await settle()
        (warned,) = world.heard(session).of(PluginEvent)
        told = {"limit": "max_seconds", "max": 5, "used": 4.0, "user_data": {}}
        assert (warned.name, warned.payload) == ("budget_warning", freeze(told))


@in_virtual_time
async def test_calls_at_the_same_time_count_once_and_over_the_limit_are_blocked() -> None:
    tool = slow(2.0)
    async with open_world() as world:
        script: list[Element] = [say(calls=[call("slow"), call("slow")]), say(calls=[call("slow")]), "never"]
        session = await world.spawn(script, tools=[tool], plugins=[BudgetGuard(max_turn_seconds=3)])
        with pytest.raises(TurnAborted, match=r"max_turn_seconds=3 is used up: 4 s have been worked"):
            await session.ask("a")
        assert len(tool.calls) == 3


@in_virtual_time
async def test_a_call_is_blocked_when_the_response_has_used_up_the_seconds() -> None:
    tool = slow(2.0)
    async with open_world() as world:
        script: list[Element] = [say("One moment.", calls=[call("slow")], delay=4.0), "never"]
        session = await world.spawn(script, tools=[tool], plugins=[BudgetGuard(max_turn_seconds=3)])
        with pytest.raises(TurnAborted, match="max_turn_seconds=3 is used up"):
            await session.ask("a")
        await settle()
        assert tool.calls == []
        assert world.heard(session).only(ToolBlocked).reason == "max_turn_seconds=3 is used up"


@in_virtual_time
async def test_the_time_in_which_a_call_waits_for_a_person_does_not_count() -> None:
    tool = slow(1.0)
    async with open_world() as world:
        script: list[Element] = [say(calls=[call("slow")]), "done"]
        guards = [HumanApproval(tools=("slow",), timeout=None), BudgetGuard(max_seconds=5)]
        session = await world.spawn(script, tools=[tool], plugins=guards)
        held = (await session.ask("a")).held
        await trio.sleep(3600)
        await session.approve(held[0].id)
        await settle()
        await trio.sleep(2)
        assert (session.inspect().worked(0), session.messages()[-1].text) == (1000, "done")


# By its methods


REQUEST = BeforeRequest(())


def state_of(action: object) -> Spent:
    assert isinstance(action, Continue)
    assert isinstance(action.state, Spent)
    return action.state


@in_virtual_time
async def test_an_attempt_that_failed_and_the_pause_after_it_count() -> None:
    async with open_world() as world:
        script: list[Element] = [fail(TransientModelError("the line broke"), text="I", after=1, delay=11.0), "never"]
        session = await world.spawn(script, plugins=[BudgetGuard(max_turn_seconds=10)])
        with pytest.raises(TurnAborted, match=r"max_turn_seconds=10 is used up: 1[1-9]\.?\d* s have been worked"):
            await session.ask("a")


@in_virtual_time
async def test_without_a_limit_of_seconds_no_time_is_kept() -> None:
    async with open_world() as world:
        session = await world.spawn([say("one", delay=4.0)], plugins=[BudgetGuard(max_rounds=9)])
        await session.ask("a")
        state = session.inspect()
        assert (state.worked_ms, state.working_since_ms, state.plugin_states) == (0, None, (Spent(rounds=1),))


@in_virtual_time
async def test_a_turn_begins_with_no_seconds_and_the_session_keeps_them() -> None:
    async with open_world() as world:
        script: list[Element] = [say("one", delay=4.0), say("two", delay=4.0), "never"]
        session = await world.spawn(script, plugins=[BudgetGuard(max_seconds=8, max_turn_seconds=5)])
        await session.ask("a")
        await session.ask("b")
        with pytest.raises(TurnAborted, match="max_seconds=8 is used up: 8 s have been worked"):
            await session.ask("c")


@in_virtual_time
async def test_a_limit_that_is_set_later_begins_with_nothing() -> None:
    async with open_world() as world:
        script: list[Element] = [say("one", delay=40.0), say("two", delay=4.0), "never"]
        session = await world.spawn(script, plugins=[BudgetGuard(max_rounds=9)])
        await session.ask("a")
        await session.update_plugin(BudgetGuard, max_seconds=4)
        await session.ask("b")
        with pytest.raises(TurnAborted, match="max_seconds=4 is used up: 4 s have been worked"):
            await session.ask("c")


@pytest.mark.parametrize("shared", [False, True])
def test_a_sub_agent_gets_the_rest_of_the_seconds(shared: bool) -> None:
    guard = BudgetGuard(max_seconds=9, max_turn_seconds=5, shared=shared)
    child = guard.inherited(Spent(), Context(worked_ms=4_000, turn_worked_ms=3_000, worked_elsewhere_ms=1_000))
    assert isinstance(child, BudgetGuard)
    left = (4.0, 1.0) if shared else (5.0, 2.0)
    assert (child.max_seconds, child.max_turn_seconds, child.shared) == (*left, True)


@in_virtual_time
async def test_the_tokens_of_a_turn_are_those_of_the_turn_alone() -> None:
    async with open_world() as world:
        script: list[Element] = [say(text, usage=Usage(100, 0)) for text in ("one", "two", "three")]
        session = await world.spawn(script, plugins=[BudgetGuard(max_turn_tokens=150)])
        assert [(await session.ask("go")).text for _ in range(3)] == ["one", "two", "three"]


@pytest.mark.parametrize("shared", [False, True])
def test_the_limits_of_the_turn_of_a_sub_agent_are_what_the_turn_has_left(shared: bool) -> None:
    guard = BudgetGuard(
        max_tokens=900,
        max_turn_tokens=500,
        max_rounds=90,
        max_turn_rounds=50,
        max_calls=80,
        max_turn_calls=40,
        shared=shared,
    )
    state = Spent(rounds=30, turn_rounds=10, calls=20, turn_calls=frozenset({"c1"}), turn_calls_before=4)
    child = guard.inherited(state, Context(usage=Usage(300, 0), turn_usage=Usage(100, 0), elsewhere=Usage(7, 0)))
    assert isinstance(child, BudgetGuard)
    others = 7 if shared else 0
    assert (child.max_tokens, child.max_turn_tokens) == (600 - others, 400 - others)
    assert (child.max_rounds, child.max_turn_rounds) == (60, 40)
    assert (child.max_calls, child.max_turn_calls) == (60, 35)


def test_no_compaction_begins_when_the_seconds_are_used_up() -> None:
    guard = BudgetGuard(max_seconds=1)
    assert guard.before_compact(BeforeCompaction(()), Spent(), Context(worked_ms=1_000)) == Skip()
    assert guard.before_compact(BeforeCompaction(()), Spent(), Context(worked_ms=999)) == Continue(Spent())


def test_a_call_is_blocked_when_the_seconds_of_its_turn_are_used_up() -> None:
    guard, hook = BudgetGuard(max_turn_seconds=1), BeforeTool("a", {}, "c1")
    for spent in (1_000, 1_001):
        found = guard.before_tool(hook, Spent(), Context(turn_worked_ms=spent))
        assert found == BlockTool("max_turn_seconds=1 is used up")
    assert guard.before_tool(hook, Spent(), Context(turn_worked_ms=999)) == Continue(Spent())


def test_the_state_stays_small_over_a_turn_of_many_calls() -> None:
    guard, state = BudgetGuard(max_turn_calls=100_000), Spent()
    for round_ in range(200):
        state = state_of(guard.before_request(REQUEST, state, Context()))
        for number in range(64):
            state = state_of(guard.before_tool(BeforeTool("a", {}, f"c{round_}-{number}"), state, Context()))
    assert (state.calls, state.calls_of_turn) == (12_800, 12_800)
    assert len(to_text(data_of(state))) < 2_000
    assert guard.before_tool(BeforeTool("a", {}, "c199-63"), state, Context()) == Continue(state)
    full = BudgetGuard(max_turn_calls=12_800)
    assert full.before_tool(BeforeTool("a", {}, "more"), state, Context()) == BlockTool(
        "max_turn_calls=12800 is used up"
    )


def test_with_new_options_the_counts_stay_and_all_warnings_may_come_again() -> None:
    old, new = BudgetGuard(max_calls=2, max_rounds=10), BudgetGuard(max_calls=4, max_rounds=10)
    spent = Spent(rounds=3, calls=2, warned=frozenset({"max_calls"}))
    assert new.on_options(old, spent) == Spent(rounds=3, calls=2)


@pytest.mark.long
def test_it_obeys_the_laws() -> None:
    check_plugin(BudgetGuard(max_seconds=2, max_turn_seconds=1, max_turn_calls=3), examples=3)


def test_a_state_of_version_1_keeps_its_counts_and_the_seconds_that_it_had_counted() -> None:
    old: Json = {"rounds": 3, "calls": 2, "turn_calls": ("c1",), "warned": ("max_rounds",), "worked_ms": 4_000}
    guard = BudgetGuard(max_seconds=9)
    state = guard.upgrade(old)
    assert state == Spent(3, 0, 2, frozenset({"c1"}), frozenset({"max_rounds"}), earlier_ms=4_000)
    child = guard.inherited(state, Context(worked_ms=1_000))
    assert isinstance(child, BudgetGuard)
    assert child.max_seconds == 4.0
    over = guard.before_tool(BeforeTool("a", {}, "c1"), state, Context(worked_ms=5_000))
    assert over == BlockTool("max_seconds=9 is used up")


@pytest.mark.parametrize("old", [None, 7, "no", [1], {"rounds": "x", "calls": -1, "warned": 5, "turn_calls": [3]}])
def test_a_state_of_version_1_that_is_none_begins_anew(old: Json) -> None:
    assert BudgetGuard(max_seconds=9).upgrade(old) == Spent()

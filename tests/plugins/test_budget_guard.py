"""`BudgetGuard`: limits of seconds, what is counted in them, and states that stay small."""

from __future__ import annotations

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from agentrail.codec.states import data_of
from agentrail.codec.text import to_text
from agentrail.errors import TurnAborted
from agentrail.hooks.actions import Abort, BlockTool, Continue, Skip
from agentrail.hooks.context import Context
from agentrail.hooks.moments import AfterResponse, AfterTool, AfterTurn, BeforeCompaction, BeforeRequest, BeforeTool
from agentrail.plugins.approval import HumanApproval
from agentrail.plugins.budget import MOST_SPANS, BudgetGuard, Spent
from agentrail.ports.tool import ToolContext
from agentrail.testing import check_plugin
from agentrail.testing.scripted import Element, call, say
from agentrail.values.content import Text
from agentrail.values.events.plugins import PluginEvent
from agentrail.values.events.tools import ToolBlocked
from agentrail.values.json import JsonObject, freeze
from agentrail.values.messages import AssistantMessage
from agentrail.values.tools import ToolResult, ok
from agentrail.values.usage import NOTHING_USED
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
        script: list[Element] = [say("one", delay=4.0), say("two", delay=3.0), "never"]
        session = await world.spawn(script, plugins=[BudgetGuard(max_seconds=5)])
        await session.ask("a")
        await trio.sleep(3600)  # a session that rests uses nothing
        await session.ask("b")
        with pytest.raises(TurnAborted, match=r"max_seconds=5 is used up: requests and calls have taken 7 s"):
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
        with pytest.raises(TurnAborted, match=r"max_turn_seconds=3 is used up: requests and calls have taken 4 s"):
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
        state = session.inspect().plugin_states[1]
        assert isinstance(state, Spent)
        assert (state.worked_ms, session.messages()[-1].text) == (1000, "done")


# By its methods


REQUEST = BeforeRequest(())
RESPONSE = AfterResponse(AssistantMessage((Text("hi"),)))
TURN = AfterTurn("finished", None, None, (), NOTHING_USED, 0, 1)


def at(ms: int) -> Context:
    return Context(now_ms=ms)


def state_of(action: object) -> Spent:
    assert isinstance(action, Continue)
    assert isinstance(action.state, Spent)
    return action.state


def test_an_attempt_that_failed_counts_until_the_next_one() -> None:
    guard = BudgetGuard(max_turn_seconds=10)
    state = state_of(guard.before_request(REQUEST, Spent(), at(1_000)))
    again = guard.before_request(BeforeRequest((), attempt=2), state, at(12_000))
    assert again == Abort(
        "max_turn_seconds=10 is used up: requests and calls have taken 11 s",
        Spent(worked_ms=11_000, turn_worked_ms=11_000, counted=((1_000, 12_000),)),
    )


def test_without_a_limit_of_seconds_no_time_is_kept() -> None:
    guard = BudgetGuard(max_rounds=9)
    state = state_of(guard.before_request(REQUEST, Spent(), at(1_000)))
    assert guard.after_response(RESPONSE, state, at(9_000)) == Continue()
    assert guard.after_tool(AfterTool("a", "c1", ok("x"), duration_ms=5), state, at(9_000)) == Continue()
    assert state == Spent(rounds=1, turn_rounds=1)


def test_a_turn_begins_with_no_seconds_and_the_session_keeps_them() -> None:
    guard = BudgetGuard(max_seconds=9, max_turn_seconds=5)
    state = state_of(guard.before_request(REQUEST, Spent(), at(0)))
    state = state_of(guard.after_response(RESPONSE, state, at(4_000)))
    state = state_of(guard.after_turn(TURN, state, at(4_000)))
    assert (state.worked_ms, state.turn_worked_ms) == (4_000, 0)
    child = guard.inherited(state, at(4_000))
    assert isinstance(child, BudgetGuard)
    assert (child.max_seconds, child.max_turn_seconds, child.shared) == (5.0, 5.0, True)


def test_no_compaction_begins_when_the_seconds_are_used_up() -> None:
    guard = BudgetGuard(max_seconds=1)
    assert guard.before_compact(BeforeCompaction(()), Spent(worked_ms=1_000), at(0)) == Skip()
    assert guard.before_compact(BeforeCompaction(()), Spent(worked_ms=999), at(0)) == Continue(Spent(worked_ms=999))


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), max_size=20))
def test_the_time_of_calls_is_that_in_which_at_least_one_ran(calls: list[tuple[int, int]]) -> None:
    guard, state = BudgetGuard(max_seconds=1e6), Spent()
    spans = sorted(((began, began + length) for began, length in calls), key=lambda span: span[1])
    for began, ended in spans:
        hook = AfterTool("a", "c1", ok("x"), duration_ms=ended - began)
        state = state_of(guard.after_tool(hook, state, at(ended)))
    busy = {ms for began, ended in spans for ms in range(began, ended)}
    assert (state.worked_ms, state.turn_worked_ms) == (len(busy), len(busy))


@pytest.mark.parametrize(("count", "again"), [(MOST_SPANS - 1, 0), (MOST_SPANS, 0), (MOST_SPANS + 1, 1)])
def test_so_many_stretches_of_time_are_kept_so_that_none_counts_twice(count: int, again: int) -> None:
    guard, state = BudgetGuard(max_seconds=9), Spent()
    for ended in (*range(1, 10 * count, 10), 1):
        state = state_of(guard.after_tool(AfterTool("a", "c1", ok("x"), duration_ms=1), state, at(ended)))
    assert (state.worked_ms, len(state.counted)) == (count + again, min(count, MOST_SPANS))


def test_a_call_is_blocked_when_the_seconds_of_its_turn_are_used_up() -> None:
    guard, hook = BudgetGuard(max_turn_seconds=1), BeforeTool("a", {}, "c1")
    for spent in (1_000, 1_001):
        found = guard.before_tool(hook, Spent(turn_worked_ms=spent), at(0))
        assert found == BlockTool("max_turn_seconds=1 is used up")
    assert guard.before_tool(hook, Spent(turn_worked_ms=999), at(0)) == Continue(Spent(turn_worked_ms=999))


def test_the_state_stays_small_over_a_turn_of_many_calls() -> None:
    guard, state = BudgetGuard(max_turn_calls=100_000), Spent()
    for round_ in range(200):
        state = state_of(guard.before_request(REQUEST, state, at(0)))
        for number in range(64):
            state = state_of(guard.before_tool(BeforeTool("a", {}, f"c{round_}-{number}"), state, at(0)))
    assert (state.calls, state.calls_of_turn) == (12_800, 12_800)
    assert len(to_text(data_of(state))) < 2_000
    assert guard.before_tool(BeforeTool("a", {}, "c199-63"), state, at(0)) == Continue(state)
    full = BudgetGuard(max_turn_calls=12_800)
    assert full.before_tool(BeforeTool("a", {}, "more"), state, at(0)) == BlockTool("max_turn_calls=12800 is used up")


def test_it_obeys_the_laws() -> None:
    check_plugin(BudgetGuard(max_seconds=2, max_turn_seconds=1, max_turn_calls=3), examples=3)

"""Handoffs in the machine: what changes when all results are there, and when nothing is handed over."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from agentrail.core.vocabulary.effects import StartRequest
from agentrail.events import HandedOff, ModelSwitched, ToolsUpdated
from agentrail.models import FrozenObject, ModelRequest
from agentrail.tools import Effect, ToolSpec, ok
from agentrail.values.tools import ActingAgent, HandOver
from tests.core.driving import answer, apply_all, ask_for_calls, back, call, events, hello, results, session
from tests.kit import AbortSent, SteerSent, ToolReturned
from tests.machinery.worlds.checked_world import CheckedWorld

REFUND = ToolSpec("refund", "Pay back.")
BILLING = HandOver(
    ActingAgent("billing", "You pay back."),
    (REFUND,),
    leaves=("read",),
    revision=7,
    models=(("model1", FrozenObject({"effort": 1})), ("model2", FrozenObject({}))),
)


def requests(effects: Sequence[object]) -> list[ModelRequest]:
    return [effect.request for effect in effects if isinstance(effect, StartRequest)]


def handing(*others: str) -> CheckedWorld:
    """Return a session whose model calls `read`, which hands over, and *others* beside it."""
    world = session()
    ask_for_calls(world, call("read"), *[call(name, "b") for name in others])
    return world


def test_the_next_request_is_that_of_the_other_agent() -> None:
    world = handing()
    step = world.apply(ToolReturned("c3", 1, Effect(BILLING)))
    (request,) = requests(step.effects)
    assert (request.system, request.model, request.options) == ("You pay back.", "model1", {"effort": 1})
    names = [spec.name for spec in request.tools]
    assert ("refund" in names, "read" in names) == (True, False)
    assert world.state.tools["refund"].revision == 7
    assert [spare.model for spare in world.state.fallbacks] == ["model2"]
    reported_events = [event for event in events(step) if isinstance(event, HandedOff | ToolsUpdated | ModelSwitched)]
    assert [type(event) for event in reported_events] == [HandedOff, ToolsUpdated, ModelSwitched]
    assert reported_events[0] == HandedOff(world.state.setup.spec, "billing", "c3")
    assert results(world.state) == ["`billing` goes on with the conversation"]


def test_other_calls_of_the_response_end_before() -> None:
    world = handing("fix")
    step = world.apply(ToolReturned("c3", 1, Effect(BILLING)))
    assert (world.state.agent, requests(step.effects)) == (None, [])
    step = world.apply(ToolReturned("c4", 1, ok("edited")))
    assert world.state.agent_name == "billing"
    assert results(world.state) == ["`billing` goes on with the conversation", "edited"]


def test_a_second_handoff_in_one_response_is_an_error() -> None:
    world = handing("fix")
    other = BILLING.but(agent=ActingAgent("refunds"))
    apply_all(world, ToolReturned("c3", 1, Effect(BILLING)), ToolReturned("c4", 1, Effect(other)))
    assert world.state.agent_name == "billing"
    assert results(world.state)[1] == (
        "the conversation is handed over to `billing` already; one response can hand it over once"
    )


def test_an_abort_after_the_result_keeps_what_the_history_says() -> None:
    world = handing("keep")
    apply_all(world, ToolReturned("c3", 1, Effect(BILLING)), AbortSent())
    assert world.state.turn is None
    assert world.state.agent_name == "billing"


def test_an_abort_before_the_result_hands_nothing_over() -> None:
    world = handing()
    world.apply(AbortSent())
    assert world.state.agent is None


def test_a_session_comes_back_between_the_result_and_the_handoff() -> None:
    world = handing("fix")
    world.apply(ToolReturned("c3", 1, Effect(BILLING)))
    world.apply(back(world))
    assert world.state.agent is None
    world.apply(ToolReturned("c4", 2, ok("fixed")))
    assert world.state.agent_name == "billing"


def test_the_messages_of_the_turn_alone() -> None:
    world = session()
    world.apply(hello("first"))
    answer(world, text="done")
    world.apply(hello("second"))
    answer(world, call("read"))
    call_id = world.state.batch.calls[0].call_id if world.state.batch else ""
    step = world.apply(ToolReturned(call_id, 1, Effect(BILLING.but(history="turn"))))
    (request,) = requests(step.effects)
    assert [message.text for message in request.messages] == ["second", "", "`billing` goes on with the conversation"]
    assert world.state.turn is not None
    assert world.state.turn.mark == 0


def test_a_summary_is_made_before_the_next_request() -> None:
    world = handing()
    world.apply(ToolReturned("c3", 1, Effect(BILLING.but(history="summary"))))
    assert world.state.compaction is not None
    assert world.state.compaction.reason == "handed over to `billing`"


def test_a_tool_that_a_caller_has_detached_stays_away() -> None:
    world = handing()
    world.state = world.state.but(removed_tools=("refund",))
    world.apply(ToolReturned("c3", 1, Effect(BILLING)))
    assert "refund" not in world.state.tools


@pytest.mark.parametrize(("description", "stays"), [("Pay back.", True), ("Pay all back.", False)])
def test_an_approval_for_always_holds_only_for_the_same_tool(description: str, stays: bool) -> None:
    world = handing()
    old_tool = world.state.tools["read"]
    world.state = world.state.but(
        tools={**world.state.tools, "read": old_tool.but(spec=REFUND.but(name="read"))},
        approved_always=frozenset({("read", "read")}),
    )
    other = BILLING.but(tools=(REFUND.but(name="read", description=description),))
    world.apply(ToolReturned("c3", 1, Effect(other)))
    assert bool(world.state.approved_always) == stays


def test_steering_that_comes_meanwhile_goes_to_the_other_agent() -> None:
    world = handing("fix")
    world.apply(ToolReturned("c3", 1, Effect(BILLING)))
    step = world.apply(SteerSent("hurry"))
    assert world.state.agent_name == "billing"
    (request,) = requests(step.effects)
    assert "You pay back." in request.system

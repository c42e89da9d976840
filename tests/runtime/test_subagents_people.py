"""Approvals for sub-agents go through the parent session; meanwhile no deadline runs."""

from functools import partial

import pytest
import trio

from agentrail import SessionHandle, SessionSpec
from agentrail.errors import CommandConflict, UnknownApproval, UsageError, WrongDecision
from agentrail.events import AgentEnd, ApprovalRequired, ApprovalResolved, AskUser, SubagentEnd, UserResponded
from agentrail.plugins import HumanApproval
from agentrail.testing import call, say
from agentrail.tools.builtin import ask_user
from tests.coded import coded
from tests.runtime.counting import counting
from tests.runtime.families import agent, inner, task, tasks
from tests.runtime.tools import Fake, slow
from tests.runtime.world import World, settle, until

COUNT = say(calls=[call("count", {"n": 7})])


def careful(tool: Fake) -> dict[str, SessionSpec]:
    """Return a sub-agent whose call needs an approval."""
    return {"finder": agent([COUNT, "counted"], tools=[tool], plugins=[HumanApproval(tools=["count"], timeout=None)])}


async def over(session: SessionHandle) -> None:
    await until(lambda: session.inspect().turn is None)


async def test_a_held_call_of_a_sub_agent_is_approved_through_its_parent(world: World) -> None:
    tool = counting()
    session = await world.spawn([task(), "fine"], "p", agents=careful(tool))
    reply = await session.ask("go")
    assert reply.stop_reason == "held"
    (held,) = reply.held
    assert (held.tool, held.args, held.path) == ("count", {"n": 7}, ("p", "c3"))
    assert held.id.startswith("p.c3:a4-")
    assert session.status().held == (held,)
    assert session.status().phase == "executing_tools"
    assert [task.status for task in session.tasks()] == ["waiting"]
    await settle()
    required = world.heard(session).only(ApprovalRequired)
    assert (required.approval_id, required.path) == (held.id, held.path)
    assert tool.calls == []
    await session.approve(held.id)
    await over(session)
    assert len(tool.calls) == 1
    assert world.heard(session).only(ApprovalResolved).status == "approved"
    assert not any(isinstance(event, ApprovalRequired | ApprovalResolved) for event in inner(world, session))
    assert world.heard(session).only(SubagentEnd).text == "counted"
    assert session.status().held == ()


async def test_a_decision_reaches_the_last_of_a_line(world: World) -> None:
    tool = counting()
    middle = agent([task("finder"), "done"], "middle", agents=careful(tool))
    session = await world.spawn([task("middle"), "fine"], "p", agents={"middle": middle})
    (held,) = (await session.ask("go")).held
    assert held.id.startswith("p.c3.c3:a4-")
    assert held.path == ("p", "c3", "p.c3", "c3")
    await settle()
    (required,) = world.heard(session).of(ApprovalRequired)
    assert required.path == held.path
    assert [hold.id for hold in world.supervisor.session("p.c3").status().held] == [held.id]
    await session.approve(held.id, args={"n": 8})
    await over(session)
    assert [ctx.session_id for ctx in tool.calls] == ["p.c3.c3"]
    assert world.heard(session).only(ApprovalResolved).edited


async def test_a_rejection_reaches_it_too(world: World) -> None:
    session = await world.spawn([task(), "fine"], "p", agents=careful(counting()))
    (held,) = (await session.ask("go")).held
    await session.reject(held.id, "too dear", auto_resume=True)
    await over(session)
    assert world.heard(session).only(ApprovalResolved).reason == "too dear"
    assert world.heard(session).only(SubagentEnd).text == "counted"


async def test_a_sub_agent_that_is_left_after_a_rejection_has_no_answer(world: World) -> None:
    session = await world.spawn([task(), "fine"], "p", agents=careful(counting()))
    (held,) = (await session.ask("go")).held
    await session.reject(held.id)
    await over(session)
    assert "stopped without an answer (left)" in world.heard(session).only(SubagentEnd).text


async def test_a_question_of_a_sub_agent_is_answered_through_its_parent(world: World) -> None:
    asks = say(calls=[call("ask_user", {"question": "which room?"})])
    session = await world.spawn([task(), "fine"], "p", agents={"finder": agent([asks, "found"], tools=[ask_user])})
    (held,) = (await session.ask("go")).held
    assert (held.kind, held.hint, held.path) == ("question", "which room?", ("p", "c3"))
    await settle()
    assert world.heard(session).only(AskUser).path == ("p", "c3")
    with pytest.raises(WrongDecision):
        await session.approve(held.id)
    await session.respond(held.id, "the kitchen")
    await over(session)
    assert world.heard(session).only(UserResponded).response == "the kitchen"
    assert world.heard(session).only(SubagentEnd).text == "found"


async def test_what_a_sub_agent_says_about_a_decision_is_what_the_caller_hears(world: World) -> None:
    session = await world.spawn([task(), "fine"], "p", agents=careful(counting()))
    (held,) = (await session.ask("go")).held
    with pytest.raises(UsageError, check=coded("bad-arguments")):
        await session.approve(held.id, args={"n": "many"})
    for wrong in ("p:a4", "p.c3:a9", "p.c9:a4", "nonsense"):
        with pytest.raises(UnknownApproval):
            await session.approve(wrong)
    await session.approve(held.id, command="once")
    await session.approve(held.id, command="once")


async def test_a_decision_that_is_sent_again_has_its_answer_also_behind_the_end_of_the_sub_agent(world: World) -> None:
    session = await world.spawn([task(), "fine"], "p", agents=careful(counting()))
    (held,) = (await session.ask("go")).held
    await session.approve(held.id, command="once")
    await over(session)
    await session.approve(held.id, command="once")
    with pytest.raises(CommandConflict):
        await session.reject(held.id, command="once")
    with pytest.raises(UnknownApproval):
        await session.approve(held.id, command="twice")
    stranger = await world.spawn([], "q", agents=careful(counting()))
    with pytest.raises(UnknownApproval):
        await stranger.approve(held.id, command="once")


async def test_a_decision_that_is_sent_again_while_the_sub_agent_ends_has_its_answer(world: World) -> None:
    session = await world.spawn([task(), "fine"], "p", agents=careful(counting()))
    (held,) = (await session.ask("go")).held
    await session.approve(held.id, command="once")
    async with trio.open_nursery() as nursery:
        while session.status().turn_open:
            nursery.start_soon(partial(session.approve, held.id, command="once"))
            await trio.lowlevel.checkpoint()


async def test_nobody_decides_for_the_sub_agents_of_others(world: World) -> None:
    first = await world.spawn([task(), "fine"], "p", agents=careful(counting()))
    other = await world.spawn([task(), "fine"], "q", agents=careful(counting()))
    (held,) = (await first.ask("go")).held
    await other.ask("go")
    with pytest.raises(UnknownApproval):
        await other.approve(held.id)


@pytest.mark.long
async def test_waiting_for_a_person_counts_towards_no_limit(world: World) -> None:
    tool = counting()
    limits = {"max_agent_seconds": 20.0, "max_turn_seconds": 30.0}
    session = await world.spawn([task(), "fine"], "p", agents=careful(tool), **limits)
    (held,) = (await session.ask("go")).held
    await settle()
    assert session.inspect().timers == ()
    await trio.sleep(10_000)
    await session.approve(held.id)
    await over(session)
    assert world.heard(session).only(SubagentEnd).text == "counted"
    assert world.heard(session).names[-1] == "AgentEnd"


@pytest.mark.long
async def test_it_counts_as_soon_as_anything_else_goes_on(world: World) -> None:
    tool = slow(seconds=25.0)
    agents = {
        **careful(counting()),
        "busy": agent([say(calls=[call("slow")]), "done"], "busy", tools=[tool]),
    }
    session = await world.spawn([tasks("finder", "busy"), "fine"], "p", agents=agents, max_turn_seconds=30.0)
    (held,) = (await session.ask("go")).held
    turn = session.inspect().turn
    assert turn is not None
    assert turn.deadline_left is not None
    assert turn.deadline_left <= 5_100
    await trio.sleep(10_000)
    await session.approve(held.id)
    await over(session)
    assert world.heard(session).names[-1] == "AgentEnd"


async def test_a_sub_agent_that_waits_can_be_aborted(world: World) -> None:
    session = await world.spawn([task(), "fine"], "p", agents=careful(counting()), max_turn_seconds=30.0)
    (held,) = (await session.ask("go")).held
    await session.abort()
    await settle()
    assert world.heard(session).only(ApprovalResolved).status == "aborted"
    assert session.status().held == ()
    with pytest.raises(UnknownApproval):
        await session.approve(held.id)
    assert (await session.ask("again")).text == "fine"


async def test_steering_takes_the_place_of_a_decision(world: World) -> None:
    session = await world.spawn([task(), "fine"], "p", agents=careful(counting()), max_turn_seconds=30.0)
    await session.ask("go")
    await session.steer("leave it")
    await over(session)
    await settle()
    assert world.heard(session).only(ApprovalResolved).status == "aborted"
    assert world.heard(session).only(AgentEnd).reason == "end"


async def test_a_task_in_the_background_waits_for_a_person_too(world: World) -> None:
    session = await world.spawn([task(background=True), "meanwhile"], "p", agents=careful(counting()))
    await session.ask("go")
    await until(lambda: session.status().held)
    (held,) = session.status().held
    await session.approve(held.id)
    assert "counted" in str(await session.task_result("p.c3"))


async def test_a_sub_agent_that_waits_stays_awake(world: World) -> None:
    finder = careful(counting())["finder"].but(hibernate_after=5.0)
    session = await world.spawn([task(), "fine"], "p", agents={"finder": finder}, hibernate_after=5.0)
    (held,) = (await session.ask("go")).held
    await trio.sleep(1000)
    await session.approve(held.id)
    await over(session)
    assert world.heard(session).only(SubagentEnd).text == "counted"


async def test_a_session_that_has_slept_can_start_sub_agents(world: World) -> None:
    finder = agent(["found"])
    session = await world.spawn(["hello", task(), "fine"], "p", agents={"finder": finder}, hibernate_after=5.0)
    await session.ask("go")
    await trio.sleep(1000)
    assert session.tasks() == ()
    assert (await session.ask("and now?")).text == "fine"
    assert world.heard(session).only(SubagentEnd).text == "found"

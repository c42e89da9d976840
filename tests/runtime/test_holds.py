"""Held calls: the arguments that a person approved are those that run."""

import pytest
import trio
from attrs import frozen

from agentrail import Context, Continue, HoldTool, Plugin, ReplaceToolArgs, Reply, SessionHandle
from agentrail.errors import UnknownApproval
from agentrail.events import AgentEnd, AgentResumed, ApprovalRequired, ApprovalResolved
from agentrail.plugins import BeforeTool
from agentrail.testing import call, say
from tests.kit import Element
from tests.runtime.counting import counting, over, result_of
from tests.runtime.tools import Fake
from tests.runtime.world import World, settle, until


@frozen
class Holder(Plugin):
    timeout: float | None = 120.0
    family: str | None = None

    def before_tool(self, hook: BeforeTool, state: None, ctx: Context) -> HoldTool[None]:
        return HoldTool("may it?", timeout=self.timeout, family=self.family)


async def held(world: World, holder: Holder | None = None, n: int = 1) -> tuple[SessionHandle, Reply, Fake]:
    tool = counting()
    script: list[Element] = [say(calls=[call("count", {"n": n})]), "ok", say(calls=[call("count", {"n": n})]), "ok"]
    session = await world.spawn(script, tools=[tool], plugins=[holder or Holder()])
    return session, await session.ask("go"), tool


async def test_an_approved_call_runs_with_what_was_approved(world: World) -> None:
    session, reply, tool = await held(world)
    await session.approve(reply.held[0].id)
    await over(session)
    assert result_of(session) == "n is 1"
    heard = world.heard(session)
    assert heard.only(ApprovalResolved).status == "approved"
    assert heard.only(AgentResumed).trigger == "tool_approved"
    assert len(tool.calls) == 1
    assert heard.only(ApprovalRequired).approval_id == reply.held[0].id


async def test_a_rejected_call_does_not_run_and_the_turn_is_left(world: World) -> None:
    session, reply, tool = await held(world)
    await session.reject(reply.held[0].id, "too dear")
    await over(session)
    assert result_of(session) == "rejected by the user: too dear"
    assert tool.calls == []
    assert world.heard(session).only(AgentEnd).reason == "left"


async def test_edited_arguments_are_what_runs(world: World) -> None:
    session, reply, _ = await held(world)
    await session.approve(reply.held[0].id, {"n": 7})
    await over(session)
    assert result_of(session) == "n is 7"
    assert world.heard(session).only(ApprovalResolved).edited


@pytest.mark.long
async def test_a_hold_that_nobody_decides_runs_out(world: World) -> None:
    session, reply, tool = await held(world, Holder(timeout=5.0))
    start = trio.current_time()
    await over(session)
    assert trio.current_time() - start == pytest.approx(5.0, abs=0.01)
    assert (result_of(session), tool.calls) == ("not approved: nobody decided in time", [])
    heard = world.heard(session)
    assert heard.only(ApprovalResolved).status == "timeout"
    assert heard.only(AgentResumed).trigger == "tool_approval_timeout"
    assert heard.only(AgentEnd).reason == "end"
    with pytest.raises(UnknownApproval):
        await session.approve(reply.held[0].id)


async def test_a_new_message_supersedes_what_is_held(world: World) -> None:
    session, reply, tool = await held(world)
    assert (await session.ask("never mind")).text == "ok"
    heard = world.heard(session)
    await settle()
    assert heard.only(ApprovalResolved).status == "superseded"
    assert [event.reason for event in heard.of(AgentEnd)] == ["superseded", "end"]
    assert tool.calls == []
    with pytest.raises(UnknownApproval):
        await session.approve(reply.held[0].id)


@frozen
class Swapper(Plugin):
    """Changes the arguments after the holding plugin was asked."""

    priority = 950

    def before_tool(self, hook: BeforeTool, state: None, ctx: Context) -> Continue[None] | ReplaceToolArgs[None]:
        return ReplaceToolArgs({"n": 99})


async def test_what_is_changed_behind_an_approval_is_held_again(world: World) -> None:
    tool = counting()
    script: list[Element] = [say(calls=[call("count", {"n": 1})]), "ok"]
    session = await world.spawn(script, tools=[tool], plugins=[Holder(), Swapper()])
    (first,) = (await session.ask("go")).held
    assert dict(first.args) == {"n": 1}
    await session.approve(first.id)
    await until(lambda: session.status().held)
    (second,) = session.status().held
    assert dict(second.args) == {"n": 99}
    assert tool.calls == []
    await session.approve(second.id)
    await over(session)
    assert result_of(session) == "n is 99"

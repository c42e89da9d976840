"""What the built-in plugins promise, kept by whole sessions: from the prompt to the tool, and to the person."""

from __future__ import annotations

import logging

import pytest
import trio
import trio.testing

from agentrail import Ask, Context, Continue, Plugin
from agentrail.errors import BadOptions, PluginRefused, TurnAborted
from agentrail.events import (
    ApprovalRequired,
    ApprovalResolved,
    CompactStart,
    PluginEvent,
    PluginOptsUpdated,
    SecurityAudit,
    ToolApprovedAlways,
    ToolBlocked,
    ToolExecutionEnd,
)
from agentrail.models import JsonObject, Usage
from agentrail.plugins import BeforeFinish, BudgetGuard, EventLogger, HumanApproval, RunTool, SecurityGuard
from agentrail.plugins.budget import Spent
from agentrail.testing import call, say
from agentrail.tools import ToolContext, ToolResult, ok
from tests.kit import Element
from tests.runtime.conftest import run_in_virtual_time
from tests.runtime.tools import Fake, fake
from tests.runtime.world import open_world, settle

in_virtual_time = pytest.mark.trio(run=run_in_virtual_time)


def _tool(name: str) -> Fake:
    async def body(args: JsonObject, _ctx: ToolContext) -> ToolResult:
        await trio.lowlevel.checkpoint()
        return ok(f"{name} ran with {dict(args)}")

    return fake(name, body)


# SecurityGuard


@in_virtual_time
async def test_a_blocked_command_never_runs_and_is_audited() -> None:
    shell = _tool("shell")
    async with open_world() as world:
        script: list[Element] = [say(calls=[call("shell", {"command": "rm -rf /"})]), "I was not allowed to."]
        session = await world.spawn(script, tools=[shell], plugins=[SecurityGuard()])
        reply = await session.ask("clean up")
        heard = world.heard(session)
        await settle()
        assert reply.text.startswith("I was not")
        assert shell.calls == []
        assert heard.only(SecurityAudit).decision == "blocked"
        assert heard.only(ToolBlocked).plugin == "SecurityGuard"


@in_virtual_time
async def test_a_command_that_cannot_be_read_is_held_for_a_person() -> None:
    shell = _tool("shell")
    async with open_world() as world:
        script: list[Element] = [say(calls=[call("shell", {"command": "$(cat plan) --now"})]), "done"]
        session = await world.spawn(script, tools=[shell], plugins=[SecurityGuard()])
        reply = await session.ask("do it")
        assert (reply.stop_reason, len(reply.held), shell.calls) == ("held", 1, [])
        await session.reject(reply.held[0].id, "no", auto_resume=True)
        await settle()
        assert shell.calls == []


@in_virtual_time
async def test_a_person_cannot_edit_a_call_past_the_guard() -> None:
    shell = _tool("shell")
    async with open_world() as world:
        script: list[Element] = [say(calls=[call("shell", {"command": "make report"})]), "done"]
        session = await world.spawn(script, tools=[shell], plugins=[SecurityGuard(), HumanApproval()])
        reply = await session.ask("do it")
        await session.approve(reply.held[0].id, {"command": "rm -rf /"})
        await settle()
        assert shell.calls == []
        assert world.heard(session).only(ToolBlocked).plugin == "SecurityGuard"


# HumanApproval


@in_virtual_time
async def test_a_held_call_runs_once_after_consent_with_what_was_approved() -> None:
    shell = _tool("shell")
    async with open_world() as world:
        script: list[Element] = [say(calls=[call("shell", {"command": "make report"})]), "It is made."]
        session = await world.spawn(script, tools=[shell], plugins=[HumanApproval()])
        reply = await session.ask("make the report")
        assert shell.calls == []
        await session.approve(reply.held[0].id)
        await settle()
        heard = world.heard(session)
        assert len(shell.calls) == 1
        assert heard.only(ApprovalRequired).args == {"command": "make report"}
        assert heard.only(ApprovalResolved).status == "approved"


@in_virtual_time
async def test_always_lets_the_same_family_pass_and_no_other() -> None:
    shell = _tool("shell")
    async with open_world() as world:
        script: list[Element] = [
            say(calls=[call("shell", {"command": "git push origin main"})]),
            say(calls=[call("shell", {"command": "git push origin next"})]),
            say(calls=[call("shell", {"command": "git reset --hard"})]),
            "done",
        ]
        session = await world.spawn(script, tools=[shell], plugins=[HumanApproval()])
        first = await session.ask("push both")
        await session.approve(first.held[0].id, always=True)
        await settle()
        held = session.status().held
        assert len(shell.calls) == 2
        assert [call_.args for call_ in held] == [{"command": "git reset --hard"}]
        assert world.heard(session).only(ToolApprovedAlways).command_family == "git push"


@in_virtual_time
async def test_nobody_decides_in_time_and_the_model_is_told() -> None:
    shell = _tool("shell")
    async with open_world() as world:
        script: list[Element] = [say(calls=[call("shell", {"command": "make report"})]), "Nobody was there."]
        session = await world.spawn(script, tools=[shell], plugins=[HumanApproval(timeout=5.0)])
        await session.ask("make it")
        await trio.sleep(6)
        assert shell.calls == []
        assert world.heard(session).only(ApprovalResolved).status == "timeout"
        assert session.messages()[-1].text.startswith("Nobody")


# BudgetGuard


@in_virtual_time
async def test_no_request_goes_out_once_the_tokens_are_used_up() -> None:
    async with open_world() as world:
        script: list[Element] = [say("a", usage=Usage(60, 30)), say("b", usage=Usage(60, 30)), "never"]
        session = await world.spawn(script, plugins=[BudgetGuard(max_tokens=110)])
        await session.ask("one")
        await session.ask("two")
        with pytest.raises(TurnAborted, match="max_tokens"):
            await session.ask("three")
        await settle()
        warnings = [event for event in world.heard(session).of(PluginEvent) if event.name == "budget_warning"]
        assert session.status().usage.total_tokens == 180
        assert len(warnings) == 1


@in_virtual_time
async def test_no_compaction_is_paid_for_once_the_tokens_are_used_up() -> None:
    async with open_world() as world:
        session = await world.spawn([say("a", usage=Usage(60, 60)), "a summary"], plugins=[BudgetGuard(max_tokens=110)])
        await session.ask("one " * 50)
        await session.compact()
        await settle()
        assert session.status().usage.total_tokens == 120
        assert not world.heard(session).of(CompactStart)


@in_virtual_time
async def test_calls_over_the_limit_of_a_turn_are_blocked_and_the_next_turn_begins_anew() -> None:
    note = _tool("note")
    async with open_world() as world:
        calls = [call("note", {"n": number}) for number in range(3)]
        session = await world.spawn(
            [say(calls=calls), "done", say(calls=calls[:1]), "done"],
            tools=[note],
            plugins=[BudgetGuard(max_turn_calls=2)],
        )
        await session.ask("note three things")
        assert len(note.calls) == 2
        await session.ask("note one more")
        assert len(note.calls) == 3


@in_virtual_time
async def test_money_cannot_be_limited_where_no_price_is_known_unless_one_says_so() -> None:
    async with open_world() as world:
        with pytest.raises(PluginRefused, match="price"):
            await world.spawn(["hello"], plugins=[BudgetGuard(max_usd=1.0)])
        await world.spawn(["hello"], plugins=[BudgetGuard(max_usd=1.0, unknown_price="allow")])


@in_virtual_time
async def test_a_raised_limit_keeps_what_was_spent() -> None:
    async with open_world() as world:
        session = await world.spawn(["a", "b", "c"], plugins=[BudgetGuard(max_rounds=1)])
        await session.ask("one")
        with pytest.raises(TurnAborted, match="max_rounds"):
            await session.ask("two")
        await session.update_plugin(BudgetGuard, max_rounds=2)
        assert world.heard(session) is not None
        await session.ask("three")
        (state,) = session.inspect().plugin_states
        await settle()
        assert isinstance(state, Spent)
        assert state.rounds == 2
        assert world.heard(session).only(PluginOptsUpdated).success


# EventLogger


@in_virtual_time
async def test_each_durable_event_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "agentrail.plugin")
    async with open_world() as world:
        session = await world.spawn(["a secret answer"], plugins=[EventLogger(texts=0)])
        await session.ask("a secret question")
        await settle()
        durable = world.heard(session).durable
    lines = [record for record in caplog.records if record.name == "agentrail.plugin"]
    assert [line.message for line in lines[: len(durable)]][:4] == [
        "session_started",
        "prompt_received",
        "agent_start",
        "request_start",
    ]
    assert len(lines) == len(durable) + 1  # the end of the session is heard behind the last look
    assert not any("secret" in str(vars(line)) for line in lines)


@in_virtual_time
@pytest.mark.parametrize("level", [logging.INFO, logging.CRITICAL])
async def test_no_record_keeps_a_line_and_the_log_decides_what_is_written(
    caplog: pytest.LogCaptureFixture, level: int
) -> None:
    caplog.set_level(level, "agentrail.plugin")
    async with open_world() as world:
        session = await world.spawn(["hello"], plugins=[EventLogger(only=["agent_start"])])
        await session.ask("go")
        records = await world.journal.read(session.id, 0, 100)
    lines = [record for record in caplog.records if record.name == "agentrail.plugin"]
    found = [{**line.__dict__["fields"], "at": 0} for line in lines]
    told = {"event": "agent_start", "seq": 3, "turn": 1, "round": 0, "at": 0, "ref": "p1"}
    assert found == ([told] if level == logging.INFO else [])
    assert {ruling.hook for record in records for ruling in record.rulings} & {"on_event"} == set()
    assert not any("WriteLog" in record.effects for record in records)


@in_virtual_time
async def test_without_texts_the_words_of_a_tool_that_fails_are_in_no_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    async def body(_args: JsonObject, _ctx: ToolContext) -> ToolResult:
        await trio.lowlevel.checkpoint()
        words = "a secret of the user"
        raise ValueError(words)

    class Runs(Plugin):
        def before_finish(self, hook: BeforeFinish, state: None, ctx: Context) -> Continue[None] | Ask[None]:
            return Ask(RunTool("fails")) if hook.answer is None else Continue()

    async with open_world() as world:
        script: list[Element] = [say(calls=[call("fails")]), "sorry"]
        session = await world.spawn(script, plugins=[EventLogger(texts=0), Runs()], tools=[fake("fails", body)])
        await session.ask("go")
        await settle()
        ended = world.heard(session).of(ToolExecutionEnd)
        assert ["a secret of the user" in end.text for end in ended] == [True, True]
    assert [record.getMessage().partition("\n")[0] for record in caplog.records if record.levelname == "WARNING"] == [
        "tool `fails` raised in call c3: ValueError",
        "ask ask5 failed: ValueError",
    ]
    assert "in body" in caplog.text
    assert "a secret of the user" not in caplog.text + str([vars(record) for record in caplog.records])


@in_virtual_time
async def test_only_the_events_of_any_collection_are_written(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "agentrail.plugin")
    async with open_world() as world:
        for only in (["agent_start"], ("agent_start",), {"agent_start"}, {"agent_start": 1}.keys()):
            session = await world.spawn(["ok"], plugins=[EventLogger(only=only)])
            await session.ask("go")
    assert [record.message for record in caplog.records if record.name == "agentrail.plugin"] == ["agent_start"] * 4


@pytest.mark.parametrize("only", [["agent_stop"], ["message_delta"], [["agent_start"]], "agent_start", 5])
def test_a_name_that_no_durable_event_has_is_refused(only: object) -> None:
    with pytest.raises(BadOptions, match=r"agent_stop|message_delta|agent_start|only=5"):
        EventLogger(only=only)  # type: ignore[arg-type]  # a mistake

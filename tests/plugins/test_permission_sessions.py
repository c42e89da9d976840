"""`PermissionPolicy` in whole sessions: what it denies never runs, and one call is asked about once."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import trio
from attrs import frozen

from agentrail import SessionSpec, open_supervisor
from agentrail.errors import BadOptions
from agentrail.events import ApprovalRequired, PluginOptsUpdated, ToolApprovedAlways, ToolBlocked
from agentrail.journals import MemoryJournal
from agentrail.models import Json, JsonObject
from agentrail.plugins import (
    AnyPlugin,
    BeforeTool,
    Context,
    HumanApproval,
    PermissionPolicy,
    Plugin,
    Priority,
    ReplaceToolArgs,
    SecurityGuard,
)
from agentrail.testing import ArgsReplacer, ScriptedModel, Trace, call, find_conflict, say
from agentrail.tools import ToolContext, ToolResult, ok
from tests.kit import Element, thaw
from tests.runtime.conftest import run_in_virtual_time
from tests.runtime.families import agent, task
from tests.runtime.tools import fake
from tests.runtime.world import open_world, settle
from tests.testing.candidates import Cap, Redirect, SpendCounter

in_virtual_time = pytest.mark.trio(run=run_in_virtual_time)

ALL: tuple[AnyPlugin, ...] = (SecurityGuard(), HumanApproval(), PermissionPolicy(ask=["shell"]))


class Shell:
    """A tool `shell` that only notes the commands."""

    def __init__(self) -> None:
        self.ran: list[object] = []
        self.tool = fake("shell", self._run)

    async def _run(self, args: JsonObject, _ctx: ToolContext) -> ToolResult:
        await trio.lowlevel.checkpoint()
        self.ran.append(thaw(args))
        return ok("done")


def runs(*lines: str) -> Element:
    return say(calls=[call("shell", {"command": line}) for line in lines])


@in_virtual_time
async def test_what_is_denied_never_runs_what_is_asked_waits_and_what_is_allowed_runs() -> None:
    shell = Shell()
    policy = PermissionPolicy(
        deny=["shell(rm *)"], ask=["shell(git push)"], allow=["shell(git *)"], mode="strict", timeout=None
    )
    async with open_world() as world:
        script = [runs("git status", "git log; rm -rf x", "git push", "make"), "done"]
        session = await world.spawn(script, tools=[shell.tool], plugins=[policy])
        reply = await session.ask("go")
        assert [held.args for held in reply.held] == [{"command": "git push"}]
        assert shell.ran == [{"command": "git status"}]
        await session.approve(reply.held[0].id)
        await settle()
        assert shell.ran == [{"command": "git status"}, {"command": "git push"}]
        blocked = [(event.plugin, event.reason) for event in world.heard(session).of(ToolBlocked)]
        assert blocked == [
            ("PermissionPolicy", "the rule `shell(rm *)` denies it"),
            ("PermissionPolicy", "no rule allows it, and the mode is `strict`"),
        ]


@pytest.mark.parametrize("plugins", [ALL, ALL[::-1], ALL[1:], ALL[2:]], ids=["all", "reversed", "two", "one"])
@in_virtual_time
async def test_one_call_is_asked_about_once_whoever_wants_to_ask(plugins: tuple[AnyPlugin, ...]) -> None:
    shell = Shell()
    async with open_world() as world:
        session = await world.spawn([runs("$X --now"), "done"], tools=[shell.tool], plugins=plugins)
        reply = await session.ask("go")
        await session.approve(reply.held[0].id)
        await settle()
        assert len(world.heard(session).of(ApprovalRequired)) == 1
        assert shell.ran == [{"command": "$X --now"}]


EDITED: list[tuple[Mapping[str, Json], list[object]]] = [
    ({"command": "git push --dry-run"}, [{"command": "git push --dry-run"}]),
    ({"command": "git push; rm x"}, []),
    ({"command": "make"}, []),
]


@pytest.mark.parametrize(("args", "expected"), EDITED)
@in_virtual_time
async def test_a_person_edits_no_call_past_the_policy(args: Mapping[str, Json], expected: list[object]) -> None:
    shell = Shell()
    policy = PermissionPolicy(deny=["shell(rm *)"], ask=["shell(git push)"], mode="strict")
    async with open_world() as world:
        session = await world.spawn([runs("git push"), "done"], tools=[shell.tool], plugins=[HumanApproval(), policy])
        reply = await session.ask("go")
        await session.approve(reply.held[0].id, args)
        await settle()
        assert shell.ran == expected
        assert len(world.heard(session).of(ApprovalRequired)) == 1


@in_virtual_time
async def test_what_a_later_plugin_puts_in_place_of_an_approved_call_is_asked_about_itself() -> None:
    shell = Shell()
    replacer = ArgsReplacer({"command": "git push --force"})
    async with open_world() as world:
        script = [runs("git push"), "done"]
        session = await world.spawn(script, tools=[shell.tool], plugins=[*ALL, replacer])
        first = await session.ask("go")
        await session.approve(first.held[0].id)
        await settle()
        assert shell.ran == []
        (again,) = session.status().held
        assert again.args == {"command": "git push --force"}
        await session.approve(again.id)
        await settle()
        assert shell.ran == [{"command": "git push --force"}]
        asked = [thaw(event.args) for event in world.heard(session).of(ApprovalRequired)]
        assert asked == [{"command": "git push"}, {"command": "git push --force"}]


@in_virtual_time
async def test_no_plugin_puts_a_denied_call_in_place_of_another() -> None:
    for plugins in ((HumanApproval(), PermissionPolicy(deny=["shell(rm *)"])), (PermissionPolicy(deny=["shell(rm)"]),)):
        shell = Shell()
        async with open_world() as world:
            session = await world.spawn(
                [runs("git push"), "done"], tools=[shell.tool], plugins=[*plugins, ArgsReplacer({"command": "rm x"})]
            )
            await session.ask("go")
            while held := session.status().held:
                await session.approve(held[0].id)
                await settle()
            assert shell.ran == []
            assert world.heard(session).only(ToolBlocked).plugin == "PermissionPolicy"


@in_virtual_time
async def test_an_approval_for_always_ends_with_its_time() -> None:
    shell = Shell()
    policy = PermissionPolicy(ask=["shell(git push)"], always_seconds=60, timeout=None)
    async with open_world() as world:
        script = [runs("git push a"), "one", runs("git push b"), "two", runs("git push c"), "three"]
        session = await world.spawn(script, tools=[shell.tool], plugins=[policy])
        reply = await session.ask("go")
        await session.approve(reply.held[0].id, always=True)
        await settle()
        assert (await session.ask("again")).stop_reason != "held"
        await trio.sleep(61)
        assert (await session.ask("and again")).stop_reason == "held"
        assert shell.ran == [{"command": "git push a"}, {"command": "git push b"}]
        family = world.heard(session).only(ToolApprovedAlways).command_family
        assert family.startswith("git push (shell(git push)), until ")


# Sub-agents


@pytest.mark.parametrize("own", [[], [PermissionPolicy(mode="bypass")]], ids=["none", "bypass"])
@in_virtual_time
async def test_a_sub_agent_may_do_nothing_that_its_parent_may_not(own: list[AnyPlugin]) -> None:
    shell = Shell()
    policy = PermissionPolicy(deny=["shell(rm *)"], ask=["shell(git push)"], allow=["shell(make *)"], timeout=5.0)
    finder = agent([runs("rm x", "git push", "make"), "done"], tools=[shell.tool], plugins=own)
    async with open_world() as world:
        session = await world.spawn([task(), "fine"], "p", agents={"finder": finder}, plugins=[policy])
        reply = await session.ask("go")
        assert [held.args for held in reply.held] == [{"command": "git push"}]
        await trio.sleep(6)
        assert shell.ran == [{"command": "make"}]


@in_virtual_time
async def test_a_sub_agent_in_another_folder_is_allowed_what_its_parent_is_in_its_own() -> None:
    for folder, expected in ((".", [{"command": "make"}]), ("elsewhere", [])):
        shell = Shell()
        policy = PermissionPolicy(allow=["shell(make *)", "task"], mode="strict")
        finder = agent([runs("make"), "done"], tools=[shell.tool], working_dir=folder)
        async with open_world() as world:
            session = await world.spawn([task(), "fine"], "p", agents={"finder": finder}, plugins=[policy])
            await session.ask("go")
            assert shell.ran == expected


# Options that change


@in_virtual_time
async def test_new_options_hold_from_the_next_turn_and_bad_ones_change_nothing() -> None:
    shell = Shell()
    async with open_world() as world:
        script = [runs("make"), "one", runs("make"), "two"]
        session = await world.spawn(script, tools=[shell.tool], plugins=[PermissionPolicy()])
        await session.ask("go")
        with pytest.raises(BadOptions, match="is no rule"):
            await session.update_plugin(PermissionPolicy, deny=["shell("])
        with pytest.raises(BadOptions, match="did you mean `shell`"):
            await session.update_plugin(PermissionPolicy, deny=["Shell(make)"])
        await session.update_plugin(PermissionPolicy, deny=["shell(make)"], mode="bypass")
        await settle()
        assert world.heard(session).only(PluginOptsUpdated).success
        await session.ask("again")
        assert shell.ran == [{"command": "make"}]


# Orders


def no_stranger_is_paid(trace: Trace) -> None:
    """Check that no call that the policy denies starts, whoever changed it and whoever approved it."""
    if any(isinstance(plugin, PermissionPolicy) for plugin in trace.plugins):
        assert not [start for start in trace.started if start.name == "pay" and start.args.get("to") == "stranger"]


@pytest.mark.long
def test_no_row_of_plugins_runs_a_denied_call() -> None:
    policy = PermissionPolicy(deny=["pay(stranger)"], path_args=["to"])
    row = (policy, HumanApproval(tools=("pay",)), Redirect(), Cap(), SpendCounter())
    assert find_conflict(row, no_stranger_is_paid, examples=100) is None


GUARD = SecurityGuard(allow_unconfined=["shell(make *)"])
WAITS = HumanApproval(tools=["shell"], timeout=None)
ASKS = PermissionPolicy(ask=["shell"], timeout=None)


@pytest.mark.parametrize(
    ("before", "since"),
    [
        ((GUARD, WAITS), (SecurityGuard(blocked_commands=["make"], allow_unconfined=["shell(make *)"]), WAITS)),
        ((ASKS,), (PermissionPolicy(ask=["shell"], deny=["shell(make deploy)"], timeout=None),)),
    ],
    ids=["guard", "policy"],
)
@in_virtual_time
async def test_what_is_denied_while_a_call_waits_does_not_run_once_it_is_approved(
    before: tuple[AnyPlugin, ...], since: tuple[AnyPlugin, ...]
) -> None:
    journal, shell = MemoryJournal(), Shell()
    async with open_supervisor(journal=journal) as supervisor:
        spec = SessionSpec(model=ScriptedModel([runs("make deploy")]), tools=[shell.tool], plugins=before)
        reply = await (await supervisor.spawn(spec, id="s")).ask("go")
        assert [held.args for held in reply.held] == [{"command": "make deploy"}]
    async with open_supervisor(journal=journal) as supervisor:
        spec = SessionSpec(model=ScriptedModel(["done"]), tools=[shell.tool], plugins=since)
        session = await supervisor.resume("s", spec)
        await session.approve(session.status().held[0])
        await settle()
        assert shell.ran == []
        assert session.status().phase == "idle"


@frozen
class Within(Plugin[None]):
    """Has each command end after a time, before anybody is asked about it."""

    priority = Priority.SECURITY

    def before_tool(self, hook: BeforeTool, state: None, ctx: Context) -> ReplaceToolArgs[None]:
        return ReplaceToolArgs({"command": f"timeout 60 {hook.args['command']}"})


@in_virtual_time
async def test_arguments_that_were_rewritten_and_approved_are_not_rewritten_again_by_other_options() -> None:
    journal, shell = MemoryJournal(), Shell()
    scripts: list[list[Element]] = [[runs("make")], ["done"]]
    for times, script in enumerate(scripts):
        guard = SecurityGuard(allow_unconfined=["shell(timeout *)"], blocked_paths=["secret"][:times])
        spec = SessionSpec(model=ScriptedModel(script), tools=[shell.tool], plugins=[Within(), guard, WAITS])
        async with open_supervisor(journal=journal) as supervisor:
            if not times:
                await (await supervisor.spawn(spec, id="s")).ask("go")
                continue
            session = await supervisor.resume("s", spec)
            await session.approve(session.status().held[0])
            await settle()
            assert shell.ran == [{"command": "timeout 60 make"}]

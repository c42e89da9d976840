"""Options of plugins that name tools: a name that no tool has is refused, wherever the plugin joins."""

from __future__ import annotations

import pytest
from attrs import frozen

from agentrail import Plugin
from agentrail.errors import BadOptions
from agentrail.plugins import AnyPlugin, BudgetGuard, EventLogger, HumanApproval, SecurityGuard
from agentrail.ports.tool import Offer
from agentrail.testing import ScriptedModel
from tests.runtime.conftest import run_in_virtual_time
from tests.runtime.families import agent
from tests.runtime.journals import TestJournal
from tests.runtime.test_sources import Scripted
from tests.runtime.tools import quick
from tests.runtime.world import open_world, settle, spec_of

in_virtual_time = pytest.mark.trio(run=run_in_virtual_time)


@frozen
class Own(Plugin):
    """A plugin of a user that names a tool."""

    tool: str = "quick"

    @property
    def tools_named(self) -> tuple[str, ...]:
        return (self.tool,)


@pytest.mark.parametrize(
    ("plugin", "asked"),
    [
        (HumanApproval(tools=("remove",)), "remove"),
        (HumanApproval(tools=("shell", "qick")), "qick"),
        (SecurityGuard(writers=("quik",)), "quik"),
        (Own("quikc"), "quikc"),
    ],
    ids=["approval", "beside-a-default", "guard", "own"],
)
@in_virtual_time
async def test_a_plugin_that_names_no_tool_is_refused(plugin: AnyPlugin, asked: str) -> None:
    async with open_world() as world:
        with pytest.raises(BadOptions, match=f"the tool `{asked}`") as refused:
            await world.spawn((), tools=[quick()], plugins=[plugin])
        assert asked == "remove" or "did you mean `quick`?" in str(refused.value)
        session = await world.spawn((), tools=[quick()])
        with pytest.raises(BadOptions, match=f"the tool `{asked}`"):
            await session.attach_plugin(plugin)
        await settle()
        assert session.inspect().plugins == ()


@in_virtual_time
async def test_the_nearest_name_is_said() -> None:
    async with open_world() as world:
        with pytest.raises(BadOptions, match=r"did you mean `rm`\? .* `remove\*`"):
            await world.spawn((), tools=[quick("rm"), quick("zzzzz")], plugins=[HumanApproval(tools=("remove",))])


@in_virtual_time
async def test_all_names_are_said_if_none_is_near() -> None:
    async with open_world() as world:
        said = r"the session has none; its tools are `zzzzz`\. For a tool that is attached later, write a pattern"
        with pytest.raises(BadOptions, match=said):
            await world.spawn((), tools=[quick("zzzzz")], plugins=[HumanApproval(tools=("remove",))])


@in_virtual_time
async def test_new_options_are_looked_at_too() -> None:
    async with open_world() as world:
        session = await world.spawn((), tools=[quick()], plugins=[HumanApproval(tools=("quick",))])
        with pytest.raises(BadOptions, match="did you mean `quick`"):
            await session.update_plugin(HumanApproval, tools=("qick",))
        await session.update_plugin(HumanApproval, tools=("quick", "later_*"))
        await settle()


@pytest.mark.parametrize(
    "plugin",
    [HumanApproval(), HumanApproval(tools="*"), HumanApproval(tools=("rem?ve", "mcp__*", "x[y]")), SecurityGuard()],
)
@in_virtual_time
async def test_built_in_names_and_patterns_need_no_tool(plugin: AnyPlugin) -> None:
    async with open_world() as world:
        await world.spawn((), tools=[quick()], plugins=[plugin])


@in_virtual_time
async def test_a_tool_of_a_sub_agent_may_be_named() -> None:
    async with open_world() as world:
        finder = agent(["x"], tools=[quick()])
        await world.spawn((), agents={"finder": finder}, plugins=[HumanApproval(tools=("quick", "task"))])
        wrong = agent(["x"], tools=[quick()], plugins=[HumanApproval(tools=("qick",))])
        with pytest.raises(BadOptions, match="did you mean `quick`"):
            await world.spawn((), tools=[quick("qick")], agents={"finder": wrong})


@in_virtual_time
async def test_where_a_source_may_bring_the_tool_only_a_likely_mistake_is_refused() -> None:
    async def supply(offer: Offer) -> None:
        await offer([quick("far")])

    async with open_world() as world:
        tools = [quick(), Scripted("there", [supply])]
        await world.spawn((), tools=tools, plugins=[HumanApproval(tools=("far", "there__x"))])
        with pytest.raises(BadOptions, match="did you mean `quick`"):
            await world.spawn((), tools=tools, plugins=[HumanApproval(tools=("qick",))])


@in_virtual_time
async def test_a_stored_session_is_not_brought_back_by_a_guard_of_nothing() -> None:
    journal = TestJournal()
    async with open_world(journal, parks=True) as world:
        await world.spawn((), "s", tools=[quick()], plugins=[HumanApproval(tools=("quick",))])
    async with open_world(journal, parks=True) as world:
        wrong = spec_of(ScriptedModel(()), tools=[quick()], plugins=[HumanApproval(tools=("qick",))])
        with pytest.raises(BadOptions, match="did you mean `quick`"):
            await world.supervisor.resume("s", wrong)


def test_choices_of_built_in_plugins_are_looked_at() -> None:
    with pytest.raises(BadOptions, match="its `unknown_price` is 'alow'; it must be one of refuse, allow"):
        BudgetGuard(unknown_price="alow")
    with pytest.raises(BadOptions, match="its `level` is 'wran'; it must be one of debug, info"):
        EventLogger(level="wran")

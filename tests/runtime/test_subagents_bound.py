"""What a parent's plugins and limits mean for its sub-agents, and what sub-agents have of their own."""

import pytest
import trio
from attrs import frozen

from agentrail import BlockTool, Context, Continue, Plugin, Priority, State
from agentrail.core.vocabulary.inputs import ElsewhereUsed
from agentrail.errors import TurnAborted
from agentrail.events import AgentEnd, SubagentEnd, ToolBlocked
from agentrail.models import Price, Usage
from agentrail.plugins import AnyPlugin, BeforeRequest, BeforeTool, BudgetGuard, HumanApproval, Keyed, SecurityGuard
from agentrail.testing import call, say
from tests.kit import NOTHING_USED
from tests.runtime.families import agent, inner, task, tasks
from tests.runtime.journals import TestJournal
from tests.runtime.poison import Poison, crash_this_step
from tests.runtime.tools import quick, slow
from tests.runtime.world import World, open_world, rebuilt, settle, until

TEN = Usage(8, 2)
HUNDRED = Usage(80, 20)


@frozen
class Nothing(Plugin):
    """A guard that blocks every call."""

    band: str = "security"
    priority = Priority.SECURITY + 5

    def before_tool(self, hook: BeforeTool, state: None, ctx: Context) -> BlockTool[None]:
        return BlockTool(f"not in the {self.band}")


@frozen
class Own(Nothing):
    """A plugin that blocks every call of its own session."""

    priority = Priority.OWN


QUICK = say(calls=[call("quick")])


async def test_plugins_of_the_security_band_bind_sub_agents_too(world: World) -> None:
    finder = agent([QUICK, "tried"], tools=[quick()])
    session = await world.spawn([task(), "fine"], "p", agents={"finder": finder}, plugins=[Keyed("N", SecurityGuard())])
    await session.ask("go")
    child = await rebuilt(world.journal, "p.c3")
    assert [attached.key for attached in child.plugins] == ["N"]


async def test_its_own_plugins_come_beside_those_it_inherits_never_in_their_place(world: World) -> None:
    own_value = [Nothing(band="child")]
    finder = agent([QUICK, "tried"], tools=[quick()], plugins=own_value)

    @frozen
    class LetTasks(Nothing):
        def before_tool(self, hook: BeforeTool, state: None, ctx: Context) -> BlockTool[None] | Continue[None]:  # type: ignore[override]  # wider
            return Continue() if hook.name == "task" else BlockTool("not for anybody")

    plugins = [Keyed("Nothing", LetTasks())]
    session = await world.spawn([task(), "fine"], "p", agents={"finder": finder}, plugins=plugins)
    await session.ask("go")
    child = await rebuilt(world.journal, "p.c3")
    assert [attached.key for attached in child.plugins] == ["Nothing@p", "Nothing"]
    (blocked,) = (event for event in inner(world, session) if isinstance(event, ToolBlocked))
    assert (blocked.plugin, blocked.reason) == ("Nothing@p", "not for anybody")


async def test_other_plugins_are_not_inherited(world: World) -> None:
    finder = agent([QUICK, "done"], tools=[quick()])
    session = await world.spawn([task(), "fine"], "p", agents={"finder": finder}, plugins=[Poison()])
    await session.ask("go")
    assert (await rebuilt(world.journal, "p.c3")).plugins == ()


async def test_a_plugin_says_itself_what_of_it_is_inherited(world: World) -> None:
    class Never(Plugin):
        priority = Priority.SECURITY

        def inherited(self, state: None, ctx: Context) -> AnyPlugin | None:
            assert ctx.session_id == "p"
            return None

    session = await world.spawn([task(), "fine"], "p", agents={"finder": agent(["x"])}, plugins=[Never()])
    await session.ask("go")
    assert (await rebuilt(world.journal, "p.c3")).plugins == ()


async def test_a_plugin_that_cannot_say_it_keeps_the_door_shut(world: World) -> None:
    class Broken(Plugin):
        def inherited(self, state: None, ctx: Context) -> AnyPlugin | None:
            raise LookupError

    session = await world.spawn([task(), "fine"], "p", agents={"finder": agent(["x"])}, plugins=[Broken()])
    await session.ask("go")
    assert world.heard(session).of(SubagentEnd) == []
    assert "LookupError" in session.messages()[2].text


SEEN: list[tuple[str, str | None, tuple[str, ...]]] = []


class Looks(Plugin):
    priority = Priority.SECURITY

    def before_tool(self, hook: BeforeTool, state: None, ctx: Context) -> Continue[None]:
        SEEN.append((ctx.session_id, ctx.parent, ctx.subagents))
        return Continue()


async def test_the_parent_is_known_to_plugins(world: World) -> None:
    SEEN.clear()
    inmost = agent([QUICK, "done"], "inner", tools=[quick()])
    middle = agent([task("inner"), "done"], agents={"inner": inmost})
    session = await world.spawn([task(), "fine"], "p", agents={"finder": middle}, plugins=[Looks()])
    await session.ask("go")
    assert SEEN == [("p", None, ("finder",)), ("p.c3", "p", ("inner",)), ("p.c3.c3", "p.c3", ())]


# What they use


async def test_what_sub_agents_use_is_counted_once_at_each_level(world: World) -> None:
    inmost = agent([say("done", usage=TEN)], "inner")
    middle = agent([task("inner", usage=TEN), say("done", usage=TEN)], agents={"inner": inmost})
    session = await world.spawn([task(usage=HUNDRED), say("fine", usage=HUNDRED)], "p", agents={"finder": middle})
    reply = await session.ask("go")
    assert session.status().usage.total_tokens == reply.usage.total_tokens == 230
    assert (await rebuilt(world.journal, "p.c3")).usage.total_tokens == 30


async def test_it_is_seen_while_they_run(world: World) -> None:
    finder = agent([say(calls=[call("slow")], usage=TEN), say("done", usage=TEN)], tools=[slow(seconds=20.0)])
    session = await world.spawn([task(usage=HUNDRED), "fine"], "p", agents={"finder": finder})
    await session.prompt("go")
    await trio.sleep(10.0)
    assert session.status().phase == "executing_tools"
    assert session.status().usage.total_tokens == 110


async def test_it_is_counted_once_also_behind_an_abort(world: World) -> None:
    finder = agent([say(calls=[call("slow")], usage=TEN)], tools=[slow(seconds=20.0)])
    session = await world.spawn([task(usage=HUNDRED)], "p", agents={"finder": finder})
    await session.prompt("go")
    await trio.sleep(10.0)
    await session.abort()
    await settle()
    assert session.status().usage.total_tokens == 110


async def test_it_is_counted_once_also_behind_a_crash(world: World) -> None:
    class Late(Poison):
        def before_tool(self, hook: BeforeTool, state: int, ctx: Context) -> Continue[int]:
            crash_this_step()
            return Continue(state)

    finder = agent([say(calls=[call("quick")], usage=TEN)], tools=[quick()], plugins=[Late()])
    session = await world.spawn([task(usage=HUNDRED), "fine"], "p", agents={"finder": finder})
    await session.ask("go")
    child = await rebuilt(world.journal, "p.c3")
    assert session.status().usage.total_tokens == 100 + child.usage.total_tokens


async def test_it_is_counted_with_the_end_of_the_session() -> None:
    journal = TestJournal()
    async with open_world(journal) as world:
        finder = agent([say(calls=[call("slow")], usage=TEN)], tools=[slow(seconds=20.0)])
        session = await world.spawn([task(usage=HUNDRED)], "p", agents={"finder": finder})
        await session.prompt("go")
        await trio.sleep(10.0)
        async with session.monitor() as down:
            await session.stop()
            await down.wait()
        assert session.inspect().usage.total_tokens == 110


async def test_costs_roll_up_and_one_that_is_unknown_makes_the_sum_unknown(world: World) -> None:
    prices = {"scripted": Price(1.0, 1.0), "known": Price(1.0, 1.0)}
    agents = {
        "known": agent([say("done", usage=TEN)], "known"),
        "unknown": agent([say("done", usage=TEN, delay=1.0)], "unknown"),
    }
    script = [task("known", usage=TEN), task("unknown"), "fine"]
    session = await world.spawn(script, "p", agents=agents, prices=prices)
    await session.prompt("go")
    await until(lambda: len(world.heard(session).of(SubagentEnd)) == 1)
    cost = session.status().usage.cost_usd
    assert cost is not None
    assert cost == pytest.approx(20e-6)
    await until(lambda: not session.inspect().turn)
    assert session.status().usage.cost_usd is None


# Budgets


async def test_a_sub_agent_has_what_remains_of_a_budget(world: World) -> None:
    plugins = [BudgetGuard(max_tokens=1000, max_calls=5, max_rounds=9)]
    session = await world.spawn([task(usage=HUNDRED), "fine"], "p", agents={"finder": agent(["x"])}, plugins=plugins)
    await session.ask("go")
    (attached,) = (await rebuilt(world.journal, "p.c3")).plugins
    remaining = {name: attached.options.get(name) for name in ("max_tokens", "max_calls", "max_rounds", "max_usd")}
    assert remaining == {"max_tokens": 900, "max_calls": 4, "max_rounds": 8, "max_usd": None}


@pytest.mark.parametrize("plugins", [[], [BudgetGuard(max_tokens=1000)]], ids=["free", "limited"])
async def test_only_sub_agents_that_share_a_limit_are_told_what_others_have_used(
    world: World, plugins: list[AnyPlugin]
) -> None:
    agents = {name: agent([say("done", usage=TEN, delay=delay)]) for name, delay in (("brief", 1.0), ("long", 9.0))}
    session = await world.spawn([tasks("brief", "long"), "fine"], "p", agents=agents, plugins=plugins)
    await session.ask("go")
    # Under the limit, one begins when the other has ended: whichever that is.
    records = [record for child in ("p.c3", "p.c4") for record in await world.journal.read(child)]
    assert any(isinstance(record.arrival.input, ElsewhereUsed) for record in records) is bool(plugins)


async def test_a_sub_agent_is_stopped_where_its_parent_would_be(world: World) -> None:
    again = say(calls=[call("quick")], usage=HUNDRED)
    finder = agent([again, again, "never"], tools=[quick()])
    plugins = [BudgetGuard(max_tokens=200)]
    session = await world.spawn([task(usage=TEN), "never"], "p", agents={"finder": finder}, plugins=plugins)
    with pytest.raises(TurnAborted, match="max_tokens=200 is used up"):
        await session.ask("go")
    await settle()
    assert "max_tokens=190 is used up" in world.heard(session).only(SubagentEnd).text
    assert session.status().usage.total_tokens == 210


async def test_sub_agents_side_by_side_share_what_remains(world: World) -> None:
    def spender(name: str, delay: float) -> object:
        again = [say(calls=[call("slow")], usage=HUNDRED) for _ in range(9)]
        return agent(again, name, tools=[slow(seconds=delay)])

    agents = {"a": spender("a", 3.0), "b": spender("b", 4.0)}
    plugins = [BudgetGuard(max_tokens=550)]
    session = await world.spawn([tasks("a", "b"), "never"], "p", agents=agents, plugins=plugins)
    with pytest.raises(TurnAborted, match="max_tokens=550 is used up"):
        await session.ask("go")
    assert session.status().usage.total_tokens == 600


async def test_usage_that_is_nothing_changes_nothing(world: World) -> None:
    session = await world.spawn([task(), "fine"], "p", agents={"finder": agent(["x"])})
    await session.ask("go")
    await settle()
    assert session.status().usage == NOTHING_USED
    assert world.heard(session).only(AgentEnd).usage == NOTHING_USED


async def test_who_asks_a_person_asks_about_calls_of_sub_agents_too(world: World) -> None:
    finder = agent([QUICK, "done"], tools=[quick()])
    plugins = [HumanApproval(tools=["quick"])]
    session = await world.spawn([task(), "fine"], "p", agents={"finder": finder}, plugins=plugins)
    (held,) = (await session.ask("go")).held
    assert (held.tool, held.path) == ("quick", ("p", "c3"))


@frozen
class Looking(Plugin[tuple[float | None, ...]]):
    """Remembers how much money was left at its start and before each request."""

    def init(self, ctx: Context) -> tuple[float | None, ...]:
        return (ctx.budget_left,)

    def before_request(
        self, hook: BeforeRequest, state: tuple[float | None, ...], ctx: Context
    ) -> Continue[tuple[float | None, ...]]:
        return Continue((*state, ctx.budget_left))

    def inherited(self, state: tuple[float | None, ...], ctx: Context) -> AnyPlugin:
        return self


def seen(state: State) -> list[float | None]:
    (actual,) = (
        kept_state
        for attached, kept_state in zip(state.plugins, state.plugin_states, strict=True)
        if attached.key == "Looking"
    )
    return [figure for figure in actual if isinstance(figure, float | None)] if isinstance(actual, tuple) else []


async def test_what_is_left_of_a_budget_is_known_to_any_plugin_also_in_a_sub_agent(world: World) -> None:
    price = Price(1.0, 1.0)
    million = Usage(1_000_000, 0)
    finder = agent(
        [say(calls=[call("quick")], usage=million), say("found", usage=million)],
        tools=[quick()],
        prices={"child": price},
    )
    plugins = [BudgetGuard(max_usd=5.0), Looking()]
    script = [task(usage=million), say("fine", usage=million)]
    prices = {"scripted": price}
    session = await world.spawn(script, "p", agents={"finder": finder}, plugins=plugins, prices=prices)
    await session.ask("go")
    assert seen(await rebuilt(world.journal, "p.c3")) == [4.0, 4.0, 3.0]
    assert seen(session.inspect()) == [5.0, 5.0, 2.0]
    await session.update_plugin(BudgetGuard, max_usd=7.0)
    with pytest.raises(TurnAborted, match="script"):
        await session.ask("again")
    assert seen(session.inspect()) == [5.0, 5.0, 2.0, 3.0]


async def test_a_sub_agent_is_told_again_and_again_what_those_beside_it_have_used(world: World) -> None:
    price, million = Price(1.0, 1.0), Usage(1_000_000, 0)

    def spender(name: str, seconds: float) -> object:
        script = [*(say(calls=[call("slow")], usage=million) for _ in range(3)), say("done", usage=million)]
        return agent(script, name, tools=[slow(seconds=seconds)], prices={name: price})

    session = await world.spawn(
        [tasks("a", "b"), say("fine")],
        "p",
        agents={"a": spender("a", 3.0), "b": spender("b", 4.0)},
        plugins=[BudgetGuard(max_usd=20.0), Looking()],
        prices={"scripted": price},
    )
    await session.ask("go")
    remaining = [seen(await rebuilt(world.journal, child)) for child in ("p.c3", "p.c4")]
    assert remaining == [[20.0, 20.0, 18.0, 16.0, 14.0], [20.0, 20.0, 17.0, 15.0, 13.0]]


async def test_without_a_limit_or_a_price_nobody_knows_what_is_left(world: World) -> None:
    for plugins in ([Looking()], [BudgetGuard(max_usd=5.0, unknown_price="allow"), Looking()]):
        script = [say(calls=[call("quick")], usage=TEN), say("done", usage=TEN)]
        session = await world.spawn(script, plugins=plugins, tools=[quick()])
        await session.ask("go")
        assert seen(session.inspect())[-1] is None

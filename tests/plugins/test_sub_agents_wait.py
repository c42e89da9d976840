"""Sub-agents that share a limit: they run at once while there is room, and wait for each other near it."""

from __future__ import annotations

import gc
from itertools import pairwise

import pytest
import trio
from attrs import frozen

from agentrail import Ask, Context, Continue, Emit, Plugin, SessionSpec, open_supervisor
from agentrail.app.pricing import PriceList
from agentrail.errors import TurnAborted
from agentrail.events import AgentAbort, PluginEvent, Retry, StreamError
from agentrail.models import (
    EmitChunk,
    FrozenObject,
    History,
    Image,
    JsonObject,
    Model,
    ModelRequest,
    Part,
    Price,
    Response,
    Text,
    ToolMessage,
    Usage,
    UserMessage,
)
from agentrail.plugins import Answered, AnyPlugin, BeforePrompt, BudgetGuard, CallModel, Failed
from agentrail.runtime.work.reservations import SizedHistory, WaitClock, most_of
from agentrail.testing import ScriptedModel, call, say
from agentrail.values.usage import MILLION
from tests.kit import EMPTY, Element
from tests.runtime.conftest import run_in_virtual_time
from tests.runtime.families import agent, inner, task, tasks
from tests.runtime.journals import TestJournal
from tests.runtime.test_sources import Scripted, offering, silent
from tests.runtime.tools import quick
from tests.runtime.world import World, open_world, settle, spec_of, until

HUNDRED = Usage(80, 20)
NAMES = ("a", "b", "c")


@frozen
class HookRunner(Plugin):
    """Asks a model about each prompt, and tells what it hears."""

    def before_prompt(self, hook: BeforePrompt, state: None, ctx: Context) -> Emit[None] | Ask[None]:
        if hook.answer is None:
            return Ask(CallModel("Is that right?"))
        if isinstance(hook.answer, Answered):
            return Emit("judged", hook.answer.value)
        return Emit("judged", hook.answer.error if isinstance(hook.answer, Failed) else "late")


@frozen
class OtherHookRunner(Plugin):
    """Asks another model about each prompt, also in sub-agents."""

    def inherited(self, state: None, ctx: Context) -> AnyPlugin:
        return self

    def before_prompt(self, hook: BeforePrompt, state: None, ctx: Context) -> Continue[None] | Ask[None]:
        return Continue() if hook.answer is not None else Ask(CallModel("Is that right?", model="big:one"))


class Counting:
    """A model that notes when its requests run."""

    def __init__(self, model: Model, runs: list[tuple[str, float, float]]) -> None:
        self.name = model.name
        self._model = model
        self._runs = runs

    async def stream(self, request: ModelRequest, emit: EmitChunk) -> Response:
        began = trio.current_time()
        try:
            return await self._model.stream(request, emit)
        finally:
            self._runs.append((self.name, began, trio.current_time()))


class Trio:
    """A session with three sub-agents that run at once, each of one response that takes ten seconds."""

    def __init__(self, guard: BudgetGuard, window: int | None = None, usage: Usage = HUNDRED) -> None:
        self.runs: list[tuple[str, float, float]] = []
        self.agents = {}
        for name in NAMES:
            model = Counting(ScriptedModel([say("done", usage=usage, delay=10.0)], name=name), self.runs)
            self.agents[name] = agent(model, context_window=window)
        self.plugins = [guard]

    async def ask(self, world: World, *more: Element) -> list[str]:
        """Start all three, and return what the parent hears of them."""
        session = await world.spawn([tasks(*NAMES), *more], "p", agents=self.agents, plugins=self.plugins)
        await session.ask("go")
        return [message.text for message in session.messages() if isinstance(message, ToolMessage)]

    @property
    def began(self) -> list[int]:
        """The seconds at which the requests have begun, after the first one."""
        return sorted(int(began - self.runs[0][1]) for _, began, _ in self.runs)


def clocks() -> list[WaitClock]:
    """Return the clocks that measure waiting. The collector may take those of other tests at any time."""
    return [item for item in gc.get_objects() if isinstance(item, WaitClock)]


def test_while_there_is_room_they_run_at_once() -> None:
    async def live() -> None:
        three = Trio(BudgetGuard(max_tokens=10_000), window=3_000)
        async with open_world() as world:
            assert await three.ask(world, "fine") == ["done", "done", "done"]
        assert three.began == [0, 0, 0]

    run_in_virtual_time(live)


def test_near_the_limit_each_waits_until_it_is_known_what_the_others_cost() -> None:
    async def live() -> None:
        three, old_clocks = Trio(BudgetGuard(max_tokens=1_000), window=3_000), clocks()
        async with open_world() as world:
            assert await three.ask(world, "fine") == ["done", "done", "done"]
            new_clocks = [clock for clock in clocks() if clock not in old_clocks]
            assert new_clocks == [], "how long one has waited is forgotten with it"
        assert three.began == [0, 10, 20]

    run_in_virtual_time(live)


def test_two_find_room_and_the_third_waits() -> None:
    async def live() -> None:
        three = Trio(BudgetGuard(max_tokens=4_000), window=3_000)
        async with open_world() as world:
            assert await three.ask(world, "fine") == ["done", "done", "done"]
        assert three.began == [0, 0, 10]

    run_in_virtual_time(live)


def test_what_waits_while_the_limit_is_used_up_is_aborted_by_the_guard() -> None:
    async def live() -> None:
        three = Trio(BudgetGuard(max_tokens=90), window=3_000)
        async with open_world() as world:
            session = await world.spawn([tasks(*NAMES), "fine"], "p", agents=three.agents, plugins=three.plugins)
            with pytest.raises(TurnAborted, match="max_tokens=90 is used up"):
                await session.ask("go")
            assert [name for name, _, _ in three.runs] == [three.runs[0][0]]
            assert session.status().usage.total_tokens == 100
            await settle()
            heard = inner(world, session)
            reasons = [event.reason or "" for event in heard if isinstance(event, AgentAbort)]
            assert len(reasons) == 2
            assert all(reason.startswith("BudgetGuard: max_tokens=90 is used up: ") for reason in reasons)
            assert not [event for event in heard if isinstance(event, Retry | StreamError)]

    run_in_virtual_time(live)


def test_a_limit_that_is_used_up_meanwhile_wants_no_retries_and_asks_no_other_model() -> None:
    async def live() -> None:
        spare = ScriptedModel(["spare"], name="spare")
        runs: list[tuple[str, float, float]] = []
        agents = {}
        for name in NAMES:
            first = Counting(ScriptedModel([say("done", usage=HUNDRED, delay=10.0)], name=name), runs)
            agents[name] = SessionSpec(model=[first, spare], description="Finds things.", max_retries=0)
        async with open_world() as world:
            script = [tasks(*NAMES), "fine"]
            session = await world.spawn(script, "p", agents=agents, plugins=[BudgetGuard(max_tokens=90)])
            with pytest.raises(TurnAborted, match="max_tokens=90 is used up"):
                await session.ask("go")
            await settle()
            ends = [event for event in inner(world, session) if isinstance(event, AgentAbort)]
            assert [event.kind for event in ends] == ["plugin", "plugin"]
            assert (len(runs), spare.requests) == (1, [])

    run_in_virtual_time(live)


def test_the_time_limit_of_a_task_does_not_run_while_its_sub_agent_waits() -> None:
    async def live() -> None:
        three = Trio(BudgetGuard(max_tokens=1_000), window=3_000)
        async with open_world() as world:
            session = await world.spawn(
                [tasks(*NAMES), "fine"], "p", agents=three.agents, plugins=three.plugins, max_agent_seconds=12.0
            )
            await session.ask("go")
            assert [message.text for message in session.messages() if isinstance(message, ToolMessage)] == ["done"] * 3
        assert three.began == [0, 10, 20]

    run_in_virtual_time(live)


def test_the_time_limit_of_a_task_runs_again_when_its_sub_agent_does_not_wait_any_more() -> None:
    async def live() -> None:
        three = Trio(BudgetGuard(max_tokens=1_000), window=3_000)
        async with open_world() as world:
            began = trio.current_time()
            session = await world.spawn(
                [tasks(*NAMES), "fine"], "p", agents=three.agents, plugins=three.plugins, max_agent_seconds=6.0
            )
            await session.ask("go")
            texts = [message.text for message in session.messages() if isinstance(message, ToolMessage)]
            assert [text[:27] for text in texts] == ["stopped after 6 s, the tool"] * 3
            assert trio.current_time() - began == pytest.approx(18.0, abs=2.5)

    run_in_virtual_time(live)


def test_the_time_limits_of_all_tasks_above_stand_still_while_one_waits() -> None:
    async def live() -> None:
        runs: list[tuple[str, float, float]] = []

        def busy(name: str) -> Model:
            return Counting(ScriptedModel([say("done", usage=HUNDRED, delay=10.0)], name=name), runs)

        below = {name: agent(busy(name), context_window=3_000) for name in NAMES}
        middle = agent([tasks(*NAMES), "all done"], "middle", agents=below, context_window=3_000)
        async with open_world() as world:
            session = await world.spawn(
                [task("middle"), "fine"],
                "p",
                agents={"middle": middle},
                plugins=[BudgetGuard(max_tokens=1_000)],
                max_agent_seconds=12.0,
            )
            await session.ask("go")
            texts = [message.text for message in session.messages() if isinstance(message, ToolMessage)]
            assert texts == ["all done"]
            assert len(runs) == 3

    run_in_virtual_time(live)


def test_one_that_waits_is_aborted_at_once_and_the_others_go_on() -> None:
    async def live() -> None:
        three = Trio(BudgetGuard(max_tokens=1_000), window=3_000)
        async with open_world() as world:
            session = await world.spawn([tasks(*NAMES), "fine"], "p", agents=three.agents, plugins=three.plugins)
            await session.prompt("go")
            await until(lambda: len(session.tasks()) == len(NAMES))
            await trio.sleep(1.0)
            began = trio.current_time()
            await session.abort()
            await until(lambda: not session.tasks())
            assert trio.current_time() - began < 0.1
            assert len(three.runs) == 1
            await session.ask("again")

    run_in_virtual_time(live)


class Lingering:
    """A model whose first request goes on for a while when it is cancelled."""

    name = "lingering"

    def __init__(self) -> None:
        self.asked: list[float] = []

    async def stream(self, request: ModelRequest, emit: EmitChunk) -> Response:
        """Answer at once, but for the first time."""
        self.asked.append(trio.current_time())
        if len(self.asked) == 1:
            with trio.CancelScope(shield=True):
                await trio.sleep(100.0)
        return Response((Text("fine"),), (), usage=HUNDRED)


def test_a_request_that_is_cut_and_takes_long_to_end_holds_up_none_after_it() -> None:
    async def live() -> None:
        model = Lingering()
        async with open_world() as world:
            session = await world.spawn(model, "p", plugins=[BudgetGuard(max_tokens=1_000)])
            await session.prompt("go")
            await until(lambda: bool(model.asked))
            await session.abort()
            assert (await session.ask("again")).text == "fine"
            assert model.asked[1] - model.asked[0] < 1.0

    run_in_virtual_time(live)


def test_the_parent_waits_for_a_task_in_the_background_and_that_one_for_the_parent() -> None:
    async def live() -> None:
        runs: list[tuple[str, float, float]] = []
        busy = [say(calls=[call("tasks")], usage=HUNDRED, delay=3.0) for _ in range(3)]
        below = Counting(ScriptedModel([*busy, say("done", usage=HUNDRED)], name="a"), runs)
        script = [task("a", background=True), *busy, say("fine", usage=HUNDRED)]
        above = Counting(ScriptedModel(script), runs)
        agents = {"a": agent(below)}
        async with open_world() as world:
            session = await world.spawn(above, "p", agents=agents, plugins=[BudgetGuard(max_tokens=10_000)])
            await session.ask("go")
            await until(lambda: not session.inspect().subagents)
            assert session.status().usage.total_tokens == 8 * 100
        ends = sorted((began, end) for _, began, end in runs)
        assert all(end <= began for (_, end), (began, _) in pairwise(ends))

    run_in_virtual_time(live)


def test_questions_of_plugins_are_requests_too() -> None:
    """What is asked of a model after the limit is reached is not sent."""

    async def live() -> None:
        async with open_world() as world:
            model = ScriptedModel([say("yes", usage=HUNDRED), say(calls=[call("quick")], usage=HUNDRED)])
            plugins = [BudgetGuard(max_tokens=150), HookRunner()]
            session = await world.spawn(model, "p", tools=[quick()], plugins=plugins)
            with pytest.raises(TurnAborted, match="max_tokens=150 is used up"):
                await session.ask("go")
            with pytest.raises(TurnAborted, match="max_tokens=150 is used up"):
                await session.ask("go on")
            assert session.status().usage.total_tokens == 200
            await settle()
            said = [event.payload for event in world.heard(session).of(PluginEvent) if event.name == "judged"]
            why = "the session and those that share the limit have used it; the request was not sent"
            assert said == ["yes", f"LimitReached: BudgetGuard: max_tokens=150 is used up: {why}"]

    run_in_virtual_time(live)


def test_the_window_of_a_session_says_nothing_of_another_model_that_a_plugin_asks() -> None:
    async def live() -> None:
        runs: list[tuple[str, float, float]] = []
        big = Counting(ScriptedModel([say("yes", usage=Usage(50_000, 10), delay=5.0)] * 9, name="big"), runs)
        agents = {name: agent(["done"], name, context_window=3_000) for name in NAMES}
        plugins = [BudgetGuard(max_tokens=80_000), OtherHookRunner()]
        spec = spec_of(ScriptedModel([tasks(*NAMES), "fine"]), agents=agents, plugins=plugins, context_window=3_000)
        async with open_supervisor(models={"big": lambda _: big}) as supervisor:
            session = await supervisor.spawn(spec)
            with pytest.raises(TurnAborted, match="max_tokens=80000 is used up"):
                await session.ask("go")
            assert len(runs) == 2
            assert session.status().usage.total_tokens < 80_000 + 50_010

    run_in_virtual_time(live)


def test_the_family_does_not_wait_for_the_tools_of_one_that_comes_back() -> None:
    async def live() -> None:
        journal = TestJournal()

        def spec(far: Scripted) -> SessionSpec:
            below = agent([say("done", usage=HUNDRED, delay=50.0)], tools=[far])
            script = [task("a", background=True), say("fine", usage=HUNDRED), "I am here"]
            return spec_of(ScriptedModel(script), agents={"a": below}, plugins=[BudgetGuard(max_tokens=10_000)])

        async with open_supervisor(journal=journal) as supervisor:
            session = await supervisor.spawn(spec(Scripted("far", [offering("t")])), "p")
            await session.ask("go")
        async with open_supervisor(journal=journal) as supervisor:
            session = await supervisor.resume("p", spec(Scripted("far", [silent])))
            with trio.fail_after(1_000.0):
                assert (await session.ask("are you there?")).text == "fine"

    run_in_virtual_time(live)


def test_seconds_are_passed_by_one_response_however_many_run_at_once() -> None:
    async def live() -> float:
        async with open_world() as world:
            busy = [say("hm", calls=[call("quick")], delay=4.0) for _ in range(9)]
            agents = {name: agent(busy, name, tools=[quick()]) for name in NAMES}
            session = await world.spawn(
                [tasks(*NAMES), "fine"], "p", agents=agents, plugins=[BudgetGuard(max_seconds=10)]
            )
            began = trio.current_time()
            with pytest.raises(TurnAborted, match="max_seconds=10 is used up"):
                await session.ask("go")
            return trio.current_time() - began

    assert run_in_virtual_time(live) == pytest.approx(12.0, abs=0.5)


LIMITED = FrozenObject({"max_tokens": 50})
PRICES = PriceList({"m": Price(1.0, 2.0, cache_write=4.0)})


def asked(*parts: Part, model: str = "m", options: JsonObject = LIMITED) -> ModelRequest:
    return ModelRequest(model, (UserMessage(parts),) if parts else (), options=options)


@pytest.mark.parametrize(
    ("request_", "window", "tokens", "dollars"),
    [
        (asked(options=EMPTY), None, 10**12, 6 * 10**12),
        (asked(options=EMPTY), 1_000, 1_000, 6_000),
        (asked(options=FrozenObject({"max_tokens": -1})), 1_000, 1_000, 6_000),
        (asked(options=FrozenObject({"max_tokens": 0})), 1_000, 1_000, 6_000),
        (asked(), None, 4_050, 16_100),
        (asked(Text("x" * 8)), None, 4_066, 16_164),
        (asked(Image("image/png", "eA==")), 9_000, 9_000, 36_000 + 100),
        (asked(model="n"), 1_000, 1_000, 0),
        (asked(model="openai:gpt-4", options=EMPTY), 1_000, 8_192, 737_280),
        (asked(model="openai:gpt-4", options=EMPTY), 10_000, 10_000, 900_000),
        (asked(Text("x" * 8_000), options=EMPTY), 1_000, 2_000, 12_000),
    ],
)
def test_the_most_that_a_request_can_cost(
    request_: ModelRequest, window: int | None, tokens: int, dollars: int
) -> None:
    most = most_of(request_, window, PRICES)
    assert most.total_tokens == tokens
    assert most.cost_usd == pytest.approx(dollars / MILLION)


def test_a_picture_anywhere_in_a_history_is_noticed_although_each_message_is_looked_at_once() -> None:
    text, picture = UserMessage((Text("x"),)), UserMessage((Image("image/png", "eA=="),))
    sized, plain = SizedHistory(), History([text, text])
    for messages, is_counted in (
        (plain, True),
        (plain.and_(text), True),
        (plain.first(1), True),
        (plain.and_(picture), False),  # beside the third text
        (plain.and_(picture).and_(text), False),
        (plain.and_(text, text), True),
        ((text, picture), False),
        ((text, text), True),
        (History([picture]), False),
        (History([picture, text]).first(1), False),
        (History(), True),
    ):
        assert sized.is_counted(messages) is is_counted, messages

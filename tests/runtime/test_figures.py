"""Figures of a supervisor are what one would count by looking at each session, at any moment."""

from __future__ import annotations

from collections import Counter
from typing import TypeAlias

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from agentrail import SessionSpec, State, Supervisor, open_supervisor, tool
from agentrail.errors import TurnAborted
from agentrail.journals import MemoryJournal
from agentrail.models import Usage
from agentrail.plugins import HumanApproval
from agentrail.runtime.diagnosis.figures import MAX_MODELS, Figures, Spread, TenantFigures
from agentrail.runtime.diagnosis.session_listener import SessionListener
from agentrail.testing import ScriptedModel, call, say, stall
from tests.kit import Failpoint
from tests.runtime.families import agent, task
from tests.runtime.journals import TestJournal
from tests.runtime.poison import crash_this_step

Gauges: TypeAlias = tuple[dict[str, int], int, int, int, list[tuple[str, str]]]


def counted(figures: Figures) -> dict[str, Gauges]:
    """Return the gauges of all tenants, without zeros."""
    values: dict[str, Gauges] = {}
    for name, tenant in figures.tenants.items():
        phases = {phase: number for phase, number in tenant.phases.items() if number}
        if phases or tenant.held:
            values[name] = (phases, tenant.queued, tenant.steering, tenant.quarantined, sorted(tenant.held))
    return values


def seen(supervisor: Supervisor) -> dict[str, Gauges]:
    """Return the same by a look at each session."""
    by_tenant: dict[str, list[State]] = {}
    for session in supervisor.sessions():
        state = session.inspect()
        if state.phase.value != "ended":
            by_tenant.setdefault(state.setup.tenant, []).append(state)
    return {
        name: (
            dict(Counter(state.phase.value for state in states)),
            sum(len(state.queue) for state in states),
            sum(len(state.steering) for state in states),
            sum(len(state.quarantined_calls) for state in states),
            sorted((state.session_id, call_.call_id) for state in states for call_ in state.waiting_calls),
        )
        for name, states in by_tenant.items()
    }


@tool
async def remove(path: str) -> str:
    """Remove a file."""
    return path


def approving(*script: object) -> SessionSpec:
    return SessionSpec(model=ScriptedModel(list(script)), tools=[remove], plugins=[HumanApproval(tools=("remove",))])  # type: ignore[arg-type]


async def test_gauges_are_what_a_look_at_each_session_finds() -> None:
    async with open_supervisor(journal=MemoryJournal()) as supervisor:
        figures = supervisor.figures()
        asks = [say(calls=[call("remove", {"path": "a"}), call("remove", {"path": "b"})]), "done"]
        first = await supervisor.spawn(approving(*asks), "a", tenant="acme")
        second = await supervisor.spawn(SessionSpec(model=ScriptedModel([stall(), "two"])), "b", tenant="acme")
        third = await supervisor.spawn(SessionSpec(model=ScriptedModel(["one"])), "c", tenant="other")
        assert (
            counted(figures)
            == seen(supervisor)
            == {
                "acme": ({"idle": 2}, 0, 0, 0, []),
                "other": ({"idle": 1}, 0, 0, 0, []),
            }
        )
        await first.prompt("go")
        for text in ("x", "y", "z"):
            await second.prompt(text)
        await second.steer("hush")
        await third.ask("hi")
        await wait_all_tasks_blocked()
        assert counted(figures) == seen(supervisor)
        assert counted(figures)["acme"] == (
            {"idle": 1, "running": 1},
            2,
            1,
            0,
            [("a", hold.call_id) for hold in first.status().held],
        )
        await first.approve(first.status().held[0].id)
        await wait_all_tasks_blocked()
        assert counted(figures) == seen(supervisor)
        await second.abort(clear_queue=True)
        await first.abort()
        await wait_all_tasks_blocked()
        assert counted(figures) == seen(supervisor)
        await third.stop()
        await wait_all_tasks_blocked()
        assert counted(figures) == seen(supervisor) == {"acme": ({"idle": 2}, 0, 0, 0, [])}
        assert (dict(figures.tenants["acme"].turns), dict(figures.tenants["acme"].aborts)) == (
            {"aborted": 2},
            {"user": 2},
        )
        assert sum(figures.tenants["acme"].abort_times.counts) == 2
        assert dict(figures.tenants["other"].turns) == {"end": 1}
        assert figures.commits > 0
        assert (figures.failures, figures.limited) == (0, 0)
    assert counted(figures) == {}


async def test_sessions_that_were_there_before_are_counted_and_a_second_call_counts_nothing_twice() -> None:
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(approving(say(calls=[call("remove", {"path": "a"})]), "done"), tenant="acme")
        await session.prompt("go")
        await wait_all_tasks_blocked()
        figures = supervisor.figures()
        assert supervisor.figures() is figures
        assert counted(figures) == seen(supervisor)
        assert len(figures.tenants["acme"].held) == 1


async def test_a_session_that_comes_back_waits_since_it_began_to_wait(autojump_clock: trio.abc.Clock) -> None:
    del autojump_clock
    journal, spec = MemoryJournal(), approving(say(calls=[call("remove", {"path": "a"})]), "done")
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(spec, "a", tenant="acme")
        await session.prompt("go")
        await wait_all_tasks_blocked()
        (request,) = supervisor.figures().tenants["acme"].held.values()
        await trio.sleep(100)
    async with open_supervisor(journal=journal) as supervisor:
        figures = supervisor.figures()
        session = await supervisor.resume("a", spec)
        await wait_all_tasks_blocked()
        assert counted(figures) == seen(supervisor)
        assert list(figures.tenants["acme"].held.values()) == [request]
        await session.approve(session.status().held[0].id)
        await wait_all_tasks_blocked()
        assert counted(figures) == seen(supervisor) == {"acme": ({"idle": 1}, 0, 0, 0, [])}


async def test_a_session_that_hibernates_and_wakes_is_counted_once() -> None:
    spec = SessionSpec(model=ScriptedModel(["one", "two"]), hibernate_after=0.05)
    async with open_supervisor(journal=MemoryJournal()) as supervisor:
        figures = supervisor.figures()
        session = await supervisor.spawn(spec, "a", tenant="acme")
        await session.ask("hi")
        with trio.fail_after(20):
            while supervisor.tree().children[0].state != "asleep":  # noqa: ASYNC110 - real time passes
                await trio.sleep(0.02)
        assert counted(figures) == {"acme": ({"asleep": 1}, 0, 0, 0, [])}
        await session.ask("and?")
        assert counted(figures)["acme"][0] == {"idle": 1}
        assert dict(figures.tenants["acme"].turns) == {"end": 2}


async def test_usage_is_that_of_each_model() -> None:
    used = Usage(10, 5, cached_tokens=4, cost_usd=0.5)
    spec = SessionSpec(model=ScriptedModel([say("one", usage=used), say("two", usage=Usage(1, 1))]))
    async with open_supervisor() as supervisor:
        figures = supervisor.figures()
        session = await supervisor.spawn(spec, tenant="acme")
        await session.ask("hi")
        await session.ask("and?")
        ((model, actual),) = figures.tenants["acme"].models.items()
        assert model == session.status().model
        assert (actual.used.input_tokens, actual.used.output_tokens, actual.used.cached_tokens) == (11, 6, 4)
        assert (actual.cost_usd, actual.unpriced) == (0.5, 1)


def test_many_models_of_one_tenant_are_counted_together() -> None:
    figures = TenantFigures()
    for number in range(MAX_MODELS + 20):
        figures.use(f"m{number}", Usage(1, 0))
    assert len(figures.models) == MAX_MODELS + 1
    assert figures.models[""].used.input_tokens == 20


async def test_tenants_beyond_the_most_are_counted_together() -> None:
    async with open_supervisor() as supervisor:
        figures = supervisor.figures(2)
        for number in range(5):
            await supervisor.spawn(SessionSpec(model=ScriptedModel(["one"])), tenant=f"t{number}")
        await supervisor.spawn(SessionSpec(model=ScriptedModel(["one"])))
        assert {name: dict(tenant.phases) for name, tenant in figures.tenants.items()} == {
            "t0": {"idle": 1},
            "t1": {"idle": 1},
            "": {"idle": 4},
        }


def test_times_are_counted_by_range() -> None:
    spread = Spread()
    for seconds in (0.0, 0.001, 0.0011, 10.0, 10.1):
        spread.add(seconds)
    assert spread.counts == [2, 1, *[0] * 9, 1, 1]
    assert spread.total == pytest.approx(20.1021)


async def test_a_listener_is_told_how_long_each_commit_took() -> None:
    class Hears(SessionListener):
        def __init__(self) -> None:
            self.commits: list[float] = []

        def committed(self, seconds: float) -> None:
            self.commits.append(seconds)

    hears = Hears()
    async with open_supervisor(journal=TestJournal(commit=2.0)) as supervisor:
        with supervisor.figures().telling(hears):
            session = await supervisor.spawn(SessionSpec(model=ScriptedModel(["one"])))
            await session.ask("go")
        assert hears.commits == [2.0] * len(hears.commits) != []


async def test_turns_add_the_time_that_they_took() -> None:
    async with open_supervisor() as supervisor:
        figures = supervisor.figures()
        model = ScriptedModel(["one", say("two", delay=2.0)])
        session = await supervisor.spawn(SessionSpec(model=model), tenant="acme")
        for turn, took in enumerate((0, 2), 1):
            await session.ask("go")
            times = figures.tenants["acme"].turn_times
            assert (sum(times.counts), times.total) == (turn, took)


async def test_an_abort_of_a_turn_is_told_to_its_caller_and_counted() -> None:
    async with open_supervisor() as supervisor:
        figures = supervisor.figures()
        session = await supervisor.spawn(SessionSpec(model=ScriptedModel([stall()])), tenant="acme")
        async with trio.open_nursery() as nursery:

            async def ask() -> None:
                with pytest.raises(TurnAborted):
                    await session.ask("hi")

            nursery.start_soon(ask)
            await wait_all_tasks_blocked()
            await session.abort()
        assert figures.tenants["acme"].turns == {"aborted": 1}


@tool
async def crash(point: str) -> str:
    """Crash the actor at the next step that comes to a failpoint."""
    crash_this_step(Failpoint[point])
    return "well"


@pytest.mark.parametrize("point", ["APPEND", "APPENDED", "PUBLISH", "PUBLISHED"])
async def test_a_step_that_crashes_its_actor_is_counted_once(point: str) -> None:
    asks = say(calls=[call("crash", {"point": point})], usage=Usage(3, 2))
    spec = SessionSpec(model=ScriptedModel([asks, "one", "two"]), tools=[crash])
    async with open_supervisor(journal=MemoryJournal()) as supervisor:
        figures = supervisor.figures()
        session = await supervisor.spawn(spec, "a", tenant="acme")
        crash_this_step(Failpoint[point])  # the step that takes the prompt
        await session.ask("go")
        crash_this_step(Failpoint[point])
        await session.ask("and?")
        assert supervisor.tree().children[0].restarts == 3
        assert counted(figures) == seen(supervisor) == {"acme": ({"idle": 1}, 0, 0, 0, [])}
        assert dict(figures.tenants["acme"].turns) == {"end": 2}
        assert sum(model.used.total_tokens for model in figures.tenants["acme"].models.values()) == 5


async def test_the_usage_of_a_sub_agent_is_counted_once() -> None:
    helper = agent([say("found", usage=Usage(7, 1))])
    asks = task("helper", usage=Usage(10, 1))
    spec = SessionSpec(model=ScriptedModel([asks, say("well", usage=Usage(20, 1))]), agents={"helper": helper})
    async with open_supervisor() as supervisor:
        figures = supervisor.figures()
        session = await supervisor.spawn(spec, "a", tenant="acme")
        reply = await session.ask("hi")
        assert reply.usage.total_tokens == 40
        tenant = figures.tenants["acme"]
        assert sum(model.used.total_tokens for model in tenant.models.values()) == 40
        await wait_all_tasks_blocked()
        assert counted(figures) == {"acme": ({"idle": 1}, 0, 0, 0, [])}

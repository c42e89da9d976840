"""A session that has been stopped leaves nothing in reference cycles: it is freed without the garbage collector."""

import gc
from collections import Counter
from collections.abc import Awaitable, Callable, Generator

import pytest
import trio

from agentrail import SessionSpec, Supervisor, open_supervisor
from agentrail.errors import SessionCrashed
from agentrail.runtime.diagnosis import watchdog
from agentrail.testing import ScriptedModel
from bench.load import CallsSlowTool, EndlessModel, SlowTool
from tests.runtime.families import agent, task
from tests.runtime.poison import PoisonedResponse, crash_this_step
from tests.runtime.test_forgetting import delegated, forked, listened_to, never_started, slept, stopped

ROUNDS = 3


async def stopped_in_a_response(supervisor: Supervisor, name: str) -> None:
    session = await supervisor.spawn(SessionSpec(model=EndlessModel()), name)
    await session.prompt("go")
    await trio.sleep(1)
    await session.stop()


async def stopped_in_a_call(supervisor: Supervisor, name: str) -> None:
    session = await supervisor.spawn(SessionSpec(model=CallsSlowTool(), tools=[SlowTool()]), name)
    await session.prompt("go")
    await trio.sleep(1)
    await session.stop()


async def aborted(supervisor: Supervisor, name: str) -> None:
    session = await supervisor.spawn(SessionSpec(model=CallsSlowTool(), tools=[SlowTool()]), name)
    await session.prompt("go")
    await trio.sleep(1)
    await session.abort()
    await session.stop()


async def stopped_with_a_sub_agent_at_work(supervisor: Supervisor, name: str) -> None:
    below = agent(["found"]).but(model=EndlessModel())
    spec = SessionSpec(model=ScriptedModel([task(), "fine"]), agents={"finder": below})
    session = await supervisor.spawn(spec, name)
    await session.prompt("go")
    await trio.sleep(1)
    assert len(session.tasks()) == 1
    await session.stop()


async def crashed(supervisor: Supervisor, name: str) -> None:
    session = await supervisor.spawn(SessionSpec(model=ScriptedModel(["fine"])), name)
    crash_this_step()
    assert (await session.ask("go")).text == "fine"
    assert supervisor.crashes()[-1].done == "restarted"
    await session.stop()


async def crashed_for_good(supervisor: Supervisor, name: str) -> None:
    spec = SessionSpec(model=ScriptedModel(["fine"]))
    session = await supervisor.spawn(spec, name, restart="temporary")
    crash_this_step()
    with pytest.raises(SessionCrashed):
        await session.ask("go")


async def set_aside(supervisor: Supervisor, name: str) -> None:
    session = await supervisor.spawn(SessionSpec(model=ScriptedModel(["poison"]), plugins=[PoisonedResponse()]), name)
    with pytest.raises(SessionCrashed):
        await session.ask("go")
    await trio.sleep(1)
    assert supervisor.crashes()[-1].done == "set_aside"


LIVES = [
    stopped,
    listened_to,
    never_started,
    forked,
    slept,
    delegated,
    stopped_in_a_response,
    stopped_in_a_call,
    aborted,
    crashed,
    crashed_for_good,
    set_aside,
    stopped_with_a_sub_agent_at_work,
]


@pytest.fixture
def _saved(monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    """Keep what the garbage collector finds, and nothing of earlier tests."""
    monkeypatch.setattr(watchdog, "SLOW", 3600.0)
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


@pytest.mark.usefixtures("_saved")
@pytest.mark.parametrize("live", LIVES, ids=lambda it: it.__name__)
async def test_nothing_of_it_is_in_a_cycle(live: Callable[[Supervisor, str], Awaitable[None]]) -> None:
    async with open_supervisor() as supervisor:
        await live(supervisor, "first")  # what is made once in a process may be in cycles
        gc.collect()
        gc.set_debug(gc.DEBUG_SAVEALL)
        for number in range(ROUNDS):
            await live(supervisor, f"s{number}")
        await trio.sleep(1)
        gc.collect()
        assert Counter(type(item).__name__ for item in gc.garbage) == {}

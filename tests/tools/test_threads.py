"""Sync functions as tools: they run in threads, hold up nobody, and are named where they do not end."""

import contextvars
import logging
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial

import pytest
import trio

from agentrail import SessionHandle, open_supervisor
from agentrail.core.machine.tool_results import GRACE_MS
from agentrail.errors import ToolError
from agentrail.events import (
    AgentAbort,
    AgentEnd,
    ToolAbandoned,
    ToolExecutionEnd,
    ToolExecutionMetrics,
    ToolExecutionUpdate,
    ToolSkippedForSteering,
)
from agentrail.models import Data, ToolMessage
from agentrail.runtime.shared.threads import MAX_LEFT, CallThreads, WorkerThreads
from agentrail.runtime.supervision import sessions as exits
from agentrail.testing import ScriptedModel, call, say
from agentrail.tools import Tool, ToolContext, tool
from tests.patience import PATIENCE
from tests.runtime.world import World, open_world, spec_of

WHO: contextvars.ContextVar[str] = contextvars.ContextVar("WHO", default="nobody")


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """A world in real time, for virtual time overtakes threads."""
    async with open_world() as opened:
        yield opened


class Stuck:
    """A sync function that waits until the test lets it go, whatever anybody says."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.go = threading.Event()

        @tool(timeout=600)
        def stuck(ctx: ToolContext, *, talks: bool = False) -> str:
            """Wait."""
            self.begun.set()
            while not self.go.wait(0.001):
                if talks:
                    ctx.report("still here")
            return "let go"

        self.tool = stuck

    async def has_begun(self) -> None:
        with trio.fail_after(PATIENCE):
            await trio.to_thread.run_sync(self.begun.wait, PATIENCE)


@pytest.fixture
def stuck() -> Iterator[Stuck]:
    made = Stuck()
    yield made
    made.go.set()


async def soon(holds: Callable[[], object]) -> None:
    with trio.fail_after(PATIENCE):
        while not holds():  # noqa: ASYNC110 - nobody sets an event for it
            await trio.sleep(0.001)


async def busy(world: World, tool_: Tool) -> SessionHandle:
    session = await world.spawn([say(calls=[call(tool_.spec.name)]), "next", "more"], tools=[tool_])
    await session.prompt("go")
    return session


async def test_it_runs_in_a_thread_of_its_own_and_reports_from_there(world: World) -> None:
    @tool
    def work(ctx: ToolContext) -> list[bool]:
        """Work."""
        ctx.report("half")
        ctx.report("done")
        return [threading.current_thread() is threading.main_thread(), trio.lowlevel.in_trio_run()]

    session = await busy(world, work)
    heard = world.heard(session)
    await soon(lambda: heard.of(AgentEnd))
    assert [event.update for event in heard.of(ToolExecutionUpdate)] == ["half", "done"]
    assert heard.only(ToolExecutionEnd).content == (Data((False, False)),)
    assert heard.only(ToolExecutionMetrics).name == "work"


async def test_what_it_raises_is_what_any_tool_raises(world: World) -> None:
    @tool
    def wrong() -> str:
        """Fail."""
        raise ToolError("not like that")

    @tool
    def broken() -> str:
        """Break."""
        raise OSError("no disk")

    calls = say(calls=[call("wrong"), call("broken")])
    session = await world.spawn([calls, "next"], tools=[wrong, broken])
    reply = await session.ask("go")
    told = [message.text for message in reply.messages if isinstance(message, ToolMessage)]
    assert told[0] == "not like that"
    assert told[1].startswith("the tool failed: OSError: no disk; it may have taken effect")


async def test_it_gets_a_copy_of_the_context_variables_of_whoever_spawned_the_session(world: World) -> None:
    @tool
    def who() -> str:
        """Say who."""
        found = WHO.get()
        WHO.set("somebody else")
        return found

    WHO.set("the spawner")
    session = await world.spawn([say(calls=[call("who")]), say(calls=[call("who")]), "next"], tools=[who])
    WHO.set("later")
    reply = await session.ask("go")
    assert [message.text for message in reply.messages if isinstance(message, ToolMessage)] == ["the spawner"] * 2


async def test_threads_run_side_by_side(world: World) -> None:
    both = threading.Barrier(2, timeout=PATIENCE)

    @tool
    def meet() -> str:
        """Meet the other."""
        both.wait()
        return "met"

    session = await world.spawn([say(calls=[call("meet"), call("meet")]), "next"], tools=[meet])
    reply = await session.ask("go")
    assert [message.text for message in reply.messages if isinstance(message, ToolMessage)] == ["met", "met"]


async def test_an_abort_does_not_wait_for_a_thread_which_is_in_quarantine_until_it_ends(
    world: World, stuck: Stuck
) -> None:
    session = await busy(world, stuck.tool)
    await stuck.has_begun()
    heard = world.heard(session)
    await session.abort()
    assert not session.status().quarantined[0].abandoned
    await soon(lambda: heard.of(AgentAbort))
    assert [one.name for one in session.status().quarantined] == ["stuck"]
    await soon(lambda: heard.of(ToolAbandoned))
    assert heard.only(ToolAbandoned).name == "stuck"
    assert session.status().quarantined[0].abandoned
    assert (await session.ask("go on")).text == "next"
    stuck.go.set()
    await soon(lambda: session.status().quarantined == ())
    assert [message.text for message in session.messages() if isinstance(message, ToolMessage)] == [
        "stopped: user; it may have taken effect; find out before calling it again"
    ]


async def test_steering_does_not_wait_for_a_thread(world: World, stuck: Stuck) -> None:
    session = await busy(world, stuck.tool)
    await stuck.has_begun()
    await session.steer("the other")
    heard = world.heard(session)
    await soon(lambda: heard.of(AgentEnd))
    assert heard.only(ToolSkippedForSteering).name == "stuck"
    await soon(lambda: heard.of(ToolAbandoned))
    stuck.go.set()


async def test_a_thread_that_runs_too_long_is_left(world: World, stuck: Stuck) -> None:
    tool_ = stuck.tool
    tool_.spec = tool_.spec.but(timeout=0.1)
    session = await busy(world, tool_)
    heard = world.heard(session)
    await soon(lambda: heard.of(AgentEnd))
    assert heard.only(ToolExecutionEnd).text.startswith("stopped after 0.1 s, the tool's limit")
    await soon(lambda: heard.of(ToolAbandoned))
    stuck.go.set()


async def test_a_thread_that_reports_ends_when_it_is_stopped(world: World) -> None:
    stuck = Stuck()
    talking = stuck.tool
    session = await world.spawn([say(calls=[call("stuck", {"talks": True})]), "next"], tools=[talking])
    await session.prompt("go")
    heard = world.heard(session)
    await soon(lambda: heard.of(ToolExecutionUpdate))
    began = trio.current_time()
    await session.abort()
    await soon(lambda: session.status().quarantined == ())
    assert not stuck.go.is_set()
    # On a busy machine the thread may get no time for as long as the grace.
    took = trio.current_time() - began
    assert took * 1000 > GRACE_MS or heard.of(ToolAbandoned) == []


async def test_a_supervisor_leaves_without_its_threads_and_names_them(
    stuck: Stuck, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(exits, "STRAGGLER_AFTER", 0.05)
    with caplog.at_level(logging.WARNING, "agentrail.supervisor"), trio.fail_after(PATIENCE):
        async with open_supervisor() as supervisor:
            session = await supervisor.spawn(spec_of(ScriptedModel([say(calls=[call("stuck")])]), tools=[stuck.tool]))
            await session.prompt("go")
            await stuck.has_begun()
    (line,) = (record.getMessage() for record in caplog.records)
    assert line.startswith("threads of tools that do not end are left behind: stuck at ")
    assert not stuck.go.is_set()


async def test_an_async_tool_may_use_threads_too(world: World, stuck: Stuck) -> None:
    @tool
    async def patient(ctx: ToolContext) -> str:
        """Wait a moment."""
        assert ctx.threads is not None
        with trio.move_on_after(0.01):
            await ctx.threads.run(stuck.go.wait)
        return "did not wait"

    session = await busy(world, patient)
    heard = world.heard(session)
    await soon(lambda: heard.of(AgentEnd))
    assert heard.only(ToolExecutionEnd).text == "did not wait"
    assert session.status().quarantined == ()


async def test_beyond_a_number_of_left_threads_no_more_are_started() -> None:
    threads = WorkerThreads()
    go = threading.Event()
    begun: list[int] = []

    def stick() -> None:
        begun.append(1)
        go.wait()

    def has_begun(wanted: int) -> bool:
        return len(begun) == wanted

    for number in range(MAX_LEFT):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(CallThreads(threads, "stuck").run, stick)
            await soon(partial(has_begun, number + 1))
            nursery.cancel_scope.cancel()
    with pytest.raises(ToolError, match=r"64 threads of stopped calls go on, .* they are among `stuck`"):
        await CallThreads(threads, "other").run(go.wait)
    go.set()
    await soon(lambda: threads.names() == ())
    assert await CallThreads(threads, "other").run(lambda: 3) == 3

"""Calls from asyncio: what they return and raise, and what is left of them when they are cancelled."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import traceback
from functools import partial
from operator import attrgetter

import anyio
import pytest
import trio

from agentrail import SessionSpec, aio
from agentrail import open_supervisor as open_trio_supervisor
from agentrail.errors import (
    AgentrailError,
    BadSpec,
    BridgeClosed,
    NotOpened,
    QueueFull,
    SessionExists,
    TurnAborted,
    UnknownArgument,
    UnknownSession,
    UsageError,
    WrongType,
)
from agentrail.testing import ScriptedModel, call, say, stall
from tests.bridge.loops import Run, bare_thread, on_each_loop, on_trio, plain, until
from tests.coded import coded

ANSWERS = SessionSpec(model=ScriptedModel(["hello"], repeat_last=True))
STALLS = SessionSpec(model=ScriptedModel([stall()], repeat_last=True))


@on_each_loop
def test_a_session_is_spawned_asked_and_stopped(run: Run) -> None:
    async def main() -> None:
        async with aio.open_supervisor() as supervisor:
            session = await supervisor.spawn(ANSWERS, "a")
            assert session.id == "a"
            assert (await session.ask("hi")).text == "hello"
            assert supervisor.session("a").id == "a"
            await session.stop()
            with pytest.raises(AgentrailError, match="has ended"):
                await session.ask("again")

    run(main)


@on_each_loop
def test_a_supervisor_is_awaited_and_closed(run: Run) -> None:
    async def main() -> None:
        supervisor = await aio.open_supervisor()
        session = await supervisor.spawn(ANSWERS)
        assert (await session.ask("hi")).text == "hello"
        await supervisor.close()
        await supervisor.close()
        with pytest.raises(BridgeClosed, match="open another"):
            await session.ask("hi")

    run(main)


def test_errors_pass_as_they_are_and_show_both_sides() -> None:
    async def main() -> None:
        async with aio.open_supervisor() as supervisor:
            await supervisor.spawn(ANSWERS, "a")
            with pytest.raises(SessionExists) as raised:
                await supervisor.spawn(ANSWERS, "a")
            names = [frame.name for frame in traceback.extract_tb(raised.value.__traceback__)]
            assert "main" in names
            assert names.count("spawn") == 2
            with pytest.raises(UnknownSession):
                supervisor.session("b")
            with pytest.raises(BadSpec):
                await supervisor.spawn(SessionSpec())
            with pytest.raises(WrongType):
                await supervisor.spawn("demo")  # type: ignore[arg-type]

    plain(main)


def test_wrong_options_are_refused_before_anything_is_opened() -> None:
    with pytest.raises(UnknownArgument):
        aio.open_supervisor(stratgy="one_for_one")  # type: ignore[call-arg]
    with pytest.raises(WrongType):
        aio.open_supervisor(journal=3)  # type: ignore[arg-type]


def test_a_supervisor_that_is_not_open_says_how_to_open_it() -> None:
    opening: object = aio.open_supervisor()
    with pytest.raises(NotOpened, match=r"write `async with aio\.open_supervisor\(\) as supervisor:`"):
        attrgetter("spawn")(opening)
    with pytest.raises(AttributeError, match="has no `spwan`"):
        attrgetter("spwan")(opening)


def test_each_caller_gets_an_error_of_its_own() -> None:
    async def main() -> None:
        async with aio.open_supervisor() as supervisor:
            session = await supervisor.spawn(STALLS)
            asking = [asyncio.create_task(session.ask("hi")) for _ in range(3)]
            await until(lambda: len(session.queued()) == 2)
            await session.abort(clear_queue=True)
            errors = await asyncio.gather(*asking, return_exceptions=True)
            assert [isinstance(error, AgentrailError) for error in errors] == [True] * 3
            assert len(set(map(id, errors))) == 3

    plain(main)


@on_each_loop
def test_a_cancelled_call_is_cancelled_on_trio_and_waited_for(run: Run) -> None:
    async def main() -> None:
        async with bare_thread() as thread:
            begun, ended = list[str](), list[str]()

            async def work() -> None:
                begun.append("on Trio")
                try:
                    await trio.sleep_forever()
                finally:
                    with trio.CancelScope(shield=True):
                        for _ in range(10):
                            await trio.lowlevel.checkpoint()
                    ended.append("on Trio")

            call = asyncio.create_task(thread.call(work))
            await until(lambda: begun)
            for reason in ("enough", "really", "at once"):
                call.cancel(reason)
                await asyncio.sleep(0)
            with pytest.raises(asyncio.CancelledError, match="enough"):  # the first one counts
                await call
            assert ended == ["on Trio"]

    run(main)


def test_cancellation_wins_over_an_answer_that_has_come() -> None:
    async def main() -> None:
        async with bare_thread() as thread:
            answered = threading.Event()

            async def work() -> int:
                await trio.lowlevel.checkpoint()
                thread.post(answered.set)
                return 3

            call = asyncio.create_task(thread.call(work))
            await asyncio.sleep(0)
            answered.wait()  # the loop cannot take the answer meanwhile
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call

    plain(main)


@pytest.mark.parametrize("makes", [True, False])
def test_what_a_call_has_made_when_it_is_cancelled_is_undone(makes: bool) -> None:
    async def main() -> None:
        async with bare_thread() as thread:
            undone, has_begun = list[str](), threading.Event()

            async def make() -> str:
                has_begun.set()
                try:
                    await trio.sleep_forever()
                except trio.Cancelled:
                    if not makes:
                        raise
                return "made"

            async def undo(value: str) -> None:
                await trio.lowlevel.checkpoint()
                undone.append(value)

            call = asyncio.create_task(thread.call(make, undo))
            await until(has_begun.is_set)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            assert undone == (["made"] if makes else [])

    plain(main)


@pytest.mark.long
def test_a_session_whose_handle_nobody_gets_is_stopped() -> None:
    async def main() -> None:
        async with aio.open_supervisor() as supervisor:
            for turns in range(40):
                spawning = asyncio.create_task(supervisor.spawn(ANSWERS, f"s{turns}"))
                for _ in range(turns):
                    await asyncio.sleep(0.0002)  # to cut it at another moment each time
                spawning.cancel()
                await asyncio.wait([spawning])
                if not spawning.cancelled():
                    assert [session.id for session in supervisor.sessions()] == [f"s{turns}"]
                    await spawning.result().stop()
            assert supervisor.sessions() == ()

    plain(main)


def test_timeouts_of_asyncio_work_around_calls() -> None:
    async def main() -> None:
        async with aio.open_supervisor() as supervisor:
            session = await supervisor.spawn(STALLS)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await session.ask("hi")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(session.ask("hi"), 0.01)
            await session.abort()

    plain(main)


def test_calls_that_wait_when_the_supervisor_is_left_raise() -> None:
    async def main() -> None:
        async with aio.open_supervisor() as supervisor:
            session = await supervisor.spawn(STALLS)
            asking = [asyncio.create_task(session.ask("hi")) for _ in range(3)]
            await asyncio.sleep(0)
            await session.label()
        errors = await asyncio.gather(*asking, return_exceptions=True)
        assert [type(error) for error in errors] == [BridgeClosed] * 3
        assert len(set(map(id, errors))) == 3

    plain(main)


def test_calls_from_other_loops_and_threads_are_answered_where_they_came_from() -> None:
    async def main() -> None:
        async with aio.open_supervisor() as supervisor:
            session = await supervisor.spawn(ANSWERS)
            answers: list[str | None] = []

            async def ask() -> None:
                answers.append((await session.ask("hi")).text)

            await asyncio.gather(*(asyncio.to_thread(partial(asyncio.run, ask())) for _ in range(3)), ask())
            assert answers == ["hello"] * 4

    plain(main)


def test_two_supervisors_in_one_loop_and_two_runs_one_after_the_other() -> None:
    async def main() -> None:
        async with aio.open_supervisor() as supervisor, aio.open_supervisor() as other:
            first, second = await asyncio.gather(supervisor.spawn(ANSWERS, "x"), other.spawn(ANSWERS, "x"))
            assert (await first.ask("hi")).text == (await second.ask("hi")).text

    plain(main)
    plain(main)


def test_a_call_runs_in_a_copy_of_the_context_of_its_caller() -> None:
    variable = contextvars.ContextVar("variable", default="nothing")

    async def main() -> None:
        async with bare_thread() as thread:
            variable.set("of the caller")
            assert await on_trio(thread, variable.get) == "of the caller"
            await on_trio(thread, partial(variable.set, "on Trio"))
            assert variable.get() == "of the caller"

    plain(main)


def test_a_handle_under_the_wrong_loop_says_which_module_to_use() -> None:
    async def main() -> None:
        async with aio.open_supervisor() as supervisor:
            session = await supervisor.spawn(ANSWERS)
            with pytest.raises(WrongType, match=r"agentrail\.open_supervisor"):
                await asyncio.to_thread(partial(trio.run, partial(session.prompt, "hi")))

    plain(main)

    async def trio_main() -> None:
        async with open_trio_supervisor() as supervisor:
            session = await supervisor.spawn(ANSWERS)
            with pytest.raises(UsageError, check=coded("not-in-its-run"), match=r"agentrail\.aio"):
                await trio.to_thread.run_sync(lambda: asyncio.run(session.ask("hi")))

    trio.run(trio_main)

    async def opened() -> None:
        async with open_trio_supervisor():
            pass

    with pytest.raises(UsageError, check=coded("no-trio-run"), match=r"agentrail\.aio"):
        asyncio.run(opened())


def test_a_call_that_raises_stop_iteration_raises_a_runtime_error() -> None:
    async def main() -> None:
        async with bare_thread() as thread:
            with pytest.raises(RuntimeError):
                await on_trio(thread, partial(next, iter(())))

    plain(main)


def test_no_cancellation_of_trio_leaves_the_thread() -> None:
    async def main() -> None:
        async with bare_thread() as thread:

            async def work() -> None:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(trio.sleep_forever)
                    nursery.cancel_scope.cancel()
                    raise ValueError("mine")

            with pytest.raises(ExceptionGroup) as raised:
                await thread.call(work)
            assert [type(error) for error in raised.value.exceptions] == [ValueError]

    plain(main)


def test_what_changes_while_it_is_looked_at_is_looked_at_again() -> None:
    async def main() -> None:
        async with bare_thread() as thread:
            sessions = {"a": 1}

            def count() -> int:
                total = 0
                for number in sessions.values():
                    sessions.setdefault("b", 2)  # as another thread might do: the first look fails
                    total += number
                return total

            assert thread.look(count) == 3

            def fail() -> int:
                looks.append(1)
                raise RuntimeError("something else")

            looks: list[int] = []
            with pytest.raises(RuntimeError, match="something else"):
                thread.look(fail)
            assert looks == [1]

    plain(main)


@pytest.mark.campaign
@pytest.mark.long
def test_what_is_looked_at_may_change_meanwhile() -> None:
    async def main() -> None:
        async with aio.open_supervisor() as supervisor:
            is_over = False

            async def churn(name: str) -> None:
                for number in range(30):
                    session = await supervisor.spawn(ANSWERS, f"{name}{number}")
                    await session.ask("hi")
                    await session.stop()

            def look() -> int:
                count = 0
                while not is_over:
                    supervisor.tree()
                    supervisor.approvals()
                    count += sum(session.status().turn for session in supervisor.sessions())
                return count

            looking = [asyncio.create_task(asyncio.to_thread(look)) for _ in range(2)]
            await asyncio.gather(*map(churn, "abcd"))
            is_over = True
            await asyncio.gather(*looking)

    plain(main)


def test_a_loop_that_is_blocked_holds_up_no_session() -> None:
    async def main() -> None:
        async with aio.open_supervisor() as supervisor:
            session = await supervisor.spawn(ANSWERS)
            await session.prompt("hi")
            while not session.messages()[1:]:  # without giving anything up to the loop
                threading.Event().wait(0.001)

    plain(main)


def test_a_tool_that_asks_its_own_session_is_told() -> None:
    async def main() -> None:
        async with aio.open_supervisor() as supervisor:
            sessions: list[aio.SessionHandle] = []

            @aio.tool
            async def ask() -> str:
                """Ask."""
                with pytest.raises(UsageError, check=coded("asks-itself")):
                    await sessions[0].ask("hi")
                later.append(asyncio.create_task(ask_later()))
                return "refused"

            async def ask_later() -> str | None:
                await until(lambda: len(sessions[0].messages()) == 4)
                return (await sessions[0].ask("and now")).text

            later: list[asyncio.Task[str | None]] = []
            model = ScriptedModel([say(calls=[call("ask")]), "finished", "later"])
            sessions.append(await supervisor.spawn(SessionSpec(model=model, tools=[ask])))
            assert (await sessions[0].ask("go")).text == "finished"
            assert "refused" in str(sessions[0].messages()[2])
            assert await later[0] == "later"  # the tool is over, though the task has its context

    plain(main)


def test_cancel_scopes_and_task_groups_of_anyio_work_on_asyncio() -> None:
    async def main() -> None:
        async with aio.open_supervisor() as supervisor:
            session, other = await supervisor.spawn(STALLS), await supervisor.spawn(ANSWERS)
            with anyio.move_on_after(0.01) as scope:
                await session.ask("hi")
            assert scope.cancelled_caught
            with pytest.raises(ExceptionGroup) as raised:  # noqa: PT012 - it comes out of the group
                async with anyio.create_task_group() as group:
                    group.start_soon(session.ask, "hi")
                    assert (await other.ask("hi")).text == "hello"
                    await until(lambda: session.status().queued)
                    raise ValueError("mine")
            assert [type(error) for error in raised.value.exceptions] == [ValueError]

    plain(main)


def test_an_aborted_turn_raises_for_who_asked() -> None:
    async def main() -> None:
        async with aio.open_supervisor() as supervisor:
            session = await supervisor.spawn(STALLS.but(max_prompt_queue=1))
            asking = asyncio.create_task(session.ask("hi"))
            await until(lambda: session.status().turn_open)
            await session.prompt("and this")
            with pytest.raises(QueueFull):
                await session.prompt("and that")
            await session.abort("no")
            with pytest.raises(TurnAborted):
                await asking

    plain(main)

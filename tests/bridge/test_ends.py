"""How a supervisor outside of Trio ends: left, failed, its loop closed, its process forked."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
import trio

from agentrail import SessionSpec, aio, sync
from agentrail.errors import BridgeClosed, BridgeForked, SupervisorFailed, UsageError
from agentrail.journals import SqliteJournal
from agentrail.testing import ScriptedModel, call, say, stall
from tests.bridge.loops import Run, on_each_loop, plain, until
from tests.patience import PATIENCE

ANSWERS = SessionSpec(model=ScriptedModel(["hello"], repeat_last=True))
STALLS = SessionSpec(model=ScriptedModel([stall()], repeat_last=True))


async def crash() -> None:
    await trio.lowlevel.checkpoint()
    raise ValueError("mine")


def threads() -> set[str]:
    return {thread.name for thread in threading.enumerate() if thread.name == "agentrail"}


@on_each_loop
def test_a_supervisor_that_fails_cancels_the_body_and_says_why(run: Run) -> None:
    async def main() -> None:
        session: aio.SessionHandle | None = None
        with pytest.raises(SupervisorFailed):  # noqa: PT012 - it comes out of the `async with`
            async with aio.open_supervisor(max_restarts=0) as supervisor:
                session = await supervisor.spawn(ANSWERS)
                await supervisor.start_service(_ready_then_crash, "service")
                await asyncio.sleep(PATIENCE)
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0
        assert session is not None
        with pytest.raises(BridgeClosed):
            await session.ask("hi")

    run(main)
    assert threads() == set()


async def _ready_then_crash(*, task_status: trio.TaskStatus[None]) -> None:
    task_status.started()
    await crash()


def test_an_error_of_the_body_and_a_failure_come_together() -> None:
    async def main() -> None:
        with pytest.raises(BaseExceptionGroup) as raised:  # noqa: PT012 - as above
            async with aio.open_supervisor(max_restarts=0) as supervisor:
                try:  # around both: the failure may come before the first returns
                    await supervisor.start_service(_ready_then_crash, "service")
                    await asyncio.sleep(PATIENCE)
                finally:
                    raise ValueError("of the body")
        assert {type(error) for error in raised.value.exceptions} == {ValueError, SupervisorFailed}

    plain(main)


def test_who_awaited_a_supervisor_that_fails_learns_it_when_closing() -> None:
    async def main() -> None:
        supervisor = await aio.open_supervisor(max_restarts=0)
        await supervisor.start_service(_ready_then_crash, "service")
        await until(lambda: not threads())
        with pytest.raises(BridgeClosed):
            await supervisor.spawn(ANSWERS)
        with pytest.raises(SupervisorFailed):
            await supervisor.close()
        await supervisor.close()  # it was raised once

    plain(main)


def test_an_opening_that_fails_or_is_cancelled_leaves_no_thread(tmp_path: Path) -> None:
    async def main() -> None:
        async def never() -> SessionSpec:
            await trio.sleep_forever()
            return ANSWERS

        async def opened() -> aio.RootSupervisor:
            return await aio.open_supervisor(specs={"x": never})

        opening = asyncio.create_task(opened())
        await asyncio.sleep(0)
        opening.cancel()
        await asyncio.wait([opening])
        if not opening.cancelled():  # it was open before it was cancelled
            await opening.result().close()
        assert threads() == set()
        first = SqliteJournal(tmp_path / "journal.db")
        async with aio.open_supervisor(journal=first) as supervisor:
            await (await supervisor.spawn(STALLS.but(name="x"), "a")).prompt("hi")
        async with aio.open_supervisor(journal=SqliteJournal(tmp_path / "journal.db")) as supervisor:
            assert [stored.session_id for stored in await supervisor.stored()] == ["a"]
            session = await supervisor.resume("a", ANSWERS)
            assert (await session.ask("and again")).text == "hello"

    plain(main)


def abandon(main: Callable[[], Coroutine[object, object, None]]) -> None:
    """Run *main* in a loop that is closed while tasks still wait in it."""
    loop = asyncio.new_event_loop()
    loop.run_until_complete(main())
    for task in asyncio.all_tasks(loop):
        setattr(task, "_log_destroy_pending", False)  # noqa: B010 - it is destroyed on purpose, and would say so
    loop.close()


def test_a_loop_that_is_closed_early_ends_the_thread_and_parks_the_sessions(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    released = threading.Event()

    def wait() -> str:
        """Wait."""
        released.wait(PATIENCE)
        return "released"

    async def main() -> None:
        supervisor = await aio.open_supervisor(journal=SqliteJournal(tmp_path / "journal.db"))
        model = ScriptedModel([say(calls=[call("wait")]), "finished"])
        session = await supervisor.spawn(SessionSpec(name="x", model=model, tools=[wait]), "a")
        asking = asyncio.create_task(session.ask("go"))
        await until(lambda: session.status().phase == "executing_tools")
        assert not asking.done()

    with caplog.at_level(logging.ERROR, "agentrail.bridge"):
        abandon(main)
        released.set()
        (thread,) = (thread for thread in threading.enumerate() if thread.name == "agentrail")
        thread.join(PATIENCE)
        assert not thread.is_alive()
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == ["loop-gone"]

    async def again() -> None:
        async with aio.open_supervisor(journal=SqliteJournal(tmp_path / "journal.db")) as supervisor:
            assert [stored.session_id for stored in await supervisor.stored()] == ["a"]

    plain(again)


def test_tools_of_a_loop_that_is_gone_are_dead_and_end(caplog: pytest.LogCaptureFixture) -> None:
    begun = threading.Event()
    handles: list[aio.SessionHandle] = []

    @aio.tool
    async def wait() -> str:
        """Wait."""
        begun.set()
        await asyncio.sleep(PATIENCE)
        return "never"

    async def main() -> None:
        supervisor = await aio.open_supervisor()
        model = ScriptedModel([say(calls=[call("wait")]), "finished"])
        handles.append(await supervisor.spawn(SessionSpec(model=model, tools=[wait])))
        await handles[0].prompt("go")
        await until(begun.is_set)

    async def abort() -> None:
        with suppress(BridgeClosed):
            await handles[0].abort()  # which cancels the tool, and so finds the loop closed

    abandon(main)
    with caplog.at_level(logging.ERROR, "agentrail.bridge"):
        (thread,) = (thread for thread in threading.enumerate() if thread.name == "agentrail")
        asyncio.run(abort())
        thread.join(PATIENCE)
    assert not thread.is_alive()
    assert str(UsageError("loop-gone")) in caplog.text


def threaded(work: Callable[[], object]) -> object:
    """Return what *work* returns in another thread, or raise what it raises."""
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(work).result(PATIENCE)


def in_a_fork(work: Callable[[], object]) -> str:
    """Return the error that *work* raises in a process that is forked from this one, as text."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            text = f"returned {work()!r}"
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is told
            text = f"{type(error).__name__}: {error}"
        os.write(writing, text.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return text


@pytest.mark.long
def test_a_fork_has_no_supervisor_and_says_so() -> None:
    async def main() -> None:
        async with aio.open_supervisor() as supervisor:
            session = await supervisor.spawn(ANSWERS)

            def ask() -> object:
                return asyncio.new_event_loop().run_until_complete(session.ask("hi"))

            def forked() -> object:
                return threaded(ask)  # a loop runs in the thread that forked

            text = in_a_fork(forked)
            assert text.startswith(f"{BridgeForked.__name__}: the supervisor lives in process {os.getpid()}; this is ")
            assert (await session.ask("hi")).text == "hello"

    plain(main)


@pytest.mark.long
def test_a_fork_of_a_script_ends_without_its_supervisor() -> None:
    with sync.open_supervisor() as supervisor:
        session = supervisor.spawn(ANSWERS)
        assert in_a_fork(lambda: session.ask("hi")).startswith(BridgeForked.__name__)
        assert in_a_fork(supervisor.close).startswith(BridgeForked.__name__)
    code = "import os; from agentrail import sync; sync.open_supervisor(); os.fork(); print('ends', flush=True)"
    command = [sys.executable, "-c", code]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True)  # noqa: S603
    assert ran.stdout.count("ends") == 2


@pytest.mark.long
def test_an_opening_may_be_cancelled_at_any_moment() -> None:
    async def main() -> None:
        async def opened() -> None:
            async with aio.open_supervisor():
                await asyncio.sleep(0)

        for number in range(60):
            opening = asyncio.create_task(opened())
            await asyncio.sleep(number * 0.0002)
            opening.cancel()
            await asyncio.wait([opening])
            assert opening.cancelled() or opening.exception() is None
            assert threads() == set()

    plain(main)


def test_a_supervisor_may_be_closed_by_several_at_once() -> None:
    async def main() -> None:
        supervisor = await aio.open_supervisor()
        await supervisor.spawn(ANSWERS)
        await asyncio.gather(*(supervisor.close() for _ in range(5)))

    plain(main)

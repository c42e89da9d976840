"""Calls that block: scripts, notebooks and threads."""

from __future__ import annotations

import asyncio
import atexit
import signal
import sys
import threading
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass

import pytest
import trio

from agentrail import SessionSpec, run_sync, sync
from agentrail.errors import BridgeClosed, SessionExists, SubscriberTooSlow, SupervisorFailed, UsageError
from agentrail.events import AgentEnd, Envelope, MessageDelta, ToolExecutionEnd, ToolExecutionStart
from agentrail.testing import ScriptedModel, call, say, stall
from tests.patience import PATIENCE

ANSWERS = SessionSpec(model=ScriptedModel(["hello there"], repeat_last=True))
STALLS = SessionSpec(model=ScriptedModel([stall()], repeat_last=True))


@dataclass
class Sum:
    total: int


def calling(name: str) -> ScriptedModel:
    return ScriptedModel([say(calls=[call(name)]), "finished"])


def test_a_script_asks_and_closes() -> None:
    assert run_sync("hi", ANSWERS).text == "hello there"
    assert "agentrail" not in {thread.name for thread in threading.enumerate()}


def test_a_script_hears_every_event_of_its_turn_in_its_own_thread() -> None:
    heard: list[tuple[Envelope, threading.Thread]] = []
    chunks = SessionSpec(model=ScriptedModel([say(chunks=["x"] * 2000)]))
    reply = run_sync("hi", chunks, on_event=lambda envelope: heard.append((envelope, threading.current_thread())))
    events = [envelope.event for envelope, _ in heard]
    assert {thread for _, thread in heard} == {threading.current_thread()}
    assert isinstance(events[-1], AgentEnd)
    assert sum(len(event.delta) for event in events if isinstance(event, MessageDelta)) == len(reply.text or "") == 2000


def test_a_function_that_takes_its_time_hears_every_event_too() -> None:
    heard: list[Envelope] = []

    with sync.open_supervisor() as supervisor:

        def hear(envelope: Envelope) -> None:
            heard.append(envelope)
            (session,) = supervisor.sessions()
            while session.status().turn_open or not session.messages():  # until then, events have no room any more
                threading.Event().wait(0.001)

        supervisor.run("hi", SessionSpec(model=ScriptedModel([say(chunks=["x"] * 2000)])), on_event=hear)
    texts = [envelope.event.delta for envelope in heard if isinstance(envelope.event, MessageDelta)]
    assert len("".join(texts)) == 2000


def test_a_script_gets_an_answer_in_a_form() -> None:
    heard: list[Envelope] = []
    answers = SessionSpec(model=ScriptedModel(['{"total": "much"}', '{"total": 7}'] * 2))
    assert run_sync("How much?", answers, returns=Sum) == Sum(7)
    assert run_sync("How much?", answers, returns=Sum, on_event=heard.append).total == 7
    assert isinstance(heard[-1].event, AgentEnd)


def test_an_error_of_the_function_ends_the_script() -> None:
    def fail(_: Envelope) -> None:
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        run_sync("hi", STALLS, on_event=fail)
    assert "agentrail" not in {thread.name for thread in threading.enumerate()}


def test_a_supervisor_lives_until_it_is_closed() -> None:
    supervisor = sync.open_supervisor()
    session = supervisor.spawn(ANSWERS, "a")
    assert session.ask("hi").text == "hello there"
    with pytest.raises(SessionExists):
        supervisor.spawn(ANSWERS, "a")
    assert supervisor.run("hi", ANSWERS).text == "hello there"
    supervisor.close()
    supervisor.close()
    with pytest.raises(BridgeClosed):
        session.ask("hi")


def test_events_are_read_in_a_loop() -> None:
    with sync.open_supervisor() as supervisor:
        session = supervisor.spawn(ANSWERS)
        with session.subscribe(types=[MessageDelta, AgentEnd]) as events:
            session.prompt("hi")
            texts = []
            for envelope in events:
                if isinstance(envelope.event, AgentEnd):
                    break
                texts.append(envelope.event)
            assert [event.delta for event in texts if isinstance(event, MessageDelta)] == ["hello ", "there"]
        with session.trace() as steps, session.monitor() as down:
            session.label(title="x")
            assert type(next(iter(steps)).input).__name__ == "LabelSent"
            session.stop("enough")
            assert down.wait().reason == "enough"
            assert list(steps) is not None


def test_a_reader_that_is_too_slow_gets_its_error() -> None:
    with sync.open_supervisor() as supervisor:
        session = supervisor.spawn(SessionSpec(model=ScriptedModel([say(chunks=["x"] * 2000)])))
        with session.subscribe(policy="disconnect", window=8, capacity=16) as events:
            session.ask("hi")
            with pytest.raises(SubscriberTooSlow):
                list(events)


def test_several_threads_share_a_supervisor() -> None:
    answers: list[str | None] = []
    with sync.open_supervisor() as supervisor:
        threads = [
            threading.Thread(target=lambda: answers.append(supervisor.spawn(ANSWERS).ask("hi").text)) for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
    assert answers == ["hello there"] * 4


def interrupted(blocking: Callable[[], object], is_time: Callable[[], object]) -> None:
    """Interrupt this thread, which is the main one, as Ctrl-C does, while it is in *blocking* and *is_time*."""
    main, begun = threading.get_ident(), threading.Event()

    def interrupt() -> None:
        begun.wait(PATIENCE)
        while not is_time():
            threading.Event().wait(0.001)
        signal.pthread_kill(main, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012 - it may come as soon as it may come
        begun.set()
        blocking()
    thread.join()


def test_an_interrupt_ends_a_blocking_call_and_cancels_it_on_trio() -> None:
    with sync.open_supervisor() as supervisor:
        session = supervisor.spawn(STALLS)
        interrupted(lambda: session.ask("hi"), lambda: session.status().turn_open)
        session.abort()
        assert not session.status().turn_open
        with session.subscribe() as events:
            interrupted(lambda: list(events), lambda: True)
        with session.monitor() as down:
            interrupted(down.wait, lambda: True)


def test_marked_code_gets_a_loop_of_its_own() -> None:
    @sync.tool
    async def where() -> str:
        """Say where."""
        await asyncio.sleep(0)
        return threading.current_thread().name

    with sync.open_supervisor() as supervisor:
        session = supervisor.spawn(SessionSpec(model=calling("where"), tools=[where]))
        with session.subscribe(types=[ToolExecutionEnd]) as events:
            session.ask("go")
            ended = next(iter(events)).event
            assert isinstance(ended, ToolExecutionEnd)
            assert ended.text == "agentrail loop"
    assert "agentrail loop" not in {thread.name for thread in threading.enumerate()}


def test_what_marked_code_has_left_half_read_ends_with_its_loop() -> None:
    ended: list[str] = []

    async def numbers() -> AsyncGenerator[int]:
        try:
            yield 1
        finally:
            await asyncio.sleep(0)
            ended.append("ended")

    half_read = numbers()

    @sync.tool
    async def count() -> int:
        """Count."""
        return await anext(half_read)

    with sync.open_supervisor() as supervisor:
        model = ScriptedModel([say(calls=[call("count")]), "fine"])
        assert supervisor.spawn(SessionSpec(model=model, tools=[count])).ask("go").text == "fine"
        assert ended == []
    assert ended == ["ended"]


def test_a_tool_that_exits_ends_nothing_else() -> None:
    @sync.tool
    async def leave() -> str:
        """Leave."""
        sys.exit(3)

    with sync.open_supervisor() as supervisor:
        session = supervisor.spawn(SessionSpec(model=calling("leave"), tools=[leave]))
        assert session.ask("go").text == "finished"
        assert "SystemExit: 3" in str(session.messages()[2])


def test_a_task_of_a_marked_tool_that_exits_ends_nothing_else() -> None:
    """asyncio ends its loop when any task raises `SystemExit`, also one that the tool has started and waits for."""
    begun = threading.Event()

    async def leave() -> None:
        sys.exit(3)

    async def stay() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            sys.exit(4)

    @sync.tool
    async def share() -> str:
        """Share the work."""
        stays = asyncio.create_task(stay())
        begun.set()
        await asyncio.gather(leave(), return_exceptions=True)
        return f"shared, {'done' if stays.done() else 'and one goes on'}"

    with sync.open_supervisor() as supervisor:
        session = supervisor.spawn(SessionSpec(model=calling("share"), tools=[share]))
        assert session.ask("go").text == "finished"
        assert "and one goes on" in str(session.messages()[2])
    assert begun.is_set()
    assert "agentrail loop" not in {thread.name for thread in threading.enumerate()}


def test_an_interrupt_that_a_tool_raises_ends_the_supervisor_as_it_does_on_trio() -> None:
    @sync.tool
    async def on_the_loop() -> str:
        """Interrupt."""
        raise KeyboardInterrupt

    async def on_trio() -> str:
        """Interrupt."""
        raise KeyboardInterrupt

    for function in (on_the_loop, on_trio):
        supervisor = sync.open_supervisor()
        session = supervisor.spawn(SessionSpec(model=calling(getattr(function, "__name__", "")), tools=[function]))
        with pytest.raises(BridgeClosed):
            session.ask("go")
        with pytest.raises(KeyboardInterrupt):
            supervisor.close()


def test_a_call_that_would_never_return_is_refused() -> None:
    with sync.open_supervisor() as supervisor:
        errors: list[str] = []
        spawning = supervisor.spawn(ANSWERS)

        def ask() -> None:
            try:
                spawning.ask("hi")
            except UsageError as error:
                errors.append(f"{error.code}: {error}")

        @sync.tool
        async def on_the_loop() -> str:
            """Ask."""
            ask()
            await asyncio.sleep(0)
            return "asked"

        async def on_trio() -> str:
            """Ask."""
            ask()
            await trio.lowlevel.checkpoint()
            return "asked"

        def in_a_thread() -> str:
            """Ask."""
            return spawning.ask("hi").text or ""

        for function in (on_the_loop, on_trio, in_a_thread):
            name = getattr(function, "__name__", "")
            supervisor.spawn(SessionSpec(model=calling(name), tools=[function])).ask("go")
        assert [message.partition(":")[0] for message in errors] == ["would-deadlock"] * 2
        assert "asyncio.to_thread" in errors[0]
        assert "plain `def`" in errors[1]
        assert spawning.status().turn == 1


async def ready_then_crash(*, task_status: trio.TaskStatus[None]) -> None:
    task_status.started()
    await trio.lowlevel.checkpoint()
    raise ValueError("of the service")


def test_an_error_of_the_body_and_one_of_the_end_come_together() -> None:
    with pytest.raises(ValueError, match="mine"), sync.open_supervisor() as supervisor:  # noqa: PT012 - it is the body
        supervisor.spawn(ANSWERS)
        raise ValueError("mine")
    with pytest.raises(BaseExceptionGroup) as raised, sync.open_supervisor(max_restarts=0) as supervisor:  # noqa: PT012 - as above
        try:  # around both: the failure may come before the first returns
            supervisor.start_service(ready_then_crash, "service")
        finally:
            raise ValueError("mine")
    assert [type(error) for error in raised.value.exceptions] == [ValueError, SupervisorFailed]


def test_the_end_of_the_program_closes_what_is_open_and_nothing_is_kept_of_what_was_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at_exit: list[Callable[[], None]] = []
    monkeypatch.setattr(atexit, "register", at_exit.append)
    monkeypatch.setattr(atexit, "unregister", at_exit.remove)
    closed = sync.open_supervisor()
    left_open = sync.open_supervisor()
    closed.close()
    (close,) = at_exit
    session = left_open.spawn(ANSWERS)
    close()
    with pytest.raises(BridgeClosed):
        session.ask("hi")


def test_marked_code_that_is_cancelled_before_its_loop_has_time_for_it_does_not_run() -> None:
    is_blocked, may_go_on, ran = threading.Event(), threading.Event(), list[str]()

    @sync.tool
    async def block() -> str:
        """Block the loop."""
        is_blocked.set()
        may_go_on.wait(PATIENCE)
        return "done"

    @sync.tool
    async def run() -> str:
        """Run."""
        ran.append("run")
        return "ran"

    with sync.open_supervisor() as supervisor:
        supervisor.spawn(SessionSpec(model=calling("block"), tools=[block])).prompt("go")
        assert is_blocked.wait(PATIENCE)
        session = supervisor.spawn(SessionSpec(model=calling("run"), tools=[run]))
        with session.subscribe(types=[ToolExecutionStart]) as events:
            session.prompt("go")
            next(events)
        session.label()  # Trio has begun with the call
        session.abort()
        may_go_on.set()
    assert ran == []

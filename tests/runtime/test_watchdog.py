"""The watchdog's thread: it logs slow steps, and the loop goes on while it writes."""

import ctypes
import logging
import math
import re
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack

import pytest
import trio
import trio.testing

from agentrail import Supervisor, open_supervisor
from agentrail.models import JsonObject
from agentrail.runtime.diagnosis import pulse as pulses
from agentrail.runtime.diagnosis import watchdog
from agentrail.runtime.diagnosis.pulse import Pulse
from agentrail.runtime.diagnosis.stacks import PACKAGE, Scratch
from agentrail.runtime.diagnosis.watchdog import Alarm, KernelAlarm, Watchdog
from agentrail.testing import ScriptedModel, call, say
from agentrail.tools import ToolContext, ToolResult, ok
from tests.runtime.tools import fake
from tests.runtime.world import spec_of

pytestmark = pytest.mark.usefixtures("of_watchdog")

LONG = 30.0
"""More seconds than anything here takes, unless something is broken."""


class Slow(logging.Handler):
    """A log handler that waits in each line until it may go on."""

    def __init__(self) -> None:
        super().__init__()
        self.writing = threading.Semaphore(0)
        self.may_write = threading.Event()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage().partition(" has held")[0])
        self.writing.release()
        self.may_write.wait(LONG)


@pytest.fixture
def kind(alarm_kind: type[Alarm], monkeypatch: pytest.MonkeyPatch) -> type[Alarm]:
    """Count every step as slow at once, with one kind of alarm."""
    monkeypatch.setattr(watchdog, "SLOW", 0.01)
    return alarm_kind


@pytest.fixture
def written() -> Iterator[Slow]:
    """Write the watchdog's lines with a handler that waits."""
    handler = Slow()
    log = logging.getLogger("agentrail.watchdog")
    log.addHandler(handler)
    log.propagate = False
    yield handler
    log.propagate = True
    log.removeHandler(handler)


def test_one_that_is_closed_while_it_writes_ends(
    kind: type[Alarm], written: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchdog, "BLOCKED", 0.01)
    woken = threading.Event()
    set_before = kind.set

    def noted(self: Alarm, seconds: float) -> None:
        set_before(self, seconds)
        if not seconds:
            woken.set()

    monkeypatch.setattr(kind, "set", noted)
    dog = Watchdog()
    dog.start()
    dog.begin("mine", "PromptSent", time.perf_counter())
    assert written.writing.acquire(timeout=LONG)
    dog.step = None
    closing = threading.Thread(target=dog.close, daemon=True)
    closing.start()
    assert woken.wait(LONG)
    written.may_write.set()
    closing.join(LONG)
    assert not closing.is_alive()


@pytest.mark.usefixtures("kind")
def test_a_slow_step_behind_another_is_named_too(written: Slow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "BLOCKED", 3600.0)
    dog = Watchdog()
    dog.start()
    dog.begin("first", "PromptSent", time.perf_counter())
    assert written.writing.acquire(timeout=LONG)
    dog.step = None
    dog.begin("second", "StreamEnded", time.perf_counter())
    written.may_write.set()
    assert written.writing.acquire(timeout=LONG)
    dog.close()
    assert written.lines == ["session first: `PromptSent`", "session second: `StreamEnded`"]


def test_one_whose_thread_cannot_start_holds_nothing(kind: type[Alarm], monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[Alarm] = []
    close_before = kind.close

    def noted(self: Alarm) -> None:
        close_before(self)
        closed.append(self)

    monkeypatch.setattr(kind, "close", noted)
    monkeypatch.setattr(threading.Thread, "start", _no_more)
    dog = Watchdog()
    with pytest.raises(RuntimeError, match="can't start"):
        dog.start()
    dog.close()
    assert len(closed) == 1


def _no_more(_: threading.Thread) -> None:
    message = "can't start new thread"
    raise RuntimeError(message)


BLOCKS = "test_a_tool_that_blocks_the_loop_is_named.<locals>.main.<locals>.blocks"


class Said(logging.Handler):
    """A log handler that collects the watchdog's lines; another thread can wait for one."""

    def __init__(self) -> None:
        super().__init__()
        self._heard = threading.Condition()
        self._said: list[tuple[int, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        with self._heard:
            self._said.append((record.levelno, record.getMessage()))
            self._heard.notify_all()

    def about(self, name: str) -> dict[int, str]:
        """Return the lines about a task, by level; on a busy machine there may be lines about others."""
        return {level: text for level, text in self._said if name in re.split(" has (?:held up|kept)", text)[0]}

    def wait(self, name: str) -> None:
        with self._heard:
            assert self._heard.wait_for(lambda: logging.ERROR in self.about(name), LONG)


@pytest.fixture
def log_lines(monkeypatch: pytest.MonkeyPatch) -> Iterator[Said]:
    """Collect the watchdog's lines, and let it find soon that the loop is blocked."""
    monkeypatch.setattr(watchdog, "BLOCKED", 0.1)
    monkeypatch.setattr(watchdog, "AWAKE", 0.01)
    handler = Said()
    log = logging.getLogger("agentrail.watchdog")
    log.addHandler(handler)
    yield handler
    log.removeHandler(handler)


def watchdog_of(supervisor: Supervisor) -> Watchdog:
    return supervisor._sessions.shared.watchdog  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]


def pulse_of(supervisor: Supervisor) -> Pulse:
    actual = watchdog_of(supervisor)._pulse  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    assert actual is not None
    return actual


@pytest.mark.usefixtures("alarm_kind")
@pytest.mark.parametrize("rested", [False, True])
def test_a_tool_that_blocks_the_loop_is_named(log_lines: Said, *, rested: bool) -> None:
    """No step runs: the tool blocks the loop when it is called, or after the loop had nothing to do for long."""

    async def main() -> None:
        async with open_supervisor() as supervisor:

            async def body(_args: JsonObject, _ctx: ToolContext) -> ToolResult:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(blocks)
                return ok("done")

            async def blocks() -> None:
                if rested:
                    await trio.to_thread.run_sync(until_it_rests, pulse_of(supervisor))
                log_lines.wait(BLOCKS)  # the line that blocks

            model = ScriptedModel([say(calls=[call("block")]), "done"])
            session = await supervisor.spawn(spec_of(model, tools=[fake("block", body)]), "mine")
            await session.ask("go")

    trio.run(main)
    texts = log_lines.about(BLOCKS)
    assert all(text.startswith("the task `tool block (mine/") for text in texts.values())
    assert "in blocks\n    log_lines.wait(BLOCKS)  # the line that blocks\n" in texts[logging.ERROR]
    # on a busy machine, the first look may find that it blocks already
    assert (
        re.search(rf" for \d+ ms, at {re.escape(__file__)}:\d+ in wait$", texts.get(logging.WARNING, ""))
        or len(texts) == 1
    )


@pytest.mark.usefixtures("alarm_kind")
@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "usleep"), reason="no call in C that keeps the interpreter")
def test_a_tool_that_keeps_the_interpreter_is_named_with_the_line(
    log_lines: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A regular expression may keep the interpreter so; the watchdog can report it only afterwards."""
    monkeypatch.setattr(watchdog, "BLOCKED", 0.0)  # so the stack is logged
    monkeypatch.setattr(watchdog, "LATE", 0.3)  # a paced alarm comes late by 0.25
    keep = ctypes.PyDLL(None).usleep
    name = "tool keep (mine/c3)"

    async def main() -> None:
        async with open_supervisor() as supervisor:

            async def body(_args: JsonObject, _ctx: ToolContext) -> ToolResult:
                for _ in range(20):  # on a busy machine, the watchdog may look only when the task has gone on
                    keep(900_000)  # the line that keeps it
                    if log_lines.about(name):
                        break
                return ok("done")

            model = ScriptedModel([say(calls=[call("keep")]), "done"])
            session = await supervisor.spawn(spec_of(model, tools=[fake("keep", body)]), "mine")
            await session.ask("go")

    trio.run(main)
    text = next(iter(log_lines.about(name).values()))
    assert "in body\n    keep(900_000)  # the line that keeps it\n" in text


def until_it_rests(pulse: Pulse) -> None:
    end = time.monotonic() + LONG
    while not pulse.rests and time.monotonic() < end:
        threading.Event().wait(0.001)


def test_the_body_of_a_supervisor_that_blocks_the_loop_is_named(log_lines: Said) -> None:
    async def main() -> None:
        async with open_supervisor():
            log_lines.wait(main.__qualname__)

    trio.run(main)


def comes_to_rest(pulse: Pulse) -> int:
    """Return how many beats there were when the loop had come to rest, and no task ran."""
    end = time.monotonic() + LONG
    while (pulse.running() is not None or not pulse.rests) and time.monotonic() < end:
        threading.Event().wait(0.001)
    assert pulse.running() is None
    return pulse.beats


def test_a_loop_beats_while_it_makes_passes_and_once_more_when_it_is_woken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulses, "BEAT", 0.0)
    beats: list[int] = []

    async def main() -> None:
        pulse = Pulse(lambda: beats.append(len(beats)))
        assert (pulse.beats, pulse.rests, len(beats)) == (0, False, 1)
        while pulse.beats < 20:  # the loop has something to do in each pass
            await trio.lowlevel.checkpoint()
            assert not pulse.rests
        assert pulse.running() is trio.lowlevel.current_task()
        at_rest = await trio.to_thread.run_sync(comes_to_rest, pulse)
        assert (pulse.beats, pulse.rests, len(beats)) == (at_rest + 1, False, at_rest + 2)
        pulse.close()
        await trio.testing.wait_all_tasks_blocked()
        ended = len(beats)
        for _ in range(10):
            await trio.lowlevel.checkpoint()
        assert len(beats) == ended

    trio.run(main)


def test_a_pulse_does_not_keep_others_from_seeing_that_nothing_happens() -> None:
    """Trio wakes to see it, and a task that goes on then would be what happens, for ever."""

    async def main() -> None:
        pulse = Pulse(lambda: None)
        with trio.fail_after(4 * LONG):
            await trio.testing.wait_all_tasks_blocked(5 * pulses.BEAT)
        assert pulse.beats <= 3
        pulse.close()

    trio.run(main)


class Passes(trio.abc.Instrument):
    """Counts the passes of the loop."""

    counted = 0

    def after_io_wait(self, timeout: float) -> None:
        self.counted += 1


class Counted:
    """Counts the looks of watchdogs, and the passes of a run of Trio."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.looks = self.passes = 0
        look = Watchdog._look  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]

        def counted(dog: Watchdog, scratch: Scratch) -> float | None:
            self.looks += 1
            return look(dog, scratch)

        monkeypatch.setattr(Watchdog, "_look", counted)

    def during_a_rest(self, pulse: Pulse, passes: Passes) -> tuple[int, int]:
        """Return how many looks and passes there were while the loop had nothing to do for sixty times `AWAKE`."""
        until_it_rests(pulse)
        looks, old_counted = self.looks, passes.counted
        threading.Event().wait(60 * watchdog.AWAKE)
        return self.looks - looks, passes.counted - old_counted


@pytest.mark.parametrize("supervisors", [1, 2, 5])
def test_supervisors_that_rest_do_not_wake_each_other(supervisors: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in ((watchdog, "SLOW"), (watchdog, "AWAKE"), (pulses, "BEAT")):
        monkeypatch.setattr(module, name, 0.01)
    counted, passes = Counted(monkeypatch), Passes()

    async def main() -> None:
        async with AsyncExitStack() as stack:
            opened = [await stack.enter_async_context(open_supervisor()) for _ in range(supervisors)]
            assert len({watchdog_of(supervisor) for supervisor in opened}) == 1
            threads = [thread.name for thread in threading.enumerate()].count("agentrail-watchdog")
            assert threads == 1
            trio.lowlevel.add_instrument(passes)
            looks, woken = await trio.to_thread.run_sync(counted.during_a_rest, pulse_of(opened[0]), passes)
            assert looks <= 12  # one after the last beat, and some for a thread that ends meanwhile; by turns, over 60
            assert woken <= 12

    trio.run(main)


def test_a_busy_loop_wakes_no_thread_of_supervisors_that_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread would be woken in each pass, as it waits for the interpreter, and hardly ever run."""
    monkeypatch.setattr(pulses, "BEAT", 0.0)
    monkeypatch.setattr(watchdog, "AWAKE", 3600.0)
    monkeypatch.setattr(watchdog, "SLOW", 1800.0)
    counted = Counted(monkeypatch)
    seconds: list[float] = []
    set_before = KernelAlarm.set

    def noted(self: KernelAlarm, after: float) -> None:
        seconds.append(after)
        set_before(self, after)

    monkeypatch.setattr(KernelAlarm, "set", noted)

    async def main() -> None:
        async with open_supervisor() as first, open_supervisor() as other:
            pulse, dog = pulse_of(first), watchdog_of(first)
            assert pulse is pulse_of(other)
            while pulse.beats < 50:
                await trio.lowlevel.checkpoint()
            assert seconds == [watchdog.AWAKE] * (1 + pulse.beats)
            dog.begin("mine", "PromptSent", time.perf_counter())  # the alarm goes off `SLOW` after this, or
            dog.step = None
            old_beats = pulse.beats
            while pulse.beats == old_beats:  # `AWAKE` after the next beat
                await trio.lowlevel.checkpoint()
            assert seconds == [watchdog.AWAKE] * (1 + pulse.beats)
            assert counted.looks == 0

    trio.run(main)


def test_a_supervisor_that_goes_leaves_the_watchdog_to_the_others_of_its_run() -> None:
    async def main() -> None:
        async with open_supervisor() as first:
            pulse = pulse_of(first)
            async with open_supervisor() as second:
                assert pulse_of(second) is pulse
            assert pulse_of(first) is pulse
            assert "agentrail-watchdog" in [thread.name for thread in threading.enumerate()]
        assert "agentrail-watchdog" not in [thread.name for thread in threading.enumerate()]
        async with open_supervisor() as third:
            assert watchdog_of(third) is watchdog_of(first)
            assert pulse_of(third) is not pulse

    trio.run(main)


class Asked:
    """Stands for a loop in which one task runs, and that has not made a pass since."""

    rests = False
    beats = 1

    def __init__(self) -> None:
        self.task: trio.lowlevel.Task | None = None

    def running(self) -> trio.lowlevel.Task | None:
        return self.task


@pytest.fixture
def dog_and_loop(monkeypatch: pytest.MonkeyPatch) -> tuple[Watchdog, Asked]:
    """Return a watchdog without a thread that counts everything as blocking, and the loop that it looks at."""
    monkeypatch.setattr(watchdog, "SLOW", 1e-9)
    monkeypatch.setattr(watchdog, "BLOCKED", 0.0)
    dog, loop = Watchdog(), Asked()
    dog._pulse = loop  # type: ignore[assignment]  # noqa: SLF001  # pyright: ignore[reportAttributeAccessIssue, reportPrivateUsage]
    return dog, loop


def test_a_task_is_not_named_for_the_time_before_a_step(
    dog_and_loop: tuple[Watchdog, Asked], caplog: pytest.LogCaptureFixture
) -> None:
    dog, loop = dog_and_loop

    async def main() -> None:
        loop.task = trio.lowlevel.current_task()
        with Scratch() as scratch:
            for step in (None, ("s", "PromptSent", math.inf, 0.0, 0), None):
                dog.step = step
                dog._look(scratch)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # what its thread does
                await trio.lowlevel.checkpoint()
            assert caplog.records == []
            dog._look(scratch)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
            assert "the task" in caplog.text

    trio.run(main)


def test_a_task_that_keeps_the_interpreter_is_named_unless_it_is_looked_at_already(
    dog_and_loop: tuple[Watchdog, Asked], caplog: pytest.LogCaptureFixture
) -> None:
    dog, loop = dog_and_loop

    async def main() -> None:
        loop.task = trio.lowlevel.current_task()
        with Scratch() as scratch:
            dog._due = time.perf_counter() - 100  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
            dog._look(scratch)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
            assert "has kept the interpreter" in caplog.text
            caplog.clear()
            dog._due = time.perf_counter() - 100  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
            dog._look(scratch)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
            assert "has held up the loop" in caplog.text
            assert "has kept the interpreter" not in caplog.text
        await trio.lowlevel.checkpoint()

    trio.run(main)


class OneStack(Scratch):
    """Frames of the thread of the test, whatever it does."""

    def __init__(self, *frames: str) -> None:
        super().__init__()
        self._frames = frames

    def stacks(self) -> Mapping[int, tuple[str, ...]]:
        return {threading.get_ident(): self._frames}


IMPORTER = '  File "<frozen importlib._bootstrap>", line 1176 in _find_and_load'


@pytest.mark.parametrize(
    ("module", "begin", "level"),
    [
        (f"{PACKAGE}insight/lanes.py", "agentrail has held up the loop for ", logging.INFO),
        ("/home/me/tables.py", "the task `", logging.WARNING),
    ],
)
def test_an_import_of_ours_that_keeps_the_interpreter_is_no_fault_of_the_task(
    module: str,
    begin: str,
    level: int,
    dog_and_loop: tuple[Watchdog, Asked],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watchdog, "BLOCKED", 60.0)
    caplog.set_level(logging.INFO, "agentrail.watchdog")
    dog, loop = dog_and_loop

    async def main() -> None:
        loop.task = trio.lowlevel.current_task()
        with OneStack(f'  File "{module}", line 3 in <module>', IMPORTER) as scratch:
            dog._due = time.perf_counter() - 0.7  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
            dog._look(scratch)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        await trio.lowlevel.checkpoint()

    trio.run(main)
    (record,) = caplog.records
    assert record.getMessage().startswith(begin)
    assert record.levelno == level


def test_only_a_run_in_real_time_has_a_pulse() -> None:
    async def has_pulse() -> bool:
        async with open_supervisor() as supervisor:
            return watchdog_of(supervisor)._pulse is not None  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]

    assert trio.run(has_pulse)
    assert not trio.run(has_pulse, clock=trio.testing.MockClock(autojump_threshold=0))
    assert not trio.run(has_pulse, clock=trio.testing.MockClock(rate=0.5))


def test_whoever_leaves_does_not_wait_for_a_thread_that_cannot_write(
    kind: type[Alarm], written: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchdog, "CLOSING", 0.01)
    closed: list[Alarm] = []
    monkeypatch.setattr(kind, "close", closed.append)
    dog = Watchdog()
    dog.start()
    dog.begin("mine", "PromptSent", time.perf_counter())
    assert written.writing.acquire(timeout=LONG)
    thread = next(thread for thread in threading.enumerate() if thread.name == "agentrail-watchdog")
    dog.close()
    assert thread.is_alive()
    assert closed == []  # it is the thread's still
    written.may_write.set()
    thread.join(LONG)
    assert not thread.is_alive()

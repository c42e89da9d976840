"""Observing a running session: suspending it, tracing its steps, and naming a step that holds up the loop."""

import gc
import logging
import re
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from types import SimpleNamespace

import pytest
import trio
from attrs import frozen

from agentrail import BlockTool, Context, Continue, Intervene, Plugin, TracedStep, open_supervisor
from agentrail.core.vocabulary.inputs import StreamEnded
from agentrail.errors import NotEntered, SessionNotAlive
from agentrail.events import PluginSlow
from agentrail.models import JsonObject, Text
from agentrail.plugins import BeforeFinish, BeforePrompt, BeforeTool
from agentrail.runtime.actor import session as session_loop
from agentrail.runtime.diagnosis import watchdog
from agentrail.runtime.diagnosis.crumb import Crumb
from agentrail.runtime.diagnosis.stacks import Scratch
from agentrail.runtime.diagnosis.watchdog import Alarm, KernelAlarm, Watchdog
from agentrail.testing import ScriptedModel, call, say
from agentrail.tools import ToolContext, ToolResult, ok
from tests.kit import PromptSent
from tests.patience import PATIENCE
from tests.runtime.tools import fake, slow
from tests.runtime.world import World, settle, spec_of

pytestmark = pytest.mark.usefixtures("of_watchdog")


async def test_a_suspended_session_lets_everything_wait_but_control(world: World) -> None:
    session = await world.spawn([say(calls=[call("slow")]), "done", "second"], tools=[slow(seconds=2)])
    await session.prompt("go")
    await settle()
    await session.suspend()
    (child,) = world.supervisor.tree().children
    assert (child.suspended, child.phase) == (True, "executing_tools")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(session.prompt, "and then")
        await trio.sleep(5)
        (child,) = world.supervisor.tree().children
        assert (child.phase, child.mailbox) == ("executing_tools", (0, 1, 1))
        await session.resume()
    await trio.sleep(1)
    assert world.heard(session).names.count("AgentEnd") == 2


async def test_timers_fire_when_a_session_goes_on(world: World) -> None:
    session = await world.spawn([say(calls=[call("slow")])], tools=[slow(seconds=100)], max_turn_seconds=3.0)
    await session.prompt("go")
    await settle()
    await session.suspend()
    await trio.sleep(10)
    assert "AgentAbort" not in world.heard(session).names
    await session.resume()
    await settle()
    assert "AgentAbort" in world.heard(session).names


async def test_a_suspended_session_can_be_aborted_and_stopped(world: World) -> None:
    session = await world.spawn([say(calls=[call("slow")])], tools=[slow(seconds=100)])
    await session.prompt("go")
    await settle()
    await session.suspend()
    await session.abort("enough")
    assert session.status().phase == "idle"
    await session.stop()
    with pytest.raises(SessionNotAlive):
        await session.resume()


async def test_a_trace_shows_each_step(world: World) -> None:
    session = await world.spawn(["fine"])
    seen: list[TracedStep] = []
    async with session.trace() as steps:
        await session.ask("go")
        await session.stop()
        seen.extend([step async for step in steps])
    assert [(type(s.input), s.phase, s.to) for s in seen[:2]] == [
        (PromptSent, "idle", "running"),
        (StreamEnded, "streaming", "idle"),
    ]
    assert seen[0].input == PromptSent((Text("go"),))
    assert [type(effect).__name__ for effect in seen[0].effects] == ["StartRequest"]
    assert [type(e.event).__name__ for e in seen[0].events] == ["PromptReceived", "AgentStart", "RequestStart"]
    assert seen[-1].to == "ended"


class Door(Plugin[None]):
    """Blocks each call, after a friendly word."""

    def before_prompt(self, hook: BeforePrompt, state: None, ctx: Context) -> Intervene:
        return Intervene("be kind")

    def before_tool(self, hook: BeforeTool, state: None, ctx: Context) -> BlockTool:
        return BlockTool("closed")

    def before_finish(self, hook: BeforeFinish, state: None, ctx: Context) -> Continue:
        raise ValueError("broken")


async def test_a_trace_tells_which_plugin_answered_what(world: World) -> None:
    session = await world.spawn([say(calls=[call("slow")]), "fine"], tools=[slow(seconds=1)], plugins=[Door()])
    async with session.trace() as steps:
        await session.ask("go")
        await session.stop()
        seen = [step async for step in steps]
    assert [line for step in seen for line in step.decisions()] == [
        "before_prompt: Door: intervene: be kind",
        "before_tool: Door: block_tool: closed",
        "before_finish: Door: failed: ValueError: broken",
    ]


async def test_a_reader_who_waits_gets_a_step_when_it_happens(world: World) -> None:
    session = await world.spawn(["fine"])
    async with session.trace() as steps, trio.open_nursery() as nursery:
        nursery.start_soon(session.ask, "go")
        with trio.fail_after(60):
            assert isinstance((await anext(steps)).input, PromptSent)


async def test_a_trace_that_is_cancelled_before_it_has_begun_keeps_no_session_awake(world: World) -> None:
    session = await world.spawn([], hibernate_after=10)
    with trio.CancelScope() as scope:
        scope.cancel()
        async with session.trace():
            pytest.fail("it was cancelled")
    await trio.sleep(25)
    assert world.supervisor.tree().children[0].state == "asleep"
    await session.resume()


async def test_a_reader_who_is_too_slow_misses_steps_and_is_told_how_many(world: World) -> None:
    session = await world.spawn(["fine"] * 3)
    async with session.trace(capacity=2) as steps, session.trace() as others:
        for _ in range(3):
            await session.ask("go")
        assert [(await anext(steps)).missed for _ in range(2)] == [0, 0]
        await session.stop()
        assert (await anext(steps)).missed == 4
        assert [step.missed async for step in others] == [0] * 7
    with pytest.raises(NotEntered):
        aiter(session.trace())


async def test_each_step_of_a_trace_counts_the_steps_missed_since_the_last_one_only(world: World) -> None:
    session = await world.spawn(["fine"] * 3)
    async with session.trace(capacity=1) as steps:
        missed = []
        for _ in range(3):
            await session.ask("go")  # two steps, of which the first finds room
            missed.append((await anext(steps)).missed)
        assert missed == [0, 1, 1]


class Hand:
    """A clock that moves only in `advance`, which then waits until the watchdog has looked at it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        self._looks = threading.Semaphore(0)
        look = Watchdog._look  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]

        def told(dog: Watchdog, scratch: Scratch) -> float | None:
            began = self.now
            again = look(dog, scratch)
            if began == self.now:
                self._looks.release()
            return again

        monkeypatch.setattr(Watchdog, "_look", told)
        for module in (watchdog, session_loop):  # others have their own time
            monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=self.time))

    def time(self) -> float:
        return self.now

    def advance(self, seconds: float, looks: int = 1) -> None:
        self.now += seconds
        self.wait(looks)

    def wait(self, looks: int = 1) -> None:
        """Wait until the watchdog has looked that many times more, from start to end."""
        while self._looks.acquire(blocking=False):
            pass
        for _ in range(looks):
            assert self._looks.acquire(timeout=PATIENCE)


@pytest.fixture
def hand(monkeypatch: pytest.MonkeyPatch, slow_hooks_are_told: None) -> Hand:  # noqa: ARG001 - asks for a fixture
    return Hand(monkeypatch)


IN_ITS_LINE = rf"at {re.escape(__file__)}:\d+ in"


@frozen
class Sleeper(Plugin):
    """Takes the seconds that the prompt lists, one after the other."""

    hand: Callable[[], Hand]

    def before_prompt(self, hook: BeforePrompt, state: None, ctx: Context) -> Continue[None]:
        for seconds in map(float, hook.text.split()):
            self.hand().advance(seconds)
        return Continue()


@pytest.mark.usefixtures("alarm_kind")
async def test_the_step_that_holds_up_the_loop_is_named(
    hand: Hand, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    session = await world.spawn(["fine"] * 2, "mine", plugins=[Sleeper(lambda: hand)])
    await session.ask("0 0.046875")
    assert [record for record in caplog.records if record.name == "agentrail.watchdog"] == []
    await session.ask("0.25 0.875 5")
    records = [record for record in caplog.records if record.name == "agentrail.watchdog"]
    assert [record.levelno for record in records] == [logging.WARNING, logging.ERROR]
    slow, blocking = [record.getMessage() for record in records]
    assert re.fullmatch(rf"session mine: `PromptSent` has held up the loop for 250 ms, {IN_ITS_LINE} wait", slow)
    assert blocking.startswith("session mine: `PromptSent` has held up the loop for 1125 ms\n")
    assert "in before_prompt\n    self.hand().advance(seconds)\n" in blocking
    await settle()
    assert world.heard(session).only(PluginSlow).elapsed_ms == 6125


@frozen
class SlowScreen(Plugin):
    """Takes a quarter of a second to screen the text `slow`."""

    hand: Callable[[], Hand]

    def screen(self, text: str) -> str:
        if text == "slow":
            self.hand().advance(0.25)
        return text


@pytest.mark.usefixtures("alarm_kind")
async def test_a_screen_that_holds_up_the_loop_is_told_as_a_slow_hook_is(
    hand: Hand, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    session = await world.spawn(["fine"] * 2, "mine", plugins=[SlowScreen(lambda: hand)])
    await session.ask("slow")
    await settle()
    records = [record for record in caplog.records if record.name == "agentrail.watchdog"]
    assert ["`PromptSent` has held up the loop for 250 ms" in record.getMessage() for record in records] == [True]
    assert world.heard(session).only(PluginSlow) == PluginSlow(("SlowScreen",), 250)


@frozen
class Litter(Plugin):
    """Has the garbage collector hold up a step for seconds that the prompt lists, and takes more time afterwards."""

    hand: Callable[[], Hand]

    def before_prompt(self, hook: BeforePrompt, state: None, ctx: Context) -> Continue[None]:
        *collecting, after = map(float, hook.text.split())
        hand = self.hand()

        class Ring:
            def __init__(self, seconds: float) -> None:
                self.ring = self
                self.seconds = seconds

            def __del__(self) -> None:
                hand.advance(self.seconds)

        for seconds in collecting:
            Ring(seconds)
            gc.collect()
        hand.advance(after)
        return Continue()


@pytest.mark.usefixtures("alarm_kind")
@pytest.mark.parametrize(
    ("prompts", "of_the_collector", "of_the_step", "taken"),
    [
        (("0.625 1.25 0",), [logging.WARNING, logging.ERROR], [], []),
        (("0.625 0.625",), [logging.WARNING], [logging.WARNING], [625]),
        (("0.625 0", "0.625"), [logging.WARNING], [logging.WARNING], [625]),
        (("1.25 1.5",), [logging.ERROR], [logging.ERROR], [1500]),
    ],
)
async def test_what_the_garbage_collector_takes_is_named_by_itself_and_no_plugin_is_blamed_for_it(
    prompts: tuple[str, ...],
    of_the_collector: list[int],
    of_the_step: list[int],
    taken: list[int],
    hand: Hand,
    world: World,
    caplog: pytest.LogCaptureFixture,
) -> None:
    session = await world.spawn(["fine"] * 2, "mine", plugins=[Litter(lambda: hand)])
    for prompt in prompts:
        await session.ask(prompt)
    await settle()
    records = [record for record in caplog.records if record.name == "agentrail.watchdog"]
    collector = [r for r in records if "while session mine handled `PromptSent`" in r.getMessage()]
    step = [r for r in records if r.getMessage().startswith("session mine: `PromptSent` has held up the loop")]
    assert [record.levelno for record in collector] == of_the_collector
    assert [record.levelno for record in step] == of_the_step
    assert len(records) == len(collector) + len(step)
    assert [event.elapsed_ms for event in world.heard(session).of(PluginSlow)] == taken


async def test_an_interrupt_during_a_collection_is_not_lost_in_what_listens_to_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.spawn(["fine"])
    clock, protected = time.perf_counter, list[bool]()

    def noted() -> float:
        protected.append(trio.lowlevel.currently_ki_protected())
        return clock()

    assert not trio.lowlevel.currently_ki_protected()
    with monkeypatch.context() as patch:
        patch.setattr(watchdog, "time", SimpleNamespace(perf_counter=noted))  # others listen too, and have their own
        gc.collect()
    assert len(protected) >= 2  # the thread that looks may ask for the time as well
    assert all(protected)


async def test_nothing_listens_to_the_collector_when_the_supervisors_are_gone() -> None:
    old_callbacks = list(gc.callbacks)
    with suppress(LookupError):
        async with open_supervisor():
            async with open_supervisor():
                assert len(gc.callbacks) == len(old_callbacks) + 1  # for the run of Trio
            raise LookupError
    assert gc.callbacks == old_callbacks


async def test_whoever_else_empties_the_list_of_those_who_listen_breaks_no_supervisor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with open_supervisor():
        monkeypatch.setattr(gc, "callbacks", [])
    assert all(thread.name != "agentrail-watchdog" for thread in threading.enumerate())
    monkeypatch.undo()
    del gc.callbacks[-1:]


@pytest.fixture
def all_steps_are_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the limit for slow steps so high that a busy machine causes no alarm."""
    monkeypatch.setattr(watchdog, "SLOW", 3600.0)


def test_a_kernel_that_gives_no_timer_leaves_an_alarm_that_is_paced(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = SimpleNamespace(timerfd_settime=None, timerfd_create=lambda *_: -1)
    monkeypatch.setattr("ctypes.PyDLL", lambda *_, **__: kernel)
    assert type(watchdog.alarm(1.0)) is Alarm


def test_a_paced_alarm_waits_for_the_time_that_was_set_and_is_rung_by_zero_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waited: list[tuple[float | None, bool]] = []

    class Noted(threading.Event):
        """An event that notes for how long it is waited for, and whether it is set already."""

        def wait(self, timeout: float | None = None) -> bool:
            waited.append((timeout, self.is_set()))
            return self.is_set()

    monkeypatch.setattr("threading.Event", Noted)
    paced = Alarm()
    for seconds in (watchdog.PACE / 2, None, 2 * watchdog.PACE, 0):
        if seconds is not None:
            paced.set(seconds)
        paced.wait()
    assert waited == [(watchdog.PACE / 2, False), (watchdog.PACE, False), (watchdog.PACE, False), (0, True)]


@pytest.mark.long
@pytest.mark.usefixtures("all_steps_are_short")
async def test_steps_that_are_not_slow_wake_no_thread(
    alarm_kind: type[Alarm], world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    begins: list[float] = []
    put_off: list[float] = []
    looks: list[object] = []
    begin, look, later = Watchdog.begin, Watchdog._look, alarm_kind.put_off  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]

    def noted(self: Watchdog, session_id: str, kind: str, now: float) -> Crumb:
        begins.append(now)
        return begin(self, session_id, kind, now)

    def counted(self: Watchdog, scratch: Scratch) -> float | None:
        looks.append(self)
        return look(self, scratch)

    def heard(self: Alarm) -> None:
        put_off.append(begins[-1])
        later(self)

    monkeypatch.setattr(Watchdog, "begin", noted)
    monkeypatch.setattr(Watchdog, "_look", counted)
    monkeypatch.setattr(alarm_kind, "put_off", heard)
    session = await world.spawn(ScriptedModel(["fine"], repeat_last=True))
    for _ in range(300):
        await session.ask("go on")
    due = [begins[0]]
    for began in begins:
        if began - due[-1] > watchdog.PUT_OFF:
            due.append(began)
    assert len(begins) > 600
    assert put_off == due
    assert len(looks) <= (0 if alarm_kind is KernelAlarm else (begins[-1] - begins[0]) / watchdog.PACE + 1)


async def keeps_in_a_task(hand: Hand, seconds: float, _ctx: ToolContext) -> None:
    hand.advance(seconds)


class Rest(trio.abc.Instrument):
    """The next rest of the loop: the task that starts a thread may still run when the thread does."""

    def __init__(self) -> None:
        self._begun = threading.Event()
        trio.lowlevel.add_instrument(self)

    def before_io_wait(self, timeout: float) -> None:
        if timeout > 0:
            self._begun.set()

    def advance(self, hand: Hand, seconds: float) -> None:
        """In a thread: advance the clock when the loop rests."""
        assert self._begun.wait(PATIENCE)
        hand.advance(seconds)


async def keeps_in_its_thread(hand: Hand, seconds: float, ctx: ToolContext) -> None:
    assert ctx.threads is not None
    await ctx.threads.run(partial(Rest().advance, hand, seconds))


async def keeps_in_another_thread(hand: Hand, seconds: float, _ctx: ToolContext) -> None:
    await trio.to_thread.run_sync(Rest().advance, hand, seconds)


async def collects(hand: Hand, seconds: float, _ctx: ToolContext) -> None:
    class Ring:
        def __init__(self) -> None:
            self.ring = self

        def __del__(self) -> None:
            hand.advance(seconds, looks=3)  # the third looks at a task that ran at the second

    Ring()
    gc.collect()


KEEPERS: list[tuple[Callable[[Hand, float, ToolContext], Awaitable[None]], str, str]] = [
    (keeps_in_a_task, "the task `tool keep (mine/c3)` has kept the interpreter", __file__),
    (keeps_in_its_thread, f"the thread of the tool `keep` at {threading.__file__}", "has kept the interpreter"),
    (keeps_in_another_thread, watchdog.NO_TIME, "has kept the interpreter"),
    (collects, "the garbage collector, or what it finalized, has held", "while the task `tool keep (mine/c3)` ran"),
]


@pytest.mark.usefixtures("alarm_kind")
@pytest.mark.parametrize(("keeps", "said_text", "more"), KEEPERS)
@pytest.mark.parametrize(("seconds", "levels"), [(0.4375, []), (0.875, [logging.WARNING]), (3.0, [logging.ERROR])])
def test_what_has_kept_the_interpreter_is_named_when_it_gives_it_up(
    keeps: Callable[[Hand, float, ToolContext], Awaitable[None]],
    said_text: str,
    more: str,
    seconds: float,
    levels: list[int],
    hand: Hand,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A call in C that keeps the interpreter delays one look; the loop's answer may come up to `AWAKE` later."""

    async def main() -> None:
        async with open_supervisor() as supervisor:

            async def body(_args: JsonObject, ctx: ToolContext) -> ToolResult:
                await keeps(hand, seconds, ctx)
                return ok("done")

            model = ScriptedModel([say(calls=[call("keep")]), "done"])
            session = await supervisor.spawn(spec_of(model, tools=[fake("keep", body)]), "mine")
            await session.ask("go")

    trio.run(main)
    records = [record for record in caplog.records if record.name == "agentrail.watchdog"]
    assert [record.levelno for record in records] == levels
    for record in records:
        text = record.getMessage()
        assert text.startswith(said_text)
        assert more in text
        (taken,) = re.findall(r" for (\d+) ms", text)
        assert seconds - watchdog.AWAKE <= int(taken) / 1000 <= seconds

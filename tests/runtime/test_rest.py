"""A session without input becomes idle, whatever its listeners do; a busy one lets other tasks run."""

from collections.abc import Callable
from types import SimpleNamespace

import pytest
import trio
from attrs import frozen

from agentrail import Context, Plugin
from agentrail.events import AgentAbort, Envelope, PluginError, PluginSlow, SessionHibernated, SessionWoken
from agentrail.runtime.actor import session as session_module
from agentrail.runtime.inbox.letter import Letter
from agentrail.runtime.inbox.mailbox import LETTERS_PER_PASS, Mailbox
from agentrail.runtime.shared.admission import Gate
from tests.kit import TimerFired
from tests.runtime.world import World, settle

ENOUGH = 200
"""Number of events after which the slow plugin is fast, so that the test ends."""


class Worked:
    """Stands in for the module `time` in a session; plugins set how long a step takes."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def perf_counter(self) -> float:
        return self.seconds


@pytest.fixture
def worked(monkeypatch: pytest.MonkeyPatch, slow_hooks_are_told: None) -> Worked:  # noqa: ARG001 - asks for a fixture
    new_worked = Worked()
    monkeypatch.setattr(session_module, "time", SimpleNamespace(perf_counter=new_worked.perf_counter))
    return new_worked


@frozen(eq=False)
class Slow(Plugin[tuple[str, ...]]):
    """Takes 60 ms for each event, and remembers the events."""

    worked: Callable[[], Worked]

    def init(self, ctx: Context) -> tuple[str, ...]:
        return ()

    def on_event(self, event: Envelope, state: tuple[str, ...], ctx: Context) -> tuple[str, ...]:
        if len(state) < ENOUGH:
            self.worked().seconds += 0.06
        return (*state, type(event.event).__name__)


@frozen(eq=False)
class Broken(Slow):
    """A slow listener that also raises."""

    def on_event(self, event: Envelope, state: tuple[str, ...], ctx: Context) -> tuple[str, ...]:
        Slow.on_event(self, event, state, ctx)
        raise ValueError(event.seq)


async def test_a_slow_listener_is_reported_once_for_each_step_and_is_not_shown_it(world: World, worked: Worked) -> None:
    session = await world.spawn(["fine"], plugins=[Slow(lambda: worked)])
    await session.ask("go")
    await settle()
    heard = world.heard(session)
    assert 1 <= len(heard.of(PluginSlow)) <= 4  # at most one for each step: opened, prompt, response, and at most a cut
    assert session.inspect().plugin_states == (tuple(name for name in heard.names if name != "PluginSlow"),)
    assert session.status().phase == "idle"


async def test_two_listeners_that_are_slow_and_break_do_not_feed_each_other(world: World, worked: Worked) -> None:
    session = await world.spawn(["fine"], plugins=[Broken(lambda: worked), Slow(lambda: worked)])
    await session.ask("go")
    await settle()
    assert len(world.heard(session).of(PluginError)) == 1 + 3  # behind three of a turn it hears no more until the next
    _, second = session.inspect().plugin_states
    assert isinstance(second, tuple)
    assert {"PluginSlow", "PluginError"}.isdisjoint(second)
    assert len(second) < ENOUGH / 10


async def test_a_slow_listener_does_not_keep_a_session_from_sleeping(world: World, worked: Worked) -> None:
    session = await world.spawn(["fine"], plugins=[Slow(lambda: worked)], hibernate_after=1.0)
    await session.ask("go")
    await trio.sleep(60)
    heard = world.heard(session)
    assert (len(heard.of(SessionHibernated)), len(heard.of(SessionWoken))) == (1, 0)
    assert heard.names[-1] == "SessionHibernated"
    await session.resume()
    await trio.sleep(60)
    assert (len(heard.of(SessionHibernated)), len(heard.of(SessionWoken))) == (2, 1)
    await session.resume()


async def test_reports_that_wait_are_one(world: World, worked: Worked) -> None:
    session = await world.spawn([], plugins=[Slow(lambda: worked)])
    await settle()
    old_count = len(world.heard(session).of(PluginSlow))
    await session.suspend()
    for number in range(10):
        await session.abort(f"{number}")
    (view,) = world.supervisor.tree().children
    assert view.mailbox == (0, 1, 0)
    await session.resume()
    await settle()
    heard = world.heard(session)
    assert len(heard.of(AgentAbort)) == 10
    assert len(heard.of(PluginSlow)) == old_count + 1


async def _passes_while_busy(*, slow: bool) -> tuple[int, int]:
    """Return how many letters are read from a mailbox that is never empty, and how often another task runs."""
    mailbox = Mailbox("s", Gate(float("inf")))
    mailbox.post_result(Letter(TimerFired("t")))
    letters = passes = 0

    async def read() -> None:
        nonlocal letters
        while True:
            letter = await mailbox.receive()
            letters += 1
            mailbox.post_result(letter)
            if slow:
                mailbox.let_others_run()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        while passes < 20:
            await trio.lowlevel.checkpoint()
            passes += 1
            assert letters <= (passes + 1) * LETTERS_PER_PASS
        nursery.cancel_scope.cancel()
    return letters, passes


async def test_a_session_that_always_has_letters_lets_the_others_run() -> None:
    letters, passes = await _passes_while_busy(slow=False)
    assert letters >= (passes - 2) * LETTERS_PER_PASS


async def test_after_a_slow_letter_the_others_run_at_once() -> None:
    letters, passes = await _passes_while_busy(slow=True)
    assert letters <= passes + 1


async def test_a_reader_that_has_waited_gives_no_pass_away() -> None:
    mailbox = Mailbox("s", Gate(float("inf")))
    received = 0

    async def read() -> None:
        nonlocal received
        while True:
            await mailbox.receive()
            received += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        for number in range(3 * LETTERS_PER_PASS):
            await settle()
            mailbox.post_result(Letter(TimerFired(f"{number}")))
            await trio.lowlevel.checkpoint()
            await trio.lowlevel.checkpoint()
            assert received == number + 1
        nursery.cancel_scope.cancel()

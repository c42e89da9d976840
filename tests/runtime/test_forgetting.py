"""A supervisor without a journal forgets sessions that have ended: nothing of them stays in memory."""

import gc
import logging
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest
import trio

from agentrail import Context, Plugin, Secret, SessionHandle, SessionSpec, Supervisor, open_supervisor
from agentrail.adapters.journals.memory import ForgettingJournal
from agentrail.app.model_registry import MAX_MADE, Models
from agentrail.errors import Fenced, PluginRefused, SessionForgotten, SessionNotAlive, UnknownSession
from agentrail.events import Gap
from agentrail.journals import MemoryJournal, Snapshot
from agentrail.models import Limit, ModelRequest
from agentrail.runtime.diagnosis import watchdog
from agentrail.runtime.shared.clock import Clock
from agentrail.runtime.shared.provider_limits import MAX_RESTING, ProviderLimits
from agentrail.runtime.shared.threads import WorkerThreads
from agentrail.runtime.shared.timers import Timers
from agentrail.runtime.supervision.tree import MAX_QUARANTINED
from agentrail.testing import ScriptedModel
from tests.kit import opened, run_of
from tests.runtime.conftest import A_DAY
from tests.runtime.families import agent, task
from tests.runtime.poison import Poison, PoisonedResponse
from tests.runtime.test_limits import Provider
from tests.runtime.world import settle

WHY = "no place"


class NoPlace(Plugin[None]):
    """Refuses every session at its start."""

    def init(self, ctx: Context) -> None:
        raise PluginRefused(WHY)


ROUNDS = 5
AT_ONCE = 20


@pytest.fixture(scope="module", autouse=True)
def alone() -> None:
    """Hide objects of earlier tests from the garbage collector: this test asks it for all objects forty times."""
    gc.collect()
    gc.freeze()


def saying(*texts: str, **more: object) -> SessionSpec:
    return SessionSpec(model=ScriptedModel(texts), **more)  # type: ignore[arg-type]  # a test may give any field


def kept_in(supervisor: Supervisor) -> list[str]:
    """Return the sessions of which the journal holds anything."""
    journal = getattr(supervisor._sessions.shared.forget, "__self__", None)  # noqa: SLF001 - what forgets
    assert isinstance(journal, ForgettingJournal)
    return list(journal._sessions)  # noqa: SLF001 - see above


async def ended(supervisor: Supervisor, session_id: str = "x") -> SessionHandle:
    session = await supervisor.spawn(saying("fine"), session_id)
    await session.ask("go", command="c1")
    await session.stop()
    return session


# What is asked of a session that is forgotten


async def test_what_has_ended_is_forgotten_and_its_id_may_be_used_again() -> None:
    async with open_supervisor() as supervisor:
        old = await ended(supervisor)
        assert kept_in(supervisor) == []
        new = await supervisor.spawn(saying("hello"), "x")
        assert (await new.ask("go", command="c1")).text == "hello"
        assert len(new.messages()) == 2
        with pytest.raises(SessionNotAlive, match="stopped"):
            await old.prompt("go", command="c1")


async def test_what_needs_a_journal_that_keeps_says_so() -> None:
    text = r"open_supervisor\(journal=…\)` one that keeps them, a `SqliteJournal` or a `MemoryJournal`"
    async with open_supervisor() as supervisor:
        session = await ended(supervisor)
        for look in (session.messages, session.inspect):
            with pytest.raises(SessionForgotten, match=text):
                look()
        with pytest.raises(SessionForgotten, match=text):
            await session.fork()
        with pytest.raises(SessionForgotten, match=text):
            await supervisor.fork("x", saying())
        with pytest.raises(SessionForgotten, match=text):
            await supervisor.resume("x", saying())
        assert (session.status().phase, session.queued(), session.tasks()) == ("ended", (), ())


async def test_a_journal_that_is_given_keeps() -> None:
    async with open_supervisor(journal=MemoryJournal()) as supervisor:
        session = await ended(supervisor)
        assert len(session.messages()) == 2
        fork = await supervisor.fork("x", saying("again"))
        assert len(fork.messages()) == 2
        with pytest.raises(UnknownSession, match="no session `nobody` in the journal"):
            await supervisor.resume("nobody", saying())


async def test_the_events_of_one_that_is_forgotten_are_a_gap_and_not_those_of_its_successor() -> None:
    async with open_supervisor() as supervisor:
        old = await ended(supervisor)
        new = await supervisor.spawn(saying("secret"), "x")
        await new.ask("go")
        async with old.subscribe(since=2) as events:
            heard = [envelope.event async for envelope in events]
        assert [type(event) for event in heard[:1]] == [Gap]
        assert all(isinstance(event, Gap) for event in heard)


async def test_a_fork_of_one_that_is_forgotten_is_none_of_its_successor() -> None:
    async with open_supervisor() as supervisor:
        first = await ended(supervisor)
        second = await supervisor.spawn(saying("of somebody else"), "x")
        await second.ask("a secret")
        with pytest.raises(SessionForgotten, match="`x`"):
            await first.fork()
        assert len(supervisor.sessions()) == 1
        assert (await second.fork()).messages() == second.messages()


async def test_a_claim_from_before_is_worth_nothing_when_the_id_is_used_again() -> None:
    journal = MemoryJournal()
    old = await opened(journal, "x")
    assert await journal.delete("x", "", 0) == 1
    new = await opened(journal, "x")
    state = SessionSpec(model="demo")
    assert new.epoch != old.epoch
    with pytest.raises(Fenced):
        await journal.append(old, 3, run_of("x", 4, 1))
    with pytest.raises(Fenced):
        await journal.keep(old, Snapshot("x", 3, state))  # type: ignore[arg-type]  # it is not looked at
    assert len(await journal.read("x")) == 3


async def test_a_decision_about_a_sub_agent_that_is_forgotten_is_answered() -> None:
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(
            saying(agents={"finder": agent(["found"])}).but(model=ScriptedModel([task(), "fine"])), "p"
        )
        await session.ask("go")
        assert kept_in(supervisor) == ["p"]
        with pytest.raises(SessionNotAlive, match=r"p\.c3"):
            await session.approve("p.c3:a1", command="c1")


# Whatever becomes of a session


async def stopped(supervisor: Supervisor, name: str) -> None:
    session = await supervisor.spawn(saying("fine"), name)
    await session.ask("go", command="c")
    await session.stop()


async def never_started(supervisor: Supervisor, name: str) -> None:
    with pytest.raises(Exception, match="no place"):
        await supervisor.spawn(saying(plugins=[NoPlace()]), name)


async def crashed(supervisor: Supervisor, name: str) -> None:
    session = await supervisor.spawn(saying(plugins=[Poison()]), name, restart="temporary")
    with pytest.raises(Exception, match="poison"):
        await session.ask("die")
    async with session.monitor() as monitor:
        await monitor.wait()


async def delegated(supervisor: Supervisor, name: str) -> None:
    spec = SessionSpec(model=ScriptedModel([task(), "fine"]), agents={"finder": agent(["found"])})
    session = await supervisor.spawn(spec, name)
    await session.ask("go")
    await session.stop()


async def forked(supervisor: Supervisor, name: str) -> None:
    session = await supervisor.spawn(saying("fine"), name)
    other = await session.fork(id=f"{name}-fork")
    await session.stop()
    await other.stop()


async def slept(supervisor: Supervisor, name: str) -> None:
    session = await supervisor.spawn(saying("fine", hibernate_after=1.0), name)
    await session.ask("go")
    await trio.sleep(3)
    await session.stop()


async def set_aside(supervisor: Supervisor, name: str) -> None:
    session = await supervisor.spawn(saying("poison", plugins=[PoisonedResponse()]), name)
    with pytest.raises(Exception, match="poison"):
        await session.ask("go")
    async with session.monitor() as monitor:
        await monitor.wait()
    assert len(session.messages()) == 1
    await supervisor._sessions.root.stop(supervisor._sessions.tree.sessions[name])  # noqa: SLF001


async def listened_to(supervisor: Supervisor, name: str) -> None:
    session = await supervisor.spawn(saying("fine"), name)
    async with session.subscribe(since=0) as events:
        await session.ask("go")
        await session.stop()
        async for _ in events:
            pass


@pytest.mark.long
@pytest.mark.parametrize(
    "live",
    [stopped, never_started, crashed, delegated, forked, slept, set_aside, listened_to],
    ids=lambda it: it.__name__,
)
async def test_nothing_of_it_is_left(
    live: Callable[[Supervisor, str], Awaitable[None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counts the objects of each kind over several rounds."""
    monkeypatch.setattr(watchdog, "SLOW", 3600.0)
    logging.disable()
    try:
        async with open_supervisor() as supervisor:
            counts: list[Counter[str]] = []
            for number in range(ROUNDS):
                async with trio.open_nursery() as nursery:
                    for index in range(AT_ONCE):
                        nursery.start_soon(live, supervisor, f"r{number}-{index}")
                await trio.sleep(A_DAY / 10)  # Trio keeps up to a thousand deadlines of scopes that were left
                supervisor._sessions.tree.reports.clear()  # noqa: SLF001 - a hundred of them are kept
                assert kept_in(supervisor) == []
                gc.collect()
                counts.append(Counter(type(thing).__name__ for thing in gc.get_objects()))
            grown = {name: count for name, count in (counts[-1] - counts[1]).items() if count >= AT_ONCE}
            assert grown == {}
    finally:
        logging.disable(logging.NOTSET)


@pytest.mark.long
async def test_so_many_quarantined_sessions_are_kept_to_be_read(caplog: pytest.LogCaptureFixture) -> None:
    async with open_supervisor() as supervisor:
        first = None
        for number in range(MAX_QUARANTINED + 1):
            session = await supervisor.spawn(saying("poison", plugins=[PoisonedResponse()]), f"s{number}")
            first = first or session
            if number == MAX_QUARANTINED:
                assert len(supervisor.sessions()) == MAX_QUARANTINED + 1
                assert len(first.messages()) == 1
            with pytest.raises(Exception, match="poison"):
                await session.ask("go")
            async with session.monitor() as monitor:
                await monitor.wait()
        assert first is not None
        await settle()
        assert [session.id for session in supervisor.sessions()] == [
            f"s{number}" for number in range(1, MAX_QUARANTINED + 1)
        ]
        assert kept_in(supervisor) == [session.id for session in supervisor.sessions()]
        with pytest.raises(SessionForgotten):
            first.messages()
        assert "session s0 is let go" in caplog.text


# What all sessions share


async def test_lanes_of_keys_that_nobody_uses_are_dropped() -> None:
    async with trio.open_nursery() as nursery:
        timers = Timers(Clock())
        nursery.start_soon(timers.run)
        limits = ProviderLimits({"acme": Limit(requests_per_minute=1)}, timers)
        model = Provider()
        for number in range(3 * MAX_RESTING):
            request = ModelRequest("acme:large", (), options={"api_key": Secret(f"KEY{number}")})
            await limits.stream("s", model, request, lambda _: None)
            assert len(limits._lanes) <= 2 * MAX_RESTING  # noqa: SLF001 - a lane counts for a minute
        assert len(model.asked) == 3 * MAX_RESTING
        nursery.cancel_scope.cancel()


async def test_a_lane_that_still_counts_is_not_dropped() -> None:
    async with trio.open_nursery() as nursery:
        timers = Timers(Clock())
        nursery.start_soon(timers.run)
        limits = ProviderLimits({"acme": Limit(requests_per_minute=1)}, timers)
        model = Provider(takes=0.0)
        start = trio.current_time()
        keys = [f"KEY{number}" for number in range(2 * MAX_RESTING)]
        for key in (*keys, keys[0]):
            request = ModelRequest("acme:large", (), options={"api_key": Secret(key)})
            await limits.stream("s", model, request, lambda _: None)
        assert model.times(start)[-1] == 60.0
        nursery.cancel_scope.cancel()


def test_names_of_tools_whose_threads_have_ended_are_not_kept() -> None:
    threads = WorkerThreads()
    for number in range(1000):
        threads.note(f"tool{number}", 1)
        threads.note(f"tool{number}", -1)
    assert len(threads._running) == 0  # noqa: SLF001 - what it does not tell is what is looked for


def test_no_more_models_are_kept_than_may_be() -> None:
    texts: list[str] = []

    def make(name: str) -> ScriptedModel:
        texts.append(name)
        return ScriptedModel([])

    models = Models({"mine": make})
    for number in range(MAX_MADE + 1):
        assert models(f"mine:{number}") is models(f"mine:{number}")
    assert len(models._made) == MAX_MADE  # noqa: SLF001 - what it does not tell is what is looked for
    models("mine:0")
    assert texts == [*(str(number) for number in range(MAX_MADE + 1)), "0"]

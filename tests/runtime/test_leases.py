"""Leases: a session that a live supervisor has is not taken from it, and one that is taken all the same ends there."""

from collections.abc import Sequence

import pytest
import trio

from agentrail import SessionHandle, SessionSpec, Supervisor, open_supervisor
from agentrail.errors import Fenced, JournalFailed, SessionHeld, SessionNotAlive, WrongType
from agentrail.events import SessionEnded
from agentrail.journals import NO_LEASE, Claim, Lease, MemoryJournal
from agentrail.models import UserMessage
from agentrail.runtime.inbox.end_reason import TAKEN
from agentrail.runtime.shared.clock import Clock
from agentrail.runtime.shared.leases import Leases
from agentrail.runtime.shared.timers import Timers
from agentrail.testing import ScriptedModel, stall
from tests.runtime.journals import TestJournal
from tests.runtime.poison import Poison
from tests.runtime.test_subagents_back import events_of, over
from tests.runtime.test_subagents_back import spec as with_subagent
from tests.runtime.world import spec_of, stop_at_the_end, until

LEASE = 30.0
"""Seconds of the leases of `open_supervisor`, unless it is told otherwise."""


class Counting(TestJournal):
    """A journal that notes how many claims each renewal and each release was about."""

    def __init__(self) -> None:
        super().__init__(inner=MemoryJournal)
        self.renewed: list[int] = []
        self.released: list[int] = []
        self.away = False

    async def renew(self, claims: Sequence[Claim], lease: Lease) -> tuple[Claim, ...]:
        self.renewed.append(len(claims))
        if self.away:
            raise OSError(5, "away")
        return await super().renew(claims, lease)

    async def release(self, claims: Sequence[Claim]) -> None:
        self.released.append(len(claims))
        await super().release(claims)


def talks(*more: str) -> SessionSpec:
    return spec_of(ScriptedModel(["fine", *more], repeat_last=True))


async def test_a_session_that_is_held_is_not_taken_from_whoever_has_it() -> None:
    journal = MemoryJournal()
    async with (
        open_supervisor(journal=journal, address="here") as here,
        open_supervisor(journal=journal, address="there") as other,
    ):
        session = await here.spawn(talks(), "s")
        await trio.sleep(10 * LEASE)
        for doing in (other.resume, other.open):
            with pytest.raises(SessionHeld) as held:
                await doing("s", talks())
            name, holder, remaining = held.value.args
            assert (name, holder) == ("s", "here")
            assert 0 < remaining <= LEASE * 1000
            assert "`here`" in str(held.value)
        assert (await session.ask("still there?")).text == "fine"
        assert here.crashes() == other.crashes() == ()


@pytest.mark.parametrize("value", [1, None, ["here"]])
async def test_a_session_is_taken_over_from_a_holder_or_not(value: object) -> None:
    async with open_supervisor(journal=MemoryJournal()) as supervisor:
        for doing in (supervisor.resume, supervisor.open):
            with pytest.raises(WrongType, match="as `take_over`; give `True`, `False`, or the address of the holder"):
                await doing("s", talks(), take_over=value)  # type: ignore[arg-type]


async def test_a_session_that_crashes_after_it_was_taken_over_ends_there() -> None:
    journal = MemoryJournal()
    spec = SessionSpec(model=ScriptedModel(["fine"], repeat_last=True), plugins=[Poison()])
    async with open_supervisor(journal=journal) as here, open_supervisor(journal=journal) as other:
        session = await here.spawn(spec, "s")
        taken = await other.resume("s", spec, take_over=True)
        await taken.ask("one more")  # the state of the plugin in the journal is another one now
        with pytest.raises(Fenced):
            await session.ask("die")
        assert [(report.reason.kind, report.done) for report in here.crashes()] == [
            ("OurBug", "restarted"),
            ("Fenced", "given_up"),
        ]
        assert here.sessions() == ()
        assert (await taken.ask("and you?")).text == "fine"


@pytest.mark.parametrize("kind", ["idle", "asleep", "at work"])
async def test_a_session_that_is_taken_over_ends_where_it_was(kind: str) -> None:
    journal = MemoryJournal()
    asleep = kind == "asleep"
    model = ScriptedModel([stall(after=1)] if kind == "at work" else ["fine"], repeat_last=True)
    spec = SessionSpec(model=model, hibernate_after=5.0 if asleep else None)
    async with (
        open_supervisor(journal=journal) as here,
        open_supervisor(journal=journal) as other,
        trio.open_nursery() as nursery,
    ):
        session = await here.spawn(spec, "s")
        met: list[Exception] = []

        async def ask() -> None:
            try:
                await session.ask("go")
            except Fenced as error:
                met.append(error)

        nursery.start_soon(ask)
        await trio.sleep(20)
        assert here.tree().children[0].state == ("asleep" if asleep else "running")
        async with session.monitor() as monitor:
            taken = await other.resume("s", talks(), take_over=True, recovery="pause")
            await trio.sleep(LEASE)  # the next renewal tells of it
            assert (await monitor.wait()).reason == TAKEN
        assert here.sessions() == ()
        assert len(met) == (1 if kind == "at work" else 0)
        with pytest.raises((Fenced, SessionNotAlive)):
            await session.prompt("more")
        await taken.resume()
        assert [message.text for message in taken.messages() if isinstance(message, UserMessage)] == ["go"]
        if kind == "at work":
            await taken.abort()
        assert (await taken.ask("and you?")).text == "fine"


class Renewing(MemoryJournal):
    """A journal whose leases are renewed when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.may_renew = trio.Event()

    async def renew(self, claims: Sequence[Claim], lease: Lease) -> tuple[Claim, ...]:
        await self.may_renew.wait()
        return await super().renew(claims, lease)


@pytest.mark.parametrize("_", range(2))
async def test_a_sleeping_session_that_is_taken_over_while_it_is_woken_to_stop_holds_up_no_one(_: int) -> None:
    """Trio decides in which order the tasks run: of so many, nearly always some are stopped before the renewal."""
    journal = Renewing()
    names = [f"s{number}" for number in range(20)]
    async with open_supervisor(journal=journal) as here, open_supervisor(journal=journal) as other:
        for name in names:
            below = await here.start_supervisor(name)
            await below.spawn(talks().but(hibernate_after=5.0), name)
        await trio.sleep(20)
        for name in names:
            await other.resume(name, talks(), take_over=True)
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            for name in names:
                nursery.start_soon(here.stop_child, name)
            journal.may_renew.set()
        assert trio.current_time() == began
        assert here.tree().children == ()


async def test_a_claim_that_was_made_anew_is_not_the_one_that_is_lost() -> None:
    journal = Renewing()
    async with open_supervisor(journal=journal) as here, open_supervisor(journal=journal) as other:
        session = await here.spawn(talks(), "s")
        await trio.sleep(LEASE / 2)  # the renewal of its claim is under way
        await other.resume("s", talks(), take_over=True)
        with pytest.raises(Fenced):
            await session.ask("go")
        again = await here.resume("s", talks(), take_over=True)
        journal.may_renew.set()
        await trio.sleep(1)
        assert [session.id for session in here.sessions()] == ["s"]
        assert (await again.ask("still there?")).text == "fine"


async def test_leases_of_all_sessions_are_renewed_by_one_call_and_released_by_one() -> None:
    journal = Counting()
    async with open_supervisor(journal=journal) as supervisor:
        for number in range(50):
            await supervisor.spawn(talks(), f"s{number}")
        await trio.sleep(3 * LEASE)
        assert 8 <= len(journal.renewed) <= 9
        assert set(journal.renewed) == {50}
        await supervisor.session("s7").stop()
        await trio.sleep(LEASE)
        assert journal.renewed[-1] == 49
        assert journal.released == [1]
        journal.released.clear()
    assert sum(journal.released) == 49
    assert len(journal.released) < 5


async def test_what_is_left_is_free_at_once() -> None:
    journal = MemoryJournal()
    async with open_supervisor(journal=journal) as here:
        await here.spawn(talks(), "s")
    began = trio.current_time()
    async with open_supervisor(journal=journal) as other:
        session = await other.resume("s", talks())
        assert (await session.ask("go")).text == "fine"
    assert trio.current_time() - began < 1


async def test_what_ends_or_does_not_start_is_free_at_once() -> None:
    journal = MemoryJournal()
    async with open_supervisor(journal=journal) as here, open_supervisor(journal=journal) as other:
        session = await here.spawn(talks(), "s")
        await session.stop()
        for supervisor in (other, here):
            await trio.sleep(1)
            with pytest.raises(SessionNotAlive):
                await supervisor.resume("s", talks())
        await trio.sleep(1)
        claim = await journal.claim("s", "a third", Lease(0, 1))
        assert claim.epoch > 0


async def test_what_is_cut_short_at_the_end_is_free_at_once() -> None:
    journal = TestJournal(inner=MemoryJournal)
    async with open_supervisor(journal=journal, stop_within=1.0) as supervisor:
        stop_at_the_end(supervisor)
        session = await supervisor.spawn(spec_of(ScriptedModel(["fine"]), shutdown=1000.0), "s")
        journal.commit = 1000.0
        with trio.move_on_after(0.0):
            await session.prompt("go")
    async with open_supervisor(journal=journal.inner) as supervisor:
        await supervisor.resume("s", talks())


async def test_leases_that_are_left_when_they_are_closed_are_free_at_once() -> None:
    journal = MemoryJournal()
    async with trio.open_nursery() as nursery:
        timers = Timers(Clock())
        leases = Leases(journal, timers, "here", int(1000 * LEASE))
        nursery.start_soon(timers.run)
        await leases.claim("s")
        with pytest.raises(SessionHeld):
            await journal.claim("s", "there", Lease(0, 1))
        await leases.close()
        assert (await journal.claim("s", "there", Lease(0, 1))).epoch == 2
        nursery.cancel_scope.cancel()


async def test_leases_are_renewed_however_often_sessions_start() -> None:
    journal = Counting()
    async with open_supervisor(journal=journal) as supervisor:
        for number in range(9):
            await supervisor.spawn(talks(), f"s{number}")
            await trio.sleep(0.15 * LEASE)
        assert journal.renewed == [3, 5, 7, 9]


async def test_a_supervisor_at_the_same_address_waits_for_no_lease() -> None:
    journal = MemoryJournal()
    async with open_supervisor(journal=journal, address="pod-3") as here:
        await here.spawn(talks(), "s")
        async with open_supervisor(journal=journal, address="pod-3") as again:
            session = await again.resume("s", talks())
            assert (await session.ask("go")).text == "fine"


async def _left_at_work(journal: MemoryJournal, lease: Lease) -> None:
    """Leave the session `s` in the journal with an open turn, held as another process that has died would."""
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(SessionSpec(model=ScriptedModel([stall(after=1)]), name="n"), "s")
        await session.prompt("go")
        await trio.sleep(1)
    await journal.claim("s", "a dead one", lease)


@pytest.mark.long
async def test_a_start_brings_a_session_back_when_the_lease_of_a_dead_process_has_ended() -> None:
    journal = MemoryJournal()
    async with open_supervisor(journal=journal) as supervisor:
        now = supervisor._sessions.shared.clock.now_ms()  # noqa: SLF001 - the time by which leases are given
    began = trio.current_time()
    await _left_at_work(journal, Lease(now, 60_000))

    def build() -> SessionSpec:
        return SessionSpec(model=ScriptedModel(["fine"]), name="n")

    async with open_supervisor(journal=journal, specs={"n": build}) as supervisor:
        await until(lambda: bool(supervisor.sessions()))
        assert 59 <= trio.current_time() - began <= 65
        session = supervisor.session("s")
        await over(session)
        assert session.messages()[-1].text == "fine"


class Claimed(TestJournal):
    """A journal that counts how often a session was claimed."""

    claims = 0

    async def claim(
        self, session_id: str, holder: str, lease: Lease = NO_LEASE, *, take_over: bool | str = False
    ) -> Claim:
        self.claims += 1
        return await super().claim(session_id, holder, lease, take_over=take_over)


async def test_what_is_held_is_claimed_again_when_the_lease_has_ended_and_not_before() -> None:
    memory_journal = MemoryJournal()
    async with open_supervisor(journal=memory_journal) as supervisor:
        now = supervisor._sessions.shared.clock.now_ms()  # noqa: SLF001 - the time by which leases are given
    await _left_at_work(memory_journal, Lease(now, 60_000))
    journal = Claimed(inner=lambda: memory_journal)

    def build() -> SessionSpec:
        return SessionSpec(model=ScriptedModel(["fine"]), name="n")

    async with open_supervisor(journal=journal, specs={"n": build}) as supervisor:
        await trio.sleep(50)
        assert (journal.claims, supervisor.sessions()) == (1, ())
        await trio.sleep(20)
        assert (journal.claims, len(supervisor.sessions())) == (2, 1)


async def test_an_outage_that_is_longer_than_the_lease_ends_no_session_that_nobody_took() -> None:
    journal = Counting()
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(talks(), "s")
        journal.away = True
        await trio.sleep(10 * LEASE)
        assert len(journal.renewed) > 10
        journal.away = False
        assert (await session.ask("go")).text == "fine"
        await trio.sleep(LEASE)
        assert supervisor.crashes() == ()
        with pytest.raises(SessionHeld):
            await journal.claim("s", "another")


async def test_what_was_claimed_during_an_outage_ends_when_the_journal_is_back() -> None:
    journal = Counting()
    async with open_supervisor(journal=journal) as here, open_supervisor(journal=journal.inner) as other:
        session = await here.spawn(talks(), "s")
        kept_session = await here.spawn(talks(), "t")
        journal.away = True
        await trio.sleep(2 * LEASE)
        taken = await other.resume("s", talks())
        journal.away = False
        await until(lambda: len(here.sessions()) == 1)
        with pytest.raises((Fenced, SessionNotAlive)):
            await session.ask("go")
        assert (await kept_session.ask("go")).text == (await taken.ask("go")).text == "fine"
        assert [report.reason.kind for report in here.crashes()] == ["Fenced"]


async def test_a_mistake_in_the_renewal_ends_no_session(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Counting):
        async def renew(self, claims: Sequence[Claim], lease: Lease) -> tuple[Claim, ...]:
            await super().renew(claims, lease)
            raise KeyError(0)

    journal = Broken()
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(talks(), "s")
        await trio.sleep(LEASE)
        assert (await session.ask("go")).text == "fine"
        assert 2 <= len(journal.renewed) <= 3
    assert "leases of sessions could not be renewed" in caplog.text


async def test_a_claim_whose_caller_has_left_is_not_renewed() -> None:
    class Slow(Counting):
        async def claim(self, *args: object, **more: object) -> Claim:
            with trio.CancelScope(shield=True):
                await trio.sleep(20)
            return await self.inner.claim(*args, **more)  # type: ignore[arg-type]  # as above

    journal = Slow()
    async with open_supervisor(journal=journal) as supervisor:
        with trio.move_on_after(1):
            await supervisor.spawn(talks(), "s")
        await trio.sleep(2 * LEASE)
        assert journal.renewed == []
        assert journal.released == [1]
        assert supervisor._sessions.shared.leases._claims == {}  # noqa: SLF001 - what would be renewed for ever


async def test_a_claim_is_not_given_to_a_caller_that_is_cancelled_as_it_comes() -> None:
    scope = trio.CancelScope()

    class Cancels(Counting):
        async def claim(self, *args: object, **more: object) -> Claim:
            scope.cancel()
            return await self.inner.claim(*args, **more)  # type: ignore[arg-type]  # as above

    async with open_supervisor(journal=Cancels()) as supervisor:
        with scope:
            await supervisor._sessions.shared.leases.claim("s")  # noqa: SLF001 - others hear of it by a task between
            pytest.fail("its caller has left")
        assert scope.cancelled_caught


async def test_sub_agents_go_where_their_parent_goes() -> None:
    journal = MemoryJournal()
    async with open_supervisor(journal=journal) as here, open_supervisor(journal=journal) as other:
        parent = await here.spawn(with_subagent(), "s")
        await parent.prompt("go")
        await until(lambda: len(here.sessions()) == 2)
        child = here.sessions()[1]
        await until(lambda: child.status().turn_open)
        taken = await _taken_over(here, other, "s")
        await over(taken)
        assert taken.messages()[-1].text == "fine"
        assert len([event for event in await events_of(journal, child.id) if isinstance(event, SessionEnded)]) == 1
        assert "found" in str(taken.messages()[-2])
        assert here.sessions() == ()


async def _taken_over(here: Supervisor, supervisor: Supervisor, name: str) -> SessionHandle:
    """Take a session over, and let its old supervisor hear of it before its sub-agents are taken too."""
    taken: list[SessionHandle] = []
    async with trio.open_nursery() as nursery:

        async def take() -> None:
            taken.append(await supervisor.resume(name, with_subagent(), take_over=True))

        nursery.start_soon(take)
        leases = here._sessions.shared.leases  # noqa: SLF001 - so that nobody need wait for the next renewal
        while here.sessions() and not taken:
            leases._renewal_is_due()  # noqa: SLF001 - as above
            await trio.lowlevel.checkpoint()
    return taken[0]


@pytest.mark.parametrize("lease", [0, -1, 0.01, "30", None, float("nan"), True])
async def test_a_lease_that_is_none_is_refused(lease: object) -> None:
    with pytest.raises(Exception, match="`lease`"):
        open_supervisor(journal=MemoryJournal(), lease=lease)  # type: ignore[arg-type]  # on purpose
    with pytest.raises(Exception, match="`address`"):
        open_supervisor(journal=MemoryJournal(), address=3)  # type: ignore[arg-type]  # on purpose


async def test_errors_of_a_renewal_are_no_crashes() -> None:
    class Failing(Counting):
        async def renew(self, claims: Sequence[Claim], lease: Lease) -> tuple[Claim, ...]:
            await super().renew(claims, lease)
            raise JournalFailed("renew", "no")

    journal = Failing()
    async with open_supervisor(journal=journal) as supervisor:
        await supervisor.spawn(talks(), "s")
        await trio.sleep(2 * LEASE)
        assert supervisor.crashes() == ()
        assert len(journal.renewed) > 5


async def test_sessions_of_a_supervisor_that_has_ended_are_free_for_others_at_once() -> None:
    journal = MemoryJournal()
    async with open_supervisor(journal=journal, address="here") as here:
        session = await here.spawn(talks(), "s")
        await session.ask("hello")
    async with open_supervisor(journal=journal, address="there") as there:
        assert (await (await there.resume("s", talks())).ask("hello again")).text == "fine"

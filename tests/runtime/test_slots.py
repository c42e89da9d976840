"""Several supervisors on one journal: each looks after its slots, and what a dead one leaves is shared out."""

from functools import partial

import pytest
import trio

from agentrail import SessionSpec, Supervisor, open_supervisor
from agentrail.app.supervisor import look_at_slots
from agentrail.errors import BadChoice, SessionHeld
from agentrail.journals import NO_LEASE, Claim, Journal, Lease, MemoryJournal, Retention
from agentrail.ports.journal import SLOTS, slot_of
from agentrail.runtime.shared.leases import RENEWALS
from agentrail.runtime.supervision.session_deletion import SWEEP_EVERY
from agentrail.testing import ScriptedModel, call, say, stall
from agentrail.tools import EffectClass
from tests.runtime.journals import TestJournal
from tests.runtime.tools import fake, slow
from tests.runtime.world import spec_of, until

LEASE = 9.0


def busy() -> SessionSpec:
    """A specification whose sessions are at work for ever."""
    return SessionSpec(model=ScriptedModel([stall(after=1)], repeat_last=True), name="busy")


class Cord(TestJournal):
    """A journal that a supervisor reaches until it is cut, as if its process were killed."""

    def __init__(self, inner: Journal) -> None:
        super().__init__(inner=lambda: inner)
        self.refused: list[str] = []
        self.is_cut = False

    async def claim(
        self, session_id: str, holder: str, lease: Lease = NO_LEASE, *, take_over: bool | str = False
    ) -> Claim:
        await self._reach()
        try:
            return await super().claim(session_id, holder, lease, take_over=take_over)
        except SessionHeld:
            self.refused.append(session_id)
            raise

    async def renew(self, claims: object, lease: Lease) -> tuple[Claim, ...]:
        await self._reach()
        return await super().renew(claims, lease)  # type: ignore[arg-type]  # as it is

    async def release(self, claims: object) -> None:
        if not self.is_cut:
            await super().release(claims)  # type: ignore[arg-type]  # as it is

    async def _reach(self) -> None:
        if self.is_cut:
            await trio.sleep_forever()


opened = partial(open_supervisor, lease=LEASE, cluster=True, stop_within=1.0, specs={"busy": busy})


def slots(supervisor: Supervisor) -> frozenset[int]:
    own_slots = supervisor._sessions.shared.slots  # noqa: SLF001 - nobody else can see them
    assert own_slots is not None
    return own_slots.held


def test_the_slot_of_a_session_is_the_same_in_each_version() -> None:
    assert [slot_of(name) for name in ("s", "t", "h.acme.ann.x")] == [4, 3, 22]


async def test_a_cluster_needs_a_journal() -> None:
    with pytest.raises(BadChoice, match="cluster=True"):
        open_supervisor(cluster=True)


async def test_each_has_its_share_of_the_slots_whoever_comes_and_goes() -> None:
    journal = MemoryJournal()
    async with opened(journal=journal, address="a") as first:
        await until(lambda: len(slots(first)) == SLOTS)
        async with opened(journal=journal, address="b") as second:
            await until(lambda: len(slots(second)) == SLOTS // 2)
            async with opened(journal=journal, address="c") as third:
                await trio.sleep(2 * LEASE)
                shares = [slots(supervisor) for supervisor in (first, second, third)]
                assert sorted(map(len, shares)) == [10, 11, 11]
                assert len(frozenset[int]().union(*shares)) == SLOTS
            await trio.sleep(2 * LEASE)
            assert slots(first) | slots(second) == frozenset(range(SLOTS))
            assert not slots(first) & slots(second)


async def test_who_starts_takes_no_session_of_a_living_one_and_asks_once() -> None:
    journal = MemoryJournal()
    cord = Cord(journal)
    async with opened(journal=journal, address="a") as first:
        for number in range(6):
            await (await first.spawn(busy(), f"s{number}")).prompt("go")
        async with opened(journal=cord, address="b") as second:
            await trio.sleep(20 * LEASE)
            assert second.sessions() == ()
            assert sorted(name for name in cord.refused if name.startswith("s")) == [f"s{i}" for i in range(6)]
        assert len(first.sessions()) == 6


async def test_what_a_dead_one_leaves_is_shared_out_also_what_it_began_later() -> None:
    journal = MemoryJournal()
    cord = Cord(journal)
    async with (
        opened(journal=cord, address="dead") as dead,
        opened(journal=journal, address="b") as second,
        opened(journal=journal, address="c") as third,
    ):
        await trio.sleep(2 * LEASE)
        for number in range(12):
            await (await dead.spawn(busy(), f"s{number}")).prompt("go")
        await trio.sleep(1)
        cord.is_cut = True
        await trio.sleep(2 * LEASE)
        # who took a slot that was free keeps what it has brought back if the other then takes the slot as its share
        here, other = ([session.id for session in supervisor.sessions()] for supervisor in (second, third))
        assert sorted([*here, *other]) == sorted(f"s{number}" for number in range(12))
        assert here
        assert other
        assert slots(second) | slots(third) == frozenset(range(SLOTS))


async def test_who_comes_back_gets_its_own_at_once() -> None:
    journal = MemoryJournal()
    async with opened(journal=journal, address="b") as second:
        cord = Cord(journal)
        async with opened(journal=cord, address="a") as first:
            for number in range(6):
                await (await first.spawn(busy(), f"s{number}")).prompt("go")
            await trio.sleep(1)
            cord.is_cut = True
            async with opened(journal=journal, address="a") as again:
                await until(lambda: len(again.sessions()) == 6)
                await trio.sleep(3 * LEASE)
                assert len(again.sessions()) == 6
                assert second.sessions() == ()


async def test_what_is_parked_goes_on_elsewhere() -> None:
    journal = MemoryJournal()
    async with opened(journal=journal, address="a") as first, opened(journal=journal, address="b") as second:
        await trio.sleep(2 * LEASE)
        await (await first.spawn(busy(), "s")).prompt("go")
        await trio.sleep(1)
        await first.drain(1.0)
        await trio.sleep(2 * LEASE)
        assert [session.id for session in second.sessions()] == ["s"]
        assert slots(first) == frozenset()


async def test_what_is_parked_goes_on_at_once_where_that_is_told() -> None:
    journal = MemoryJournal()
    async with opened(journal=journal, address="a") as first, opened(journal=journal, address="b") as second:
        await trio.sleep(2 * LEASE)
        for number in range(6):
            await (await first.spawn(busy(), f"s{number}")).prompt("go")
        await trio.sleep(1)
        began = trio.current_time()
        await first.drain(1.0)
        look_at_slots(second)
        await until(lambda: len(second.sessions()) == 6)
        assert slots(second) == frozenset(range(SLOTS))
        assert trio.current_time() - began < 0.1


async def test_what_takes_long_to_park_waits_for_no_lease() -> None:
    pay = fake("pay", slow("pay", 1.5 * LEASE).body, effect=EffectClass.UNSAFE)

    def lasting() -> SessionSpec:
        return spec_of(ScriptedModel([say(calls=[call("pay")]), stall(after=1)]), tools=[pay], name="lasting")

    journal = MemoryJournal()
    open_ = partial(opened, journal=journal, specs={"lasting": lasting})
    async with open_(address="a") as first, open_(address="b") as second:
        await trio.sleep(2 * LEASE)
        await (await first.spawn(lasting(), "s")).prompt("go")
        await trio.sleep(1)
        await first.drain(None)
        began = trio.current_time()
        await until(lambda: len(second.sessions()) == 1)
        assert trio.current_time() - began < LEASE / RENEWALS + 0.5


async def test_each_deletes_the_old_sessions_of_its_slots() -> None:
    deleted: dict[str, set[str]] = {"a": set(), "b": set()}

    class Noting(TestJournal):
        async def delete(self, session_id: str, holder: str, at: int) -> int:
            deleted[holder].add(session_id)
            return await super().delete(session_id, holder, at)

    journal = Noting(inner=MemoryJournal)
    names = {f"s{number}" for number in range(12)}
    async with (
        opened(journal=journal, address="a", lease=300.0, retain=[Retention(0)]) as first,
        opened(journal=journal, address="b", lease=300.0, retain=[Retention(0)]) as second,
    ):
        await trio.sleep(600)
        for name in names:
            await (await first.spawn(spec_of(ScriptedModel(["fine"])), name)).stop()
        await trio.sleep(SWEEP_EVERY + 60)
        for holder, supervisor in (("a", first), ("b", second)):
            assert deleted[holder] == {name for name in names if slot_of(name) in slots(supervisor)}
            assert deleted[holder]


async def test_a_journal_that_fails_is_looked_at_again(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(TestJournal):
        broken = True

        async def claim(
            self, session_id: str, holder: str, lease: Lease = NO_LEASE, *, take_over: bool | str = False
        ) -> Claim:
            if self.broken:
                raise ValueError
            return await super().claim(session_id, holder, lease, take_over=take_over)

    journal = Broken(inner=MemoryJournal)
    async with opened(journal=journal, address="a") as supervisor:
        await trio.sleep(LEASE)
        assert slots(supervisor) == frozenset()
        journal.broken = False
        await until(lambda: len(slots(supervisor)) == SLOTS)
    assert "the slots of the journal were not looked at" in caplog.text

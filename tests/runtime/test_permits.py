"""The queue of requests that wait for permits: sessions take turns, and nobody is forgotten or passed over."""

from __future__ import annotations

import math
from functools import partial
from random import Random
from typing import NamedTuple

import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrail.errors import LimitReached
from agentrail.runtime.shared.permits import LimitKey, PermitQueue, Waiter
from agentrail.runtime.work.reservations import Purse, Reservation
from tests.kit import NOTHING_USED
from tests.profiles import CAMPAIGN
from tests.runtime.conftest import run_in_virtual_time

SHARED: LimitKey = ("root", False)
SESSIONS = ("a", "b", "c", "own")


class Asked(NamedTuple):
    """A request: its session, when it comes, how long it takes when it is sent, and when its caller gives up."""

    session: str
    at: int
    seconds: int
    gives_up: int | None

    @property
    def limits(self) -> tuple[LimitKey, ...]:
        """What it has to fit: the session `own` shares the limits of no other."""
        return ((self.session, True),) if self.session == "own" else (SHARED, (self.session, True))


class Room:
    """Limits of which each has room for a number of requests at once."""

    def __init__(self, shared: int, number: int) -> None:
        self.purse = Purse()
        self.queue = self.purse.queue
        self.sent: list[int] = []
        self.most = {SHARED: shared}
        self._own = number
        self._under_way: dict[LimitKey, int] = {}

    def full(self, request: Asked) -> LimitKey | None:
        """Return the limits that have no room for a request."""
        return next(
            (limit for limit in request.limits if self._under_way.get(limit, 0) >= self.most.get(limit, self._own)),
            None,
        )

    async def pass_through(self, number: int, request: Asked) -> None:
        """Send a request when it may be sent; it may be cancelled at any time."""
        await trio.sleep(request.at)
        reservation = Reservation("", ("root", request.session), lambda: NOTHING_USED)
        waiter = self.queue.join(request.session, partial(self._take, number, request), request.limits)
        await self.purse.wait(waiter, reservation, partial(self._give_back, number, request), trio.current_time)
        try:
            await trio.sleep(request.seconds)
        finally:
            self._free(request)
            self.queue.look()

    def _take(self, number: int, request: Asked) -> LimitKey | None:
        full = self.full(request)
        if full is None:
            self.sent.append(number)
            for limit in request.limits:
                self._under_way[limit] = self._under_way.get(limit, 0) + 1
        return full

    def _give_back(self, number: int, request: Asked) -> None:
        self.sent.remove(number)
        self._free(request)

    def _free(self, request: Asked) -> None:
        for limit in request.limits:
            self._under_way[limit] -= 1


def requests_of(chance: Random) -> list[Asked]:
    """Draw requests, in the order in which they come."""
    actual = [
        Asked(
            chance.choice(SESSIONS),
            chance.randint(0, 6),
            chance.randint(0, 6),
            chance.randint(0, 6) if chance.random() < 0.4 else None,
        )
        for _ in range(chance.randint(1, 12))
    ]
    return sorted(actual, key=lambda request: request.at)


async def sent_of(requests: list[Asked], shared: int, own_number: int, *, stirs: bool = False) -> list[int]:
    """Return the numbers of the requests that are sent, in order; with *stirs*, all look again and again."""
    room = Room(shared, own_number)

    async def ask(number: int, request: Asked) -> None:
        with trio.move_on_after(math.inf if request.gives_up is None else request.at + request.gives_up):
            await room.pass_through(number, request)

    async def stir() -> None:
        for _ in range(20 if stirs else 0):
            await trio.sleep(0.5)
            room.queue.look()

    with trio.fail_after(1_000):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stir)
            for number, request in enumerate(requests):
                nursery.start_soon(ask, number, request)
    return room.sent


def wrong_order(requests: list[Asked], sent: list[int]) -> str | None:
    """Return what is wrong if *sent* are the requests that were sent, in this order."""
    if not {number for number, request in enumerate(requests) if request.gives_up is None} <= {*sent}:
        return "not sent"
    for session in SESSIONS:
        times = [requests[number].at for number in sent if requests[number].session == session]
        if times != sorted(times):
            return "order"
    return None


@pytest.mark.long
@settings(max_examples=2_000 if CAMPAIGN else 150)
@given(st.integers(0, 1_000_000), st.integers(1, 3), st.integers(1, 2), st.booleans())
def test_first_come_first_served_and_nobody_is_forgotten(seed: int, shared: int, number: int, stirs: bool) -> None:
    """Whoever is cancelled while it waits, or in the moment in which it is its turn, passes the turn on."""
    requests = requests_of(Random(seed))
    assert wrong_order(requests, run_in_virtual_time(partial(sent_of, requests, shared, number, stirs=stirs))) is None


LINES = (("root",), ("root", "a"), ("root", "a", "aa"), ("root", "a", "ab"), ("root", "b"), ("root", "b", "ba"))
ALL_LIMITS: tuple[LimitKey, ...] = tuple((line[-1], of_turn) for line in LINES for of_turn in (False, True))


class Restless:
    """A family in which limits fill and empty, and all look again after each change."""

    def __init__(self, chance: Random, requests: int) -> None:
        self.queue = PermitQueue()
        self.looks = 0
        self._chance = chance
        self._requests = requests
        self._full = {limit for limit in ALL_LIMITS if chance.random() < 0.5}
        self._waiters: list[tuple[Waiter, tuple[LimitKey, ...]]] = []
        self._shares = {line: chance.random() < 0.8 for line in LINES}

    def _look(self, needs: tuple[LimitKey, ...]) -> LimitKey | None:
        self.looks += 1
        return next((need for need in needs if need in self._full), None)

    def live(self) -> tuple[int, int]:
        """Return how often one waited that had room, and the most looks in vain after one change."""
        passed_over = in_vain = 0
        for _ in range(20 * self._requests):
            if len(self._waiters) < self._requests:
                line = self._chance.choice(LINES)
                needs = (*((item, False) for item in (line if self._shares[line] else line[-1:])), (line[-1], True))
                self._waiters.append((self.queue.join(line[-1], partial(self._look, needs), needs), needs))
            else:
                self._full ^= {self._chance.choice(ALL_LIMITS)}
                self.looks, waiting = 0, len(self.queue)
                self.queue.look()
                in_vain = max(in_vain, self.looks - (waiting - len(self.queue)) - len(self._full))
            self._waiters = [(waiter, needs) for waiter, needs in self._waiters if not waiter.has_permit]
            passed_over += sum(self._full.isdisjoint(needs) for _, needs in self._waiters)
        return passed_over, in_vain


@pytest.mark.long
@settings(max_examples=2_000 if CAMPAIGN else 150)
@given(st.integers(0, 1_000_000), st.integers(1, 12))
def test_nobody_with_room_waits_and_a_change_costs_one_look_for_each_full_limit(seed: int, requests: int) -> None:
    passed_over, in_vain = Restless(Random(seed), requests).live()
    assert passed_over == 0
    assert in_vain <= 0


def test_what_a_look_raises_is_raised_where_the_request_waits() -> None:
    async def live() -> None:
        queue, full = PermitQueue(), [True]

        def look() -> LimitKey | None:
            if full:
                return SHARED
            raise LimitReached("tokens")

        async def wait() -> None:
            with pytest.raises(LimitReached):
                await queue.wait(queue.join("a", look, (SHARED,)), full.clear)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked()
            assert len(queue) == 1
            full.clear()
            queue.look()
            assert len(queue) == 0

    run_in_virtual_time(live)


def test_one_that_is_blocked_by_its_own_limit_lets_the_others_pass() -> None:
    async def live() -> None:
        room = Room(shared=2, number=1)
        async with trio.open_nursery() as nursery:
            for number, session in enumerate(("a", "a", "b")):
                nursery.start_soon(room.pass_through, number, Asked(session, number, 10, None))
        assert room.sent == [0, 2, 1]
        assert room.purse.clocks["a"].seconds == 9.0
        assert "b" not in room.purse.clocks

    run_in_virtual_time(live)


def test_a_request_whose_turn_comes_as_it_is_cancelled_passes_it_on() -> None:
    async def live() -> None:
        room = Room(shared=1, number=2)
        scope = trio.CancelScope()

        async def cancellable() -> None:
            with scope:
                await room.pass_through(1, Asked("b", 0, 1, None))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(room.pass_through, 0, Asked("a", 0, 100, None))
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(cancellable)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(room.pass_through, 2, Asked("b", 0, 1, None))
            await trio.testing.wait_all_tasks_blocked()
            room.most[SHARED] = 2
            scope.cancel()
            room.queue.look()
            await trio.testing.wait_all_tasks_blocked()
            assert room.sent == [0, 2]

    run_in_virtual_time(live)

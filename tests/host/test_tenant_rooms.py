"""The limit of sessions of a tenant is exact, although they are not listed for each session that is opened."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import partial
from random import Random
from typing import Final

import pytest
import trio

from agentrail.errors import RefusedError
from agentrail.host import HostLimits
from agentrail.host.hosted_sessions import SessionQuota
from agentrail.journals import ALL_SESSIONS, MemoryJournal, SessionFilter, StoredSession
from tests.host.hosted import Desk, open_desk, scripted

MOST: Final = 5
LIMITS: Final = HostLimits(sessions=MOST, drain_seconds=0.5, burst=10_000, requests_per_second=1e6)


class Listing(MemoryJournal):
    """Counts how often all sessions of a tenant that have not ended are listed."""

    listings = 0

    async def sessions(
        self, session_filter: SessionFilter = ALL_SESSIONS, after: StoredSession | None = None, limit: int = 1000
    ) -> tuple[StoredSession, ...]:
        self.listings += session_filter == SessionFilter(tenant="acme", ended=False)
        return await super().sessions(session_filter, after, limit)


async def opened(desk: Desk, names: Iterable[str]) -> list[str]:
    """Open sessions, all at once, and return those that were; the others were refused, as there were too many."""
    texts: list[str] = []

    async def open_one(name: str) -> None:
        answer = await desk.ann.post("/v1/sessions", json={"session": name})
        if answer.status_code == 201:
            texts.append(name)
        else:
            assert (answer.status_code, answer.json()["error"]) == (429, "TooManySessions")

    async with trio.open_nursery() as nursery:
        for name in names:
            nursery.start_soon(open_one, name)
    return texts


@pytest.mark.long
async def test_as_many_sessions_are_open_as_there_may_be_whatever_came_before() -> None:
    journal = MemoryJournal()
    chance = Random(1)
    here: list[str] = []
    number = 0
    for _ in range(4):  # each time another host, with the same journal
        async with open_desk(scripted("one"), journal=journal, limits=LIMITS) as desk:
            for _ in range(8):
                ended = chance.sample(here, chance.randint(0, len(here)))
                for name in ended:
                    here.remove(name)
                    if chance.random() < 0.5:
                        assert (await desk.clients["boss"].delete(f"/v1/sessions/ann.{name}")).status_code < 300
                    else:
                        assert (await desk.ann.post(f"/v1/sessions/{name}/stop", json={})).status_code < 300
                tries = chance.randint(1, MOST + 2)
                number += tries
                room = MOST - len(here)
                came = await opened(desk, [f"s{number - index}" for index in range(tries)])
                assert len(came) == min(tries, room)
                here += came


async def test_a_session_that_was_not_opened_takes_no_room() -> None:
    async with open_desk(scripted("one"), limits=LIMITS) as desk:
        assert await opened(desk, ["a"]) == ["a"]
        statuses = Counter[int]()
        for _ in range(2 * MOST):
            statuses[(await desk.ann.post("/v1/sessions", json={"session": "a"})).status_code] += 1
        assert statuses == {409: 2 * MOST}
        assert sorted(await opened(desk, "bcdefg")) == sorted(await listed(desk))[1:]
        assert len(await listed(desk)) == MOST


async def test_a_fork_takes_room_as_a_session_that_is_opened_does() -> None:
    async with open_desk(scripted("one"), limits=LIMITS) as desk:
        assert len(await opened(desk, "abcd")) == MOST - 1
        statuses = [
            (await desk.ann.post("/v1/sessions/a/fork", json={"session": f"copy{n}"})).status_code for n in "12"
        ]
        assert statuses == [201, 429]
        assert await listed(desk) == ["a", "b", "c", "copy1", "d"]


async def listed(desk: Desk) -> list[str]:
    """Return the names of the sessions that the user has."""
    page = (await desk.ann.get("/v1/sessions", params={"limit": "100"})).json()
    return [item["session"].removeprefix("ann.") for item in page["items"]]


@pytest.mark.long
async def test_sessions_that_are_opened_together_are_not_listed_each_time() -> None:
    journal = Listing()
    names = [f"s{number}" for number in range(100)]
    limits = LIMITS.but(sessions=1000, connections_per_address=len(names))
    async with open_desk(scripted("one"), journal=journal, limits=limits) as desk:
        assert sorted(await opened(desk, names)) == sorted(names)
        assert journal.listings < len(names) / 4  # once a second


COUNTING: Final = 0.01
"""How many seconds it takes to look which sessions there are."""


class Starts:
    """Sessions of one tenant that start, slowly or not, and are in a list from somewhere during their start on."""

    def __init__(self, most: int, *living: str) -> None:
        self.rooms = SessionQuota(most, self._find)
        self.living = set(living)
        self.starting = set[str]()
        self.refused = set[str]()
        self.begun_at: dict[str, float] = {}

    async def _find(self, tenant: str) -> frozenset[str]:
        await trio.sleep(COUNTING)
        return frozenset(self.living)

    async def start(
        self, name: str, start_at: float, lasts: float, listed_after: float, *, fails: bool = False
    ) -> None:
        await trio.sleep(start_at)
        try:
            async with self.rooms.reserve("acme", name):
                self.begun_at[name] = trio.current_time()
                self.starting.add(name)
                await trio.sleep(listed_after)
                if not fails:
                    self.living.add(name)
                await trio.sleep(lasts - listed_after)
                self.starting.remove(name)
        except RefusedError:
            self.refused.add(name)

    async def stop(self, name: str, start_at: float) -> None:
        await trio.sleep(start_at)
        self.living.discard(name)


@pytest.mark.parametrize("listed_after", [0.0, 8.0])
async def test_a_slow_start_holds_up_no_other(autojump_clock: object, listed_after: float) -> None:  # noqa: ARG001
    starts = Starts(3, "old")
    now = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(starts.start, "slow", 0.0, 8.0, listed_after)
        nursery.start_soon(starts.start, "quick", 2.0, 0.1, 0.0)
    assert starts.begun_at["quick"] - now == pytest.approx(2.0, abs=0.1)


async def test_who_has_room_only_if_a_start_fails_waits_for_the_first_that_does(autojump_clock: object) -> None:  # noqa: ARG001
    starts = Starts(3, "old")
    now = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(starts.start, "slow", 0.0, 8.0, 8.0)
        nursery.start_soon(partial(starts.start, "failing", 0.0, 5.0, 5.0, fails=True))
        nursery.start_soon(starts.start, "waiting", 2.0, 0.1, 0.0)
    assert starts.begun_at["waiting"] - now == pytest.approx(5.0, abs=0.1)
    assert starts.living == {"old", "slow", "waiting"}


async def test_a_start_that_fails_during_a_count_leaves_its_room(autojump_clock: object) -> None:  # noqa: ARG001
    starts = Starts(2, "old")
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(starts.start, "failing", 0.0, 2.0 + COUNTING / 2, 2.0, fails=True))
            nursery.start_soon(starts.start, "waiting", 2.0, 0.1, 0.0)
    assert starts.living == {"old", "waiting"}


@pytest.mark.parametrize("seed", range(25))
async def test_whatever_starts_fails_and_ends_no_room_is_lost_or_given_twice(
    autojump_clock: object,  # noqa: ARG001
    seed: int,
) -> None:
    chance = Random(seed)
    most = chance.randint(1, 6)
    starts = Starts(most)
    async with trio.open_nursery() as nursery:
        for name in map(str, range(chance.randint(1, 14))):
            start_at, lasts = 4 * chance.random(), chance.choice((0.1, 1.0, 8.0))
            fails = chance.random() < 0.3
            nursery.start_soon(
                partial(starts.start, name, start_at, lasts, chance.choice((0.0, lasts / 2, lasts)), fails=fails)
            )
            if chance.random() < 0.3:
                nursery.start_soon(starts.stop, name, start_at + lasts + chance.random())
        for _ in range(300):
            await trio.sleep(0.05)
            assert len(starts.living | starts.starting) <= most
    count = len(starts.living)
    starts.begun_at.clear()
    async with trio.open_nursery() as nursery:
        for name in "abcdefgh":
            nursery.start_soon(starts.start, name, 0.0, 0.1, 0.1)
    assert len(starts.begun_at) == most - count

"""The limit of sessions of a tenant is exact, although they are not listed for each session that is opened."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from random import Random
from typing import Final

import pytest
import trio

from agentrail.api.limits import HostLimits
from agentrail.journals import MemoryJournal
from agentrail.ports.journal import ALL_SESSIONS, SessionFilter, StoredSession
from tests.host.hosted import Desk, open_desk, scripted

MOST: Final = 5
LIMITS: Final = HostLimits(sessions=MOST, drain_seconds=0.5, burst=10_000, requests_per_second=1e6)


class Listing(MemoryJournal):
    """Counts how often all sessions of a tenant that have not ended are listed."""

    listings = 0

    async def sessions(
        self, wanted: SessionFilter = ALL_SESSIONS, after: StoredSession | None = None, limit: int = 1000
    ) -> tuple[StoredSession, ...]:
        self.listings += wanted == SessionFilter(tenant="acme", ended=False)
        return await super().sessions(wanted, after, limit)


async def opened(desk: Desk, names: Iterable[str]) -> list[str]:
    """Open sessions, all at once, and return those that were; the others were refused, as there were too many."""
    found: list[str] = []

    async def open_one(name: str) -> None:
        answer = await desk.ann.post("/v1/sessions", json={"session": name})
        if answer.status_code == 201:
            found.append(name)
        else:
            assert (answer.status_code, answer.json()["error"]) == (429, "TooManySessions")

    async with trio.open_nursery() as nursery:
        for name in names:
            nursery.start_soon(open_one, name)
    return found


@pytest.mark.long
async def test_as_many_sessions_are_open_as_there_may_be_whatever_came_before() -> None:
    journal = MemoryJournal()
    chance = Random(1)
    here: list[str] = []
    number = 0
    for _ in range(4):  # each time another host, with the same journal
        async with open_desk(scripted("one"), journal=journal, limits=LIMITS) as desk:
            for _ in range(8):
                gone = chance.sample(here, chance.randint(0, len(here)))
                for name in gone:
                    here.remove(name)
                    if chance.random() < 0.5:
                        assert (await desk.clients["boss"].delete(f"/v1/sessions/ann.{name}")).status_code < 300
                    else:
                        assert (await desk.ann.post(f"/v1/sessions/{name}/stop", json={})).status_code < 300
                tries = chance.randint(1, MOST + 2)
                number += tries
                room = MOST - len(here)
                came = await opened(desk, [f"s{number - each}" for each in range(tries)])
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


async def listed(desk: Desk) -> list[str]:
    """Return the names of the sessions that the user has."""
    page = (await desk.ann.get("/v1/sessions", params={"limit": "100"})).json()
    return [each["session"].removeprefix("ann.") for each in page["items"]]


async def test_sessions_that_are_opened_together_are_not_listed_each_time() -> None:
    journal = Listing()
    names = [f"s{number}" for number in range(100)]
    limits = LIMITS.but(sessions=1000, connections_per_address=len(names))
    async with open_desk(scripted("one"), journal=journal, limits=limits) as desk:
        assert sorted(await opened(desk, names)) == sorted(names)
        assert journal.listings < len(names) / 4  # once a second

"""Who gives way to whom in a full server, and that nobody loses what all the others leave to them."""

from __future__ import annotations

from collections import Counter
from functools import partial
from random import Random
from typing import Final

import pytest
import trio

from agentrail.errors import ConnectionsInUse
from agentrail.host import HostLimits
from agentrail.host.requests.places import ConnectionPlace, Places, Wait
from agentrail.host.requests.refusals import HttpRefusal
from tests.each_case import each_case

MOST: Final = 20
ADVICE: Final = "; end a stream, a WebSocket or a request, or wait"
IN_USE: Final = 18
UNSHARED: Final = HostLimits(connections=MOST, tenant_share=1, key_share=1)


class Crowd:
    """Connections of a server, without a server."""

    def __init__(self, limits: HostLimits) -> None:
        self.places = Places(limits)
        self.left: list[str] = []
        """Names of those that gave way, in order."""

    def come(self, tenant: str, key: str, wait: Wait | None, since: float = 0, name: str = "") -> ConnectionPlace:
        """Open a connection that is used by a key, and waits then."""
        place = ConnectionPlace(self.places)
        self.places.enter(place, None)
        try:
            place.take(tenant, key)
        except BaseException:
            place.leave()
            raise
        if wait is not None:
            place.begin_wait(wait, since, lambda: self.left.append(name))
        return place


def test_by_default_a_key_has_a_quarter_of_a_thousand_connections_its_tenant_half_and_new_callers_an_eighth() -> None:
    crowd = Crowd(HostLimits())
    key_full = f"the key uses 250 connections, as many as `key_share` lets it{ADVICE}"
    tenant_full = f"the tenant uses 500 connections, as many as `tenant_share` lets it{ADVICE}"
    all_in_use = "875 connections in use, as many as `connections` lets known callers have, and none that can give way"
    all_in_use = f"cannot answer the request: {all_in_use}; try again later"
    found: list[tuple[str, int]] = []
    for tenant, key in ("a", "1"), ("a", "2"), ("a", "3"), ("b", "1"), ("c", "1"):
        number = 0
        try:
            while True:
                crowd.come(tenant, key, None)
                number += 1
        except (ConnectionsInUse, HttpRefusal) as error:
            found.append((str(error), number))
    assert found == [
        (key_full, 250),
        (key_full, 250),
        (tenant_full, 0),
        (key_full, 250),
        (all_in_use, 125),
    ]


def test_what_is_nearest_to_its_end_gives_way_first() -> None:
    crowd = Crowd(UNSHARED)
    waits = [Wait.TURN, Wait.EVENT, Wait.MESSAGE, Wait.BODY]
    for number in range(IN_USE - 1):
        wait = waits[number % len(waits)]
        crowd.come("big", "a", wait, since=-number, name=f"{wait.name} {-number}")
    crowd.come("big", "a", None, name="one that answers")
    for _ in range(IN_USE // 2 - 1):
        crowd.come("small", "b", Wait.BODY, name="of the small one")
    assert crowd.left == [
        *("BODY -15", "BODY -11", "BODY -7", "BODY -3"),
        *("MESSAGE -14", "MESSAGE -10", "MESSAGE -6", "MESSAGE -2"),
    ]
    crowd.come("small", "b", None)
    with pytest.raises(HttpRefusal, match="18 connections in use"):
        crowd.come("small", "b", None)


def test_a_client_that_is_slow_to_take_its_answer_gives_way_after_all_others() -> None:
    crowd = Crowd(UNSHARED)
    for number in range(IN_USE - 2):
        crowd.come("big", "a", Wait.SENDING, since=-number, name=f"SENDING {-number}")
    crowd.come("big", "a", Wait.TURN, name="TURN")
    crowd.come("big", "a", None, name="one that works")
    for _ in range(4):
        crowd.come("small", "b", None)
    assert crowd.left == ["TURN", "SENDING -15", "SENDING -14", "SENDING -13"]


@pytest.mark.parametrize("wait", [Wait.MESSAGE, Wait.SENDING])
def test_of_equals_one_of_whoever_has_most_gives_way(wait: Wait) -> None:
    crowd = Crowd(UNSHARED)
    for tenant, key, number in (("a", "1", 3), ("a", "2", 4), ("b", "1", 6), ("c", "1", 5)):
        for _ in range(number):
            crowd.come(tenant, key, wait, name=f"{tenant}{key}")
    crowd.come("d", "1", None)
    crowd.come("d", "1", None)
    crowd.come("a", "3", None)
    assert crowd.left == ["a2", "b1", "a1"]


def test_a_connection_that_cannot_give_way_stays() -> None:
    crowd = Crowd(UNSHARED)
    there = [crowd.come("big", "a", None) for _ in range(IN_USE)]
    with pytest.raises(HttpRefusal):
        crowd.come("small", "b", None)
    there[0].leave()
    crowd.come("small", "b", None)
    assert crowd.places.open == IN_USE


async def test_a_caller_that_is_not_known_yet_has_its_time() -> None:
    crowd = Crowd(UNSHARED)
    first, second = ConnectionPlace(crowd.places), ConnectionPlace(crowd.places)
    now = trio.current_time()
    first.begin_wait(Wait.CALLER, now - 3, lambda: crowd.left.append("first"))
    second.begin_wait(Wait.CALLER, now + 60, lambda: crowd.left.append("second"))
    assert [crowd.places.unused_gives_way(1) for _ in range(2)] == [True, False]
    second.begin_wait(Wait.CLOSE, now + 60, lambda: crowd.left.append("second, after its answer"))
    assert [crowd.places.unused_gives_way(1) for _ in range(2)] == [True, False]
    assert crowd.left == ["first", "second, after its answer"]
    second.begin_wait(Wait.BODY, now, lambda: crowd.left.append("second, at once"))
    assert crowd.left[2:] == ["second, at once"]
    with pytest.raises(HttpRefusal, match="another caller"):
        second.take("acme", "ann")


async def test_a_caller_that_is_not_known_and_takes_its_answer_gives_way_after_those_that_are_still_heard() -> None:
    crowd = Crowd(UNSHARED)
    known = crowd.come("big", "a", Wait.SENDING, name="known")
    now = trio.current_time()
    for wait, since in ((Wait.SENDING, now), (Wait.SENDING, now - 3), (Wait.SENDING, now - 2), (Wait.CALLER, now - 1)):
        name = f"{wait.name} {since - now:.0f}"
        ConnectionPlace(crowd.places).begin_wait(wait, since, partial(crowd.left.append, name))
    assert [crowd.places.unused_gives_way(1) for _ in range(4)] == [True, True, True, False]
    assert crowd.left == ["CALLER -1", "SENDING -3", "SENDING -2"]
    assert known.wait is Wait.SENDING


@pytest.mark.parametrize("wait", [Wait.CALLER, Wait.SENDING])
async def test_an_unknown_caller_has_its_time_once_for_all_of_its_requests(wait: Wait) -> None:
    crowd = Crowd(UNSHARED)
    unknown, known = ConnectionPlace(crowd.places), ConnectionPlace(crowd.places)
    now = trio.current_time()
    for place in known, unknown:
        place.begin_request(now - 3)
    known.take("acme", "ann")
    known.free()
    for place, name in ((known, "known before"), (unknown, "never known")):
        place.begin_request(now)
        place.begin_wait(wait, now, partial(crowd.left.append, name))
    assert [crowd.places.unused_gives_way(1) for _ in range(2)] == [True, False]
    assert crowd.left == ["never known"]


@each_case(range(20))
def test_whoever_uses_few_connections_gets_one_whatever_the_others_do(seed: int) -> None:
    chance = Random(seed)
    crowd = Crowd(HostLimits(connections=MOST))
    there: list[ConnectionPlace] = []
    for _ in range(300):
        there = [place for place in there if place.caller is not None]
        of_tenant = Counter(place.caller[0] for place in there if place.caller)
        of_caller = Counter(place.caller for place in there)
        assert len(there) <= IN_USE
        assert max(of_tenant.values(), default=0) <= MOST // 2
        assert max(of_caller.values(), default=0) <= MOST // 4
        if there and chance.random() < 0.2:
            chance.choice(there).leave()
            continue
        tenant, key = chance.choice("aaaabbc"), chance.choice("1112")
        try:
            there.append(
                crowd.come(tenant, key, chance.choice([wait for wait in Wait if wait not in crowd.places.unused]))
            )
        except ConnectionsInUse:
            assert of_caller[tenant, key] == MOST // 4 or of_tenant[tenant] == MOST // 2
        except HttpRefusal:
            assert len(there) == IN_USE
            assert max(count for other, count in of_tenant.items() if other != tenant) <= of_tenant[tenant] + 1
    assert crowd.places.open == len([place for place in there if place.caller is not None])

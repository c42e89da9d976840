"""Who may use how many connections of a server, and which one is closed for a new one."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Final

import pytest
import trio
import trio.testing

from agentrail.errors import ConnectionsInUse
from agentrail.host import HostLimits
from agentrail.host.requests.places import SILENT, ConnectionPlace, Places
from agentrail.host.requests.refusals import HttpRefusal

MOST: Final = 20
IN_USE: Final = 18
OF_ADDRESS: Final = 4
LIMITS: Final = HostLimits(connections=MOST, connections_per_address=OF_ADDRESS)
ADVICE: Final = "; end a stream, a WebSocket or a request, or wait"


class Crowd:
    """Connections of a server, without a server."""

    def __init__(self, limits: HostLimits = LIMITS) -> None:
        self.places = Places(limits)
        self.closed: list[str] = []
        """Names of those that were closed for others, in order."""

    def connect(self, name: str = "", network: str | None = None) -> ConnectionPlace:
        """Open a connection whose caller is not known yet; raise `HttpRefusal` if there is no room for it."""
        refusal = self.places.make_room(network)
        if refusal is not None:
            raise refusal
        place = ConnectionPlace(self.places)
        place.enter(network, lambda: self.closed.append(name))
        return place

    def come(self, tenant: str, key: str) -> ConnectionPlace:
        """Open a connection that a key uses."""
        place = self.connect()
        try:
            place.take(tenant, key)
        except BaseException:
            place.leave()
            raise
        return place

    def fill(self, tenant: str, key: str) -> tuple[str, int]:
        """Open connections of a key until one is refused; return why, and how many there were before."""
        number = 0
        while True:
            try:
                self.come(tenant, key)
            except (ConnectionsInUse, HttpRefusal) as error:
                return str(error), number
            number += 1


def in_use(whose: str, number: int) -> str:
    return f"{whose} uses {number} connections, as many as `connections` lets it{ADVICE}"


async def test_by_default_a_key_has_a_third_of_the_connections_its_tenant_half_and_new_callers_an_eighth() -> None:
    crowd = Crowd(HostLimits())
    assert crowd.fill("a", "1") == (in_use("the key", 292), 292)
    assert crowd.fill("a", "2") == (in_use("the key", 97), 97)
    of_tenant = 292 + 97
    for key in range(3, 10):
        of_tenant += crowd.fill("a", str(key))[1]
    assert (crowd.fill("a", "last"), of_tenant) == ((in_use("the tenant", 438), 0), 438)
    assert crowd.fill("b", "1") == (in_use("the key", 146), 146)
    others = 0
    while room := crowd.fill("of a tenant", f"key {others}")[1]:
        others += room
    while room := crowd.fill(f"tenant {others}", "1")[1]:
        others += room
    assert crowd.places.open == 438 + 146 + others == 875
    full = "875 connections in use, as many as `connections` lets known callers have"
    assert crowd.fill("z", "1") == (f"cannot answer the request: {full}; try again later", 0)


async def test_by_default_tenants_that_take_all_they_can_leave_some_to_others() -> None:
    crowd = Crowd(HostLimits())
    for tenant in range(7):
        for key in range(20):
            crowd.fill(f"greedy {tenant}", str(key))
        assert crowd.fill("greedy 0", "another")[1] == 0
        assert crowd.come(f"modest {tenant}", "1").caller == (f"modest {tenant}", "1")
        assert crowd.places.open < 875


@pytest.mark.parametrize("seed", range(3))
async def test_whoever_uses_fewer_than_are_left_gets_one_whatever_the_others_do(seed: int) -> None:
    chance = Random(seed)
    crowd = Crowd(HostLimits(connections=MOST))
    there: list[ConnectionPlace] = []
    for _ in range(1_000):
        if there and chance.random() < 0.3:
            place = there.pop(chance.randrange(len(there)))
            if chance.random() < 0.5:
                place.leave()
            else:
                place.free()
                place.is_idle = True
            continue
        tenant, key = chance.choice("aaaabbcd"), chance.choice("1112")
        of_tenant = Counter(place.caller[0] for place in there if place.caller)[tenant]
        of_key = Counter(place.caller for place in there)[tenant, key]
        left = IN_USE - len(there)
        try:
            there.append(crowd.come(tenant, key))
        except ConnectionsInUse:
            assert left - of_tenant <= of_key
        except HttpRefusal:
            assert left == 0
        else:
            assert left - of_tenant > of_key
        assert len(there) <= IN_USE
        assert crowd.places.open <= MOST


async def test_for_a_new_connection_to_a_full_server_one_that_no_known_caller_uses_is_closed(
    mock_clock: trio.testing.MockClock,  # time stands still
) -> None:
    crowd = Crowd()
    known = [crowd.come(tenant, "1") for tenant in "abcdefghijklmnop"]
    old, watched, _, idle = [crowd.connect(name) for name in ("old", "watched", "new", "idle")]
    watched.is_for_health = True
    idle.is_idle = True
    crowd.connect("newcomer")
    assert crowd.closed == ["idle"]
    with pytest.raises(HttpRefusal, match="20 open connections"):
        crowd.connect()
    mock_clock.jump(SILENT)
    for _ in range(3):
        crowd.connect("newer")
    assert crowd.closed == ["idle", "old", "new", "newcomer"]
    with pytest.raises(HttpRefusal, match="20 open connections"):
        crowd.connect()
    assert all(place.is_open for place in (*known, watched))
    with pytest.raises(HttpRefusal, match="another caller"):
        old.take("acme", "ann")


async def test_an_unknown_caller_has_its_time_once_for_all_of_its_requests(
    mock_clock: trio.testing.MockClock,  # time stands still
) -> None:
    crowd = Crowd(HostLimits(connections=2))
    known = crowd.connect("known before")
    crowd.connect("never known")
    mock_clock.jump(SILENT)
    known.take("acme", "ann")
    known.free()
    crowd.connect("new")
    with pytest.raises(HttpRefusal, match="2 open connections"):
        crowd.connect()
    assert crowd.closed == ["never known"]


async def test_for_a_new_connection_of_a_full_address_one_of_that_address_is_closed_at_once(
    mock_clock: trio.testing.MockClock,  # time stands still
) -> None:
    crowd = Crowd()
    crowd.connect("elsewhere", "other")
    for _ in range(OF_ADDRESS):
        crowd.connect("used", "here").take("acme", "ann")  # does not count for the address
    first, second, third, _ = [crowd.connect(name, "here") for name in ("1", "2", "3", "4")]
    third.is_idle = True
    crowd.connect("5", "here")
    assert crowd.closed == ["3"]
    first.is_for_health = True
    crowd.connect("6", "here")
    assert crowd.closed == ["3", "2"]
    mock_clock.jump(SILENT)
    crowd.connect("7", "here")
    assert crowd.closed == ["3", "2", "4"]
    assert second.is_closed


async def test_an_address_that_asks_for_the_health_alone_may_have_no_more() -> None:
    crowd = Crowd()
    for _ in range(OF_ADDRESS):
        crowd.connect("", "here").is_for_health = True
    with pytest.raises(HttpRefusal, match="4 connections of one address"):
        crowd.connect("", "here")
    crowd.connect("", "elsewhere")

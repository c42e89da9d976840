"""Who may use how many connections of a server, and which one is closed for a new one."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Final

import pytest

from agentrail.errors import ConnectionsInUse
from agentrail.host import HostLimits
from agentrail.host.requests.connection_slots import (
    MAX_HEARD,
    ConnectionSlot,
    ConnectionSlots,
    ConnectionState,
    NetworkConnections,
)
from agentrail.host.requests.refusals import CLOSED_FOR_ANOTHER, HttpRefusal

MOST: Final = 20
IN_USE: Final = 18
OF_ADDRESS: Final = 4
LIMITS: Final = HostLimits(connections=MOST, connections_per_address=OF_ADDRESS)
ADVICE: Final = "; end a stream, a WebSocket or a request, or wait"


class Connection:
    """One connection."""

    def __init__(self, crowd: Crowd, name: str) -> None:
        self._crowd = crowd
        self.name = name

    def has_unread(self) -> bool:
        return self.name in self._crowd.unread

    def end(self, refusal: HttpRefusal) -> None:
        self._crowd.closed.append(self.name)
        self._crowd.reasons.append(refusal.problem.finding)


class Crowd:
    """Connections of a server, without a server."""

    def __init__(self, limits: HostLimits = LIMITS) -> None:
        self.slots = ConnectionSlots(limits)
        self.closed: list[str] = []
        """Names of those that were closed for others, in order."""
        self.reasons: list[str] = []
        self.unread: set[str] = set()
        """Names of those that have sent something that is not read yet."""

    def connect(
        self, name: str = "", network: str | None = None, state: ConnectionState = ConnectionState.SILENT
    ) -> ConnectionSlot:
        """Open a connection whose caller is not known yet."""
        slot = ConnectionSlot(self.slots, state)
        if not slot.enter(network, Connection(self, name)):
            self.closed.append(name)
        return slot

    def ask(self, name: str = "", network: str | None = None) -> ConnectionSlot:
        """Open a connection with a whole request; raise `HttpRefusal` if there is no slot for it."""
        slot = self.connect(name, network, ConnectionState.ASKING)
        slot.settle()
        return slot

    def come(self, tenant: str, key: str) -> ConnectionSlot:
        """Open a connection that a key uses."""
        slot = self.connect()
        try:
            slot.take(tenant, "one", key)
        except BaseException:
            slot.leave()
            raise
        return slot

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
    assert crowd.slots.open == 438 + 146 + others == 875
    full = "875 connections in use, as many as `connections` lets known callers have"
    assert crowd.fill("z", "1") == (f"cannot answer the request: {full}; try again later", 0)


async def test_by_default_tenants_that_take_all_they_can_leave_some_to_others() -> None:
    crowd = Crowd(HostLimits())
    for tenant in range(7):
        for key in range(20):
            crowd.fill(f"greedy {tenant}", str(key))
        assert crowd.fill("greedy 0", "another")[1] == 0
        assert crowd.come(f"modest {tenant}", "1").caller == (f"modest {tenant}", "one", "1")
        assert crowd.slots.open < 875


@pytest.mark.parametrize("seed", range(3))
async def test_whoever_uses_fewer_than_are_left_gets_one_whatever_the_others_do(seed: int) -> None:
    chance = Random(seed)
    crowd = Crowd(HostLimits(connections=MOST))
    slots: list[ConnectionSlot] = []
    for _ in range(1_000):
        if slots and chance.random() < 0.3:
            slot = slots.pop(chance.randrange(len(slots)))
            if chance.random() < 0.5:
                slot.leave()
            else:
                slot.free()
                slot.state = ConnectionState.IDLE
            continue
        tenant, key = chance.choice("aaaabbcd"), chance.choice("1112")
        of_tenant = Counter(slot.caller[0] for slot in slots if slot.caller)[tenant]
        of_key = Counter(slot.caller for slot in slots)[tenant, "one", key]
        free = IN_USE - len(slots)
        try:
            slots.append(crowd.come(tenant, key))
        except ConnectionsInUse:
            assert free - of_tenant <= of_key
        except HttpRefusal:
            assert free == 0
        else:
            assert free - of_tenant > of_key
        assert len(slots) <= IN_USE
        assert crowd.slots.open <= MOST


async def test_two_users_whose_keys_have_the_same_id_have_a_share_each() -> None:
    crowd = Crowd(HostLimits())
    for _ in range(146):
        crowd.connect().take("acme", "ann", "1")
    assert crowd.connect().refusal is None
    of_bob = crowd.connect()
    of_bob.take("acme", "bob", "1")
    assert of_bob.caller == ("acme", "bob", "1")
    for _ in range(97):
        crowd.connect().take("acme", "bob", "1")
    crowd.connect().take("acme", "", "1")


async def test_what_is_one_too_many_closes_nothing_but_its_whole_request_does() -> None:
    crowd = Crowd()
    known_slots = [crowd.come(tenant, "1") for tenant in "abcdefghijklmnop"]
    crowd.connect("old", state=ConnectionState.UNDER_WAY)
    crowd.connect("idle", state=ConnectionState.IDLE)
    crowd.connect("first silent"), crowd.connect("last silent")
    late = crowd.connect("late")
    assert (crowd.closed, late.refusal is not None, crowd.slots.open) == ([], True, MOST + 1)
    for _ in range(4):
        crowd.ask("asks")
    assert crowd.closed == ["idle", "last silent", "first silent", "old"]
    with pytest.raises(HttpRefusal, match="20 open connections"):
        crowd.ask()
    late.take("late", "one", "1")
    assert crowd.closed[4:] == ["asks"]
    assert all(slot.is_open for slot in known_slots)


async def test_what_has_come_is_looked_at_before_a_connection_is_closed() -> None:
    crowd = Crowd()
    for name in ("1", "2", "3", "4"):
        crowd.connect(name, "here")
    crowd.unread |= {"4", "3"}
    crowd.ask("5", "here")
    assert crowd.closed == ["2"]
    assert "4 connections of one address" in crowd.reasons[0]


async def test_a_connection_that_a_known_caller_keeps_is_not_closed_for_others_of_its_address() -> None:
    crowd = Crowd()
    reserved = crowd.connect("kept", "here")
    reserved.take("acme", "ann", "1")
    reserved.free()
    reserved.state = ConnectionState.IDLE
    for number in range(300):
        crowd.connect(f"idle {number}", "here", ConnectionState.IDLE)
        crowd.ask(f"asks {number}", "here").state = ConnectionState.IDLE
    assert reserved.is_open
    assert "kept" not in crowd.closed


async def test_in_a_full_server_the_caller_that_keeps_most_loses_one_after_all_that_nobody_knows() -> None:
    crowd = Crowd(HostLimits(connections=6))
    for number, key in enumerate("11122"):
        slot = crowd.connect(f"{key}.{number}")
        slot.take("acme", "ann", key)
        slot.free()
        slot.state = ConnectionState.IDLE
    crowd.connect("unknown")
    crowd.ask("first").state = ConnectionState.ASKING
    crowd.ask("second")
    assert crowd.closed == ["unknown", "1.0"]


async def test_of_those_without_a_place_the_oldest_of_the_fullest_address_is_closed_and_health_stays() -> None:
    crowd = Crowd(HostLimits(connections=1))
    crowd.come("acme", "1")
    watched = crowd.connect("watched", "there", ConnectionState.HEALTH)
    for number in range(MAX_HEARD - 1):
        crowd.connect(str(number), "here", ConnectionState.UNDER_WAY if number else ConnectionState.ASKING)
    crowd.connect("new", "there")
    assert crowd.closed == ["1"]
    assert watched.is_open
    assert crowd.slots.open == 1 + MAX_HEARD


async def test_networks_without_connections_are_forgotten() -> None:
    crowd, networks = Crowd(), NetworkConnections()
    slots = [crowd.connect(network=network) for network in ("a", "a", "b")]
    for slot in slots:
        networks.add(slot)
    networks.remove(slots[0])
    networks.remove(slots[0])
    assert (networks.size, [*networks.fullest_first()]) == (2, [{slots[1]: None}, {slots[2]: None}])
    networks.remove(slots[1])
    networks.remove(slots[2])
    assert (networks.size, [*networks.fullest_first()]) == (0, [])


async def test_one_that_was_closed_for_another_takes_no_place() -> None:
    crowd = Crowd(HostLimits(connections=2))
    crowd.connect("first"), crowd.connect("second")
    old = crowd.connect("third", state=ConnectionState.UNDER_WAY)
    old.close(HttpRefusal(CLOSED_FOR_ANOTHER))
    for act in (old.settle, lambda: old.take("acme", "ann", "1")):
        with pytest.raises(HttpRefusal, match="another caller"):
            act()

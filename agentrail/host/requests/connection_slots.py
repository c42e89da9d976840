"""`ConnectionSlots`: counts connections by key, tenant and address, so that no caller locks out the others.

A connection is in use while a request, a stream or a WebSocket of a known caller is on it. A tenant may take one more
as long as more are free than it uses, and a key as long as more are free for its tenant than it uses: so each leaves
to others as many as it takes, however many others there are.

A connection for which there is no slot, in its address or in the server, is heard all the same, and counted apart:
it needs no slot to ask for the health of the server, and a known caller gets one. Who has said more counts more: for a
whole request, a connection is closed that has not sent one, and for a known caller one that nobody knows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from enum import IntEnum
from typing import Final, Protocol, TypeAlias

from agentrail.api.limits import HostLimits
from agentrail.api.operation_table import CALLS
from agentrail.errors import ConnectionsInUse
from agentrail.host.requests.refusals import ADDRESS_FULL, ALL_IN_USE, CLOSED_FOR_ANOTHER, NO_SLOT, HttpRefusal

SlotOwner: TypeAlias = tuple[str, str, str]
"""The tenant, the user and the key of a request: ids of keys are unique for a user alone."""

Network: TypeAlias = str | None
"""The network of a peer; `None` stands for all that may have any number of connections."""

NEWCOMERS: Final = 8
"""One connection in so many is reserved for callers that are not identified yet."""

MAX_HEARD: Final = 256
"""The most connections that are heard although there is no slot for them; with one more, the oldest is closed.

Who sends its request as soon as it is connected is heard while up to some thousands connect in a second.
"""

CROWDED: Final = MAX_HEARD * 3 // 4
"""So many that are heard leave room for those that are accepted in one pass of the event loop."""

SILENT: Final = 1.0
"""Seconds for which a connection without a slot may say nothing, and any new one when the server is drained."""

HEALTH: Final = frozenset([CALLS[name].route.partition(" ")[2] for name in ("health", "ready")])
"""Paths that are answered however many connections there are: whoever watches a host must not take it for dead."""

THE_KEY: Final = "the key"
THE_TENANT: Final = "the tenant"
OPTION: Final = "connections"


class ConnectionState(IntEnum):
    """What a connection has said. One at an earlier state is closed for another one first."""

    IDLE = 0
    """There was a request on it, and all are answered: nobody waits for anything there."""
    SILENT = 1
    """Nothing has come on it."""
    UNDER_WAY = 2
    """A part of a head has come, or of TLS; or it carries a WebSocket whose key has not come."""
    TAKING = 3
    """It is sending the answer to a caller that is not known."""
    ASKING = 4
    """A whole head has come, and it is not known yet whose request it is, or nobody's."""
    HEALTH = 5
    """A request for the health of the server has come."""


READING: Final = (ConnectionState.IDLE, ConnectionState.SILENT, ConnectionState.UNDER_WAY)
"""The states at which a connection waits for more of its peer, and reads what comes in the next pass."""

UNFINISHED: Final = (*READING, ConnectionState.TAKING)
"""The states at which a connection waits for its peer."""

WHOLE: Final = (ConnectionState.ASKING, ConnectionState.HEALTH)

HEARD_ORDER: Final = (
    (ConnectionState.IDLE, ConnectionState.TAKING),
    (ConnectionState.SILENT, ConnectionState.UNDER_WAY),
    (ConnectionState.ASKING,),
    (ConnectionState.HEALTH,),
)
"""The states of connections without a slot, in the order in which these are closed."""


class Occupant(Protocol):
    """A connection that has a slot, or is heard without one."""

    def has_unread(self) -> bool:
        """Whether something has come on the connection that is not read yet."""
        ...

    def end(self, refusal: HttpRefusal) -> None:
        """Close the connection at once; its peer is told *refusal*, if it waits for an answer."""
        ...


class ConnectionSlot:
    """The slot of one connection among those of its server; without *slots* (in tests), no limits apply."""

    __slots__ = ("_occupant", "_slots", "caller", "closed_by", "is_open", "last_caller", "network", "refusal", "state")

    def __init__(self, slots: ConnectionSlots | None = None, state: ConnectionState = ConnectionState.SILENT) -> None:
        self._slots = slots
        self._occupant: Occupant | None = None
        self.is_open = False
        """Whether the connection counts among the open ones."""
        self.closed_by: HttpRefusal | None = None
        """Why the connection has to end, if another one has taken its slot."""
        self.refusal: HttpRefusal | None = None
        """Why the connection has no slot, and is only heard; `None` if it has one."""
        self.network: Network = None
        """The network of its peer."""
        self.caller: SlotOwner | None = None
        """Who uses the connection; `None` if nobody does, or it is not known yet."""
        self.last_caller: SlotOwner | None = None
        """Who used the connection last, and keeps it for the next request; `None` if no known caller has."""
        self.state = state
        """What has come on it since a known caller used it."""

    def take(self, tenant: str, user: str, key: str) -> None:
        """Note that the connection is in use by *key* of *user* of *tenant* from now on.

        Raise `ConnectionsInUse` if the key or the tenant uses as many as it leaves, and `HttpRefusal` if no connection
        is left.
        """
        if self.closed_by is not None:
            raise self.closed_by
        if self._slots is not None and self.caller is None:
            self._slots.take(self, (tenant, user, key))

    def free(self) -> None:
        """Note that no known caller uses the connection any more."""
        if self._slots is not None and self.caller is not None:
            self._slots.free(self, self.caller)

    def settle(self) -> None:
        """Get a slot for a whole request whose caller is not known; raise `HttpRefusal` if there is none."""
        if self.closed_by is not None:
            raise self.closed_by
        if self._slots is not None and self.refusal is not None:
            self._slots.settle(self, self.refusal)

    def enter(self, network: Network, occupant: Occupant) -> bool:
        """Count the connection *occupant*, which comes from *network*, among the open ones.

        Return false if it cannot even be heard, so that it is to be closed at once.
        """
        self.network, self._occupant = network, occupant
        return self._slots is None or self._slots.enter(self)

    def leave(self) -> None:
        """Stop counting the connection as open; no-op if it was closed for another one."""
        self._occupant = None  # what has ended must leave no cycle for the garbage collector
        self.free()
        if self.is_open and self._slots is not None:
            self._slots.leave(self)

    def close(self, reason: HttpRefusal) -> None:
        """Close the connection for another one, for this *reason*, and stop counting it as open."""
        self.closed_by, occupant = reason, self._occupant
        self.leave()
        if occupant is not None:
            occupant.end(reason)

    @property
    def is_closable(self) -> bool:
        """Whether the connection can be closed without losing a request that has come, but was not read yet."""
        return self.state not in READING or self._occupant is None or not self._occupant.has_unread()


class NetworkConnections:
    """Connections by their networks, the oldest of each first."""

    def __init__(self) -> None:
        self._by_network: dict[Network, dict[ConnectionSlot, None]] = {}
        self.size = 0
        """How many connections it has."""

    def of(self, network: Network) -> Collection[ConnectionSlot]:
        """Return the connections of *network*."""
        return self._by_network.get(network, {})

    def add(self, slot: ConnectionSlot) -> None:
        """Add the connection of *slot*, as the newest of its network."""
        self._by_network.setdefault(slot.network, {})[slot] = None
        self.size += 1

    def remove(self, slot: ConnectionSlot) -> None:
        """Take out the connection of *slot*. No-op if it is not there."""
        slots = self._by_network.get(slot.network)
        if slots is None or slot not in slots:
            return
        del slots[slot]
        self.size -= 1
        if not slots:
            del self._by_network[slot.network]

    def fullest_first(self) -> Iterator[Collection[ConnectionSlot]]:
        """Yield the connections of each network, those of the network first that has most."""
        yield from sorted(self._by_network.values(), key=len, reverse=True)


class ConnectionSlots:
    """The connections of a server: counts those of each caller, and closes others for those who say more."""

    def __init__(self, limits: HostLimits) -> None:
        most = self._most = limits.connections
        self._most_of_address = limits.connections_per_address
        self._most_in_use = max(most - max(most // NEWCOMERS, 1), 1)
        self._count_by_key: dict[SlotOwner, int] = {}  # number of connections in use by each key
        self._count_by_tenant: dict[str, int] = {}  # number of connections in use by each tenant
        self._in_use = 0  # number of connections in use by known callers
        self._reserved: dict[SlotOwner, dict[ConnectionSlot, None]] = {}  # those that known callers keep, by caller
        self._reserved_count = 0
        self._unknown = NetworkConnections()  # those that no known caller has used
        self._heard = NetworkConnections()  # those that have no slot

    @property
    def open(self) -> int:
        """Number of open connections, with those that have no slot."""
        return self._held + self._heard.size

    @property
    def is_crowded(self) -> bool:
        """Whether so many connections are heard without a slot that those of one pass may close others."""
        return self._heard.size >= CROWDED

    @property
    def _held(self) -> int:
        """Number of connections that have a slot."""
        return self._in_use + self._reserved_count + self._unknown.size

    def enter(self, slot: ConnectionSlot) -> bool:
        """Count the connection of *slot* among the open ones. See `ConnectionSlot.enter`."""
        slot.refusal = self._lack(slot.network)
        if slot.refusal is not None and self._heard.size >= MAX_HEARD and not self._close_heard():
            return False
        slot.is_open = True
        self._list(slot)
        return True

    def leave(self, slot: ConnectionSlot) -> None:
        """No longer count the connection of *slot* among the open ones."""
        slot.is_open = False
        self._unlist(slot)

    def settle(self, slot: ConnectionSlot, refusal: HttpRefusal) -> None:
        """Give a slot to one that is only heard; raise its *refusal* if no other connection can be closed for it."""
        of_address = self._unknown.of(slot.network)
        if self._is_full_address(slot.network) and not _close(_victims([of_address], UNFINISHED), _address_full(self)):
            raise refusal
        if self._held >= self._most and not _close(self._unused(), HttpRefusal(CLOSED_FOR_ANOTHER)):
            raise refusal
        self._unlist(slot)
        slot.refusal = None
        self._list(slot)

    def take(self, slot: ConnectionSlot, caller: SlotOwner) -> None:
        """Count the connection of *slot* for *caller*. See `ConnectionSlot.take`."""
        tenant = caller[0]
        of_key, of_tenant = self._count_by_key.get(caller, 0), self._count_by_tenant.get(tenant, 0)
        free = self._most_in_use - self._in_use
        if free <= 0:
            raise HttpRefusal(ALL_IN_USE, self._most_in_use)
        if free <= of_tenant:
            raise ConnectionsInUse(THE_TENANT, of_tenant, OPTION)
        if free - of_tenant <= of_key:
            raise ConnectionsInUse(THE_KEY, of_key, OPTION)
        is_heard = slot.refusal is not None
        if is_heard and self._held >= self._most and not _close(self._not_in_use(), HttpRefusal(CLOSED_FOR_ANOTHER)):
            raise HttpRefusal(NO_SLOT, self._most)
        self._unlist(slot)
        slot.refusal, slot.caller, slot.last_caller = None, caller, caller
        self._count_by_key[caller] = of_key + 1
        self._count_by_tenant[tenant] = of_tenant + 1
        self._in_use += 1

    def free(self, slot: ConnectionSlot, caller: SlotOwner) -> None:
        """No longer count the connection of *slot* for *caller*."""
        slot.caller = None
        self._in_use -= 1
        self._count_by_key[caller] -= 1
        if not self._count_by_key[caller]:
            del self._count_by_key[caller]
        tenant = caller[0]
        self._count_by_tenant[tenant] -= 1
        if not self._count_by_tenant[tenant]:
            del self._count_by_tenant[tenant]
        if slot.is_open:
            self._list(slot)

    def _lack(self, network: Network) -> HttpRefusal | None:
        """Return why there is no slot for a new connection of *network*; `None` if there is one."""
        if self._is_full_address(network):
            return _address_full(self)
        return HttpRefusal(NO_SLOT, self._most) if self._held >= self._most else None

    def _is_full_address(self, network: Network) -> bool:
        return network is not None and len(self._unknown.of(network)) >= self._most_of_address

    @property
    def most_of_address(self) -> int:
        """The most connections of one network that no known caller has used."""
        return self._most_of_address

    def _list(self, slot: ConnectionSlot) -> None:
        """Note where the connection of *slot* counts, which is not in use."""
        if slot.refusal is not None:
            self._heard.add(slot)
        elif slot.last_caller is None:
            self._unknown.add(slot)
        else:
            self._reserved.setdefault(slot.last_caller, {})[slot] = None
            self._reserved_count += 1

    def _unlist(self, slot: ConnectionSlot) -> None:
        """Note that the connection of *slot* is in use, has ended, or counts elsewhere."""
        if slot.caller is not None:
            return
        if slot.refusal is not None:
            self._heard.remove(slot)
        elif slot.last_caller is None:
            self._unknown.remove(slot)
        elif slot in (of_caller := self._reserved.get(slot.last_caller, {})):
            del of_caller[slot]
            self._reserved_count -= 1
            if not of_caller:
                del self._reserved[slot.last_caller]

    def _reserved_most_first(self) -> Iterator[Collection[ConnectionSlot]]:
        """Yield the connections that each caller keeps, those of the caller first who keeps most."""
        yield from sorted(self._reserved.values(), key=len, reverse=True)

    def _unused(self) -> Iterator[ConnectionSlot]:
        """Yield the connections that wait for their peer, in the order in which they are closed for a request."""
        yield from _victims(self._unknown.fullest_first(), UNFINISHED)
        yield from _victims(self._reserved_most_first(), UNFINISHED)

    def _not_in_use(self) -> Iterator[ConnectionSlot]:
        """Yield all connections that no known caller uses, in the order in which they are closed for one."""
        yield from self._unused()
        yield from _victims(self._unknown.fullest_first(), WHOLE)
        yield from _victims(self._reserved_most_first(), WHOLE)

    def _close_heard(self) -> bool:
        """Close a connection without a slot; return whether there was one that can be closed.

        It is of the address that has most of them, and the oldest there: whoever has just come is about to speak.
        """
        for states in HEARD_ORDER:
            for slots in self._heard.fullest_first():
                oldest = next((slot for slot in slots if slot.state in states and slot.is_closable), None)
                if oldest is not None and oldest.refusal is not None:
                    oldest.close(oldest.refusal)
                    return True
        return False


def _address_full(slots: ConnectionSlots) -> HttpRefusal:
    return HttpRefusal(ADDRESS_FULL, slots.most_of_address)


def _close(victims: Iterable[ConnectionSlot], reason: HttpRefusal) -> bool:
    """Close the first of *victims*; return whether there was one."""
    victim = next(iter(victims), None)
    if victim is None:
        return False
    victim.close(reason)
    return True


def _victims(
    groups: Iterable[Collection[ConnectionSlot]], states: Collection[ConnectionState]
) -> Iterator[ConnectionSlot]:
    """Yield the connections of each group that are at one of these *states*, in the order in which they are closed.

    The oldest comes first, but the newest of those that have said nothing: of many that are opened to keep a server
    busy, those close each other, and none that was there before.
    """
    for group in groups:
        for state in states:
            in_state = [slot for slot in group if slot.state is state]
            if state is ConnectionState.SILENT:
                in_state.reverse()
            yield from (slot for slot in in_state if slot.is_closable)

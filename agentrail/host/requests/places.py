"""`Places`: counts the connections of a server by key, tenant and address, so that no caller locks out the others.

A connection is in use while a request, a stream or a WebSocket of a known caller is on it. A tenant may take one more
as long as more are free than it uses, and a key as long as more are free for its tenant than it uses: so each leaves
to others as many as it takes, however many others there are.

For a new connection to a full server, the oldest one that no known caller uses is closed. An address is limited only
in such connections: many tenants may come from one address, and what one of them uses must not stop the others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final, TypeAlias

import trio

from agentrail.api.limits import HostLimits
from agentrail.api.operation_table import CALLS
from agentrail.errors import ConnectionsInUse
from agentrail.host.requests.refusals import ADDRESS_FULL, ALL_IN_USE, CLOSED_FOR_ANOTHER, NO_PLACE, HttpRefusal

PlaceOwner: TypeAlias = tuple[str, str]
"""The tenant and the key of a request."""

NEWCOMERS: Final = 8
"""One connection in so many is reserved for callers that are not identified yet."""

SILENT: Final = 1.0
"""Seconds for which nobody may know whose a connection is when the server is full, or is drained."""

HEALTH: Final = frozenset([CALLS[name].route.partition(" ")[2] for name in ("health", "ready")])
"""Paths that are answered however many connections there are: whoever watches a host must not take it for dead."""

THE_KEY: Final = "the key"
THE_TENANT: Final = "the tenant"
OPTION: Final = "connections"


class ConnectionPlace:
    """The place of one connection among those of its server; without *places* (in tests), no limits apply."""

    __slots__ = ("_end", "_places", "caller", "is_closed", "is_for_health", "is_idle", "is_open", "network", "since")

    def __init__(self, places: Places | None = None) -> None:
        self._places = places
        self._end: Callable[[], None] | None = None  # ends the connection for another one
        self.is_open = False
        """Whether the connection counts among the open ones."""
        self.is_closed = False
        """Whether the connection has to end because another one has taken its place."""
        self.network: str | None = None
        """The network of its peer; `None` if that may have any number of connections."""
        self.caller: PlaceOwner | None = None
        """Who uses the connection; `None` if nobody does, or it is not known yet."""
        self.since = 0.0
        """Since when no known caller has used it, in the time of Trio."""
        self.is_idle = False
        """Whether there was a request on it, and all are answered: nobody waits for anything there."""
        self.is_for_health = False
        """Whether a request for the health of the host is under way on it, so that it is not closed for another."""

    def take(self, tenant: str, key: str) -> None:
        """Note that the connection is in use by *key* of *tenant* from now on.

        Raise `ConnectionsInUse` if the key or the tenant uses as many as it leaves, and `HttpRefusal` if no connection
        is left.
        """
        if self.is_closed:
            raise HttpRefusal(CLOSED_FOR_ANOTHER)
        if self._places is not None and self.caller is None:
            self._places.take(self, (tenant, key))

    def free(self) -> None:
        """Note that no known caller uses the connection any more."""
        if self._places is not None and self.caller is not None:
            self._places.free(self, self.caller)

    def enter(self, network: str | None, end: Callable[[], None]) -> None:
        """Count the connection, which comes from *network*, among the open ones; *end* ends it for another one."""
        self.network, self._end = network, end
        if self._places is not None:
            self._places.enter(self)

    def leave(self) -> None:
        """Stop counting the connection as open; no-op if it was closed for another one."""
        self._end = None  # what has ended must leave no cycle for the garbage collector
        self.free()
        if self.is_open and self._places is not None:
            self._places.leave(self)

    def close(self) -> None:
        """Close the connection for another one, and stop counting it as open."""
        self.is_closed, end = True, self._end
        self.leave()
        if end is not None:
            end()


class Places:
    """The connections of a server: counts those of each caller, and closes unused ones for new ones."""

    def __init__(self, limits: HostLimits) -> None:
        most = self._most = limits.connections
        self._most_of_address = limits.connections_per_address
        self._most_in_use = max(most - max(most // NEWCOMERS, 1), 1)
        self._of_key: dict[PlaceOwner, int] = {}  # number of connections in use by each key
        self._of_tenant: dict[str, int] = {}  # number of connections in use by each tenant
        self._in_use = 0  # number of connections in use by known callers
        self.open = 0
        """Number of open connections."""
        # connections that no known caller uses, the oldest first: all, and those of each network
        self._unused: dict[ConnectionPlace, None] = {}
        self._of_network: dict[str, dict[ConnectionPlace, None]] = {}

    def make_room(self, network: str | None) -> HttpRefusal | None:
        """Close a connection for a new one of *network* if that is needed; return the refusal if none can be closed.

        `None` stands for a network that may have any number of connections.
        """
        of_network: dict[ConnectionPlace, None] = {} if network is None else self._of_network.get(network, {})
        if len(of_network) >= self._most_of_address:
            # Without one that has had its time, the oldest: otherwise a client that connects again each second would
            # keep all others of its address out.
            oldest = _closable(of_network) or next((place for place in of_network if not place.is_for_health), None)
            if oldest is None:
                return HttpRefusal(ADDRESS_FULL, self._most_of_address)
            oldest.close()
        if self.open >= self._most:
            # One that has just come stays: its TLS may be under way, and heads that stay incomplete may be as new.
            place = _closable(self._unused)
            if place is None:
                return HttpRefusal(NO_PLACE, self._most)
            place.close()
        return None

    def enter(self, place: ConnectionPlace) -> None:
        """Count the connection of *place* among the open ones, and among those of its network."""
        place.is_open = True
        self.open += 1
        self._list(place)

    def leave(self, place: ConnectionPlace) -> None:
        """No longer count the connection of *place* among the open ones."""
        place.is_open = False
        self.open -= 1
        self._unlist(place)

    def take(self, place: ConnectionPlace, caller: PlaceOwner) -> None:
        """Count the connection of *place* for *caller*. See `ConnectionPlace.take`."""
        tenant = caller[0]
        of_key, of_tenant = self._of_key.get(caller, 0), self._of_tenant.get(tenant, 0)
        free = self._most_in_use - self._in_use
        if free <= 0:
            raise HttpRefusal(ALL_IN_USE, self._most_in_use)
        if free <= of_tenant:
            raise ConnectionsInUse(THE_TENANT, of_tenant, OPTION)
        if free - of_tenant <= of_key:
            raise ConnectionsInUse(THE_KEY, of_key, OPTION)
        place.caller = caller
        self._of_key[caller] = of_key + 1
        self._of_tenant[tenant] = of_tenant + 1
        self._in_use += 1
        self._unlist(place)

    def free(self, place: ConnectionPlace, caller: PlaceOwner) -> None:
        """No longer count the connection of *place* for *caller*."""
        place.caller = None
        self._in_use -= 1
        self._of_key[caller] -= 1
        if not self._of_key[caller]:
            del self._of_key[caller]
        tenant = caller[0]
        self._of_tenant[tenant] -= 1
        if not self._of_tenant[tenant]:
            del self._of_tenant[tenant]
        self._list(place)

    def _list(self, place: ConnectionPlace) -> None:
        """Note that no known caller uses the connection of *place*."""
        if place.is_open:
            place.since = trio.current_time()
            self._unused[place] = None
            if place.network is not None:
                self._of_network.setdefault(place.network, {})[place] = None

    def _unlist(self, place: ConnectionPlace) -> None:
        """Note that a known caller uses the connection of *place*, or that it has ended."""
        self._unused.pop(place, None)
        if place.network is not None:
            places = self._of_network.get(place.network, {})
            places.pop(place, None)
            if not places:
                self._of_network.pop(place.network, None)


def _closable(places: Collection[ConnectionPlace]) -> ConnectionPlace | None:
    """Return the one of *places*, the oldest first, that is closed for a new one; `None` if each has to stay.

    First choice is one whose requests are all answered, then the oldest that has had `SILENT` seconds, once for all of
    its requests.
    """
    idle = next((place for place in places if place.is_idle), None)
    if idle is not None:
        return idle
    latest = trio.current_time() - SILENT
    return next((place for place in places if place.since <= latest and not place.is_for_health), None)

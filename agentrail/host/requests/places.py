"""`Places`: shares the connections of a server among its callers, so that no tenant and no key locks out the others.

A connection is in use while a request, a stream or a WebSocket of a known caller is on it. Each tenant and each key may
use a share of the connections, and some are reserved for callers that are not identified yet. If none is left, a caller
with fewer connections takes one from a caller with more: that connection *gives way*, which means that the server
closes it for another.

An address is limited only in connections that no known caller uses: many tenants may come from one address, and what
one of them uses must not stop the others. If an address may have no more, one of its own gives way to the new one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from enum import IntEnum
from typing import Final, TypeAlias

import trio

from agentrail.api.limits import HostLimits
from agentrail.api.operation_table import CALLS
from agentrail.errors import ConnectionsInUse
from agentrail.host.requests.refusals import ADDRESS_FULL, ALL_IN_USE, GAVE_WAY, NO_PLACE, HttpRefusal

PlaceOwner: TypeAlias = tuple[str, str]
"""The tenant and the key of a request."""

NEWCOMERS: Final = 8
"""One connection in so many is reserved for callers that are not identified yet."""

LEAST: Final = 2
"""A caller loses a connection only to one that has at least so many fewer: then that one ends up with no more.
"""

SILENT: Final = 1.0
"""Seconds for which a new connection may send nothing when the server is full, and another waits, or is drained."""

HEALTH: Final = frozenset([CALLS[name].route.partition(" ")[2] for name in ("health", "ready")])
"""Paths that are answered however many connections there are: whoever watches a host must not take it for dead."""

THE_KEY: Final = "the key"
THE_TENANT: Final = "the tenant"


class Wait(IntEnum):
    """What a connection waits for. The first kinds are nearest to their end, and give way before the others."""

    REQUEST = 0
    """The first byte of a request."""
    CLOSE = 1
    """The peer's close, after the last answer."""
    CALLER = 2
    """The rest of the head of a request, or the key of a WebSocket: nobody knows yet whose the connection is."""
    BODY = 3
    """The next piece of a body, which has to come in time."""
    MESSAGE = 4
    """A message on a WebSocket without a call under way; its client connects again, and goes on from its cursor."""
    EVENT = 5
    """An event for a stream; its client goes on with another connection, too."""
    TURN = 6
    """The end of a turn. The turn goes on without its client, which can ask again."""
    SENDING = 7
    """Room for more of an answer, as its client is slow. It gives way last: an answer that is cut is lost."""


class ConnectionPlace:
    """The place of one connection among those of its server; without *places* (in tests), no limits apply."""

    __slots__ = (
        "_end",
        "_places",
        "caller",
        "gave_way",
        "is_new",
        "is_open",
        "network",
        "since",
        "unknown_since",
        "wait",
    )

    def __init__(self, places: Places | None = None) -> None:
        self._places = places
        self._end: Callable[[], None] | None = None  # ends the wait
        self.is_open = False
        """Whether the connection counts among the open ones."""
        self.network: str | None = None
        """The network of its peer; `None` if that may have any number of connections."""
        self.is_new = True
        """Whether no request has begun on the connection."""
        self.caller: PlaceOwner | None = None
        """Who uses the connection; `None` if nobody does, or it is not known yet."""
        self.wait: Wait | None = None
        """What the connection waits for; `None` while it cannot give way."""
        self.since = 0.0
        """Since when it has waited, in the time of Trio; of a body, when that has to be there."""
        self.unknown_since: float | None = None
        """Since when there have been requests on the connection, and none of a known caller."""
        self.gave_way = False
        """Whether the connection has to end because another one has taken its place."""

    @property
    def has_time(self) -> bool:
        """Whether its client has some time for what the connection waits for, even in a full server."""
        return self.wait is not Wait.CLOSE and (self.wait is not Wait.REQUEST or self.is_new)

    def begin_request(self, now: float) -> None:
        """Note that a request begins, whose caller is not known yet."""
        self.is_new = False
        if self.unknown_since is None:
            self.unknown_since = now

    def take(self, tenant: str, key: str) -> None:
        """Note that the connection is in use by *key* of *tenant* from now on.

        Raise `ConnectionsInUse` if the key or the tenant has used up its share, and `HttpRefusal` if no connection is
        left.
        """
        if self.gave_way:
            raise HttpRefusal(GAVE_WAY)
        if self._places is not None and self.caller is None:
            self._places.take(self, (tenant, key))

    def free(self) -> None:
        """Note that no known caller uses the connection any more."""
        if self._places is not None and self.caller is not None:
            self._places.free(self, self.caller)
            self.unknown_since = None

    def begin_wait(self, wait: Wait, since: float, end: Callable[[], None]) -> None:
        """Note what the connection waits for; *end* is called if it has to give way before `end_wait`."""
        self.end_wait()
        if self.gave_way:
            end()
            return
        self.wait, self.since, self._end = wait, since, end
        if self._places is not None and self.caller is None and wait in self._places.unused:
            # The time of an unknown caller counts from its first request: otherwise it could go on by sending more
            # requests.
            # tests/host/http11/test_places.py::test_an_unknown_caller_has_its_time_once_for_all_of_its_requests
            self.since = since if self.unknown_since is None else min(since, self.unknown_since)
            self._places.unused[wait][self] = None

    def end_wait(self) -> None:
        """Note that the connection no longer waits, so that it cannot give way."""
        if self._places is not None and self.wait is not None:
            self._places.unused.get(self.wait, {}).pop(self, None)
        self.wait = self._end = None

    def waiting(self, wait: Wait, since: float, end: Callable[[], None]) -> _Waiting:
        """Call `begin_wait` at the beginning of the `with` block, and `end_wait` at its end."""
        return _Waiting(self, wait, since, end)

    def leave(self) -> None:
        """Stop counting the connection as open; no-op if it has given way."""
        self.free()
        if self.is_open and self._places is not None:
            self._places.leave(self)

    def give_way(self) -> None:
        """Close the connection for another one, and stop counting it as open."""
        self.gave_way = True
        end = self._end
        self.end_wait()
        self.leave()
        if end is not None:
            end()


class _Waiting:
    """The `with` of `ConnectionPlace.waiting`."""

    __slots__ = ("_end", "_place", "_since", "_wait")

    def __init__(self, place: ConnectionPlace, wait: Wait, since: float, end: Callable[[], None]) -> None:
        self._place = place
        self._wait = wait
        self._since = since
        self._end = end

    def __enter__(self) -> None:
        self._place.begin_wait(self._wait, self._since, self._end)

    def __exit__(self, *_: object) -> None:
        self._place.end_wait()


class Places:
    """The connections of a server: counts those of each caller, and closes one for another when none is left."""

    def __init__(self, limits: HostLimits) -> None:
        most = self._most = limits.connections
        self._most_of_address = limits.connections_per_address
        self._most_in_use = max(most - max(most // NEWCOMERS, 1), 1)
        self._most_of_tenant = max(int(most * limits.tenant_share), 1)
        self._most_of_key = max(int(most * limits.key_share), 1)
        # connections in use by each caller, the oldest first
        self._of_caller: dict[PlaceOwner, dict[ConnectionPlace, None]] = {}
        self._of_tenant: Counter[str] = Counter()  # number of connections in use by each tenant
        self._in_use = 0  # number of connections in use by known callers
        self.open = 0
        """Number of open connections."""
        # connections of each network that no known caller uses, the oldest first
        self._of_network: dict[str, dict[ConnectionPlace, None]] = {}
        self.unused: dict[Wait, dict[ConnectionPlace, None]] = {
            wait: {} for wait in (Wait.REQUEST, Wait.CLOSE, Wait.CALLER, Wait.SENDING)
        }
        """Connections that wait while no known caller uses them, the longest first."""

    def make_room(self, network: str | None) -> HttpRefusal | None:
        """Close a connection for a new one of *network* if that is needed; return the refusal if none can give way.

        `None` stands for a network that may have any number of connections.
        """
        if network is not None:
            of_network = self._of_network.get(network, {})
            if len(of_network) >= self._most_of_address and not self._one_without_caller_gives_way(of_network):
                return HttpRefusal(ADDRESS_FULL, self._most_of_address)
        if self.open < self._most or self.unused_gives_way(SILENT):
            return None
        return HttpRefusal(NO_PLACE, self._most)

    def enter(self, place: ConnectionPlace, network: str | None) -> None:
        """Count the connection of *place* among the open ones, and among those of its network."""
        place.is_open, place.network = True, network
        self.open += 1
        self._list(place)

    def leave(self, place: ConnectionPlace) -> None:
        """No longer count the connection of *place* among the open ones."""
        place.is_open = False
        self.open -= 1
        self._unlist(place)

    def _list(self, place: ConnectionPlace) -> None:
        """Note that no known caller uses the connection of *place*."""
        if place.is_open and place.network is not None:
            self._of_network.setdefault(place.network, {})[place] = None

    def _unlist(self, place: ConnectionPlace) -> None:
        """Note that a known caller uses the connection of *place*, or that it has ended."""
        if place.network is not None:
            places = self._of_network.get(place.network, {})
            places.pop(place, None)
            if not places:
                self._of_network.pop(place.network, None)

    def unused_gives_way(self, patience: float) -> bool:
        """Close a connection that no known caller uses; return whether there was one.

        First choice is one that waits for its next request, or has not begun its first one within *patience* seconds;
        then one that only waits for the peer's close; then one whose caller has been unknown for as long; last, one
        that is being sent an answer.
        """
        latest = trio.current_time() - patience
        for places in self.unused.values():
            place = next((place for place in places if place.since <= latest or not place.has_time), None)
            if place is not None:
                place.give_way()
                return True
        return False

    def _one_without_caller_gives_way(self, of_network: Iterable[ConnectionPlace]) -> bool:
        """Close a connection of a network; return whether there was one that waits.

        First choice is the one nearest to its end of those that have had `SILENT` seconds, or need none. Without any,
        the oldest gives way, whatever it waits for: otherwise a client that connects again each second would keep all
        others of its address out. New heads that stay incomplete must not close a connection that is as new.
        """
        waiting = [place for place in of_network if place.wait in self.unused]
        if not waiting:
            return False
        latest = trio.current_time() - SILENT
        over = [place for place in waiting if place.since <= latest or not place.has_time]
        first = min(over, key=lambda place: (place.wait, place.since)) if over else min(waiting, key=_since)
        first.give_way()
        return True

    def take(self, place: ConnectionPlace, caller: PlaceOwner) -> None:
        """Count the connection of *place* for *caller*; another may have to give way. See `ConnectionPlace.take`."""
        tenant = caller[0]
        if len(self._of_caller.get(caller, ())) >= self._most_of_key:
            raise ConnectionsInUse(THE_KEY, self._most_of_key, "key_share")
        if self._of_tenant[tenant] >= self._most_of_tenant:
            if not self._one_gives_way(caller, within_tenant=True):
                raise ConnectionsInUse(THE_TENANT, self._most_of_tenant, "tenant_share")
        elif self._in_use >= self._most_in_use and not self._one_gives_way(caller, within_tenant=False):
            raise HttpRefusal(ALL_IN_USE, self._most_in_use)
        place.caller = caller
        self._of_caller.setdefault(caller, {})[place] = None
        self._of_tenant[tenant] += 1
        self._in_use += 1
        self._unlist(place)

    def free(self, place: ConnectionPlace, caller: PlaceOwner) -> None:
        """No longer count the connection of *place* for *caller*."""
        place.caller = None
        places, tenant = self._of_caller[caller], caller[0]
        del places[place]
        if not places:
            del self._of_caller[caller]
        self._of_tenant[tenant] -= 1
        if not self._of_tenant[tenant]:
            del self._of_tenant[tenant]
        self._in_use -= 1
        self._list(place)

    def _one_gives_way(self, caller: PlaceOwner, *, within_tenant: bool) -> bool:
        """Close a connection of another caller that has more than *caller*; return whether there was one.

        With *within_tenant*, it is one of another key of the same tenant.

        Of the candidates, the connection nearest to its end is chosen (see `Wait`), and among equals one of the tenant,
        then the key, that has most.
        """
        tenant = caller[0]
        least_of_key = len(self._of_caller.get(caller, ())) + LEAST
        least_of_tenant = self._of_tenant[tenant] + LEAST
        candidates = [
            (place.wait, -self._of_tenant[other], -len(places), place.since, place)
            for (other, _), places in self._of_caller.items()
            if (
                len(places) >= least_of_key
                if other == tenant
                else not within_tenant and self._of_tenant[other] >= least_of_tenant
            )
            for place in places
            if place.wait is not None
        ]
        if not candidates:
            return False
        min(candidates, key=lambda candidate: candidate[:-1])[-1].give_way()
        return True


def _since(place: ConnectionPlace) -> float:
    return place.since

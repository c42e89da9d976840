"""`Identity`: who makes a request, as the host knows it; never as the request says it. An `Authenticator` finds it.

Identifies the sender of a request, and counts its connection among those of the sender.

`Rates`: how many requests a second each tenant makes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

import trio
from attrs import field, frozen

from agentrail.api.limits import HostLimits
from agentrail.errors import NotAuthenticated, TooManyRequests
from agentrail.host.requests.http_messages import HttpRequest
from agentrail.values.newest import Newest
from agentrail.values.value import Authored

AUTHORIZATION: Final = "authorization"
BEARER: Final = "bearer"
NO_KEY: Final = "the request has no header `Authorization`"
NO_BEARER: Final = "the header `Authorization` is not `Bearer` with one key"


class Identity(Authored):
    """Who makes a request."""

    tenant: str
    """Id of the tenant."""
    user: str
    """Id of the user, unique in the tenant."""
    scopes: frozenset[str] = frozenset()
    """What the user may do: `talk`, `decide`, `observe`, `admin`, `operate`."""
    key: str = ""
    """Id of the key, if the user may have several: the connections of each are counted by themselves."""


class ForwardedIdentity(Identity):
    """Who made a request that another host has passed on. That host has counted it; both watch the user's key."""

    hops: int = 0
    """How often it was passed on."""


NOBODY: Final = Identity("", "")
"""Who makes a request that needs no key, or of which it is not known yet."""


class Authenticator(Protocol):
    """Finds out who makes a request."""

    async def identify(self, headers: Sequence[tuple[str, str]]) -> Identity:
        """Return who sends a request with these *headers* (names in lower case); raise `NotAuthenticated` if nobody.

        It is called for each request, and once a second for each key with which a stream, a WebSocket or a long request
        is open, which ends when this refuses. Requests with the same user, id of the key and headers share that call.
        With more than 100 such keys it is called 100 times a second in all; after a call that takes long, ten times as
        long passes before the next one for that key, and after one that fails twice as long each time, but never more
        than `heartbeat_seconds`. It may take 10 s. If it takes longer, raises something that is no refusal, or returns
        something else, it has failed: a request is answered by 503, `authenticator-failed`, and a stream goes on for
        `unknown_seconds`.
        """
        ...


def bearer(headers: Sequence[tuple[str, str]]) -> str:
    """Return the key in the header `Authorization`; raise `NotAuthenticated` if there is none, or more than one."""
    values = [value for name, value in headers if name == AUTHORIZATION]
    if not values:
        raise NotAuthenticated(NO_KEY)
    scheme, _, key = values[0].strip().partition(" ")
    if len(values) > 1 or scheme.lower() != BEARER or not key.strip():
        raise NotAuthenticated(NO_BEARER)
    return key.strip()


@frozen
class SignedRequest(HttpRequest):
    """A request that another host of the cluster has passed on, whose signature was checked."""

    signed_for: ForwardedIdentity = field(kw_only=True)
    """Who has made it."""


def user_signed_for(request: HttpRequest) -> ForwardedIdentity | None:
    """Return for whom a host has signed *request*; `None` if it comes from a client."""
    return request.signed_for if isinstance(request, SignedRequest) else None


async def identified(authenticator: Authenticator, request: HttpRequest) -> Identity:
    """Return the identity of the sender of *request*; a host of the cluster may have said it."""
    signed_for = user_signed_for(request)
    if signed_for is not None:
        await trio.lowlevel.checkpoint()
        return signed_for
    return await authenticator.identify(request.headers)


def take_slot(request: HttpRequest, who: Identity) -> None:
    """Count the connection of *request* for its sender; raise `ConnectionsInUse` if the sender has too many."""
    request.slot.take(who.tenant, who.user, who.key)


MAX_KEPT: Final = 10_000
"""Tenants whose last requests are remembered; beyond it, the ones that rested longest are forgotten."""


class Rates:
    """A bucket of requests for each tenant: it fills at the rate that is allowed, up to the burst."""

    def __init__(self, limits: HostLimits) -> None:
        self._rate = limits.requests_per_second
        self._burst = float(limits.burst)
        # by tenant: the requests left in the bucket, and the time of that number
        self._buckets = Newest[str, tuple[float, float]](MAX_KEPT)

    def take(self, tenant: str) -> None:
        """Take a request from the bucket of *tenant*; raise `TooManyRequests` if the bucket is empty."""
        now = trio.current_time()
        tokens, then = self._buckets.get(tenant, (self._burst, now))
        tokens = min(self._burst, tokens + (now - then) * self._rate)
        if tokens < 1:
            self._buckets[tenant] = tokens, now
            raise TooManyRequests(self._rate, (1 - tokens) / self._rate)
        self._buckets[tenant] = tokens - 1, now

"""`Identity`: who makes a request, as the host knows it; never as the request says it. An `Authenticator` finds it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from agentrail.errors import NotAuthenticated
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
    """What the user may do: `talk`, `decide`, `observe`, `admin`."""
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

        It is called for each request, and each `heartbeat_seconds` while a stream is open, which ends when this
        refuses: so a stream outlives its key by that long. It may take 10 s. If it takes longer, raises something that
        is no refusal, or returns something else, it has failed: a request is answered by 503, `authenticator-failed`,
        and a stream goes on for `unknown_seconds`.
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

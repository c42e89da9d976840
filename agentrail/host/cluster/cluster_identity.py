"""`ClusterAuthenticator`: trusts other hosts of the cluster, which say for which user they ask, and nobody else.

A host that passes a request on signs who has made it, for which host that is meant, and how often it was passed on.
"""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from hashlib import sha256
from typing import Final, cast

import msgspec

from agentrail.errors import NotAuthenticated
from agentrail.host.authentication.identity import Authenticator, ForwardedIdentity, Identity, bearer
from agentrail.host.cluster.cluster_options import Cluster
from agentrail.host.cluster.program_text import ProgramCheck
from agentrail.runtime.shared.clock import Clock
from agentrail.values.value import Value, learned

MARK: Final = "agentrail-host."
"""How the key of a request begins that another host has passed on. No key of a user begins like this."""

FRESH: Final = 300_000
"""Milliseconds for which a signature counts, and by which the clocks of two hosts may differ."""

FORGED: Final = "the key is that of a host, and was not signed for this one, or not just now"


class Signed(Value):
    """What a host signs."""

    tenant: str
    """Tenant of the user."""
    user: str
    """The user."""
    scopes: tuple[str, ...]
    """What the user may do."""
    hops: int
    """How often the request was passed on, this time included."""
    to: str
    """Address of the host that it is passed on to."""
    at: int
    """When that was, in milliseconds since 1970."""
    by: str = ""
    """Address of the host that signs; empty for a program with the key."""
    program: str = ""
    """What that host runs: see `program_text`."""


class ClusterAuthenticator:
    """Identifies users by *inner*, and requests that other hosts of *cluster* pass on by their signature."""

    def __init__(self, inner: Authenticator, cluster: Cluster, clock: Clock) -> None:
        self._inner = inner
        self._cluster = cluster
        self._clock = clock
        self._check = ProgramCheck(cluster.program)

    async def identify(self, headers: Sequence[tuple[str, str]]) -> Identity:
        """Return who makes a request; raise `NotAuthenticated` for a signature that does not count."""
        if not any(name == "authorization" and MARK in value for name, value in headers):
            return await self._inner.identify(headers)
        signed = read_signature(self._cluster, bearer(headers), self._clock.now_ms())
        self._check.look(signed.by, signed.program)
        return ForwardedIdentity(signed.tenant, signed.user, frozenset(signed.scopes), hops=signed.hops)


def signature(cluster: Cluster, who: Identity, to: str, at: int, *, is_first: bool = False) -> str:
    """Return the key with which a request of *who* is passed on to the host at the address *to*.

    With *is_first*, no host passes it on: a program that has the key of the cluster asks.
    """
    hops = who.hops if isinstance(who, ForwardedIdentity) else 0
    hops += not is_first
    by, program = ("", "") if is_first else (cluster.address, cluster.program)
    body = msgspec.json.encode(Signed(who.tenant, who.user, tuple(sorted(who.scopes)), hops, to, at, by, program))
    return f"{MARK}{urlsafe_b64encode(body).decode()}.{_seal(cluster, body)}"


def read_signature(cluster: Cluster, key: str, now: int) -> Signed:
    """Return what a host has signed in *key*; raise `NotAuthenticated` if none of the cluster did, or not just now."""
    text, _, seal = key.removeprefix(MARK).partition(".")
    try:
        body = urlsafe_b64decode(text)
        if not hmac.compare_digest(seal.encode(errors="replace"), _seal(cluster, body).encode()):
            raise NotAuthenticated(FORGED)
        signed = cast("Signed", msgspec.json.decode(body, type=learned(Signed)))
    except (ValueError, msgspec.DecodeError):
        raise NotAuthenticated(FORGED) from None
    if signed.to != cluster.address or abs(now - signed.at) > FRESH:
        raise NotAuthenticated(FORGED)
    return signed


def _seal(cluster: Cluster, body: bytes) -> str:
    return hmac.new(cluster.key, body, sha256).hexdigest()

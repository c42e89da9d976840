"""Signatures of hosts: for whom a host asks another one, and for which request.

A host that passes a request on signs who has made it, method, path, query and a digest of the body, for which host it
is meant, how often it was passed on, and a number that is used once. Other headers are not signed.
"""

from __future__ import annotations

import hmac
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from hashlib import sha256
from typing import Final, NamedTuple, cast

import msgspec

from agentrail.errors import ClusterFault
from agentrail.host.authentication.identity import AUTHORIZATION, ForwardedIdentity, Identity
from agentrail.host.cluster.cluster_options import Cluster
from agentrail.values.value import Value, learned

MARK: Final = "agentrail-host."
"""How the key of a request begins that another host has passed on. No key of a user begins like this."""

FRESH: Final = 10_000
"""Milliseconds for which a signature counts, and by which the clocks of two hosts may differ."""

NUMBER_BYTES: Final = 15
"""Random bytes of the number of a signature."""

OTHER_KEY: Final = "a request was signed, and with none of the keys of the cluster that this host has"
OTHER_VERSION: Final = "a request was signed as another version of agentrail does; replace the older hosts"
OTHER_HOST: Final = "a request for this host, {}, was signed for the host at another address"
OTHER_REQUEST: Final = "a request was signed, and is not the one that came"
OTHER_TIME: Final = (
    f"the clock of the host at {{}} differs from that of this host by {{:.0f}} s, and {FRESH // 1000} s are allowed"
)


class SignedCall(NamedTuple):
    """The request that a host signs."""

    method: str
    """Its method, in upper case."""
    path: str
    """Decoded once."""
    query: str = ""
    """As it is sent, without the `?`."""
    body: bytes = b""
    """The whole body."""


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
    number: str
    """Is used once."""
    method: str
    """The method of the request."""
    path: str
    """The path of the request, decoded once."""
    query: str
    """Its query, as it is sent."""
    digest: str
    """Digest of its body, in hexadecimal."""
    key: str = ""
    """Id of the user's key; empty if the authenticator of the host that signs gives keys no ids."""
    by: str = ""
    """Address of the host that signs; empty for a program with the key."""
    program: str = ""
    """What that host runs: see `program_text`."""

    def identity(self) -> ForwardedIdentity:
        """Return who has made the request."""
        return ForwardedIdentity(self.tenant, self.user, frozenset(self.scopes), self.key, self.hops)


def signature(cluster: Cluster, who: Identity, to: str, at: int, call: SignedCall) -> tuple[str, str]:
    """Return the header with which *call* of *who* is passed on to the host at the address *to*."""
    return AUTHORIZATION, f"Bearer {signed_key(cluster, who, to, at, call)}"


def signed_key(cluster: Cluster, who: Identity, to: str, at: int, call: SignedCall, *, is_first: bool = False) -> str:
    """Return the key in the header of `signature`.

    With *is_first*, no host passes the call on: a program that has the key of the cluster asks.
    """
    hops = who.hops if isinstance(who, ForwardedIdentity) else 0
    hops += not is_first
    by, program = ("", "") if is_first else (cluster.address, cluster.program)
    signed = Signed(
        who.tenant,
        who.user,
        tuple(sorted(who.scopes)),
        hops,
        to,
        at,
        secrets.token_urlsafe(NUMBER_BYTES),
        call.method,
        call.path,
        call.query,
        sha256(call.body).hexdigest(),
        who.key,
        by,
        program,
    )
    text = msgspec.json.encode(signed)
    return f"{MARK}{urlsafe_b64encode(text).decode()}.{_seal(cluster.keys[0], text)}"


def is_signed(headers: Sequence[tuple[str, str]]) -> bool:
    """Whether the request with these *headers* says that a host has signed it."""
    return any(name == AUTHORIZATION and MARK in value for name, value in headers)


def read_signature(cluster: Cluster, key: str, now: int) -> Signed:
    """Return what a host has signed in *key*; raise `ClusterFault` if it is for no request to this host, just now."""
    encoded, _, seal = key.removeprefix(MARK).partition(".")
    try:
        text = urlsafe_b64decode(encoded)
    except ValueError:
        raise ClusterFault(OTHER_KEY) from None
    seal_bytes = seal.encode(errors="replace")
    if not any(hmac.compare_digest(seal_bytes, _seal(own, text).encode()) for own in cluster.keys):
        raise ClusterFault(OTHER_KEY)
    try:
        signed = cast("Signed", msgspec.json.decode(text, type=learned(Signed)))
    except msgspec.DecodeError:
        raise ClusterFault(OTHER_VERSION) from None
    if signed.to != cluster.address:
        raise ClusterFault(OTHER_HOST.format(cluster.address))
    if abs(now - signed.at) > FRESH:
        raise ClusterFault(OTHER_TIME.format(signed.by or "a program with the key", abs(now - signed.at) / 1000))
    return signed


def check_call(signed: Signed, method: str, path: str, query: str) -> None:
    """Raise `ClusterFault` if not this request was signed."""
    if (signed.method, signed.path, signed.query) != (method, path, query):
        raise ClusterFault(OTHER_REQUEST)


def _seal(key: bytes, text: bytes) -> str:
    return hmac.new(key, text, sha256).hexdigest()

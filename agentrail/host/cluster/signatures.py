"""`SignedRequests`: admits what other hosts of the cluster have signed, once, and says who has made it.

A signature that does not count is a fault of the cluster, and not of the user for whom a host asks.

Signatures of hosts: for whom a host asks another one, and for which request.

A host that passes a request on signs who has made it, method, path, query and a digest of the body, for which host it
is meant, how often it was passed on, and a number that is used once. Other headers are not signed.

`program_text`: what a host runs, in a line, which it signs too. Hosts may differ while a new version is rolled out;
nobody should find out later that they still do.
"""

from __future__ import annotations

import hmac
import logging
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import deque
from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Final, NamedTuple

import msgspec

from agentrail.app.spec import SessionSpec
from agentrail.codec.values import read_of_host
from agentrail.errors import AgentrailError, BadData, ClusterFault, HostClosing, NotAuthenticated
from agentrail.host.authentication.api_keys import ApiKeys
from agentrail.host.authentication.identity import (
    AUTHORIZATION,
    ForwardedIdentity,
    Identity,
    SignedRequest,
    bearer,
    user_signed_for,
)
from agentrail.host.cluster.cluster_options import Cluster
from agentrail.host.error_responses import refusal
from agentrail.host.operations.host_operations import ATTEMPT
from agentrail.host.profiles import Profile, offered
from agentrail.host.requests.http_messages import Body, Handler, HttpRequest, HttpResponse, WrappedBody
from agentrail.runtime.shared.clock import Clock
from agentrail.values.value import Value
from agentrail.version import __version__

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


def signature(cluster: Cluster, who: Identity, to: str, now_ms: int, call: SignedCall) -> tuple[str, str]:
    """Return the header with which *call* of *who* is passed on to the host at the address *to*."""
    return AUTHORIZATION, f"Bearer {signed_key(cluster, who, to, now_ms, call)}"


def signed_key(
    cluster: Cluster, who: Identity, to: str, now_ms: int, call: SignedCall, *, is_first: bool = False
) -> str:
    """Return the key in the header of `signature`.

    With *is_first*, no host passes the call on: a program that has the key of the cluster asks.
    """
    hops = who.hops if isinstance(who, ForwardedIdentity) else 0
    hops += not is_first
    by, program = ("", "") if is_first else (cluster.address, cluster.program)
    signed = Signed(
        who.tenant,
        who.user,
        scopes=tuple(sorted(who.scopes)),
        hops=hops,
        to=to,
        at=now_ms,
        number=secrets.token_urlsafe(NUMBER_BYTES),
        method=call.method,
        path=call.path,
        query=call.query,
        digest=sha256(call.body).hexdigest(),
        key=who.key,
        by=by,
        program=program,
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
    if not any(hmac.compare_digest(seal_bytes, _seal(secret, text).encode()) for secret in cluster.keys):
        raise ClusterFault(OTHER_KEY)
    try:
        signed = read_of_host(Signed, text)
    except BadData:
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


AGAIN: Final = "a signed request came a second time"
UNSIGNED: Final = "only what a host of the cluster has signed is answered here"


class UsedNumbers:
    """The numbers of the signatures that have come while they count."""

    def __init__(self) -> None:
        self._numbers: set[str] = set()
        self._order: deque[tuple[int, str]] = deque()
        """Each with the time, in milliseconds, after which its signature counts no more; the first one first."""

    def use(self, number: str, now: int) -> None:
        """Note *number*; raise `ClusterFault` if it has come before."""
        while self._order and self._order[0][0] < now:
            self._numbers.discard(self._order.popleft()[1])
        if number in self._numbers:
            raise ClusterFault(AGAIN)
        self._numbers.add(number)
        self._order.append((now + 2 * FRESH, number))  # the clock of its host may be ahead


class SignedBody(WrappedBody):
    """The body of a signed request: its reader gets the end only if it has the *digest* that was signed."""

    __slots__ = ("_digest", "_hash")

    def __init__(self, body: Body, digest: str) -> None:
        super().__init__(body)
        self._digest = digest
        self._hash = sha256()

    async def chunk(self) -> bytes:
        """Return the next bytes; raise `ClusterFault` at the end if they are not those that were signed."""
        piece = await self._body.chunk()
        self._hash.update(piece)
        if not piece and self._hash.hexdigest() != self._digest:
            raise ClusterFault(OTHER_REQUEST)
        return piece


class SignedRequests:
    """Admits the requests that hosts of *cluster* sign; *keys* are those of the users of this host, if it has a file.

    What was signed before this host began is not taken, because it has not seen which numbers were used then. The host
    that asks is told that this one is not ready, and signs again.
    """

    def __init__(self, cluster: Cluster, keys: ApiKeys | None) -> None:
        self._cluster = cluster
        self._keys = keys
        self._began: int | None = None
        """When this host began to serve, in milliseconds since 1970; `None` before that."""
        self._used = UsedNumbers()
        self._check = ProgramCheck(cluster.program)

    def admitting(self, handler: Handler) -> Handler:
        """Return *handler*, which is told by whom the requests are that hosts have signed; others come as they are."""
        self._began = self._began or Clock().now_ms()

        async def admit(request: HttpRequest) -> HttpResponse:
            if not is_signed(request.headers):
                return await handler(request)
            try:
                signed = self._read(request)
                who = signed.identity()
                if self._keys is not None and who.key:
                    await self._keys.check_key(who)
            except AgentrailError as error:
                return refusal(error, ATTEMPT, "", request.note.id)
            return await handler(_signed(request, signed.digest, who))

        return admit

    def _read(self, request: HttpRequest) -> Signed:
        """Return what was signed; raise `ClusterFault` if it does not count for *request*, or came before."""
        now = Clock().now_ms()  # a clock of before would not know that the time of day was set since
        signed = read_signature(self._cluster, bearer(request.headers), now)
        check_call(signed, request.method, request.path, request.query)
        if self._began is None or signed.at < self._began:
            raise HostClosing
        self._used.use(signed.number, now)
        if signed.user:  # a farewell is said when hosts are replaced, and runs no agent
            self._check.look(signed.by, signed.program)
        return signed


def _signed(request: HttpRequest, digest: str, who: ForwardedIdentity) -> SignedRequest:
    """Return *request*, made by *who*, with a body of this *digest*."""
    return SignedRequest(
        request.method,
        request.path,
        request.query,
        request.headers,
        request.peer,
        SignedBody(request.body, digest),
        request.wait_gone,
        request.upgrade_problem,
        request.note,
        request.slot,
        signed_for=who,
    )


def signed_only(handler: Handler) -> Handler:
    """Return *handler* for requests that `SignedRequests` has admitted; others are refused, whoever makes them."""

    async def admit(request: HttpRequest) -> HttpResponse:
        if user_signed_for(request) is None:
            return refusal(NotAuthenticated(UNSIGNED), ATTEMPT, "", request.note.id)
        return await handler(request)

    return admit


log: Final = logging.getLogger("agentrail.host")

DIGITS: Final = 8
"""How many digits of a digest are shown."""

DIFFERS: Final = (
    "the host at %s runs `%s`, and this one `%s`: it depends on the host what an agent can do; replace the older one"
)


def program_text(profiles: Iterable[Profile]) -> str:
    """Return the version of agentrail, the names of *profiles*, and a digest of what these are made of."""
    parts = {profile.id: _parts(profile) for profile in profiles}
    digest = sha256(repr(parts).encode(errors="surrogatepass")).hexdigest()[:DIGITS]
    return f"agentrail {__version__}, {', '.join(parts)}, {digest}"


def _parts(profile: Profile) -> tuple[object, ...]:
    """Return what makes *profile* another one, if it changes: names, and the instructions; not the code behind them."""
    spec = profile.spec
    if not isinstance(spec, SessionSpec):
        return (str(getattr(spec, "__qualname__", type(spec).__qualname__)),)
    able = offered(profile, spec)
    return (spec.system, sorted(able.tools), sorted(able.plugins), able.models)


class ProgramCheck:
    """Compares what other hosts say that they run with *own_program*, and logs each difference once."""

    def __init__(self, own_program: str) -> None:
        self._own_program = own_program
        self._logged: dict[str, str] = {}

    def look(self, host: str, program: str) -> None:
        """Log a warning if the host at the address *host* runs another *program*, unless that was logged before."""
        if not program or self._logged.get(host, self._own_program) == program:
            return
        self._logged[host] = program
        if program != self._own_program:
            log.warning(DIFFERS, host, program, self._own_program)

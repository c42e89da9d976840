"""`SignedRequests`: admits what other hosts of the cluster have signed, once, and says who has made it.

A signature that does not count is a fault of the cluster, and not of the user for whom a host asks.
"""

from __future__ import annotations

from collections import deque
from hashlib import sha256
from typing import Final

from agentrail.errors import AgentrailError, ClusterFault, HostClosing, NotAuthenticated
from agentrail.host.application import ATTEMPT
from agentrail.host.authentication.api_keys import ApiKeys
from agentrail.host.authentication.identity import ForwardedIdentity, bearer
from agentrail.host.authentication.request_places import SignedRequest, user_signed_for
from agentrail.host.cluster.cluster_identity import (
    FRESH,
    OTHER_REQUEST,
    Signed,
    check_call,
    is_signed,
    read_signature,
)
from agentrail.host.cluster.cluster_options import Cluster
from agentrail.host.cluster.program_text import ProgramCheck
from agentrail.host.error_responses import refusal
from agentrail.host.requests.http_messages import Body, Handler, HttpRequest, HttpResponse, WrappedBody
from agentrail.runtime.shared.clock import Clock

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
        request.gone,
        request.upgrade_problem,
        request.note,
        request.place,
        signed_for=who,
    )


def signed_only(handler: Handler) -> Handler:
    """Return *handler* for requests that `SignedRequests` has admitted; others are refused, whoever makes them."""

    async def admit(request: HttpRequest) -> HttpResponse:
        if user_signed_for(request) is None:
            return refusal(NotAuthenticated(UNSIGNED), ATTEMPT, "", request.note.id)
        return await handler(request)

    return admit

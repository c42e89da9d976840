"""Identifies the sender of a request, and counts its connection among those of the sender."""

from __future__ import annotations

import trio
from attrs import field, frozen

from agentrail.host.authentication.identity import Authenticator, ForwardedIdentity, Identity
from agentrail.host.requests.http_messages import HttpRequest


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


def take_place(request: HttpRequest, who: Identity) -> None:
    """Count the connection of *request* for its sender; raise `ConnectionsInUse` if the sender has too many."""
    request.place.take(who.tenant, who.key or who.user)

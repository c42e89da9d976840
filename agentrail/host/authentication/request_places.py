"""Identifies the sender of a request, and counts its connection among those of the sender."""

from __future__ import annotations

import trio

from agentrail.host.authentication.identity import Authenticator, Identity
from agentrail.host.requests.http_messages import HttpRequest
from agentrail.host.requests.places import Wait
from agentrail.host.requests.refusals import GAVE_WAY, HttpRefusal


async def identified(authenticator: Authenticator, request: HttpRequest) -> Identity:
    """Return the identity of the sender of *request*. Until it is known, the connection may be closed for others.

    Raise `HttpRefusal` if the connection is closed for another one meanwhile.
    """
    with (
        trio.CancelScope() as scope,
        request.place.waiting(Wait.CALLER, trio.current_time(), scope.cancel),
    ):
        return await authenticator.identify(request.headers)
    raise HttpRefusal(GAVE_WAY)


def take_place(request: HttpRequest, who: Identity) -> None:
    """Count the connection of *request* for its sender; raise `ConnectionsInUse` if the sender has too many."""
    request.place.take(who.tenant, who.key or who.user)

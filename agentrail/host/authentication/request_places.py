"""Finds out who sends a request, and takes the place of its connection for them."""

from __future__ import annotations

import trio

from agentrail.host.authentication.identity import Authenticator, Identity
from agentrail.host.http11.http_messages import HttpRequest
from agentrail.host.http11.places import Wait
from agentrail.host.http11.refusals import GAVE_WAY, HttpRefusal


async def identified(authenticator: Authenticator, request: HttpRequest) -> Identity:
    """Return who sends a *request*; as long as that is not known, its connection may give way to others.

    Raise `HttpRefusal` if it does.
    """
    with (
        trio.CancelScope() as scope,
        request.place.waiting(Wait.CALLER, trio.current_time(), scope.cancel),
    ):
        return await authenticator.identify(request.headers)
    raise HttpRefusal(GAVE_WAY)


def take_place(request: HttpRequest, who: Identity) -> None:
    """Have the connection of a *request* count for its sender; raise `ConnectionsInUse` if they use too many."""
    request.place.take(who.tenant, who.key or who.user)

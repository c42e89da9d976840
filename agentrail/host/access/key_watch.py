"""`KeyWatch`: looks again and again whether the key of an open stream or WebSocket still allows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import trio

from agentrail.errors import AgentrailError, AuthenticatorFailed, NotAuthenticated
from agentrail.host.access.identity import Authenticator, Identity
from agentrail.wire.limits import HostLimits

CHANGED: Final = "the key allows less than when the stream began, or is somebody else's"


class KeyWatch:
    """Looks at keys that are in use, each `heartbeat_seconds`.

    If the authenticator fails, streams go on for `unknown_seconds`: a short outage of what it asks, such as a database,
    would otherwise cut all clients at once, which would come back while it is still away.
    """

    def __init__(self, authenticator: Authenticator, limits: HostLimits) -> None:
        self._authenticator = authenticator
        self._limits = limits

    async def refusal(self, began: Identity, headers: Sequence[tuple[str, str]]) -> AgentrailError:
        """Wait until the stream has to end that *began* with the key in *headers*; return the error that says why.

        It is `AuthenticatorFailed` if nobody could say for too long whose key it is.
        """
        failing: float | None = None
        while True:
            await trio.sleep(self._limits.heartbeat_seconds)
            try:
                check_same(began, await self._authenticator.identify(headers))
                failing = None
            except AuthenticatorFailed as failed:
                now = trio.current_time()
                failing = now if failing is None else failing
                if now - failing >= self._limits.unknown_seconds:
                    return failed
            except AgentrailError as refused:
                return refused


def check_same(began: Identity, now: Identity) -> None:
    """Raise `NotAuthenticated` if the key is no longer that of who *began* the stream, or allows less."""
    if (began.tenant, began.user) != (now.tenant, now.user) or not began.scopes <= now.scopes:
        raise NotAuthenticated(CHANGED)

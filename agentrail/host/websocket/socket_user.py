"""`SocketUser`: who uses a WebSocket, by the key of its handshake or of its first message."""

from __future__ import annotations

from typing import Final

from agentrail.errors import NotAuthenticated
from agentrail.host.access.identity import Authenticator, Identity
from agentrail.host.answering.client_streams import CHANGED, check_same
from agentrail.host.http11.http_messages import Headers

AUTHORIZATION: Final = "authorization"

OF_HANDSHAKE: Final = frozenset({"connection", "content-type", "idempotency-key", "last-event-id", "upgrade"})
"""Headers of a handshake that are not those of the calls on its WebSocket; nor are those that begin with `sec-`."""


class SocketUser:
    """Who uses a WebSocket. That is asked for again at each call: a key may be withdrawn."""

    def __init__(self, authenticator: Authenticator, headers: Headers) -> None:
        self._authenticator = authenticator
        self.headers = tuple(
            [each for each in headers if each[0] not in OF_HANDSHAKE and not each[0].startswith("sec-")]
        )
        """The headers of each call, but for those that it has itself."""
        self._began: Identity | None = None

    @property
    def has_key(self) -> bool:
        """Whether the handshake, or a message, had a key."""
        return any(name == AUTHORIZATION for name, _ in self.headers)

    def take_key(self, key: str) -> None:
        """Take the *key* of the first message."""
        self.headers = (*self.headers, (AUTHORIZATION, f"Bearer {key}"))

    async def identity(self) -> Identity:
        """Return who it is now; raise `NotAuthenticated` if the key is withdrawn, or is somebody else's."""
        now = await self._authenticator.identify(self.headers)
        began = self._began
        if began is None:
            self._began = now
        elif (began.tenant, began.user) != (now.tenant, now.user):
            raise NotAuthenticated(CHANGED)
        return now

    async def check_same(self, began: Identity) -> None:
        """Raise `NotAuthenticated` if the key allows less than it did for *began*, or is somebody else's."""
        check_same(began, await self._authenticator.identify(self.headers))

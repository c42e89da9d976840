"""`SocketUser`: who uses a WebSocket, by its key; with `SocketParts`, what all WebSockets of a host share."""

from __future__ import annotations

from typing import Final

from attrs import frozen

from agentrail.api.limits import HostLimits
from agentrail.errors import AgentrailError, NotAuthenticated
from agentrail.host.authentication.identity import AUTHORIZATION, Authenticator, ForwardedIdentity, Identity
from agentrail.host.authentication.key_watch import CHANGED, KeyWatch
from agentrail.host.cluster.forwarding import Forwarding
from agentrail.host.cluster.other_hosts import OtherHosts
from agentrail.host.health.held_changes import HeldChanges
from agentrail.host.health.request_figures import RequestFigures
from agentrail.host.health.tree_feed import TreeFeed
from agentrail.host.hosted_sessions import HostedSessions
from agentrail.host.operations.client_streams import ClientStreams
from agentrail.host.operations.event_frames import EventFrames
from agentrail.host.operations.host_operations import HostOperations
from agentrail.host.operations.view_calls import ViewCalls
from agentrail.host.requests.http_messages import Headers

OF_HANDSHAKE: Final = frozenset({"connection", "content-type", "idempotency-key", "last-event-id", "upgrade"})
"""Headers of a handshake that are not those of the calls on its WebSocket; nor are those that begin with `sec-`."""


class SocketUser:
    """The user of a WebSocket. Each call identifies the user again: a key may be withdrawn."""

    def __init__(
        self, authenticator: Authenticator, watch: KeyWatch, headers: Headers, signed_for: ForwardedIdentity | None
    ) -> None:
        self._authenticator = authenticator
        self._watch = watch
        self.headers = tuple(
            [header for header in headers if header[0] not in OF_HANDSHAKE and not header[0].startswith("sec-")]
        )
        """The headers of each call, but for those that it has itself."""
        # a host of the cluster has signed the handshake for a user: the signature is for that alone
        self._began: Identity | None = signed_for

    @property
    def has_key(self) -> bool:
        """Whether the handshake, or a message, had a key."""
        return any(name == AUTHORIZATION for name, _ in self.headers)

    def take_key(self, key: str) -> None:
        """Use the *key* of the client's first message."""
        self.headers = (*self.headers, (AUTHORIZATION, f"Bearer {key}"))

    async def identity(self) -> Identity:
        """Identify the user again; raise `NotAuthenticated` if the key is withdrawn, or is now another user's."""
        began = self._began
        if isinstance(began, ForwardedIdentity):
            return began
        now = await self._authenticator.identify(self.headers)
        if began is None:
            self._began = now
        elif (began.tenant, began.user) != (now.tenant, now.user):
            raise NotAuthenticated(CHANGED)
        return now

    async def refusal(self, began: Identity) -> AgentrailError:
        """Wait until the key no longer allows the WebSocket that *began* has opened; return the error that says why."""
        return await self._watch.refusal(began, self.headers)


@frozen
class SocketParts:
    """What all WebSockets of a host share."""

    operations: HostOperations
    """Admits and carries out the calls."""
    authenticator: Authenticator
    keys: KeyWatch
    """Looks at the keys of WebSockets as long as they are open."""
    limits: HostLimits
    looking: ViewCalls
    """Opens subscriptions to events."""
    frames: EventFrames
    streams: ClientStreams
    requests: RequestFigures
    """Counts the calls."""
    tree: TreeFeed
    """Tells which rows of the tree have changed."""
    held_changes: HeldChanges
    """Tells when other calls wait for people."""
    sessions: HostedSessions
    """Knows which sessions have ended."""
    forwarding: Forwarding | None
    """Passes subscriptions on to other hosts; `None` if this host is the only one."""
    others: OtherHosts | None
    """Asks other hosts for the rows of the tree; `None` if this host is the only one."""

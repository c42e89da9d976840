"""`Line`: what handles of remote sessions need: calls and subscriptions, at a host or at several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from agentrail.api.socket_frames import Listened
from agentrail.remote.transport.host_subscription import HostSubscription
from agentrail.values.events.envelope import Cursor
from agentrail.values.events.policies import SubscriptionPolicy
from agentrail.values.json import Json, JsonObject


class Line(Protocol):
    """Carries calls to a host, and events back. `HostConnection` is one."""

    @property
    def address(self) -> object:
        """Where the host is, to be shown."""
        ...

    async def call(
        self,
        name: str,
        *,
        session: str | None = None,
        body: JsonObject | None = None,
        query: JsonObject | None = None,
        command: str | None = None,
    ) -> Json:
        """Have the host carry out a call, and return what it gives. See `HostConnection.call`."""
        ...

    def whole_id(self, session: str) -> str:
        """Return the id that the host shows of a session. See `HostConnection.whole_id`."""
        ...

    def listen(
        self,
        what: Listened,
        session: str | None = None,
        *,
        since: Cursor | None = None,
        types: Sequence[str] | None = None,
        policy: SubscriptionPolicy = "coalesce",
        changes: JsonObject | None = None,
    ) -> HostSubscription:
        """Return a subscription. See `HostConnection.listen`."""
        ...

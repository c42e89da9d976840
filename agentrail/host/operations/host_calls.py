"""Calls about the host itself: whether it is well, which agents it has, and whose the key is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import trio

from agentrail.api.views import AgentsView, CheckView, HealthView, IdentityView, ReadyView
from agentrail.host.host_drain import ACCEPTING, HostDrain
from agentrail.host.operations.answers import Answer
from agentrail.host.operations.call import OperationCall
from agentrail.host.profiles import ProfileTable

NOT_READY: Final = 503


class HostCalls:
    """Carries out the calls about the host itself."""

    def __init__(
        self, look: Callable[[], Awaitable[tuple[CheckView, ...]]], drain: HostDrain, profiles: ProfileTable
    ) -> None:
        self._look = look
        self._drain = drain
        self._profiles = profiles

    async def health(self, call: OperationCall) -> Answer:
        """Say that the host answers."""
        await trio.lowlevel.checkpoint()
        return call.view_answer(HealthView())

    async def ready(self, call: OperationCall) -> Answer:
        """Say whether all checks are passed, and the host takes requests."""
        checks = (*await self._look(), CheckView(ACCEPTING, not self._drain.has_begun, 0.0))
        is_ready = all(check.ok for check in checks)
        return call.view_answer(ReadyView(is_ready, checks), None if is_ready else NOT_READY)

    async def identity(self, call: OperationCall) -> Answer:
        """Show whose the key is."""
        await trio.lowlevel.checkpoint()
        who = call.who
        return call.view_answer(IdentityView(who.tenant, who.user, tuple(sorted(who.scopes))))

    async def agents(self, call: OperationCall) -> Answer:
        """List the names of the profiles."""
        await trio.lowlevel.checkpoint()
        return call.view_answer(AgentsView(tuple([profile.id for profile in self._profiles])))

"""Calls about the host itself: whether it is well."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import trio

from agentrail.api.views import CheckView, HealthView, ReadyView
from agentrail.host.host_drain import ACCEPTING, HostDrain
from agentrail.host.operations.answers import Answer
from agentrail.host.operations.call import Call

NOT_READY: Final = 503


class HostCalls:
    """Carries out the calls about the host itself."""

    def __init__(self, look: Callable[[], Awaitable[tuple[CheckView, ...]]], drain: HostDrain) -> None:
        self._look = look
        self._drain = drain

    async def health(self, call: Call) -> Answer:
        """Say that the host answers."""
        await trio.lowlevel.checkpoint()
        return call.shown(HealthView())

    async def ready(self, call: Call) -> Answer:
        """Say whether all checks are passed, and the host takes requests."""
        checks = (*await self._look(), CheckView(ACCEPTING, not self._drain.has_begun, 0.0))
        is_ready = all(check.ok for check in checks)
        return call.shown(ReadyView(is_ready, checks), None if is_ready else NOT_READY)

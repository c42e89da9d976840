"""Calls about the host itself: whether it is well, its page, and its OpenAPI document."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import trio

from agentrail.host.answering.call_request import CallRequest
from agentrail.host.answering.host_page import HOST_PAGE
from agentrail.host.host_drain import ACCEPTING, HostDrain
from agentrail.host.http11.http_messages import HttpResponse
from agentrail.host.http11.static_content import StaticContent
from agentrail.wire.call_rows.host_call import JSON
from agentrail.wire.call_rows.host_views import CheckView, HealthView, ReadyView
from agentrail.wire.described.openapi import openapi_json

NOT_READY: Final = 503


class HostCalls:
    """Carries out the calls about the host itself."""

    def __init__(self, look: Callable[[], Awaitable[tuple[CheckView, ...]]], drain: HostDrain) -> None:
        self._look = look
        self._drain = drain
        self._document: StaticContent | None = None

    async def health(self, exchange: CallRequest) -> HttpResponse:
        """Say that the host answers."""
        await trio.lowlevel.checkpoint()
        return exchange.given(HealthView())

    async def ready(self, exchange: CallRequest) -> HttpResponse:
        """Say whether all checks are passed, and the host takes requests."""
        checks = (*await self._look(), CheckView(ACCEPTING, not self._drain.has_begun, 0.0))
        is_ready = all(check.ok for check in checks)
        return exchange.given(ReadyView(is_ready, checks), None if is_ready else NOT_READY)

    async def page(self, exchange: CallRequest) -> HttpResponse:
        """Show the page of the host."""
        await trio.lowlevel.checkpoint()
        return HOST_PAGE.answer(exchange.request)

    async def openapi(self, exchange: CallRequest) -> HttpResponse:
        """Show the OpenAPI document."""
        await trio.lowlevel.checkpoint()
        if self._document is None:  # not at the start: to make it takes longer than all else that a host makes then
            self._document = StaticContent(openapi_json(), JSON)
        return self._document.answer(exchange.request)

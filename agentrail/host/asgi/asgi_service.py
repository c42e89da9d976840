"""`AsgiService`: serves the requests of an ASGI server while the host behind it is open."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager, suppress

import trio
from attrs import evolve

from agentrail.api.limits import HostLimits
from agentrail.app.supervisor import Supervisor
from agentrail.host.asgi.asgi_exchange import AsgiExchange, AsgiShared
from agentrail.host.asgi.asgi_scope import AsgiMessage, ReceiveMessage, SendMessage
from agentrail.host.delayed_tasks import DelayedTasks
from agentrail.host.health.request_figures import RequestFigures
from agentrail.host.requests.http_messages import Handler, PeerGone
from agentrail.host.requests.networks import Networks
from agentrail.host.requests.places import SILENT, Places
from agentrail.host.requests.proxies import Proxies
from agentrail.host.requests.refusals import NO_PLACE, HttpRefusal
from agentrail.host.requests.site_policy import SitePolicy, screened


class AsgiService:
    """Serves requests until it is drained. Each counts as a connection of its own: an app does not see those."""

    def __init__(
        self,
        handler: Handler,
        policy: SitePolicy,
        proxies: Proxies,
        route: str | None,
        limits: HostLimits,
        figures: RequestFigures,
        supervisor: Supervisor,
    ) -> None:
        self.supervisor = supervisor
        """The supervisor of the sessions."""
        self.late = DelayedTasks()
        self._networks = Networks(limits, proxies)
        handlers = {
            "http": screened(evolve(policy, https=False), handler),
            "https": screened(evolve(policy, https=True), handler),
        }
        self._shared = AsgiShared(handlers, limits, Places(limits), proxies, self.late, route, figures.add)
        self._open: dict[trio.CancelScope, None] = {}
        """The scopes of the requests that are under way."""
        self._changed = trio.lowlevel.ParkingLot()

    def __len__(self) -> int:
        """Number of requests under way."""
        return self._shared.places.open

    async def serve(self, scope: AsgiMessage, receive: ReceiveMessage, send: SendMessage) -> None:
        """Answer one request."""
        exchange = AsgiExchange(self._shared, scope, receive, send)
        refusal = self._refusal(exchange.peer)
        with self._under_way(), suppress(PeerGone):  # the server ends an answer that is not whole
            if refusal is not None:
                await exchange.answer(refusal)
                return
            self._shared.places.enter(exchange.place)
            exchange.place.begin_request(trio.current_time())
            try:
                with self._networks.counted(exchange.peer):
                    await exchange.answer(None)
            finally:
                exchange.place.leave()

    def _refusal(self, peer: str) -> HttpRefusal | None:
        """Return the refusal of a request when there are too many; `None` if it may be answered."""
        limits = self._shared.limits
        if self._networks.is_full(peer):
            return HttpRefusal(NO_PLACE, limits.connections_per_address, "connections_per_address")
        if len(self) < limits.connections or self._shared.places.unused_gives_way(SILENT):
            return None
        return HttpRefusal(NO_PLACE, limits.connections, "connections")

    @contextmanager
    def _under_way(self) -> Generator[None]:
        """Note that a request is under way during the `with` block, so that `drain` waits for it, or cancels it."""
        with trio.CancelScope() as scope:
            self._open[scope] = None
            try:
                yield
            finally:
                del self._open[scope]
                self._changed.unpark_all()

    async def drain(self, within: float) -> None:
        """Let requests end *within* so many seconds, cancel the others, and return after the last one."""
        with trio.move_on_after(within):
            await self._wait_over()
        for scope in self._open:
            scope.cancel()
        await self._wait_over()

    async def _wait_over(self) -> None:
        while self._open:
            await self._changed.park()

"""`AsgiService`: serves the requests of an ASGI server while the host behind it is open."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager, suppress

import trio
from attrs import evolve

from agentrail.api.limits import HostLimits
from agentrail.app.supervisor import Supervisor
from agentrail.host.asgi.asgi_exchange import AsgiExchange, AsgiShared
from agentrail.host.asgi.asgi_scope import AsgiMessage, ReceiveMessage, SendMessage, peer_of
from agentrail.host.delayed_tasks import DelayedTasks
from agentrail.host.health.request_figures import RequestFigures
from agentrail.host.requests.http_messages import Handler, PeerGone
from agentrail.host.requests.networks import limited_network
from agentrail.host.requests.places import Places
from agentrail.host.requests.proxies import Proxies
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
        places, network = self._shared.places, limited_network(peer_of(scope), self._shared.proxies)
        exchange = AsgiExchange(self._shared, scope, receive, send, places.make_room(network))
        with self._under_way(), suppress(PeerGone):  # the server ends an answer that is not whole
            if exchange.refusal is not None:
                await exchange.answer()
                return
            exchange.place.enter(network, exchange.scope.cancel)
            try:
                await exchange.answer()
            finally:
                exchange.place.leave()

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

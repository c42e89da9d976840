"""`AsgiService`: serves the requests of an ASGI server while the host behind it is open."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from http import HTTPStatus
from typing import Final, cast

import trio
from attrs import evolve

from agentrail.api.limits import HostLimits
from agentrail.app.supervisor import Supervisor
from agentrail.host.asgi.asgi_messages import (
    DENIAL,
    HTTP,
    AsgiAnswer,
    AsgiBody,
    AsgiMessage,
    AsgiSocket,
    ReceiveMessage,
    SendMessage,
    head_of,
    headers_of,
    line_of,
    peer_of,
)
from agentrail.host.delayed_tasks import DelayedTasks
from agentrail.host.health.prometheus import RequestFigures
from agentrail.host.requests.access_log import REQUEST_ID, RequestNote
from agentrail.host.requests.connection_slots import ConnectionSlots, ConnectionState
from agentrail.host.requests.exchange import OnAnswer, RequestExchange, sent_headers
from agentrail.host.requests.http_messages import (
    NO_UPGRADE,
    Handler,
    Headers,
    HttpResponse,
    PeerGone,
    ReceivedBody,
    Upgrade,
)
from agentrail.host.requests.proxies import Proxies, limited_network
from agentrail.host.requests.refusals import NO_SLOT, HttpRefusal
from agentrail.host.requests.request_checks import RequestHead
from agentrail.host.requests.site_policy import SitePolicy, screened

WEBSOCKET: Final = "websocket"
"""The type of the scope of a request for a WebSocket; that of others is `http`."""

UPGRADES: Final = "1.1"
"""The version of HTTP whose answers may have headers about the connection, such as `Upgrade`."""

ABOUT_CONNECTION: Final = frozenset({"connection", "upgrade"})

SECURE: Final[Mapping[str, str]] = {"wss": "https", "ws": "http"}
"""The scheme of the site of a request, by that of a WebSocket."""


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
        end_streams: Callable[[], None],
    ) -> None:
        self.supervisor = supervisor
        """The supervisor of the sessions."""
        self.late = DelayedTasks()
        self.handlers: Mapping[str, Handler] = {
            "http": screened(evolve(policy, https=False), handler),
            "https": screened(evolve(policy, https=True), handler),
        }
        """The handler of requests, by their scheme: which pages belong to the host depends on it."""
        self.limits = limits
        self.slots = ConnectionSlots(limits)
        self.proxies = proxies
        self.route = route
        """The path of the only route, which is answered wherever the app is mounted; `None` if there are several."""
        self.on_answer: OnAnswer = figures.add
        self._open: dict[trio.CancelScope, None] = {}
        """The scopes of the requests that are under way."""
        self._changed = trio.lowlevel.ParkingLot()
        self._end_streams = end_streams
        """Refuses requests, and ends streams of events and WebSockets."""
        self._token = trio.lowlevel.current_trio_token()

    def __len__(self) -> int:
        """Number of requests under way."""
        return self.slots.open

    async def serve(self, scope: AsgiMessage, receive: ReceiveMessage, send: SendMessage) -> None:
        """Answer one request."""
        network = limited_network(peer_of(scope), self.proxies)
        exchange = AsgiExchange(self, scope, receive, send)
        with self._under_way(), suppress(PeerGone):  # the server ends an answer that is not whole
            is_heard = exchange.slot.enter(network, exchange)
            try:
                await (exchange.answer() if is_heard else exchange.refuse(HttpRefusal(NO_SLOT, len(self))))
            finally:
                exchange.slot.leave()

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

    def end_soon(self) -> None:
        """Refuse requests, and end streams and WebSockets: the server is about to end. Any thread may call it."""
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(self._end_streams, idempotent=True)

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


class AsgiExchange(RequestExchange):
    """Answers one request, from its scope to the end of its answer or of its WebSocket."""

    __slots__ = ("_answer", "_asgi_scope", "_body", "_is_socket", "_receive_message", "_route", "_send_message")

    def __init__(
        self,
        service: AsgiService,
        scope: AsgiMessage,
        receive: ReceiveMessage,
        send: SendMessage,
    ) -> None:
        self._is_socket = scope["type"] == WEBSOCKET
        self._answer = AsgiAnswer(send, service.limits, DENIAL if self._is_socket else HTTP)
        scheme = str(scope.get("scheme", "http"))
        handler = service.handlers[SECURE.get(scheme, scheme)]
        super().__init__(service, handler, peer_of(scope), self._answer, ConnectionState.ASKING)
        self._route = service.route
        self._asgi_scope = scope
        self._receive_message = receive
        self._send_message = send
        self._body = self._new_body(None)

    def _new_body(self, length: int | None) -> AsgiBody:
        # a WebSocket has no body: what is received is for the conversation, which hears of the client's end too
        receive = trio.sleep_forever if self._is_socket else self._receive_message
        return AsgiBody(receive, 0 if self._is_socket else length, self._server.limits)

    async def answer(self) -> None:
        """Answer the request, and log it."""
        await self._serve_one(RequestNote(line=line_of(self._asgi_scope)))

    async def refuse(self, refusal: HttpRefusal) -> None:
        """Answer the request with *refusal*."""
        await self._refuse(refusal)

    def has_unread(self) -> bool:
        """Return false: the whole head of the request has come, and its body is read by the server."""
        return False

    async def _read(self) -> tuple[RequestHead, ReceivedBody]:
        if self._is_socket:
            await self._receive_message()  # `websocket.connect`
        headers = headers_of(self._asgi_scope)
        self._know(headers)
        head = head_of(self._asgi_scope, headers, self._server.limits, self._route)
        self._body = self._new_body(head.length)
        return head, self._body

    def _upgrade_problem(self) -> str:
        return "" if self._is_socket else NO_UPGRADE

    def _socket(self, upgrade: Upgrade, headers: Headers) -> AsgiSocket:
        raw = [(name.encode("ascii"), value.encode("ascii")) for name, value in headers]
        accept: AsgiMessage = {"type": "websocket.accept", "subprotocol": upgrade.subprotocol, "headers": raw}
        return AsgiSocket(self._receive_message, self._send_message, accept, self._server.limits)

    async def _send(self, response: HttpResponse, body: ReceivedBody, *, is_bare: bool) -> bool:
        if self._is_socket and callable(response.content):
            response = HttpResponse(HTTPStatus.FORBIDDEN)  # nobody would see the client of a stream leave
        return await super()._send(response, body, is_bare=is_bare)

    def _begin(self, response: HttpResponse, *, is_unread: bool) -> bool:
        headers = sent_headers(response, ((REQUEST_ID, self._note.id),), closes=is_unread)
        if self._asgi_scope.get("http_version") != UPGRADES:
            headers = tuple([(name, value) for name, value in headers if name not in ABOUT_CONNECTION])
        self._answer.begin(response.status, headers)
        return False

    async def _end(self, last: bytes, *, is_unread: bool) -> None:
        if self._is_socket and DENIAL not in cast("Mapping[str, object]", self._asgi_scope.get("extensions") or {}):
            await self._send_message({"type": "websocket.close"})  # the server answers with 403
            return
        await self._answer.rest(last, is_end=not is_unread)
        if is_unread:
            # what is left of the body is dropped for a while: a server would read all of it, however much it is
            await self._body.drop()
            await self._answer.rest(b"", is_end=True)
            await self._body.drop()  # hypercorn holds the connection for ever while it has a piece that nobody takes

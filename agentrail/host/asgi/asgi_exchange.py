"""`AsgiExchange`: one request of an ASGI server, from its scope to the end of its answer or of its WebSocket."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, cast

import trio
from attrs import frozen

from agentrail.api.limits import HostLimits
from agentrail.host.asgi.asgi_answer import DENIAL, HTTP, AsgiAnswer
from agentrail.host.asgi.asgi_body import AsgiBody
from agentrail.host.asgi.asgi_scope import (
    AsgiMessage,
    ReceiveMessage,
    SendMessage,
    head_of,
    headers_of,
    line_of,
    peer_of,
)
from agentrail.host.asgi.asgi_socket import AsgiSocket
from agentrail.host.delayed_tasks import DelayedTasks
from agentrail.host.requests.access_log import REQUEST_ID, RequestNote, tell_request
from agentrail.host.requests.answering import StreamedAnswer, call_handler, internal_error
from agentrail.host.requests.http_messages import (
    NO_UPGRADE,
    Handler,
    HttpRequest,
    HttpResponse,
    Upgrade,
    problem_answer,
)
from agentrail.host.requests.places import HEALTH, ConnectionPlace, Places
from agentrail.host.requests.proxies import Proxies
from agentrail.host.requests.refusals import CLOSED_FOR_ANOTHER, HttpRefusal
from agentrail.runtime.shared.untrusted_calls import Contained

WEBSOCKET: Final = "websocket"
"""The type of the scope of a request for a WebSocket; that of others is `http`."""

UPGRADES: Final = "1.1"
"""The version of HTTP whose answers may have the header `Upgrade`."""

BODILESS: Final = frozenset({"GET", "HEAD"})
"""Methods whose requests have no body here."""

SECURE: Final[Mapping[str, str]] = {"wss": "https", "ws": "http"}
"""The scheme of the site of a request, by that of a WebSocket."""


@frozen
class AsgiShared:
    """What the requests to an app share."""

    handlers: Mapping[str, Handler]
    """The handler of requests, by their scheme: which pages belong to the host depends on it."""
    limits: HostLimits
    places: Places
    proxies: Proxies
    late: DelayedTasks
    """Runs what watches the clients of streamed answers."""
    route: str | None
    """The path of the only route, which is answered wherever the app is mounted; `None` if there are several."""
    on_answer: Callable[[RequestNote, int, float], object]
    """Is called when an answer begins: with the request's note, its status, and the seconds since the request came."""


class AsgiExchange:
    """Answers one request; by *refusal* if there is one, unless it asks for the health of the host."""

    def __init__(
        self,
        shared: AsgiShared,
        scope: AsgiMessage,
        receive: ReceiveMessage,
        send: SendMessage,
        refusal: HttpRefusal | None,
    ) -> None:
        self._shared = shared
        self._scope = scope
        self._receive = receive
        self._send = send
        self._peer = self._client = peer_of(scope)
        self.refusal = refusal
        """Why the request is one too many; `None` if it is not."""
        self.place = ConnectionPlace(shared.places if refusal is None else None)
        self._note = RequestNote(line=line_of(scope))
        self.scope = trio.CancelScope()
        """Is cancelled if the connection is closed for another one."""
        self._is_socket = scope["type"] == WEBSOCKET
        self._answer = AsgiAnswer(send, shared.limits, DENIAL if self._is_socket else HTTP)
        self._counted = False
        self._began = trio.current_time()

    async def answer(self) -> None:
        """Answer the request, and log it."""
        try:
            with self.scope:
                if self._is_socket:
                    await self._receive()  # `websocket.connect`
                await self._answer_request()
            if self.scope.cancelled_caught and not self._answer.status:
                raise HttpRefusal(CLOSED_FOR_ANOTHER)
        except HttpRefusal as problem:
            await self._send_response(problem_answer(problem.problem))
        finally:
            self._count(0)
            seconds = trio.current_time() - self._began
            tell_request(self._client, self._answer.status, self._answer.sent, seconds, self._note)

    def _count(self, status: int) -> None:
        """Report the *status* of the answer. No-op if it was reported already."""
        if not self._counted:
            self._counted = True
            self._shared.on_answer(self._note, status, trio.current_time() - self._began)

    async def _answer_request(self) -> None:
        shared, headers = self._shared, headers_of(self._scope)
        self._client = shared.proxies.client(self._peer, headers)
        self._note.id = shared.proxies.request_id(self._peer, headers) or self._note.id
        head = head_of(self._scope, headers, shared.limits, shared.route)
        if self.refusal is not None and (self._is_socket or head.path not in HEALTH):
            raise self.refusal
        body = AsgiBody(self._receive, 0 if self._is_socket else head.length, shared.limits)
        request = HttpRequest(
            "GET" if head.method == "HEAD" else head.method,
            head.path,
            head.query,
            headers,
            self._client,
            body,
            trio.sleep_forever if self._is_socket else body.gone,
            "" if self._is_socket else NO_UPGRADE,
            self._note,
            self.place,
        )
        scheme = str(self._scope.get("scheme", "http"))
        self.place.is_for_health = head.path in HEALTH
        response = await call_handler(shared.handlers[SECURE.get(scheme, scheme)], request)
        self.place.is_for_health = False
        try:
            if isinstance(response.content, Upgrade):
                await self._converse(response, response.content)
            else:
                await self._send_response(response, body, is_bare=head.method == "HEAD")
        finally:
            response.abandon()

    async def _converse(self, response: HttpResponse, upgrade: Upgrade) -> None:
        """Open the WebSocket; return when the conversation on it has ended."""
        self._count(response.status)
        self._answer.status = response.status
        headers = [
            (name.encode("ascii"), value.encode("ascii"))
            for name, value in (*response.headers, (REQUEST_ID, self._note.id))
        ]
        accept: AsgiMessage = {"type": "websocket.accept", "subprotocol": upgrade.subprotocol, "headers": headers}
        socket = AsgiSocket(self._receive, self._send, accept, self._shared.limits)
        failed: list[BaseException] = []
        with Contained(failed.append):
            await upgrade.converse(socket)
        self._answer.sent = socket.sent
        for error in failed:
            internal_error(error, self._note)

    async def _send_response(
        self, response: HttpResponse, body: AsgiBody | None = None, *, is_bare: bool = False
    ) -> None:
        """Send an answer; with *is_bare*, without its content. The *body* tells when the client goes away."""
        content = response.content
        self._count(response.status)
        if self._is_socket and not (isinstance(content, bytes) and DENIAL in self._extensions):
            await self._send({"type": "websocket.close"})  # the server answers with 403
            return
        # what is left of the body is dropped for a while: a server would read all of it, however much it is
        drops = body is not None and self._note.line[0] not in BODILESS and body.is_unread
        upgrades = self._scope.get("http_version") == UPGRADES
        await self._answer.begin(response, self._note, upgrades=upgrades, closes=drops)
        if is_bare:
            await self._answer.end()
        elif isinstance(content, bytes):
            await self._answer.whole(content)
            if body is not None and drops:
                await body.drop()
            await self._answer.end()
            if body is not None and drops:
                await body.drop()  # hypercorn holds the connection for ever while it has a piece that nobody takes
        elif not isinstance(content, Upgrade):
            gone = trio.sleep_forever if body is None else body.gone
            last = await StreamedAnswer(self._answer.piece, gone, self._shared.late, self._note).run(content)
            await self._answer.end(last or b"")

    @property
    def _extensions(self) -> Mapping[str, object]:
        return cast("Mapping[str, object]", self._scope.get("extensions") or {})

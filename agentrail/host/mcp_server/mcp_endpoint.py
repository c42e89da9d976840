"""`McpEndpoint`: the MCP server of a host, at `/v1/mcp`, for the callers that the keys of the host name."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Final, cast

import trio
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from agentrail.host.authentication.identity import Identity
from agentrail.host.faces.face_calls import FaceCalls
from agentrail.host.mcp_server.mcp_calls import HostedCalls
from agentrail.host.mcp_server.mcp_exchange import AsgiApp, McpExchange
from agentrail.host.mcp_server.prompt_tool import prompt_server
from agentrail.host.operations.host_operations import HostOperations
from agentrail.host.operations.view_calls import ViewCalls
from agentrail.host.requests.http_messages import HttpRequest, HttpResponse

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

    Context = ServerRequestContext[dict[str, object]]

CALLER: Final = "agentrail.calls"
"""Name in the scope of a request for the `HostedCalls` of its caller."""

MOST_SESSIONS: Final = 1000
"""How many clients of protocols before 2026-07-28 are connected at most, and each has a connection of its own."""


def ring_of(cluster_keys: Sequence[bytes]) -> tuple[bytes, ...]:
    """Return the keys that seal what clients send back: those of the cluster, or one of this process alone."""
    return tuple([sha256(b"agentrail mcp " + key).digest() for key in cluster_keys]) or (secrets.token_bytes(32),)


class McpEndpoint:
    """Answers the requests of MCP clients; each is carried out with the key that it came with."""

    def __init__(
        self, operations: HostOperations, views: ViewCalls, cluster_keys: Sequence[bytes], nursery: trio.Nursery
    ) -> None:
        self._operations = operations
        self._views = views
        self._nursery = nursery
        self._is_running = trio.Event()
        server = prompt_server(_calls_of, ring_of(cluster_keys), _principal, lambda: not operations.drain.has_begun)
        self._manager = StreamableHTTPSessionManager(
            server, max_sessions=MOST_SESSIONS, max_request_body_size=operations.limits.body_bytes
        )

    async def run(self) -> None:
        """Body of the task in which the connections of clients live."""
        async with self._manager.run():
            self._is_running.set()
            await trio.sleep_forever()

    async def answer(
        self, request: HttpRequest, who: Identity, wait_withdrawn: Callable[[], Awaitable[object]]
    ) -> HttpResponse:
        """Return the answer to a request of *who*; *wait_withdrawn* returns when their key does not count any more."""
        await self._is_running.wait()
        body = await request.body.read(self._operations.limits.body_bytes)
        face_calls = FaceCalls(self._operations, self._nursery, who, wait_withdrawn, request.headers, request.note)
        calls = HostedCalls(face_calls, self._operations, self._views, who, request.note)
        user = AuthenticatedUser(AccessToken(token="-", client_id=f"{who.tenant}\n{who.user}", scopes=[]))  # noqa: S106 - it is none
        exchange = McpExchange(request, body, {CALLER: calls, "user": user})
        self._nursery.start_soon(exchange.run, cast("AsgiApp", self._manager.handle_request), wait_withdrawn)
        return await exchange.response()


def _calls_of(context: Context) -> HostedCalls:
    """Return the calls of the caller of a request."""
    return cast("HostedCalls", cast("HttpScope", context.request).scope[CALLER])


def _principal(context: Context) -> str:
    """Return whose a request is: the state of another's counts for nobody."""
    who = _calls_of(context).who
    return f"{who.tenant}\n{who.user}"


class HttpScope:
    """A request as Starlette has it, of which the scope is read."""

    scope: dict[str, object]

"""One connection to an MCP server. One task owns the client of the package `mcp`: it enters and leaves it.

Other tasks only call tools through it.
"""

from __future__ import annotations

import logging
import math
from contextlib import AbstractAsyncContextManager
from typing import Final

import anyio
import httpx2
import trio
from mcp import Client, MCPError
from mcp.client._transport import TransportStreams
from mcp.client.session import ClientRequestContext, IncomingMessage
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import SubscriptionLost
from mcp.types import (
    CONNECTION_CLOSED,
    CallToolResult,
    ElicitRequestParams,
    ElicitResult,
    Implementation,
    PaginatedRequestParams,
    PromptListChangedNotification,
    ResourceListChangedNotification,
    ToolListChangedNotification,
)
from mcp.types import Tool as Listed
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from agentrail.adapters import tls_contexts
from agentrail.adapters.mcp.asked_back import CANCEL, AskedBack
from agentrail.adapters.mcp.further_tools import further_tools
from agentrail.adapters.mcp.inbound_filter import Sieve
from agentrail.adapters.mcp.listings import has_resources, list_prompts
from agentrail.adapters.mcp.live_call import LiveCall
from agentrail.adapters.mcp.pipes import Pipes
from agentrail.adapters.mcp.response_bound import bound_body
from agentrail.adapters.mcp.server import McpServer
from agentrail.adapters.mcp.server_calls import ServerCall, send
from agentrail.adapters.mcp.server_tools import MAX_TOOLS, adopt
from agentrail.adapters.mcp.sign_in_tool import SignInTool
from agentrail.adapters.mcp.token_auth import TokenAuth
from agentrail.adapters.mcp.token_file import TokenFile
from agentrail.errors import OutsideError, ToolError
from agentrail.ports.tool import Offer
from agentrail.values.tools import EffectClass
from agentrail.version import __version__

log = logging.getLogger("agentrail.mcp")

PATIENCE: Final = 10.0
"""Seconds that a connected server has to list its tools again, or to let the client leave; then it has failed."""

PAUSE: Final = 0.2
"""Seconds to wait after each request for the list of tools, and the first pause between two subscriptions."""

MAX_PAUSE: Final = 60.0
"""The most seconds between two subscriptions to changes of the list; the pause begins with `PAUSE` and doubles."""

LEAVING: Final = 1.0
"""The most seconds for telling a server at a URL that the session is over, after the connection was cancelled."""

TIMES: Final = httpx2.Timeout(30.0, read=300.0)
"""Seconds for each part of a request; reading may take longer, because a server may keep a response open."""

MAX_SHOWN: Final = 1_000
"""The most characters that the error of a failed call quotes of the server's or the connection's own error."""

LIST_CHANGES: Final = (ToolListChangedNotification, PromptListChangedNotification, ResourceListChangedNotification)
"""Notifications after which the server's lists are requested again."""

LOOKED_AFTER: Final = 5.0
"""Seconds after which it is looked again whether a person has signed in by another process."""

NOT_THERE: Final = "it has ended"
QUESTION_LOST: Final = "its question was lost with the connection"
SILENT: Final = "it does not answer"
REPEATABLE: Final = frozenset({EffectClass.PURE, EffectClass.IDEMPOTENT})


async def serve(server: McpServer, working_dir: str, offer: Offer) -> None:
    """Connect to *server*, offer its tools to the session, and again when they change.

    It returns only by an exception, which says why the connection ended.
    """
    while True:
        connection = Connection(server, offer)
        try:
            async with trio.open_nursery() as nursery:  # noqa: TID251 - everything of one connection ends together
                if server.url:
                    await connection.keep_by_http(nursery)
                else:
                    pipes = Pipes(server, working_dir)
                    nursery.start_soon(pipes.run)
                    await connection.keep(pipes)
        except Exception as error:
            if connection.auth is None or not connection.auth.problem:
                raise
            if not connection.auth.needs_person:
                raise OutsideError("mcp-failed", server.name, connection.auth.problem) from error
        await _wait_signed_in(server, offer)


async def _wait_signed_in(server: McpServer, offer: Offer) -> None:
    """Offer a tool that asks a person to sign in, and return when they have, here or by another process."""
    tool, file = SignInTool(server), TokenFile.of(server)
    problem = f"the MCP server `{server.name}` wants a person to sign in: run `agentrail mcp login {server.name}`"
    await offer((tool,), (problem,))
    last_change = await trio.to_thread.run_sync(file.changed_at)
    while not tool.signed_in.is_set() and await trio.to_thread.run_sync(file.changed_at) == last_change:
        with trio.move_on_after(LOOKED_AFTER):
            await tool.signed_in.wait()


def _ourselves() -> Implementation:
    return Implementation(name="agentrail", version=__version__)


class Connection:
    """A connected server: its client, its tools, and the calls of sessions."""

    __slots__ = ("_calls", "_client", "_leaving", "_nursery", "_offer", "_server", "_wake", "auth")

    def __init__(self, server: McpServer, offer: Offer) -> None:
        self.auth = None if server.auth is None else TokenAuth(server)
        """What signs the requests; `None` if nobody signs in at the server."""
        self._server = server
        self._offer = offer
        self._client: Client | None = None
        self._nursery: trio.Nursery | None = None
        self._calls: dict[str, LiveCall] = {}  # by the session's id of the call
        self._wake = trio.Event()
        self._leaving = False

    # Methods for the task that owns the client

    async def keep_by_http(self, nursery: trio.Nursery) -> None:
        """Own the client of a server at a URL; if cancelled, first tell the server that the session is over."""
        # Shielded: a client that is cancelled at once could not send that.
        # tests/mcp/test_small.py::test_a_server_by_http_is_told_that_the_session_is_over
        with trio.CancelScope(shield=True) as talking:  # `_leave_when_cancelled` sets its deadline
            nursery.start_soon(self._leave_when_cancelled, talking)
            tls = await tls_contexts.shared("mcp", httpx2.create_ssl_context)
            async with httpx2.AsyncClient(
                headers={"accept-encoding": "identity", **self._server.headers},
                timeout=TIMES,
                verify=tls,
                auth=self.auth,
                event_hooks={"response": [bound_body]},
            ) as http:
                await self.keep(streamable_http_client(self._server.url, http_client=http))

    async def _leave_when_cancelled(self, talking: trio.CancelScope) -> None:
        try:
            await trio.sleep_forever()
        finally:
            talking.deadline = trio.current_time() + LEAVING
            self._leaving = True
            self._wake.set()

    async def keep(self, transport: AbstractAsyncContextManager[TransportStreams]) -> None:
        """Own the client: enter it, offer the tools whenever their list changes, and leave it."""
        sieve = Sieve(transport)
        client = Client(
            sieve,
            message_handler=self.on_message,
            client_info=_ourselves(),
            elicitation_callback=self.on_elicitation,
            cache=None,
        )
        with trio.CancelScope(deadline=trio.current_time() + self._server.start_timeout) as patience:
            async with client, trio.open_nursery() as nursery:  # noqa: TID251 - all tasks of one connection end together
                self._client, self._nursery = client, nursery
                sieve.version = client.protocol_version
                await self._look(client, sieve)
                has = client.server_capabilities
                lists = [part for part in (has.tools, has.prompts, has.resources) if part and part.list_changed]
                if lists and client.protocol_version in MODERN_PROTOCOL_VERSIONS:
                    nursery.start_soon(self._listen, client)
                while not self._leaving:
                    patience.deadline = math.inf
                    await self._wake.wait()
                    self._wake = trio.Event()
                    patience.deadline = trio.current_time() + PATIENCE
                    if not self._leaving:
                        await self._look(client, sieve)
                        await trio.sleep(PAUSE)
                nursery.cancel_scope.cancel()
        if patience.cancelled_caught:
            raise OutsideError("mcp-failed", self._server.name, SILENT)

    async def _look(self, client: Client, sieve: Sieve) -> None:
        """Request the list of the server's tools; offer the usable ones, and the reasons against the others."""
        listed: list[Listed] = []
        cursors: set[str] = set()
        cursor: str | None = None
        while len(listed) <= MAX_TOOLS and cursor not in cursors:
            cursors |= {cursor} if cursor else set()
            page = await client.session.list_tools(params=PaginatedRequestParams(cursor=cursor))
            listed += page.tools
            cursor = page.next_cursor
            if not cursor or not page.tools:
                break
        prompts, prompt_problems = await list_prompts(client)
        extras = further_tools(self._server, prompts, self.call, has_resources=await has_resources(client))
        tools, problems = await trio.to_thread.run_sync(adopt, self._server, listed, self.call)
        names = {tool.spec.name for tool in tools}
        tools += [tool for tool in extras if tool.spec.name not in names]
        await self._offer(tools, (*sieve.take_problems(), *problems, *prompt_problems))

    async def _listen(self, client: Client) -> None:
        """Subscribe to changes of the list of tools, again after a loss; return if the server takes no subscription."""
        pause = PAUSE
        while True:
            try:
                async with client.listen(
                    tools_list_changed=True, prompts_list_changed=True, resources_list_changed=True
                ) as changes:
                    self._wake.set()  # changes from before the subscription are not reported
                    async for _ in changes:
                        self._wake.set()
            except SubscriptionLost:
                log.debug("the MCP server `%s` dropped the subscription to its tools", self._server.name)
            except MCPError as error:
                log.debug("the MCP server `%s` takes no subscription: %s", self._server.name, error)
                self._wake.set()  # the server may have ended: requesting the list will show that
                return
            await trio.sleep(pause)
            pause = min(pause * 2, MAX_PAUSE)

    async def on_message(self, message: IncomingMessage) -> None:
        """Handle a notification from the server: it may say that one of its lists has changed."""
        if isinstance(message, LIST_CHANGES):
            self._wake.set()

    # Methods for the tasks of tool calls

    async def call(self, call: ServerCall) -> CallToolResult | AskedBack:
        """Make *call*, or go on with it after a person has answered; raise `ToolError` if the server fails.

        The error says whether the call may have taken effect. If the server gave no answer, its list of tools is
        requested again, which shows whether it is still there.
        """
        live = self._live_call(call)
        is_over = True
        try:
            answer = await live.next()
            is_over = not live.is_asking
            return answer
        except MCPError as error:
            if error.code == CONNECTION_CLOSED:
                raise self._no_answer(NOT_THERE, call.effect) from error
            if self.auth is not None and self.auth.needs_person:
                return AskedBack.sign_in(self._server.url)
            why = error.message[:MAX_SHOWN] if self.auth is None or not self.auth.problem else self.auth.problem
            problem = f"the MCP server `{self._server.name}` says: {why}"
            raise ToolError(problem) from error
        except (RuntimeError, ValueError, OSError, anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
            raise self._no_answer(f"{type(error).__name__}: {error}"[:MAX_SHOWN], call.effect) from error
        finally:
            if is_over:
                live.scope.cancel()
                self._calls.pop(call.call_id, None)

    def _live_call(self, call: ServerCall) -> LiveCall:
        """Return the call that runs at the server and goes on with the answers, or a new one."""
        for call_id, other in list(self._calls.items()):
            if other.turn != call.turn and other.is_asking:  # its question was dropped with its turn
                self._calls.pop(call_id).scope.cancel()
        live = self._calls.get(call.call_id)
        if call.questions is not None and call.questions.how == "runs":
            if live is None:
                raise self._no_answer(QUESTION_LOST, call.effect)
            live.answer(call.questions)
            return live
        if self._client is None or self._nursery is None:
            raise self._no_answer(NOT_THERE, call.effect)
        live = self._calls[call.call_id] = LiveCall(call.turn)
        self._nursery.start_soon(self._run, self._client, live, call)
        return live

    async def _run(self, client: Client, live: LiveCall, call: ServerCall) -> None:
        """Make the request of *call* in a task of the connection, and set how it has ended."""
        answered = False
        try:
            with live.scope:
                live.end(await send(client, self._server.name, call))
                answered = True
        except MCPError as error:
            answered = not self._server.url and error.code != CONNECTION_CLOSED
            live.end(error)
        except Exception as error:  # noqa: BLE001 - the tool's task raises it
            live.end(error)
        finally:
            if live.outcome is None:
                live.end(MCPError(CONNECTION_CLOSED, NOT_THERE))
            if not answered and (self.auth is None or not self.auth.needs_person):  # else it is known to be there
                self._wake.set()

    async def on_elicitation(
        self,
        context: ClientRequestContext,  # noqa: ARG002 - it does not say of which call the question is
        params: ElicitRequestParams,
    ) -> ElicitResult:
        """Have a person asked for the server's call that runs; cancel a question that belongs to no call."""
        running = [live for live in self._calls.values() if live.outcome is None]
        free = [live for live in running if not live.is_asking]
        if not running:
            return ElicitResult(action=CANCEL)
        return await (free or running)[0].elicit(params)

    def _no_answer(self, why: str, effect: EffectClass) -> ToolError:
        doubt = "it can be repeated" if effect in REPEATABLE else "it is not known whether it took effect"
        return ToolError(f"the MCP server `{self._server.name}` gave no answer to this call ({why}); {doubt}")

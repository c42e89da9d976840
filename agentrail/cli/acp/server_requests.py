"""`ServerRequests`: asks the person at the editor about the MCP servers that it names, and adds those allowed.

The protocol has no place for a question before the session is open, and some editors show none outside of a turn. So
it is asked with the first prompt, which waits for the answer, and nothing is started before.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

import trio

from agentrail.cli.acp.params import objects_in, text_in, text_or_none
from agentrail.cli.acp.peer import Peer
from agentrail.cli.acp.permissions import ALWAYS, REJECT, chosen_option, permission_option
from agentrail.cli.acp.protocol import STOPPED_CALL, Update, call_update, permission, text_content
from agentrail.cli.agents.agent_source import AgentSource
from agentrail.cli.folder.surface import Surface
from agentrail.cli.output.bad_input import BadInputError
from agentrail.cli.output.screen import escaped
from agentrail.cli.trust.editor_servers import EditorServer, EditorServers
from agentrail.cli.trust.trust_store import code_text
from agentrail.errors import AgentrailError, SessionParked
from agentrail.remote.remote_session import RemoteSession
from agentrail.values.json import JsonObject, canonical

MOST: Final = 32
"""The most servers that are asked about."""

LONGEST_NAME: Final = 32
"""The most characters of the name of a server, as it is written before the names of its tools."""

QUESTION: Final = "The editor names this MCP server. Start it, and give its tools to the agent?"
NO_SSE: Final = "it is reached by server-sent events alone, which the protocol for MCP servers has given up"
OWN_SERVERS: Final = "an agent in a file has its own, and no mode says what is asked about these"
NOT_ALLOWED: Final = "the person has not allowed it"

_OTHERS: Final = re.compile(r"[^A-Za-z0-9_-]+")


class NamedServers(NamedTuple):
    """The MCP servers that a request of the editor names."""

    servers: tuple[EditorServer, ...] = ()
    """Those that can be used."""
    problems: tuple[str, ...] = ()
    """Why others cannot be."""


def servers_in(params: JsonObject) -> NamedServers:
    """Return the servers in *params*; raise `RpcError` if they are no servers of the protocol."""
    servers: dict[str, EditorServer] = {}
    problems: list[str] = []
    for server in objects_in(params, "mcpServers", may_lack=True):
        name = text_in(server, "name")
        usable_server = _server(server, name)
        problem = usable_server if isinstance(usable_server, str) else _problem(usable_server, servers)
        if problem:
            problems.append(f"{name}: {problem}")
        elif not isinstance(usable_server, str):
            servers[usable_server.name] = usable_server
    return NamedServers(tuple(servers.values()), tuple(problems))


def _server(server: JsonObject, name: str) -> EditorServer | str:
    """Return the server, or why it cannot be used."""
    own_name = _OTHERS.sub("_", name).strip("_")[:LONGEST_NAME] or "mcp"
    match text_or_none(server, "type") or "stdio":
        case "stdio":
            args = server.get("args") or ()
            words = [str(word) for word in args] if isinstance(args, Sequence) and not isinstance(args, str) else []
            return EditorServer(own_name, (text_in(server, "command"), *words), _pairs(server, "env"))
        case "http":
            return EditorServer(own_name, url=text_in(server, "url"), headers=_pairs(server, "headers"))
        case "sse":
            return NO_SSE
        case kind:
            return f"there is no kind {kind!r} of servers here"


def _pairs(server: JsonObject, name: str) -> dict[str, str]:
    return {text_in(pair, "name"): text_in(pair, "value") for pair in objects_in(server, name, may_lack=True)}


def _problem(server: EditorServer, others: dict[str, EditorServer]) -> str:
    """Return why *server* cannot be used beside *others*; empty if it can."""
    if server.name in others:
        return "there is another one of this name"
    if len(others) == MOST:
        return f"there are {MOST} already"
    try:
        server.to_server().check()
    except AgentrailError as error:
        return str(error)
    return ""


def usable(named: NamedServers, source: AgentSource) -> NamedServers:
    """Return *named* as an agent of *source* can use them: one of a file says itself which servers it has."""
    if not source.file:
        return named
    return NamedServers((), (*(f"{server.name}: {OWN_SERVERS}" for server in named.servers), *named.problems))


class ServerRequests:
    """Asks about the servers that an editor names for a session, and gives them to the session."""

    def __init__(
        self,
        session: RemoteSession,
        session_id: str,
        peer: Peer,
        store: EditorServers,
    ) -> None:
        self._session = session
        self._session_id = session_id
        self._peer = peer
        self._servers: list[EditorServer] = []
        self._store = store
        self._asking: trio.CancelScope | None = None

    def take(self, servers: Sequence[EditorServer]) -> None:
        """Take the servers to ask about."""
        self._servers = list(servers)

    def cancel(self) -> None:
        """Take the open question back: its server, and those after it, are asked about with the next prompt."""
        if self._asking is not None:
            self._asking.cancel()

    async def begin(self, update: Callable[[Update | None], Awaitable[None]]) -> tuple[str, ...]:
        """Ask about each server that is not allowed yet, and give those that are to the session.

        Return why others are not used. *update* tells the editor what happens to the calls that stand for them.
        """
        problems: list[str] = []
        while self._servers:
            server = self._servers[0]
            try:
                surface = await trio.to_thread.run_sync(self._store.surface_of, server)
            except BadInputError as error:
                self._servers.pop(0)
                problems.append(f"{server.name}: {error}")
                continue
            if await trio.to_thread.run_sync(self._store.has_to_ask, surface):
                answer = await self._ask(server, surface, update)
                if answer is None:
                    break
                if not answer:
                    self._servers.pop(0)
                    problems.append(f"{server.name}: {NOT_ALLOWED}")
                    continue
            self._servers.pop(0)
            await trio.to_thread.run_sync(self._store.allow, server, surface)
            try:
                await self._attach(server.name)
            except AgentrailError as error:
                problems.append(f"{server.name}: {error}")
        return tuple(problems)

    async def _attach(self, name: str) -> None:
        """Give the server to the session, unless it has its tools already, as one that comes back does."""
        with suppress(SessionParked):
            tools = (await self._session.detail()).tools
            if any(tool.startswith(f"{name}__") for tool in tools):
                return
        await self._session.attach_tools(name)

    async def _ask(
        self, server: EditorServer, surface: Surface, update: Callable[[Update | None], Awaitable[None]]
    ) -> bool | None:
        """Ask about *server*; return the answer, or `None` if the question was taken back."""
        call_id = f"mcp {server.name}"
        code = code_text(surface)
        reason = "\n".join([QUESTION, *_rows(server), *([f"  {code}"] if code else ())])
        fields: JsonObject = {
            "toolCallId": call_id,
            "title": f"MCP server {server.name}",
            "kind": "execute",
            "status": "pending",
            "content": [text_content(reason)],
        }
        options = [permission_option(ALWAYS, "Allow it here"), permission_option(REJECT, "Do without it")]
        request_id = self._peer.new_id()
        params = {"sessionId": self._session_id, **permission(fields, options)}
        await update(call_update(fields, is_new=True))
        answer = None
        with trio.CancelScope() as self._asking:
            answer = await self._peer.ask(request_id, "session/request_permission", params)
        if self._asking.cancelled_caught:
            await self._peer.tell("$/cancel_request", {"requestId": request_id})
        self._asking = None
        is_allowed = answer is not None and chosen_option(answer) == ALWAYS
        status = "completed" if is_allowed else STOPPED_CALL
        await update(call_update({"toolCallId": call_id, "status": status}, is_new=False))
        return None if answer is None or chosen_option(answer) is None else is_allowed


def _rows(server: EditorServer) -> Iterator[str]:
    """Yield what *server* is made of, exactly: the person decides by it."""
    for name, value in server.fields.items():
        if value:
            yield f"  {name}: {escaped(value if isinstance(value, str) else canonical(value))}"

"""`EditorConnection`: reads what an editor sends, and opens, lists and deletes the sessions that it wants."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import trio

import agentrail
from agentrail.api.views import DetailView
from agentrail.cli.acp.editor_session import EditorSession, Opening, SessionBeginning
from agentrail.cli.acp.json_lines import LONGEST_LINE, LineReader, LineTooLongError
from agentrail.cli.acp.params import (
    folder_in,
    invalid,
    number_in,
    object_in,
    path_in,
    text_in,
    text_or_none,
)
from agentrail.cli.acp.peer import Peer
from agentrail.cli.acp.protocol import VERSION, ClientAbilities
from agentrail.cli.acp.rpc_failures import FAILURES, error_of
from agentrail.cli.acp.rpc_messages import (
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    NOT_FOUND,
    UNSUPPORTED_VERSION,
    BadMessageError,
    RpcAnswer,
    RpcError,
    RpcNotification,
    RpcRequest,
    read_message,
)
from agentrail.cli.acp.server_requests import ServerRequests, servers_in, usable
from agentrail.cli.acp.session_config import config_of
from agentrail.cli.acp.updates import SessionUpdates
from agentrail.cli.agents.agent_source import AgentSource
from agentrail.cli.output.screen import iso_time
from agentrail.cli.session_names import OWN, new_name
from agentrail.cli.trust.editor_servers import EditorServers
from agentrail.errors import UnknownSession
from agentrail.ports.journal import StoredSession
from agentrail.remote.remote_supervisor import RemoteSupervisor
from agentrail.values.json import Json, JsonObject

SourceIn = Callable[[Path], AgentSource]
"""Returns the agent that works in a folder."""

Carry = Callable[[RpcRequest], Awaitable[JsonObject]]

OPENING: Final = ("session/load", "session/resume")
OF_SESSIONS: Final = (
    *("session/prompt", "session/set_mode", "session/set_config_option", "session/close", "_agentrail/steer"),
    "_agentrail/result",
)
"""Methods that an open session carries out."""

ANSWERED_WITHIN: Final = 10.0
"""The most seconds for requests that are under way when the editor has closed its output: the first is the slowest."""

NO_LOGIN: Final = "no login is needed, and none is offered: the agent has the keys of its environment"


class EditorConnection:
    """The connection to one editor: handles its messages, and keeps the sessions that it has opened."""

    def __init__(self, supervisor: RemoteSupervisor, source_in: SourceIn, peer: Peer) -> None:
        self._supervisor = supervisor
        self._source_in = source_in
        self._peer = peer
        self._abilities: ClientAbilities | None = None  # of the editor; `None` before `initialize`
        self._methods: Mapping[str, Carry] = {
            "authenticate": self._authenticate,
            "session/list": self._list,
            "session/delete": self._delete,
        }
        self._sessions: dict[str, EditorSession] = {}
        self._following: trio.Nursery | None = None  # nursery of the tasks that follow sessions

    async def run(self, reader: LineReader) -> None:
        """Handle the editor's messages until it closes its output. Sessions continue to run without the editor."""
        async with trio.open_nursery() as sessions:  # noqa: TID251 - the command line has its own tasks
            self._following = sessions
            async with trio.open_nursery() as requests:  # noqa: TID251 - as above
                while (line := await self._next_line(reader)) is not None:
                    if line.strip():
                        await self._take(line, requests)
                requests.cancel_scope.deadline = trio.current_time() + ANSWERED_WITHIN
            sessions.cancel_scope.cancel()

    async def _next_line(self, reader: LineReader) -> bytes | None:
        """Return the next line; `None` at the end of input.

        A line that is too long is answered with an error; return it empty.
        """
        try:
            return await reader.next_line()
        except LineTooLongError:
            problem = f"a line has at most {LONGEST_LINE} bytes; this one was passed over"
            await self._peer.repeat(BadMessageError(INVALID_REQUEST, problem).answer)
            return b""

    async def _take(self, line: bytes, nursery: trio.Nursery) -> None:
        """Handle one message. Slow requests run in tasks of *nursery*, so that a later cancellation is read at once."""
        try:
            message = read_message(line)
        except BadMessageError as error:
            await self._peer.repeat(error.answer)
            return
        match message:
            case RpcAnswer():
                self._peer.take(message)
            case RpcNotification():
                self._note(message)
            case RpcRequest():
                try:
                    await self._begin(message, nursery)
                except FAILURES as error:
                    await self._peer.refuse(message.id, error_of(error, ""))

    def _note(self, message: RpcNotification) -> None:
        """Handle a notification; ignore an unknown or invalid one, because a notification gets no answer."""
        with suppress(RpcError):
            if message.method == "session/cancel":
                session = self._sessions.get(_name_of(text_in(message.params, "sessionId")))
                if session is not None:
                    session.cancel()
            elif message.method == "$/cancel_request":
                request_id = message.params.get("requestId")
                if isinstance(request_id, str | int):
                    any(session.cancel_request(request_id) for session in self._sessions.values())

    async def _begin(self, request: RpcRequest, nursery: trio.Nursery) -> None:
        """Start to handle a request, or raise `RpcError`."""
        if request.method == "initialize":
            await self._peer.answer(request.id, self._initialize(request.params))
            return
        if self._abilities is None:
            raise RpcError(INVALID_REQUEST, f"{request.method}: `initialize` comes first")
        carry = self._methods.get(request.method)
        if carry is not None:
            nursery.start_soon(self._answer, request, carry)
        elif request.method == "session/new":
            nursery.start_soon(self._new, request, self._abilities)
        elif request.method in OPENING:
            self._open(request, self._abilities, nursery)
        elif request.method in OF_SESSIONS:
            self._session_of(request.params).handle(request)
        else:
            raise RpcError(METHOD_NOT_FOUND, f"there is no method {request.method!r}")

    async def _answer(self, request: RpcRequest, carry: Carry) -> None:
        try:
            result = await carry(request)
        except FAILURES as error:
            await self._peer.refuse(request.id, error_of(error, ""))
        else:
            await self._peer.answer(request.id, result)

    # The connection

    def _initialize(self, params: JsonObject) -> JsonObject:
        requested = number_in(params, "protocolVersion")
        if requested < VERSION:
            details: JsonObject = {"requested": requested, "supported": [VERSION]}
            raise RpcError(UNSUPPORTED_VERSION, f"there is no version {requested}; there is {VERSION}", details)
        able = object_in(params, "clientCapabilities")
        in_session, elicitation = object_in(able, "session"), object_in(able, "elicitation")
        self._abilities = ClientAbilities(
            notices=in_session.get("notices") is not None,
            compactions=in_session.get("compaction") is not None,
            forms=elicitation.get("form") is not None,
        )
        return initialization()

    async def _authenticate(self, request: RpcRequest) -> JsonObject:
        del request
        await trio.lowlevel.checkpoint()
        raise invalid(NO_LOGIN)

    # Sessions

    def _session_of(self, params: JsonObject) -> EditorSession:
        session_id = text_in(params, "sessionId")
        session = self._sessions.get(_name_of(session_id))
        if session is None:
            problem = f"the session {session_id!r} is not open here; load or resume it first"
            raise RpcError(NOT_FOUND, problem, {"sessionId": session_id})
        return session

    async def _new(self, request: RpcRequest, abilities: ClientAbilities) -> None:
        """Start a new session in the folder that the request names, and follow it."""
        try:
            named = servers_in(request.params)
            source = await trio.to_thread.run_sync(self._source_in, _folder_of(request.params))
            await trio.to_thread.run_sync(source.check)
            remote = await self._supervisor.spawn(source.id, new_name(), labels=[source.label])
        except FAILURES as error:
            await self._peer.refuse(request.id, error_of(error, ""))
            return

        async def prepare() -> SessionBeginning:
            await trio.lowlevel.checkpoint()
            return SessionBeginning(config_of(source, source.model), named=usable(named, source))

        session = self._make(_name_of(remote.id), Path(source.folder), abilities)
        await self._start(session, Opening(request.id, prepare, is_new=True))

    def _open(self, request: RpcRequest, abilities: ClientAbilities, nursery: trio.Nursery) -> None:
        """Open the stored session that the request names, and follow it."""
        name, folder = _name_of(text_in(request.params, "sessionId")), _folder_of(request.params)
        since, named = _since(request), servers_in(request.params)
        open_session = self._sessions.get(name)
        if open_session is not None and open_session.has_prompts:
            raise invalid(f"the session {name!r} is open here, and a prompt waits for its answer; cancel it first")

        async def prepare() -> SessionBeginning:
            if open_session is not None:
                await open_session.leave()
            source, stored = await self._find(name, folder)
            config = config_of(source, source.model, stored.labels)
            return SessionBeginning(config, has_title=bool(stored.title), named=usable(named, source))

        session = self._make(name, folder, abilities)
        nursery.start_soon(self._start, session, Opening(request.id, prepare, since=since))

    def _make(self, name: str, folder: Path, abilities: ClientAbilities) -> EditorSession:
        updates = SessionUpdates(folder, abilities)
        remote = self._supervisor.session(name)
        servers = ServerRequests(remote, name, self._peer, EditorServers(str(folder)))
        session = EditorSession(remote, name, updates, self._peer, abilities, servers)
        self._sessions[name] = session
        return session

    async def _start(self, session: EditorSession, opening: Opening) -> None:
        """Start the task that follows *session*; return when the opening request is answered."""
        if self._following is not None:
            await self._following.start(self._follow, session, opening)

    async def _follow(  # noqa: ASYNC128 - `session.run` reports the start
        self, session: EditorSession, opening: Opening, task_status: trio.TaskStatus[None]
    ) -> None:
        try:
            await session.run(opening, task_status)
        finally:
            if self._sessions.get(session.id) is session:
                del self._sessions[session.id]

    async def _find(self, name: str, folder: Path) -> tuple[AgentSource, DetailView]:
        """Return the agent and the summary of a stored session, which works in *folder*."""
        try:
            stored = await self._supervisor.session(name).detail()
        except UnknownSession:
            problem = f"there is no session {name!r}; `session/list` lists them"
            raise RpcError(NOT_FOUND, problem, {"sessionId": name}) from None
        source = AgentSource.read(stored.agent)
        if source is None:
            raise invalid(f"the session {name!r} is that of another program")
        if source.folder != str(folder):
            raise invalid(f"`cwd`: the session {name!r} works in {source.folder!r}, and not in {str(folder)!r}")
        return source, stored

    async def _list(self, request: RpcRequest) -> JsonObject:
        if text_or_none(request.params, "cursor") is not None:
            raise invalid("`cursor`: there is one page, so no cursor was given")
        has_folder = request.params.get("cwd") is not None
        label = AgentSource(str(path_in(request.params, "cwd"))).label if has_folder else None
        stored = sorted(
            await self._supervisor.stored(label=label, ended=False), key=lambda session: session.active, reverse=True
        )
        rows = [(session, AgentSource.read(session.about.spec)) for session in stored]
        return {"sessions": [_row(session, source) for session, source in rows if source is not None]}

    async def _delete(self, request: RpcRequest) -> JsonObject:
        name = _name_of(text_in(request.params, "sessionId"))
        session = self._sessions.pop(name, None)
        if session is not None:
            await session.leave()
        with suppress(UnknownSession):  # already deleted, which is what the request asks for
            await self._supervisor.delete(name)
        return {}


def initialization() -> JsonObject:
    """Return the answer to `initialize`."""
    able: JsonObject = {
        "loadSession": True,
        "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
        "mcpCapabilities": {"http": find_spec("mcp") is not None, "sse": False},
        "sessionCapabilities": {"list": {}, "delete": {}, "resume": {}, "close": {}},
    }
    info: JsonObject = {"name": "agentrail", "title": "agentrail", "version": agentrail.__version__}
    return {"protocolVersion": VERSION, "agentCapabilities": able, "authMethods": [], "agentInfo": info}


def _name_of(session_id: str) -> str:
    """Return the name of a session as `chat` shows it: its id without the prefix."""
    return session_id.removeprefix(OWN)


def _folder_of(params: JsonObject) -> Path:
    """Return the folder that the request names for a session; raise `RpcError` if it names additional ones."""
    if params.get("additionalDirectories"):
        raise invalid("`additionalDirectories`: an agent works in one folder, which is `cwd`")
    return folder_in(params, "cwd")


def _since(request: RpcRequest) -> int | None:
    """Return the number of the event after which the history is replayed; `None` if the editor wants no replay."""
    if request.method == "session/load":
        return 0
    ours = object_in(object_in(request.params, "_meta"), "agentrail")
    return max(number_in(ours, "from") - 1, 0) if "from" in ours else None


def _row(session: StoredSession, source: AgentSource) -> Json:
    row: dict[str, Json] = {
        "sessionId": _name_of(session.session_id),
        "cwd": os.fsencode(source.folder).decode(errors="replace"),
        "updatedAt": iso_time(session.active),
    }
    if session.about.title:
        row["title"] = session.about.title
    return row

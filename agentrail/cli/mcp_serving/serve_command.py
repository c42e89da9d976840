"""`agentrail mcp serve`: an agent as a tool of an MCP client, which starts this command and talks to it."""

from __future__ import annotations

import logging
import secrets
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

import trio

from agentrail.adapters.extras import need_extra
from agentrail.app import process
from agentrail.cli.acp.json_lines import LineReader, LineTooLongError, own_input
from agentrail.cli.agents.agent_seal import AgentSeal
from agentrail.cli.agents.agent_source import AgentSource, profile_of
from agentrail.cli.agents.chosen_agent import source_of
from agentrail.cli.chat_options import ChatOptions
from agentrail.cli.command_options import options_of
from agentrail.cli.exit_codes import INTERRUPTED, KEPT_STOP_WITHIN, WRONG_USAGE
from agentrail.cli.host.shared_host import open_shared
from agentrail.cli.output.bad_input import BadInputError
from agentrail.cli.output.error_text import in_own_words
from agentrail.cli.output.exit_status import tell, tell_more
from agentrail.cli.output.standard_output import StandardOutput, open_what_is_closed
from agentrail.cli.session_names import new_name
from agentrail.cli.settings.setting_order import chosen_journal
from agentrail.errors import AgentrailError, BadProfile, SupervisorStuck
from agentrail.host.mcp_server.call_failed import CallFailedError
from agentrail.remote.remote_session import RemoteSession
from agentrail.remote.remote_supervisor import RemoteSupervisor
from agentrail.values.events.tools import ToolExecutionStart
from agentrail.values.json import EMPTY, Json, JsonObject

if TYPE_CHECKING:
    import anyio

    from agentrail.values.events.envelope import Envelope


def main(**words: object) -> int:
    """Serve an MCP client with the arguments *words* of `ChatOptions`, and return the exit code."""
    logging.getLogger("agentrail").addHandler(logging.StreamHandler(sys.stderr))
    try:
        need_extra("mcp", "mcp", "serve MCP")
        options = options_of(ChatOptions, words)
        source = source_of(options, options.working_folder)
        source.check()
    except (AgentrailError, BadInputError, OSError) as error:
        tell(f"agentrail: {_why(error)}")
        return WRONG_USAGE
    open_what_is_closed()
    output = StandardOutput(sys.stdout)
    # Tools must not write to the output of the protocol, nor read the client's messages.
    with output.alone(), own_input() as descriptor:
        client = ClientLines(LineReader(descriptor), output)
        code = process.run(partial(serve, options.journal, source, client), stop_within=KEPT_STOP_WITHIN)
    return INTERRUPTED if code is None else code


def _why(error: Exception) -> str:
    return f"--agent {error.args[0]}: {error.args[1]}" if isinstance(error, BadProfile) else str(error)


async def serve(journal_file: Path | None, source: AgentSource, client: ClientLines) -> int:
    """Serve the client until it leaves, and return the exit code."""
    from mcp.server.stdio import stdio_server  # noqa: PLC0415 - only this command needs the package

    from agentrail.host.mcp_server.prompt_tool import prompt_server  # noqa: PLC0415 - as above

    try:
        journal = chosen_journal(journal_file, None)
        async with open_shared(journal, profile_of) as supervisor:
            calls = RemoteCalls(supervisor, partial(_begun, supervisor, AgentSeal(journal), source))
            keys = (secrets.token_bytes(32),)
            server = prompt_server(lambda _: calls, keys, lambda _: None, lambda: not client.has_left)
            lines = cast("anyio.AsyncFile[str]", client)  # what the server uses of one: lines, `write` and `flush`
            async with stdio_server(lines, lines) as (incoming, outgoing):
                await server.run(incoming, outgoing, server.create_initialization_options())
    except AgentrailError as error:
        tell(f"agentrail: {in_own_words(str(error))}")
        tell_more(error)
        if isinstance(error, SupervisorStuck):
            raise
        return 1
    return 0


async def _begun(supervisor: RemoteSupervisor, seal: AgentSeal, source: AgentSource) -> RemoteSession:
    """Begin a session with the agent of the command."""
    sealed = await trio.to_thread.run_sync(seal.begun, source)
    return await supervisor.spawn(sealed.id, new_name(), labels=[sealed.label])


class ClientLines:
    """The lines that an MCP client writes and reads, as the stream of text that the server takes."""

    def __init__(self, reader: LineReader, output: StandardOutput) -> None:
        self._reader = reader
        self._output = output
        self.has_left = False
        """Whether the client writes no more, so that calls end without being cancelled by it."""

    def __aiter__(self) -> ClientLines:
        return self

    async def __anext__(self) -> str:
        try:
            line = await self._reader.next_line()
        except LineTooLongError:
            return "a line that is too long"  # which is no JSON, and answered as such
        if line is None:
            self.has_left = True
            raise StopAsyncIteration
        return line.decode("utf-8", "replace")

    async def write(self, text: str) -> None:
        """Write *text*, which is a line."""
        await self._output.write(text.encode("utf-8", "replace"))

    async def flush(self) -> None:
        """No-op: `write` keeps nothing back."""
        await trio.lowlevel.checkpoint()


class RemoteCalls:
    """Makes the calls of the tool by handles of the host that all terminals of a user share."""

    def __init__(self, supervisor: RemoteSupervisor, begin: Callable[[], Awaitable[RemoteSession]]) -> None:
        self._supervisor = supervisor
        self._begin = begin

    async def call(self, name: str, *, session: str = "", body: JsonObject | None = None, ref: str = "") -> JsonObject:
        """Make a call, as `McpCalls` has it."""
        try:
            return await self._call(name, session, body or EMPTY, ref)
        except AgentrailError as error:
            raise CallFailedError(str(error)) from error

    async def _call(self, name: str, session: str, body: JsonObject, ref: str) -> JsonObject:
        if name == "open_session":
            return {"session": (await self._begin()).id}
        handle = self._supervisor.session(session)
        match name:
            case "prompt":
                return {"ref": (await handle.prompt(str(body["message"]))).ref}
            case "reply":
                return await _reply(handle, ref)
            case "abort":
                await handle.abort(str(body["reason"]), turn=str(body["turn"]))
            case "respond":
                await handle.respond(str(body["ref"]), str(body["answer"]))
            case _:
                await _decide(handle, name, body)
        return EMPTY

    async def starts(self, session: str) -> AbstractAsyncContextManager[AsyncIterator[Envelope]]:
        """Return the starts of tools in a session from now on."""
        await trio.lowlevel.checkpoint()
        return self._supervisor.session(session).subscribe(types=[ToolExecutionStart])


async def _reply(handle: RemoteSession, ref: str) -> JsonObject:
    reply = await handle.reply(ref)
    fields = ("id", "kind", "tool", "args", "hint", "options", "digest")
    held_calls: list[Json] = [{name: cast("Json", getattr(call, name)) for name in fields} for call in reply.held]
    return {"text": reply.text, "stop_reason": reply.stop_reason, "held": tuple(held_calls)}


async def _decide(handle: RemoteSession, name: str, body: JsonObject) -> None:
    """Approve or reject a call, if it is still the one that the person was shown."""
    held_call = next((call for call in (await handle.status()).held if call.id == body["approval"]), None)
    if held_call is None or held_call.digest != body["digest"]:
        problem = "the call waits no more, or is another one by now"
        raise CallFailedError(problem)
    if name == "approve":
        await handle.approve(held_call)
    else:
        reason = body.get("reason")
        await handle.reject(held_call, reason if isinstance(reason, str) else None, auto_resume=True)

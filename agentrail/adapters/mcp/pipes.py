"""Runs an MCP server as a child process, and exchanges messages with it over pipes, one JSON message per line."""

from __future__ import annotations

import logging
import math
import os
from typing import Final

import anyio
import trio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp.types import jsonrpc_message_adapter

from agentrail.adapters.mcp.server import McpServer, ServerProgram
from agentrail.adapters.processes import CHUNK, Launch, ProcessTree, Ready, clean_environment
from agentrail.errors import OutsideError
from agentrail.ports.sandbox import Command, Execution

log = logging.getLogger("agentrail.mcp")

MAX_MESSAGE: Final = 8 * 1024 * 1024
"""The most bytes of one message; a server that sends a longer one is ended."""

MAX_WAITING: Final = 64
"""The most messages that wait for a server that does not read; sending another one then blocks."""

LAST_WORDS: Final = 1.0
"""Seconds to wait for the exit of a server that has closed its output: the exit code makes a better error."""

KEPT: Final = 16 * 1024
"""The most bytes of the server's standard error that are kept: half from its beginning, half from its end."""

SHOWN: Final = 400
"""The most characters of the server's standard error that the error about its end shows."""


class Pipes:
    """One run of a server as a child process; as a context manager, the transport for the client of `mcp`."""

    __slots__ = (
        "_child_ends",
        "_env",
        "_folder",
        "_from_server",
        "_heard",
        "_name",
        "_program",
        "_said",
        "_server",
        "_to_server",
    )

    def __init__(self, server: McpServer, working_dir: str) -> None:
        self._server = server
        self._name = server.name
        self._folder = working_dir if server.working_dir is None else server.working_dir
        inherited = {name: os.environ[name] for name in server.inherit if name in os.environ}
        self._env = {**clean_environment(), **inherited, **server.env}
        self._program = ServerProgram(tuple(server.command), self._env)
        self._child_ends: tuple[int, ...] = ()
        incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        self._heard: MemoryObjectSendStream[SessionMessage | Exception] = incoming[0]
        self._from_server: MemoryObjectReceiveStream[SessionMessage | Exception] = incoming[1]
        outgoing = anyio.create_memory_object_stream[SessionMessage](MAX_WAITING)
        self._to_server: MemoryObjectSendStream[SessionMessage] = outgoing[0]
        self._said: MemoryObjectReceiveStream[SessionMessage] = outgoing[1]

    async def __aenter__(
        self,
    ) -> tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]:
        return self._from_server, self._to_server

    async def __aexit__(self, *_: object) -> None:
        self._from_server.close()
        self._to_server.close()

    async def run(self) -> None:
        """Run the server until it ends; then raise `OutsideError`, which says how. If cancelled, end its processes."""
        child_in, ours_out = os.pipe()
        ours_in, child_out = os.pipe()
        self._child_ends = (child_in, child_out)
        stdin, stdout = trio.lowlevel.FdStream(ours_out), trio.lowlevel.FdStream(ours_in)
        command = self._program.argv
        launch = Launch(command[0], self._env, self._enter, self._leave)
        tree = ProcessTree(Command(command, timeout=math.inf, keep=KEPT), launch)
        try:
            async with stdin, stdout, trio.open_nursery() as pumps:  # noqa: TID251 - they end with the server
                pumps.start_soon(self._write, stdin)
                pumps.start_soon(self._read, stdout)
                ended = await tree.run()
                pumps.cancel_scope.cancel()
        finally:
            for number in self._child_ends:
                os.close(number)
            for stream in (self._heard, self._said, self._from_server, self._to_server):
                stream.close()
        raise OutsideError("mcp-failed", self._name, self._how(ended))

    def _enter(self) -> Ready:
        try:
            folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise OutsideError(
                "command-failed", self._program.argv[0], f"its folder `{self._folder}`: {error.strerror}"
            ) from error
        try:
            self._program = self._server.before_start(self._program)
        except BaseException:
            os.close(folder)
            raise
        ends, self._child_ends = self._child_ends, ()
        return Ready(self._program.argv, folder, ends, self._program.env)

    def _leave(self) -> None:
        self._program.leave()

    async def _write(self, stdin: trio.abc.SendStream) -> None:
        try:
            async for item in self._said:
                line = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                await stdin.send_all(line.encode() + b"\n")
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            log.debug("the MCP server `%s` does not read any more", self._name)

    async def _read(self, stdout: trio.abc.ReceiveStream) -> None:
        """Pass the server's messages on to the client until its output ends; then always raise `OutsideError`."""
        begun = bytearray()
        while chunk := await stdout.receive_some(CHUNK):
            lines = bytes(chunk).split(b"\n")
            for line in lines[:-1]:
                await self._hear(bytes(begun) + line)
                begun.clear()
            begun += lines[-1]
            if len(begun) > MAX_MESSAGE:
                raise OutsideError(
                    "mcp-failed", self._name, f"it sent a message of more than {MAX_MESSAGE} bytes and was ended"
                )
        await trio.sleep(LAST_WORDS)
        raise OutsideError("mcp-failed", self._name, "it closed its output and was ended")

    async def _hear(self, line: bytes) -> None:
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError:
            log.debug("the MCP server `%s` wrote %d bytes that are no message", self._name, len(line))
            return
        try:
            await self._heard.send(SessionMessage(message))
        except anyio.BrokenResourceError:
            log.debug("nobody listens to the MCP server `%s` any more", self._name)

    def _how(self, ended: Execution) -> str:
        """Return how the server ended: exit code and the end of its standard error.

        Values of variables that were set for this server, which may be secrets, are replaced by their names.
        """
        errors = ended.stderr.tail or ended.stderr.head
        last = " ".join(errors.decode(errors="replace").split())
        for name in (*self._env.keys() - clean_environment().keys(),):
            if self._env[name]:
                last = last.replace(self._env[name], f"${name}")
        how = f"it ended with code {ended.exit_code}"
        how = f"{how}: {last[-SHOWN:]}" if last else how
        return f"{how}; {self._program.note}" if self._program.note else how

"""`EditorServers`: the MCP servers that editors have named for a folder, and that the user has allowed.

They are stored on the user's side, since whoever serves the sessions starts them, and that may be another process than
the one that the editor talks to. What they are given, such as keys in their environment, is for the user alone to read.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Final, cast

import msgspec

from agentrail.adapters.mcp.server import McpServer
from agentrail.adapters.user_folders import home
from agentrail.cli.folder.folder_files import FolderFiles
from agentrail.cli.folder.folder_program import FolderProgram, program_of
from agentrail.cli.folder.program_copy import ProgramCopy
from agentrail.cli.folder.surface import CodeFile, Surface
from agentrail.cli.output.bad_input import BadInputError
from agentrail.cli.own_files import replace_own
from agentrail.cli.trust.allowed_server import AllowedServer
from agentrail.cli.trust.trust_store import allow, unallowed
from agentrail.codec.json_text import to_text
from agentrail.values.json import JsonObject, canonical
from agentrail.values.value import Value, learned

FOLDER: Final = "editor-servers"
"""The folder of the user with a file for each folder in which an agent works."""


class EditorServer(Value, gc=True):
    """An MCP server as an editor names it: a program to run, or an address."""

    name: str
    """Name of the server, and prefix of its tools' names."""
    command: tuple[str, ...] = ()
    """The program and its arguments; empty if the server is reached by `url`."""
    env: Mapping[str, str] = {}
    """Environment variables of the program."""
    url: str = ""
    """URL of the server; empty if it is run by `command`."""
    headers: Mapping[str, str] = {}
    """HTTP headers of each request to the URL."""

    @property
    def fields(self) -> JsonObject:
        """The server as JSON."""
        return msgspec.structs.asdict(self)

    def to_server(self) -> McpServer:
        """Return the server as a session takes it; raise `UsageError` if its values are invalid."""
        return McpServer(**msgspec.structs.asdict(self))


class EditorServers:
    """The servers of one folder."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self._file = home() / FOLDER / f"{sha256(os.fsencode(folder)).hexdigest()[:32]}.json"

    def allowed(self) -> tuple[EditorServer, ...]:
        """Return the stored servers that the user has allowed, and has not forbidden since."""
        return tuple([server for server in self._stored() if self.is_allowed(server)])

    def for_session(self) -> tuple[McpServer, ...]:
        """Return the allowed servers for a session; each starts only while its files are those that were allowed."""
        return tuple(
            [
                AllowedServer(
                    **msgspec.structs.asdict(server),
                    folder=self._folder,
                    read_program=partial(self.program_of, server),
                )
                for server in self.allowed()
            ]
        )

    def code(self) -> tuple[CodeFile, ...]:
        """Return the files of the folder that the programs of the allowed servers run."""
        return tuple([file for server in self.allowed() for file in self.surface_of(server).code])

    def is_allowed(self, server: EditorServer) -> bool:
        """Whether the user has allowed this server, with exactly this content and these files, in this folder."""
        try:
            return not self.has_to_ask(self.surface_of(server))
        except BadInputError:  # one of its files is too large to be digested
            return False

    def surface_of(self, server: EditorServer) -> Surface:
        """Return what the user has to allow for *server*: its exact content, and digests of its files as they are."""
        return self.program_of(server, None)[0]

    def program_of(self, server: EditorServer, copy: ProgramCopy | None) -> tuple[Surface, FolderProgram]:
        """Return the surface of *server* as it is now, and how it is started from *copy*, which gets its files."""
        program = program_of(self._folder, self._folder, server.command, server.env, FolderFiles(copy=copy))
        return Surface(f"editor.mcp.{server.name}", canonical(server.fields), program.code), program

    def has_to_ask(self, surface: Surface) -> bool:
        """Whether the user has not allowed *surface* yet."""
        return bool(unallowed(self._folder, [surface]))

    def allow(self, server: EditorServer, surface: Surface) -> None:
        """Store that the user has allowed *server*, with the files of *surface*."""
        if self.has_to_ask(surface):
            allow(self._folder, [surface])
        self.store(server)

    def store(self, server: EditorServer) -> None:
        """Store *server* in the place of another one with its name, for whoever serves the sessions."""
        others = [stored for stored in self._stored() if stored.name != server.name]
        replace_own(self._file, to_text([stored.fields for stored in (*others, server)]))

    def _stored(self) -> Sequence[EditorServer]:
        try:
            content = self._file.read_bytes()
        except FileNotFoundError:
            return ()
        return cast("tuple[EditorServer, ...]", msgspec.json.decode(content, type=learned(tuple[EditorServer, ...])))

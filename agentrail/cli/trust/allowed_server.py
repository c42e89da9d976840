"""`AllowedServer`: an MCP server whose program is started from a copy of the files that the user has allowed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import attrs

from agentrail.adapters.mcp.server import McpServer, ServerProgram
from agentrail.cli.folder.folder_program import FolderProgram
from agentrail.cli.folder.program_copy import ProgramCopy
from agentrail.cli.folder.surface import Surface
from agentrail.cli.output.bad_input import BadInputError
from agentrail.cli.output.screen import escaped
from agentrail.cli.trust.trust_store import unallowed
from agentrail.errors import FileFailed, OutsideError

COPIED: Final = "it ran from a copy of the files that were allowed ({}); what else it needs must be named"
"""What is said if the program fails, with the files."""


@attrs.frozen(repr=False, eq=False)
class AllowedServer(McpServer):
    """A server that a folder or an editor has named. An agent may write to its files while a session runs."""

    folder: Path = attrs.field(kw_only=True)
    """The folder for which the user has allowed it."""
    read_program: Callable[[ProgramCopy | None], tuple[Surface, FolderProgram]] = attrs.field(kw_only=True)
    """Returns what the user has to allow for it, and how it is started; copies the files that it runs as they are."""

    def before_start(self, program: ServerProgram) -> ServerProgram:
        """Return the program as it starts from a copy of its files.

        Raise `OutsideError` unless the user has allowed the bytes in the copy.
        """
        if not self.command:
            return program
        try:
            copy = ProgramCopy(self.folder)
        except (OSError, FileFailed) as error:
            raise OutsideError("mcp-failed", self.name, f"its files cannot be copied: {error}") from error
        try:
            return self._started(program, copy)
        except BaseException:
            copy.delete()
            raise

    def _started(self, program: ServerProgram, copy: ProgramCopy) -> ServerProgram:
        try:
            surface, started = self.read_program(copy)
        except (BadInputError, OSError) as error:
            raise OutsideError("mcp-failed", self.name, str(error)) from error
        files = ", ".join(escaped(file.path) for file in surface.code)
        if unallowed(self.folder, [surface]):
            state = files or "they are gone"
            problem = f"nobody has allowed its files as they are now ({state}); `agentrail trust` shows and allows them"
            raise OutsideError("mcp-failed", self.name, problem)
        copy.seal()
        note = COPIED.format(files) if files else ""
        return ServerProgram(started.command, {**program.env, **started.env}, copy.delete, note)

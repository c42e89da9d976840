"""`AllowedServer`: an MCP server whose program starts only while its files are those that the user has allowed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import attrs

from agentrail.adapters.mcp.server import McpServer
from agentrail.cli.bad_input import BadInputError
from agentrail.cli.screen import escaped
from agentrail.cli.surface import Surface
from agentrail.cli.trust_store import unallowed
from agentrail.errors import OutsideError


@attrs.frozen(repr=False, eq=False)
class AllowedServer(McpServer):
    """A server that a folder or an editor has named. An agent may write to its files while a session runs."""

    folder: Path = attrs.field(kw_only=True)
    """The folder for which the user has allowed it."""
    find_surface: Callable[[], Surface] = attrs.field(kw_only=True)
    """Returns what the user has to allow for it, with digests of its files as they are now."""

    def before_start(self) -> None:
        """Raise `OutsideError` unless the user has allowed the files of the program as they are now."""
        try:
            surface = self.find_surface()
        except BadInputError as error:
            raise OutsideError("mcp-failed", self.name, str(error)) from error
        if unallowed(self.folder, [surface]):
            files = ", ".join(escaped(file.path) for file in surface.code) or "they are gone"
            problem = f"nobody has allowed its files as they are now ({files}); `agentrail trust` shows and allows them"
            raise OutsideError("mcp-failed", self.name, problem)

"""`FileChanges`: what held calls would change in the files of one folder, for the person who decides about them."""

from __future__ import annotations

from pathlib import Path

import trio

from agentrail.adapters.sandboxes.local import LocalSandbox
from agentrail.api.session_values import HeldCall
from agentrail.tools.builtin.file_changes import READ_WITHIN, TOO_SLOW, FileChange, Unseen, change_of


class FileChanges:
    """Reads the files of one folder, through a sandbox as tools do, for calls that would change them."""

    def __init__(self, folder: Path | None) -> None:
        """Create it; without *folder*, as of an agent that works elsewhere, no change is known."""
        self._folder = folder
        self._sandbox = None if folder is None else LocalSandbox(folder)

    async def of(self, call: HeldCall) -> FileChange | Unseen | None:
        """Return what `change_of` returns for *call*, with the absolute path of the file.

        `None` for a call of a sub-agent, which may work in another folder.
        """
        if self._folder is None or self._sandbox is None or call.path or call.kind == "question":
            return None
        change: FileChange | Unseen | None = TOO_SLOW
        with trio.move_on_after(READ_WITHIN):
            change = await change_of(self._sandbox, call.tool, call.args)
        return change._replace(path=str(self._folder / change.path)) if isinstance(change, FileChange) else change

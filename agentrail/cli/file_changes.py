"""`FileChanges`: what a held call would change in a file that is there, for the person who decides about it."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

import trio

from agentrail.adapters.sandboxes.files import replace_text
from agentrail.adapters.sandboxes.local import LocalSandbox
from agentrail.api.session_values import HeldCall
from agentrail.errors import AgentrailError, BadEdit, FileMissing
from agentrail.values.json import JsonObject

MOST_SHOWN: Final = 256 * 1024
"""The most bytes of a file that are shown with its change."""

READ_WITHIN: Final = 2.0
"""Seconds within which the file is read: a person is asked, even if its disk does not answer."""

NO_TEXT: Final = "is no text in UTF-8"
TOO_LARGE: Final = f"has more than {MOST_SHOWN // 1024} KiB"
TOO_SLOW: Final = f"could not be read within {READ_WITHIN:.0f} seconds"


class FileChange(NamedTuple):
    """The change that a call makes to a file."""

    path: str
    """Absolute path of the file."""
    old_text: str | None
    """The text that is replaced; `None` for a whole file."""
    new_text: str
    """What comes in its place."""


Unseen: TypeAlias = str
"""Why a file that is there is not shown with its change, in words."""


class FileChanges:
    """Reads the files of one folder, through a sandbox as tools do, for calls that would change them."""

    def __init__(self, folder: Path | None) -> None:
        """Create it; without *folder*, as of an agent that works elsewhere, no change is known."""
        self._sandbox = None if folder is None else LocalSandbox(folder)
        self._folder = folder

    async def of(self, call: HeldCall) -> FileChange | Unseen | None:
        """Return the whole texts before and after *call*, or why they are not shown; `None` if no file is changed.

        A file that is new is none that is changed, and nor is one in which nothing can be replaced.
        """
        path, sandbox = call.args.get("path"), self._sandbox
        if self._folder is None or sandbox is None or not isinstance(path, str) or call.path or not _writes(call):
            return None
        with trio.move_on_after(READ_WITHIN):
            try:
                content = await sandbox.read(path, 0, MOST_SHOWN + 1)
            except FileMissing:
                return None
            except AgentrailError as error:
                return f"{path}, which may be there, cannot be shown: {error}"
            if content.size > MOST_SHOWN:
                return f"{path} {TOO_LARGE}, so what it has now is not shown"
            try:
                old = content.data.decode()
            except UnicodeDecodeError:
                return f"{path} {NO_TEXT}, so what it has now is not shown"
            new = _text_after(path, old, call.args)
            return None if new is None else FileChange(str(self._folder / path), old, new)
        return f"{path} {TOO_SLOW}, so what it has now is not shown"


def _writes(call: HeldCall) -> bool:
    return call.kind != "question" and call.tool in {"edit_file", "write_file"}


def _text_after(path: str, old: str, args: JsonObject) -> str | None:
    """Return the text of a file after a call with *args*; `None` if the call would fail."""
    content, old_text, new_text = args.get("content"), args.get("old_text"), args.get("new_text")
    if isinstance(content, str):
        return content
    if not (isinstance(old_text, str) and isinstance(new_text, str)):
        return None
    every = args.get("replace_all") is True
    try:
        return replace_text(path, old.encode(), old_text.encode(), new_text.encode(), every=every)[0].decode()
    except BadEdit:
        return None

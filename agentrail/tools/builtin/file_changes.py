"""`change_of`: what a call of `write_file` or `edit_file` would change in a file that is there.

It is for the person who decides about the call; the call itself reads the file anew.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

from agentrail.errors import AgentrailError, FileMissing
from agentrail.ports.sandbox import Sandbox
from agentrail.values.json import JsonObject

MOST_SHOWN: Final = 256 * 1024
"""The most bytes of a file that are shown with its change."""

READ_WITHIN: Final = 2.0
"""Seconds for which callers wait: a person is asked, even if the disk of the file does not answer."""

WRITERS: Final = frozenset({"edit_file", "write_file"})
"""The built-in tools that change files."""

NO_TEXT: Final = "is no text in UTF-8, so what it has now is not shown"
TOO_LARGE: Final = f"has more than {MOST_SHOWN // 1024} KiB, so what it has now is not shown"
TOO_SLOW: Final = f"the file could not be read within {READ_WITHIN:.0f} seconds, so what it has now is not shown"
"""What callers say who wait no longer."""


class FileChange(NamedTuple):
    """The change that a call makes to a file."""

    path: str
    """Path of the file."""
    old_text: str | None
    """The text that is replaced; `None` for a whole file."""
    new_text: str
    """What comes in its place."""


Unseen: TypeAlias = str
"""Why a file that is there is not shown with its change, in words."""


async def change_of(sandbox: Sandbox, tool: str, args: JsonObject) -> FileChange | Unseen | None:
    """Return the whole texts before and after a call, or why they are not shown; `None` if no file is changed.

    A file that is new is none that is changed, and nor is one in which nothing can be replaced.
    """
    path = args.get("path")
    if tool not in WRITERS or not isinstance(path, str):
        return None
    try:
        content = await sandbox.read(path, 0, MOST_SHOWN + 1)
    except FileMissing:
        return None
    except AgentrailError as error:
        return f"{path}, which may be there, cannot be shown: {error}"
    if content.size > MOST_SHOWN:
        return f"{path} {TOO_LARGE}"
    try:
        old = content.data.decode()
    except UnicodeDecodeError:
        return f"{path} {NO_TEXT}"
    new = _text_after(old, args)
    return None if new is None else FileChange(path, old, new)


def _text_after(old: str, args: JsonObject) -> str | None:
    """Return the text of a file after a call with *args*; `None` if the call would fail."""
    content, old_text, new_text = args.get("content"), args.get("old_text"), args.get("new_text")
    if isinstance(content, str):
        return content
    if not (isinstance(old_text, str) and isinstance(new_text, str) and old_text):
        return None
    count = old.count(old_text)
    is_possible = count > 0 if args.get("replace_all") is True else count == 1
    return old.replace(old_text, new_text) if is_possible else None

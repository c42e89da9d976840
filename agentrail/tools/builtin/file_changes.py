"""`change_of`: what a call of `write_file` or `edit_file` would change, for the person who decides about it.

The call itself reads the file anew. `difference_made` is for those who look at it afterwards.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

from agentrail.errors import AgentrailError, FileMissing
from agentrail.insight.text_comparison import difference_of
from agentrail.ports.sandbox import Sandbox
from agentrail.values.json import EMPTY, JsonObject

MOST_SHOWN: Final = 256 * 1024
"""The most bytes of a file that are shown with its change."""

READ_WITHIN: Final = 2.0
"""Seconds for which callers wait: a person is asked, even if the disk of the file does not answer."""

WRITERS: Final = frozenset({"edit_file", "write_file"})
"""The built-in tools that change files."""

MOST_COMPARED: Final = 64 * 1024
"""The most bytes of a file whose difference is kept beside the result of a call: it is compared in the event loop."""

NO_TEXT: Final = "is no text in UTF-8, so what it has now is not shown"
TOO_LARGE: Final = f"has more than {MOST_SHOWN // 1024} KiB, so what it has now is not shown"
TOO_LONG: Final = f"would have more than {MOST_SHOWN // 1024} KiB, so what it has now is not shown"
NOT_IN_IT: Final = "does not have `old_text`, so this call changes nothing"
TOO_OFTEN: Final = "has `old_text` {} times, so this call changes nothing"
TOO_SLOW: Final = f"the file could not be read within {READ_WITHIN:.0f} seconds, so what it has now is not shown"
"""What callers say who wait no longer."""


class FileChange(NamedTuple):
    """The change that a call makes to a file."""

    path: str
    """Path of the file."""
    old_text: str | None
    """The text that is replaced; `None` if the file is new, or what it has is not known."""
    new_text: str
    """What comes in its place."""


Unseen: TypeAlias = str
"""Why the change is not shown, in words."""


async def change_of(sandbox: Sandbox, tool: str, args: JsonObject) -> FileChange | Unseen | None:
    """Return the whole texts before and after a call, or why they are not shown; `None` if it writes no file."""
    path = args.get("path")
    if tool not in WRITERS or not isinstance(path, str):
        return None
    try:
        content = await sandbox.read(path, 0, MOST_SHOWN + 1)
    except FileMissing:
        return _change_in(path, None, args) if tool == "write_file" else None
    except AgentrailError as error:
        return f"{path}, which may be there, cannot be shown: {error}"
    if content.size > MOST_SHOWN:
        return f"{path} {TOO_LARGE}"
    try:
        old = content.data.decode()
    except UnicodeDecodeError:
        return f"{path} {NO_TEXT}"
    return _change_in(path, old, args)


def _change_in(path: str, old: str | None, args: JsonObject) -> FileChange | Unseen | None:
    """Return the change of a file with the text *old*, or why there is none; `None` for odd arguments."""
    new, old_text, new_text = args.get("content"), args.get("old_text"), args.get("new_text")
    if old is not None and not isinstance(new, str) and isinstance(old_text, str) and isinstance(new_text, str):
        count = old.count(old_text) if old_text else 0
        if count != 1 and not (count and args.get("replace_all") is True):
            return f"{path} {TOO_OFTEN.format(count) if count else NOT_IN_IT}"
        if len(old) + count * (len(new_text) - len(old_text)) > MOST_SHOWN:  # known before it takes memory
            return f"{path} {TOO_LONG}"
        new = old.replace(old_text, new_text)
    if not isinstance(new, str):
        return None
    return FileChange(path, old, new) if len(new) <= MOST_SHOWN else f"{path} {TOO_LONG}"


async def text_before(sandbox: Sandbox, path: str) -> str | None:
    """Return the text of a file that a call is about to write, empty if there is none; `None` if it is not compared."""
    try:
        content = await sandbox.read(path, 0, MOST_COMPARED + 1)
        return content.data.decode() if content.size <= MOST_COMPARED else None
    except FileMissing:
        return ""
    except (AgentrailError, UnicodeDecodeError):
        return None


def difference_made(old_text: str | None, new_text: str, size: int) -> JsonObject:
    """Return the field of a result's details that says what a call has changed; empty if that is not known.

    Somebody else may have written meanwhile: then *new_text*, as it was to be, has not the *size* of the file.
    """
    if old_text is None or size > MOST_COMPARED or len(new_text.encode()) != size:
        return EMPTY
    return {"difference": difference_of(old_text, new_text).shortened().as_json()}

"""How a tool call looks in an editor: its kind, its title, the places that it is about, and the change it makes."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from agentrail.cli.output.screen import clipped, one_line
from agentrail.cli.talk.rendering import shown_args
from agentrail.insight.text_difference import Hunk, difference_in
from agentrail.tools.builtin.file_changes import FileChange
from agentrail.values.json import JsonObject

KINDS: Final = {
    "read_file": "read",
    "write_file": "edit",
    "edit_file": "edit",
    "grep": "search",
    "glob": "search",
    "list_dir": "search",
    "find_tools": "search",
    "shell": "execute",
    "shell_output": "execute",
    "shell_kill": "execute",
    "web_fetch": "fetch",
    "web_search": "fetch",
    "write_todos": "think",
}
"""The kinds of the built-in tools, in the words of the protocol; of others it is `other`."""

TITLE: Final = 120
"""The most columns of a title."""


def kind_of(tool: str) -> str:
    """Return the protocol's kind for calls of *tool*, such as `read` or `edit`."""
    return KINDS.get(tool, "other")


def title_of(tool: str, args: JsonObject) -> str:
    """Return a title for a call: one line that says what it does."""
    command = args.get("command")
    if tool == "shell" and isinstance(command, str):
        return clipped(one_line(command), TITLE) or tool
    return f"{tool} {shown_args(args, TITLE)}".rstrip()


def paths_of(tool: str, args: JsonObject, folder: Path) -> tuple[str, ...]:
    """Return the absolute paths of the files that a call of a built-in tool reads or changes."""
    path = args.get("path")
    return (str(folder / path),) if tool in KINDS and isinstance(path, str) else ()


def changes_made(tool: str, args: JsonObject, details: object, folder: Path) -> tuple[FileChange, ...]:
    """Return the changes that a call has made: a part of the file each, by the *details* of its result if they tell."""
    change, difference = change_of(tool, args, folder), difference_in(details)
    if change is None or difference is None or difference.left_out:
        return () if change is None else (change,)
    return tuple(FileChange(change.path, *_texts_of(hunk, is_new=not difference.lines)) for hunk in difference.hunks)


def _texts_of(hunk: Hunk, *, is_new: bool) -> tuple[str | None, str]:
    """Return the old and the new text of a hunk; no old one for a new file."""
    old, new = (
        "".join(row.text + ("" if row.lacks_end else "\n") for row in hunk.rows if row.mark != mark) for mark in "+-"
    )
    return (None if is_new else old), new


def change_of(tool: str, args: JsonObject, folder: Path) -> FileChange | None:
    """Return the change that a call makes to a file; `None` unless its tool is one of those that write files."""
    path, content = args.get("path"), args.get("content")
    if not isinstance(path, str):
        return None
    if tool == "write_file" and isinstance(content, str):
        return FileChange(str(folder / path), None, content)
    old_text, new_text = args.get("old_text"), args.get("new_text")
    if tool == "edit_file" and isinstance(old_text, str) and isinstance(new_text, str):
        return FileChange(str(folder / path), old_text, new_text)
    return None

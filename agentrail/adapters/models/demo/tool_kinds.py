"""What the demo can do: each kind of tool, the names it may be given under, and how to speak of it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from agentrail.values.value import Value, value


class ToolKind(Enum):
    """A kind of tool that the demo knows phrases for."""

    LIST = "list"
    READ = "read"
    WRITE = "write"
    EDIT = "edit"
    SEARCH = "search"
    RUN = "run"
    REMEMBER = "remember"
    COUNT = "count"


@value
class KindSlot(Value):
    """Something a phrase may name and a tool may take."""

    name: str
    """What the templates and `PARAMETERS` call it."""
    says: str
    """How an announcement mentions it."""
    default: str = ""
    """What a tool gets that requires it when the phrase did not name it."""


@value
class Ability(Value):
    """What a kind means."""

    tools: tuple[str, ...]
    """The names such a tool may be given under, the favourite first."""
    does: str
    """What it does, for "I can …"."""
    announces: str
    """How an announcement begins, for "I will …"."""
    slots: tuple[KindSlot, ...]
    """What it needs to know, in the order of an announcement."""
    phrase: str
    """A phrase to try."""


ABILITIES: Mapping[ToolKind, Ability] = {
    ToolKind.LIST: Ability(
        ("list_dir", "list_files", "ls", "glob"),
        "list files",
        "list the files",
        (KindSlot("path", "in {}", "."), KindSlot("glob", "that match {}", "*")),
        "list the files in docs",
    ),
    ToolKind.READ: Ability(
        ("read_file", "cat"),
        "read files",
        "read",
        (KindSlot("path", "{}", "README.md"),),
        "read README.md",
    ),
    ToolKind.WRITE: Ability(
        ("write_file",),
        "write files",
        "write",
        (KindSlot("text", "{}"), KindSlot("path", "to {}", "notes.txt")),
        "write hello to notes.txt",
    ),
    ToolKind.EDIT: Ability(
        ("edit_file",),
        "edit files",
        "replace",
        (KindSlot("old", "{}"), KindSlot("new", "with {}"), KindSlot("path", "in {}", "notes.txt")),
        "replace hello with bye in notes.txt",
    ),
    ToolKind.SEARCH: Ability(
        ("grep", "search"),
        "search files",
        "search for",
        (KindSlot("pattern", "{}"), KindSlot("path", "in {}", "."), KindSlot("glob", "among {}", "*")),
        "search for TODO in src",
    ),
    ToolKind.RUN: Ability(
        ("shell", "run", "bash", "execute"),
        "run commands",
        "run",
        (KindSlot("command", "{}", "pwd"),),
        "run ls",
    ),
    ToolKind.REMEMBER: Ability(
        ("remember", "save_memory", "note"),
        "remember facts",
        "remember",
        (KindSlot("fact", "{}"),),
        "remember that I like tea",
    ),
    ToolKind.COUNT: Ability(
        ("count", "count_to"),
        "count",
        "count",
        (KindSlot("number", "to {}", "10"),),
        "count to 20",
    ),
}

PARAMETERS: Mapping[str, tuple[str, ...]] = {
    "path": (
        *("path", "filepath", "filename", "file", "dir", "directory", "folder", "dirpath", "dirname", "root"),
        *("paths", "files", "target", "location", "where"),
    ),
    "text": ("content", "contents", "text", "body", "data", "filetext", "filecontent"),
    "pattern": (
        "pattern",
        "query",
        "regex",
        "regexp",
        "search",
        "term",
        "needle",
        "expression",
        "keyword",
        "text",
        "q",
    ),
    "glob": ("glob", "include", "filter", "filepattern", "fileglob", "pattern"),
    "command": ("command", "cmd", "commandline", "script", "code", "input", "args"),
    "fact": ("fact", "text", "note", "memory", "content", "value", "message"),
    "number": ("to", "upto", "number", "n", "limit", "last", "end", "max", "times"),
    "old": ("oldstring", "oldstr", "oldtext", "old", "find", "search", "before"),
    "new": ("newstring", "newstr", "newtext", "new", "replacement", "replace", "after"),
}
"""The parameters that take a slot, the likeliest first, in lower case and without `_`."""


def kind_of(tool: str) -> ToolKind | None:
    """Return the kind of the tool called *tool*, if it is one of ours."""
    return next((kind for kind, ability in ABILITIES.items() if tool in ability.tools), None)

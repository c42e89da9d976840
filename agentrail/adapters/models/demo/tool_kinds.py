"""The kinds of tools that the demo can use: their usual names and parameters, and the words to announce a call."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from agentrail.values.value import Value


class ToolKind(Enum):
    """A kind of tool that the demo has phrasings for."""

    LIST = "list"
    READ = "read"
    WRITE = "write"
    EDIT = "edit"
    SEARCH = "search"
    RUN = "run"
    REMEMBER = "remember"
    COUNT = "count"


class KindSlot(Value):
    """A thing that a phrase may name and that becomes an argument of the call, such as a path."""

    name: str
    """The slot's name in the templates and in `PARAMETERS`."""
    says: str
    """How an announcement mentions the slot; `{}` stands for its value."""
    default: str = ""
    """The argument if the phrase does not name the slot and the tool requires it."""


class Ability(Value):
    """A kind of tool in detail: how its tools are called, what they take, and how the demo speaks of them."""

    tools: tuple[str, ...]
    """The usual names of such a tool; an earlier one is preferred."""
    does: str
    """What such a tool does, in words that follow "I can"."""
    announces: str
    """The beginning of an announcement, in words that follow "I will"."""
    slots: tuple[KindSlot, ...]
    """The slots that a phrase may name, in the order in which an announcement mentions them."""
    phrase: str
    """An example of a phrase; the introduction suggests it to the user."""


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
"""The usual names of the parameters for each slot, the likeliest first, in lower case and without `_` and `-`."""


def kind_of(tool: str) -> ToolKind | None:
    """Return the kind of the tool with the name *tool*; `None` if the demo does not know the name."""
    return next((kind for kind, ability in ABILITIES.items() if tool in ability.tools), None)

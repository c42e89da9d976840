"""What tools need of a sandbox: files below one root, and commands that are confined and end when they are told.

A path is text relative to the root, with `/` between its parts. What a sandbox never opens raises `PathRefused`; what
is not there raises `FileMissing`, and what the file system cannot do `FileFailed`.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Protocol, TypeAlias

import attrs

from agentrail.values.value import Value, value

KIB = 1024
MAX_FILE = 16 * 1024 * KIB
"""Bytes of the largest file that is read at once, edited or searched."""


class Kind(Enum):
    """What stands at a path."""

    FILE = "file"
    FOLDER = "folder"
    LINK = "link"
    OTHER = "other"


@value
class Content(Value):
    """What was read of a file."""

    data: bytes
    """The bytes from the offset on, up to the limit."""
    size: int
    """How many bytes the whole file has."""


@value
class Written(Value):
    """A file was written: whoever reads it sees either all of the old content or all of the new."""

    size: int
    """How many bytes it has now."""
    created: bool
    """Whether there was no such file before."""


@value
class Edited(Value):
    """Text in a file was replaced."""

    replaced: int
    """How many times."""
    size: int
    """How many bytes the file has now."""


@value
class Entry(Value):
    """One thing in a folder."""

    path: str
    """Where it is, relative to the root."""
    kind: Kind
    """What it is; a link is not followed."""
    size: int = 0
    """How many bytes a file has."""


@value
class Listing(Value):
    """What was found, in order of path."""

    entries: tuple[Entry, ...]
    """The things."""
    cut: bool = False
    """Whether there are more than were asked for."""


@value
class Search(Value):
    """What to look for in files."""

    pattern: str
    """A regular expression, as Python reads it."""
    path: str = "."
    """A file, or the folder to search with all below it."""
    glob: str = "**"
    """Which files, relative to the folder; without a `/`, the name alone is compared."""
    fixed: bool = False
    """Whether the pattern is plain text."""
    ignore_case: bool = False
    """Whether `a` finds `A`."""
    before: int = 0
    """How many lines before a match are wanted."""
    after: int = 0
    """How many lines behind a match are wanted."""
    ignored: bool = False
    """Whether to search also what `.gitignore` names, and `.git` itself."""
    limit: int = 1000
    """How many matches are wanted at most."""


@value
class Match(Value):
    """One line that matches."""

    path: str
    """The file, relative to the root."""
    number: int
    """Which line, from 1."""
    line: str
    """The line without its end; what is very long is cut."""
    before: tuple[str, ...] = ()
    """The lines before it."""
    after: tuple[str, ...] = ()
    """The lines behind it."""


@value
class Matches(Value):
    """What a search found."""

    matches: tuple[Match, ...]
    """In order of path and line."""
    cut: bool = False
    """Whether it stopped at the limit."""
    searched: int = 0
    """How many files were searched."""
    skipped: int = 0
    """How many were not: no text, too large, or not to be opened."""


@value
class Command(Value):
    """What to run."""

    run: str | tuple[str, ...]
    """A line for a shell, or a program and its arguments, which no shell sees."""
    folder: str = "."
    """Where, relative to the root."""
    timeout: float = 60.0
    """Seconds until it is told to end."""
    env: tuple[tuple[str, str], ...] = ()
    """Variables beside the few that every command gets; nothing of our own environment is passed on."""
    merge: bool = False
    """Whether errors go where the output goes, in the order in which they were written."""
    keep: int = 256 * KIB
    """Bytes of each output that are kept: half of its beginning, half of its end."""


@value
class Output(Value):
    """What was kept of an output."""

    head: bytes = b""
    """Its beginning; all of it if `tail` is empty."""
    tail: bytes = b""
    """Its end."""
    total: int = 0
    """How many bytes were written."""

    @property
    def lost(self) -> int:
        """How many bytes between head and tail were not kept."""
        return self.total - len(self.head) - len(self.tail)

    @property
    def text(self) -> str:
        """The whole as text, with a note where something is missing."""
        note = f"\n[… {self.lost} bytes left out …]\n".encode() if self.lost else b""
        return (self.head + note + self.tail).decode(errors="replace")


@value
class Heard(Value):
    """What a process has written since somebody last listened."""

    data: bytes = b""
    """The bytes that are still kept."""
    next: int = 0
    """Where to go on listening."""
    lost: int = 0
    """How many bytes before `data` were not kept."""


@value
class Execution(Value):
    """How a command ended."""

    exit_code: int
    """What it answered; the negative number of the signal that ended it, if one did."""
    stdout: Output = attrs.field(factory=Output)
    """What it wrote."""
    stderr: Output = attrs.field(factory=Output)
    """What it wrote as errors, unless both were merged."""
    timed_out: bool = False
    """Whether it ran out of time."""
    killed: bool = False
    """Whether somebody called `kill`."""
    clean: bool = True
    """Whether nothing that it started is known, or has to be feared, to be alive."""


OnOutput: TypeAlias = Callable[[bytes], None]
"""Hears each piece of output as it comes; it must return at once."""


class Process(Protocol):
    """A command that was prepared: whoever owns a nursery runs it, others may listen to it and kill it meanwhile."""

    @property
    def execution(self) -> Execution | None:
        """How it ended, if it has."""
        ...

    async def run(self) -> Execution:
        """Start it and wait for its end, once; cancelled, it and all it started are gone when this returns."""
        ...

    def heard(self, since: int = 0) -> Heard:
        """Return what it wrote as output behind byte *since*."""
        ...

    def kill(self) -> None:
        """Have it end: `run` returns soon."""
        ...


class Sandbox(Protocol):
    """Where file tools and shell tools do all that they do."""

    async def read(self, path: str, offset: int = 0, limit: int = MAX_FILE) -> Content:
        """Return up to *limit* bytes of a file."""
        ...

    async def write(self, path: str, data: bytes) -> Written:
        """Make a file hold *data*, with the folders above it: as one step for whoever reads it."""
        ...

    async def edit(self, path: str, old: bytes, new: bytes, *, every: bool = False) -> Edited:
        """Replace *old*, which must occur once, or wherever it occurs; `BadEdit` says how often it does."""
        ...

    async def exists(self, path: str) -> bool:
        """Whether a file or folder is there."""
        ...

    async def list(self, path: str = ".", limit: int = 1000, *, ignored: bool = True) -> Listing:
        """Return what stands in a folder; without *ignored*, not what `.gitignore` names, and not `.git` itself."""
        ...

    async def glob(self, pattern: str, path: str = ".", *, ignored: bool = False, limit: int = 1000) -> Listing:
        """Return the files below a folder that match; `**` matches any number of folders."""
        ...

    async def grep(self, search: Search) -> Matches:
        """Return the lines that match."""
        ...

    def prepare(self, command: Command, on_output: OnOutput | None = None) -> Process:
        """Return a process that can be run in the background of somebody's nursery."""
        ...

    async def execute(self, command: Command, on_output: OnOutput | None = None) -> Execution:
        """Run a command to its end."""
        ...

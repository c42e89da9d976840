"""`Sandbox`: files below one root folder, and confined commands that can be ended; all file and shell tools use it.

A path is text relative to the root, with `/` between its parts. A path that a sandbox never opens raises
`PathRefused`, a missing file `FileMissing`, and a failure of the file system `FileFailed`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import Enum
from typing import Protocol, TypeAlias, runtime_checkable

from agentrail.ports.protocol_members import has_members
from agentrail.values.value import Authored

KIB = 1024
MAX_FILE = 16 * 1024 * KIB
"""The most bytes that one read returns, and of a file that can be edited or searched."""


class Kind(Enum):
    """What a path names: a file, a folder, a link or something else."""

    FILE = "file"
    FOLDER = "folder"
    LINK = "link"
    OTHER = "other"


class Content(Authored, gc=True):
    """The part of a file that was read."""

    data: bytes
    """The bytes from the requested offset on, up to the requested limit."""
    size: int
    """Bytes of the whole file."""


class Written(Authored):
    """Result of writing a file. The write is atomic: a reader sees all of the old content or all of the new."""

    size: int
    """Bytes of the file now."""
    created: bool
    """Whether there was no such file before."""


class Edited(Authored):
    """Result of replacing text in a file."""

    replaced: int
    """Number of places that were replaced."""
    size: int
    """Bytes of the file now."""


class Entry(Authored):
    """One file, folder or link in a folder."""

    path: str
    """Path relative to the root."""
    kind: Kind
    """Whether the entry is a file, a folder or a link; links are not followed."""
    size: int = 0
    """Bytes of a file; 0 for all else."""


class Listing(Authored):
    """Result of `list` and `glob`: entries in order of path."""

    entries: tuple[Entry, ...]
    """The entries that were found."""
    cut: bool = False
    """Whether there may be more: the limit was reached, or the folder has too many entries to look at all."""


class Search(Authored):
    """Arguments of a search in files (`Sandbox.grep`)."""

    pattern: str
    """A regular expression, as Python reads it; with `fixed`, plain text."""
    path: str = "."
    """A file, or a folder that is searched with all its sub-folders."""
    glob: str = "**"
    """Pattern of the files to search, relative to the folder; without a `/`, it is compared with file names alone."""
    fixed: bool = False
    """Whether the pattern is plain text."""
    ignore_case: bool = False
    """Whether `a` finds `A`."""
    before: int = 0
    """Number of lines to return before each match."""
    after: int = 0
    """Number of lines to return after each match."""
    ignored: bool = False
    """Whether to search also what `.gitignore` names, and `.git` itself."""
    limit: int = 1000
    """Largest number of matches to return; then the search stops."""


class Match(Authored):
    """One line that matches."""

    path: str
    """The file, relative to the root."""
    number: int
    """Which line, from 1."""
    line: str
    """The line without its line end; a very long line is cut."""
    before: tuple[str, ...] = ()
    """Lines before the match."""
    after: tuple[str, ...] = ()
    """Lines after the match."""


class Matches(Authored):
    """Result of a search in files."""

    matches: tuple[Match, ...]
    """The matching lines, in order of path and line number."""
    cut: bool = False
    """Whether there may be more: the limit was reached, or the folder has too many files to look at all."""
    searched: int = 0
    """How many files were searched."""
    skipped: int = 0
    """Number of files that were not searched: no text, too large, or not readable."""


class Command(Authored):
    """A command for `Sandbox.execute` or `Sandbox.prepare`."""

    run: str | tuple[str, ...]
    """A command line for a shell; or, as a tuple, a program and its arguments, run without a shell."""
    folder: str = "."
    """Folder to run in, relative to the root."""
    timeout: float = 60.0
    """Seconds after which the command is told to end."""
    env: tuple[tuple[str, str], ...] = ()
    """Environment variables beside the few that each command gets; the environment of this process is not passed on."""
    merge: bool = False
    """Whether standard error is merged into standard output, in the order of writing."""
    keep: int = 256 * KIB
    """Bytes of each output stream that are kept: half from its beginning, half from its end."""


class Output(Authored, gc=True):
    """The kept part of an output stream: its beginning and its end."""

    head: bytes = b""
    """Beginning of the output; all of it if `tail` is empty."""
    tail: bytes = b""
    """End of the output; empty if `head` holds all of it."""
    total: int = 0
    """Number of bytes that the command wrote."""

    @property
    def lost(self) -> int:
        """Number of bytes between `head` and `tail` that were dropped."""
        return self.total - len(self.head) - len(self.tail)

    @property
    def text(self) -> str:
        """The output as text, with a note where bytes were dropped."""
        note = f"\n[… {self.lost} bytes left out …]\n".encode() if self.lost else b""
        return (self.head + note + self.tail).decode(errors="replace")


class Heard(Authored, gc=True):
    """Output of a process from one position on, as `Process.heard` returns it."""

    data: bytes = b""
    """The output from the position `since` on, as far as it is still kept."""
    next: int = 0
    """Position to pass as `since` in the next call of `heard`."""
    lost: int = 0
    """Number of bytes directly before `data` that were dropped."""


class Execution(Authored, gc=True):
    """How a command ended."""

    exit_code: int
    """Exit code of the command; if a signal ended it, the signal's negative number."""
    stdout: Output = Output()
    """Standard output of the command."""
    stderr: Output = Output()
    """Standard error of the command; empty if both streams were merged."""
    timed_out: bool = False
    """Whether the command was ended because its timeout was over."""
    killed: bool = False
    """Whether `Process.kill` was called."""
    clean: bool = True
    """Whether all processes that the command started are known to have ended."""


OnOutput: TypeAlias = Callable[[bytes], None]
"""Callback for each piece of output as it comes; it must return at once."""


class Process(Protocol):
    """A prepared command. One task calls `run`; meanwhile other tasks may read its output and kill it."""

    @property
    def execution(self) -> Execution | None:
        """How the command ended; `None` if it has not ended."""
        ...

    async def run(self) -> Execution:
        """Start the command and wait for its end, once. If cancelled, it ends all that the command started first."""
        ...

    def heard(self, since: int = 0) -> Heard:
        """Return the output that follows byte *since*."""
        ...

    def kill(self) -> None:
        """End the command; the pending `run` returns soon after."""
        ...


class Sandbox(Protocol):
    """Executes all file access and all commands of the built-in tools, confined to one root folder."""

    async def read(self, path: str, offset: int = 0, limit: int = MAX_FILE) -> Content:
        """Return up to *limit* bytes of a file."""
        ...

    async def write(self, path: str, data: bytes) -> Written:
        """Write *data* to a file atomically; missing parent folders are created."""
        ...

    async def edit(self, path: str, old: bytes, new: bytes, *, every: bool = False) -> Edited:
        """Replace *old*, which must occur exactly once unless *every*; else raise `BadEdit` with the number found."""
        ...

    async def exists(self, path: str) -> bool:
        """Whether *path* names an existing file or folder."""
        ...

    async def list(self, path: str = ".", limit: int = 1000, *, ignored: bool = True) -> Listing:
        """Return the entries of a folder; without *ignored*, leave out `.git` and what `.gitignore` names."""
        ...

    async def glob(self, pattern: str, path: str = ".", *, ignored: bool = False, limit: int = 1000) -> Listing:
        """Return the files below a folder whose paths match *pattern*; `**` matches any number of folders."""
        ...

    async def grep(self, search: Search) -> Matches:
        """Return the lines that match *search*."""
        ...

    def prepare(self, command: Command, on_output: OnOutput | None = None) -> Process:
        """Return the command as a process that is not started yet: the caller runs it in a nursery of its own."""
        ...

    async def execute(self, command: Command, on_output: OnOutput | None = None) -> Execution:
        """Run a command and wait for its end."""
        ...


NextPiece: TypeAlias = Callable[[], Awaitable[bytes]]
"""Returns the next bytes of a file that comes from elsewhere; no bytes at its end."""


@runtime_checkable
class OnDisk(Protocol):
    """Interface: a sandbox whose root is a folder of this machine, so that the model is told the path."""

    @property
    def root(self) -> str:
        """The absolute path of the root folder, as commands see it."""
        ...


@runtime_checkable
class HidesPaths(Protocol):
    """Interface: a sandbox whose commands see nothing of some paths, by whatever program they come to them."""

    @property
    def hidden(self) -> tuple[str, ...]:
        """Patterns of these paths, written as in `SecurityGuard.blocked_paths`; one after a `!` is an exception."""
        ...


@runtime_checkable
class SessionSandbox(Protocol):
    """Interface: a sandbox of which each session has its own, such as a container.

    Sub-agents use that of their session.
    """

    def for_session(self) -> Sandbox:
        """Return the sandbox of one session, which has these members, too; nothing runs in it before its first call."""
        ...

    async def pause(self) -> None:
        """Use less until the next call, which goes on with all that was there: the session sleeps."""
        ...

    async def close(self) -> None:
        """End all that runs in it, for good: the session has ended. It gets `CLOSED_WITHIN` seconds."""
        ...


CLOSED_WITHIN = 5.0
"""Seconds that a `SessionSandbox` has to pause or close."""


@runtime_checkable
class Unhides(Protocol):
    """Interface: a sandbox that opens no hidden file for tools, and lets the session itself open them.

    To judge a command, the session looks at what tools and models do not get, such as the settings of git.
    """

    @property
    def unhidden(self) -> Sandbox:
        """A sandbox with the same files, of which nothing is hidden."""
        ...


def unhidden(sandbox: Sandbox) -> Sandbox:
    """Return *sandbox* without what it hides; as it is if it hides nothing."""
    return sandbox.unhidden if has_members(sandbox, Unhides) else sandbox


@runtime_checkable
class Receiver(Protocol):
    """Interface: a sandbox that takes files which are uploaded to a host."""

    async def receive(self, path: str, next_piece: NextPiece) -> Written:
        """Write a new file, whose pieces *next_piece* returns; missing parent folders are created.

        It is there as a whole or not at all: if *next_piece* raises, or the call is cancelled, nothing is left. Raise
        `FileFailed` if *path* exists.
        """
        ...

    async def remove(self, path: str) -> None:
        """Remove a file, or a folder with all that is in it; no-op if there is none."""
        ...

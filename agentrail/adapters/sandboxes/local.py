"""The default sandbox: files below a folder on this machine, and commands as process trees.

Paths of files cannot lead out of the folder. Commands are not confined: they have the rights of this process;
`BubblewrapSandbox` confines them too. Processes that a command starts end with it, even if they call `setsid` or fork
twice. Two kinds remain: a process that leaves the session and then kills its launcher (see `Execution.clean`), and one
that another service, such as cron, was asked to start.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from copy import copy
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import trio

from agentrail.adapters.processes import Launch, ProcessTree, Ready, argv_of, check_environment, clean_environment
from agentrail.adapters.sandboxes.files import DiskFiles, IncomingFile, remove_path
from agentrail.adapters.sandboxes.hidden_paths import HiddenPaths
from agentrail.adapters.sandboxes.kept_files.folder_snapshots import FolderSnapshots
from agentrail.adapters.sandboxes.paths import PROTECTED, parts_of
from agentrail.adapters.sandboxes.searching import Grep, SearchCancelled, find, list_folder, run_search, unlimited_meter
from agentrail.adapters.system import HAS_FOLDERS
from agentrail.errors import SearchTooSlow
from agentrail.plugins.shell.guarded_paths import BLOCKED_PATHS
from agentrail.ports.sandbox import (
    MAX_FILE,
    Command,
    Content,
    Edited,
    Execution,
    Kind,
    Listing,
    Matches,
    NextPiece,
    OnOutput,
    Process,
    Search,
    Written,
)
from agentrail.ports.snapshots import Snapshots
from agentrail.reprs import in_brackets
from agentrail.values.argument_checks import checked

T = TypeVar("T")

THREADS: Final = 8
"""The most threads in which calls of one sandbox use the file system at the same time."""

MAX_SEARCH: Final = 20.0
"""The most seconds that one `grep` may take; then it raises `SearchTooSlow`."""

SHELL: Final = ("/bin/bash", "--noprofile", "--norc", "-c")
PLAIN_SHELL: Final = ("/bin/sh", "-c")


@functools.cache
def shell() -> tuple[str, ...]:
    """Return the command to which a command line is given as the last argument: bash, or `sh` without it."""
    return SHELL if Path(SHELL[0]).exists() else PLAIN_SHELL


class LocalSandbox:
    """Files below *root*, and commands that start there.

    With *hard_links*, files with more than one name are opened too. Files and folders with a name in *protected* cannot
    be changed by `write` and `edit`.

    No file is opened at a path in *hidden*, also if a link leads there; these are patterns as in
    `SecurityGuard.blocked_paths`, and one after a `!`, such as `!.env.test`, is an exception.

    With *snapshots*, the files are kept before and after each call of a tool that is not pure, so that `rewind` can
    bring them back; see the guide "Files that come back".
    """

    __slots__ = ("_env", "_files", "_hidden_paths", "_limiter", "_snapshots", "_writing")

    @checked
    def __init__(
        self,
        root: str | Path,
        *,
        hard_links: bool = False,
        protected: Iterable[str] = PROTECTED,
        env: Iterable[tuple[str, str]] = (),
        hidden: Iterable[str] = BLOCKED_PATHS,
        snapshots: bool = False,
    ) -> None:
        self._hidden_paths = HiddenPaths(hidden)
        self._files = DiskFiles(str(root), self._hidden_paths, hard_links=hard_links, protected=protected)
        self._env = check_environment(env)
        self._snapshots = FolderSnapshots(self._files, hard_links=hard_links) if snapshots and HAS_FOLDERS else None
        self._limiter: trio.CapacityLimiter | None = None
        self._writing: trio.Lock | None = None

    @in_brackets
    def __repr__(self) -> str:
        return repr(self.root)

    @property
    def root(self) -> str:
        """The path of the root folder, with links resolved."""
        return self._files.root

    @property
    def snapshots(self) -> Snapshots | None:
        """Snapshots of the files; `None` if they were not asked for, or this system cannot take them."""
        return self._snapshots

    @property
    def unhidden(self) -> LocalSandbox:
        """The same files, of which nothing is hidden: for the session itself."""
        sandbox = copy(self)
        sandbox._files = self._files.unhidden  # noqa: SLF001 - a copy of its own
        return sandbox

    async def read(self, path: str, offset: int = 0, limit: int = MAX_FILE) -> Content:
        """Return up to *limit* bytes of a file from *offset* on, and its size."""
        return await self._look(lambda: self._files.read(path, offset, limit))

    async def write(self, path: str, data: bytes) -> Written:
        """Write *data* to a file atomically; missing parent folders are created."""
        return await self._change(lambda: self._files.write(path, data))

    async def edit(self, path: str, old: bytes, new: bytes, *, every: bool = False) -> Edited:
        """Replace *old* in a file by *new*; it must occur exactly once unless *every*."""
        return await self._change(lambda: self._files.edit(path, old, new, every=every))

    async def receive(self, path: str, next_piece: NextPiece) -> Written:
        """Write a new file, whose pieces *next_piece* returns; if that raises or is cancelled, nothing is left."""
        file = IncomingFile(self._files, path)
        try:
            await self._in_thread(file.begin)
            while piece := await next_piece():
                await self._in_thread(partial(file.write, piece))
            await self._in_thread(file.keep)
        finally:
            # Shielded: a file without its final name would stay on the disk, and nobody else knows of it.
            # tests/sandboxes/test_receiving.py::test_nothing_is_left_of_a_file_that_does_not_come_to_its_end
            with trio.CancelScope(shield=True):
                await self._in_thread(file.drop)
        return Written(file.size, created=True)

    async def remove(self, path: str) -> None:
        """Remove a file, or a folder with all that is in it; no-op if there is none."""
        await self._change(lambda: remove_path(self._files, path))

    async def exists(self, path: str) -> bool:
        """Whether there is a file or folder at *path*."""
        kind = await self._look(lambda: self._files.kind(path))
        return kind in {Kind.FILE, Kind.FOLDER}

    async def list(self, path: str = ".", limit: int = 1000, *, ignored: bool = True) -> Listing:
        """Return up to *limit* entries of a folder; without *ignored*, none that git ignores."""
        return await self._look(
            lambda: run_search(list_folder(self._files, path, unlimited_meter(), ignored=ignored, limit=limit))
        )

    async def glob(self, pattern: str, path: str = ".", *, ignored: bool = False, limit: int = 1000) -> Listing:
        """Return up to *limit* files below a folder that match *pattern*; without *ignored*, none that git ignores."""
        return await self._look(
            lambda: run_search(find(self._files, pattern, path, unlimited_meter(), ignored=ignored, limit=limit))
        )

    async def grep(self, search: Search) -> Matches:
        """Return the lines that match *search*, found by a process that is stopped after `MAX_SEARCH` seconds."""
        grep = Grep(self._files, search)
        try:
            with trio.move_on_after(MAX_SEARCH):
                return await self._look(grep.run)
        except SearchCancelled:
            pass
        finally:
            grep.stop()
        raise SearchTooSlow(search.pattern, f"{MAX_SEARCH:g} seconds")

    def prepare(self, command: Command, on_output: OnOutput | None = None) -> Process:
        """Return *command* as a process that is not started; the caller starts it by `run`, in its own nursery."""
        parts_of(command.folder)
        env = clean_environment() | self._env | check_environment(command.env)
        argv = argv_of(command, shell())
        launch = Launch(argv[0], env, lambda: Ready(argv, self._files.open_folder(command.folder)))
        return ProcessTree(command, launch, on_output)

    async def execute(self, command: Command, on_output: OnOutput | None = None) -> Execution:
        """Run a command and wait for its end."""
        return await self.prepare(command, on_output).run()

    async def _look(self, work: Callable[[], T]) -> T:
        """Run *work*, which changes nothing, in a thread; if cancelled, do not wait for its end."""
        return await trio.to_thread.run_sync(work, limiter=self._threads(), abandon_on_cancel=True)

    async def _change(self, work: Callable[[], T]) -> T:
        """Run *work*, which changes files, in a thread; one at a time, and to its end even if cancelled."""
        if self._writing is None:
            self._writing = trio.Lock()
        async with self._writing:
            return await self._in_thread(work)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await trio.to_thread.run_sync(work, limiter=self._threads())

    def _threads(self) -> trio.CapacityLimiter:
        if self._limiter is None:  # made at the first use: most sessions have a sandbox and never use it
            self._limiter = trio.CapacityLimiter(THREADS)
        return self._limiter

"""A sandbox with files in memory, for tests; it cannot run commands."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from copy import copy
from typing import Self

import trio

from agentrail.adapters.sandboxes.files import check_data, replace_text
from agentrail.adapters.sandboxes.hidden_paths import NOTHING_HIDDEN, HiddenPaths
from agentrail.adapters.sandboxes.matcher import Matcher, Order, flags_of
from agentrail.adapters.sandboxes.paths import PROTECTED, Parts, Why, check_writable, parts_of, path_of
from agentrail.adapters.sandboxes.searching import (
    LINE_STEPS,
    SeenEnough,
    contents,
    find,
    limited_meter,
    list_folder,
    matches_of,
    order_of,
    run_search_in_slices,
)
from agentrail.errors import BadPattern, CommandRefused, FileFailed, FileMissing, PathRefused, SearchTooSlow
from agentrail.plugins.shell.guarded_paths import BLOCKED_PATHS
from agentrail.plugins.shell.paths import ResolvedPath
from agentrail.ports.sandbox import (
    MAX_FILE,
    Command,
    Content,
    Edited,
    Entry,
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
from agentrail.reprs import in_brackets, some
from agentrail.values.argument_checks import checked
from agentrail.values.patterns import Expression, UnusableError, expression
from agentrail.values.step_budget import Meter, TooManyStepsError
from agentrail.values.value import quick

_made = quick(Entry)

_A_FOLDER = "it is a folder"
_NO_COMMANDS = "this sandbox keeps files in memory and runs nothing"


class MemoryFiles:
    """Files in a dictionary. A folder exists if there is a file below it."""

    __slots__ = ("_folders", "_protected", "files", "hidden_paths")

    def __init__(self, files: Mapping[str, bytes], protected: Iterable[str], hidden: Iterable[str]) -> None:
        for path, data in files.items():
            check_data(path, data)
        self.files: dict[Parts, bytes] = {parts_of(path): data for path, data in files.items()}
        self._folders: dict[Parts, set[str]] = {(): set()}
        for parts in self.files:
            self._add_to_folders(parts)
        self._protected = tuple(protected)
        self.hidden_paths = HiddenPaths(hidden)

    @property
    def unhidden(self) -> Self:
        """The same files, of which nothing is hidden."""
        files = copy(self)
        files.hidden_paths = NOTHING_HIDDEN
        return files

    def _parts_of(self, path: str) -> Parts:
        """Return the parts of *path*; raise `PathRefused` if it is hidden."""
        parts = parts_of(path)
        if self._is_hidden(parts):
            raise PathRefused(path, Why.HIDDEN)
        return parts

    def _is_hidden(self, parts: Parts) -> bool:
        return self.hidden_paths.hides(ResolvedPath(absolute=False, parts=parts))

    def _add_to_folders(self, parts: Parts) -> None:
        """Add the new file *parts* to its folder, and each folder that becomes non-empty by that to its parent."""
        for depth in range(len(parts), 0, -1):
            names = self._folders.setdefault(parts[: depth - 1], set())
            if parts[depth - 1] in names:
                return
            names.add(parts[depth - 1])

    def read(self, path: str, offset: int, limit: int) -> Content:
        """Return up to *limit* bytes of a file from *offset* on, and its size."""
        data = self._data("read", path)
        offset = max(offset, 0)
        return Content(data[offset : offset + min(max(limit, 0), MAX_FILE)], len(data))

    def write(self, path: str, data: bytes) -> Written:
        """Write *data* to a file; missing parent folders are created."""
        parts = self._parts_of(path)
        check_writable(path, parts, self._protected)
        check_data(path, data)
        if self._is_folder(parts):
            raise FileFailed("write", path, _A_FOLDER)
        for depth in range(1, len(parts)):
            if parts[:depth] in self.files:
                raise FileFailed("write", path, f"`{path_of(parts[:depth])}` is a file")
        created = parts not in self.files
        self.files[parts] = data
        if created:
            self._add_to_folders(parts)
        return Written(len(data), created)

    def edit(self, path: str, old: bytes, new: bytes, *, every: bool) -> Edited:
        """Replace *old* in a file by *new*; it must occur exactly once unless *every*."""
        check_writable(path, parts_of(path), self._protected)
        data, times = replace_text(path, self._data("edit", path), old, new, every=every)
        self.write(path, data)
        return Edited(times, len(data))

    def check_new(self, path: str) -> None:
        """Raise `PathRefused` or `FileFailed` unless a new file can be written to *path*."""
        check_writable(path, parts_of(path), self._protected)
        if self.kind(path) is not None:
            raise FileFailed("write", path, "it is there already")

    def remove(self, path: str) -> None:
        """Remove a file, or a folder with all that is in it; no-op if there is none."""
        parts = parts_of(path)
        check_writable(path, parts, self._protected)
        self.files = {other: data for other, data in self.files.items() if other[: len(parts)] != parts}
        self._folders = {(): set()}
        for other in self.files:
            self._add_to_folders(other)

    def kind(self, path: str) -> Kind | None:
        """Return the kind of the file or folder at *path*; `None` if there is none."""
        parts = self._parts_of(path)
        if parts in self.files:
            return Kind.FILE
        return Kind.FOLDER if self._is_folder(parts) else None

    def entries(self, parts: Parts) -> list[Entry]:
        """Return the entries of a folder, sorted by name."""
        if self._is_hidden(parts):
            raise PathRefused(path_of(parts), Why.HIDDEN)
        if parts in self.files:
            raise FileFailed("list", path_of(parts), "it is a file")
        if not self._is_folder(parts):
            raise FileMissing("list", path_of(parts), "folder")
        return [self._entry((*parts, name)) for name in sorted(self._folders[parts])]

    def _entry(self, parts: Parts) -> Entry:
        if parts in self._folders:
            return _made(path_of(parts), Kind.FOLDER)
        return _made(path_of(parts), Kind.FILE, len(self.files[parts]))

    def data(self, parts: Parts) -> bytes | None:
        """Return the content of a file for a search; `None` if there is no such file, or if it is hidden."""
        return None if self._is_hidden(parts) else self.files.get(parts)

    def _data(self, verb: str, path: str) -> bytes:
        parts = self._parts_of(path)
        if self._is_folder(parts):
            raise FileFailed(verb, path, _A_FOLDER)
        if parts not in self.files:
            raise FileMissing(verb, path, "file or folder")
        return self.files[parts]

    def _is_folder(self, parts: Parts) -> bool:
        return parts in self._folders


class MemorySandbox:
    """A sandbox with files in memory; *files* are its first files, by path.

    It opens no file at a path in *hidden*, with patterns as in `LocalSandbox`.
    """

    __slots__ = ("_files",)

    @checked
    def __init__(
        self,
        files: Mapping[str, bytes] | None = None,
        *,
        protected: Iterable[str] = PROTECTED,
        hidden: Iterable[str] = BLOCKED_PATHS,
    ) -> None:
        self._files = MemoryFiles(files or {}, protected, hidden)

    @in_brackets
    def __repr__(self) -> str:
        return some(len(self._files.files), "file") or "empty"

    @property
    def files(self) -> dict[str, bytes]:
        """A copy of the files, by path."""
        return {path_of(parts): data for parts, data in self._files.files.items()}

    @property
    def unhidden(self) -> MemorySandbox:
        """The same files, of which nothing is hidden: for the session itself."""
        sandbox = copy(self)
        sandbox._files = self._files.unhidden  # noqa: SLF001 - a copy of its own
        return sandbox

    async def read(self, path: str, offset: int = 0, limit: int = MAX_FILE) -> Content:
        """Return up to *limit* bytes of a file from *offset* on, and its size."""
        await trio.lowlevel.checkpoint()
        return self._files.read(path, offset, limit)

    async def write(self, path: str, data: bytes) -> Written:
        """Write *data* to a file; missing parent folders are created."""
        await trio.lowlevel.checkpoint()
        return self._files.write(path, data)

    async def edit(self, path: str, old: bytes, new: bytes, *, every: bool = False) -> Edited:
        """Replace *old* in a file by *new*; it must occur exactly once unless *every*."""
        await trio.lowlevel.checkpoint()
        return self._files.edit(path, old, new, every=every)

    async def receive(self, path: str, next_piece: NextPiece) -> Written:
        """Write a new file, whose pieces *next_piece* returns; if that raises or is cancelled, nothing is left."""
        await trio.lowlevel.checkpoint()
        self._files.check_new(path)
        data = bytearray()
        while piece := await next_piece():
            data += piece
        self._files.check_new(path)
        return self._files.write(path, bytes(data))

    async def remove(self, path: str) -> None:
        """Remove a file, or a folder with all that is in it; no-op if there is none."""
        await trio.lowlevel.checkpoint()
        self._files.remove(path)

    async def exists(self, path: str) -> bool:
        """Whether there is a file or folder at *path*."""
        await trio.lowlevel.checkpoint()
        return self._files.kind(path) is not None

    async def list(self, path: str = ".", limit: int = 1000, *, ignored: bool = True) -> Listing:
        """Return up to *limit* entries of a folder; without *ignored*, none that git ignores."""
        await trio.lowlevel.checkpoint()
        meter = limited_meter()
        return await run_search_in_slices(
            list_folder(self._files, path, meter, ignored=ignored, limit=limit), meter, path
        )

    async def glob(self, pattern: str, path: str = ".", *, ignored: bool = False, limit: int = 1000) -> Listing:
        """Return up to *limit* files below a folder that match *pattern*; without *ignored*, none that git ignores."""
        await trio.lowlevel.checkpoint()
        meter = limited_meter()
        search = find(self._files, pattern, path, meter, ignored=ignored, limit=limit)
        return await run_search_in_slices(search, meter, pattern)

    async def grep(self, search: Search) -> Matches:
        """Return the lines that match *search*."""
        await trio.lowlevel.checkpoint()
        order = order_of(search)
        try:
            pattern = expression(order["pattern"], flags_of(order))
        except UnusableError as error:
            raise BadPattern(search.pattern, f"it {error}") from error
        meter = limited_meter()
        return await run_search_in_slices(self._search(search, order, pattern, meter), meter, search.pattern)

    def _search(
        self, search: Search, order: Order, pattern: Expression, meter: Meter
    ) -> Generator[None, None, Matches]:
        in_line = Meter(LINE_STEPS)
        matcher = Matcher(order, lambda line: pattern.found_in(line, in_line))
        unread, cut = 0, False
        files = contents(self._files, search, meter)
        while not matcher.cut:
            try:
                file = next(files)
            except (StopIteration, SeenEnough) as end:
                cut = isinstance(end, SeenEnough)
                break
            yield
            if file is None:
                continue
            path, data = file
            unread += data is None
            try:
                for _ in () if data is None else matcher.look(path, data):
                    meter.spend(1 + LINE_STEPS - in_line.left)  # the steps spent on the previous line
                    in_line.left = LINE_STEPS
                    yield
            except TooManyStepsError:
                if in_line.left >= 0:
                    raise
                raise SearchTooSlow(search.pattern, f"{LINE_STEPS} steps in a line of `{path}`") from None
        return matches_of(matcher.found, matcher.searched, matcher.skipped + unread, cut=cut or matcher.cut)

    def prepare(self, command: Command, on_output: OnOutput | None = None) -> Process:  # noqa: ARG002 - the port's
        """Raise `CommandRefused`: this sandbox cannot run commands."""
        raise CommandRefused(_NO_COMMANDS)

    async def execute(self, command: Command, on_output: OnOutput | None = None) -> Execution:  # noqa: ARG002 - the port's
        """Raise `CommandRefused`: this sandbox cannot run commands."""
        await trio.lowlevel.checkpoint()
        raise CommandRefused(_NO_COMMANDS)

"""Joins several sandboxes to one tree of files: paths below a prefix belong to its sandbox, others to the default."""

from __future__ import annotations

from collections.abc import Awaitable, Generator, Mapping, Sequence
from typing import Final, TypeAlias, TypeVar

from agentrail.adapters.sandboxes.globs import Glob
from agentrail.adapters.sandboxes.paths import Parts, parts_of, path_of
from agentrail.adapters.sandboxes.searching import limited_meter, run_search_in_slices
from agentrail.errors import FileFailed, FileMissing
from agentrail.ports.protocol_members import has_members
from agentrail.ports.sandbox import (
    MAX_FILE,
    Command,
    Content,
    Edited,
    Entry,
    Execution,
    Kind,
    Listing,
    Match,
    Matches,
    NextPiece,
    OnOutput,
    Process,
    Receiver,
    Sandbox,
    Search,
    Written,
    unhidden,
)
from agentrail.reprs import in_brackets, listed, some
from agentrail.values.argument_checks import checked
from agentrail.values.step_budget import Meter

T = TypeVar("T")
Owned: TypeAlias = Sequence[tuple[T, Parts]]
"""Entries or matches that a sandbox has found, each with its path in the whole tree."""

MAX_FOUND: Final = 10_000
"""The most files of one prefix that a `glob` above that prefix gets; if there are more, the result is marked as cut."""

_A_FOLDER: Final = "it is a folder"


class CompositeSandbox:
    """Sends each call to the sandbox with the longest prefix of the path, or to the default.

    `/notes/` and `notes/` are the same prefix, and a path below a prefix may begin with `/`. Commands run in the
    default sandbox, and see no files of the others.
    """

    __slots__ = ("_routes",)

    @checked
    def __init__(self, routes: Mapping[str, Sandbox], default: Sandbox) -> None:
        by_parts = {parts_of(prefix.strip("/")): sandbox for prefix, sandbox in routes.items()}
        self._routes: dict[Parts, Sandbox] = dict(sorted(by_parts.items(), key=lambda route: -len(route[0])))
        self._routes[()] = default

    @in_brackets
    def __repr__(self) -> str:
        return listed(f"beside {self._routes[()]!r}", some(len(self._routes) - 1, "route"))

    @property
    def unhidden(self) -> CompositeSandbox:
        """The same sandboxes, those that hide paths without that: for the session itself."""
        inner = {path_of(prefix): unhidden(sandbox) for prefix, sandbox in self._routes.items() if prefix}
        return CompositeSandbox(inner, unhidden(self._routes[()]))

    async def read(self, path: str, offset: int = 0, limit: int = MAX_FILE) -> Content:
        """Return up to *limit* bytes of a file from *offset* on, and its size."""
        prefix, rest = self._split(path)
        return await self._routes[prefix].read(rest, offset, limit)

    async def write(self, path: str, data: bytes) -> Written:
        """Write *data* to a file; a path above a prefix is a folder and cannot be written."""
        prefix, rest = self._split(path)
        if self._below((*prefix, *parts_of(rest))):
            raise FileFailed("write", path, _A_FOLDER)
        return await self._routes[prefix].write(rest, data)

    async def edit(self, path: str, old: bytes, new: bytes, *, every: bool = False) -> Edited:
        """Replace *old* in a file by *new*; it must occur exactly once unless *every*."""
        prefix, rest = self._split(path)
        return await self._routes[prefix].edit(rest, old, new, every=every)

    async def receive(self, path: str, next_piece: NextPiece) -> Written:
        """Write a new file, whose pieces *next_piece* returns; raise `FileFailed` if its sandbox is no `Receiver`."""
        prefix, rest = self._split(path)
        if self._below((*prefix, *parts_of(rest))):
            raise FileFailed("write", path, _A_FOLDER)
        return await self._receiver("write", prefix, path).receive(rest, next_piece)

    async def remove(self, path: str) -> None:
        """Remove a file or folder, but no prefix, and nothing above one."""
        prefix, rest = self._split(path)
        if self._below((*prefix, *parts_of(rest))):
            raise FileFailed("remove", path, "parts of it belong to other sandboxes")
        await self._receiver("remove", prefix, path).remove(rest)

    async def exists(self, path: str) -> bool:
        """Whether there is a file or folder at *path*; each path above a prefix is a folder."""
        prefix, rest = self._split(path)
        return await self._routes[prefix].exists(rest) or bool(self._below((*prefix, *parts_of(rest))))

    async def list(self, path: str = ".", limit: int = 1000, *, ignored: bool = True) -> Listing:
        """Return up to *limit* entries of a folder, with prefixes below it as folders."""
        prefix, rest = self._split(path)
        parts = (*prefix, *parts_of(rest))
        folders = {path_of(path_[: len(parts) + 1]) for path_ in self._below(parts)}
        listing = await _if_there(self._routes[prefix].list(rest, limit, ignored=ignored), Listing(()), bool(folders))
        entries = [path_ for entry in listing.entries if (path_ := _under_prefix(entry, prefix)).path not in folders]
        entries = sorted([*entries, *(Entry(path_, Kind.FOLDER) for path_ in folders)], key=_by_path)
        return Listing(tuple(entries[:limit]), listing.cut or len(entries) > limit)

    async def glob(self, pattern: str, path: str = ".", *, ignored: bool = False, limit: int = 1000) -> Listing:
        """Return the files below a folder that match *pattern*, also those of sandboxes with a prefix below it."""
        prefix, rest = self._split(path)
        start = (*prefix, *parts_of(rest))
        below, glob_, meter = self._below(start), Glob(pattern), limited_meter()
        search = self._routes[prefix].glob(pattern, rest, ignored=ignored, limit=limit)
        listing = await _if_there(search, Listing(()), bool(below))
        entries_ = [_under_prefix(entry, prefix) for entry in listing.entries]
        entries_ = [entry for entry in entries_ if self._owner(tuple(entry.path.split("/"))) == prefix]
        for other in below:
            more = await self._routes[other].glob("**", ignored=ignored, limit=MAX_FOUND)
            listing = listing.but(cut=listing.cut or more.cut)
            moved = [_under_prefix(entry, other) for entry in more.entries]
            theirs = [
                (entry_, parts) for entry_ in moved if self._owner(parts := tuple(entry_.path.split("/"))) == other
            ]
            entries_ += await run_search_in_slices(_matching(glob_, start, theirs, meter), meter, pattern)
        entries_.sort(key=_by_path)
        return Listing(tuple(entries_[:limit]), listing.cut or len(entries_) > limit)

    async def grep(self, search: Search) -> Matches:
        """Return the lines that match *search*, also those of sandboxes with a prefix below its path."""
        prefix, rest = self._split(search.path)
        start = (*prefix, *parts_of(rest))
        below, glob, meter = self._below(start), Glob(search.glob), limited_meter()
        mine = self._routes[prefix].grep(search.but(path=rest))
        results = {prefix: await _if_there(mine, Matches(()), bool(below))}
        for other in below:
            results[other] = await self._routes[other].grep(search.but(path=".", glob="**"))
        matches: list[Match] = []
        for owner, result in results.items():
            paths = [(match, (*owner, *match.path.split("/"))) for match in result.matches]
            owned = [(match.but(path=path_of(parts)), parts) for match, parts in paths if self._owner(parts) == owner]
            if owner == prefix:
                matches += [match for match, _ in owned]
            else:
                matches += await run_search_in_slices(_matching(glob, start, owned, meter), meter, search.glob)
        matches.sort(key=lambda match: (match.path, match.number))
        return Matches(
            tuple(matches[: search.limit]),
            len(matches) > search.limit or any(result.cut for result in results.values()),
            sum(result.searched for result in results.values()),
            sum(result.skipped for result in results.values()),
        )

    def prepare(self, command: Command, on_output: OnOutput | None = None) -> Process:
        """Return *command* as a process of the default sandbox, not started."""
        return self._routes[()].prepare(command, on_output)

    async def execute(self, command: Command, on_output: OnOutput | None = None) -> Execution:
        """Run a command in the default sandbox."""
        return await self._routes[()].execute(command, on_output)

    def _split(self, path: str) -> tuple[Parts, str]:
        """Return the prefix that *path* belongs to, and the rest of the path; for the default, the whole path."""
        parts = parts_of(path.lstrip("/") or path)
        prefix = self._owner(parts)
        return (prefix, path_of(parts[len(prefix) :])) if prefix else (prefix, path)

    def _receiver(self, verb: str, prefix: Parts, path: str) -> Receiver:
        sandbox = self._routes[prefix]
        if not has_members(sandbox, Receiver):
            raise FileFailed(verb, path, "its sandbox has no `receive` and no `remove`")
        return sandbox

    def _owner(self, parts: Parts) -> Parts:
        return next(prefix for prefix in self._routes if parts[: len(prefix)] == prefix)

    def _below(self, parts: Parts) -> tuple[Parts, ...]:
        """Return the prefixes below the folder *parts*."""
        return tuple(route for route in self._routes if len(route) > len(parts) and route[: len(parts)] == parts)


async def _if_there(awaitable: Awaitable[T], nothing: T, may_miss: bool) -> T:
    """Return the result of *awaitable*, or *nothing* if its folder is missing and *may_miss* is true.

    A folder that exists only because there are prefixes below it may be missing in the sandbox.
    """
    try:
        return await awaitable
    except FileMissing:
        if may_miss:
            return nothing
        raise


def _under_prefix(entry: Entry, prefix: Parts) -> Entry:
    return entry.but(path=path_of((*prefix, *entry.path.split("/")))) if prefix else entry


def _by_path(entry: Entry) -> str:
    return entry.path


def _matching(glob: Glob, start: Parts, owned: Owned[T], meter: Meter) -> Generator[None, None, list[T]]:
    """Return the items of *owned* whose path below *start* matches *glob*.

    It yields between them, so that the caller can let other tasks run.
    """
    matching: list[T] = []
    for item, parts in owned:
        yield
        if glob.matches(parts[len(start) :], meter):
            matching.append(item)
    return matching

"""Walks folders and searches files, without blocking the event loop and without following links."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Generator, Iterable, Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import IO, Final, TypeVar, cast

import trio

from agentrail.adapters.sandboxes.files import FileStore
from agentrail.adapters.sandboxes.globs import Glob, Ignored, lines_of
from agentrail.adapters.sandboxes.matcher import Found, Order
from agentrail.adapters.sandboxes.paths import Parts, parts_of
from agentrail.errors import AgentrailError, BadPattern, FileMissing, SearchTooSlow
from agentrail.ports.sandbox import Entry, Kind, Listing, Match, Matches, Search
from agentrail.values.step_budget import Meter, TooManyStepsError

MAX_SEEN: Final = 200_000
"""The most files and folders that one walk visits; if there are more, it raises `SeenEnough`."""

LINE_STEPS: Final = 50_000
"""The most steps of a search in one line (more raise `SearchTooSlow`), and the steps after which other tasks run."""

SEARCH_STEPS: Final = 2_000_000
"""The most steps of one search in the event loop; more raise `SearchTooSlow`. They take less than two seconds."""

T = TypeVar("T")

_MATCHER: Final = str(Path(__file__).with_name("matcher.py"))


def limited_meter() -> Meter:
    """Return a meter for a search in the event loop, with a limit of steps."""
    return Meter(SEARCH_STEPS)


def unlimited_meter() -> Meter:
    """Return a meter without a limit, for a search in a thread, which does not block the event loop."""
    return Meter(sys.maxsize)


class SearchCancelled(Exception):  # noqa: N818 - a signal between our own functions
    """Raised in a search whose caller was cancelled."""


class SeenEnough(Exception):  # noqa: N818 - a signal between our own functions
    """Raised by `walk` when it has visited `MAX_SEEN` files and folders, and there are more."""


def walk(storage: FileStore, start: Parts, meter: Meter, *, ignored: bool) -> Iterator[Entry | None]:
    """Yield the files below *start*, sorted by name in each folder; with *ignored*, also those that `.gitignore` names.

    Spend steps of *meter*, and yield `None` between them, so that the caller can let other tasks run. Raise
    `SeenEnough` if there are more than `MAX_SEEN` files and folders.
    """
    above = Ignored() if ignored else (yield from _rules_above(storage, start, meter))
    stack: list[tuple[Ignored, Iterator[Entry]]] = [(above, iter(storage.entries(start)))]
    count = 0
    while stack:
        rules, entries = stack[-1]
        entry = next(entries, None)
        if entry is None:
            stack.pop()
            continue
        count += 1
        if count > MAX_SEEN:
            raise SeenEnough
        meter.spend(1)
        yield None
        parts = tuple(entry.path.split("/"))
        is_folder = entry.kind is Kind.FOLDER
        if not ignored and (parts[-1] == ".git" or rules.names(parts, meter, folder=is_folder)):
            continue
        if is_folder:
            with suppress(AgentrailError):  # the folder was removed, is not readable, or on another file system
                below = storage.entries(parts)
                if not ignored and any(entry_.path.endswith("/.gitignore") for entry_ in below):
                    rules = yield from _rules(storage, parts, rules, meter)
                stack.append((rules, iter(below)))
        elif entry.kind is Kind.FILE:
            yield entry


def _rules_above(storage: FileStore, start: Parts, meter: Meter) -> Generator[None, None, Ignored]:
    rules = Ignored()
    for depth in range(len(start) + 1):
        rules = yield from _rules(storage, start[:depth], rules, meter)
    return rules


def _rules(storage: FileStore, folder: Parts, above: Ignored, meter: Meter) -> Generator[None, None, Ignored]:
    rules = Ignored(above, folder)
    yield from rules.reading(lines_of(storage.data((*folder, ".gitignore"))), meter)
    return rules


def run_search(search: Generator[None, None, T]) -> T:
    """Run the generator *search* to its end, without pauses, and return its result."""
    while True:
        try:
            next(search)
        except StopIteration as end:
            return cast("T", end.value)


async def run_search_in_slices(search: Generator[None, None, T], meter: Meter, pattern: str) -> T:
    """Run the generator *search* to its end and return its result; other tasks run after each `LINE_STEPS` of *meter*.

    Raise `SearchTooSlow`, which names *pattern*, if the meter has no steps left.
    """
    rest_at = meter.left - LINE_STEPS
    while True:
        try:
            next(search)
        except StopIteration as end:
            return cast("T", end.value)
        except TooManyStepsError:
            raise SearchTooSlow(pattern, f"{SEARCH_STEPS} steps") from None
        if meter.left < rest_at:
            rest_at = meter.left - LINE_STEPS
            await trio.lowlevel.checkpoint()


def list_folder(
    storage: FileStore, path: str, meter: Meter, *, ignored: bool, limit: int
) -> Generator[None, None, Listing]:
    """Return the entries of a folder; yield between them, so that the caller can let other tasks run."""
    parts = parts_of(path)
    entries = storage.entries(parts)
    if not ignored:
        rules = yield from _rules_above(storage, parts, meter)
        remaining: list[Entry] = []
        for entry in entries:
            yield
            if not _is_ignored(entry, rules, meter):
                remaining.append(entry)
        entries = remaining
    return Listing(tuple(entries[:limit]), len(entries) > limit)


def _is_ignored(entry: Entry, rules: Ignored, meter: Meter) -> bool:
    parts = tuple(entry.path.split("/"))
    return parts[-1] == ".git" or rules.names(parts, meter, folder=entry.kind is Kind.FOLDER)


def find(
    storage: FileStore, pattern: str, path: str, meter: Meter, *, ignored: bool, limit: int
) -> Generator[None, None, Listing]:
    """Return the files below *path* that match *pattern*; yield between them, so that other tasks can run."""
    glob, start = Glob(pattern), parts_of(path)
    entries: list[Entry] = []
    try:
        for entry in walk(storage, start, meter, ignored=ignored):
            if entry is None:
                yield
            elif glob.matches(tuple(entry.path.split("/"))[len(start) :], meter):
                if len(entries) >= limit:
                    return Listing(tuple(entries), cut=True)
                entries.append(entry)
    except SeenEnough:
        return Listing(tuple(entries), cut=True)
    return Listing(tuple(entries))


def order_of(search: Search) -> Order:
    """Return *search* as an order for `matcher`."""
    return Order(
        pattern=re.escape(search.pattern) if search.fixed else search.pattern,
        ignore_case=search.ignore_case,
        before=max(search.before, 0),
        after=max(search.after, 0),
        limit=max(search.limit, 1),
    )


def contents(storage: FileStore, search: Search, meter: Meter) -> Iterator[tuple[str, bytes | None] | None]:
    """Yield the path and content of each file to search; the content is `None` if it cannot be read.

    `None` alone is yielded between files, so that the caller can let other tasks run. Raise `SeenEnough`
    as `walk` does.
    """
    parts = parts_of(search.path)
    glob = Glob(search.glob)
    kind = storage.kind(search.path)
    if kind is None:
        raise FileMissing("search", search.path, "file or folder")
    if kind is not Kind.FOLDER:
        storage.read(search.path, 0, 0)  # an unreadable file raises here; in a folder, it would be skipped
        yield "/".join(parts), storage.data(parts)
        return
    for entry in walk(storage, parts, meter, ignored=search.ignored):
        if entry is None:
            yield None
        elif glob.matches(tuple(entry.path.split("/"))[len(parts) :], meter):
            yield entry.path, storage.data(tuple(entry.path.split("/")))


class Grep:
    """One search in a separate process. `run` blocks its thread; `stop` may be called from another one."""

    __slots__ = ("_child", "_cut", "_search", "_stopped", "_storage")

    def __init__(self, storage: FileStore, search: Search) -> None:
        self._storage = storage
        self._search = search
        self._child: subprocess.Popen[bytes] | None = None
        self._cut = False
        self._stopped = False

    def stop(self) -> None:
        """Stop the search; `run` raises `SearchCancelled` soon after."""
        self._stopped = True
        if self._child is not None:
            self._child.kill()

    def run(self) -> Matches:
        """Search, and return the matches; block until all files are read, or enough is found."""
        order = order_of(self._search)
        files = self._files()
        # the first file is read before the process is started, so that an error in the path is raised first
        first = next(files, None)
        if first is None:
            return Matches((), self._cut)
        with subprocess.Popen(  # noqa: S603 - our own script
            [sys.executable, "-I", "-S", _MATCHER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={},
            start_new_session=True,
        ) as child:
            self._child = child
            try:
                if self._stopped or child.stdin is None or child.stdout is None:
                    raise SearchCancelled
                skipped = self._tell(child.stdin, order, chain((first,), files))
                answer = child.stdout.read()
            finally:
                child.kill()
        return _parse_reply(answer, self._search.pattern, skipped, cut=self._cut)

    def _files(self) -> Iterator[tuple[str, bytes | None]]:
        """Yield the files of `contents` without its pauses; set `cut` if there are more than it visits."""
        try:
            yield from filter(None, contents(self._storage, self._search, unlimited_meter()))
        except SeenEnough:
            self._cut = True

    def _tell(self, child: IO[bytes], order: Order, files: Iterable[tuple[str, bytes | None]]) -> int:
        """Write the order and the files to the child process; return how many files could not be read."""
        skipped = 0
        try:
            child.write(json.dumps(order).encode() + b"\n")
            for path, data in files:
                if self._stopped:
                    raise SearchCancelled
                if data is None:
                    skipped += 1
                else:
                    child.write(json.dumps([path, len(data)]).encode() + b"\n" + data)
        except BrokenPipeError:
            pass  # the child has closed its input: it has found enough, or was stopped
        finally:
            with suppress(BrokenPipeError):
                child.close()
        return skipped


def _parse_reply(answer: bytes, pattern: str, skipped: int, *, cut: bool) -> Matches:
    if not answer:
        raise SearchCancelled
    reply = cast("dict[str, object]", json.loads(answer))
    if "flaw" in reply:
        raise BadPattern(pattern, str(reply["flaw"]))
    return matches_of(
        cast("list[Found]", reply["found"]),  # the types are those that `matcher.py` writes
        cast("int", reply["searched"]),
        skipped + cast("int", reply["skipped"]),
        cut=cut or bool(reply["cut"]),
    )


def matches_of(rows: list[Found], searched: int, skipped: int, *, cut: bool) -> Matches:
    """Return the matches that `matcher` found as `Matches`, the result of `Sandbox.grep`."""
    lines = (Match(path, number, line, tuple(above), tuple(below)) for path, number, line, above, below in rows)
    return Matches(tuple(lines), cut, searched, skipped)

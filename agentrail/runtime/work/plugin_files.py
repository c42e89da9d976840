"""Carries out what plugins ask about files: finding names (`FindFiles`), and replacing files that sessions share."""

from __future__ import annotations

import fnmatch
import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import trio

from agentrail.errors import BadEdit, FileFailed, FileMissing, OutsideError
from agentrail.hooks.actions import FindFiles
from agentrail.ports.protocol_members import has_members
from agentrail.ports.sandbox import MAX_FILE, Receiver, Sandbox, unhidden

MAX_FOUND: Final = 100
"""The most paths that are found; if there are more, the request fails."""

MAX_LISTED: Final = 100_000
"""The most files of one folder that are looked at; if there are more, the request fails."""

AT_ONCE: Final = 500
"""Paths that are compared before other tasks run."""

INDEX: Final = ".git/index"
READABLE: Final = frozenset({2, 3})
"""Versions of git's index that can be read; in others paths are shortened."""

_HEAD: Final = 12
_STAT: Final = 62
"""Bytes of an entry before its path."""
_MODE: Final = 24
"""Where the mode of an entry is in it."""
_FLAGS: Final = 60
_EXTENDED: Final = 0x4000
"""Bit in the flags of an entry: two more bytes of flags follow."""
_LONGEST: Final = 0xFFF
"""Bits in the flags of an entry: the length of its path, or this if the path is longer."""
_ALIGNED: Final = 8
_CHECKSUM: Final = 20
_SKIPPED: Final = bytes(_CHECKSUM)
"""In the place of the checksum, if git is told to do without (`index.skipHash`, part of `feature.manyFiles`)."""
_EXTENSION: Final = 8


async def find_files(sandbox: Sandbox, request: FindFiles) -> tuple[str, ...]:
    """Return the paths that *request* asks for, in order; raise `OutsideError` if not all could be looked at."""
    sandbox = unhidden(sandbox)  # names alone are told
    matcher = Wanted(request.names)
    paths: set[str] = set()
    for folder in request.folders:
        await _add(paths, matcher, await _on_disk(sandbox, folder, ignored=request.ignored), folder)
    for folder in request.tracked:
        await _add(paths, matcher, await _in_index(sandbox, folder), folder)
    return tuple(sorted(paths))


async def _add(found_paths: set[str], matcher: Wanted, paths: Iterable[str], folder: str) -> None:
    """Add to *found_paths* the beginnings of *paths* that end in a wanted name."""
    for number, path in enumerate(paths):
        if number % AT_ONCE == 0:
            await trio.lowlevel.checkpoint()
        beginning = matcher.beginning(path.split("/"))
        if beginning is not None:
            found_paths.add(beginning)
            if len(found_paths) > MAX_FOUND:
                raise OutsideError("not-readable", folder, f"more than {MAX_FOUND} files in it have one of the names")


class Wanted:
    """Names to look for."""

    __slots__ = ("_patterns", "_plain")

    def __init__(self, names: Iterable[str]) -> None:
        folded = [name.casefold() for name in names]
        self._plain = frozenset(folded)
        wild = [fnmatch.translate(name) for name in folded if not {"*", "?", "["}.isdisjoint(name)]
        self._patterns = [re.compile(pattern) for pattern in wild]

    def beginning(self, parts: Sequence[str]) -> str | None:
        """Return the path *parts* up to the first part with a wanted name; `None` if no part has one."""
        for index, part in enumerate(parts):
            folded = part.casefold()
            if folded in self._plain or any(pattern.match(folded) for pattern in self._patterns):
                return "/".join(parts[: index + 1])
        return None


async def _on_disk(sandbox: Sandbox, folder: str, *, ignored: bool) -> Iterable[str]:
    """Return the paths below *folder* on the disk; raise `OutsideError` if there are too many."""
    try:
        listing = await sandbox.glob("**", folder, ignored=ignored, limit=MAX_LISTED)
    except FileMissing:
        return ()
    except FileFailed:
        await sandbox.read(folder, 0, 0)  # raises if *folder* is no file; a file has no paths below it
        return ()
    if listing.cut:
        raise OutsideError("not-readable", folder, "it has too many files to look through")
    return (entry.path for entry in listing.entries)


async def _in_index(sandbox: Sandbox, folder: str) -> Iterable[str]:
    """Return the paths below *folder* that the index of the nearest repository at or above it has."""
    parts = [part for part in folder.split("/") if part not in {"", "."}]
    for depth in range(len(parts), -1, -1):
        above = "".join(f"{part}/" for part in parts[:depth])
        try:
            content = await sandbox.read(above + INDEX, 0, MAX_FILE)
        except FileMissing:
            continue
        if content.size > len(content.data):
            raise OutsideError("not-readable", above + INDEX, f"it is larger than {MAX_FILE} bytes")
        below = "".join(f"{part}/" for part in parts)
        return (path for name in paths_of_index(content.data) if (path := above + name).startswith(below))
    raise OutsideError("not-readable", INDEX, "there is no repository of git whose files could be looked through")


def paths_of_index(data: bytes) -> Iterator[str]:
    """Yield the paths in git's index *data*; raise `OutsideError` as `entries_of_index` does."""
    return (path for _, path in entries_of_index(data))


def entries_of_index(data: bytes) -> Iterator[tuple[int, str]]:
    """Yield mode and path of each entry of git's index *data*.

    Raise `OutsideError` if it does not name all files in a form known here.
    """
    if data[:4] != b"DIRC" or _number(data, 4) not in READABLE:
        raise OutsideError("not-readable", INDEX, "it has another form than versions 2 and 3 of git's index")
    content, checksum = data[:-_CHECKSUM], data[-_CHECKSUM:]
    if checksum not in {_SKIPPED, hashlib.sha1(content, usedforsecurity=False).digest()}:
        raise OutsideError("not-readable", INDEX, "its SHA-1 does not fit")
    offset = _HEAD
    for _ in range(_number(content, 8)):
        flags = int.from_bytes(content[offset + _FLAGS : offset + _STAT], "big")
        start = offset + _STAT + (2 if flags & _EXTENDED else 0)
        end = content.find(0, start)
        # Without a checksum, only this tells an index in which names begin elsewhere, as with SHA-256
        if end < 0 or min(end - start, _LONGEST) != flags & _LONGEST:
            raise OutsideError("not-readable", INDEX, "an entry has not the length that it names")
        yield _number(content, offset + _MODE), content[start:end].decode(errors="replace")
        offset += (end - offset) // _ALIGNED * _ALIGNED + _ALIGNED
    while offset < len(content):
        if not content[
            offset : offset + 1
        ].isupper():  # this extension means that some files are named in another index file
            raise OutsideError("not-readable", INDEX, f"its part {content[offset : offset + 4]!r} is not known")
        offset += _EXTENSION + _number(content, offset + 4)
    if offset != len(content):
        raise OutsideError("not-readable", INDEX, "it ends in the midst of a part")


def _number(data: bytes, offset: int) -> int:
    """Return the 32-bit number at offset *offset* of git's index."""
    return int.from_bytes(data[offset : offset + 4], "big")


async def replace_file(sandbox: Sandbox, path: str, data: bytes, old: bytes | None) -> None:
    """Write *data* to a file that holds *old*; `None`: to a new file. No-op if the file holds *data* already.

    Raise `FileFailed` if it holds anything else, also if that is written at the same moment; only what is added to
    *old* at the same moment stays, and stands after *data*.
    """
    content = await data_of_file(sandbox, path, max(len(data), len(old or b"")) + 1)
    if content == data:
        return
    if content != old:
        raise _changed(path)
    if old is None:
        await _create(sandbox, path, data)
    elif not old:  # an edit needs some text to replace, so an empty file is written whole
        await sandbox.write(path, data)
    else:
        try:
            # An edit fails if the file has changed since it was read; a write would overwrite that.
            await sandbox.edit(path, old, data)
        except (BadEdit, FileMissing) as error:
            raise _changed(path) from error


async def data_of_file(sandbox: Sandbox, path: str, most: int = MAX_FILE) -> bytes | None:
    """Return up to *most* bytes of a file; `None` if there is none."""
    try:
        return (await sandbox.read(path, 0, most)).data
    except FileMissing:
        return None


async def _create(sandbox: Sandbox, path: str, data: bytes) -> None:
    """Write a new file; raise `FileFailed` if there is one by now."""
    if has_members(sandbox, Receiver):
        try:
            await sandbox.receive(path, _Pieces(data).next)
        except FileFailed as error:
            failed = error
        else:
            return
        if await data_of_file(sandbox, path, 1) is not None:
            raise _changed(path) from failed
    await sandbox.write(path, data)  # the disk, or a sandbox below a prefix, cannot receive files


class _Pieces:
    """Source for `Receiver.receive` that gives a file in one piece."""

    __slots__ = ("_left",)

    def __init__(self, data: bytes) -> None:
        self._left = data

    async def next(self) -> bytes:
        """Return the whole file at the first call, then nothing."""
        await trio.lowlevel.checkpoint()
        piece, self._left = self._left, b""
        return piece


def _changed(path: str) -> FileFailed:
    """Return the error for a file that does not hold the text to be replaced."""
    return FileFailed("write", path, "it does not hold the text that is to be replaced; read it again")

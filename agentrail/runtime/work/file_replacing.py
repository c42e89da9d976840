"""Replaces files that several sessions may write: none of them takes away what another one has written."""

from __future__ import annotations

import trio

from agentrail.errors import BadEdit, FileFailed, FileMissing
from agentrail.ports.sandbox import MAX_FILE, Receiver, Sandbox


async def replace_file(sandbox: Sandbox, path: str, data: bytes, before: bytes | None) -> None:
    """Write *data* to a file that holds *before*; `None`: to a new file. No-op if the file holds *data* already.

    Raise `FileFailed` if it holds anything else, also if that is written at the same moment; only what is added to
    *before* at the same moment stays, and stands after *data*.
    """
    found = await data_of_file(sandbox, path, max(len(data), len(before or b"")) + 1)
    if found == data:
        return
    if found != before:
        raise _changed(path)
    if before is None:
        await _create(sandbox, path, data)
    elif not before:  # in an empty file there is nothing that an edit could replace
        await sandbox.write(path, data)
    else:
        try:
            await sandbox.edit(path, before, data)  # a write would replace what has changed since it was read
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
    if isinstance(sandbox, Receiver):
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
    """A file in one piece."""

    __slots__ = ("_left",)

    def __init__(self, data: bytes) -> None:
        self._left = data

    async def next(self) -> bytes:
        """Return the whole, and then nothing."""
        await trio.lowlevel.checkpoint()
        piece, self._left = self._left, b""
        return piece


def _changed(path: str) -> FileFailed:
    return FileFailed("write", path, "it does not hold the text that is to be replaced; read it again")

"""`ArchiveWriter`: writes sessions to an export file, which has its name only when all of them are in it.

Until then the file is named `NAME.part`. What a writer that was killed has left there is gone on with: its whole
sessions stay, and the one that it was writing is dropped.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import BinaryIO, Final

import trio

from agentrail.adapters.file_lock import open_lock_file, try_lock_file
from agentrail.adapters.journals.archive_reader import (
    BEGINNING,
    KIND,
    VERSION,
    ArchivedSession,
    ArchiveReader,
    check_of_end,
    open_archive,
    outside,
    scanned,
)
from agentrail.adapters.journals.message_index import MessageReferences
from agentrail.adapters.journals.missing_folders import missing_folder
from agentrail.adapters.journals.packing import NO_CHECK, checksum_of
from agentrail.adapters.journals.stored_form import stored_record
from agentrail.adapters.journals.text_dedup import share_texts
from agentrail.codec.json_text import to_text
from agentrail.codec.values import write
from agentrail.codec.versions import FORMAT
from agentrail.errors import BadId, FileFailed
from agentrail.ports.journal import NO_LEASE, Claim, Lease, Record, check_numbers
from agentrail.values.json import JsonObject
from agentrail.values.session_ids import follows_grammar

BUSY: Final = "another process writes it"
FOREIGN: Final = "it is not what a copy that was cut has left; remove it, or give another path"
MADE: Final = "it was made by somebody else meanwhile"
NOT_REPLACED: Final = "it is no regular file, and is not replaced; give another path"

IS_FINISHED: Final = "the file is finished, and nothing is added to one; copy to another file"
HAS_ENDED: Final = "the session has its end in the file, and nothing is added to one; copy to another file"


class CannotAddError(Exception):
    """A file takes no records of a session; the others can be written."""


class ArchiveWriter(ArchiveReader):
    """Writes one session after the other: `claim` begins it, `release` ends it. What was written can be read.

    A file that *is_finished* is only read, to compare what is in it.
    """

    def __init__(
        self, path: Path, file: BinaryIO, archived: Iterable[ArchivedSession], *, is_finished: bool = False
    ) -> None:
        super().__init__(path, file, archived)
        self._is_finished = is_finished
        self._check = NO_CHECK
        self._references = MessageReferences()

    async def claim(self, session_id: str, holder: str, lease: Lease = NO_LEASE) -> Claim:
        """Begin a session; raise `CannotAddError` if the file is finished, or has the session already.

        Raise `BadId` for an id with which nothing could read the file again.
        """
        del holder, lease  # the lock on the file keeps others away
        if self._is_finished or session_id in self._sessions:
            raise CannotAddError(IS_FINISHED if self._is_finished else HAS_ENDED)
        if not follows_grammar(session_id):
            raise BadId(session_id)
        self._check, self._references = NO_CHECK, MessageReferences()
        self._sessions[session_id] = ArchivedSession(session_id, 0)
        await self._write_line({"kind": KIND, "version": VERSION, "session": session_id})
        return Claim(session_id, 0, 0)

    async def append(self, claim: Claim, expected: int, records: Sequence[Record]) -> int:
        """Write *records*, after record number *expected*, to the session that was begun last."""
        check_numbers(claim, expected, records)
        await trio.to_thread.run_sync(self._append, self._sessions[claim.session_id], records)
        return expected + len(records)

    async def release(self, claims: Sequence[Claim]) -> None:
        """End the session that was begun last."""
        for claim in claims:
            count = self._sessions[claim.session_id].sound
            check = check_of_end(self._check, claim.session_id, count)
            await self._write_line({"check": check.hex(), "end": count})

    async def _write_line(self, line: JsonObject) -> None:
        await trio.to_thread.run_sync(self._write, f"{to_text(line)}\n".encode())

    def _append(self, session: ArchivedSession, records: Sequence[Record]) -> None:
        for record in records:
            body = share_texts(write(stored_record(record, self._references)))
            self._check = checksum_of(self._check, outside(FORMAT, session.session_id), body)
            line = f'{{"check":"{self._check.hex()}","format":{FORMAT},"record":{body.decode()}}}\n'
            session.offsets.append(self._write(line.encode()))
            session.sound += 1

    def _write(self, line: bytes) -> int:
        """Write a line at the end of the file; return its offset."""
        try:
            offset = self.file.seek(0, os.SEEK_END)
            self.file.write(line)
        except OSError as error:
            raise _failure(self.path, error) from error
        return offset


@asynccontextmanager
async def open_archive_writer(path: Path, *, replaces: bool = False) -> AsyncGenerator[ArchiveWriter, None]:
    """Open an export file for writing; give it the name *path* when the block ends without an exception.

    A file *path* that exists is left as it is, and the writer only reads it, unless it *replaces* that file.
    """
    if not replaces and await trio.Path(path).exists():
        async with open_archive(path) as reader:
            yield ArchiveWriter(path, reader.file, reader.archived, is_finished=True)
        return
    if await trio.Path(path).exists() and not await trio.Path(path).is_file():
        raise FileFailed("write", str(path), NOT_REPLACED)
    part = path.with_name(f"{path.name}.part")
    file, sessions = await trio.to_thread.run_sync(_opened, part, replaces)
    with file:
        yield ArchiveWriter(path, file, sessions)
        await trio.to_thread.run_sync(_finish, file, part, path, replaces)


def _opened(part: Path, is_new: bool) -> tuple[BinaryIO, list[ArchivedSession]]:
    """Open the unfinished file *part* and lock it; return it with the whole sessions in it, none if it *is_new*."""
    try:
        file = open(open_lock_file(part), "r+b")  # noqa: PTH123, SIM115
    except OSError as error:
        raise _failure(part, error) from error
    try:
        if not try_lock_file(file.fileno()):
            raise FileFailed("write", str(part), BUSY)
        if is_new:
            file.truncate(0)
            return file, []
        return file, _whole_sessions(file, part)
    except BaseException:
        file.close()
        raise


def _whole_sessions(file: BinaryIO, part: Path) -> list[ArchivedSession]:
    """Return the sessions in *file*, and drop the last one if it has no end; raise `FileFailed` for any other file."""
    beginning = file.read(len(BEGINNING))
    if not BEGINNING.startswith(beginning):
        raise FileFailed("write", str(part), FOREIGN)
    file.seek(0)
    sessions = scanned(file)
    if sessions[-1].end is None:
        del sessions[-1]
    if any(session.problem for session in sessions):
        raise FileFailed("write", str(part), FOREIGN)
    file.truncate(sessions[-1].end if sessions else 0)
    return sessions


def _finish(file: BinaryIO, part: Path, path: Path, replaces: bool) -> None:
    try:
        file.flush()
        os.fsync(file.fileno())
        file.close()  # Windows renames no open file
        if not replaces and path.exists():
            raise FileFailed("write", str(path), MADE)
        part.replace(path)
    except OSError as error:
        raise _failure(path, error) from error


def _failure(path: Path, error: OSError) -> FileFailed:
    return FileFailed("write", str(path), missing_folder(path) or error.strerror or str(error))

"""Exports one session to a file and imports it: to move a session, to keep it, or to show what happened in it.

The file can be imported into any journal, all or nothing, and is refused if a line is missing or was changed.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

import trio

from agentrail.adapters.journals.archive_reader import open_archive
from agentrail.adapters.journals.archive_writer import open_archive_writer
from agentrail.errors import SessionExists, SessionNotStored
from agentrail.ports.journal import Journal, Record
from agentrail.values.argument_checks import checked

PAGE: Final = 100
"""The most records that one call reads from the journal while a session is exported."""

OWNER: Final = "import"


class RecordSource(Protocol):
    """What is read of a journal when a session of it is exported."""

    async def read(self, session_id: str, after: int = 0, limit: int = 1000) -> tuple[Record, ...]:
        """Return up to *limit* records that follow number *after*; see `Journal.read`."""
        ...


@checked
async def export_session(journal: Journal, session_id: str, path: str | os.PathLike[str]) -> int:
    """Write a session of *journal* to the file *path*, which is replaced if it exists; return the number of records."""
    return await write_archive(journal, session_id, path)


async def write_archive(source: RecordSource, session_id: str, path: str | os.PathLike[str]) -> int:
    """Write a session of *source* to the file *path*, as `export_session` does."""
    records = await source.read(session_id, 0, PAGE)
    if not records:
        raise SessionNotStored(session_id)
    count = 0
    async with open_archive_writer(Path(path), replaces=True) as writer:
        claim = await writer.claim(session_id, OWNER)
        while records:
            count = await writer.append(claim, count, records)
            records = await source.read(session_id, count, PAGE)
        await writer.release((claim,))
    return count


@checked
async def import_session(journal: Journal, path: str | os.PathLike[str]) -> str:
    """Read the file *path*, written by `export_session`, into *journal*; return the id of the session."""
    session_id, records = await read_archive(path)
    await store_session(journal, session_id, records)
    return session_id


async def read_archive(path: str | os.PathLike[str]) -> tuple[str, tuple[Record, ...]]:
    """Return the id and the records of the session in the file *path*; raise `BadArchive` unless all of it is whole."""
    async with open_archive(Path(path)) as reader:
        return await trio.to_thread.run_sync(reader.only_session)


async def store_session(journal: Journal, session_id: str, records: Sequence[Record]) -> None:
    """Write *records* to *journal* as a new session; raise `SessionExists` if there is one of this id."""
    if await journal.read(session_id, 0, 1):
        raise SessionExists(session_id)
    claim = await journal.claim(session_id, OWNER)
    if claim.head:
        raise SessionExists(session_id)
    await journal.append(claim, 0, records)

"""Exports one session to a file and imports it: to move a session, to keep it, or to show what happened in it.

The file can be imported into any journal, all or nothing, and is refused if a line is missing or was changed.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import trio

from agentrail.adapters.journals.archive_reader import open_archive
from agentrail.adapters.journals.archive_writer import open_archive_writer
from agentrail.errors import SessionExists, SessionNotStored
from agentrail.ports.journal import Journal
from agentrail.values.argument_checks import checked

PAGE: Final = 100
"""The most records that one call reads from the journal while a session is exported."""

OWNER: Final = "import"


@checked
async def export_session(journal: Journal, session_id: str, path: str | os.PathLike[str]) -> int:
    """Write a session of *journal* to the file *path*, which is replaced if it exists; return the number of records."""
    records = await journal.read(session_id, 0, PAGE)
    if not records:
        raise SessionNotStored(session_id)
    count = 0
    async with open_archive_writer(Path(path), replaces=True) as writer:
        claim = await writer.claim(session_id, OWNER)
        while records:
            count = await writer.append(claim, count, records)
            records = await journal.read(session_id, count, PAGE)
        await writer.release((claim,))
    return count


@checked
async def import_session(journal: Journal, path: str | os.PathLike[str]) -> str:
    """Read the file *path*, written by `export_session`, into *journal*; return the id of the session."""
    async with open_archive(Path(path)) as reader:
        session_id, records = await trio.to_thread.run_sync(reader.only_session)
    if await journal.read(session_id, 0, 1):
        raise SessionExists(session_id)
    claim = await journal.claim(session_id, OWNER)
    if claim.head:
        raise SessionExists(session_id)
    await journal.append(claim, 0, records)
    return session_id

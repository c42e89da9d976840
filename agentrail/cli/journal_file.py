"""`open_journal`: the journal of a command, which is closed when the command is done with it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from agentrail.adapters.journals.sqlite.journal import SqliteJournal


@asynccontextmanager
async def open_journal(path: Path | None) -> AsyncGenerator[SqliteJournal, None]:
    """Open the journal in the file *path*, by default the user's; close it when the block ends."""
    journal = SqliteJournal(path)
    try:
        yield journal
    finally:
        await journal.close()  # noqa: ASYNC102 - nothing cancels a command: Ctrl-C raises `KeyboardInterrupt`

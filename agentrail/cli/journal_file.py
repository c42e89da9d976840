"""Opens the journal of a command, which is closed when the command is done with it.

`open_journal` opens the file of a user's journal. `open_source` and `open_target` open what is named by text: a file of
SQLite or an export file, which their first bytes tell apart.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import trio

from agentrail.adapters.journals.archive_reader import BEGINNING, ArchiveReader, open_archive
from agentrail.adapters.journals.archive_writer import ArchiveWriter, open_archive_writer
from agentrail.adapters.journals.sqlite.journal import SqliteJournal
from agentrail.cli.bad_input import BadInputError

EXPORTED: Final = ".jsonl"
"""The end of the name of an export file that is not there yet; any other new file is one of SQLite."""


@asynccontextmanager
async def open_journal(path: Path | None) -> AsyncGenerator[SqliteJournal, None]:
    """Open the journal in the file *path*, by default the user's; close it when the block ends."""
    journal = SqliteJournal(path)
    try:
        yield journal
    finally:
        await journal.close()  # noqa: ASYNC102 - nothing cancels a command: Ctrl-C raises `KeyboardInterrupt`


@asynccontextmanager
async def open_source(name: str) -> AsyncGenerator[SqliteJournal | ArchiveReader, None]:
    """Open the journal or export file *name* for reading; raise `BadInputError` if there is none."""
    path = Path(name)
    if not await trio.Path(path).exists():
        raise BadInputError(f"there is no journal at {name}")
    if is_export_file(path):
        async with open_archive(path) as reader:
            yield reader
    else:
        async with open_journal(path) as journal:
            yield journal


@asynccontextmanager
async def open_target(name: str) -> AsyncGenerator[SqliteJournal | ArchiveWriter, None]:
    """Open the journal or export file *name* for writing; it is made if it is not there."""
    path = Path(name)
    if is_export_file(path):
        async with open_archive_writer(path) as writer:
            yield writer
    else:
        async with open_journal(path) as journal:
            yield journal


def check_differ(source: Path, target: Path) -> None:
    """Raise `BadInputError` if *source* and *target* are one file."""
    if target.exists() and source.exists() and source.samefile(target):
        raise BadInputError(f"{source} and {target} are the same file; give another one to copy to")


def is_export_file(path: Path) -> bool:
    """Whether the file is an export file, by its first bytes; by its name if it is not there."""
    try:
        with path.open("rb") as file:
            beginning = file.read(len(BEGINNING))
    except FileNotFoundError:
        return path.suffix == EXPORTED
    return beginning == BEGINNING

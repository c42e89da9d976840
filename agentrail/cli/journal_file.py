"""Opens the journal of a command, which is closed when the command is done with it.

`open_journal` opens the journal of a user or of a server. `open_source` and `open_target` open what is named by text: a
journal, or an export file, which its first bytes tell from a file of SQLite.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import trio

from agentrail.adapters.journals.archive_reader import ArchiveReader, begins_as_export, open_archive
from agentrail.adapters.journals.archive_writer import ArchiveWriter, open_archive_writer
from agentrail.adapters.journals.journal_addresses import (
    JournalAddress,
    PlacedJournal,
    address_named,
    journal_at,
    shown_address,
)
from agentrail.cli.output.bad_input import BadInputError

EXPORTED: Final = ".jsonl"
"""The end of the name of an export file that is not there yet; any other new file is one of SQLite."""


def file_named(text: str) -> Path:
    """Return the file that *text* names; raise `BadInputError` for the URL of a server.

    Commands that run agents of the user share a journal through a socket of this machine.
    """
    address = address_named(text)
    if isinstance(address, str):
        message = "the journal must be a file here, and is a server; `agentrail serve --journal` keeps sessions in one"
        raise BadInputError(message)
    return address


@asynccontextmanager
async def open_journal(address: JournalAddress | None) -> AsyncGenerator[PlacedJournal, None]:
    """Open the journal at *address*, by default the user's file; close it when the block ends."""
    journal = journal_at(address)
    try:
        yield journal
    finally:
        await journal.close()  # noqa: ASYNC102 - nothing cancels a command: Ctrl-C raises `KeyboardInterrupt`


@asynccontextmanager
async def open_source(name: str) -> AsyncGenerator[PlacedJournal | ArchiveReader, None]:
    """Open the journal or export file *name* for reading; raise `BadInputError` if there is none."""
    address = address_named(name)
    if isinstance(address, Path) and not await trio.Path(address).exists():
        raise BadInputError(f"there is no journal at {name}")
    if isinstance(address, Path) and is_export_file(address):
        async with open_archive(address) as reader:
            yield reader
    else:
        async with open_journal(address) as journal:
            yield journal


@asynccontextmanager
async def open_target(name: str) -> AsyncGenerator[PlacedJournal | ArchiveWriter, None]:
    """Open the journal or export file *name* for writing; it is made if it is not there."""
    address = address_named(name)
    if isinstance(address, Path) and is_export_file(address):
        async with open_archive_writer(address) as writer:
            yield writer
    else:
        async with open_journal(address) as journal:
            yield journal


def without_password(name: str) -> str:
    """Return the *name* of a journal or export file, without a password."""
    return shown_address(journal_at(address_named(name)))


def check_differ(source: str, target: str) -> None:
    """Raise `BadInputError` if the names *source* and *target* are those of one journal or export file."""
    file, other = Path(source), Path(target)
    if without_password(source) == without_password(target) or (
        other.exists() and file.exists() and file.samefile(other)
    ):
        raise BadInputError(
            f"{without_password(source)} and {without_password(target)} are the same; give another one to copy to"
        )


def is_export_file(path: Path) -> bool:
    """Whether the file is an export file, by its first bytes; by its name if it is not there.

    A pipe or a device is none: nothing is read of it.
    """
    if path.exists() and not path.is_file():
        return False
    try:
        return begins_as_export(path)
    except FileNotFoundError:
        return path.suffix == EXPORTED

"""Where a journal is, as text: the path of a file, or the URL of a server."""

from __future__ import annotations

from pathlib import Path
from typing import Final, TypeAlias

from agentrail.adapters.journals.postgres.postgres_journal import PostgresJournal
from agentrail.adapters.journals.sql.sqlite_journal import SqliteJournal

JournalAddress: TypeAlias = Path | str
"""The path of a file, or the URL of a server as text: a path would take two slashes for one."""

PlacedJournal: TypeAlias = SqliteJournal | PostgresJournal
"""A journal at such an address."""

URLS: Final = ("postgresql://", "postgres://")
"""How the URL of a server begins."""


def address_named(text: str) -> JournalAddress:
    """Return the address that *text* names."""
    return text if text.startswith(URLS) else Path(text)


def journal_at(address: JournalAddress | None) -> PlacedJournal:
    """Return the journal at *address*; `None`: the user's own file. Nothing is opened before the first call."""
    return PostgresJournal(address) if isinstance(address, str) else SqliteJournal(address)


def shown_address(journal: PlacedJournal) -> str:
    """Return where *journal* is, to be shown: without a password."""
    return str(journal.path) if isinstance(journal, SqliteJournal) else journal.url

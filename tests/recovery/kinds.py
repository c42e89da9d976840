"""Which journal a process has that is ended: that of today, or the SQL journal if its folder says so."""

from pathlib import Path
from typing import Final

from agentrail.adapters.journals.sql.sql_journal import SqlJournal
from agentrail.adapters.journals.sql.sqlite_dialect import SqliteDialect
from agentrail.journals import SqliteJournal

KINDS: Final = ("sqlite", "sql")

_MARK: Final = "is-sql"
"""Name of the file that says so."""


def choose(folder: Path, kind: str) -> Path:
    """Let processes have a journal of *kind* in *folder*, and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    if kind == "sql":
        (folder / _MARK).touch()
    return folder


def journal_in(folder: Path) -> SqliteJournal | SqlJournal:
    """Return the journal of a process in *folder*."""
    path = folder / "agentrail.db"
    is_sql = (folder / _MARK).exists() or (folder.parent / _MARK).exists()
    return SqlJournal(SqliteDialect(path)) if is_sql else SqliteJournal(path)

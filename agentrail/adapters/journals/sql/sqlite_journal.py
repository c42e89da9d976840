"""`SqliteJournal`: one SQLite file, which several processes write; a call returns when its records are durable."""

from __future__ import annotations

import os
import sqlite3
from typing import Final, Literal

from agentrail.adapters.journals.sql.sql_journal import SqlJournal
from agentrail.adapters.journals.sql.sqlite_dialect import Connect, SqliteDialect
from agentrail.errors import BadChoice
from agentrail.reprs import in_brackets
from agentrail.values.argument_checks import checked

SYNC: Final = ("full", "normal")
"""Whether each commit is synced to the disk (`full`), or a power cut may lose the last ones (`normal`)."""


class SqliteJournal(SqlJournal):
    """Keeps records in an SQLite file: *path*, or by default one file per user, in the folder `AGENTRAIL_HOME` if set.

    Several processes may write it; each session belongs to the one that has claimed it last.
    """

    @checked
    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        sync: Literal["full", "normal"] = "full",
        connect: Connect = sqlite3.connect,
    ) -> None:
        if sync not in SYNC:
            raise BadChoice.among("sync", sync, SYNC)
        dialect = SqliteDialect(path, sync=sync, connect=connect)
        super().__init__(dialect)
        self.path = dialect.path

    async def damage(self) -> tuple[str, ...]:
        """Return what is wrong with pages and indexes of the file, as SQLite says: at most ten lines."""
        rows = await self._read(lambda reader: reader.rows("PRAGMA integrity_check(10)"))
        return tuple([str(line) for (line,) in rows if line != "ok"])

    @in_brackets
    def __repr__(self) -> str:
        return f"{str(self.path)!r} {'in use' if self.is_in_use else 'at rest'}"

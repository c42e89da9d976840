"""`PostgresJournal`: sessions in a PostgreSQL database, which several processes on several machines use."""

from __future__ import annotations

from agentrail.adapters.extras import need_extra
from agentrail.adapters.journals.sql.sql_journal import SqlJournal
from agentrail.reprs import in_brackets
from agentrail.values.argument_checks import checked


class PostgresJournal(SqlJournal):
    """Keeps records in the PostgreSQL database at *url*, like `postgresql://user:password@host:5432/database`.

    Its tables are in the schema `agentrail`, and are made at the first use. Several processes may use one database.
    """

    @checked
    def __init__(self, url: str) -> None:
        need_extra("postgres", "psycopg", "keep sessions in PostgreSQL")
        # psycopg comes with the extra
        from agentrail.adapters.journals.postgres.postgres_dialect import PostgresDialect  # noqa: PLC0415
        from agentrail.adapters.journals.postgres.postgres_writer import PostgresWriter  # noqa: PLC0415

        dialect = PostgresDialect(url)
        self.url = dialect.url
        """Where the database is, without the password."""
        super().__init__(dialect, PostgresWriter)

    @in_brackets
    def __repr__(self) -> str:
        return f"{self.url!r} {'in use' if self.is_in_use else 'at rest'}"

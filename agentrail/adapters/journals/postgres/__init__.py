"""`PostgresJournal`: sessions in a PostgreSQL database, for several machines. It needs the extra `postgres`."""

from agentrail.adapters.journals.postgres.postgres_journal import PostgresJournal as PostgresJournal

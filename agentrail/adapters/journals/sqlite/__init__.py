"""The journal in an SQLite file."""

from agentrail.adapters.journals.sqlite.journal import SqliteJournal as SqliteJournal

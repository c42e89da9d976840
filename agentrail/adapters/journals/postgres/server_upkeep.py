"""What an operator does to the tables: `raise_epochs` after a restore, `rewrite_table` after deletions."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing, contextmanager
from typing import Final, cast

import psycopg

from agentrail.adapters.journals.postgres.database import Target
from agentrail.adapters.journals.postgres.server_tables import check_tables
from agentrail.adapters.journals.postgres.sqlstates import in_statement
from agentrail.adapters.journals.sql.sql_tables import SqlRow

RAISE: Final = "select setval('agentrail.epoch', greatest(nextval('agentrail.epoch'), %s) + %s)"
EXPIRE: Final = "update agentrail.session set epoch = nextval('agentrail.epoch'), held = 0"
FORGET: Final = "delete from agentrail.lease"
HIGHEST: Final = "select coalesce(max(epoch), 0) from agentrail.session"

SPARE_EPOCHS: Final = 1_000_000_000
"""By how much the sequence of epochs is raised: more than any process has drawn since a backup."""


def raise_epochs(url: str) -> int:
    """Let no claim from before a restore count any more, and end all leases; return how many sessions there are.

    The sequence is raised first: it does not go back if the rest fails, and the function may be called again.
    """
    with _opened(url, "raise the claims of its journal") as db:
        db.execute(RAISE, (_number(db, HIGHEST), SPARE_EPOCHS))
        with db.transaction():
            db.execute("lock table agentrail.session in exclusive mode")
            db.execute(EXPIRE)
            db.execute(FORGET)
        return _number(db, "select count(*) from agentrail.session where head > 0")


def rewrite_table(url: str, table: str) -> tuple[int, int]:
    """Write one of `TABLES` anew, without what was deleted from it; return its bytes before and after.

    Whoever uses the table waits for the end.
    """
    with _opened(url, f"write its table `{table}` anew") as db:
        old_size = _size(db, table)
        db.execute(f"vacuum (full, analyze) agentrail.{table}".encode())
        return old_size, _size(db, table)


def flush_pages(url: str) -> bool:
    """Have the server write all pages to its files now; return whether the user may do that."""
    with _opened(url, "have it write its files") as db:
        try:
            db.execute("checkpoint")
        except psycopg.errors.InsufficientPrivilege:
            return False
        return True


def _size(db: psycopg.Connection[SqlRow], table: str) -> int:
    return _number(db, "select pg_total_relation_size(%s::regclass)", f"agentrail.{table}")


def _number(db: psycopg.Connection[SqlRow], query: str, *values: str) -> int:
    ((number,),) = db.execute(query.encode(), values).fetchall()
    return cast("int", number)


@contextmanager
def _opened(url: str, attempt: str) -> Generator[psycopg.Connection[SqlRow]]:
    """Connect to the server at *url*; raise `JournalUnavailable` or `JournalFailed` for an error of it."""
    target = Target(url)
    try:
        with closing(target.connect()) as connection:
            check_tables(connection, str(target))
            yield connection
    except psycopg.Error as error:
        raise in_statement(error, attempt, str(target)) from error

"""What an operator does to the tables: `raise_epochs` after a restore, `rewrite_table` after deletions."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final, cast

import psycopg

from agentrail.adapters.journals.postgres.database import Database, Target
from agentrail.adapters.journals.postgres.sqlstates import in_statement

RAISE: Final = "select setval('agentrail.epoch', greatest(nextval('agentrail.epoch'), %s) + %s)"
EXPIRE: Final = "update agentrail.session set epoch = nextval('agentrail.epoch'), held = false"
FORGET: Final = "delete from agentrail.lease"
HIGHEST: Final = "select coalesce(max(epoch), 0) from agentrail.session"

SPARE_EPOCHS: Final = 1_000_000_000
"""By how much the sequence of epochs is raised: more than any process has drawn since a backup."""


def raise_epochs(url: str) -> int:
    """Let no claim from before a restore count any more, and end all leases; return how many sessions there are.

    The sequence is raised first: it does not go back if the rest fails, and the function may be called again.
    """
    with _opened(url, "raise the claims of its journal") as db:
        highest = cast("int", db.run(HIGHEST)[0][0])
        db.run(RAISE, (highest, SPARE_EPOCHS))
        with db.transaction():
            db.run("lock table agentrail.session in exclusive mode")
            db.run(EXPIRE)
            db.run(FORGET)
        return cast("int", db.run("select count(*) from agentrail.session where head > 0")[0][0])


def rewrite_table(url: str, table: str) -> tuple[int, int]:
    """Write one of `TABLES` anew, without what was deleted from it; return its bytes before and after.

    Whoever uses the table waits for the end.
    """
    with _opened(url, f"write its table `{table}` anew") as db:
        before = _size(db, table)
        db.run(f"vacuum (full, analyze) agentrail.{table}")
        return before, _size(db, table)


def flush_pages(url: str) -> bool:
    """Have the server write all pages to its files now; return whether the user may do that."""
    with _opened(url, "have it write its files") as db:
        try:
            db.run("checkpoint")
        except psycopg.errors.InsufficientPrivilege:
            return False
        return True


def _size(db: Database, table: str) -> int:
    return cast("int", db.run("select pg_total_relation_size(%s::regclass)", (f"agentrail.{table}",))[0][0])


@contextmanager
def _opened(url: str, attempt: str) -> Generator[Database]:
    """Connect to the server at *url*; raise `JournalUnavailable` or `JournalFailed` for an error of it."""
    target = Target(url)
    db = Database(target)
    try:
        yield db
    except psycopg.Error as error:
        raise in_statement(error, attempt, str(target)) from error
    finally:
        db.close()

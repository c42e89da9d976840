"""Journals with many sessions, written into their tables directly."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from itertools import product
from pathlib import Path
from typing import Final

from agentrail.adapters.journals.sql.sqlite_tables import PAGE_SIZE, make_tables
from agentrail.journals import SessionFilter

TENANTS: Final = 50
OWNERS: Final = 100
DUE: Final = 10
AT_WORK: Final = 500
"""One session of so many belongs to each tenant and each owner, waits for a timer, or is at work."""

NOW: Final = 1_000_000_000_000

WANTED: Final = {
    "all": SessionFilter(),
    "tenant": SessionFilter(tenant="tenant 7"),
    "owner": SessionFilter(owner="owner 7"),
    "label": SessionFilter(label="label 3"),
    "due": SessionFilter(due_before=NOW * 2),
    "at work": SessionFilter(at_work=True),
    "ended": SessionFilter(ended=True),
    "open": SessionFilter(ended=False),
}
"""A filter for each condition."""

COMBINED: Final = tuple(
    SessionFilter(tenant, owner, label, None, at_work, ended)
    for tenant, owner, label, at_work, ended in product(
        (None, "tenant 7", "tenant 8"),
        (None, "owner 7", "owner 8"),
        (None, "label 7", "label 8"),
        (None, False, True),
        (None, False, True),
    )
)
"""Filters with several conditions at once; for those with a 7 and an 8, and many others, they hold for no session."""


def fill(path: Path, count: int) -> None:
    """Make a journal file with *count* sessions of one record each, without the records."""
    path.parent.mkdir(exist_ok=True)
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.execute(f"PRAGMA page_size = {PAGE_SIZE}")
        file.execute("BEGIN")
        make_tables(file)
        for number in range(count):
            _add(file, number)
        file.execute("COMMIT")


def _add(file: sqlite3.Connection, number: int) -> None:
    name = f"s{(number * 7_919) % 1_000_003:07}"
    at_work = int(number % AT_WORK == 0)
    due = NOW + number * 1000 if number % DUE == 0 else None
    row = (number + 1, name.encode(), 0, 1, 0, 0, 1, 1, b"check", due, at_work, int(number % 2 == 1), NOW)
    file.execute(f"INSERT INTO session VALUES ({', '.join('?' * len(row))})", row)  # noqa: S608
    labels = [f"label {number % 20}"]
    texts = (f"tenant {number % TENANTS}", f"owner {number % OWNERS}", "spec", "", json.dumps(labels))
    about = (name.encode(), None, *[text.encode() for text in texts], NOW)
    file.execute("INSERT INTO about VALUES (?, ?, ?, ?, ?, ?, ?, ?)", about)
    file.executemany("INSERT INTO label VALUES (?, ?)", [(label.encode(), name.encode()) for label in labels])

"""What a turn writes to the disk: commits, and pages of the log."""

import sqlite3
from contextlib import closing
from pathlib import Path

import trio

from agentrail import open_supervisor
from agentrail.adapters.journals.sqlite import SqliteJournal
from agentrail.adapters.journals.sqlite.tables import PAGE_SIZE
from agentrail.testing import ScriptedModel
from tests.runtime.world import spec_of

TURNS = 40
"""How many turns are counted: few enough that the log is not begun anew meanwhile."""

AT_MOST = 15_000
"""Bytes of the log that a short turn may fill on average.

Of these, 2,000 are for SQLite's map of pages, which says what can be given back when sessions are deleted, and 2,000
for the index of sessions at work, as a turn begins and ends.
"""

_HEAD, _FRAME = 32, 24 + PAGE_SIZE


def test_a_new_file_has_small_pages(tmp_path: Path) -> None:
    path = tmp_path / "agentrail.db"
    _play(path, 1)
    with closing(sqlite3.connect(path)) as file:
        assert file.execute("PRAGMA page_size").fetchone() == (PAGE_SIZE,)


def test_a_short_turn_is_two_commits_and_few_pages(tmp_path: Path) -> None:
    before, after = (_play(tmp_path / f"{turns}.db", turns) for turns in (10, 10 + TURNS))
    assert _commits(after) - _commits(before) == 2 * TURNS
    assert len(after) - len(before) <= AT_MOST * TURNS


def _play(path: Path, turns: int) -> bytes:
    """Play *turns* short turns; return the log as it stood before the journal was closed."""

    async def main() -> bytes:
        async with open_supervisor(journal=SqliteJournal(path)) as supervisor:
            session = await supervisor.spawn(spec_of(ScriptedModel(["a" * 200], repeat_last=True)), "s")
            for _ in range(turns):
                await session.ask("p" * 190)
            return path.with_name(f"{path.name}-wal").read_bytes()

    return trio.run(main)


def _commits(log: bytes) -> int:
    """Return how many frames of *log* end a transaction: those that say how large the file is after it."""
    return sum(any(log[at + 4 : at + 8]) for at in range(_HEAD, len(log), _FRAME))

"""A file of the tables of version 4 is converted at its first opening, wherever the process is killed meanwhile."""

import os
import shutil
from pathlib import Path

import pytest
import trio

from agentrail import State
from agentrail.adapters.journals.sql.sql_journal import SqlJournal
from agentrail.adapters.journals.sql.sqlite_dialect import SqliteDialect
from agentrail.errors import BadRecord, Fenced, JournalInUse
from agentrail.journals import Journal, Latest, Record, SqliteJournal, StoredSession
from agentrail.ports.failpoints import Failpoint, watching
from agentrail.testing.conformance.expected_errors import raised
from tests.adapters.journals.sampling import READ
from tests.adapters.journals.test_deleting import BY, is_whole, talked
from tests.kit import Setup, prompted, run_of
from tests.recovery.eraser import NOTE, canary

NAMES = ("talked", "long", "child", "redacted", "ended")
REACHED = 77

Contents = tuple[tuple[StoredSession, ...], list[tuple[Record, ...]], list[Latest], list[object]]


async def contents(journal: Journal) -> Contents:
    """Return all that is found in a journal."""
    sessions = await journal.sessions()
    names = [session.session_id for session in sessions]
    records = [await journal.read(name) for name in names]
    commands = [record.command for records_ in records for record in records_ if record.command]
    answers: list[object] = [await journal.answer(name, command) for name in names for command in commands[:5]]
    return sessions, records, [await journal.latest(name) for name in names], answers


async def make_old(path: Path) -> Contents:
    """Write a journal of today with all that it may have, and leave its last records in the log."""
    journal = SqliteJournal(path)
    await talked(journal, "talked", 70, 10)
    await talked(journal, "long", 3, 20_000)
    opening = State("child", Setup(path=("talked", "c1")), "demo")
    claim = await journal.claim("child", "test")
    await journal.append(claim, 0, (prompted("child", 1, opening=opening, due=7, at_work=True),))
    await talked(journal, "redacted", 10)
    await journal.redact("redacted", 2, 5, NOTE, "")
    await talked(journal, "gone", 10)
    await journal.delete("gone", *BY)
    found = await contents(journal)
    await journal.close()
    return found


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal" / "agentrail.db"


async def test_all_that_was_there_is_there(path: Path) -> None:
    before = await make_old(path)
    old = SqliteJournal(path)
    claim = await old.claim("talked", "test")
    await old.close()
    journal = SqlJournal(SqliteDialect(path))
    assert await contents(journal) == before
    await raised(Fenced, journal.append(claim.but(epoch=claim.epoch - 1), 70, run_of("talked", 71, 1)))
    assert await journal.append(claim, 70, run_of("talked", 71, 1)) == 71
    assert (await journal.claim("talked", "test")).epoch > claim.epoch
    assert await journal.delete("talked", *BY) == 2
    await journal.close()
    assert is_whole(path)
    assert canary("gone").encode() not in path.read_bytes()  # noqa: ASYNC240 - nobody else waits
    assert [file.name for file in path.parent.iterdir() if "convert" in file.name] == []


async def test_a_file_that_another_process_writes_is_not_converted(path: Path) -> None:
    await make_old(path)
    old = SqliteJournal(path)
    await old.claim("other", "test")
    await raised(JournalInUse, SqlJournal(SqliteDialect(path)).claim("s", "test"))
    await old.close()
    journal = SqlJournal(SqliteDialect(path))
    assert (await journal.claim("talked", "test")).head == 70
    await journal.close()


async def test_damage_is_found_as_before(path: Path) -> None:
    await make_old(path)
    content = path.read_bytes()  # noqa: ASYNC240 - nobody else waits
    path.write_bytes(content.replace(canary("talked").encode() * 3, canary("tolked").encode() * 3))  # noqa: ASYNC240
    journal = SqlJournal(SqliteDialect(path))
    await raised(BadRecord, journal.read("talked"))
    assert len(await journal.read("long")) == 3
    await journal.close()


@pytest.mark.long
async def test_a_process_that_is_killed_leaves_a_whole_file(path: Path, tmp_path: Path) -> None:
    before = await make_old(path)
    place = 0
    status = REACHED
    while status == REACHED:
        place += 1
        copy = Path(shutil.copytree(path.parent, tmp_path / f"killed-{place}")) / path.name
        child = os.fork()
        if not child:
            reached = 0

            def watch(_: Failpoint, place: int = place) -> None:
                nonlocal reached
                reached += 1
                if reached == place:
                    os._exit(REACHED)

            with watching(watch):
                SqliteDialect(copy).connect()
            os._exit(0)
        _, waited = os.waitpid(child, 0)  # noqa: ASYNC222 - nothing else runs here
        status = os.waitstatus_to_exitcode(waited)
        journal = SqlJournal(SqliteDialect(copy))
        assert await contents(journal) == before, place
        await journal.close()
        assert [file.name for file in copy.parent.iterdir() if "convert" in file.name] == []
    assert (status, place > 8) == (0, True)


@pytest.mark.parametrize("folder", READ, ids=lambda folder: folder.name)
async def test_samples_of_earlier_formats_come_back(folder: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    for path in await trio.to_thread.run_sync(lambda: sorted(copy.glob("*.db"))):
        old = SqliteJournal(path)
        before = await contents(old)
        await old.close()
        journal = SqlJournal(SqliteDialect(path))
        assert await contents(journal) == before
        await journal.close()

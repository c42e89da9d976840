"""Nothing of a deleted session is found in the bytes of the journal's files, and the space is given back."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest
import trio

from agentrail import Accepted, State
from agentrail.adapters.journals.sql.page_gaps import dirty_gaps
from agentrail.errors import BadRecord, JournalFailed
from agentrail.journals import Journal, Snapshot, SqliteJournal
from agentrail.models import History, Text, UserMessage
from agentrail.testing.conformance.expected_errors import raised
from tests.adapters.journals.sick import Connection, connecting, sqlite_error
from tests.adapters.journals.test_sqlite import KEY
from tests.kit import Setup, prompted, run_of
from tests.profiles import CAMPAIGN
from tests.recovery.eraser import NOTE, canary, sessions_of

SEEDS = 200 if CAMPAIGN else 2
STEPS = 200 if CAMPAIGN else 40
JOURNAL = "agentrail.adapters.journals.sql.sql_journal"
BY = ("", 0)
"""Who deletes, and when."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = tmp_path / "journal"
    folder.mkdir(mode=0o700)
    return folder / "agentrail.db"


@pytest.fixture
async def journal(path: Path) -> AsyncIterator[SqliteJournal]:
    journal = SqliteJournal(path)
    yield journal
    await journal.close()


def found_in(path: Path, *words: str) -> set[str]:
    """Return which of *words* are somewhere in the bytes of a journal's files."""
    files = [file.read_bytes() for file in path.parent.iterdir()]
    assert files
    return {word for word in words if any(word.encode() in content for content in files)}


def is_whole(path: Path) -> bool:
    with closing(sqlite3.connect(path)) as file:
        return [*file.execute("PRAGMA integrity_check")] == [("ok",)]


def size(path: Path) -> int:
    return sum(file.stat().st_size for file in path.parent.iterdir() if not file.name.endswith("-shm"))


async def talked(journal: Journal, name: str, count: int, length: int = 10) -> None:
    """Write a session whose records, command ids, labels and snapshot all have its canary."""
    claim = await journal.claim(name, "test")
    records = [
        prompted(name, n, canary(name) * length, command=f"{canary(name)}{n}", answer=Accepted(canary(name), "started"))
        for n in range(claim.head + 1, claim.head + count + 1)
    ]
    if not claim.head:
        named = State(name, Setup(tenant=canary(name), owner=canary(name)), "demo", title=canary(name))
        records[0] = records[0].but(opening=named.but(labels=(canary(name), f"{canary(name)}2")))
    await journal.append(claim, claim.head, records)
    said = History((UserMessage((Text(canary(name) * length),)),))
    await journal.keep(
        claim, Snapshot(name, claim.head + count, State(name, Setup(canary(name)), "demo", history=said))
    )


@pytest.mark.long
async def test_no_byte_of_a_deleted_session_is_left(journal: SqliteJournal, path: Path) -> None:
    for name in ("bystander", "doomed-session", "third"):
        await talked(journal, name, 100, 100)
        await talked(journal, name, 3, 20_000)
    assert found_in(path, canary("doomed-session"), "doomed-session") == {canary("doomed-session"), "doomed-session"}
    await journal.delete("doomed-session", *BY)
    assert not found_in(path, canary("doomed-session"), "doomed-session")
    assert len(await journal.read("bystander")) == 103
    await journal.close()
    assert not found_in(path, canary("doomed-session"), "doomed-session")
    assert is_whole(path)


@pytest.mark.long
async def test_the_space_is_given_back(journal: SqliteJournal, path: Path) -> None:
    await talked(journal, "small", 10)
    await journal.close()
    before = size(path)
    await talked(journal, "large", 300, 500)
    assert size(path) > before + 2_000_000
    await journal.delete("large", *BY)
    assert size(path) < before + 50_000


@pytest.mark.long
@pytest.mark.parametrize("page", [512, 4096])
@pytest.mark.parametrize("seed", range(SEEDS))
async def test_whatever_is_written_and_deleted_only_what_is_stored_is_found(path: Path, seed: int, page: int) -> None:
    """A model of the journal: what it says is stored is read, and of all others no canary is found."""

    def connect(*args: object, **more: object) -> sqlite3.Connection:
        connection: sqlite3.Connection = sqlite3.connect(*args, **more)  # type: ignore[call-overload]  # as it is called
        connection.execute(f"PRAGMA page_size = {page}")
        return connection

    chance = random.Random(f"{seed} {page}")
    journal = SqliteJournal(path, sync="normal", connect=connect)
    stored: dict[str, int] = {}
    gone: set[str] = set()
    serial = 0
    for _ in range(STEPS):
        what = chance.random()
        if what < 0.1:
            await journal.close()
        elif what < 0.35 and stored:
            name = chance.choice(sorted(stored))
            del stored[name]
            await journal.delete(name, *BY)
            gone.add(name)
            words = {canary(one) for one in gone}
            assert not found_in(path, *words)
        else:
            serial += what < 0.7
            name = chance.choice(sorted(stored)) if stored and what > 0.7 else f"session-{serial}"
            count = chance.choice((1, 1, 5, 20, 80))
            await talked(journal, name, count, chance.choice((1, 2, 5, 60, 200, 2500)))
            stored[name] = stored.get(name, 0) + count
            gone.discard(name)
    assert {one.session_id: one.head for one in await journal.sessions()} == stored
    for name, head in stored.items():
        assert len(await journal.read(name)) == head
        assert await journal.answer(name, f"{canary(name)}{head}") is not None
        assert (await journal.latest(name)).snapshot is not None
    await journal.close()
    assert is_whole(path)
    assert not found_in(path, *map(canary, gone))


def pages_with_copies(path: Path) -> int:
    """Return how many pages of the file have bytes in their gap, where SQLite leaves copies of rows it has moved."""
    with path.open("rb") as file:
        return sum(map(len, dirty_gaps(file.fileno())))


@pytest.mark.long
async def test_copies_that_sqlite_leaves_are_overwritten(journal: SqliteJournal, path: Path) -> None:
    chance = random.Random(7)
    for _ in range(30):
        await talked(journal, f"{canary('gone')}-{chance.random()}", 30, chance.choice((1, 3, 20)))
    await journal.close()
    assert pages_with_copies(path) > 10
    await journal.delete((await journal.sessions())[0].session_id, *BY)
    await journal.close()
    assert pages_with_copies(path) <= 1  # that of the mark, which was taken away last: two bytes, of a pointer
    assert is_whole(path)


async def test_what_reads_the_file_all_the_time_is_named(
    journal: SqliteJournal, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{JOURNAL}.PATIENCE", 2)
    monkeypatch.setattr(f"{JOURNAL}.PAUSE", 0)
    await talked(journal, "s", 10)
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM session").fetchall()
        with pytest.raises(JournalFailed, match="another program reads the file"):
            await journal.delete("s", *BY)
        assert await journal.read("s") == ()
    await journal.delete("s", *BY)
    assert await journal.read("s") == ()
    assert not found_in(path, canary("s"))


@pytest.mark.parametrize("call", ["delete", "redact"])
async def test_what_removes_and_cannot_end_is_not_said_to_have_written_nothing(call: str, path: Path) -> None:
    """The disk fails after the first transaction, which has removed the texts."""

    class Failing(Connection):
        has_removed = False

        def execute(self, sql: str, parameters: object = (), /) -> sqlite3.Cursor:
            if sql == "BEGIN IMMEDIATE" and type(self).has_removed:
                raise sqlite_error("SQLITE_IOERR")
            type(self).has_removed |= sql == "COMMIT" and self.total_changes > changes
            return super().execute(sql, parameters)

    changes = 1_000_000
    journal = SqliteJournal(path, connect=connecting(Failing))
    await talked(journal, "s", 3)
    changes = 0
    removal = journal.delete("s", *BY) if call == "delete" else journal.redact("s", 1, 3, NOTE, "")
    error = await raised(JournalFailed, removal)
    assert "has removed some" in str(error)
    Failing.has_removed, changes = False, 1_000_000
    assert all(record.redacted for record in await journal.read("s"))
    await journal.close()


async def test_a_session_whose_records_are_damaged_can_be_deleted(journal: SqliteJournal, path: Path) -> None:
    for name in ("s", "t"):
        await talked(journal, name, 200)
    await journal.close()
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.execute(f"DELETE FROM record WHERE session = {KEY.format('s')} AND number IN (50, 120)")  # noqa: S608
    await journal.delete("s", *BY)
    assert not found_in(path, canary("s"))
    assert len(await journal.read("t")) == 200


@pytest.mark.long
async def test_no_byte_of_what_is_redacted_is_left(journal: SqliteJournal, path: Path) -> None:
    for name in ("bystander", "spoken", "third"):
        await talked(journal, name, 100, 100)
        await talked(journal, name, 3, 20_000)
    await journal.redact("spoken", 1, 103, NOTE, "")
    words = "".join(f"{canary('spoken')}{n}" for n in range(1, 104))  # ids of commands are no texts of a person
    assert all(canary("spoken") not in repr(r.arrival) for r in await journal.read("spoken"))
    await journal.close()
    contents = b"".join(file.read_bytes() for file in path.parent.iterdir())
    told = 18  # tenant, owner and two labels: in the first record, in what is said of the session, and in indexes
    assert contents.count(canary("spoken").encode()) <= 4 * words.count(canary("spoken")) + told
    assert canary("spoken").encode() * 3 not in contents  # two of them stand side by side: tenant and owner
    assert len(await journal.read("bystander")) == 103
    assert is_whole(path)


@pytest.mark.parametrize("column", ["body", "sealed", "checksum", "format"])
async def test_damage_of_a_redacted_session_is_found(journal: SqliteJournal, path: Path, column: str) -> None:
    await talked(journal, "s", 100)
    await journal.redact("s", 30, 60, NOTE, "")
    await journal.close()
    for number in (29, 30, 45, 60, 61):
        if column == "sealed" and not 30 <= number <= 60:
            continue
        with closing(sqlite3.connect(path, isolation_level=None)) as file:
            where = (number,)
            (was,) = file.execute(f"SELECT {column} FROM record WHERE number = ?", where).fetchone()  # noqa: S608
            damaged = was + 1 if isinstance(was, int) else bytes((was[0] ^ 1,)) + was[1:]
            file.execute(f"UPDATE record SET {column} = ? WHERE number = ?", (damaged, number))  # noqa: S608
        with pytest.raises(BadRecord):
            await journal.read("s")
        await journal.close()
        with closing(sqlite3.connect(path, isolation_level=None)) as file:
            file.execute(f"UPDATE record SET {column} = ? WHERE number = ?", (was, number))  # noqa: S608
        assert len(await journal.read("s")) == 100
        await journal.close()


@pytest.mark.long
async def test_what_is_begun_is_finished_beside_other_work(journal: SqliteJournal, path: Path) -> None:
    """A cancelled deletion is cleaned up after each commit of others, also in a process that comes later."""
    await sessions_of(journal)
    with closing(sqlite3.connect(path, isolation_level=None)) as reader, trio.CancelScope() as scope:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM session").fetchall()  # so the deletion is not done before it is cancelled
        async with trio.open_nursery() as nursery:
            nursery.start_soon(journal.delete, "doomed", *BY)
            while "doomed" in [one.session_id for one in await journal.sessions()]:
                pass
            scope.cancel()
    await journal.close()
    assert await journal.read("doomed") == ()
    claim = await journal.claim("busy", "test")
    for head in range(40):
        await journal.append(claim, head, run_of("busy", head + 1, 1))
    assert not found_in(path, canary("doomed"), canary("child"))

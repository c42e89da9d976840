"""Nothing of what is deleted or redacted is found in the bytes of a journal's files, also beside other processes."""

import random
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from agentrail.adapters.journals.sql.sql_journal import SqlJournal
from agentrail.adapters.journals.sql.sqlite_dialect import SqliteDialect
from agentrail.errors import JournalFailed
from tests.adapters.journals.test_deleting import BY, found_in, is_whole, size, talked
from tests.profiles import CAMPAIGN
from tests.recovery.eraser import END, ERASED, KEPT, NOTE, OF_BOTH, REDACTED, canary, written_by
from tests.recovery.writer import REACHED

pytestmark = pytest.mark.long

SEEDS = 200 if CAMPAIGN else 2
STEPS = 200 if CAMPAIGN else 30


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = tmp_path / "journal"
    folder.mkdir(mode=0o700)
    return folder / "agentrail.db"


@pytest.fixture
async def journal(path: Path) -> AsyncIterator[SqlJournal]:
    journal = SqlJournal(SqliteDialect(path))
    yield journal
    await journal.close()


async def test_no_byte_of_a_deleted_session_is_left(journal: SqlJournal, path: Path) -> None:
    for name in ("bystander", "doomed-session", "third"):
        await talked(journal, name, 100, 100)
        await talked(journal, name, 3, 20_000)
    assert found_in(path, canary("doomed-session"), "doomed-session") == {canary("doomed-session"), "doomed-session"}
    await journal.delete("doomed-session", *BY)
    assert not found_in(path, canary("doomed-session"), "doomed-session")
    assert len(await journal.read("bystander")) == 103
    assert is_whole(path)


async def test_the_space_is_given_back(journal: SqlJournal, path: Path) -> None:
    await talked(journal, "small", 10)
    await journal.close()
    before = size(path)
    await talked(journal, "large", 300, 500)
    assert size(path) > before + 2_000_000
    await journal.delete("large", *BY)
    assert size(path) < before + 50_000


async def test_no_byte_of_what_is_redacted_is_left(journal: SqlJournal, path: Path) -> None:
    for name in ("bystander", "spoken", "third"):
        await talked(journal, name, 100, 100)
        await talked(journal, name, 3, 20_000)
    await journal.redact("spoken", 1, 103, NOTE, "")
    await journal.close()
    contents = b"".join(file.read_bytes() for file in path.parent.iterdir())
    assert canary("spoken").encode() * 3 not in contents  # two of them stand side by side: tenant and owner
    assert len(await journal.read("bystander")) == 103
    assert is_whole(path)


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_whatever_two_write_and_delete_only_what_is_stored_is_found(path: Path, seed: int) -> None:
    """Two journals on one file, each with pages in its memory that the other changes."""
    chance = random.Random(seed)
    journals = [SqlJournal(SqliteDialect(path, sync="normal")) for _ in range(2)]
    stored, gone = set[str](), set[str]()
    for step in range(STEPS):
        journal = chance.choice(journals)
        if stored and chance.random() < 0.4:
            name = chance.choice(sorted(stored))
            await journal.delete(name, *BY)
            stored.discard(name)
            gone.add(name)
            assert not found_in(path, *[canary(name) for name in gone])
        else:
            name = chance.choice(sorted(stored)) if stored and chance.random() < 0.5 else f"session-{step}-"
            await talked(journal, name, chance.randrange(1, 12), chance.choice((1, 20, 300)))
            stored.add(name)
    for name in stored:
        assert await journals[0].read(name) == await journals[1].read(name) != ()
    assert not found_in(path, *[canary(name) for name in gone])
    for journal in journals:
        await journal.close()
    assert not [name for name in gone if canary(name).encode() in path.read_bytes()]  # noqa: ASYNC240
    assert is_whole(path)


async def test_what_reads_the_file_all_the_time_is_named(
    journal: SqlJournal, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentrail.adapters.journals.sql.sql_journal.PATIENCE", 3)
    await talked(journal, "s", 10)
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM record").fetchone()
        with pytest.raises(JournalFailed, match="another program reads the file"):
            await journal.delete("s", *BY)
        assert await journal.read("s") == ()
    assert await journal.delete("s", *BY) == 0
    assert not found_in(path, canary("s"))


# A process that ends in the midst of it

PLACES = [*ERASED, *REDACTED]


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, int]]:
    """End a process at each place; return their folder, and the exit status by place."""
    folder = tmp_path_factory.mktemp("erased")
    wanted = [f"{point.name}:{times}" for point, times in PLACES]
    command = [sys.executable, "-m", "tests.recovery.eraser", str(folder), *wanted]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout  # noqa: S603 - our own program
    statuses = dict(line.split() for line in said.splitlines())
    return folder, {place: int(status) for place, status in statuses.items()}


@pytest.mark.parametrize("place", PLACES, ids=lambda place: f"{place[0].name}-{place[1]}")
async def test_after_a_crash_a_session_is_whole_or_gone_and_the_call_is_repeated(
    place: tuple[object, int], ended: tuple[Path, dict[str, int]]
) -> None:
    name = f"{place[0].name}:{place[1]}"  # type: ignore[attr-defined]  # it is a failpoint
    assert ended[1][name] == REACHED, "it was not reached"
    path = ended[0] / name / "agentrail.db"
    journal = SqlJournal(SqliteDialect(path))
    records = await journal.read("doomed")
    assert len(records) in (0, END)
    assert (await journal.delete("doomed", *BY) > 0) == (records != ())
    assert not found_in(path, canary("doomed"), canary("child"))
    third = await journal.read("third")
    for was, now in zip(written_by("third"), third, strict=bool(third)):
        assert now == was or (now.redacted == NOTE and canary("third") not in repr(now))
    if third:
        await journal.redact("third", 1, END, NOTE, "")
        assert {record.redacted for record in await journal.read("third")} == {NOTE}
        assert not found_in(path, canary("third"))
        assert await journal.read(KEPT[0]) == written_by(KEPT[0])
        assert found_in(path, OF_BOTH) == {OF_BOTH}
    await journal.close()
    assert is_whole(path)

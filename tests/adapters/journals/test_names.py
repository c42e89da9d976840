"""One file, under one name at a time: whatever is done to it, nothing that was acknowledged is lost."""

import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE, Popen

import pytest
import trio

from agentrail.adapters.journals.sql.journal_files import CAN_LOCK
from agentrail.errors import JournalLinked, JournalUnusable, NothingWritten, SessionHeld
from agentrail.journals import Lease, SqliteJournal
from agentrail.testing.conformance.expected_errors import raised
from tests.kit import opened, run_of

pytestmark = pytest.mark.skipif(not CAN_LOCK, reason="the kernel has no locks that belong to a descriptor")

LEASE = 10**15

WRITER = """
import os, sys, trio
from agentrail.journals import Lease, SqliteJournal
from agentrail.testing.conformance.journal_tests import run_of

async def main():
    journal = SqliteJournal(sys.argv[1])
    claim = await journal.claim("theirs", "test" if "fork" not in sys.argv else "them", Lease(0, 10**15))
    head = await journal.append(claim, 0, run_of("theirs", 1, 3))
    if "fork" in sys.argv:
        forked, tell = os.pipe()
        if not (child := os.fork()):
            os.write(tell, b".")
            while True:
                os.read(0, 1) or os._exit(0)
        os.read(forked, 1)
        print(child, flush=True)
    print("ready", flush=True)
    for line in sys.stdin:
        try:
            head = await journal.append(claim, head, run_of("theirs", head + 1, int(line)))
            print(head, flush=True)
        except Exception as error:
            print(type(error).__name__, error, flush=True)
    await journal.close()
trio.run(main)
"""


class Writer:
    """Another process that writes a journal."""

    def __init__(self, process: "Popen[str]") -> None:
        self.process = process

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def writes(self, count: int) -> str:
        """Have it write so many records, and return what it was told."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{count}\n")
        self.process.stdin.flush()
        return self.line()

    def end(self) -> None:
        """Let it close the journal, and end."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.wait() == 0


@contextmanager
def writing(path: Path, *more: str) -> Iterator[Writer]:
    command = [sys.executable, "-c", WRITER, str(path), *more]
    with Popen(command, stdin=PIPE, stdout=PIPE, text=True) as process:  # noqa: S603 - our own program
        try:
            writer = Writer(process)
            if not more:
                assert writer.line() == "ready"
            yield writer
        finally:
            process.kill()


def locks(path: Path, kind: str) -> int:
    """How many locks of a kind this process has on a file: `POSIX` are SQLite's, `OFDLCK` is ours."""
    inode = path.stat().st_ino
    lines = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    mine = {"POSIX": str(os.getpid()), "OFDLCK": "-1"}[kind]
    return sum(kind in line and mine in line and any(part.endswith(f":{inode}") for part in line) for line in lines)


async def readable(path: Path, count: int) -> None:
    """Demand that so many records are there, for a process that comes later."""
    journal = SqliteJournal(path)
    assert await journal.read("theirs") == run_of("theirs", 1, count)
    await journal.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "kept").mkdir()
    return tmp_path / "kept" / "agentrail.db"


@pytest.fixture
async def journal(path: Path) -> AsyncIterator[SqliteJournal]:
    journal = SqliteJournal(path)
    yield journal
    await journal.close()


# Links


@pytest.mark.long
async def test_a_symbolic_link_is_the_file_that_it_leads_to(path: Path, tmp_path: Path) -> None:
    link, folder = tmp_path / "link.db", tmp_path / "folder"
    link.symlink_to(path)
    folder.symlink_to(path.parent)
    for theirs, ours in ((path, link), (link, path), (folder / path.name, link)):
        with writing(theirs) as other:
            journal = SqliteJournal(ours)
            assert journal.path == path
            await opened(journal, "mine")
            assert other.writes(20) == "23"
            await journal.close()
            other.end()
        await readable(ours, 23)
        path.unlink()  # noqa: ASYNC240
    assert {each.name for each in tmp_path.iterdir()} == {"kept", "link.db", "folder"}, "nothing is beside the link"  # noqa: ASYNC240


@pytest.mark.long
async def test_a_second_name_is_refused_and_the_first_goes_on(path: Path, tmp_path: Path) -> None:
    """Nothing that was acknowledged is lost, and nothing is made beside the second name."""
    with writing(path) as other:
        for number, link in enumerate((path.with_name("beside.db"), tmp_path / "other" / "elsewhere.db")):
            link.parent.mkdir(exist_ok=True)
            link.hardlink_to(path)
            for doing in (SqliteJournal(link).claim("mine", "test"), SqliteJournal(link).sessions()):
                error = await raised(JournalLinked, doing)
                assert str(error) == (
                    f"the journal `{link}` has another name, `{path}`, and SQLite keeps a log beside each; "
                    "use one name for it, remove the other, and copy it instead of linking it"
                )
            assert not list(link.parent.glob(f"{link.name}-*"))
            assert other.writes(20) == str(3 + 20 * (number + 1)), "its owner goes on"
            link.unlink()
        other.end()
    await readable(path, 43)


@pytest.mark.parametrize("renamed", [False, True])
async def test_a_second_name_is_refused_in_the_process_that_has_the_first_open(
    journal: SqliteJournal, path: Path, renamed: bool
) -> None:
    """A reader under the second name would look for the log beside that, and take what it lacks for damage."""
    claim = await opened(journal, "theirs")
    link = path.with_name("link.db")
    link.hardlink_to(path)
    if renamed:
        path.unlink()  # noqa: ASYNC240
    again = SqliteJournal(link)
    for doing in (again.read("theirs"), again.sessions(), again.claim("mine", "test")):
        assert f"`{link}` has another name, `{path}`" in str(await raised(JournalLinked, doing))
    await again.close()
    assert [each.name for each in path.parent.glob("link.db-*")] == []
    if renamed:
        link.rename(path)  # noqa: ASYNC240
    assert await journal.append(claim, 3, run_of("theirs", 4, 1)) == 4


async def test_a_file_with_two_names_is_refused_by_either_until_one_is_gone(journal: SqliteJournal, path: Path) -> None:
    await opened(journal, "theirs")
    await journal.close()
    link = path.with_name("link.db")
    link.hardlink_to(path)
    for named, other in ((path, link), (link, path)):
        refused = SqliteJournal(named)
        assert f"`{other}`" in str(await raised(JournalLinked, refused.claim("mine", "test")))
        await raised(JournalLinked, refused.read("theirs"))
        await refused.close()
    link.unlink()
    await readable(path, 3)


async def test_a_name_that_cannot_be_found_is_refused_all_the_same(path: Path, tmp_path: Path) -> None:
    path.touch()  # noqa: ASYNC240
    (tmp_path / "far" / "away").mkdir(parents=True)
    (tmp_path / "far" / "away" / "link.db").hardlink_to(path)
    journal = SqliteJournal(path)
    error = await raised(JournalLinked, journal.claim("mine", "test"))
    await journal.close()
    assert f"`{path}` has another name, and SQLite" in str(error)


async def test_its_owner_may_read_on_when_it_is_given_another_name(journal: SqliteJournal, path: Path) -> None:
    claim = await opened(journal, "theirs")
    path.with_name("backup.db").hardlink_to(path)
    assert await journal.read("theirs") == run_of("theirs", 1, 3)
    assert await journal.append(claim, 3, run_of("theirs", 4, 1)) == 4


# What is done to the file while it is open


@pytest.mark.long
async def test_one_that_was_renamed_is_still_in_use_and_nothing_is_written_under_the_old_name(path: Path) -> None:
    new = path.with_name("new.db")
    with writing(path) as other:
        path.rename(new)  # noqa: ASYNC240
        error = await raised(JournalLinked, SqliteJournal(new).claim("mine", "test"))
        assert "has another name, under which another process has it open" in str(error)
        await raised(JournalLinked, SqliteJournal(new).read("theirs"))
        assert other.writes(1).startswith(f"JournalUnusable the journal `{path}` cannot be used: it was removed or")
        new.rename(path)
        assert other.writes(1) == "4"
        other.end()
    await readable(path, 4)


async def test_nothing_is_written_to_a_file_that_was_replaced_or_removed(journal: SqliteJournal, path: Path) -> None:
    claim = await opened(journal, "theirs")
    kept = path.with_name("kept.db")
    path.rename(kept)  # noqa: ASYNC240
    path.write_bytes(b"")  # noqa: ASYNC240
    error = await raised(JournalUnusable, journal.append(claim, 3, run_of("theirs", 4, 1)))
    assert "another file was put in its place" in str(error)
    path.unlink()  # noqa: ASYNC240
    assert "removed" in str(await raised(JournalUnusable, journal.append(claim, 3, run_of("theirs", 4, 1))))
    kept.rename(path)
    assert await journal.append(claim, 3, run_of("theirs", 4, 1)) == 4


# Processes


@pytest.mark.long
async def test_what_is_forked_keeps_no_session_and_no_name(path: Path) -> None:
    with writing(path, "fork") as other:
        child = int(other.line())
        assert other.line() == "ready"
        journal = SqliteJournal(path)
        with pytest.raises(SessionHeld):
            await journal.claim("theirs", "test", Lease(0, LEASE))
        await journal.close()
        other.process.kill()
        other.process.wait()
        new = path.with_name("new.db")
        path.rename(new)  # noqa: ASYNC240
        Path(f"{path}-wal").rename(f"{new}-wal")  # noqa: ASYNC240
        journal = SqliteJournal(new)
        assert (await journal.claim("theirs", "test", Lease(0, LEASE))).head == 3
        os.kill(child, 0)
        os.kill(child, signal.SIGKILL)
        await journal.close()
    await readable(new, 3)


async def test_the_locks_of_sqlite_outlive_everything_that_others_here_do_with_the_file(path: Path) -> None:
    first = SqliteJournal(path)
    claim = await opened(first, "theirs")
    held = locks(path, "POSIX")
    assert (locks(path, "OFDLCK"), held > 0) == (1, True)
    second, reader = SqliteJournal(path), SqliteJournal(path)
    await second.claim("mine", "test")
    assert await reader.read("theirs") == run_of("theirs", 1, 3)
    assert await second.read("theirs") == run_of("theirs", 1, 3)
    for other in (reader, second):
        await other.close()
        assert locks(path, "POSIX") >= held, "a descriptor of the file was closed here"
    assert await reader.read("theirs") == run_of("theirs", 1, 3)
    assert await first.append(claim, 3, run_of("theirs", 4, 1)) == 4
    await first.close()
    assert locks(path, "POSIX") > 0, "the reader's"
    await reader.close()
    assert (locks(path, "OFDLCK"), locks(path, "POSIX")) == (0, 0)


HANGS = """
import signal, sys, threading, trio
from agentrail.adapters.journals.sql.sqlite_journal import SqliteJournal
from agentrail.ports.failpoints import Failpoint, watching
from agentrail.testing.conformance.journal_tests import opened, run_of

def hang(point):
    if point is Failpoint[sys.argv[2]]:
        signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)

async def main():
    journal = SqliteJournal(sys.argv[1])
    claim = await opened(journal, "theirs")
    with watching(hang):
        await journal.append(claim, 3, run_of("theirs", 4, 1))
trio.run(main)
"""


@contextmanager
def hanging(path: Path, point: str) -> "Iterator[Popen[str]]":
    with Popen([sys.executable, "-c", HANGS, str(path), point], text=True) as process:  # noqa: S603 - our own program
        try:
            assert os.WIFSTOPPED(os.waitpid(process.pid, os.WUNTRACED)[1])
            yield process
        finally:
            process.kill()


@pytest.mark.campaign
@pytest.mark.long
@pytest.mark.parametrize("point", ["BEGUN", "COMMIT"])
async def test_what_hangs_inside_a_write_is_named_and_what_it_had_goes_on_when_it_was_killed(
    path: Path, point: str
) -> None:
    """No other process can write then: SQLite's lock is that process's, and what it has written is half a commit."""
    with hanging(path, point) as other:
        journal = SqliteJournal(path)
        with trio.fail_after(30):
            error = await raised(NothingWritten, journal.claim("mine", "test"))
        assert f"process {other.pid} is inside a write" in str(error)
        assert "kill it" in str(error)
        assert await journal.read("theirs") == run_of("theirs", 1, 3)
        other.kill()
        other.wait()  # noqa: ASYNC222 - it is dead
    claim = await journal.claim("theirs", "test")
    assert await journal.append(claim, 3, run_of("theirs", 4, 1)) == 4
    await journal.close()


@pytest.mark.long
async def test_what_hangs_after_its_commit_keeps_nobody_away(path: Path) -> None:
    with hanging(path, "COMMITTED"):
        journal = SqliteJournal(path)
        claim = await journal.claim("theirs", "test")
        assert await journal.append(claim, 4, run_of("theirs", 5, 1)) == 5
        await journal.close()


@pytest.mark.long
async def test_late_writes_of_a_process_that_was_stopped_are_refused(path: Path) -> None:
    with writing(path) as other:
        other.process.send_signal(signal.SIGSTOP)
        journal = SqliteJournal(path)
        claim = await journal.claim("theirs", "test", take_over=True)
        assert await journal.append(claim, 3, run_of("theirs", 4, 1)) == 4
        other.process.send_signal(signal.SIGCONT)
        assert other.writes(1).startswith("Fenced ")
        assert await journal.append(claim, 4, run_of("theirs", 5, 1)) == 5
        await journal.close()
    await readable(path, 5)

"""One file, whatever its name: two processes never write it at a time, and nothing that was acknowledged is lost."""

import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE, Popen

import pytest
import trio

from agentrail.adapters.journals.sqlite.writer_lock import CAN_LOCK, Ownership
from agentrail.errors import Fenced, JournalInUse, JournalLinked, JournalLocked, JournalUnusable
from agentrail.journals import Claim, SqliteJournal
from agentrail.testing.conformance.expected_errors import raised
from tests.kit import opened, run_of

pytestmark = pytest.mark.skipif(not CAN_LOCK, reason="the kernel has no locks that belong to a descriptor")

WRITER = """
import os, sys, trio
from agentrail.adapters.journals.sqlite import SqliteJournal
from agentrail.testing.conformance.journal_tests import opened, run_of

async def main():
    journal = SqliteJournal(sys.argv[1])
    claim = await opened(journal, "theirs")
    head = 3
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
            error = await raised(JournalInUse, SqliteJournal(ours).claim("mine", "test"))
            assert str(error).startswith(f"the journal `{path}` is in use (process {other.process.pid})")
            assert other.writes(20) == "23"
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
    assert [each.name for each in path.parent.glob("link.db-*")] == []
    if renamed:
        link.rename(path)  # noqa: ASYNC240
    assert await journal.append(claim, 3, run_of("theirs", 4, 1)) == 4


async def test_a_file_with_two_names_is_refused_by_either_until_one_is_gone(journal: SqliteJournal, path: Path) -> None:
    await opened(journal, "theirs")
    await journal.close()
    link = path.with_name("link.db")
    link.hardlink_to(path)
    for one, other in ((path, link), (link, path)):
        assert f"`{other}`" in str(await raised(JournalLinked, SqliteJournal(one).claim("mine", "test")))
        await raised(JournalLinked, SqliteJournal(one).read("theirs"))
    link.unlink()
    await readable(path, 3)


async def test_a_name_that_cannot_be_found_is_refused_all_the_same(path: Path, tmp_path: Path) -> None:
    path.touch()  # noqa: ASYNC240
    (tmp_path / "far" / "away").mkdir(parents=True)
    (tmp_path / "far" / "away" / "link.db").hardlink_to(path)
    error = await raised(JournalLinked, SqliteJournal(path).claim("mine", "test"))
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
        await raised(JournalLinked, SqliteJournal(new, take_over=True).claim("mine", "test"))
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
async def test_two_that_begin_together_are_told_apart(path: Path) -> None:
    """One of them is the owner, and the other is told who; neither is taken for a second name."""
    command = [sys.executable, "-c", WRITER, str(path)]
    processes = [Popen(command, stdin=PIPE, stdout=PIPE, stderr=PIPE, text=True) for _ in range(4)]  # noqa: ASYNC220, S603
    writers = [Writer(process) for process in processes]
    said = [writer.line() for writer in writers]
    assert sorted(said) == ["", "", "", "ready"]
    for writer, line in zip(writers, said, strict=True):
        error = "" if line else writer.process.communicate()[1]
        assert line or ("JournalInUse" in error and "JournalLinked" not in error), error
    for writer in writers:
        writer.process.kill()
        writer.process.communicate()


@pytest.mark.long
async def test_what_is_forked_has_no_part_in_the_lock(path: Path) -> None:
    with writing(path, "fork") as other:
        child = int(other.line())
        assert other.line() == "ready"
        await raised(JournalInUse, SqliteJournal(path).claim("mine", "test"))
        other.process.kill()
        other.process.wait()
        journal = SqliteJournal(path)
        await opened(journal, "mine")
        os.kill(child, 0)
        os.kill(child, signal.SIGKILL)
        await journal.close()
    await readable(path, 3)


@pytest.mark.long
async def test_a_forked_process_is_refused_and_takes_nothing_from_the_one_above(
    journal: SqliteJournal, path: Path
) -> None:
    claim = await opened(journal, "theirs")
    before = locks(path, "POSIX")
    child = os.fork()
    if not child:
        code = 3
        try:
            Ownership(path).enter(over=False)
        except JournalInUse as error:
            code = 0 if f"process {os.getppid()}" in str(error) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0  # noqa: ASYNC222
    assert (locks(path, "OFDLCK"), locks(path, "POSIX")) == (1, before)
    assert await journal.append(claim, 3, run_of("theirs", 4, 1)) == 4


async def test_the_locks_of_sqlite_outlive_everything_that_others_here_do_with_the_file(path: Path) -> None:
    first = SqliteJournal(path)
    claim = await opened(first, "theirs")
    held = locks(path, "POSIX")
    assert (locks(path, "OFDLCK"), held > 0) == (1, True)
    second, reader = SqliteJournal(path), SqliteJournal(path)
    await raised(JournalInUse, second.claim("mine", "test"))
    assert await reader.read("theirs") == run_of("theirs", 1, 3)
    assert await second.read("theirs") == run_of("theirs", 1, 3)
    for other in (reader, second):
        await other.close()
        assert locks(path, "POSIX") >= held, "a descriptor of the file was closed here"
    assert await reader.read("theirs") == run_of("theirs", 1, 3)
    third = SqliteJournal(path, take_over=True)
    await third.claim("theirs", "test")
    await raised(Fenced, first.append(claim, 3, run_of("theirs", 4, 1)))
    await first.close()
    assert locks(path, "POSIX") >= held
    await third.claim("theirs", "test")
    assert locks(path, "OFDLCK") == 1, "it has passed to the one that has taken over"
    await third.close()
    assert locks(path, "POSIX") > 0, "the reader's"
    await reader.close()
    assert (locks(path, "OFDLCK"), locks(path, "POSIX")) == (0, 0)


@pytest.mark.long
async def test_what_was_taken_over_from_a_process_that_hangs_is_safe_under_any_name_when_that_is_gone(
    path: Path,
) -> None:
    with writing(path) as other:
        other.process.send_signal(signal.SIGSTOP)
        journal = SqliteJournal(path, take_over=True)
        claim = await journal.claim("theirs", "test")
        assert await journal.append(claim, 3, run_of("theirs", 4, 1)) == 4
        other.process.kill()
        other.process.wait()
        assert await journal.append(claim, 4, run_of("theirs", 5, 1)) == 5
        assert locks(path, "OFDLCK") == 1
        await _stays_theirs(journal, claim, path)


HANGS = """
import signal, sys, threading, trio
from agentrail.adapters.journals.sqlite import SqliteJournal
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
async def test_what_hangs_inside_a_write_is_named_and_taken_over_when_it_was_killed(path: Path, point: str) -> None:
    """No other process can write then: SQLite's lock is that process's, and what it has written is half a commit."""
    with hanging(path, point) as other:
        journal = SqliteJournal(path, take_over=True)
        with trio.fail_after(30):
            error = await raised(JournalLocked, journal.claim("mine", "test"))
        assert f"process {other.pid} is inside a write" in str(error)
        assert "kill it" in str(error)
        assert await journal.read("theirs") == run_of("theirs", 1, 3)
        other.kill()
        other.wait()  # noqa: ASYNC222 - it is dead
    claim = await journal.claim("theirs", "test")
    assert await journal.append(claim, 3, run_of("theirs", 4, 1)) == 4
    await journal.close()


@pytest.mark.long
async def test_what_hangs_after_its_commit_is_taken_over(path: Path) -> None:
    with hanging(path, "COMMITTED"):
        journal = SqliteJournal(path, take_over=True)
        claim = await journal.claim("theirs", "test")
        assert await journal.append(claim, 4, run_of("theirs", 5, 1)) == 5
        await journal.close()


async def _stays_theirs(journal: SqliteJournal, claim: Claim, path: Path) -> None:
    with Popen([sys.executable, "-c", WRITER, str(path)], stdin=PIPE, stdout=PIPE, stderr=PIPE, text=True) as third:  # noqa: ASYNC220, S603
        assert f"process {os.getpid()}" in third.communicate()[1]
    assert await journal.append(claim, 5, run_of("theirs", 6, 1)) == 6
    await journal.close()
    await readable(path, 6)

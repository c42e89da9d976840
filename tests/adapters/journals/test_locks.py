"""Who has the lock of a journal, as Linux lists it; and lock files that are none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentrail.adapters import file_lock
from agentrail.adapters.journals.archive_writer import open_archive_writer
from agentrail.adapters.journals.sql.journal_files import WRITE_LOCK, write_lock_holder
from agentrail.cli.host.shared_host import sole_server
from agentrail.errors import FileFailed, JournalUnusable
from agentrail.journals import SqliteJournal


def line(pid: int, device: int, inode: int) -> str:
    file = f"{os.major(device):02x}:{os.minor(device):02x}:{inode}"
    return f"7: POSIX  ADVISORY  WRITE {pid} {file} {WRITE_LOCK} {WRITE_LOCK}"


def test_a_lock_of_another_disk_is_not_that_of_the_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inodes are numbered by disk: a file of another one may have the same number."""
    shared = tmp_path / "kept.db-shm"
    shared.touch()
    stat = shared.stat()
    other = line(11, stat.st_dev + 1, stat.st_ino)
    locks = tmp_path / "locks"
    monkeypatch.setattr(file_lock, "LOCKS", locks)
    locks.write_text(f"{other}\n")
    assert write_lock_holder(tmp_path / "kept.db") is None
    locks.write_text(f"{other}\n{line(22, stat.st_dev, stat.st_ino)}\n")
    assert write_lock_holder(tmp_path / "kept.db") == "process 22"


# Files that a folder of somebody else has beside a journal

OWN = b"what the user has written\n"


@pytest.fixture
def own_file(tmp_path: Path) -> Path:
    file = tmp_path / "own"
    file.write_bytes(OWN)
    return file


def content_of(file: Path) -> bytes:
    return file.read_bytes()


async def made(path: Path) -> None:
    journal = SqliteJournal(path)
    await journal.release(())
    await journal.close()


@pytest.mark.parametrize("kind", ["link", "hard link", "dangling link", "pipe", "file of another user"])
async def test_a_lock_file_that_is_not_one_is_refused_and_no_file_is_emptied(
    kind: str, tmp_path: Path, own_file: Path
) -> None:
    await made(tmp_path / "kept.db")
    lock = tmp_path / "kept.db.lock"
    match kind:
        case "link":
            lock.symlink_to(own_file)
        case "hard link":
            lock.hardlink_to(own_file)
        case "dangling link":
            lock.symlink_to(tmp_path / "new")
        case "pipe":
            os.mkfifo(lock)
        case _:
            lock.write_bytes(OWN)
            os.chown(lock, 12345, 12345)
    with (
        pytest.raises(OSError, match=r"`kept\.db\.lock` is a link, no regular file, or not of this user"),
        sole_server(tmp_path / "kept.db"),
    ):
        pass
    assert content_of(own_file) == OWN
    assert not (tmp_path / "new").exists()


async def test_the_lock_file_may_be_of_the_user_who_has_the_journal(tmp_path: Path) -> None:
    await made(tmp_path / "kept.db")
    (tmp_path / "kept.db.lock").touch()
    for name in ("kept.db", "kept.db.lock"):
        os.chown(tmp_path / name, 12345, 12345)
    with sole_server(tmp_path / "kept.db"):
        pass


@pytest.mark.parametrize("ending", ["-wal", "-shm", "-journal"])
@pytest.mark.parametrize("content", [b"", b"short", OWN * 100])
async def test_a_file_of_sqlite_that_is_a_link_is_refused(
    ending: str, content: bytes, tmp_path: Path, own_file: Path
) -> None:
    await made(tmp_path / "kept.db")
    (tmp_path / "own").write_bytes(content)
    (tmp_path / f"kept.db{ending}").unlink(missing_ok=True)
    (tmp_path / f"kept.db{ending}").symlink_to(own_file)
    journal = SqliteJournal(tmp_path / "kept.db")
    with pytest.raises(JournalUnusable, match=f"`kept\\.db{ending}` is a link or no regular file"):
        await journal.release(())
    await journal.close()
    assert content_of(own_file) == content


@pytest.mark.parametrize("replaces", [False, True])
async def test_an_export_empties_no_file_to_which_a_link_leads(replaces: bool, tmp_path: Path, own_file: Path) -> None:
    (tmp_path / "sessions.jsonl.part").symlink_to(own_file)
    with pytest.raises(FileFailed, match="is a link, no regular file, or not of this user"):
        async with open_archive_writer(tmp_path / "sessions.jsonl", replaces=replaces):
            pass
    assert content_of(own_file) == OWN


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
async def test_an_export_replaces_no_device_and_no_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "sessions.jsonl")
    with pytest.raises(FileFailed, match="it is no regular file, and is not replaced"):
        async with open_archive_writer(tmp_path / "sessions.jsonl", replaces=True):
            pass
    assert (tmp_path / "sessions.jsonl").is_fifo()

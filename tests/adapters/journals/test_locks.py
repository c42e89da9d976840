"""Who has the lock of a journal, as Linux lists it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentrail.adapters.journals.sqlite import writer_lock
from agentrail.adapters.journals.sqlite.writer_lock import WRITE_LOCK, write_lock_holder


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
    monkeypatch.setattr(writer_lock, "LOCKS", locks)
    locks.write_text(f"{other}\n")
    assert write_lock_holder(tmp_path / "kept.db") is None
    locks.write_text(f"{other}\n{line(22, stat.st_dev, stat.st_ino)}\n")
    assert write_lock_holder(tmp_path / "kept.db") == "process 22"

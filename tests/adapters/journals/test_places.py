"""One journal, wherever it lies: behind a mounted folder, in memory, in a folder with another name, or copied."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE, Popen

import pytest

from agentrail.adapters.journals.sqlite.writer_lock import CAN_LOCK
from agentrail.errors import JournalInUse
from agentrail.journals import SqliteJournal
from agentrail.testing.conformance.expected_errors import raised
from tests.adapters.journals.test_names import WRITER, Writer, path, readable, writing
from tests.kit import opened, run_of

__all__ = ["path"]

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not CAN_LOCK, reason="the kernel has no locks that belong to a descriptor"),
]

MANY = 20 if os.environ.get("AGENTRAIL_PROFILE") == "campaign" else 6
"""Processes that open one journal at the same time."""


def test_of_many_processes_that_begin_together_one_wins_also_after_the_winner_was_killed(path: Path) -> None:
    for name in ("first", "second"):
        command = [sys.executable, "-c", WRITER.replace("theirs", name), str(path)]
        processes = [Popen(command, stdin=PIPE, stdout=PIPE, stderr=PIPE, text=True) for _ in range(MANY)]  # noqa: S603 - our own program
        try:
            said = {process: Writer(process).line() for process in processes}
            assert sorted(said.values()) == [*[""] * (MANY - 1), "ready"]
            errors = [process.communicate()[1] for process, line in said.items() if not line]
            assert [error for error in errors if "JournalInUse" not in error] == []
        finally:
            for process in processes:  # the winner too, by SIGKILL
                process.kill()
                process.communicate()


async def test_a_folder_of_another_name_holds_the_same_journal(path: Path, tmp_path: Path) -> None:
    (tmp_path / "other").symlink_to(path.parent)
    with writing(path) as other:
        await raised(JournalInUse, SqliteJournal(tmp_path / "other" / path.name).claim("mine", "test"))
        assert other.writes(1) == "4"
        other.end()
    await readable(tmp_path / "other" / path.name, 4)


async def test_a_folder_that_is_mounted_elsewhere_holds_the_same_journal(path: Path, tmp_path: Path) -> None:
    place = tmp_path / "mounted"
    place.mkdir()
    mount, umount = shutil.which("mount"), shutil.which("umount")
    if mount is None or umount is None:
        pytest.skip("there is no program `mount`")
    done = subprocess.run([mount, "--bind", str(path.parent), str(place)], capture_output=True, check=False)  # noqa: ASYNC221, S603 - at once
    if done.returncode:
        pytest.skip(f"this process may not mount a folder: {done.stderr.decode().strip()}")
    try:
        with writing(path) as other:
            await raised(JournalInUse, SqliteJournal(place / path.name).claim("mine", "test"))
            assert other.writes(1) == "4"
            other.end()
        await readable(place / path.name, 4)
    finally:
        subprocess.run([umount, str(place)], check=True)  # noqa: ASYNC221, S603 - at once


def copied(path: Path, copy: Path) -> None:
    for ending in ("", "-wal"):
        source = Path(f"{path}{ending}")
        if source.exists():
            shutil.copyfile(source, f"{copy}{ending}")


async def test_a_copy_of_a_journal_that_is_open_is_another_one(path: Path) -> None:
    with writing(path) as other:
        copy = path.with_name("copy.db")
        copied(path, copy)
        journal = SqliteJournal(copy)
        await opened(journal, "mine")
        assert await journal.read("theirs") == run_of("theirs", 1, 3)
        assert other.writes(1) == "4"
        assert len(await journal.read("theirs")) == 3
        await journal.close()
        other.end()
    await readable(path, 4)


async def test_a_journal_in_memory_is_locked_as_on_a_disk() -> None:
    memory = Path("/dev/shm")  # noqa: S108 - the folder below has a name of its own
    if not os.access(memory, os.W_OK):
        pytest.skip("there is no /dev/shm to write to")
    folder = memory / f"agentrail-test-{os.getpid()}"
    folder.mkdir()
    try:
        with writing(folder / "agentrail.db") as other:
            await raised(JournalInUse, SqliteJournal(folder / "agentrail.db").claim("mine", "test"))
            other.end()
        await readable(folder / "agentrail.db", 3)
    finally:
        shutil.rmtree(folder)

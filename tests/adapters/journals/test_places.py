"""One journal, wherever it lies: behind a mounted folder, in memory, in a folder with another name, or copied."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE, Popen

import pytest

from agentrail.adapters.journals.sql.journal_files import CAN_LOCK
from agentrail.journals import SqliteJournal
from tests.adapters.journals.test_names import WRITER, Writer, path, readable, writing
from tests.kit import opened, run_of

__all__ = ["path"]

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not CAN_LOCK, reason="the kernel has no locks that belong to a descriptor"),
]

MANY = 20 if os.environ.get("AGENTRAIL_PROFILE") == "campaign" else 6
"""Processes that open one journal at the same time."""


async def test_of_many_processes_that_begin_together_each_has_its_session(path: Path) -> None:
    processes: list[Popen[str]] = []
    try:
        for number in range(MANY):
            command = [sys.executable, "-c", WRITER.replace("theirs", f"session-{number}"), str(path)]
            processes.append(Popen(command, stdin=PIPE, stdout=PIPE, text=True))  # noqa: ASYNC220, S603 - our own program
        assert [Writer(process).line() for process in processes] == ["ready"] * MANY
        assert [Writer(process).writes(2) for process in processes] == ["5"] * MANY
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    journal = SqliteJournal(path)
    for number in range(MANY):
        assert await journal.read(f"session-{number}") == run_of(f"session-{number}", 1, 5)
    await journal.close()


async def shared(place: Path, other: Writer) -> None:
    """Assert that a journal under the path *place* is the one that *other* writes."""
    journal = SqliteJournal(place)
    await opened(journal, "mine")
    assert other.writes(1) == "4"
    assert await journal.read("theirs") == run_of("theirs", 1, 4)
    await journal.close()
    other.end()
    await readable(place, 4)


async def test_a_folder_of_another_name_holds_the_same_journal(path: Path, tmp_path: Path) -> None:
    (tmp_path / "other").symlink_to(path.parent)
    with writing(path) as other:
        await shared(tmp_path / "other" / path.name, other)


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
            await shared(place / path.name, other)
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


async def test_a_journal_in_memory_is_shared_as_on_a_disk() -> None:
    memory = Path("/dev/shm")  # noqa: S108 - the folder below has a name of its own
    if not os.access(memory, os.W_OK):
        pytest.skip("there is no /dev/shm to write to")
    folder = memory / f"agentrail-test-{os.getpid()}"
    folder.mkdir()
    try:
        with writing(folder / "agentrail.db") as other:
            await shared(folder / "agentrail.db", other)
    finally:
        shutil.rmtree(folder)

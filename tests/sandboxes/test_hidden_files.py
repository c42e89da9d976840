"""Agents see no files of agentrail itself: neither by tools for files nor by commands, whatever folder they work in."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest
import trio

from agentrail.errors import AgentrailError, CommandRefused, FileMissing, PathRefused
from agentrail.journals import SqliteJournal
from agentrail.sandboxes import BubblewrapSandbox, Command, Execution, Kind, LocalSandbox, Search
from tests.sandboxes.kinds import needs_bubblewrap, needs_openat2, without_openat2

SECRET: Final = "the secret"
OWN: Final = ".local/share/agentrail"


@pytest.fixture
def user_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home in which an agent works, with the folder of agentrail."""
    home = tmp_path / "home"
    (home / OWN / "run").mkdir(parents=True)
    (home / OWN / "agents.key").write_text(SECRET)
    (home / OWN / "run" / "j.sock.json").write_text(SECRET)
    (home / OWN / "tokens").mkdir()
    (home / OWN / "tokens" / "1234").write_text(SECRET)
    (home / "link").symlink_to(f"{OWN}/agents.key")
    (home / "folder").symlink_to(OWN)
    (home / "notes.txt").write_text("notes")
    monkeypatch.setenv("AGENTRAIL_HOME", str(home / OWN))
    monkeypatch.setenv("XDG_RUNTIME_DIR", "")
    return home


@pytest.fixture(params=["kernel", "walk"])
def opening(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How files are opened: by the kernel (`openat2`), or part by part."""
    if request.param == "walk":
        without_openat2(monkeypatch)
    return str(request.param)


@asynccontextmanager
async def journal_in(folder: Path) -> AsyncGenerator[SqliteJournal]:
    """A journal in the folder in which an agent works, while this process writes it."""
    journal = SqliteJournal(folder / "j.db")
    await journal.release(())
    try:
        yield journal
    finally:
        await journal.close()  # noqa: ASYNC102 - nothing cancels it


@pytest.mark.usefixtures("opening")
@pytest.mark.parametrize(
    "path",
    [
        f"{OWN}/agents.key",
        f"{OWN}/run/j.sock.json",
        f"{OWN}/tokens/1234",
        "link",
        "folder/agents.key",
        f"{OWN}/missing",
    ],
)
async def test_no_tool_reads_or_changes_a_file_of_agentrail(path: str, user_home: Path) -> None:
    sandbox = LocalSandbox(user_home)
    with pytest.raises((PathRefused, FileMissing)):
        await sandbox.read(path)
    with pytest.raises(PathRefused):
        await sandbox.write(path, b"planted")
    with pytest.raises(PathRefused):
        await sandbox.edit(path, b"the", b"a")
    assert (user_home / OWN / "agents.key").read_text() == SECRET


@pytest.mark.usefixtures("opening")
@pytest.mark.parametrize("path", [OWN, f"{OWN}/run", "folder", "folder/run"])
async def test_no_tool_lists_a_folder_of_agentrail(path: str, user_home: Path) -> None:
    sandbox = LocalSandbox(user_home)
    with pytest.raises(PathRefused, match="agentrail keeps files of its own there"):
        await sandbox.list(path)
    with pytest.raises(PathRefused):
        await sandbox.execute(Command("ls", folder=path))


@pytest.mark.long
@pytest.mark.usefixtures("opening")
async def test_a_search_leaves_out_the_files_of_agentrail(user_home: Path) -> None:
    sandbox = LocalSandbox(user_home)
    found = await sandbox.grep(Search("secret|notes", ignored=True))
    assert [match.path for match in found.matches] == ["notes.txt"]
    listing = await sandbox.glob("**/*", ignored=True)
    assert [entry.path for entry in listing.entries if entry.kind is Kind.FILE] == ["notes.txt"]


@pytest.mark.parametrize("path", [OWN, ".local/share", ".local"])
async def test_no_tool_removes_a_folder_of_agentrail(path: str, user_home: Path) -> None:
    with pytest.raises(PathRefused):
        await LocalSandbox(user_home).remove(path)
    assert (user_home / OWN / "agents.key").read_text() == SECRET


@pytest.mark.parametrize("ending", ["", "-wal", "-shm", "-journal", ".lock"])
async def test_no_tool_touches_a_journal_that_is_in_use(ending: str, user_home: Path) -> None:
    sandbox = LocalSandbox(user_home)
    async with journal_in(user_home):
        for path in (f"j.db{ending}", "alias"):
            (user_home / "alias").unlink(missing_ok=True)
            (user_home / "alias").symlink_to(f"j.db{ending}")
            with pytest.raises((PathRefused, FileMissing)):
                await sandbox.read(path)
            with pytest.raises(PathRefused):
                await sandbox.write(path, b"planted")
        with pytest.raises(PathRefused):
            await sandbox.remove(f"j.db{ending}")
    if not ending:
        assert (await sandbox.read("j.db", 0, 15)).data == b"SQLite format 3"


ATTACKS: Final = (
    f"cat {OWN}/agents.key",
    f"cat {OWN}/run/j.sock.json",
    "cat link folder/agents.key",
    "cat j.db j.db-wal j.db-shm j.db.lock",
    f"mv .local moved && cat moved/{OWN.removeprefix('.local/')}/agents.key",
    f"mv .local/share .local/moved && mkdir -p {OWN} && echo planted > {OWN}/agents.key",
    f"rm -rf {OWN}; mkdir -p {OWN} && echo planted > {OWN}/agents.key",
    f"echo planted > {OWN}/allowed",
    f"umount {OWN}; cat {OWN}/agents.key",
    "echo planted > j.db",
    "mv j.db old.db && head -c 15 old.db",
    "ln j.db hard.db && cat hard.db",
    "echo planted > j.db-journal",
    "rm -f j.db-wal j.db-shm j.db-journal; echo planted > j.db-journal",
)
"""What a command may try in a home with the folder of agentrail and a journal."""


@pytest.mark.long
@needs_bubblewrap
@pytest.mark.parametrize("line", ATTACKS)
async def test_a_command_neither_sees_nor_replaces_files_of_agentrail(line: str, user_home: Path) -> None:
    async with journal_in(user_home):
        before = (user_home / "j.db").stat().st_ino
        done = await BubblewrapSandbox(user_home).execute(Command(line, timeout=20, merge=True))
        assert done.exit_code != 0, done.stdout.text
        assert SECRET not in done.stdout.text
        assert "SQLite" not in done.stdout.text
        assert (user_home / "j.db").stat().st_ino == before
        content = (user_home / "j.db").read_bytes()  # not the same as before: the journal moves its log into the file
        assert content.startswith(b"SQLite format 3")
        assert b"planted" not in content
        assert (user_home / OWN / "agents.key").read_text() == SECRET
        assert sorted(place.name for place in (user_home / OWN).iterdir()) == ["agents.key", "run", "tokens"]
        assert not (user_home / "j.db-journal").exists()
    async with journal_in(user_home) as journal:
        assert await journal.holders() == ()


@pytest.mark.long
@needs_bubblewrap
async def test_what_one_command_does_does_not_uncover_files_for_the_next(user_home: Path) -> None:
    sandbox = BubblewrapSandbox(user_home)
    for line in ("mv .local/share .local/moved", "mv .local moved", "rm -rf .local"):
        await sandbox.execute(Command(line, timeout=20))
        done = await sandbox.execute(Command("find . -type f | xargs cat", timeout=20, merge=True))
        assert SECRET not in done.stdout.text
    assert (user_home / OWN / "agents.key").read_text() == SECRET


@pytest.mark.long
@needs_bubblewrap
async def test_a_command_makes_no_folder_that_agentrail_would_trust(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTRAIL_HOME", str(tmp_path / OWN))
    done = await BubblewrapSandbox(tmp_path).execute(Command(f"mkdir -p {OWN}; echo planted > {OWN}/allowed"))
    assert done.exit_code != 0
    assert list((tmp_path / OWN).iterdir()) == []


@pytest.mark.long
@needs_bubblewrap
async def test_files_beside_the_hidden_ones_are_used_as_ever(user_home: Path) -> None:
    async with journal_in(user_home):
        line = "echo new > .local/share/new && mv .local/share/new .local/share/other && echo x > k.db && cat notes.txt"
        done = await BubblewrapSandbox(user_home).execute(Command(line, timeout=20, merge=True))
        assert (done.exit_code, done.stdout.text) == (0, "notes")
    assert (user_home / ".local/share/other").read_text() == "new\n"


@pytest.mark.long
@needs_bubblewrap
async def test_a_protected_folder_above_stays_protected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".agentrail" / "own").mkdir(parents=True)
    (tmp_path / ".agentrail" / "own" / "agents.key").write_text(SECRET)
    monkeypatch.setenv("AGENTRAIL_HOME", str(tmp_path / ".agentrail" / "own"))
    sandbox = BubblewrapSandbox(tmp_path)
    for line in ("cat .agentrail/own/agents.key", "echo x > .agentrail/x", "mv .agentrail/own .agentrail/x"):
        done = await sandbox.execute(Command(line, timeout=20, merge=True))
        assert done.exit_code != 0
        assert SECRET not in done.stdout.text


@pytest.mark.long
@needs_bubblewrap
async def test_what_is_readable_besides_has_no_files_of_agentrail(user_home: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    sandbox = BubblewrapSandbox(root, readable=[str(user_home)])
    done = await sandbox.execute(Command(f"cat {user_home}/notes.txt {user_home}/{OWN}/agents.key", merge=True))
    assert done.stdout.text.startswith("notes")
    assert SECRET not in done.stdout.text


@pytest.mark.long
@needs_bubblewrap
async def test_what_one_command_made_covers_as_long_as_another_runs(user_home: Path) -> None:
    os.mkfifo(user_home / "go")
    attack = Command("cat go; rm -f j.db-journal; echo planted > j.db-journal", timeout=20, merge=True)
    results: list[Execution] = []

    async def attack_when_told() -> None:
        results.append(await BubblewrapSandbox(user_home).execute(attack))

    async with journal_in(user_home):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(attack_when_told)
            opened = await trio.open_file(user_home / "go", "w")  # returns when the command has opened it
            assert (await BubblewrapSandbox(user_home).execute(Command("true", timeout=20))).exit_code == 0
            await opened.aclose()
        assert results[0].exit_code != 0
        assert not (user_home / "j.db-journal").exists()


async def test_nobody_works_in_the_folder_of_agentrail(user_home: Path) -> None:
    sandbox = BubblewrapSandbox(user_home / OWN)
    with pytest.raises(CommandRefused, match="where agentrail keeps files of its own; take another"):
        await sandbox.execute(Command("ls"))
    with pytest.raises(AgentrailError):
        await sandbox.read("agents.key")


async def test_a_folder_below_that_of_agentrail_may_be_worked_in(user_home: Path) -> None:
    (user_home / OWN / "work").mkdir()
    (user_home / OWN / "work" / "a.txt").write_text("mine")
    sandbox = LocalSandbox(user_home / OWN / "work")
    assert (await sandbox.read("a.txt")).data == b"mine"
    await sandbox.write("b.txt", b"mine too")


@needs_openat2
async def test_a_user_without_a_home_has_sandboxes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> Path:
        raise RuntimeError

    monkeypatch.delenv("AGENTRAIL_HOME", raising=False)
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.setattr(Path, "home", nobody)
    (tmp_path / "a.txt").write_text("mine")
    assert (await LocalSandbox(tmp_path).read("a.txt")).data == b"mine"

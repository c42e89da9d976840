"""`FindFiles`: names are found on the disk and in git's index, and what cannot be told is an error."""

import hashlib
import os
import subprocess
from pathlib import Path

import pytest
import trio

from agentrail.adapters.sandboxes import searching
from agentrail.errors import AgentrailError, FileFailed, OutsideError, PathRefused
from agentrail.plugins import FindFiles
from agentrail.runtime.work import plugin_files
from agentrail.runtime.work.plugin_files import find_files, paths_of_index
from agentrail.sandboxes import Listing, LocalSandbox, MemorySandbox
from tests.coded import coded
from tests.plugins.shell_lines.folders import index_of

GIT = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
NAMES = (".env", "id_*", ".aws")


def project(*paths: str, **others: bytes) -> MemorySandbox:
    return MemorySandbox({**dict.fromkeys(paths, b"x"), **others})


async def test_names_are_found_in_a_folder_and_told_up_to_the_name() -> None:
    sandbox = project("src/a.py", "src/.env", "src/b/ID_RSA", "src/.AWS/x", "src/.aws/y/z", "sub/.env", "src/x.env")
    paths = await find_files(sandbox, FindFiles(NAMES, ("src",)))
    assert paths == ("src/.AWS", "src/.aws", "src/.env", "src/b/ID_RSA")
    assert await find_files(sandbox, FindFiles(NAMES, ("src/b", "sub"))) == ("src/b/ID_RSA", "sub/.env")
    assert await find_files(sandbox, FindFiles(NAMES)) == ()


async def test_what_git_ignores_is_found_unless_it_is_left_out() -> None:
    sandbox = MemorySandbox({".gitignore": b"keys/\n", "keys/.env": b"", ".git/.env": b"", "a/.env": b""})
    assert await find_files(sandbox, FindFiles(NAMES, (".",))) == (".git/.env", "a/.env", "keys/.env")
    assert await find_files(sandbox, FindFiles(NAMES, (".",), ignored=False)) == ("a/.env",)


async def test_there_is_nothing_in_a_folder_that_is_not_there_nor_in_a_file() -> None:
    sandbox = project("a.py")
    assert await find_files(sandbox, FindFiles(NAMES, ("nowhere", "a.py"))) == ()


def test_on_the_disk_it_is_the_same(tmp_path: Path) -> None:
    (tmp_path / "src/.aws").mkdir(parents=True)
    (tmp_path / "src/.aws/x").write_text("")
    (tmp_path / "a.py").write_text("")
    (tmp_path / "out").symlink_to("/")
    sandbox = LocalSandbox(str(tmp_path))
    assert trio.run(find_files, sandbox, FindFiles(NAMES, (".", "a.py", "nowhere"))) == ("src/.aws",)
    for folder in ("..", "/", "out"):
        with pytest.raises((PathRefused, FileFailed)):
            trio.run(find_files, sandbox, FindFiles(NAMES, (folder,)))


async def test_a_folder_that_cannot_be_looked_through_is_not_said_to_be_empty() -> None:
    class Failing(MemorySandbox):
        async def glob(self, pattern: str, path: str = ".", *, ignored: bool = False, limit: int = 1000) -> Listing:
            raise FileFailed("search", path, "the disk is broken")

    sandbox = Failing({"src/.env": b"", "a.py": b""})
    with pytest.raises(FileFailed):
        await find_files(sandbox, FindFiles(NAMES, ("src",)))
    assert await find_files(sandbox, FindFiles(NAMES, ("a.py",))) == ()


async def test_a_folder_with_too_much_in_it_is_not_said_to_be_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    sandbox = project(*(f"a{number}/x" for number in range(9)), "z/.env")
    monkeypatch.setattr(searching, "MAX_SEEN", 5)
    with pytest.raises(OutsideError, check=coded("not-readable"), match="too many files"):
        await find_files(sandbox, FindFiles(NAMES, (".",)))


async def test_what_git_tracks_is_found_in_the_nearest_index_at_or_above_a_folder() -> None:
    inner, outer = index_of(["a/.env", "b"]), index_of([".env", "src/id_rsa", "src/deep/.env", "lib"])
    sandbox = MemorySandbox({".git/index": outer, "lib/.git/index": inner, "src/new/.env": b""})
    for folder, actual in {
        ".": (".env", "src/deep/.env", "src/id_rsa"),
        "src": ("src/deep/.env", "src/id_rsa"),
        "src/": ("src/deep/.env", "src/id_rsa"),
        "src/deep": ("src/deep/.env",),
        "lib": ("lib/a/.env",),
        "lib/b": (),
    }.items():
        assert await find_files(sandbox, FindFiles(NAMES, (), (folder,))) == actual, folder


async def test_without_a_repository_it_is_not_known_what_git_tracks() -> None:
    with pytest.raises(OutsideError, check=coded("not-readable"), match="no repository"):
        await find_files(project("a"), FindFiles(NAMES, (), (".",)))


async def test_a_repository_whose_folder_is_elsewhere_is_not_read() -> None:
    sandbox = MemorySandbox({".git": b"gitdir: /elsewhere\n"})
    with pytest.raises(AgentrailError):
        await find_files(sandbox, FindFiles(NAMES, (), (".",)))


def git(folder: Path, *args: str) -> None:
    subprocess.run(("git", *args), cwd=folder, env={**os.environ, **GIT}, check=True, capture_output=True)  # noqa: S603, S607 - git of the machine


@pytest.mark.long
def test_an_index_without_a_checksum_is_read(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    git(tmp_path, "config", "index.skipHash", "true")
    for name in (".env", "a" * 5000, "src"):
        (tmp_path / name[:200]).write_text("x")
    git(tmp_path, "add", "-A")
    data = (tmp_path / ".git/index").read_bytes()[:-20] + bytes(20)  # git before 2.40 does not know the option
    assert list(paths_of_index(data)) == [".env", "a" * 200, "src"]


def test_without_a_checksum_nothing_broken_is_believed() -> None:
    data = index_of([".env", "a" * 5000, "src/b"])[:-20] + bytes(20)
    assert list(paths_of_index(data)) == [".env", "a" * 5000, "src/b"]
    for end in range(len(data) - 20):
        with pytest.raises(OutsideError, check=coded("not-readable")):
            list(paths_of_index(data[:end] + bytes(20)))
    longer = data[:12] + bytes(12) + data[12:]  # as if the ids of objects had more bytes
    with pytest.raises(OutsideError, check=coded("not-readable")):
        list(paths_of_index(longer))


@pytest.mark.long
def test_the_index_of_a_real_repository_is_read(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    names = [".env", "a", "a.b/c", "dir/ünï", "x" * 200, *(f"n{'y' * number}" for number in range(20))]
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    index = tmp_path / ".git/index"
    git(tmp_path, "add", "-A")
    assert list(paths_of_index(index.read_bytes())) == sorted(names, key=str.encode)
    (tmp_path / "later").write_text("x")
    git(tmp_path, "add", "-N", "later")  # an entry with more flags, which is of version 3
    assert index.read_bytes()[7] == 3
    assert list(paths_of_index(index.read_bytes())) == sorted([*names, "later"], key=str.encode)
    git(tmp_path, "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-qm", "it", "a")
    assert list(paths_of_index(index.read_bytes())) == sorted([*names, "later"], key=str.encode)  # with extensions
    git(tmp_path, "update-index", "--index-version=4")
    with pytest.raises(OutsideError, check=coded("not-readable"), match="another form"):
        list(paths_of_index(index.read_bytes()))
    git(tmp_path, "update-index", "--index-version=2")
    git(tmp_path, "update-index", "--split-index")
    with pytest.raises(OutsideError, check=coded("not-readable"), match="b'link' is not known"):
        list(paths_of_index(index.read_bytes()))


@pytest.mark.long
def test_an_index_with_another_checksum_is_not_read(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--object-format=sha256")
    (tmp_path / "a").write_text("x")
    git(tmp_path, "add", "a")
    with pytest.raises(OutsideError, check=coded("not-readable"), match="SHA-1"):
        list(paths_of_index((tmp_path / ".git/index").read_bytes()))
    good = index_of(["a"])
    for broken in (b"", b"DIRC", good[:-1], good[:20] + b"x" + good[21:]):
        with pytest.raises(OutsideError, check=coded("not-readable")):
            list(paths_of_index(broken))


def test_an_index_that_names_folders_instead_of_files_is_not_read() -> None:
    data = index_of(["a"])[:-20] + b"sdir" + (0).to_bytes(4, "big")
    with pytest.raises(OutsideError, check=coded("not-readable"), match="b'sdir'"):
        list(paths_of_index(data + hashlib.sha1(data, usedforsecurity=False).digest()))


async def test_others_run_while_many_names_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin_files, "AT_ONCE", 1)
    ran = 0

    async def other() -> None:
        nonlocal ran
        while True:
            ran += 1
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(other)
        await find_files(MemorySandbox({".git/index": index_of(map(str, range(20)))}), FindFiles(NAMES, (), (".",)))
        nursery.cancel_scope.cancel()
    assert ran >= 20

"""Files that come piece by piece: they are there as a whole or not at all, and replace nothing; and what is removed."""

from __future__ import annotations

import errno
import os
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import pytest
import trio

from agentrail.adapters.sandboxes.files import NAMELESS
from agentrail.errors import AgentrailError, DiskFull, FileFailed, PathRefused
from agentrail.sandboxes import (
    BubblewrapSandbox,
    CompositeSandbox,
    LocalSandbox,
    MemorySandbox,
    NextPiece,
    Receiver,
    Sandbox,
    Search,
    Written,
)

LARGE: Final = b"two" * 100_000


@pytest.fixture(params=["local", "bubblewrap", "memory", "composite"])
def sandbox(request: pytest.FixtureRequest, tmp_path: Path) -> Sandbox:
    made: dict[str, Callable[[], Sandbox]] = {
        "local": lambda: LocalSandbox(tmp_path),
        "bubblewrap": lambda: BubblewrapSandbox(tmp_path),
        "memory": MemorySandbox,
        "composite": lambda: CompositeSandbox({"in": LocalSandbox(tmp_path)}, MemorySandbox()),
    }
    return made[str(request.param)]()


def receiver(sandbox: Sandbox) -> Receiver:
    assert isinstance(sandbox, Receiver)
    return sandbox


def pieces(*given: bytes) -> NextPiece:
    left: Iterator[bytes] = iter((*given, b""))

    async def next_piece() -> bytes:
        await trio.lowlevel.checkpoint()
        return next(left)

    return next_piece


def names(folder: Path) -> Sequence[str]:
    return [each.name for each in folder.iterdir()]


async def unread() -> bytes:
    raise AssertionError


async def all_of(sandbox: Sandbox) -> Sequence[str]:
    return [entry.path for entry in (await sandbox.glob("**", ignored=True)).entries]


async def test_a_file_comes_in_pieces(sandbox: Sandbox) -> None:
    written = await receiver(sandbox).receive("in/a/b.bin", pieces(b"one", LARGE))
    assert written == Written(3 + len(LARGE), created=True)
    found = await sandbox.read("in/a/b.bin")
    assert (found.data, found.size) == (b"one" + LARGE, written.size)
    assert await receiver(sandbox).receive("in/empty", pieces()) == Written(0, created=True)
    assert await all_of(sandbox) == ["in/a/b.bin", "in/empty"]


@pytest.mark.skipif(not NAMELESS, reason="NOT PROVED, because this system has no files without a name")
async def test_a_file_never_has_two_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With two, whoever reads it at that moment would be refused, as for a link to what is outside."""
    counts = list[int]()
    real = os.link

    def link(there: str, name: str, *, src_dir_fd: int, dst_dir_fd: int, follow_symlinks: bool) -> None:
        real(there, name, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd, follow_symlinks=follow_symlinks)
        counts.append((tmp_path / "a").stat().st_nlink)

    monkeypatch.setattr("agentrail.adapters.sandboxes.files.os.link", link)
    await LocalSandbox(tmp_path).receive("a", pieces(b"x"))
    assert (counts, names(tmp_path)) == ([1], ["a"])


async def test_a_file_comes_also_where_there_are_none_without_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentrail.adapters.sandboxes.files.NAMELESS", 0)
    sandbox = LocalSandbox(tmp_path)
    assert await sandbox.receive("a", pieces(b"one", b"two")) == Written(6, created=True)
    with pytest.raises(FileFailed):
        await sandbox.receive("a", unread)

    async def gone() -> bytes:
        raise GoneError

    with pytest.raises(GoneError):
        await sandbox.receive("b", gone)
    assert (names(tmp_path), (tmp_path / "a").read_bytes()) == (["a"], b"onetwo")


async def test_a_link_in_place_of_a_file_that_comes_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command in the sandbox may put one there, to a file that it cannot reach."""
    monkeypatch.setattr("agentrail.adapters.sandboxes.files.NAMELESS", 0)
    inside, outside = tmp_path / "in", tmp_path / "key"
    inside.mkdir()
    outside.write_bytes(b"secret")

    async def replaced() -> bytes:
        (name,) = names(inside)
        (inside / name).unlink()
        (inside / name).symlink_to(outside)
        return b""

    await LocalSandbox(inside).receive("a", replaced)
    assert outside.stat().st_nlink == 1
    with pytest.raises(PathRefused):
        await LocalSandbox(inside).read("a")


async def test_a_file_that_is_there_is_not_replaced(sandbox: Sandbox) -> None:
    await sandbox.write("in/a", b"first")
    with pytest.raises(FileFailed):
        await receiver(sandbox).receive("in/a", unread)
    given = pieces(b"third")

    async def overtaken() -> bytes:
        await sandbox.write("in/b", b"second")
        return await given()

    with pytest.raises(FileFailed):
        await receiver(sandbox).receive("in/b", overtaken)
    assert [(await sandbox.read(path)).data for path in await all_of(sandbox)] == [b"first", b"second"]


class GoneError(Exception):
    pass


@pytest.mark.parametrize("after", [0, 1, 2])
async def test_nothing_is_left_of_a_file_that_does_not_come_to_its_end(sandbox: Sandbox, after: int) -> None:
    given = pieces(*[b"piece"] * after)

    async def cut() -> bytes:
        piece = await given()
        if not piece:
            raise GoneError
        return piece

    with pytest.raises(GoneError):
        await receiver(sandbox).receive("in/a", cut)
    assert await all_of(sandbox) == []
    given = pieces(*[b"piece"] * after)
    scope = trio.CancelScope()

    async def cancelled() -> bytes:
        piece = await given()
        if not piece:
            scope.cancel()
            await trio.lowlevel.checkpoint()
        return piece

    with scope:
        await receiver(sandbox).receive("in/b", cancelled)
    assert scope.cancelled_caught
    assert await all_of(sandbox) == []


async def test_nothing_is_left_if_the_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    room = [10]
    real = os.write

    def write(fd: int, data: memoryview) -> int:
        if not room[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        taken = real(fd, data[: room[0]])
        room[0] -= taken
        return taken

    sandbox = LocalSandbox(tmp_path)
    monkeypatch.setattr("agentrail.adapters.sandboxes.files.os.write", write)
    with pytest.raises(DiskFull) as found:
        await sandbox.receive("a", pieces(b"eight by", b"tes, and more"))
    assert str(found.value) == "cannot write `a`: no space left on device; remove what is not needed"
    monkeypatch.undo()
    assert names(tmp_path) == []


@pytest.mark.parametrize("path", ["", "..", "../x", "a/../x", "/x", "a\0b", "x" * 300, ".git/hooks/x", "."])
async def test_a_path_that_no_file_may_have_is_refused(sandbox: Sandbox, path: str) -> None:
    doing: list[Callable[[], Awaitable[object]]] = [
        lambda: receiver(sandbox).receive(path, unread),
        lambda: receiver(sandbox).remove(path),
    ]
    for do in doing:
        with pytest.raises((PathRefused, FileFailed)):
            await do()


async def test_files_and_folders_are_removed(sandbox: Sandbox) -> None:
    for path in ("in/a/b/c", "in/a/d", "in/e"):
        await sandbox.write(path, b"x")
    await receiver(sandbox).remove("in/a")
    assert await all_of(sandbox) == ["in/e"]
    await receiver(sandbox).remove("in/e")
    await receiver(sandbox).remove("in/e")
    await receiver(sandbox).remove("in/no/such")
    assert await all_of(sandbox) == []
    assert not await sandbox.exists("in/a")


async def test_a_link_is_removed_and_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("x")
    root = tmp_path / "root"
    (root / "a").mkdir(parents=True)
    (root / "a" / "link").symlink_to(outside)
    (root / "link").symlink_to(outside)
    sandbox = LocalSandbox(root)
    await sandbox.remove("a")
    with pytest.raises(AgentrailError):
        await sandbox.remove("link/kept")
    with pytest.raises(AgentrailError):
        await sandbox.receive("link/new", pieces(b"x"))
    await sandbox.remove("link")
    assert (names(root), names(outside)) == ([], ["kept"])


async def test_a_composite_sandbox_removes_no_prefix_and_tells_who_cannot_receive() -> None:
    class Plain(MemorySandbox):
        receive = remove = None  # type: ignore[assignment]

    sandbox = CompositeSandbox({"in/deep": MemorySandbox(), "plain": Plain()}, MemorySandbox())
    with pytest.raises(FileFailed, match="belong to other sandboxes"):
        await sandbox.remove("in")
    with pytest.raises(FileFailed, match="it is a folder"):
        await sandbox.receive("in", pieces(b"x"))
    with pytest.raises(FileFailed, match="no `receive`"):
        await sandbox.receive("plain/a", pieces(b"x"))


async def test_a_composite_sandbox_writes_no_folder_and_cuts_what_is_more_than_was_asked_for() -> None:
    sandbox = CompositeSandbox({"in/deep": MemorySandbox({"a": b"tea"})}, MemorySandbox({"b": b"tea"}))
    with pytest.raises(FileFailed, match="it is a folder"):
        await sandbox.write("in", b"x")
    for limit, found, cut in ((1, ["b"], True), (2, ["b", "in/deep/a"], False)):
        matches = await sandbox.grep(Search("tea", limit=limit))
        assert ([match.path for match in matches.matches], matches.cut) == (found, cut)


@pytest.mark.parametrize("kind", [LocalSandbox, BubblewrapSandbox])
async def test_a_missing_root_is_created_with_what_is_written(
    kind: type[LocalSandbox | BubblewrapSandbox], tmp_path: Path
) -> None:
    sandbox = kind(tmp_path / "not" / "there")
    assert await sandbox.receive("in/a.bin", pieces(b"one")) == Written(3, created=True)
    assert (tmp_path / "not" / "there" / "in" / "a.bin").read_bytes() == b"one"
    other = kind(tmp_path / "nor" / "this")
    assert await other.write("b.bin", b"two") == Written(3, created=True)
    assert (tmp_path / "nor" / "this" / "b.bin").read_bytes() == b"two"

import secrets
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from agentrail.adapters.sandboxes import confined_open, files
from agentrail.adapters.sandboxes.confined_open import BENEATH, NO_MAGICLINKS, NO_XDEV
from agentrail.adapters.sandboxes.files import translate_errors
from agentrail.adapters.sandboxes.paths import CHECKS, Why
from agentrail.errors import DiskFull, PathRefused
from agentrail.sandboxes import BubblewrapSandbox, LocalSandbox, Search
from tests.sandboxes.corpus import findings, magic, make_world, outcome, reading
from tests.sandboxes.kinds import needs_openat2, without_openat2

WALKS = [pytest.param(False, id="openat2", marks=needs_openat2), pytest.param(True, id="part by part")]


@pytest.fixture(params=WALKS)
def walk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    if request.param:
        without_openat2(monkeypatch)
    return bool(request.param)


@pytest.mark.long
@pytest.mark.usefixtures("walk")
async def test_no_path_leads_out(tmp_path: Path) -> None:
    assert await findings(LocalSandbox(make_world(tmp_path)), tmp_path) == []


@pytest.mark.long
async def test_no_path_leads_out_of_the_other_sandbox_with_a_disk(tmp_path: Path) -> None:
    assert await findings(BubblewrapSandbox(make_world(tmp_path)), tmp_path, search=False) == []


@pytest.mark.usefixtures("walk")
async def test_a_link_to_a_folder_within_is_followed_and_an_absolute_one_is_not(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a.txt").write_text("here", encoding="ascii")
    (tmp_path / "near").symlink_to("real")
    (tmp_path / "far").symlink_to(tmp_path / "real")
    sandbox = LocalSandbox(tmp_path)
    assert (await sandbox.read("near/a.txt")).data == b"here"
    assert await outcome(lambda: sandbox.read("far/a.txt")) == Why.OUTSIDE


def open_files() -> set[Path]:
    return set(Path("/proc/self/fd").iterdir())


async def test_a_file_that_was_used_is_closed(tmp_path: Path) -> None:
    sandbox = LocalSandbox(tmp_path)

    async def use() -> None:
        await sandbox.write("a.txt", b"one")
        await sandbox.edit("a.txt", b"one", b"two")
        await sandbox.read("a.txt")

    await use()
    before = open_files()
    await use()
    assert open_files() == before


async def test_an_edit_by_another_name_of_a_hidden_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "own.pem").write_text("a secret", encoding="ascii")
    (tmp_path / "notes.txt").hardlink_to(tmp_path / "own.pem")
    sandbox = LocalSandbox(tmp_path, hard_links=True, hidden=("*.pem",))
    with pytest.raises(PathRefused):
        await sandbox.edit("notes.txt", b"a", b"no")
    assert (tmp_path / "own.pem").read_text() == "a secret"


async def test_an_edit_keeps_what_another_program_has_written_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, real, is_first = tmp_path / "a.txt", secrets.token_hex, [True]
    file.write_text("one two", encoding="ascii")

    def token_hex(count: int) -> str:
        """Write to the file at the first call, which is after it was read and before it is replaced."""
        if is_first.pop():
            file.write_text("one two three", encoding="ascii")
        is_first.append(False)
        return real(count)

    monkeypatch.setattr("agentrail.adapters.sandboxes.files.secrets.token_hex", token_hex)
    await LocalSandbox(tmp_path).edit("a.txt", b"one", b"1")
    assert file.read_text() == "1 two three"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="NOT PROVED, because this system has no full device")
def test_a_full_disk_is_told_apart() -> None:
    with pytest.raises(DiskFull, match="cannot write `a`: no space left"), translate_errors("write", "a"):
        Path("/dev/full").write_bytes(b"x")


@pytest.mark.long
async def test_a_match_has_no_line_beside_it_unless_asked(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\nthree\n", encoding="ascii")
    sandbox = LocalSandbox(tmp_path)
    (match,) = (await sandbox.grep(Search("two"))).matches
    assert (match.before, match.line, match.after) == ((), "two", ())


async def magic_findings() -> list[str]:
    found: list[str] = []
    for root, path in magic():
        for name, answer in reading(LocalSandbox(root, hidden=()), path, search=True).items():
            said = await outcome(answer)
            if said not in {Why.OUTSIDE, Why.NO_FILE, Why.LINKS, "FileFailed"}:
                found.append(f"{name} {root} {path} -> {said[:80]}")
    return found


@pytest.mark.usefixtures("walk")
async def test_no_file_that_is_no_file_is_opened() -> None:
    assert await magic_findings() == []


@pytest.mark.long
async def test_a_walk_stays_on_its_file_system_and_off_links(tmp_path: Path) -> None:
    sandbox = LocalSandbox(make_world(tmp_path))
    found = await sandbox.glob("**", ignored=True)
    assert [entry.path for entry in found.entries] == ["folder/hard.txt", "folder/inner.txt", "hard.txt", "plain.txt"]
    assert (await sandbox.grep(Search("secret"))).matches == ()


def unchecked(monkeypatch: pytest.MonkeyPatch, why: Why) -> None:
    monkeypatch.setitem(CHECKS, why, lambda _: False)


@pytest.mark.long
@pytest.mark.parametrize("why", list(CHECKS))
async def test_without_one_check_of_the_text_the_corpus_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: Why
) -> None:
    root = make_world(tmp_path)
    unchecked(monkeypatch, why)
    assert await findings(LocalSandbox(root), tmp_path, search=False, enough=1) != []


def nothing(*_: object, **__: object) -> None:
    return None


def without_beneath(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(confined_open, "RESOLVE", NO_XDEV)


def without_no_symlinks(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(confined_open, "NO_SYMLINKS", 0)


def without_looking_at_the_file(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(confined_open, "check_file", nothing)


def without_looking_at_what_is_replaced(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(files, "check_file", nothing)


def without_protection(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(files, "check_writable", nothing)


def with_absolute_links(patch: pytest.MonkeyPatch) -> None:
    without_openat2(patch)
    counted = confined_open.Walk.parts_of

    def as_if_relative(walk: confined_open.Walk, target: str) -> list[str]:
        return counted(walk, target.lstrip("/"))

    patch.setattr(confined_open.Walk, "parts_of", as_if_relative)


def with_links_up(patch: pytest.MonkeyPatch) -> None:
    without_openat2(patch)
    patch.setattr(confined_open.Walk, "up", nothing)


CUTS = [
    pytest.param(without_beneath, marks=needs_openat2),
    pytest.param(without_no_symlinks, marks=needs_openat2),
    without_looking_at_the_file,
    without_looking_at_what_is_replaced,
    without_protection,
    with_absolute_links,
    with_links_up,
]


@pytest.mark.long
@pytest.mark.parametrize("cut", CUTS)
async def test_without_one_check_of_the_open_the_corpus_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cut: Callable[[pytest.MonkeyPatch], None]
) -> None:
    root = make_world(tmp_path)
    cut(monkeypatch)
    assert await findings(LocalSandbox(root), tmp_path, search=False, enough=1) != []


@pytest.mark.long
@pytest.mark.parametrize("options", [{"hard_links": True}, {"protected": ()}])
async def test_what_is_allowed_on_purpose_is_found_by_the_corpus(
    tmp_path: Path, options: dict[str, bool | Iterable[str]]
) -> None:
    root = make_world(tmp_path)
    sandbox = LocalSandbox(
        root,
        hard_links=bool(options.get("hard_links", False)),
        protected=() if "protected" in options else (".git",),
    )
    assert await findings(sandbox, tmp_path, search=False, enough=1) != []


@pytest.mark.long
@needs_openat2
async def test_without_the_check_of_the_file_system_the_corpus_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confined_open, "RESOLVE", BENEATH | NO_MAGICLINKS)
    assert await magic_findings() != []


def same_device(_walk: object, fd: int) -> int:
    return fd


@pytest.mark.long
async def test_without_the_same_check_part_by_part_the_corpus_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    without_openat2(monkeypatch)
    monkeypatch.setattr(confined_open.Walk, "same_device", same_device)
    assert await magic_findings() != []

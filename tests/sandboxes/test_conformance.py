from pathlib import Path
from typing import cast

import pytest

from agentrail.errors import CommandRefused, FileFailed
from agentrail.sandboxes import (
    BubblewrapSandbox,
    Command,
    CompositeSandbox,
    LocalSandbox,
    MemorySandbox,
    Sandbox,
    Search,
)
from agentrail.testing import CommandConformance, SandboxConformance
from agentrail.testing.conformance.expected_errors import raised
from agentrail.testing.conformance.sandbox_tests import paths
from tests.sandboxes.kinds import needs_bubblewrap, needs_openat2, without_openat2


@needs_openat2
class TestLocal(SandboxConformance):
    @pytest.fixture
    def sandbox(self, tmp_path: Path) -> Sandbox:
        return LocalSandbox(tmp_path)

    @pytest.mark.long  # a search is a process
    async def test_a_search_finds_lines(self, sandbox: Sandbox) -> None:
        await super().test_a_search_finds_lines(sandbox)

    @pytest.mark.long
    async def test_what_git_ignores_is_not_searched_unless_asked(self, sandbox: Sandbox) -> None:
        await super().test_what_git_ignores_is_not_searched_unless_asked(sandbox)


@pytest.mark.long
@needs_openat2
class TestLocalCommands(CommandConformance):
    @pytest.fixture
    def sandbox(self, tmp_path: Path) -> Sandbox:
        return LocalSandbox(tmp_path)


@pytest.mark.long
class TestLocalPartByPart(SandboxConformance):
    @pytest.fixture
    def sandbox(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
        without_openat2(monkeypatch)
        return LocalSandbox(tmp_path)


@pytest.mark.long
@needs_bubblewrap
class TestBubblewrap(SandboxConformance, CommandConformance):
    @pytest.fixture
    def sandbox(self, tmp_path: Path) -> Sandbox:
        return BubblewrapSandbox(tmp_path)


class TestMemory(SandboxConformance):
    @pytest.fixture
    def sandbox(self) -> Sandbox:
        return MemorySandbox()

    async def test_it_runs_nothing(self, sandbox: Sandbox) -> None:
        await raised(CommandRefused, sandbox.execute(Command("true")))
        with pytest.raises(CommandRefused):
            sandbox.prepare(Command("true"))

    def test_it_begins_with_bytes(self) -> None:
        files = cast("dict[str, bytes]", {"a": "text"})
        with pytest.raises(FileFailed) as caught:
            MemorySandbox(files)
        said = "cannot write `a`: its content is a `str`, and a file is bytes; use `text.encode()`"
        assert str(caught.value) == said


class TestCompositeDefault(SandboxConformance):
    @pytest.fixture
    def sandbox(self) -> Sandbox:
        return CompositeSandbox({}, MemorySandbox())


class TestComposite:
    @pytest.fixture
    def sandbox(self) -> Sandbox:
        notes = MemorySandbox({"n.md": b"word", "deep/shadowed": b"word"})
        deep = MemorySandbox({"k.py": b"word"})
        default = MemorySandbox({"a.py": b"word", "notes/shadowed": b"word"})
        return CompositeSandbox({"/notes/": notes, "notes/deep": deep}, default)

    async def test_the_longest_prefix_decides(self, sandbox: Sandbox) -> None:
        await sandbox.write("notes/deep/new", b"1")
        assert (await sandbox.read("/notes/deep/new")).data == b"1"
        assert (await sandbox.read("notes/n.md")).data == b"word"
        assert not await sandbox.exists("notes/shadowed")
        assert not await sandbox.exists("notes/deep/shadowed")

    async def test_what_is_found_from_above_is_found_in_all(self, sandbox: Sandbox) -> None:
        assert paths((await sandbox.list()).entries) == ["a.py", "notes"]
        assert paths((await sandbox.list("notes")).entries) == ["notes/deep", "notes/n.md"]
        assert paths((await sandbox.glob("**/*.py")).entries) == ["a.py", "notes/deep/k.py"]
        assert paths((await sandbox.glob("*", "/notes")).entries) == ["notes/deep/k.py", "notes/n.md"]
        found = await sandbox.grep(Search("word"))
        assert [match.path for match in found.matches] == ["a.py", "notes/deep/k.py", "notes/n.md"]

    async def test_a_prefix_cannot_be_left_or_overwritten(self, sandbox: Sandbox) -> None:
        for path in ("notes/../a.py", "/a.py", "notes/deep/../../a.py", "//etc/passwd"):
            with pytest.raises(Exception, match="refused"):
                await sandbox.read(path)
        with pytest.raises(Exception, match="folder"):
            await sandbox.write("notes", b"")

"""A folder with files, a store of its own, and the steps of an agent and of a person in between."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from agentrail.sandboxes import FileSpan, LocalSandbox, Snapshots


@pytest.fixture(autouse=True)
def stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder in which agentrail keeps the snapshots of this test."""
    monkeypatch.setenv("AGENTRAIL_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / "snapshots"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder in which the agent works."""
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


class Agent:
    """An agent that works in a folder: what changes within `works` is its own."""

    def __init__(self, folder: Path) -> None:
        snapshots = LocalSandbox(folder, snapshots=True).snapshots
        assert snapshots is not None
        self.snapshots: Snapshots = snapshots
        self.spans: list[FileSpan] = []
        self._first = ""

    async def __aenter__(self) -> None:
        self._first = (await self.snapshots.take("s")).id

    async def __aexit__(self, *_: object) -> None:
        self.spans.append(FileSpan(self._first, (await self.snapshots.take("s")).id))


@pytest.fixture
def agent(folder: Path) -> Agent:
    """Return an agent that works in the folder."""
    return Agent(folder)


def names_in(folder: Path) -> list[str]:
    """Return the names in *folder*, sorted."""
    return sorted(path.name for path in folder.iterdir())


def texts_in(folder: Path) -> dict[str, str]:
    """Return the texts of the files in *folder*, by name."""
    return {path.name: path.read_text() for path in folder.iterdir()}


def git(*words: str, folder: Path) -> bytes:
    """Run git in *folder*, and return what it prints."""
    return subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True).stdout  # noqa: S603, S607 - of the machine


def contents_in(stores: Path) -> list[Path]:
    """Return the files with all that the *stores* keep."""
    return list(stores.glob("*/objects/*/*"))


def cut_line(stores: Path, line: bytes) -> None:
    """Write *line*, which is none, into the only log."""
    (log,) = stores.glob("*/taken")
    with log.open("ab") as file:
        file.write(line)

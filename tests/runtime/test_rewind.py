"""`rewind` and `preview_rewind` of handles: on Trio, on asyncio, blocking, and at a host."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from agentrail import SessionSpec
from agentrail.errors import CommandConflict, FilesEdited, UnknownRecord, UsageError, WrongType
from agentrail.sandboxes import LocalSandbox, RewindPreview, RewoundFile
from agentrail.testing import ScriptedModel, call, say
from agentrail.tools import standard_tools
from tests.bridge.flavours import Open, Scenario, in_each_flavour
from tests.coded import coded
from tests.sandboxes.kept_files.conftest import names_in

Play: TypeAlias = Callable[[Scenario], None]

pytestmark = pytest.mark.long


def working(folder: Path) -> SessionSpec:
    """Return an agent that writes two files side by side in its first turn, and one in its second."""
    writes = [call("shell", {"command": f"echo agent > {name}"}) for name in ("a.txt", "b.txt")]
    more = [call("write_file", {"path": "c.txt", "content": "agent\n"})]
    model = ScriptedModel([say(calls=writes), "Done.", say(calls=more), "Done."])
    sandbox = LocalSandbox(folder, snapshots=True)
    return SessionSpec(model=model, tools=standard_tools(), sandbox=sandbox, working_dir=str(folder))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AGENTRAIL_HOME", str(tmp_path / "home"))
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.txt").write_text("old\n")
    return tmp_path / "work"


@in_each_flavour
def test_files_come_back_and_the_rewind_can_be_taken_back(play: Play, folder: Path) -> None:
    async def scenario(open_supervisor: Open) -> None:
        async with open_supervisor() as supervisor:
            session = await supervisor.spawn(working(folder))
            first = await session.ask("Go.")
            second = await session.ask("Go on.")
            (folder / "mine.txt").write_text("mine\n")
            assert await session.preview_rewind(second.ref) == RewindPreview((RewoundFile("c.txt", "removed"),))
            rewound = await session.rewind(first.ref, command="once")
            assert names_in(folder) == ["a.txt", "mine.txt"]
            assert (folder / "a.txt").read_text() == "old\n"
            assert await session.rewind(first.ref, command="once") == rewound
            with pytest.raises(CommandConflict):
                await session.rewind(0, command="once")
            await session.rewind(rewound.record)
            assert (folder / "c.txt").read_text() == "agent\n"
            (folder / "b.txt").write_text("mine\n")
            with pytest.raises(FilesEdited):
                await session.rewind(0)
            with pytest.raises(UsageError, check=coded("no-changed-file")):
                await session.rewind(0, ["a.txt", "nope"])
            with pytest.raises(WrongType, match="an empty list as `files`"):
                await session.rewind(0, [])
            assert (folder / "a.txt").read_text() == "agent\n"
            await session.rewind(0, ["a.txt", "c.txt"])
            assert (folder / "b.txt").read_text() == "mine\n"
            with pytest.raises(UnknownRecord):
                await session.preview_rewind(1000)

    play(scenario)


@in_each_flavour
def test_a_sandbox_without_snapshots_says_so(play: Play, folder: Path) -> None:
    spec = SessionSpec(model=ScriptedModel(), sandbox=LocalSandbox(folder))

    async def scenario(open_supervisor: Open) -> None:
        async with open_supervisor() as supervisor:
            session = await supervisor.spawn(spec)
            with pytest.raises(UsageError, check=coded("no-snapshots")):
                await session.rewind(0)

    play(scenario)

"""Snapshots go with the session that took them, and with no other session of its id."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agentrail import SessionHandle, SessionSpec, Supervisor, open_supervisor
from agentrail.adapters.sandboxes.kept_files.folder_snapshots import snapshot_owners
from agentrail.errors import UsageError
from agentrail.journals import Retention, SqliteJournal, export_session, import_session
from agentrail.sandboxes import LocalSandbox
from agentrail.testing import ScriptedModel, call, say
from tests.coded import coded
from tests.runtime.test_rewind import working
from tests.runtime.world import until
from tests.sandboxes.kept_files.conftest import Agent, contents_in, cut_line

pytestmark = pytest.mark.long


@pytest.fixture(autouse=True)
def old_file(folder: Path) -> None:
    (folder / "a.txt").write_text("old\n")


def ids_kept() -> list[str]:
    """Return the ids of the sessions with snapshots, sorted."""
    return sorted({owner.partition("/")[0] for owner in snapshot_owners()})


async def worked(supervisor: Supervisor, folder: Path) -> SessionHandle:
    """Return a session `s` that has written files."""
    session = await supervisor.spawn(working(folder), "s")
    await session.ask("Go.")
    return session


async def test_a_session_of_the_same_id_in_another_journal_keeps_its_snapshots(folder: Path, tmp_path: Path) -> None:
    async with open_supervisor(journal=SqliteJournal(tmp_path / "one.db")) as supervisor:
        await (await worked(supervisor, folder)).stop()
        (folder / "a.txt").write_text("mine\n")
        async with open_supervisor(journal=SqliteJournal(tmp_path / "two.db")) as other:
            session = await worked(other, folder)
            await supervisor.delete("s")
            await session.rewind(0)
            assert (folder / "a.txt").read_text() == "mine\n"


async def test_a_session_that_has_the_id_of_a_deleted_one_has_snapshots_of_its_own(
    folder: Path, tmp_path: Path
) -> None:
    async with open_supervisor(journal=SqliteJournal(tmp_path / "one.db")) as supervisor:
        await (await worked(supervisor, folder)).stop()
        await supervisor.delete("s")
        assert ids_kept() == []
        (folder / "a.txt").write_text("mine\n")
        session = await worked(supervisor, folder)
        await session.rewind(0)
        assert (folder / "a.txt").read_text() == "mine\n"


async def test_a_copy_goes_without_what_the_original_took_after_it(folder: Path, tmp_path: Path) -> None:
    one, two = SqliteJournal(tmp_path / "one.db"), SqliteJournal(tmp_path / "two.db")
    async with open_supervisor(journal=one) as supervisor:
        await worked(supervisor, folder)
    await export_session(one, "s", tmp_path / "s.jsonl")
    await import_session(two, tmp_path / "s.jsonl")
    (folder / "c.txt").write_text("mine\n")
    async with open_supervisor(journal=one) as supervisor:
        session = await supervisor.resume("s", working(folder))
        before = await session.rewind(0, ["b.txt"])
        reply = await session.ask("Go on.")  # the model begins anew, and writes the first two files again
        async with open_supervisor(journal=two) as other:
            await other.delete("s")
        assert [file.path for file in (await session.preview_rewind(reply.ref)).files] == ["b.txt"]
        with pytest.raises(UsageError, check=coded("snapshot-gone")):  # taken before the copy, so it was of both
            await session.preview_rewind(0)
        assert before.files


async def test_snapshots_of_sub_agents_go_with_their_session(folder: Path, tmp_path: Path) -> None:
    helper = SessionSpec(
        description="Helps.",
        model=ScriptedModel([say(calls=[call("shell", {"command": "echo helper > a.txt"})]), "Done."]),
        tools=working(folder).tools,
    )
    model = ScriptedModel(
        [say(calls=[call("task", {"agent": "helper", "description": "d", "prompt": "Go."})]), "Done."]
    )
    spec = SessionSpec(model=model, agents={"helper": helper}, sandbox=LocalSandbox(folder, snapshots=True))
    async with open_supervisor(journal=SqliteJournal(tmp_path / "one.db")) as supervisor:
        session = await supervisor.spawn(spec, "s")
        await session.ask("Go.")
        await session.stop()
        beside = await supervisor.spawn(working(folder), "s.beside")
        await beside.ask("Go.")
        assert len(ids_kept()) == 3
        await supervisor.delete("s")
        assert ids_kept() == ["s.beside"]


async def test_snapshots_go_with_sessions_that_are_kept_for_a_time(folder: Path, tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "one.db")
    async with open_supervisor(journal=journal) as supervisor:
        await (await worked(supervisor, folder)).stop()
    assert ids_kept() == ["s"]
    async with open_supervisor(journal=journal, retain=[Retention(0)]):
        await until(lambda: ids_kept() == [])


async def test_snapshots_go_with_a_session_that_the_command_line_deletes(
    folder: Path, tmp_path: Path, stores: Path
) -> None:
    journal = tmp_path / "one.db"
    async with open_supervisor(journal=SqliteJournal(journal)) as supervisor:
        await worked(supervisor, folder)
    before = len(contents_in(stores))
    command = (sys.executable, "-m", "agentrail", "sessions", "delete", "s", "--yes", "--journal", str(journal))
    subprocess.run(command, check=True, env=os.environ, capture_output=True)  # noqa: ASYNC221, S603 - of our own
    assert (ids_kept(), len(contents_in(stores)), before > 0) == ([], 0, True)


async def test_what_an_earlier_release_took_goes_with_its_session(
    folder: Path, agent: Agent, tmp_path: Path, stores: Path
) -> None:
    async with agent:  # the owner is an id alone
        (folder / "a.txt").write_text("agent\n")
    async with open_supervisor(journal=SqliteJournal(tmp_path / "one.db")) as supervisor:
        await (await supervisor.spawn(SessionSpec(model=ScriptedModel()), "s")).stop()
        await supervisor.delete("s")
    assert contents_in(stores) == []


async def test_a_damaged_log_and_a_stray_file_keep_no_session_from_being_deleted(
    folder: Path, tmp_path: Path, stores: Path
) -> None:
    async with open_supervisor(journal=SqliteJournal(tmp_path / "one.db")) as supervisor:
        session = await worked(supervisor, folder)
        (stores / ".DS_Store").write_bytes(b"\0")
        cut_line(stores, b"\xff\xfe\n[1]\n")
        await session.rewind(0)
        assert (folder / "a.txt").read_text() == "old\n"
        await session.stop()
        await supervisor.delete("s")
    assert ids_kept() == []


async def test_a_home_that_cannot_be_looked_at_keeps_no_session_from_being_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTRAIL_HOME", str(tmp_path / ("x" * 300)))
    async with open_supervisor(journal=SqliteJournal(tmp_path / "one.db")) as supervisor:
        await (await supervisor.spawn(SessionSpec(model=ScriptedModel()), "s")).stop()
        await supervisor.delete("s")
        assert await supervisor.stored() == ()

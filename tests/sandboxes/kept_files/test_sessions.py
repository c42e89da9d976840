"""Snapshots around the calls of a session, and files that come back at a host."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from agentrail import RemoteSession, SessionHandle, SessionSpec, connect, open_supervisor, tool
from agentrail.errors import (
    Busy,
    FilesEdited,
    OutsideError,
    SessionForgotten,
    SessionNotAlive,
    SessionParked,
    UsageError,
)
from agentrail.host import Host, Profile
from agentrail.journals import SqliteJournal
from agentrail.sandboxes import LocalSandbox, Rewound, RewoundFile
from agentrail.testing import ScriptedModel, call, say
from agentrail.tools import standard_tools
from tests.coded import coded
from tests.patience import PATIENCE
from tests.runtime.test_rewind import working
from tests.runtime.world import until
from tests.sandboxes.kept_files.conftest import names_in

pytestmark = pytest.mark.long


@pytest.fixture(autouse=True)
def old_file(folder: Path) -> None:
    (folder / "a.txt").write_text("old\n")


async def test_what_a_stopped_call_has_changed_comes_back_and_no_rewind_runs_beside_a_call(folder: Path) -> None:
    begun = trio.Event()

    @tool
    async def work() -> str:
        """Write a file, and go on."""
        (folder / "a.txt").write_text("agent\n")
        begun.set()
        await trio.sleep_forever()
        return ""

    model = ScriptedModel([say(calls=[call("work")]), "Stopped."])
    spec = SessionSpec(model=model, tools=[work], sandbox=LocalSandbox(folder, snapshots=True))
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(spec)
        accepted = await session.prompt("Go.")
        await begun.wait()
        with pytest.raises(Busy):
            await session.rewind(accepted.ref)
        await session.abort()
        await until(lambda: not session.status().quarantined)
        rewound = await session.rewind(accepted.ref)
        assert rewound.files == (RewoundFile("a.txt", "restored"),)
        assert (folder / "a.txt").read_text() == "old\n"


async def test_a_snapshot_that_fails_costs_the_call_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("agentrail.adapters.sandboxes.kept_files.tree_scan.MAX_ENTRIES", 0)
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(working(folder))
        await session.ask("Go.")
        assert (folder / "a.txt").read_text() == "agent\n"
        assert [record.name for record in caplog.records] == ["agentrail.tool"]
        with pytest.raises(OutsideError, check=coded("snapshot-too-large")):
            await session.rewind(0)


async def test_a_host_brings_files_back_for_its_clients(folder: Path) -> None:
    async with Host([Profile("n", working(folder))]).serving() as serving:
        url, _, token = serving.entry.partition("/#token=")
        async with connect(url, token) as supervisor:
            await rewind_at_host(await supervisor.spawn("n"), folder)


async def rewind_at_host(session: RemoteSession, folder: Path) -> None:
    first = await session.ask("Go.")
    (folder / "b.txt").write_text("mine\n")
    assert (await session.preview_rewind(first.ref)).edited == ("b.txt",)
    with pytest.raises(FilesEdited) as refused:
        await session.rewind(first.ref)
    assert refused.value.paths == ("b.txt",)
    rewound = await session.rewind(first.ref, ["a.txt"], command="once")
    assert rewound.files == (RewoundFile("a.txt", "restored"),)
    assert await session.rewind(first.ref, ["a.txt"], command="once") == rewound
    assert (folder / "a.txt").read_text() == "old\n"


async def test_a_host_takes_the_names_of_all_files_that_a_turn_changes(folder: Path) -> None:
    """The page names all that it has shown, and a terminal at the host of another one all that do not stay."""
    count = 1_500
    model = ScriptedModel([say(calls=[call("shell", {"command": f"seq {count} | xargs touch"})]), "Done."])
    spec = SessionSpec(model=model, tools=standard_tools(), sandbox=LocalSandbox(folder, snapshots=True))
    async with Host([Profile("n", spec)]).serving() as serving:
        url, _, token = serving.entry.partition("/#token=")
        async with connect(url, token) as supervisor:
            session = await supervisor.spawn("n")
            reply = await session.ask("Go.")
            preview = await session.preview_rewind(reply.ref)
            assert len(preview.files) == count
            await session.rewind(reply.ref, [file.path for file in preview.files])
            assert names_in(folder) == ["a.txt"]


class Held:
    """A thread that waits at a failpoint until all tasks wait."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, module: str, point: str) -> None:
        self.began, self._may_go_on = threading.Event(), threading.Event()
        self._point = point
        monkeypatch.setattr(f"agentrail.adapters.sandboxes.kept_files.{module}.reach", self._wait)

    def _wait(self, point: str) -> None:
        if point == self._point:
            self.began.set()
            self._may_go_on.wait(PATIENCE)

    async def release(self) -> None:
        await wait_all_tasks_blocked()
        self._may_go_on.set()


@pytest.mark.parametrize("drains", [False, True])
async def test_a_supervisor_that_ends_has_a_rewind_recorded_that_is_under_way(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, drains: bool
) -> None:
    held = Held(monkeypatch, "files_restore", "FILE_BACK")
    rewinds: list[Rewound] = []

    async def rewind(session: SessionHandle) -> None:
        rewinds.append(await session.rewind(0))

    journal = SqliteJournal(tmp_path / "journal.db")
    async with trio.open_nursery() as nursery, open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(working(folder), "s")
        await session.ask("Go.")
        nursery.start_soon(rewind, session)
        await trio.to_thread.run_sync(held.began.wait)
        nursery.start_soon(held.release)
        if drains:
            await supervisor.drain(None)
    assert (folder / "a.txt").read_text() == "old\n"
    async with open_supervisor(journal=SqliteJournal(tmp_path / "journal.db")) as supervisor:
        session = await supervisor.resume("s", working(folder))
        await session.rewind(rewinds[0].record)
    assert (folder / "a.txt").read_text() == "agent\n"


async def test_a_rewind_that_is_refused_keeps_no_supervisor_from_draining(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = SqliteJournal(tmp_path / "journal.db")
    refusals: list[str] = []

    async def rewind(session: SessionHandle) -> None:
        with pytest.raises(UsageError) as refused:
            await session.rewind(0, ["nope"])
        refusals.append(refused.value.code)

    async with trio.open_nursery() as nursery, open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(working(folder), "s")
        await session.ask("Go.")
        held = Held(monkeypatch, "folder_snapshots", "SNAPSHOT_TAKEN")
        nursery.start_soon(rewind, session)
        await trio.to_thread.run_sync(held.began.wait)
        nursery.start_soon(held.release)
        with trio.fail_after(PATIENCE):
            await supervisor.drain(None)
        with pytest.raises(SessionParked):
            await session.rewind(0)
    assert refusals == ["no-changed-file"]


@pytest.mark.parametrize("lasts", [True, False])
async def test_no_file_changes_if_the_session_has_ended(folder: Path, tmp_path: Path, lasts: bool) -> None:
    """The rewind could not be recorded, so what came back would count as somebody else's."""
    journal = SqliteJournal(tmp_path / "journal.db") if lasts else None
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(working(folder))
        first = await session.ask("Go.")
        await session.stop()
        with pytest.raises((SessionNotAlive, SessionForgotten)):
            await session.rewind(first.ref)
        assert (folder / "a.txt").read_text() == "agent\n"
        assert names_in(folder) == ["a.txt", "b.txt"]

"""The files of a session whose deletion is refused, or is cut short: they stay, or go with the session."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from subprocess import PIPE
from typing import Final

import httpx
import pytest
import trio

from agentrail import SessionSpec
from agentrail.host.uploads.session_files import folder_of
from agentrail.journals import SqliteJournal
from agentrail.sandboxes import LocalSandbox
from agentrail.testing import ScriptedModel
from tests.host.commanded import SERVE, Served, commanded
from tests.host.hosted import Desk, open_desk

HOLDER: Final = """
import sys
import time

import trio

from agentrail.journals import SqliteJournal
from agentrail.ports.journal import Lease


async def hold():
    journal = SqliteJournal(sys.argv[1])
    await journal.claim("h.acme.ann.trip", "elsewhere:1", Lease(int(time.time() * 1000), 60_000), take_over=True)
    print("held", flush=True)
    await trio.sleep_forever()


trio.run(hold)
"""
"""A process that takes over a session, and holds it."""

APP: Final = """
import os
import signal
from pathlib import Path

from agentrail import SessionSpec
from agentrail.host.host_server import Host
from agentrail.host.profiles import Profile
from agentrail.journals import SqliteJournal
from agentrail.sandboxes import LocalSandbox
from agentrail.testing import ScriptedModel


class Deadly(LocalSandbox):
    async def remove(self, path):
        await super().remove(path)
        if Path("die").exists():
            os.kill(os.getpid(), signal.SIGKILL)


spec = SessionSpec(model=ScriptedModel(["one"]), sandbox=Deadly(Path("root").absolute()))
host = Host([Profile("desk", spec)], journal=SqliteJournal("journal.db"))
"""
"""A host that is killed after it has erased the files of a session, before the session, if there is a file `die`."""


def build_spec(root: Path) -> SessionSpec:
    root.mkdir(exist_ok=True)
    return SessionSpec(model=ScriptedModel(["one"]), sandbox=LocalSandbox(root))


def contents(root: Path, session: str = "h.acme.ann.trip") -> Sequence[bytes]:
    """Return what the uploaded files of a session contain."""
    return [path.read_bytes() for path in (root / folder_of(session)).glob("*") if path.is_file()]


async def uploaded(desk: Desk) -> str:
    """Open a session with a file, and return the name of that."""
    assert (await desk.ann.post("/v1/sessions", json={"session": "trip"})).status_code == 201
    response = await desk.ann.post("/v1/sessions/trip/files", content=b"tea at four")
    assert response.status_code == 201, response.text
    return str(response.json()["name"])


async def refused(desk: Desk) -> str:
    """Delete the session, which must be refused; return the problem."""
    response = await desk.clients["boss"].delete("/v1/sessions/ann.trip")
    assert response.status_code >= 400, response.text
    return str(response.json()["type"]).removeprefix("urn:agentrail:problem:")


async def test_files_stay_if_another_supervisor_runs_their_session(tmp_path: Path) -> None:
    root, journal = tmp_path / "root", SqliteJournal(tmp_path / "journal.db")
    async with (
        open_desk(build_spec(root), journal=journal) as desk,
        open_desk(build_spec(root), journal=journal) as another,
    ):
        name = await uploaded(desk)
        assert await refused(another) == "session-held"
        assert contents(root) == [b"tea at four"]
        body = {"message": "hi", "session": "trip", "files": [name]}
        assert (await desk.ann.post("/v1/chat", json=body)).json()["text"] == "one"


@pytest.mark.long
async def test_files_stay_if_another_process_holds_their_session(tmp_path: Path) -> None:
    root, path = tmp_path / "root", tmp_path / "journal.db"
    async with open_desk(build_spec(root), journal=SqliteJournal(path)) as desk:
        name = await uploaded(desk)
    async with open_desk(build_spec(root), journal=SqliteJournal(path)) as desk, trio.open_nursery() as nursery:
        hold = partial(trio.run_process, [sys.executable, "-c", HOLDER, str(path)], stdout=PIPE, check=False)
        process: trio.Process = await nursery.start(hold)
        assert process.stdout is not None
        with trio.fail_after(60):
            assert await process.stdout.receive_some(1) == b"h"
        assert await refused(desk) == "session-held"
        assert contents(root) == [b"tea at four"]
        process.kill()
    async with open_desk(build_spec(root), journal=SqliteJournal(path)) as desk:
        body = {"message": "hi", "session": "trip", "files": [name]}
        assert (await desk.ann.post("/v1/chat", json=body)).json()["text"] == "one"
        assert (await desk.clients["boss"].delete("/v1/sessions/ann.trip")).status_code == 200
        assert contents(root) == []


@pytest.mark.long
async def test_a_session_whose_host_is_killed_while_it_is_deleted_is_deleted_after_a_restart(tmp_path: Path) -> None:
    """Its files are gone by then. The session is not: so nobody has to look for files of sessions that are gone."""
    (tmp_path / "app.py").write_text(APP, encoding="utf-8")
    (tmp_path / "root").mkdir()
    command = [*SERVE, "app.py", "--port", "0"]
    with trio.fail_after(90):
        async with commanded(command, tmp_path) as served, client(served) as ann:
            session = (await ann.post("/v1/sessions", json={"session": "trip"})).json()["session"]
            assert (await ann.post("/v1/sessions/trip/files", content=b"tea at four")).status_code == 201
            assert len(list((tmp_path / "root").rglob("*-file"))) == 1
            (tmp_path / "die").touch()
            try:
                response = await ann.delete(f"/v1/sessions/{session}")
            except httpx.RemoteProtocolError:
                response = None
            assert response is None, "the host was killed before it could answer"
            assert await served.process.wait() < 0
        (tmp_path / "die").unlink()
        async with commanded(command, tmp_path) as served, client(served) as ann:
            assert [item["session"] for item in (await ann.get("/v1/sessions")).json()["items"]] == [session]
            assert list((tmp_path / "root").rglob("*-file")) == []
            assert (await ann.delete(f"/v1/sessions/{session}")).status_code == 200
            assert (await ann.get("/v1/sessions")).json()["items"] == []


def client(served: Served) -> httpx.AsyncClient:
    headers = {"authorization": f"Bearer {served.token}"}
    return httpx.AsyncClient(base_url=served.url, headers=headers, trust_env=False, timeout=60)

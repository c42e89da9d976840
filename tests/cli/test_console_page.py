"""`agentrail console`: a stored journal is shown whole, is not changed, and may be in use meanwhile."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import httpx
import pytest

from agentrail import SessionSpec, open_supervisor
from agentrail.cli.stored.console_page import READER, reading_host
from agentrail.host.authentication.authenticators import LocalToken
from agentrail.journals import Journal, MemoryJournal, SqliteJournal
from agentrail.testing import ScriptedModel, stall
from tests.cli.calling import subcommand
from tests.patience import PATIENCE

main = subcommand("console")

SECONDS: Final = 20
HOSTED: Final = "h.acme.ann.trip"


def spec_of(*answers: str) -> SessionSpec:
    return SessionSpec(model=ScriptedModel(list(answers)))


async def fill(journal: Journal) -> None:
    """Store a session of a program, one of a host, and one that is in the middle of a turn."""
    async with open_supervisor(journal=journal) as supervisor:
        await (await supervisor.spawn(spec_of("Hello."), "plain")).ask("Hi.")
        await (await supervisor.spawn(spec_of("Yes."), HOSTED, tenant="acme", owner="ann")).ask("So?")
        session = await supervisor.spawn(SessionSpec(model=ScriptedModel([stall()])), "cut")
        await session.prompt("Go.")


@asynccontextmanager
async def client_of(journal: Journal) -> AsyncGenerator[httpx.AsyncClient]:
    """Show *journal*, and yield a client with the key."""
    key = LocalToken(READER)
    async with reading_host(journal, key).serving() as serving:
        headers = {"authorization": f"Bearer {key.fragment.partition('=')[2]}"}
        async with httpx.AsyncClient(
            base_url=serving.url, headers=headers, trust_env=False, timeout=PATIENCE
        ) as client:
            yield client


async def test_the_sessions_of_programs_and_of_all_tenants_are_there_by_their_ids_in_the_journal() -> None:
    journal = MemoryJournal()
    await fill(journal)
    async with client_of(journal) as client:
        listed = (await client.get("/v1/sessions")).json()["items"]
        assert [session["session"] for session in listed] == ["cut", HOSTED, "plain"]
        for name in ("cut", HOSTED, "plain"):
            records = (await client.get(f"/v1/sessions/{name}/records")).json()
            assert records["head"] == (await journal.sessions())[["cut", HOSTED, "plain"].index(name)].head
            detail = (await client.get(f"/v1/sessions/{name}")).json()
            assert detail["session"] == name
            assert (await client.get(f"/v1/sessions/{name}/messages")).json()["items"]
        why = (await client.get("/v1/sessions/plain/why")).json()
        assert why["sentence"] == "the turn ended: end"


@pytest.mark.parametrize("name", ["none", "ann.trip", "h.acme.ann", "-"])
async def test_what_is_not_there_is_told_as_everywhere(name: str) -> None:
    journal = MemoryJournal()
    await fill(journal)
    async with client_of(journal) as client:
        assert (await client.get(f"/v1/sessions/{name}/records")).status_code == 404


CHANGES: Final[Sequence[tuple[str, str, object]]] = (
    ("POST", "/v1/sessions", {"session": "new"}),
    ("POST", "/v1/sessions/plain/prompt", {"message": "go on"}),
    ("POST", "/v1/sessions/plain/fork", {}),
    ("POST", "/v1/sessions/cut/abort", {}),
    ("POST", "/v1/sessions/cut/resume", {}),
    ("DELETE", "/v1/sessions/plain", None),
)


async def test_nothing_is_run_and_nothing_changed() -> None:
    journal = MemoryJournal()
    await fill(journal)
    old_records = {session.session_id: await journal.read(session.session_id) for session in await journal.sessions()}
    async with client_of(journal) as client:
        for method, path, body in CHANGES:
            answer = await client.request(method, path, json=body)
            assert answer.status_code in {403, 409}, (path, answer.text)
        tree = (await client.get("/v1/tree")).json()
        assert tree["children"] == []
    after = {session.session_id: await journal.read(session.session_id) for session in await journal.sessions()}
    assert after == old_records


@pytest.mark.long
async def test_a_journal_that_another_process_writes_is_shown_and_goes_on(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "j.db")
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(spec_of("One.", "Two."), "live")
        await session.ask("First.")
        command = [sys.executable, "-m", "agentrail", "console", str(journal.path), "--port", "0"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603, ASYNC220 - ours
            assert process.stdout is not None
            line = process.stdout.readline()
            match = re.search(r"shows (.+) at (http://127\.0\.0\.1:\d+)/#token=(\S+)\n", line)
            assert match is not None, line
            assert match[1] == str(journal.path)
            headers = {"authorization": f"Bearer {match[3]}"}
            async with httpx.AsyncClient(
                base_url=match[2], headers=headers, trust_env=False, timeout=PATIENCE
            ) as client:
                head = (await client.get("/v1/sessions/live/records")).json()["head"]
                await session.ask("Second.")
                records = (await client.get(f"/v1/sessions/live/records?since={head}")).json()
            assert records["head"] > head
            assert "Second." in str(records["records"])
            process.send_signal(signal.SIGINT)
            assert process.wait(SECONDS) == 0  # noqa: ASYNC222 - nothing else is to run
    await journal.close()


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["none.db"], "there is no journal at "),
        (["none.db", "--port", "70000"], "--port: '70000' is no whole number from 0 to 65535"),
        (["none.db", "--port", "x"], "--port: 'x' is no whole number from 0 to 65535"),
        (["text.db"], "text.db"),
    ],
)
def test_what_cannot_be_shown_is_told(
    words: list[str], problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "text.db").write_text("This is no journal, but a text that somebody has written. " * 20)
    file, *options = words
    assert main([str(tmp_path / file), *options]) in {1, 2}
    err = capsys.readouterr().err
    assert problem in err
    assert err.startswith("agentrail: ")
    assert err.count("\n") == 1

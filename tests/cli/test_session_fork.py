"""`agentrail sessions fork`: a copy of a session of `chat`, whether or not somebody serves its journal."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest
import trio

from agentrail import SessionSpec, open_supervisor
from agentrail.cli.agents.agent_seal import AgentSeal
from agentrail.cli.agents.agent_source import AgentSource, profile_of
from agentrail.cli.host.shared_host import open_shared
from agentrail.journals import Difference, SqliteJournal, audit
from agentrail.testing import ScriptedModel
from tests.cli.calling import subcommand

main = subcommand("sessions")

pytestmark = pytest.mark.long


async def _fill(journal: Path, folder: Path) -> None:
    source = AgentSource(str(folder), model="demo")
    async with open_shared(journal, profile_of) as supervisor:
        session = await supervisor.spawn(AgentSeal(journal).begun(source).id, "talk", labels=[source.label])
        await session.ask("Who are you?")
        await session.ask("list the files")


async def _go_on(journal: Path, name: str) -> None:
    """Go on with a session as `chat --resume` does."""
    async with open_shared(journal, profile_of) as supervisor:
        assert name in {stored.session_id.removeprefix("you.") for stored in await supervisor.stored()}
        assert (await supervisor.session(name).ask("Who are you?")).text


async def _differences(path: Path, session_id: str) -> tuple[Difference, ...]:
    """Return what today's code would have done otherwise than the records say."""
    journal = SqliteJournal(path)
    differences = await audit(journal, session_id)
    await journal.close()
    return differences


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    path = tmp_path / "j.db"
    trio.run(_fill, path, tmp_path)
    return path


def run(capsys: pytest.CaptureFixture[str], *argv: object) -> tuple[int, str, str]:
    status = main([str(word) for word in argv])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def session_shown(capsys: pytest.CaptureFixture[str], name: str, journal: Path) -> Mapping[str, object]:
    status, out, _ = run(capsys, "show", name, "--json", "--journal", journal)
    assert status == 0
    values: Mapping[str, object] = json.loads(out)
    return values


def test_a_fork_has_the_past_and_the_agent_of_its_origin_and_is_not_run(
    journal: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, name, err = run(capsys, "fork", "talk", "--journal", journal)
    assert (status, err) == (0, f"`agentrail chat --resume {name.strip()} --journal {journal}` goes on with it\n")
    origin, fork = (session_shown(capsys, name, journal) for name in ("talk", name.strip()))
    assert (fork["messages"], fork["phase"], fork["labels"]) == (origin["messages"], "idle", origin["labels"])
    assert trio.run(_differences, journal, f"h.local.you.{name.strip()}") == ()
    trio.run(_go_on, journal, name.strip())
    assert trio.run(_differences, journal, f"h.local.you.{name.strip()}") == ()
    _, first, _ = run(capsys, "fork", "talk", "--at", 1, "--journal", journal)
    assert session_shown(capsys, first.strip(), journal)["messages"] == []
    status, out, err = run(capsys, "fork", "talk", "--at", 999, "--journal", journal)
    assert (status > 0, out, err.count("\n")) == (True, "", 1)
    assert "999" in err


@pytest.mark.campaign
async def test_who_serves_the_journal_makes_the_fork(journal: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with open_shared(journal, profile_of) as supervisor:
        status, name, _ = await trio.to_thread.run_sync(partial(run, capsys, "fork", "talk", "--journal", journal))
        assert status == 0
        fork = supervisor.session(name.strip())
        assert (await fork.messages())[0].text == "Who are you?"
        assert (await fork.ask("Who are you?")).text


def test_the_agent_of_another_program_is_not_made_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async def fill() -> None:
        async with open_supervisor(journal=SqliteJournal(tmp_path / "j.db")) as supervisor:
            await (await supervisor.spawn(SessionSpec(model=ScriptedModel(["Hello."])), "trip")).ask("Hi")

    trio.run(fill)
    status, out, err = run(capsys, "fork", "trip", "--journal", tmp_path / "j.db")
    problem = "`trip` has the agent of another program; `supervisor.fork` forks it there, and `copy` takes it elsewhere"
    assert (status, out, err) == (2, "", f"agentrail: {problem}\n")

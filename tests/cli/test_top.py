"""`agentrail sessions top`: what runs at a host, what it has used, and what waits for a person."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from subprocess import CompletedProcess

import pytest
import trio

import agentrail
from agentrail import ChildView, RemoteSupervisor, SessionSpec, tool
from agentrail.cli.agents.agent_seal import AgentSeal
from agentrail.cli.agents.agent_source import AgentSource, profile_of
from agentrail.cli.exit_codes import INTERRUPTED
from agentrail.cli.host.shared_host import is_served, open_shared
from agentrail.cli.host.unix_endpoint import KEY, socket_of
from agentrail.cli.reports.top import ANEW, TopRow, address_of, screen_text
from agentrail.host import Host, HostLimits, Profile
from agentrail.journals import Lease, MemoryJournal
from agentrail.models import Usage
from agentrail.plugins import HumanApproval
from agentrail.ports.journal import SLOTS, slot_claim
from agentrail.runtime.shared.clock import Clock
from agentrail.testing import ScriptedModel, call, say, stall
from agentrail.values.usage import cost_text
from tests.cli.calling import subcommand
from tests.cli.talking import at_a_terminal, through_pipes
from tests.free_port import free_port
from tests.host.cluster.several import open_member
from tests.host.hosted import KEYS
from tests.kit import NOTHING_USED
from tests.patience import PATIENCE

main = subcommand("sessions top")


@tool
async def send(text: str) -> str:
    """Send a letter."""
    return text


ASKING = SessionSpec(
    model=ScriptedModel([say(calls=[call("send", {"text": "\x1b[2Jhi"})])]),
    tools=[send],
    plugins=[HumanApproval(tools=("send",), timeout=None)],
)
"""An agent whose first call waits for a person."""


def parent_spec() -> SessionSpec:
    """Return an agent with a sub-agent that never ends."""
    delegate = call("task", {"agent": "helper", "description": "look", "prompt": "Look."})
    return SessionSpec(
        model=ScriptedModel([say(calls=[delegate], usage=Usage(100, 23))]),
        agents={"helper": SessionSpec(model=ScriptedModel([stall()]), description="helps")},
    )


async def sub_agent_runs(supervisor: RemoteSupervisor) -> None:
    while not any(child.children for child in (await supervisor.tree()).children):  # noqa: ASYNC110 - by HTTP
        await trio.sleep(0.05)


@asynccontextmanager
async def host() -> AsyncGenerator[tuple[str, RemoteSupervisor]]:
    """A host with two sessions, at work and waiting; give its entry too."""
    profiles = [Profile("asking", ASKING), Profile("parent", parent_spec())]
    async with Host(profiles, limits=HostLimits(drain_seconds=0.1)).serving() as serving:
        url, _, token = serving.entry.partition("/#token=")
        async with agentrail.connect(url, token) as supervisor:
            with trio.fail_after(PATIENCE):
                parent = await supervisor.spawn("parent", "two")
                await parent.prompt("Go.")
                await sub_agent_runs(supervisor)
                asking = await supervisor.spawn("asking", "one")
                async with supervisor.watch_approvals() as approvals:
                    await asking.prompt("Go.")
                    async for held in approvals:
                        if held:
                            break
                yield serving.entry, supervisor


async def top(*argv: str, **environment: str) -> CompletedProcess[bytes]:
    with trio.fail_after(PATIENCE):
        return await trio.run_process(
            [sys.executable, "-m", "agentrail", "sessions", "top", *argv],
            capture_stdout=True,
            capture_stderr=True,
            check=False,
            env={**os.environ, **environment},
        )


@pytest.mark.campaign
@pytest.mark.long
async def test_sessions_are_shown_with_their_sub_agents_and_what_waits() -> None:
    async with host() as (entry, supervisor):
        text = await screen_text(supervisor, "here")
        head, _, titles, *rows = text.splitlines()
        assert head == "2 sessions, 1 waiting, 123 tokens, cost unknown at here"
        assert titles.split()[:5] == ["SESSION", "PHASE", "MODEL", "TOKENS", "COST"]
        assert [row.split()[:2] for row in rows] == [["two", "executing_tools"], ["·", "c3"], ["one", "waits"]]
        assert rows[0].split()[2:] == ["scripted", "123", "unknown"]
        assert rows[2].endswith('approval: `send` wants to run with {"text": "\\u001b[2Jhi"}')
        assert "\x1b" not in text
        ran = await top(entry)
        assert (ran.returncode, ran.stderr) == (0, b"")
        assert ran.stdout.decode().splitlines()[1:] == text.splitlines()[1:]
        url, _, token = entry.partition("/#token=")
        assert (await top(url, "--key", "MINE", MINE=token)).stdout == ran.stdout
        refused = await top(url, KEY="wrong")
        assert (refused.returncode, refused.stdout, refused.stderr.count(b"\n")) == (1, b"", 1)


@pytest.mark.campaign
@pytest.mark.long
async def test_without_a_url_it_is_the_journal_that_chat_serves(tmp_path: Path) -> None:
    journal = tmp_path / "j.db"
    message = f"agentrail: nobody serves {journal} now; `agentrail chat` does while it runs, or give a host's URL\n"
    ran = await top("--journal", str(journal))
    assert (ran.returncode, ran.stderr.decode()) == (1, message)
    source = AgentSource(str(tmp_path), model="demo")
    async with open_shared(journal, profile_of) as supervisor:
        assert await is_served(journal)
        await (await supervisor.spawn(AgentSeal(journal).begun(source).id, "talk")).ask("Who are you?")
        ran = await top("--journal", str(journal))
        assert (ran.returncode, ran.stderr) == (0, b"")
        assert ran.stdout.decode().splitlines()[-1].split()[:3] == ["talk", "idle", "demo"]


@pytest.mark.long
def test_at_a_terminal_it_is_drawn_anew_until_the_person_leaves(tmp_path: Path) -> None:
    journal = str(tmp_path / "j.db")
    with through_pipes("chat", "--model", "demo", "--dir", str(tmp_path), "--journal", journal) as talk:
        talk.wait_for("goes on with it.\n\n")
        with at_a_terminal("sessions", "top", "--journal", journal) as (watching, _):
            watching.wait_for(ANEW)
            watching.wait_for("1 session, 0 waiting, 0 tokens, $0")
            talk.say("write hello to a.txt\n")
            watching.wait_for(ANEW)
            watching.wait_for("waits")
            watching.wait_for("approval: `write_file` wants to run")
            watching.say("\x03")
            assert watching.code() == INTERRUPTED


async def test_a_socket_that_nobody_listens_at_serves_nothing(tmp_path: Path) -> None:
    journal = tmp_path / "j.db"
    assert not await is_served(journal)
    with trio.socket.socket(trio.socket.AF_UNIX) as listener:
        await listener.bind(str(socket_of(journal)))
    assert not await is_served(journal)


def test_a_session_that_sleeps_is_shown_and_not_asked() -> None:
    row = TopRow(0, ChildView("you.nap", "session", "asleep", "transient", phase="idle"), None, ())
    assert row.cells == ("nap", "asleep", "-", "-", "-", "", "")


@pytest.mark.long
async def test_of_several_hosts_each_session_has_its_own_and_one_that_is_silent_is_named() -> None:
    journal, silent_url = MemoryJournal(), f"http://127.0.0.1:{free_port()}"
    for slot in range(SLOTS):
        await journal.claim(slot_claim(slot), silent_url, Lease(Clock().now_ms(), 60_000))
    async with (
        open_member(journal, parent_spec()) as member,
        agentrail.connect(member.serving.url, KEYS["boss"]) as supervisor,
    ):
        await (await supervisor.open("two", "desk")).prompt("Go.")
        with trio.fail_after(PATIENCE):
            await sub_agent_runs(supervisor)
        head, silent, _, titles, *rows = (await screen_text(supervisor, "here")).splitlines()
    assert (head.split()[:2], silent) == (["1", "session,"], f"{silent_url} does not answer")
    assert titles.split()[5] == "HOST"
    assert [row.split()[-1] for row in rows] == [member.serving.url] * 2


def test_a_cost_that_is_not_known_is_never_nothing() -> None:
    costs = [cost_text(usage) for usage in (NOTHING_USED, Usage(1), Usage(1, cost_usd=0.0), Usage(1, cost_usd=0.25))]
    assert costs == ["$0.0000", "cost unknown", "$0.0000", "$0.2500"]


def test_a_socket_of_the_user_needs_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KEY", raising=False)
    assert address_of("unix:/home/ada/sessions.db.sock", "KEY") == ("unix:/home/ada/sessions.db.sock", KEY)


@pytest.mark.parametrize(
    ("url", "key"), [("unix:/run/a.sock/#token=printed", "printed"), ("unix:/run/a.sock", "of the variable")]
)
def test_a_socket_of_a_served_program_takes_the_key_that_a_port_would(
    url: str, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEY", "of the variable")
    assert address_of(url, "KEY") == ("unix:/run/a.sock", key)


@pytest.mark.parametrize(
    ("argv", "problem"),
    [
        (("http://127.0.0.1:1",), "no key of the host is in the variable KEY; `--key NAME` names another variable"),
        (("http://127.0.0.1:1", "--journal", "x"), "--journal: a host with a URL knows its journal itself"),
        (("--every",), "there is no option `--every`; `agentrail sessions top --help` lists those there are"),
    ],
    ids=["key", "journal", "option"],
)
def test_what_is_wrong_is_one_sentence(
    argv: tuple[str, ...], problem: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KEY", raising=False)
    assert main(argv) == 2
    assert capsys.readouterr() == ("", f"agentrail: {problem}\n")

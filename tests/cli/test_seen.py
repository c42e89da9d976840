"""`agentrail sessions seen` and `agentrail sessions replay`: what a person is shown of a stored session."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
import trio

from agentrail import SessionSpec, open_supervisor, tool
from agentrail.cli.command import main
from agentrail.cli.stored.console_page import READER, reading_host
from agentrail.host.authentication.authenticators import LocalToken
from agentrail.journals import SqliteJournal
from agentrail.models import EmitChunk, ModelRequest, Response, Text, Usage, render
from agentrail.plugins import AfterTool, BeforeTool, BlockTool, Context, Continue, Plugin, SetSection
from agentrail.testing import ScriptedModel, call, say, transient
from tests.patience import PATIENCE
from tests.testing.test_as_test import ran


class Guard(Plugin[None]):
    """Blocks each call about a secret."""

    def before_tool(self, hook: BeforeTool, state: None, ctx: Context) -> BlockTool[None] | Continue[None]:
        return BlockTool("it is\x1b[2J a secret") if hook.args.get("name") == "secret" else Continue()


class Mood(Plugin[None]):
    """Sets a section that stands before the messages."""

    def after_tool(self, hook: AfterTool, state: None, ctx: Context) -> SetSection[None]:
        return SetSection("mood\x1b[2J", "calm", layer="memory")


@tool
def look(name: str) -> str:
    """Look something up."""
    return name


async def _fill(path: Path) -> None:
    calls = [call("look", {"name": "secret"}), call("look", {"name": "rest"})]
    counted = Usage(400, 5, cached_tokens=300)
    model = ScriptedModel([say(calls=calls, usage=counted), say("So.", usage=counted)])
    spec = SessionSpec(model=model, system="Be short.", tools=[look], plugins=[Guard(), Mood()])
    async with open_supervisor(journal=SqliteJournal(path)) as supervisor:
        await (await supervisor.spawn(spec, "trip")).ask("Look")


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("seen") / "j.db"
    trio.run(_fill, path)
    return path


Run = Callable[[str, Path, str], tuple[int, list[str], str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a function that runs a subcommand: exit status, lines on standard output, and standard error."""

    def run_(name: str, journal: Path, words: str) -> tuple[int, list[str], str]:
        status = main(["sessions", name, *words.split(), "--journal", str(journal)])
        captured = capsys.readouterr()
        return status, captured.out.splitlines(), captured.err

    return run_


def test_the_last_request_is_shown_part_by_part(journal: Path, run: Run) -> None:
    status, lines, err = run("seen", journal, "trip")
    assert (status, err) == (0, "")
    assert "record 4: round 2 (turn 1, round 2), request r5 to scripted" in lines[0]
    rows = [" ".join(line.split()) for line in lines]
    assert "tools look 34 cached Look something up." in rows
    assert "memory mood\ufffd[2J Mood 1 cached calm" in rows
    assert "history 1 assistant 11 cached → look, look" in rows
    assert "history 2 tool 9 read blocked by Guard: it is\ufffd[2J a secret" in rows
    assert "about 60 tokens; counted with the response: 400, of which 300 from the cache" in rows
    assert lines[-1].startswith("the cache broke at memory `mood\ufffd[2J`, changed by Mood: about ")
    assert "+ memory mood\ufffd[2J Mood 1 calm" in rows


def test_a_round_is_named_by_its_number_or_its_request(journal: Path, run: Run) -> None:
    _, first, _ = run("seen", journal, "trip 1")
    assert "record 2: round 1" in first[0]
    assert run("seen", journal, "trip r2")[1] == first
    status, lines, err = run("seen", journal, "trip 9")
    assert (status, lines) == (1, [])
    assert err.startswith("agentrail: session `trip` has sent no request `9`; it has sent 2")
    assert err.endswith("its last ones are `r2` in round 1, `r5` in round 2\n")
    assert run("seen", journal, "tripp")[0] == 1


def test_as_json_it_is_what_a_host_answers(journal: Path, run: Run) -> None:
    _, lines, _ = run("seen", journal, "trip --json")
    (line,) = lines
    view = json.loads(line)
    assert view == trio.run(_of_host, journal)
    assert (view["sent"]["request_id"], view["usage"]["cached_tokens"]) == ("r5", 300)
    assert view["difference"]["broke"]["by"] == "Mood"
    assert [(part["layer"], part["name"]) for part in view["parts"]][:3] == [
        ("tools", "look"),
        ("user", "user"),
        ("memory", "mood\x1b[2J"),
    ]


async def _of_host(path: Path) -> object:
    key = LocalToken(READER)
    journal = SqliteJournal(path)
    async with reading_host(journal, key).serving() as serving:
        headers = {"authorization": f"Bearer {key.token}"}
        async with httpx.AsyncClient(
            base_url=serving.url, headers=headers, trust_env=False, timeout=PATIENCE
        ) as client:
            answer = (await client.get("/v1/sessions/trip/seen?whole=true")).json()
    await journal.close()
    return answer


class Echo:
    """Answers as a model of a provider would, without one."""

    name = "openai:gpt-5.4"

    def __init__(self) -> None:
        self.got: list[ModelRequest] = []

    async def stream(self, request: ModelRequest, emit: EmitChunk) -> Response:
        await trio.lowlevel.checkpoint()
        self.got.append(request)
        return Response((Text("done"),))


def test_the_body_is_what_the_provider_got(tmp_path: Path, run: Run) -> None:
    model, path = Echo(), tmp_path / "j.db"

    async def talk() -> None:
        async with open_supervisor(journal=SqliteJournal(path)) as supervisor:
            await (await supervisor.spawn(SessionSpec(model=model, system="Be short."), "trip")).ask("Look")

    trio.run(talk)
    assert run("seen", path, "trip --body") == (0, [render(model.got[0]).body], "")


def test_a_body_cannot_command_a_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "j.db"

    async def talk() -> None:
        async with open_supervisor(journal=SqliteJournal(path)) as supervisor:
            await (await supervisor.spawn(SessionSpec(model=Echo()), "trip")).ask("Look\x9b2J")

    trio.run(talk)
    for is_terminal in (False, True):
        monkeypatch.setattr("sys.stdout.isatty", lambda is_terminal=is_terminal: is_terminal)
        assert main(["sessions", "seen", "trip", "--body", "--journal", str(path)]) == 0
        assert ("\x9b" in capsys.readouterr().out) is not is_terminal


async def _fill_many(path: Path, rounds: int) -> None:
    calls = [say(calls=[call("look", {"name": "rest"})]) for _ in range(rounds - 1)]
    model = ScriptedModel([transient("no capacity"), *calls, say("So.")])
    async with open_supervisor(journal=SqliteJournal(path)) as supervisor:
        spec = SessionSpec(model=model, tools=[look], retry_base=0.001)
        await (await supervisor.spawn(spec, "trip")).ask("Look")


def test_of_many_rounds_the_last_ones_are_named_and_of_a_repeated_request_its_attempt(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "j.db"
    trio.run(_fill_many, path, 12)
    assert "(turn 1, round 1, attempt 2), request" in run("seen", path, "trip 1")[1][0]
    assert "attempt" not in run("seen", path, "trip 2")[1][0]
    error = run("seen", path, "trip 99")[2]
    assert error.count("in round ") == 10
    assert (" in round 12" in error, " in round 1," in error) == (True, False)


def test_a_round_is_printed_as_a_test_that_passes(journal: Path, run: Run) -> None:
    status, lines, err = run("seen", journal, "trip 2 --test")
    assert (status, err) == (0, "")
    ran("\n".join(lines), 2)


def test_of_a_model_of_a_program_no_body_is_known(journal: Path, run: Run) -> None:
    status, lines, err = run("seen", journal, "trip --body")
    assert (status, lines) == (1, [])
    assert err == "agentrail: `scripted` is a model of a program: what it sends is not in the records\n"


def test_each_record_is_a_row(journal: Path, run: Run) -> None:
    status, lines, err = run("replay", journal, "trip")
    assert (status, err) == (0, "")
    assert [line.partition("  ")[2] for line in lines if not line.startswith(" ")] == [
        "record 1: SessionOpened: new → idle",
        "record 2: PromptSent: idle → running, turn 1, round 1",
        "record 3: StreamEnded: running → executing_tools, turn 1, round 1",
        "record 4: ToolReturned: executing_tools → running, turn 1, round 2",
        "record 5: StreamEnded: streaming → idle",
    ]
    blocked = "    before_tool: the call was blocked by `Guard`: it is\ufffd[2J a secret"
    assert [line for line in lines if line.startswith(blocked)]
    assert "    effects: SetTimer, StartCall" in lines


def test_of_one_record_the_change_and_the_state_are_shown(journal: Path, run: Run) -> None:
    _, lines, _ = run("replay", journal, "trip 3")
    changed, state = lines.index("changed:"), lines.index("state:")
    assert "    phase: running → executing_tools" in lines[changed:state]
    assert "    last_seq: 4 → 8" in lines[changed:state]
    assert "    history: 2 messages" in lines[state:]
    assert "    tools: look" in lines[state:]
    _, (line,), _ = run("replay", journal, "trip 3 --json")
    view = json.loads(line)
    assert (view["record"], view["head"], view["state"]["phase"]) == (3, 5, "executing_tools")
    assert {"field": "last_seq", "before": 4, "after": 8} in view["changes"]
    _, lines, _ = run("replay", journal, "trip --json")
    row = json.loads(lines[2])
    assert (row["record"], row["before"], row["after"]) == (3, "running", "executing_tools")


def test_a_record_that_is_not_there_is_told(journal: Path, run: Run) -> None:
    status, lines, err = run("replay", journal, "trip 9")
    assert (status, lines) == (1, [])
    assert err == "agentrail: there is no record 9; the session has 5, and they begin with 1\n"
    status, _, err = run("replay", journal, "trip two")
    assert (status, err) == (2, "agentrail: 'two' is no number of a record from 1 on\n")
    assert run("replay", journal, "tripp")[0] == 1

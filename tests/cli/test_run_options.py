"""What `agentrail run` makes of its options and of standard input, in the process of the tests."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Final, TypeAlias

import pytest

from agentrail.cli.command import main
from agentrail.cli.running import run as run_module
from agentrail.cli.talk import prompt_input

AGENT: Final = """
from pathlib import Path

from agentrail import SessionSpec
from agentrail.testing import ScriptedModel, call, say, stall
from agentrail.tools import standard_tools

def answer(request):
    return say(request.messages[-1].text)

echo = SessionSpec(model=ScriptedModel([answer], repeat_last=True))
stalls = SessionSpec(model=ScriptedModel([stall()]))
reads = SessionSpec(
    model=ScriptedModel([say(calls=[call("read_file", {"path": "notes.txt"})]), answer]),
    tools=standard_tools(),
)
writes = SessionSpec(
    model=ScriptedModel([say(calls=[call("write_file", {"path": "bot.py", "content": "planted"})]), "done"]),
    tools=standard_tools(),
    working_dir=str(Path(__file__).parent),
)
"""

Run: TypeAlias = Callable[..., tuple[int, str, str]]


@pytest.fixture
def agent(tmp_path: Path) -> Path:
    file = tmp_path / "agents" / "bot.py"
    file.parent.mkdir()
    file.write_text(AGENT, encoding="utf-8")
    return file


@pytest.fixture
def stdin(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """Return the other end of standard input, of which each packet is read alone."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with closing(ours), closing(theirs), open(theirs.fileno(), encoding="utf-8", closefd=False) as stream:
        monkeypatch.setattr("sys.stdin", stream)
        yield ours


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], stdin: socket.socket) -> Run:
    """Return a function that runs a prompt: exit status, standard output and standard error."""

    def run_(*args: object, packets: tuple[bytes, ...] = ()) -> tuple[int, str, str]:
        for packet in packets:
            stdin.send(packet)
        stdin.shutdown(socket.SHUT_WR)
        status = main(["run", *map(str, args)])
        captured = capfd.readouterr()
        return status, captured.out, captured.err

    return run_


def test_an_error_before_the_session_is_json_if_that_was_asked_for(run: Run) -> None:
    status, out, err = run("--json", "--schema", "no.json", "hi")
    outcome = json.loads(out)
    assert (status, outcome["outcome"], outcome["exit_status"]) == (2, "usage", 2)
    assert err == f"agentrail: {outcome['problem']}\n"


@pytest.mark.parametrize("options", [(), ("--model", "demo")])
def test_who_has_no_key_is_told_that_the_demo_model_answers(options: tuple[str, ...], run: Run, tmp_path: Path) -> None:
    status, out, err = run(*options, "--dir", tmp_path, "Who are you?")
    assert (status, out[:17]) == (0, "I am the built-in")
    assert ("so the built-in demo model answers" in err) is not bool(options)


def test_a_turn_has_as_many_seconds_as_were_allowed(run: Run, agent: Path) -> None:
    status, out, _ = run("--agent", f"{agent}:stalls", "--max-seconds", "0.1", "--json", "hi")
    assert status != 0
    assert json.loads(out)["outcome"] == "budget"


def test_an_agent_of_a_file_works_in_the_folder_that_was_named(run: Run, agent: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("tea at four", encoding="utf-8")
    assert "tea at four" in run("--agent", f"{agent}:reads", "--dir", tmp_path, "hi")[1]


def test_an_agent_does_not_write_the_code_that_it_is_made_of(run: Run, agent: Path) -> None:
    run("--agent", f"{agent}:writes", "--deny", "hi")
    assert agent.read_text(encoding="utf-8") == AGENT


def test_standard_input_that_is_too_long_is_refused_and_not_cut(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (run_module, prompt_input):
        monkeypatch.setattr(module, "MOST_BYTES", 10)
    status, out, err = run("--model", "demo", packets=(b"ten bytes!", b"more"))
    assert (status, out) == (2, "")
    assert "standard input has more than" in err


def test_answers_on_standard_input_are_no_part_of_the_prompt(run: Run, agent: Path) -> None:
    assert run("--agent", f"{agent}:echo", "--answers", "hi", packets=(b"y\n",))[:2] == (0, "hi\n")

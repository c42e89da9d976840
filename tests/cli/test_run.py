"""`agentrail run` as a script uses it: a process of its own, with pipes, a terminal and signals."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import pytest
import trio

from agentrail.cli.subcommands import SUBCOMMANDS
from tests.adapters.models.server import refusing, serving
from tests.cli.talking import COMMAND, ENVIRONMENT, at_a_terminal, modes, through_pipes
from tests.machinery.forked import Forked, run_forked
from tests.patience import PATIENCE

pytestmark = pytest.mark.long


def run(
    *args: str, piped: bytes = b"", folder: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[bytes]:
    return run_forked(["run", *args], env={**ENVIRONMENT, **environment}, cwd=folder, piped=piped)


@contextmanager
def started_run(*args: str, has_input: bool = False) -> Generator[subprocess.Popen[bytes], None, None]:
    """Start it, with pipes; without *has_input*, its standard input is empty."""
    stdin = subprocess.PIPE if has_input else subprocess.DEVNULL
    with Forked(
        ["run", *args], stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def own_errors(errors: bytes) -> str:
    """Return what standard error has, without the note that the demo model answers."""
    text = errors.decode()
    lines = [line for line in text.splitlines(keepends=True) if "so the built-in demo model answers" not in line]
    return "".join(lines)


def test_the_answer_alone_is_printed(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("tea at four")
    done = run("search for tea in notes.txt", folder=tmp_path)
    assert (done.returncode, own_errors(done.stderr)) == (0, "")
    assert done.stdout.decode() == "`grep` answered: “notes.txt:1:tea at four”.\n"


def test_standard_input_is_the_prompt() -> None:
    done = run("--model", "demo", piped=b"Who are you?")
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith(b"I am the built-in demo model")


@pytest.mark.parametrize(
    ("args", "piped", "problem"),
    [
        ((), b"", "standard input is empty, and so is the prompt; give it as an argument, as in "),
        (("-",), b"\n", "standard input is empty, and so is the prompt; "),
        (("x",), b"\xff", "standard input is no UTF-8: byte 0xff at position 0, in line 1; convert it first, "),
        (("a", "b"), b"", "the prompt is one argument, and here are 2: put quotes around it\n"),
        (("--dir", "/no/such", "x"), b"", "--dir: there is no folder '/no/such'\n"),
        (("--max-usd", "0", "x"), b"", "--max-usd: '0' is no number above 0\n"),
        (("--max-rounds", "x", "x"), b"", "--max-rounds: 'x' is no whole number from 1 on\n"),
        (("--max-rounds", "9" * 5000, "x"), b"", "--max-rounds: '9999"),
        (("--yes", "--deny", "x"), b"", "--deny: not allowed with --yes; "),
        (("--answers",), b"y", "--answers: standard input has the answers, so give the prompt as an argument\n"),
        (("--fly", "x"), b"", "there is no option `--fly`; "),
        (("--model", "big", "x"), b"", "there is no model `big`; known here: "),
        (("--agent", "no.py", "x"), b"", "--agent: there is no file 'no.py'\n"),
        (("--schema", "no.json", "x"), b"", "--schema no.json: it is no JSON object, and no file that can be read: "),
        (("--schema", "{", "x"), b"", "--schema: "),
        (("--schema", '{"type": "array"}', "x"), b"", "--schema: cannot ask for an answer in this form: its schema "),
    ],
)
@pytest.mark.parametrize("form", [(), pytest.param(("--json",), marks=pytest.mark.campaign)])
def test_wrong_usage_is_told_in_one_sentence(
    form: tuple[str, ...], args: tuple[str, ...], piped: bytes, problem: str
) -> None:
    done = run(*form, *args, piped=piped)
    assert done.returncode == 2
    line, end = own_errors(done.stderr)[:-1], own_errors(done.stderr)[-1:]
    assert line.startswith(f"agentrail: {problem}".rstrip("\n"))
    assert end == "\n"
    assert "\n" not in line
    if form:
        outcome = cast("dict[str, object]", json.loads(done.stdout))
        assert (outcome["outcome"], outcome["exit_status"], outcome["answer"]) == ("usage", 2, None)
        assert f"agentrail: {outcome['problem']}" == line
    else:
        assert done.stdout == b""


def test_a_run_is_kept_and_gone_on_with(tmp_path: Path) -> None:
    options = ("--model", "demo", "--dir", str(tmp_path), "--journal", str(tmp_path / "j.db"))
    first = json.loads(run(*options, "--json", "Who are you?").stdout)
    assert (first["outcome"], first["rounds"]) == ("done", 1)
    again = ("--resume", first["session"], "--journal", str(tmp_path / "j.db"))
    second = json.loads(run(*again, "--json", "write hello to a.txt").stdout)
    assert (second["outcome"], second["session"]) == ("held", first["session"])
    (waiting,) = second["held"]
    assert waiting["args"] == {"content": "hello", "path": "a.txt"}
    refused = run(*again, "list the files")
    assert refused.returncode == 3
    assert own_errors(refused.stderr) == (
        'agentrail: `write_file` waits for approval with {"content":"hello","path":"a.txt"}; the prompt was not '
        "sent, as it would end the turn of that call: decide about it first, by `agentrail chat --resume`\n"
    )
    with through_pipes("chat", *again) as talk:
        talk.wait_for("> write hello to a.txt\n")
        talk.wait_for("[e]dit\n")
        talk.say("y\n")
        talk.wait_for("created `a.txt`")
        with started_run(*again, "--events", "list the files") as watched:
            assert watched.stdout is not None
            lines = [json.loads(line) for line in watched.stdout]
        talk.wait_for(f"{lines[-1]['answer']}\n")
        assert (lines[-1]["outcome"], lines[-1]["turns"]) == ("done", 3)


@pytest.mark.campaign
def test_who_watches_a_run_goes_on_when_it_has_ended(tmp_path: Path) -> None:
    journal = ("--journal", str(tmp_path / "j.db"))
    with started_run("--model", "demo", "--dir", str(tmp_path), *journal, "--verbose", "count to 2") as process:
        assert process.stderr is not None
        name = process.stderr.readline().split()[1].decode().rstrip(":")
        with through_pipes("chat", "--resume", name, *journal) as talk:
            talk.wait_for("> count to 2\n")
            talk.wait_for("counted to 2")
            assert process.wait(PATIENCE) == 0
            talk.say("Who are you?\n")
            talk.wait_for("built-in demo model")


def test_the_title_has_the_words_of_the_person_alone(tmp_path: Path) -> None:
    journal = tmp_path / "j.db"
    assert run("Who are you?", "--model", "demo", "--journal", str(journal), piped=b"a\nb\n").returncode == 0
    listed = subprocess.run(  # noqa: S603 - our own
        [*COMMAND, "sessions", "list", "--journal", str(journal)],
        capture_output=True,
        check=True,
        timeout=PATIENCE,
        env=ENVIRONMENT,
    )
    assert listed.stdout.rstrip().endswith(b" Who are you?")


@pytest.mark.parametrize(
    ("option", "value"),
    [("--agent", __file__), ("--dir", "."), ("--max-usd", "1"), ("--max-rounds", "1"), ("--no-config", "")],
)
def test_a_session_keeps_what_it_began_with(option: str, value: str) -> None:
    done = run("--resume", "trip", option, *([value] if value else []), "x")
    assert done.returncode == 2
    assert own_errors(done.stderr).startswith(f"agentrail: {option}: a session keeps what it began with")


def test_what_waits_for_a_person_is_named_with_its_exact_arguments(tmp_path: Path) -> None:
    done = run("write tea\u202egnp.exe to a.txt", folder=tmp_path)
    assert (done.returncode, done.stdout) == (3, b"")
    assert own_errors(done.stderr) == (
        'agentrail: `write_file` waits for approval with {"content":"tea\\u202egnp.exe","path":"a.txt"}; '
        "nobody is here to ask: `--yes` allows such calls, `--deny` refuses them, "
        "`--answers` reads answers from a pipe, and at a terminal you are asked\n"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("args", "piped", "code", "files"),
    [
        (("--yes",), b"", 0, ["a.txt"]),
        (("--deny",), b"", 4, []),
        (("--answers",), b"y\n", 0, ["a.txt"]),
        (("--answers",), b"n not today\n", 4, []),
        (("--answers",), b"", 3, []),
        (("--answers",), b"maybe\ny\n", 3, []),
        (("--answers",), b'e\n{"content": "hi", "path": "b.txt"}\n', 0, ["b.txt"]),
        (("--answers",), b"e\nno JSON\ny\n", 3, []),
        (("--answers",), b'e\n{"content": 3}\ny\n', 3, []),
    ],
)
def test_a_call_that_waits_is_decided(
    tmp_path: Path, args: tuple[str, ...], piped: bytes, code: int, files: list[str]
) -> None:
    done = run(*args, "write hello to a.txt", piped=piped, folder=tmp_path)
    assert (done.returncode, [path.name for path in tmp_path.iterdir()]) == (code, files)
    assert b"steering" not in done.stderr


# An agent of a file

AGENT = """
import os
import subprocess

import trio

from agentrail import SessionSpec, tool
from agentrail.testing import ScriptedModel, call, say


@tool
async def chatter() -> str:
    "Print in each way there is."
    print("printed")
    os.write(1, b"written\\n")
    subprocess.run(["echo", "echoed"], check=True)
    return "ok"


@tool
async def deaf() -> str:
    "Ignore everything."
    print("deaf", flush=True)
    with trio.CancelScope(shield=True):
        await trio.sleep_forever()
    return "never"


def last_text(request):
    return request.messages[-1].text


chatterbox = SessionSpec(model=ScriptedModel([say(calls=[call("chatter")]), "Done."]), tools=[chatter])
echo = SessionSpec(model=ScriptedModel([last_text]))
figures = SessionSpec(model=ScriptedModel(["no", '{"n": 3}']))
hidden = SessionSpec(model=ScriptedModel(["\\x1b]0;title\\x07tea\\u202e"]))
stubborn = SessionSpec(model=ScriptedModel([say(calls=[call("deaf")]), "Done."]), tools=[deaf])


def made() -> SessionSpec:
    return echo
"""


@pytest.fixture
def agent(tmp_path: Path) -> str:
    (tmp_path / "agent.py").write_text(AGENT)
    return str(tmp_path / "agent.py")


def test_standard_input_beside_a_prompt_is_its_context(agent: str) -> None:
    done = run("--agent", f"{agent}:echo", "Sum it up.", piped=b"a\nb")
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == b"Sum it up.\n\nStandard input:\n\n```stdin\na\nb\n```\n"


def test_what_tools_print_is_not_the_answer(agent: str) -> None:
    done = run("--agent", f"{agent}:chatterbox", "Go.")
    assert (done.returncode, done.stdout) == (0, b"Done.\n")
    assert sorted(done.stderr.split()) == [b"echoed", b"printed", b"written"]


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        (
            ":no",
            "it has no `no` that is a SessionSpec, nor a function without arguments that is annotated to return one",
        ),
        (":said", "it has no `said` that is a SessionSpec, nor a function "),
    ],
)
def test_an_agent_that_is_not_in_the_file_is_told(agent: str, name: str, problem: str) -> None:
    done = run("--agent", agent + name, "Go.")
    assert done.returncode == 2
    assert done.stderr.decode().startswith(f"agentrail: --agent {agent}: {problem}")


def test_an_answer_that_fits_a_schema_is_json(agent: str, tmp_path: Path) -> None:
    schema = '{"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}'
    (tmp_path / "schema.json").write_text(schema)
    for schema_argument in (schema, str(tmp_path / "schema.json")):
        done = run("--agent", f"{agent}:figures", "--schema", schema_argument, "How many?")
        assert (done.returncode, done.stdout, done.stderr) == (0, b'{"n":3}\n', b"")
    done = run("--agent", f"{agent}:figures", "--schema", schema, "--json", "How many?")
    outcome = cast("dict[str, object]", json.loads(done.stdout))
    assert (outcome["outcome"], outcome["answer"], outcome["rounds"]) == ("done", {"n": 3}, 2)


def test_events_are_lines_of_json_and_the_last_is_the_outcome(agent: str) -> None:
    done = run("--agent", f"{agent}:echo", "--events", "Go.")
    *events, outcome = [cast("dict[str, object]", json.loads(line)) for line in done.stdout.splitlines()]
    kinds = [cast("dict[str, object]", event["event"])["$"] for event in events]
    assert kinds[:2] == ["SessionStarted", "PromptReceived"]
    assert kinds[-2:] == ["ResponseComplete", "AgentEnd"]
    assert {event["session_id"] for event in events} == {outcome["session"]}
    assert (outcome["outcome"], outcome["exit_status"], outcome["answer"]) == ("done", 0, "Go.")


HOSTILE = (
    b"\x00",
    b"\x1b[2J\x07\x7f",
    b"```\n````stdin\n`````",
    "\u202etxt.exe\u2066 \ufeff \U000e0041".encode(),
    b"x\r\n\r\x0b\x0c\xc2\x85\xe2\x80\xa8",
    b"/quit\n/steer now stop\ny\n",
    b"\xff\xfe",
    b"\xed\xa0\x80",
    b"\xc3",
    b"a" * 300_000,
    "\N{HOT BEVERAGE}".encode() * 50_000,
)


@pytest.mark.parametrize("piped", HOSTILE, ids=lambda piped: repr(piped[:12]))
def test_standard_input_reaches_the_model_as_it_is_or_not_at_all(agent: str, piped: bytes) -> None:
    done = run("--agent", f"{agent}:echo", piped=piped)
    try:
        piped.decode()
    except UnicodeDecodeError:
        assert (done.returncode, done.stdout) == (2, b"")
        assert done.stderr.startswith(b"agentrail: standard input is no UTF-8: byte ")
        assert done.stderr.count(b"\n") == 1
    else:
        assert (done.returncode, done.stderr) == (0, b"")
        assert done.stdout == (piped if piped.endswith(b"\n") else piped + b"\n")


def test_a_program_answers_what_it_reads_of_in_the_events(tmp_path: Path) -> None:
    args = ("--events", "--answers", "--model", "demo", "--dir", str(tmp_path), "write hello to a.txt")
    with started_run(*args, has_input=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        outcomes = list[object]()
        for line in process.stdout:
            told_of = cast("dict[str, dict[str, object]]", json.loads(line))
            outcomes.append(told_of.get("outcome"))
            if told_of.get("event", {}).get("$") == "ApprovalRequired":
                process.stdin.write(b"y\n")
                process.stdin.flush()
        assert outcomes[-1] == "done"
        assert process.wait(PATIENCE) == 0
    assert (tmp_path / "a.txt").read_text() == "hello"


# Signals and closed streams


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_aborts_the_turn_cleanly(number: signal.Signals) -> None:
    with started_run("--json", "--verbose", "--model", "demo", "count to 600") as process:
        assert process.stderr is not None
        assert any(b"1 of 600" in line for line in process.stderr)
        process.send_signal(number)
        output, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    outcome = cast("dict[str, object]", json.loads(output))
    assert (outcome["outcome"], outcome["exit_status"], outcome["answer"]) == ("interrupted", 130, None)
    assert errors.endswith(b"agentrail: interrupted\n")


@pytest.mark.campaign
def test_a_signal_before_there_is_a_prompt_ends_the_run() -> None:
    with started_run("--model", "demo", "-", has_input=True) as process:
        assert process.stderr is not None
        assert b"waiting for standard input" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=PATIENCE) == (b"", b"agentrail: interrupted\n")
    assert process.returncode == 130


@pytest.mark.campaign
def test_a_deaf_tool_does_not_keep_it(agent: str) -> None:
    with started_run("--agent", f"{agent}:stubborn", "Go.") as process:
        assert process.stderr is not None
        assert any(line == b"deaf\n" for line in process.stderr)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 70
    assert b"agentrail: the supervisor was left after " in errors
    assert b"task `tool deaf (" in errors


def test_who_reads_the_events_may_leave() -> None:
    with started_run("--events", "--model", "demo", "count to 600") as process:
        assert process.stdout is not None
        assert b"SessionStarted" in process.stdout.readline()
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""
        assert process.wait(PATIENCE) == 1


@pytest.mark.campaign
@pytest.mark.parametrize(
    ("redirections", "code", "errors"),
    [
        (">&-", 1, b"agentrail: standard output is closed, so there is no place for the answer\n"),
        ("> /dev/full", 1, b"agentrail: cannot write to standard output: No space left on device\n"),
        ("<&-", 0, b""),
        ("<&- 2>&-", 0, b""),
        ("2>&- > answer", 0, b""),
    ],
)
def test_a_standard_stream_may_be_closed(redirections: str, code: int, errors: bytes, tmp_path: Path) -> None:
    done = subprocess.run(  # noqa: S603 - our own
        ["/bin/sh", "-c", f'exec "$@" {redirections}', "sh", *COMMAND, "run", "--model", "demo", "Who are you?"],
        capture_output=True,
        timeout=PATIENCE,
        check=False,
        env=ENVIRONMENT,
        cwd=tmp_path,
    )
    assert (done.returncode, done.stderr) == (code, errors)
    if code == 0:
        answer = (tmp_path / "answer").read_bytes() if "answer" in redirections else done.stdout
        assert answer.startswith(b"I am the built-in demo model")


# Providers


async def test_what_a_provider_refuses_is_told(tmp_path: Path) -> None:
    error = json.dumps({"type": "error", "error": {"type": "authentication_error", "message": "invalid x-api-key"}})
    async with serving(refusing(401, error.encode())) as server:
        url = server.url
        done = await run_beside(*of_provider(tmp_path, url))
    assert done.returncode == 6
    assert done.stdout == b""
    assert done.stderr.decode().startswith("agentrail: the model failed: the provider refuses the key: ")
    refused = await run_beside(*of_provider(tmp_path, url), "--json")
    assert refused.returncode == 6
    outcome = cast("dict[str, object]", json.loads(refused.stdout))
    assert (outcome["outcome"], outcome["stop_reason"]) == ("provider", "provider_error")
    (failure,) = cast("list[dict[str, object]]", outcome["errors"])
    assert failure["kind"] == "ServerMissing"
    assert f"the model failed: {failure['message']}" == outcome["problem"]


def of_provider(folder: Path, url: str) -> tuple[str, ...]:
    """Return the arguments for an agent whose provider is at *url*."""
    options = f"model_options={{'base_url': {url!r}, 'api_key': Secret('A_KEY')}}"
    text = (
        f"from agentrail import Secret, SessionSpec\nspec = SessionSpec(model='anthropic:claude-sonnet-5', {options})\n"
    )
    (folder / "provider.py").write_text(text)
    return ("--agent", str(folder / "provider.py"), "hi")


async def run_beside(*args: str) -> subprocess.CompletedProcess[bytes]:
    """Run it while this process serves."""
    with trio.fail_after(PATIENCE):
        return await trio.run_process(
            [*COMMAND, "run", *args],
            env={**ENVIRONMENT, "A_KEY": "sk-1"},
            stdin=subprocess.DEVNULL,
            capture_stdout=True,
            capture_stderr=True,
            check=False,
        )


# At a terminal


def test_a_person_at_a_terminal_is_asked(tmp_path: Path) -> None:
    with at_a_terminal("run", "--model", "demo", "--dir", str(tmp_path), "write tea\u202e to a.txt") as (talk, _):
        screen = talk.sees("    path: a.txt\n    a new file:\n      1 + tea\\u202e\n", "[e]dit")
        assert "? write_file waits for your approval" in screen
        assert "\u202e" not in talk.output
        talk.press("perhaps\n")
        talk.wait_for("Please answer y, n, a or e; a reason may follow n.\x1b[0m\r\n")
        talk.press("y\n")
        talk.wait_for("  approved: write_file")
        talk.sees("\n`write_file` answered: “created `a.txt`: 1 line, 6 bytes”.")  # a mode may be set before it
        assert talk.code() == 0
    assert (tmp_path / "a.txt").read_text() == "tea\u202e"


@pytest.mark.campaign
def test_what_was_typed_before_the_question_is_no_answer(tmp_path: Path) -> None:
    with at_a_terminal("run", "--model", "demo", "--dir", str(tmp_path), "count to 1, then write hello to a.txt") as (
        talk,
        _,
    ):
        talk.wait_for("count to=1")
        talk.say("y\n")
        talk.wait_for("[e]dit")
        talk.say("\x04")
        talk.wait_for("nobody is here to ask")
        assert talk.code() == 3
    assert list(tmp_path.iterdir()) == []


def test_a_question_can_be_interrupted(tmp_path: Path) -> None:
    with at_a_terminal("run", "--model", "demo", "--dir", str(tmp_path), "write hello to a.txt") as (talk, theirs):
        old_modes = modes(theirs)
        talk.wait_for("[e]dit")
        talk.say("\x03")
        talk.wait_for("agentrail: interrupted\x1b[0m\r\n")
        assert talk.code() == 130
        assert modes(theirs) == old_modes


def test_an_answer_cannot_command_the_terminal(agent: str) -> None:
    with at_a_terminal("run", "--agent", f"{agent}:hidden", "Go.") as (talk, _):
        talk.wait_for("\ufffd]0;title\ufffdtea\ufffd\r\n")
    assert run("--agent", f"{agent}:hidden", "Go.").stdout == "\x1b]0;title\x07tea\u202e\n".encode()


# The help


@pytest.mark.parametrize("name", [row.name for row in SUBCOMMANDS])
def test_a_help_fits_a_screen_and_has_an_example(name: str) -> None:
    done = subprocess.run(  # noqa: S603 - our own
        [*COMMAND, name, "--help"], capture_output=True, check=False, env={**ENVIRONMENT, "COLUMNS": "80"}, text=True
    )
    lines = done.stdout.splitlines()
    assert len(lines) <= (40 if name == "serve" else 24)
    assert max(map(len, lines)) <= 80
    assert any(line.startswith("example: ") for line in lines)

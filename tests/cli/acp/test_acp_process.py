"""`agentrail acp` as a process: what is on its standard output, when it ends, and who else sees its sessions."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio

from agentrail.cli.host.shared_host import is_served
from tests.cli.talking import COMMAND, ENVIRONMENT, WITHOUT_UNIX_SOCKETS, Talk, through_pipes
from tests.patience import PATIENCE

pytestmark = pytest.mark.long


class Lines:
    """The editor's end of the pipes."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self.process = process
        self.lines: list[bytes] = []

    def send(self, **fields: object) -> None:
        assert self.process.stdin
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **fields}).encode() + b"\n")
        self.process.stdin.flush()

    def wait_for(self, text: str) -> dict[str, object]:
        """Return the next message with *text* in it."""
        assert self.process.stdout
        while line := self.process.stdout.readline():
            self.lines.append(line)
            if text in line.decode():
                return json.loads(line)  # type: ignore[no-any-return]
        raise AssertionError(f"waited for {text!r} after {self.lines[-3:]}")

    def begin(self, folder: Path) -> str:
        self.send(id=1, method="initialize", params={"protocolVersion": 1})
        self.send(id=2, method="session/new", params={"cwd": str(folder), "mcpServers": []})
        result = self.wait_for('"id":2')["result"]
        return str(result["sessionId"])  # type: ignore[index]

    def prompt(self, session: str, content: str, request_id: int = 3) -> None:
        prompt = [{"type": "text", "text": content}]
        self.send(id=request_id, method="session/prompt", params={"sessionId": session, "prompt": prompt})


@contextmanager
def acp(folder: Path, *args: str, command: tuple[str, ...] = COMMAND) -> Generator[Lines, None, None]:
    journal = str(folder.with_suffix(".db"))
    with subprocess.Popen(  # noqa: S603 - our own
        [*command, "acp", *(args or ("--model", "demo")), "--journal", journal],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=ENVIRONMENT,
    ) as process:
        try:
            yield Lines(process)
        finally:
            process.terminate()
            process.wait(PATIENCE)


@contextmanager
def chat(folder: Path, *args: str, command: tuple[str, ...] = COMMAND) -> Generator[Talk, None, None]:
    journal = str(folder.with_suffix(".db"))
    words = ("chat", "--model", "demo", "--dir", str(folder), "--journal", journal, *args)
    with through_pipes(*words, command=command) as talk:
        yield talk


def test_nothing_but_messages_is_on_standard_output_whatever_tools_do(tmp_path: Path) -> None:
    file = tmp_path / "app.py"
    file.write_text(
        "import subprocess, sys\n"
        "from agentrail import SessionSpec, tool\n\n"
        "@tool\n"
        "async def count(to: int) -> str:\n"
        "    'Count.'\n"
        "    print('from a tool')\n"
        "    subprocess.run(['echo', 'from its program'])\n"
        "    return f'{sys.stdin.read()!r} was to be read'\n\n"
        "desk = SessionSpec(model='demo', tools=(count,))\n"
    )
    with acp(tmp_path, f"{file}:desk") as editor:
        session = editor.begin(tmp_path)
        editor.prompt(session, "count to 3")
        assert editor.wait_for('"id":3')["result"] == {"stopReason": "end_turn"}
        assert b"'' was to be read" in b"".join(editor.lines)
        for line in editor.lines:
            assert json.loads(line)["jsonrpc"] == "2.0"
        assert editor.process.stdin
        editor.process.stdin.close()
        assert editor.process.wait(PATIENCE) == 0
        assert editor.process.stdout
        assert editor.process.stdout.read() == b""
        assert editor.process.stderr
        errors = editor.process.stderr.read()
        assert b"from a tool" in errors
        assert b"from its program" in errors


def test_it_ends_when_the_editor_is_killed_and_the_session_stays(tmp_path: Path) -> None:
    starter = (
        "import subprocess, sys\n"
        "process = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
        "print(process.pid, flush=True)\n"
        "for line in sys.stdin.buffer:\n"
        "    process.stdin.write(line)\n"
        "    process.stdin.flush()\n"
        "    print(process.stdout.readline().decode(), flush=True)\n"
    )
    journal = str(tmp_path.with_suffix(".db"))
    with subprocess.Popen(  # noqa: S603 - our own
        [sys.executable, "-c", starter, *COMMAND, "acp", "--model", "demo", "--journal", journal],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=ENVIRONMENT,
    ) as process:
        assert process.stdin
        assert process.stdout
        pid = int(process.stdout.readline())
        process.stdin.write(b'{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}\n')
        process.stdin.flush()
        assert b"agentCapabilities" in process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE)
    deadline = time.monotonic() + PATIENCE
    while _runs(pid):
        assert time.monotonic() < deadline
    with acp(tmp_path) as editor:
        editor.begin(tmp_path)  # the journal is free


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/status")  # where nobody waits for orphans, it stays as a zombie
    return not status.exists() or "State:\tZ" not in status.read_text()


@pytest.mark.campaign
def test_a_terminal_sees_the_session_and_answers_for_the_editor(tmp_path: Path) -> None:
    with acp(tmp_path) as editor:
        session = editor.begin(tmp_path)
        editor.prompt(session, "write hello to a.txt")
        editor.wait_for("session/request_permission")
        with chat(tmp_path, "--continue") as talk:
            talk.wait_for("> write hello to a.txt\n")
            talk.wait_for("[e]dit\n")
            talk.say("y\n")
            editor.wait_for("$/cancel_request")
            assert editor.wait_for('"id":3')["result"] == {"stopReason": "end_turn"}
            talk.say("Who are you?\n")
            editor.wait_for("user_message_chunk")
    assert (tmp_path / "a.txt").read_text() == "hello"


@pytest.mark.campaign
def test_a_turn_goes_on_when_the_terminal_that_serves_is_killed(tmp_path: Path) -> None:
    with chat(tmp_path) as talk:
        talk.wait_for("goes on with it.\n\n")
        with acp(tmp_path) as editor:
            session = editor.begin(tmp_path)
            editor.prompt(session, "write hello to a.txt")
            request = editor.wait_for("session/request_permission")
            talk.stop(signal.SIGKILL)
            assert talk.code() == -signal.SIGKILL
            editor.send(id=request["id"], result={"outcome": {"outcome": "selected", "optionId": "allow_once"}})
            assert editor.wait_for('"id":3')["result"] == {"stopReason": "end_turn"}
            seqs = [
                json.loads(line)["params"]["_meta"]["agentrail"]["seq"]
                for line in editor.lines
                if b'"method":"session/update"' in line
            ]
            assert seqs == sorted(seqs)
    assert (tmp_path / "a.txt").read_text() == "hello"


@pytest.mark.campaign
def test_a_turn_that_was_open_when_the_editor_left_goes_on_later(tmp_path: Path) -> None:
    with acp(tmp_path) as editor:
        session = editor.begin(tmp_path)
        editor.prompt(session, "write hello to a.txt")
        editor.wait_for("session/request_permission")
    with acp(tmp_path) as editor:
        editor.send(id=1, method="initialize", params={"protocolVersion": 1})
        params = {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []}
        editor.send(id=2, method="session/load", params=params)
        request = editor.wait_for("session/request_permission")
        editor.send(id=request["id"], result={"outcome": {"outcome": "selected", "optionId": "allow_once"}})
        editor.wait_for("created `a.txt`")


def test_what_was_read_before_the_end_of_the_input_is_answered(tmp_path: Path) -> None:
    lines = (
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}},
        {"jsonrpc": "2.0", "id": 2, "method": "session/new", "params": {"cwd": str(tmp_path), "mcpServers": []}},
        {"jsonrpc": "2.0", "id": 3, "method": "session/list"},
    )
    with acp(tmp_path) as editor:
        output, _ = editor.process.communicate("\n".join(map(json.dumps, lines)).encode(), timeout=PATIENCE)
        assert editor.process.returncode == 0
        assert {json.loads(line).get("id") for line in output.splitlines()} == {1, 2, 3, None}


@pytest.mark.parametrize("args", [("--mode",), ("nowhere.py",)])
def test_what_is_wrong_with_the_command_line_is_said_on_standard_error(args: tuple[str, ...]) -> None:
    process = subprocess.run([*COMMAND, "acp", *args], capture_output=True, env=ENVIRONMENT, check=False)  # noqa: S603
    assert process.returncode == 2
    assert process.stdout == b""
    assert process.stderr.startswith(b"agentrail: ")


def test_settings_that_nobody_has_allowed_are_told_to_the_editor(tmp_path: Path) -> None:
    (tmp_path / "agentrail.toml").write_text('[mcp.files]\ncommand = ["touch", "ran"]\n')
    with acp(tmp_path) as editor:
        editor.send(id=1, method="initialize", params={"protocolVersion": 1})
        editor.send(id=2, method="session/new", params={"cwd": str(tmp_path), "mcpServers": []})
        error = editor.wait_for('"id":2')["error"]
    assert error["code"] == -32602  # type: ignore[index]
    assert "`mcp.files`: nobody has allowed this yet; `agentrail trust`" in error["message"]  # type: ignore[index]
    assert not (tmp_path / "ran").exists()


@pytest.mark.campaign
@pytest.mark.parametrize("command", [COMMAND, WITHOUT_UNIX_SOCKETS])
def test_one_session_in_an_editor_and_two_terminals_outlives_the_one_that_serves(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    with chat(tmp_path, command=command) as serving:
        serving.wait_for("goes on with it.\n\n")
        assert trio.run(is_served, tmp_path.with_suffix(".db")) == (command == COMMAND)  # at a socket
        with acp(tmp_path, command=command) as editor:
            session = editor.begin(tmp_path)
            editor.prompt(session, "write hello to a.txt")
            editor.wait_for("session/request_permission")
            with chat(tmp_path, "--continue", command=command) as other:
                other.wait_for("[e]dit\n")
                serving.stop(signal.SIGKILL)
                assert serving.code() == -signal.SIGKILL
                other.say("y\n")
                other.wait_for("✓ write_file")
                editor.wait_for("$/cancel_request")
                assert editor.wait_for('"id":3')["result"] == {"stopReason": "end_turn"}
                updates = [json.loads(line) for line in editor.lines if b'"method":"session/update"' in line]
                seqs = [update["params"]["_meta"]["agentrail"]["seq"] for update in updates]
                assert seqs == sorted(seqs)
                ended = [update for update in updates if update["params"]["update"].get("status") == "completed"]
                assert len(ended) == 1
    assert (tmp_path / "a.txt").read_text() == "hello"


@pytest.mark.campaign
def test_a_folder_that_cannot_be_read_is_an_answer_and_ends_nothing(tmp_path: Path) -> None:
    good, circle, far = tmp_path / "good", tmp_path / "circle", tmp_path / "far"
    good.mkdir()
    far.mkdir()
    circle.symlink_to(circle)
    (far / "agentrail.toml").symlink_to("x" * 300)
    bad = [circle, tmp_path / ("x" * 300), far, circle / "below"]
    with acp(good) as lines:
        session = lines.begin(good)
        for number, folder in enumerate(bad, 10):
            for offset, method in enumerate(("session/new", "session/load", "session/list")):
                params = {"cwd": str(folder), "mcpServers": [], "sessionId": session}
                lines.send(id=number * 10 + offset, method=method, params=params)
                answer = lines.wait_for(f'"id":{number * 10 + offset}')
                assert "error" in answer or method == "session/list", (folder, method)
        lines.prompt(lines.begin(good), "hello", 999)
        assert lines.wait_for('"id":999')["result"] == {"stopReason": "end_turn"}

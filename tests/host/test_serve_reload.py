"""`agentrail serve --reload`: the host starts anew when a file changes, at the same address."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import pytest
import trio

from agentrail.cli.command import main
from agentrail.cli.exit_codes import WRONG_USAGE
from agentrail.cli.host.serve_reload import Reloader, files_below
from tests.host.commanded import SERVE, Served, commanded
from tests.patience import PATIENCE

APP = "from agentrail import SessionSpec\nfrom helper import MODEL\ndesk = SessionSpec(model=MODEL)\n"


async def chat(process: Served) -> str:
    """Talk with the agent, and return the id of the session."""
    command = ["curl", "--silent", "--noproxy", "*", "-H", f"Authorization: Bearer {process.token}"]
    body = ["-H", "Content-Type: application/json", "-d", '{"message": "hello", "session": "trip"}']
    answer = await trio.run_process([*command, *body, f"{process.url}/v1/chat"], capture_stdout=True)
    return str(json.loads(answer.stdout)["session"])


async def until_said(process: Served, text: str) -> str:
    """Read what the process prints until it has said *text*, and return it."""
    assert process.process.stdout is not None
    output = b""
    while text.encode() not in output:
        piece = await process.process.stdout.receive_some()
        assert piece, (output, process.log)
        output += piece
    return output.decode()


async def until_logged(process: Served, text: str) -> None:
    while text not in process.log:  # noqa: ASYNC110 - the other process writes it
        await trio.sleep(0.05)


@pytest.mark.long
@pytest.mark.parametrize("texts", [["--port", "0"], ["--unix", "sock"]], ids=["port", "socket"])
async def test_a_host_starts_anew_when_a_file_of_its_folder_changes(texts: list[str], tmp_path: Path) -> None:
    app, helper = tmp_path / "app.py", tmp_path / "helper.py"
    app.write_text(APP, encoding="utf-8")
    helper.write_text("MODEL = 'demo'\n", encoding="utf-8")
    with trio.fail_after(180):
        async with commanded([*SERVE, "--reload", *texts, "--journal", "kept.db", "app.py"], tmp_path) as process:
            assert "the SessionSpec `desk` of app.py at" in process.printed
            if texts[0] == "--port":
                assert await chat(process) == "you.trip"
            app.write_text(f"{APP}other = SessionSpec(model=MODEL)\n", encoding="utf-8")
            output = await until_said(process, "Ctrl-C")
            assert "the SessionSpec `desk` of app.py, and not `app.py:other`, at" in output
            assert process.printed.split()[-4] == output.split()[-4]  # the address, with its token
            helper.write_text("MODEL = (\n", encoding="utf-8")
            await until_logged(process, "it starts anew when a Python file changes")
            assert "SyntaxError" in process.log
            helper.write_text("MODEL = 'demo'\n\n", encoding="utf-8")
            await until_said(process, "Ctrl-C")
            if texts[0] == "--port":
                assert await chat(process) == "you.trip"
            process.process.send_signal(signal.SIGTERM)
            assert await process.process.wait() == 0
    assert "helper.py has changed: the host starts anew" in process.log
    assert "sessions that no journal keeps are gone at each new start" in process.log


@pytest.mark.long
async def test_a_host_that_fails_waits_for_a_change_and_ends_when_it_is_told_to(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("x = 1\n", encoding="utf-8")
    with (tmp_path / "log").open("w") as log:
        process = await trio.lowlevel.open_process(
            [*SERVE, "--reload", "--port", "0", "app.py"], cwd=tmp_path, stderr=log
        )
        with trio.fail_after(60):
            while "it starts anew" not in (tmp_path / "log").read_text():  # noqa: ASYNC110 - the process writes it
                await trio.sleep(0.05)
            process.send_signal(signal.SIGINT)
            assert await process.wait() == 2
    assert "it has no Host, Profile or SessionSpec" in (tmp_path / "log").read_text()


@pytest.mark.long
async def test_a_signal_that_comes_while_a_process_is_started_ends_that_one_too(tmp_path: Path) -> None:
    reloader = Reloader([sys.executable, "-c", "import time; time.sleep(600)"], tmp_path, ())
    handler = signal.getsignal(signal.SIGTERM)
    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(reloader.run)
            while signal.getsignal(signal.SIGTERM) is handler:
                await trio.lowlevel.checkpoint()
            os.kill(os.getpid(), signal.SIGTERM)


def test_hidden_folders_and_virtual_environments_are_not_watched(tmp_path: Path) -> None:
    for name in ("a.py", "below/b.py", ".git/c.py", "__pycache__/d.py", "venv/e.py", "venv/pyvenv.cfg", "notes.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("", encoding="utf-8")
    files = files_below(tmp_path)
    assert sorted(path.relative_to(tmp_path).as_posix() for path in files) == ["a.py", "below/b.py"]
    (tmp_path / "a.py").write_text("x", encoding="utf-8")
    assert files_below(tmp_path) != files


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--reload", "--cores", "2", __file__], "--reload is for one process, without --cores and --ray"),
        (["--reload", "--ray", "auto", __file__], "--reload is for one process, without --cores and --ray"),
        (["--reload"], "--reload is for a file that changes; give its FILE"),
    ],
)
def test_it_is_for_one_process_and_a_file(
    arguments: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", *arguments]) == WRONG_USAGE
    assert problem in capsys.readouterr().err

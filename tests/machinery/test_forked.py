"""A command that is forked does what one does that is started."""

import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.cli.talking import COMMAND, ENVIRONMENT
from tests.machinery.forked import Forked
from tests.patience import PATIENCE

pytestmark = pytest.mark.long

LOOKING = """
import json, os, signal, sys
from agentrail import SessionSpec
from agentrail.testing import ScriptedModel

streams = [(stream.encoding, stream.errors, stream.line_buffering) for stream in (sys.stdin, sys.stdout, sys.stderr)]
handlers = [str(signal.getsignal(number)) for number in (2, 13, 15, 17)]
process = [os.getcwd(), dict(os.environ), os.getppid(), __import__("__main__").__spec__.name]
print("looks:", json.dumps([sys.argv, sys.orig_argv, sys.path, streams, handlers, process]))
spec = SessionSpec(model=ScriptedModel(["done"]))
"""
"""An agent whose file writes down how its process looks."""


@pytest.mark.parametrize(
    "args",
    [["run", "--agent", "looking.py:spec", "say ☕"], ["--version"], ["no-such-command"], ["run", "--agent", "x.py"]],
    ids=lambda args: args[-1],
)
def test_it_has_the_same_streams_variables_arguments_and_exit_code(args: Sequence[str], tmp_path: Path) -> None:
    (tmp_path / "looking.py").write_text(LOOKING, "utf-8")
    env, pipe = {**ENVIRONMENT, "SHOWN": "☕"}, subprocess.PIPE
    outcomes: list[tuple[object, ...]] = []
    for process in (
        Forked(args, env=env, cwd=tmp_path, stdin=pipe, stdout=pipe, stderr=pipe),
        subprocess.Popen([*COMMAND, *args], env=env, cwd=tmp_path, stdin=pipe, stdout=pipe, stderr=pipe),  # noqa: S603 - our own
    ):
        with process:
            output, errors = process.communicate(b"", PATIENCE)
        outcomes.append((output, errors, process.returncode))
    assert outcomes[0] == outcomes[1]
    assert outcomes[0][0] or outcomes[0][1]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_as_it_ends_one_that_is_started(number: signal.Signals) -> None:
    codes: list[int] = []
    args, pipe = ["chat", "--samples"], subprocess.PIPE
    for process in (
        Forked(args, env=ENVIRONMENT, stdin=pipe, stdout=pipe),
        subprocess.Popen([*COMMAND, *args], env=ENVIRONMENT, stdin=pipe, stdout=pipe),  # noqa: S603 - our own
    ):
        with process:
            assert process.stdout
            while b"/help" not in process.stdout.readline():
                pass
            process.send_signal(number)
            codes.append(process.wait(PATIENCE))
    assert codes[0] == codes[1]

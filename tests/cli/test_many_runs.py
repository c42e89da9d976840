"""The program from its start to its end, many times, beside itself: the interpreter must not crash."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.profiles import CAMPAIGN

pytestmark = pytest.mark.long

RUNS = 2_000 if CAMPAIGN else 4
TOGETHER = 4
HERE = Path(__file__).parents[2]

ALWAYS_LOOKING = """
import runpy, sys
from agentrail.runtime.diagnosis import watchdog
watchdog.SLOW = 0.001
sys.argv = ["agentrail", *sys.argv[1:]]
runpy.run_module("agentrail", run_name="__main__")
"""


@pytest.mark.parametrize("command", [("-m", "agentrail"), ("-c", ALWAYS_LOOKING)], ids=["as it is", "always looking"])
def test_no_run_of_the_program_crashes(command: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("Monday: water the plants.")
    environment = {"PATH": os.environ.get("PATH", os.defpath), "PYTHONPATH": str(HERE), "PYTHONFAULTHANDLER": "1"}

    def run(_: int) -> tuple[int, bool, str]:
        done = subprocess.run(  # noqa: S603 - our own program
            [sys.executable, *command, "run", "read notes.txt"],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=environment,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        fatal = "" if done.returncode == 0 and "Fatal" not in done.stderr else done.stderr
        return done.returncode, "water the plants" in done.stdout, fatal

    with ThreadPoolExecutor(TOGETHER) as together:
        ended = list(together.map(run, range(RUNS)))
    assert [end for end in ended if end != (0, True, "")] == []

"""A real process under signals: it ends in time, and says what did not."""

import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path

import pytest

import agentrail

PROGRAM = """
import logging
import trio
import agentrail
from agentrail.testing import ScriptedModel, call, say

logging.basicConfig(format="%(name)s %(message)s")


@agentrail.tool
async def stuck(number: int) -> str:
    '''Ignore everything.

    Args:
        number: which one
    '''
    with trio.CancelScope(shield=True):
        await trio.sleep(1000)
    return "never"


async def main() -> None:
    async with agentrail.open_supervisor() as supervisor:
        for number in range({count}):
            model = ScriptedModel([say(calls=[call("stuck", {{"number": number}})])])
            session = await supervisor.spawn(agentrail.SessionSpec(model=model, tools=[stuck]), f"s{{number}}")
            await session.prompt("go")
        while any(session.status().phase != "executing_tools" for session in supervisor.sessions()):
            await trio.sleep(0.01)
        print("ready", flush=True)
        await trio.sleep_forever()


agentrail.run(main, stop_within={within})
print("ended", flush=True)
"""


def started(folder: Path, *, count: int, within: float) -> subprocess.Popen[str]:
    file = folder / "program.py"
    file.write_text(PROGRAM.format(count=count, within=within))
    process = subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, str(file)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def test_a_process_with_stuck_tools_ends_in_time_and_names_each(tmp_path: Path) -> None:
    process = started(tmp_path, count=20, within=4.0)
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    out, errors = process.communicate(timeout=20)
    assert time.monotonic() - began < 10
    assert (process.returncode, out) == (70, "")
    (line,) = (line for line in errors.splitlines() if "ignore their cancellation" in line)
    for number in range(20):
        assert f"stuck (s{number}/" in line


def test_a_process_with_nothing_stuck_ends_by_itself(tmp_path: Path) -> None:
    process = started(tmp_path, count=0, within=4.0)
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=20)
    assert (process.returncode, out) == (0, "ended\n")


def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    process = started(tmp_path, count=1, within=60.0)
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    while process.poll() is None and time.monotonic() - began < 20:
        os.kill(process.pid, signal.SIGTERM)
        try:
            process.wait(0.2)
        except subprocess.TimeoutExpired:
            continue
    process.communicate()
    assert process.returncode == 70


@pytest.fixture
def _own_thresholds() -> Generator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


async def seen() -> tuple[int, int, int]:
    return gc.get_threshold()


async def broken() -> None:
    raise LookupError


@pytest.mark.usefixtures("_own_thresholds")
def test_while_a_program_runs_all_objects_are_looked_at_more_seldom() -> None:
    gc.set_threshold(500, 10, 10)
    assert agentrail.run(seen) == (500, 10, 100)
    assert gc.get_threshold() == (500, 10, 10)
    with pytest.RaisesGroup(LookupError):
        agentrail.run(broken)
    assert gc.get_threshold() == (500, 10, 10)


@pytest.mark.usefixtures("_own_thresholds")
def test_a_program_that_has_the_collector_come_even_more_seldom_keeps_that() -> None:
    gc.set_threshold(500, 10, 1000)
    assert agentrail.run(seen) == (500, 10, 1000)
    gc.set_threshold(0, 10, 10)  # it never comes
    assert agentrail.run(seen) == (0, 10, 100)

"""Processes that get signals: they end in time, and name what did not end."""

import gc
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path

import pytest
import trio
import trio.testing

import agentrail
from agentrail.app.process import ONE_SIGNAL, SignalRepeats
from agentrail.errors import WrongType
from tests.patience import PATIENCE

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


RUNNING: list[subprocess.Popen[str]] = []
"""The programs that the test at hand has started."""


def started(folder: Path, *, count: int, within: float, program: str = PROGRAM) -> subprocess.Popen[str]:
    file = folder / "program.py"
    file.write_text(program.format(count=count, within=within))
    process = subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, str(file)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder
    )
    RUNNING.append(process)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.fixture(autouse=True)
def _none_is_left() -> Generator[None]:
    """End what a failed test has left running: its warnings would be those of another test."""
    yield
    while RUNNING:
        with RUNNING.pop() as process:
            process.kill()


@pytest.mark.long
def test_a_process_with_stuck_tools_ends_in_time_and_names_each_with_its_place(tmp_path: Path) -> None:
    """The supervisor ends first and names the tools that do not; a run of Trio with such a tool never ends."""
    program = PROGRAM.replace("open_supervisor()", "open_supervisor(stop_within=0.5)")
    process = started(tmp_path, count=20, within=1000.0, program=program)
    process.send_signal(signal.SIGTERM)
    out, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (70, "")
    assert "the process ends at once: a supervisor cannot end" in errors
    (line,) = (line for line in errors.splitlines() if "agentrail.errors.outside.SupervisorStuck: " in line)
    for number in range(20):
        assert f"task `tool stuck (s{number}/c3)` at {tmp_path / 'program.py'}:" in line


@pytest.mark.long
def test_a_program_that_does_not_heed_its_cancellation_ends_in_time(tmp_path: Path) -> None:
    deaf = "with trio.CancelScope(shield=True):\n            await trio.sleep_forever()"
    program = PROGRAM.replace("await trio.sleep_forever()", deaf)
    process = started(tmp_path, count=0, within=0.5, program=program)
    process.send_signal(signal.SIGTERM)
    out, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (70, "")
    assert "the process ends at once: it did not end in time" in errors


@pytest.mark.long
def test_a_program_whose_loop_is_held_up_for_ever_ends_in_time(tmp_path: Path) -> None:
    busy = "while True:\n            pass"
    process = started(tmp_path, count=0, within=0.5, program=PROGRAM.replace("await trio.sleep_forever()", busy))
    process.send_signal(signal.SIGTERM)
    out, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (70, "")
    assert "the process ends at once: it did not end in time" in errors


@pytest.mark.long
def test_a_program_that_ends_by_itself_with_something_stuck_ends_too(tmp_path: Path) -> None:
    program = PROGRAM.replace("open_supervisor()", "open_supervisor(stop_within=0.5)")
    process = started(tmp_path, count=1, within=1000.0, program=program.replace("await trio.sleep_forever()", "pass"))
    out, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (70, "")
    assert "SupervisorStuck: the supervisor was left after " in errors


@pytest.mark.long
def test_a_program_that_hides_what_is_stuck_ends_too(tmp_path: Path) -> None:
    program = PROGRAM.replace("open_supervisor()", "open_supervisor(stop_within=0)")
    program = program.replace("await trio.sleep_forever()", "pass").replace("async def main()", "async def hidden()")
    program = program.replace(
        "agentrail.run(main",
        "async def main() -> None:\n    try:\n        await hidden()\n"
        "    except agentrail.errors.SupervisorStuck:\n        pass\n\n\nagentrail.run(main",
    )
    process = started(tmp_path, count=1, within=0.5, program=program)
    out, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (70, "")
    assert "the process ends at once: it did not end in time" in errors


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_process_with_nothing_stuck_ends_by_itself(tmp_path: Path, number: signal.Signals) -> None:
    process = started(tmp_path, count=0, within=PATIENCE)
    process.send_signal(number)
    out, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (0, "ended\n")
    assert f"agentrail.process {number.name}: the program stops within" in errors


@pytest.mark.long
def test_a_signal_that_the_process_was_started_to_ignore_stays_ignored(tmp_path: Path) -> None:
    ignoring = "import signal\nsignal.signal(signal.SIGHUP, signal.SIG_IGN)\n" + PROGRAM
    process = started(tmp_path, count=0, within=PATIENCE, program=ignoring)
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGTERM)
    out, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (0, "ended\n")
    assert "SIGHUP" not in errors


@pytest.mark.long
def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    process = started(tmp_path, count=1, within=1000.0)
    process.send_signal(signal.SIGTERM)
    assert process.stderr is not None
    assert any("SIGTERM: the program stops within" in line for line in process.stderr)
    while process.poll() is None:  # one that comes at once is the same signal
        process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.05)
    _, errors = process.communicate(timeout=PATIENCE)
    assert "it was told twice" in errors
    assert process.returncode == 70


@pytest.mark.usefixtures("autojump_clock")
async def test_a_signal_that_comes_again_at_once_is_the_same_one() -> None:
    repeats = SignalRepeats()
    report = [repeats.has(signal.SIGTERM), repeats.has(signal.SIGTERM), repeats.has(signal.SIGINT)]
    await trio.sleep(ONE_SIGNAL * 0.9)
    report.append(repeats.has(signal.SIGTERM))
    await trio.sleep(ONE_SIGNAL * 0.2)
    report += [repeats.has(signal.SIGTERM), repeats.has(signal.SIGTERM)]
    assert report == [False, True, False, True, False, True]


@pytest.fixture
def _own_thresholds() -> Generator[None]:
    old = gc.get_threshold()
    yield
    gc.set_threshold(*old)


async def seen() -> tuple[int, int, int]:
    return gc.get_threshold()


async def broken() -> None:
    raise LookupError


@pytest.mark.usefixtures("_own_thresholds")
def test_while_a_program_runs_that_asks_for_it_all_objects_are_looked_at_more_seldom() -> None:
    gc.set_threshold(500, 10, 10)
    assert agentrail.run(seen) == (500, 10, 10)
    assert agentrail.run(seen, fewer_collections=True) == (500, 10, 100)
    assert gc.get_threshold() == (500, 10, 10)
    with pytest.RaisesGroup(LookupError):
        agentrail.run(broken, fewer_collections=True)
    assert gc.get_threshold() == (500, 10, 10)


@pytest.mark.usefixtures("_own_thresholds")
def test_a_program_that_has_the_collector_come_even_more_seldom_keeps_that() -> None:
    gc.set_threshold(500, 10, 1000)
    assert agentrail.run(seen, fewer_collections=True) == (500, 10, 1000)
    gc.set_threshold(0, 10, 10)  # it never comes
    assert agentrail.run(seen, fewer_collections=True) == (0, 10, 100)


@pytest.mark.parametrize("within", [-1, float("nan"), float("inf"), "10", True, None])
def test_a_time_to_end_that_is_none_is_refused(within: float) -> None:
    with pytest.raises(WrongType, match="stop_within"):
        agentrail.run(seen, stop_within=within)


def test_a_time_to_end_is_cut_to_what_can_be_counted() -> None:
    assert agentrail.run(seen, stop_within=1e300) is not None

"""`shell` and its jobs, with real processes."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest
import trio

from agentrail.runtime.work.background_jobs import MAX_RUNNING, BackgroundJobs
from agentrail.sandboxes import Command, Execution, Heard, MemorySandbox, OnOutput, Output
from agentrail.tools import ToolContext
from agentrail.tools.builtin.shell import DAY, KEEP, MAX_BYTES, MAX_HEARD
from tests.kit import freeze_object
from tests.patience import PATIENCE
from tests.profiles import CAMPAIGN
from tests.sandboxes.test_trees import peak
from tests.tools.builtin.rig import TOOLS, call


@pytest.fixture
async def jobs() -> AsyncIterator[BackgroundJobs]:
    async with trio.open_nursery() as nursery:
        made = BackgroundJobs(nursery)
        yield made
        made.close()


@pytest.mark.long
async def test_a_command_is_run(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    assert await call("shell", tmp_path, command="echo out; echo err >&2; pwd", folder="sub") == (
        f"out\nerr\n{tmp_path / 'sub'}"
    )
    assert await call("shell", tmp_path, command="true") == "[no output]"


@pytest.mark.long
async def test_how_a_command_fails_is_told(tmp_path: Path) -> None:
    assert await call("shell", tmp_path, command="echo no; exit 3") == "✗ no\n[exit code 3]"
    assert await call("shell", tmp_path, command="false") == "✗ [exit code 1]"
    assert await call("shell", tmp_path, command="sleep 60", timeout=1) == (
        "✗ [ended after 1 seconds: it took too long]"
    )
    assert (await call("shell", tmp_path, command="pwd", folder="none")).startswith("✗ cannot run in `none`: ")
    assert (await call("shell", tmp_path, command=" ")) == "✗ the command is refused: it is empty"
    assert (await call("shell", MemorySandbox(), command="pwd")).startswith("✗ ")


@pytest.mark.long
async def test_a_long_output_goes_to_a_file(tmp_path: Path) -> None:
    text = await call("shell", tmp_path, command="seq 3000")
    path = ".shell_output/call-1.txt"
    numbers = [str(number) for number in range(1, 3001)]
    note = (
        "[… the output has 3000 lines and 13893 bytes, too many to show; "
        f"read it with `read_file` or `grep` in `{path}` …]"
    )
    assert text.split("\n") == [*numbers[:100], note, *numbers[-200:]]
    assert (tmp_path / path).read_text().split() == numbers
    assert await call("glob", tmp_path, pattern="call-1.txt") != path


@pytest.mark.long
@pytest.mark.parametrize("side", [-1, 0, 1])
async def test_an_output_as_large_as_what_is_kept_is_kept_whole(tmp_path: Path, side: int) -> None:
    text = await call("shell", tmp_path, command=f"head -c {KEEP + side} /dev/zero | tr '\\0' x")
    assert ("its first and last" not in text) is (side <= 0)
    assert ((tmp_path / ".shell_output/call-1.txt").read_bytes() == b"x" * (KEEP + side)) is (side <= 0)


@pytest.mark.long
async def test_a_huge_output_is_kept_in_part(tmp_path: Path) -> None:
    text = await call("shell", tmp_path, command="head -c 30000000 /dev/zero | tr '\\0' x")
    assert "30000000 bytes" in text
    assert "its first and last 524288 bytes are in `.shell_output/call-1.txt`" in text
    assert (tmp_path / ".shell_output/call-1.txt").stat().st_size < 1_100_000


@pytest.mark.long
async def test_a_huge_output_takes_little_memory_here_and_in_the_launcher(tmp_path: Path) -> None:
    size = 1_000_000_000 if CAMPAIGN else 64_000_000
    launchers: set[int] = set()

    async def look() -> None:
        while True:
            launchers.update(at_launchers())
            await trio.sleep(0.01)

    peak()
    before = peak()
    async with trio.open_nursery() as looking:
        looking.start_soon(look)
        text = await call("shell", tmp_path, command=f"head -c {size} /dev/zero | tr '\\0' x; sleep 0.05")
        looking.cancel_scope.cancel()
    assert f"{size} bytes" in text
    assert peak() - before < 8_000
    assert 0 < max(launchers) < 20_000


def at_launchers() -> list[int]:
    """Return the most memory that each launcher below this process has had, in KiB."""
    found: list[int] = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, StopIteration):
            lines = (folder / "status").read_text(encoding="utf-8").splitlines()
            ours = f"PPid:\t{os.getpid()}" in lines and b"launcher.py" in (folder / "cmdline").read_bytes()
            if ours:
                found.append(next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")))
    return found


@pytest.mark.long
async def test_what_holds_the_pipe_does_not_delay_the_answer(tmp_path: Path) -> None:
    with trio.fail_after(PATIENCE):
        assert await call("shell", tmp_path, command="sleep 100 & setsid sleep 100 & echo done") == "done"


@pytest.mark.long
async def test_what_may_have_stayed_alive_is_told(tmp_path: Path) -> None:
    text = await call("shell", tmp_path, command="echo up; kill -9 $PPID; sleep 100")
    assert text == "✗ up\n[ended by signal 9; something that it started may still run]"


@pytest.mark.long
async def test_a_job_is_started_read_and_killed(tmp_path: Path, jobs: BackgroundJobs) -> None:
    assert await call("shell_output", jobs=jobs) == "[no job was started in the background]"
    assert await call("shell", tmp_path, jobs=jobs, command="echo one; read x; sleep 600", background=True) == (
        'started `job-1`; read what it says with `shell_output(job="job-1")`, end it with `shell_kill`'
    )
    await call("shell", tmp_path, jobs=jobs, command="echo two; exit 4", background=True)
    with trio.fail_after(PATIENCE):
        while not jobs.all()[1].has_ended:  # noqa: ASYNC110 - nobody sets an event for it
            await trio.sleep(0.01)
    assert await call("shell_output", jobs=jobs, job="job-2") == "two\n[`job-2` exit code 4; go on with `since` 4]"
    assert await call("shell_output", jobs=jobs, job="job-2", since=4) == (
        "[nothing new]\n[`job-2` exit code 4; go on with `since` 4]"
    )
    assert await call("shell_output", jobs=jobs) == (
        "job-1: runs: echo one; read x; sleep 600\njob-2: exit code 4: echo two; exit 4"
    )
    assert await call("shell_kill", jobs=jobs, job="job-1") == "`job-1` was killed"
    assert await call("shell_kill", jobs=jobs, job="job-1") == "`job-1` has ended before: it was killed"
    assert await call("shell_kill", jobs=jobs, job="job-9") == (
        "✗ there is no job 'job-9'; there are: `job-1`, `job-2`"
    )


@pytest.mark.long
async def test_a_long_output_of_a_job_is_read_in_parts(tmp_path: Path, jobs: BackgroundJobs) -> None:
    await call("shell", tmp_path, jobs=jobs, command="seq 10000", background=True)
    with trio.fail_after(PATIENCE):
        while not jobs.all()[0].has_ended:  # noqa: ASYNC110 - nobody sets an event for it
            await trio.sleep(0.01)
    since, found = 0, list[str]()
    while "there is more" in (answer := await call("shell_output", jobs=jobs, job="job-1", since=since)) or not found:
        *lines, note = answer.split("\n")
        found += lines
        since = int(note.rpartition("`since` ")[2].removesuffix("]"))
    assert [*found, *answer.split("\n")[:-1]] == [str(number) for number in range(1, 10001)]


async def test_there_is_a_limit_of_jobs_and_none_outlives_its_session(tmp_path: Path, jobs: BackgroundJobs) -> None:
    for _ in range(MAX_RUNNING):
        await call("shell", tmp_path, jobs=jobs, command="sleep 600", background=True)
    assert await call("shell", tmp_path, jobs=jobs, command="pwd", background=True) == (
        "✗ the command is refused: 16 jobs run already; end one with `shell_kill` first"
    )
    jobs.close()
    with trio.fail_after(PATIENCE):
        while not all(job.has_ended for job in jobs.all()):  # noqa: ASYNC110 - nobody sets an event for it
            await trio.sleep(0.01)
    assert await call("shell", tmp_path, jobs=jobs, command="pwd", background=True) == (
        "✗ the command is refused: the session has ended"
    )


class Played(MemorySandbox):
    """A sandbox in which commands end as a test says, without a process."""

    def __init__(self, execution: Execution, *pieces: bytes) -> None:
        super().__init__()
        self.commands: list[Command] = []
        self.kills = 0
        self._execution = execution
        self._pieces = pieces
        self._end = trio.Event()

    async def execute(self, command: Command, on_output: OnOutput | None = None) -> Execution:
        await trio.lowlevel.checkpoint()
        self.commands.append(command)
        for piece in self._pieces:
            if on_output is not None:
                on_output(piece)
        return self._execution

    def prepare(self, command: Command, on_output: OnOutput | None = None) -> Played:
        self.commands.append(command)
        return self

    # As the process that was prepared

    @property
    def execution(self) -> Execution | None:
        return self._execution if self._end.is_set() else None

    async def run(self) -> Execution:
        await self._end.wait()
        return self._execution

    def heard(self, since: int = 0) -> Heard:
        data = b"".join(self._pieces)[since:]
        return Heard(data, since + len(data))

    def kill(self) -> None:
        self.kills += 1
        self._end.set()


async def test_a_command_that_took_too_long_has_failed_whatever_its_exit_code_and_what_still_runs_is_told() -> None:
    late = Execution(0, Output(b"out\n", total=4), timed_out=True, clean=False)
    assert await call("shell", Played(late), command="x", timeout=5) == (
        "✗ out\n[ended after 5 seconds: it took too long; something that it started may still run]"
    )


async def test_of_an_output_that_is_too_long_the_model_learns_what_is_lost_and_git_nothing() -> None:
    sandbox = Played(Execution(0, Output(b"a" * MAX_BYTES, b"b", total=3 * MAX_BYTES)))
    text = await call("shell", sandbox, command="x")
    assert f"its first and last {KEEP // 2} bytes are in `.shell_output/call-1.txt`" in text
    assert (await sandbox.read(".shell_output/.gitignore")).data == b"*\n"


async def test_an_endless_output_is_told_up_to_a_limit() -> None:
    told: list[str] = []
    sandbox = Played(Execution(0), *[b"x" * MAX_BYTES] * 4)
    context = ToolContext(call_id="c", sandbox=sandbox, report=told.append)
    await TOOLS["shell"].execute(freeze_object({"command": "x"}), context)
    assert len(told) == 1


async def test_a_job_has_a_day_is_read_on_where_the_answer_was_cut_and_is_ended(jobs: BackgroundJobs) -> None:
    sandbox = Played(Execution(-9, killed=True), b"line\n" * MAX_HEARD)
    await call("shell", sandbox, jobs=jobs, command="x", background=True)
    assert [order.timeout for order in sandbox.commands] == [DAY]
    text = await call("shell_output", jobs=jobs, job="job-1")
    assert text.endswith(f"there is more: go on with `since` {MAX_HEARD // 5 * 5}]")
    assert await call("shell_kill", jobs=jobs, job="job-1") == "`job-1` was killed"
    assert sandbox.kills == 1

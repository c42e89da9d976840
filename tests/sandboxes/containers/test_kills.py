"""What runs in a container ends with its command, and the container with its session, however these end."""

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest
import trio

from agentrail.adapters.sandboxes.containers.container import AT_ONCE
from agentrail.adapters.user_folders import HOME
from agentrail.errors import OutsideError
from agentrail.sandboxes import Command, ContainerSandbox, Execution
from tests.patience import PATIENCE, within
from tests.profiles import CAMPAIGN
from tests.sandboxes.containers.kinds import container_at, containers, podman
from tests.sandboxes.test_trees import STUBBORN, Sleepers, sleepers

__all__ = ["podman", "sleepers"]

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("podman")]

FORK_BOMB = 'bomb() { bomb | bomb & }; trap "" TERM; bomb; {sleep}'
CLEARED = "env -i setsid sh -c 'ulimit -m 77; {sleep} & {sleep}' & {sleep}"
OF_CONTAINERS = "lowers its mark, clears its environment"
HARD_TO_FIND = {**STUBBORN, OF_CONTAINERS: (CLEARED, 3)}
KINDS = [
    pytest.param(kind, marks=() if kind in {OF_CONTAINERS, "setsid"} else pytest.mark.campaign) for kind in HARD_TO_FIND
]
COMMANDS = 1_000 if CAMPAIGN else AT_ONCE + 4


@pytest.fixture
async def sandbox(tmp_path: Path) -> AsyncIterator[ContainerSandbox]:
    sandbox = container_at(tmp_path)
    await sandbox.execute(Command("true"))
    yield sandbox
    await sandbox.close()


def clients(sandbox: ContainerSandbox) -> list[int]:
    """Return the processes of podman that run a command in the container."""
    name = str(sandbox.container).encode()
    pids = list[int]()
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = place.read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0].endswith(b"podman") and words[1:2] == [b"exec"] and name in words:
            pids.append(int(place.parent.name))
    return pids


@pytest.mark.parametrize("kind", KINDS)
async def test_after_a_cancel_none_is_alive(sandbox: ContainerSandbox, kind: str, sleepers: Sleepers) -> None:
    line, number = HARD_TO_FIND[kind]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(sandbox.execute, Command(line.replace("{sleep}", sleepers.sleep)))
        await sleepers.wait(number)
        start = trio.current_time()
        nursery.cancel_scope.cancel()
    assert sleepers.alive() == []
    assert trio.current_time() - start < within(2)
    assert (await sandbox.execute(Command("echo well"))).stdout.text == "well\n"


async def test_a_fork_bomb_ends_with_its_command(tmp_path: Path, sleepers: Sleepers) -> None:
    sandbox = container_at(tmp_path, processes=64)
    try:
        with trio.fail_after(PATIENCE):
            execution = await sandbox.execute(Command(FORK_BOMB.replace("{sleep}", sleepers.sleep), timeout=1))
            assert execution.timed_out
            left = await sandbox.execute(Command("ls -d /proc/[0-9]*"))
        assert len(left.stdout.text.split()) < 10
    finally:
        await sandbox.close()


async def test_one_command_ends_and_the_others_go_on(sandbox: ContainerSandbox, sleepers: Sleepers) -> None:
    ended = list[Execution]()

    async def run() -> None:
        ended.append(await sandbox.execute(Command(f"setsid env -i {sleepers.sleep} & sleep 0.1; {sleepers.sleep}")))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        await sleepers.wait(2)
        await sandbox.execute(Command("setsid sleep 100 & sleep 0.1", timeout=5))
        assert len(sleepers.alive()) == 2
        nursery.cancel_scope.cancel()
    assert (ended, sleepers.alive()) == ([], [])


async def test_a_stopped_client_leaves_nothing(sandbox: ContainerSandbox, sleepers: Sleepers) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(sandbox.execute, Command(f"trap '' TERM; {sleepers.sleep} & {sleepers.sleep}"))
        await sleepers.wait(2)
        for pid in clients(sandbox):
            os.kill(pid, signal.SIGSTOP)
        nursery.cancel_scope.cancel()
    assert (sleepers.alive(), clients(sandbox)) == ([], [])


async def test_a_command_that_kills_what_watches_it_leaves_nothing(
    sandbox: ContainerSandbox, sleepers: Sleepers
) -> None:
    line = f"setsid {sleepers.sleep} >/dev/null 2>&1 & sleep 0.1; kill -KILL $PPID; {sleepers.sleep}"
    with trio.fail_after(PATIENCE):
        assert (await sandbox.execute(Command(line))).exit_code == 137
    assert sleepers.alive() == []


@pytest.mark.parametrize("is_paused", [False, True])
async def test_a_container_that_is_gone_is_an_error_and_a_new_one(sandbox: ContainerSandbox, is_paused: bool) -> None:
    gone = sandbox.container
    if is_paused:
        await sandbox.pause()
    subprocess.run(["podman", "rm", "--force", str(gone)], check=True, capture_output=True)  # noqa: ASYNC221, S603, S607 - of the machine
    with pytest.raises(OutsideError, match=r"the container .* has ended") as caught:
        await sandbox.execute(Command("true"))
    assert caught.value.code == "container-gone"
    assert (await sandbox.execute(Command("true"))).exit_code == 0
    assert sandbox.container not in {gone, None}


async def test_a_start_that_is_cancelled_leaves_no_container(tmp_path: Path) -> None:
    for seconds in (0.0, 0.05, 0.15, 0.3, 0.6):
        sandbox = container_at(tmp_path)
        with trio.move_on_after(seconds):
            await sandbox.execute(Command("sleep 100"))
        await sandbox.close()
    with trio.fail_after(PATIENCE):
        while containers(tmp_path):  # noqa: ASYNC110 - only the engine knows
            await trio.sleep(0.05)


def descriptors() -> set[tuple[str, str]]:
    """Return the descriptors of this process, each with what it is of: two pipes are never the same."""
    found = set[tuple[str, str]]()
    for place in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # that of the listing itself
            found.add((place.name, os.readlink(place)))  # noqa: PTH115 - that of a pipe is no path
    return found


async def test_many_side_by_side_leave_nothing(sandbox: ContainerSandbox) -> None:
    before = descriptors()
    results = list[str]()

    async def run(number: int) -> None:
        results.append((await sandbox.execute(Command(f"echo {number}"))).stdout.text)

    async with trio.open_nursery() as nursery:
        for number in range(COMMANDS):
            nursery.start_soon(run, number)
    assert sorted(map(int, results)) == list(range(COMMANDS))
    assert descriptors() - before == set()  # less may be left than before: another test's start was just abandoned
    assert clients(sandbox) == []


KILLED = """
import sys, trio
from agentrail.sandboxes import Command
from tests.sandboxes.containers.kinds import container_at

async def main():
    sandbox = container_at(sys.argv[1])
    print("starts", flush=True)
    await sandbox.execute(Command("echo"))
    print("runs", flush=True)
    await sandbox.execute(Command(sys.argv[2]))
    await sandbox.close()

trio.run(main)
"""


@pytest.mark.parametrize("when", [pytest.param("starts", marks=pytest.mark.campaign), "runs"])
async def test_what_a_killed_process_leaves_the_next_one_removes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sleepers: Sleepers, when: str
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.setenv(HOME, str(tmp_path / "home"))
    process = subprocess.Popen(  # noqa: S603, ASYNC220 - our own program
        [sys.executable, "-c", KILLED, str(work), sleepers.sleep], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    for line in process.stdout:
        if line == f"{when}\n":
            break
    if when == "runs":
        await sleepers.wait(1)
    process.kill()
    process.wait()
    process.stdout.close()
    await sleepers.wait(0)  # the command ends at once; its container stays until the next process looks
    words = [sys.executable, "-c", KILLED, str(work), "true"]
    subprocess.run(words, check=True, capture_output=True)  # noqa: S603, ASYNC221 - our own program
    assert containers(work) == set()
    assert os.listdir(work) == []  # noqa: PTH208 - names alone

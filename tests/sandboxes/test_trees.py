"""Processes that do not want to end: after a cancel, a kill, a time-out or the death of their host, none is alive."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path

import pytest
import trio

from agentrail.sandboxes import Command, LocalSandbox
from tests.patience import PATIENCE, within
from tests.profiles import CAMPAIGN
from tests.runtime.cutting import cut
from tests.sandboxes.kinds import WITH_COMMANDS, Opened

pytestmark = pytest.mark.long

NUMBERS = count()

STUBBORN = {
    "ignores TERM": ("trap '' TERM; {sleep} & while :; do {sleep}; done", 2),
    "leader obeys, grandchild does not": ("(trap '' TERM; {sleep}; {sleep}) & {sleep}", 2),
    "setsid": ("setsid sh -c \"trap '' TERM; {sleep}\" & setsid {sleep} & {sleep}", 3),
    "double fork": ("(setsid sh -c '(trap \"\" TERM; setsid {sleep} </dev/null >/dev/null 2>&1 &) &' &) ; {sleep}", 2),
    "stopped": ("{sleep} & sleep 0.1; kill -STOP $!; {sleep}", 2),
}


class Sleepers:
    """Programs that sleep for a length of time that nobody else sleeps for, so that they can be told from others."""

    def __init__(self) -> None:
        self.seconds = f"9{os.getpid()}.{next(NUMBERS):06}"
        self.sleep = f"sleep {self.seconds}"

    def alive(self) -> list[int]:
        return [int(place.parent.name) for place in Path("/proc").glob("[0-9]*/cmdline") if self._is_one(place)]

    def _is_one(self, place: Path) -> bool:
        try:
            return place.read_bytes() == f"sleep\0{self.seconds}\0".encode()
        except OSError:
            return False

    def end(self) -> None:
        for pid in self.alive():  # of this very test
            os.kill(pid, signal.SIGKILL)

    async def wait(self, number: int) -> None:
        with trio.fail_after(PATIENCE):
            while len(self.alive()) != number:  # noqa: ASYNC110 - only the system knows
                await trio.sleep(0.005)


@pytest.fixture
def sleepers() -> Iterator[Sleepers]:
    made = Sleepers()
    yield made
    made.end()


@pytest.mark.parametrize("opened", WITH_COMMANDS)
@pytest.mark.parametrize("kind", STUBBORN)
async def test_after_a_cancel_none_is_alive(tmp_path: Path, opened: Opened, kind: str, sleepers: Sleepers) -> None:
    line, number = STUBBORN[kind]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(opened(tmp_path).execute, Command(line.replace("{sleep}", sleepers.sleep)))
        await sleepers.wait(number)
        start = trio.current_time()
        nursery.cancel_scope.cancel()
    assert sleepers.alive() == []
    assert trio.current_time() - start < within(1)


@pytest.mark.parametrize("opened", WITH_COMMANDS)
async def test_when_a_command_ends_what_it_left_behind_ends(tmp_path: Path, opened: Opened, sleepers: Sleepers) -> None:
    line = "setsid {sleep} & ({sleep} &) ; (setsid {sleep} >/dev/null 2>&1 &) ; sleep 0.1".replace(
        "{sleep}", sleepers.sleep
    )
    done = await opened(tmp_path).execute(Command(line))
    assert (done.exit_code, done.clean) == (0, True)
    assert sleepers.alive() == []


@pytest.mark.parametrize("opened", WITH_COMMANDS)
async def test_who_obeys_has_time_to_clean_up(tmp_path: Path, opened: Opened) -> None:
    process = opened(tmp_path).prepare(
        Command("trap 'echo tidy; exit 5' TERM; echo up; sleep 100 & wait"), lambda _: process.kill()
    )
    done = await process.run()
    assert (done.killed, done.exit_code, done.stdout.text) == (True, 5, "up\ntidy\n")


@pytest.mark.parametrize("opened", WITH_COMMANDS)
async def test_who_waits_for_others_is_told_before_they_are(tmp_path: Path, opened: Opened) -> None:
    codes: list[int] = []

    async def tried(name: str) -> None:
        folder = tmp_path / name
        folder.mkdir()
        line = Command("trap 'echo tidy; exit 5' TERM; echo up; sleep 100 & wait")
        process = opened(folder).prepare(line, lambda _: process.kill())
        codes.append((await process.run()).exit_code)

    for times in range(4):  # the numbers of processes, by which the order would be, differ
        async with trio.open_nursery() as nursery:
            for number in range(8):
                nursery.start_soon(tried, f"{times}-{number}")
    assert len(codes) == 32
    assert 0 not in codes, "its command was told first, so it took its work for done, and did not clean up"


@pytest.mark.parametrize("opened", WITH_COMMANDS)
async def test_a_kill_before_the_start_is_kept(tmp_path: Path, opened: Opened) -> None:
    process = opened(tmp_path).prepare(Command("sleep 100"))
    process.kill()
    with trio.fail_after(PATIENCE):
        assert (await process.run()).killed


async def test_who_kills_its_launcher_does_not_outlive_it(tmp_path: Path, sleepers: Sleepers) -> None:
    line = f"{sleepers.sleep} & kill -9 $PPID; {sleepers.sleep}"
    done = await LocalSandbox(tmp_path).execute(Command(line))
    assert not done.clean
    await sleepers.wait(0)


async def test_what_a_killed_launcher_leaves_is_ended_also_by_a_cancelled_command(
    tmp_path: Path, sleepers: Sleepers
) -> None:
    command = Command(f"{sleepers.sleep} & kill -9 $PPID; {sleepers.sleep}")
    moment = 0
    while await cut(moment, partial(LocalSandbox(tmp_path).execute, command)):
        assert sleepers.alive() == []
        moment += 1
    assert moment > 6


HOST = """
import sys, trio
from agentrail.adapters.sandboxes.bubblewrap import BubblewrapSandbox
from agentrail.adapters.sandboxes.local import LocalSandbox
from agentrail.ports.sandbox import Command
trio.run({"l": LocalSandbox, "b": BubblewrapSandbox}[sys.argv[1]](sys.argv[2]).execute, Command(sys.argv[3]))
"""


def a_host(*words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", HOST, *words], cwd=Path.cwd())  # noqa: S603 - our own


@pytest.mark.parametrize("opened", WITH_COMMANDS)
async def test_when_the_host_is_killed_none_is_alive(tmp_path: Path, opened: Opened, sleepers: Sleepers) -> None:
    line = "trap '' TERM; {sleep} & setsid {sleep} & {sleep}".replace("{sleep}", sleepers.sleep)
    with a_host("l" if opened is LocalSandbox else "b", str(tmp_path), line) as host:
        try:
            await sleepers.wait(3)
        finally:
            host.kill()
    await sleepers.wait(0)


@pytest.mark.parametrize("opened", WITH_COMMANDS)
async def test_cancelled_at_any_moment_nothing_is_left(tmp_path: Path, opened: Opened, sleepers: Sleepers) -> None:
    for milliseconds in (0, 1, 3, 10, 20, 30, 40, 60):
        with trio.move_on_after(milliseconds / 1000):
            await opened(tmp_path).execute(Command(f"{sleepers.sleep} & {sleepers.sleep}"))
        assert sleepers.alive() == []
    assert is_empty(tmp_path)


async def test_a_long_output_takes_little_memory(tmp_path: Path) -> None:
    size = 1_000_000_000 if CAMPAIGN else 64_000_000
    heard = 0

    def hear(chunk: bytes) -> None:
        nonlocal heard
        heard += len(chunk)

    before = peak()
    done = await LocalSandbox(tmp_path).execute(Command(f"head -c {size} /dev/zero"), hear)
    assert (done.exit_code, done.stdout.total, heard) == (0, size, size)
    assert peak() - before < 5_000


def is_empty(folder: Path) -> bool:
    return not list(folder.iterdir())


def peak() -> int:
    """Return the most memory that this process has had since it was last asked, in KiB."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    found = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    return found


async def test_who_hears_may_raise(tmp_path: Path) -> None:
    def hear(_: bytes) -> None:
        raise ValueError

    assert (await LocalSandbox(tmp_path).execute(Command("echo x; sleep 0.05; echo y"), hear)).stdout.text == "x\ny\n"

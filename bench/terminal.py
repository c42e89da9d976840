"""How soon `agentrail chat` takes keys, and what a key costs in a session with a long past.

In a pseudo-terminal, with the defaults that users get: from the start of the process until keys are read, until the
session is open, and from a key to its echo, in a new session and in one with 100,000 lines. CPU is that of all
threads of the process, also on a machine that does much else. `python -m bench.terminal 100000 5`
"""

from __future__ import annotations

import os
import pty
import select
import statistics
import struct
import sys
import tempfile
import termios
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from fcntl import ioctl
from functools import partial
from pathlib import Path
from typing import Final

import trio

from agentrail.adapters.user_folders import HOME
from agentrail.cli.agents.agent_seal import AgentSeal
from agentrail.cli.agents.agent_source import AgentSource, profile_of
from agentrail.cli.host.shared_host import open_shared
from agentrail.cli.session_names import new_name
from agentrail.cli.talk.input_history import InputHistory

LINES: Final = 100_000
RUNS: Final = 5

KEYS: Final = "the quick brown fox jumps over the lazy dog and types on"
"""What is typed, key by key."""

LINES_OF_PROMPT: Final = 500
"""How many lines each prompt has."""

COLUMNS: Final = 120
ROWS: Final = 40

CHUNK: Final = 65_536
PATIENCE: Final = 120.0
"""Seconds after which what is waited for does not come any more."""

KEYS_ARE_READ: Final = b"\x1b[?2004h"
IS_OPEN: Final = b"idle"


class Chat:
    """A process of `agentrail chat` in a pseudo-terminal."""

    def __init__(self, args: Sequence[str], folder: Path) -> None:
        self.started_at = time.perf_counter()
        self._pid, self._terminal = pty.fork()
        if self._pid == 0:
            os.chdir(folder)
            os.execv(sys.executable, [sys.executable, "-m", "agentrail", "chat", *args])  # noqa: S606 - ours
        ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self._output = b""

    def seconds_until(self, text: bytes) -> tuple[float, float]:
        """Wait until *text* is written; return the seconds of clock and of CPU since the start."""
        deadline = time.monotonic() + PATIENCE
        while text not in self._output:
            if not select.select([self._terminal], [], [], deadline - time.monotonic())[0]:
                problem = f"{text!r} did not come"
                raise TimeoutError(problem)
            self._output += os.read(self._terminal, CHUNK)
        return time.perf_counter() - self.started_at, self.cpu()

    def rest(self) -> None:
        """Wait until nothing has come for a second."""
        while select.select([self._terminal], [], [], 1.0)[0]:
            os.read(self._terminal, CHUNK)

    def echo(self, key: str) -> float:
        """Return the seconds from *key* until what it changes on the screen has come."""
        start = time.perf_counter()
        os.write(self._terminal, key.encode())
        select.select([self._terminal], [], [], PATIENCE)
        seconds = time.perf_counter() - start
        while select.select([self._terminal], [], [], 0.02)[0]:
            os.read(self._terminal, CHUNK)
        return seconds

    def cpu(self) -> float:
        """Return the seconds of CPU that the process has taken, of all its threads."""
        threads = Path(f"/proc/{self._pid}/task").glob("*/schedstat")
        return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9

    def end(self) -> None:
        """Have it leave."""
        os.write(self._terminal, b"\x15\x04")
        while select.select([self._terminal], [], [], PATIENCE)[0]:
            try:
                os.read(self._terminal, CHUNK)
            except OSError:  # the terminal is closed
                break
        os.waitpid(self._pid, 0)
        os.close(self._terminal)


@contextmanager
def chat(folder: Path, *args: str) -> Generator[Chat, None, None]:
    """Begin a chat in *folder*, and have it leave."""
    process = Chat(args, folder)
    try:
        yield process
    finally:
        process.end()


async def fill(folder: Path, lines: int) -> None:
    """Have a session of *folder* get prompts with *lines* lines together, and the history of the arrow keys be full."""
    source = AgentSource(str(folder), model="demo", mode="ask")
    history = InputHistory(str(folder))
    async with open_shared(None, profile_of, has_page=False) as supervisor:
        sealed = AgentSeal(None).begun(source)
        session = await supervisor.spawn(sealed.id, new_name(), labels=[sealed.label])
        for start in range(0, lines, LINES_OF_PROMPT):
            rows = [f"line {number} of what was pasted" for number in range(start, start + LINES_OF_PROMPT)]
            await session.ask("\n".join(rows))
            for number in range(5):
                history.add(f"prompt {start + number}, some words that were typed")


def starts(folder: Path, runs: int, *args: str) -> None:
    """Print how long starts take with *args*."""
    figures: list[tuple[float, float, float, float]] = []
    for _ in range(runs):
        with chat(folder, *args) as process:
            figures.append((*process.seconds_until(KEYS_ARE_READ), *process.seconds_until(IS_OPEN)))
    ready, ready_cpu, is_open, open_cpu = (statistics.median(column) for column in zip(*figures, strict=True))
    best = min(figure[0] for figure in figures)
    name = " ".join(args) or "new session"
    print(
        f"{name:<14} keys are read after {ready:.2f} s (best {best:.2f}, CPU {ready_cpu:.2f}), "
        f"the session is open after {is_open:.2f} s (CPU {open_cpu:.2f})"
    )


def keys(folder: Path, *args: str) -> None:
    """Print what keys cost with *args*."""
    with chat(folder, *args) as process:
        process.seconds_until(IS_OPEN)
        process.rest()
        cpu = process.cpu()
        echoes = sorted(process.echo(key) for key in KEYS)
        cost = (process.cpu() - cpu) / len(KEYS)
    name = " ".join(args) or "new session"
    slow = echoes[int(len(echoes) * 0.9)]
    print(
        f"{name:<14} a key is seen after {1000 * statistics.median(echoes):.1f} ms "
        f"(nine of ten in {1000 * slow:.1f}), CPU {1000 * cost:.2f} ms a key"
    )


def main(lines: int = LINES, runs: int = RUNS) -> None:
    """Measure, and print the figures."""
    with tempfile.TemporaryDirectory() as name:
        os.environ[HOME] = str(Path(name) / "home")
        folder = Path(name) / "work"
        folder.mkdir()
        starts(folder, runs)
        keys(folder)
        trio.run(partial(fill, folder, lines))
        print(f"with a past of {lines} lines:")
        starts(folder, runs, "--continue")
        keys(folder, "--continue")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

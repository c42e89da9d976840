"""Print what the same jobs take here, on bare Trio and in other frameworks, by turns in one run.

`make peers` makes the environment of the others. `AGENTRAIL_BENCH=small` takes fewer sessions and turns. Nothing here
fails: the figures are for whoever chooses, and hold for a quiet machine alone.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import trio

from agentrail import Context, Continue, Plugin
from agentrail.plugins import AfterResponse, AfterTool, Attachable, BeforeRequest, BeforeTool, Keyed
from bench.bridge import cpu_of_turn, cpu_of_turn_on_trio
from bench.crowd import CHUNKS, DELAY, bare_crowd, crowd
from bench.rig import cpu_per_turn

FOLDER: Final = Path(__file__).parent
PYTHON: Final = FOLDER.parents[1] / "build" / "peers" / "bin" / "python"
SMALL: Final = os.environ.get("AGENTRAIL_BENCH") == "small"
SESSIONS: Final = 100 if SMALL else 1_000
TURNS: Final = 20 if SMALL else 300
ROUNDS: Final = 2 if SMALL else 7
PROVIDERS: Final = 10
CALLBACKS: Final = PROVIDERS * (2 + 2 + 1 + 1)
"""Callbacks of a turn: its two requests have two hooks each, and its call has two."""


class Nothing(Plugin[None]):
    """Does nothing at four hooks."""

    def before_request(self, hook: BeforeRequest, state: None, ctx: Context) -> Continue[None]:
        """Do nothing."""
        return Continue(state)

    def after_response(self, hook: AfterResponse, state: None, ctx: Context) -> Continue[None]:
        """Do nothing."""
        return Continue(state)

    def before_tool(self, hook: BeforeTool, state: None, ctx: Context) -> Continue[None]:
        """Do nothing."""
        return Continue(state)

    def after_tool(self, hook: AfterTool, state: None, ctx: Context) -> Continue[None]:
        """Do nothing."""
        return Continue(state)


def of_others(program: str, *arguments: float | str | Path) -> tuple[float, ...]:
    """Return the numbers that a *program* beside this one prints, run with the others' interpreter."""
    command = [str(PYTHON), str(FOLDER / program), *map(str, arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return tuple(map(float, done.stdout.split()))


def tool_turn() -> float:
    """Return the microseconds of CPU of a tool turn without callbacks."""
    return trio.run(lambda: cpu_per_turn(TURNS, calls=1))


def callback() -> float:
    """Return the microseconds of CPU that a callback adds to a tool turn."""
    plugins: tuple[Attachable, ...] = tuple(Keyed(f"nothing-{number}", Nothing()) for number in range(PROVIDERS))
    bare = tool_turn()
    hooked = trio.run(lambda: cpu_per_turn(TURNS, calls=1, plugins=plugins))
    return (hooked - bare) / CALLBACKS


JOBS: Final[dict[str, Callable[[], float]]] = {
    f"{SESSIONS:,} tool turns at once, seconds: agentrail": lambda: trio.run(crowd, SESSIONS),
    "the same on bare Trio": lambda: trio.run(bare_crowd, SESSIONS),
    "the same with AutoGen": lambda: of_others("of_autogen.py", SESSIONS, CHUNKS, DELAY)[0],
    f"a turn of {CHUNKS} chunks with a listener, µs of CPU: agentrail on Trio": lambda: trio.run(
        cpu_of_turn_on_trio, TURNS
    ),
    "the same by agentrail.aio": lambda: asyncio.run(cpu_of_turn(TURNS)),
    "the same with AutoGen, its run read": lambda: of_others("of_autogen.py", 1, CHUNKS, DELAY, TURNS)[0],
    "a no-op callback, µs of CPU: agentrail": callback,
    "the same with Strands": lambda: of_others("of_strands.py", PROVIDERS, TURNS)[0],
    "a tool turn without callbacks, µs of CPU: agentrail": tool_turn,
    "the same with Strands, its words in one piece": lambda: of_others("of_strands.py", 1, TURNS)[1],
}
"""What is measured, in order."""


def main() -> int:
    """Measure all jobs by turns, and print the median of each, the least and the most."""
    if not PYTHON.exists():
        print("the other frameworks are not installed: run `make peers`", file=sys.stderr)
        return 1
    taken: dict[str, list[float]] = {name: [] for name in JOBS}
    for number in range(ROUNDS):
        began = time.perf_counter()
        for name, job in JOBS.items():
            taken[name].append(job())
        print(f"round {number + 1} of {ROUNDS}: {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
    for name, figures in taken.items():
        print(f"{name:72}{statistics.median(figures):>10.2f}{min(figures):>10.2f}{max(figures):>10.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

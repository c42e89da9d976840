"""Print how many instructions of user code things take, counted by callgrind: they do not depend on the hour.

`python -m tests.benchmarks.instructions` runs `counted` under valgrind and exits with 1 if a figure is over its limit.
The figures belong to one interpreter; with another one they are printed without a verdict.
"""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.benchmarks.counted import JOBS, PLUGINS

INTERPRETER: Final = "CPython 3.11.7"
"""The interpreter that the figures belong to."""

BEFORE: Final[Mapping[str, float]] = {
    "turn of 20 chunks": 1_376_901,
    "tool round": 1_232_741,
    "further parallel tool, at 8": 649_570,
    "further parallel tool, at 64": 1_089_205,
    "chunk": 17_507,
    "spawn and stop": 1_233_156,
    "hook callback": 7_092,
}
"""Instructions at commit e83b310, counted as here: with Trio's tasks in the same order, and without the collector."""

ROOM: Final = 1.03
"""How much more than before each may take."""

MISSING: Final = "valgrind, which counts instructions, is not installed: run `make counting-tools`"

ROOT: Final = Path(__file__).parents[2]


def why_not() -> str:
    """Return why nothing can be counted here; empty: it can."""
    return MISSING if shutil.which("valgrind") is None else ""


def interpreter() -> str:
    """Return the name and version of the interpreter that is counted."""
    return f"{platform.python_implementation()} {platform.python_version()}"


def measured() -> dict[str, float]:
    """Return the instructions of everything, by name."""
    rounds = _per_round()
    turn = rounds["turn"]
    one = rounds["1 call"]
    return {
        "turn of 20 chunks": turn,
        "tool round": one - turn,
        "further parallel tool, at 8": (rounds["8 calls"] - one) / 7,
        "further parallel tool, at 64": (rounds["64 calls"] - one) / 63,
        "chunk": (rounds["220 chunks"] - turn) / 200,
        "spawn and stop": rounds["spawn and stop"],
        "hook callback": (rounds["25 plugins"] - rounds["1 plugin"]) / (PLUGINS - 1),
    }


def _per_round() -> dict[str, float]:
    """Return the instructions of one round of each job, in the thread of the loop."""
    with tempfile.TemporaryDirectory() as folder:
        _run(Path(folder))
        totals = _totals(Path(folder))
    if len(totals) < 2 * len(JOBS):
        message = f"callgrind has seen {len(totals)} of {2 * len(JOBS)} marks: is `getsid` not a symbol of this libc?"
        raise RuntimeError(message)
    within = totals[1::2]  # a part ends at each mark: every second one lies between the two marks of a job
    return {name: total / rounds for (name, (rounds, _)), total in zip(JOBS.items(), within, strict=True)}


def _run(folder: Path) -> None:
    """Run the jobs under callgrind, with the same addresses and the same hashes each time."""
    command = [
        "valgrind",
        "--tool=callgrind",
        "--separate-threads=yes",
        "--dump-before=getsid",
        f"--callgrind-out-file={folder / 'part'}",
        sys.executable,
        "-m",
        "tests.benchmarks.counted",
    ]
    setarch = shutil.which("setarch")
    if setarch is not None:
        command = [setarch, "-R", *command]
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "PYTHONHASHSEED": "0"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        message = f"the jobs could not be counted: valgrind ended with {done.returncode}\n{done.stderr[-2000:]}"
        raise RuntimeError(message)


def _totals(folder: Path) -> list[int]:
    """Return the instructions of each part of the first thread, in order."""
    found: list[tuple[int, int]] = []
    for path in folder.iterdir():
        part = re.fullmatch(r"part\.(\d+)-01", path.name)
        total = re.search(r"^totals: (\d+)", path.read_text(), re.MULTILINE)
        if part is not None and total is not None:
            found.append((int(part[1]), int(total[1])))
    return [total for _, total in sorted(found)]


def over(found: Mapping[str, float], room: float = ROOM) -> dict[str, float]:
    """Return by which factor the figures are over what they were, of those that are over the *room*."""
    return {name: count / BEFORE[name] for name, count in found.items() if count > BEFORE[name] * room}


def main() -> int:
    """Print the table, and say whether a figure is missed."""
    missing = why_not()
    if missing:
        print(missing, file=sys.stderr)
        return 1
    here = interpreter()
    print(f"instructions of user code with {here}; the figures before are of {INTERPRETER} at commit e83b310")
    print(f"{'':32}{'measured':>12}{'before':>12}{'ratio':>8}")
    found = measured()
    missed = over(found) if here == INTERPRETER else {}
    for name, count in found.items():
        mark = "  MISSED" if name in missed else ""
        print(f"{name:32}{count:>12,.0f}{BEFORE[name]:>12,.0f}{count / BEFORE[name]:>8.3f}{mark}")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())

"""Print how many instructions of user code things take, counted by callgrind: they do not depend on the hour.

`python -m bench.instructions` runs `counted` under valgrind, and exits with 1 if a figure misses its must.
The figures belong to one interpreter; with another one they are printed without a verdict.
"""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Mapping
from operator import sub
from pathlib import Path
from typing import Final, NamedTuple

from bench.counted import CROWD, JOBS, PLUGINS

INTERPRETER: Final = "CPython 3.11.7"
"""The interpreter that the figures belong to."""


class Figure(NamedTuple):
    """What something takes, in instructions."""

    now: float
    """What it took when this table was changed last."""
    must: float
    """What it may take."""
    aim: float
    """What it is to take."""


FIGURES: Final[Mapping[str, Figure]] = {
    "turn of 20 chunks": Figure(970_300, 1_150_000, 810_000),
    "turn of a session of 600": Figure(975_464, 1_210_000, 860_000),
    "tool round": Figure(917_658, 850_000, 700_000),
    "further parallel tool, at 8": Figure(352_917, 330_000, 300_000),
    "further parallel tool, at 64": Figure(397_083, 370_000, 300_000),
    "chunk": Figure(9_494, 12_000, 10_000),
    "chunk, made by a user's model": Figure(10_003, 12_000, 10_000),
    "turn of 20 such chunks": Figure(987_757, 950_000, 900_000),
    "such a turn after 2,500 others": Figure(1_017_020, 1_026_000, 945_000),
    "such a turn in SQLite": Figure(1_248_300, 1_330_000, 1_200_000),
    "first plugin of a session": Figure(155_250, 100_000, 70_000),
    "spawn and stop": Figure(1_186_172, 1_320_000, 800_000),
    "spawn and stop, one specification": Figure(880_446, 1_000_000, 800_000),
    "turn that is aborted": Figure(1_557_640, 1_550_000, 770_000),
    "tool turn in a crowd of 100": Figure(1_916_626, 2_050_000, 1_640_000),
    "hook callback": Figure(2_930, 5_300, 2_500),
}
"""The aims are those of the design: twice what a hand-written actor takes for a turn, and 0.3 µs for a callback."""

ROOM: Final = 1.03
"""By which factor each may differ in CI from what the table says, which is then to be printed anew."""

MISSING: Final = "valgrind, which counts instructions, is not installed: run `make counting-tools`"

ROOT: Final = Path(__file__).parents[1]


def why_not() -> str:
    """Return why nothing can be counted here; empty: it can."""
    return MISSING if shutil.which("valgrind") is None else ""


def interpreter() -> str:
    """Return the name and version of the interpreter that is counted."""
    return f"{platform.python_implementation()} {platform.python_version()}"


class Row(NamedTuple):
    """How a figure is made of what its jobs take."""

    jobs: tuple[str, ...]
    """The names of the jobs."""
    of: Callable[..., float] = float
    """Makes the figure of the instructions of one round of each of them."""


ROWS: Final[Mapping[str, Row]] = {
    "turn of 20 chunks": Row(("turn",)),
    "turn of a session of 600": Row(("300 turns",)),
    "tool round": Row(("1 call", "turn"), sub),
    "further parallel tool, at 8": Row(("8 calls", "1 call"), lambda eight, one: (eight - one) / 7),
    "further parallel tool, at 64": Row(("64 calls", "1 call"), lambda many, one: (many - one) / 63),
    "chunk": Row(("220 chunks", "turn"), lambda many, few: (many - few) / 200),
    "chunk, made by a user's model": Row(("written, 220 chunks", "written turn"), lambda many, few: (many - few) / 200),
    "turn of 20 such chunks": Row(("written turn",)),
    "such a turn after 2,500 others": Row(("written, after 2,500 turns",)),
    "such a turn in SQLite": Row(("written, SQLite",)),
    "first plugin of a session": Row(("attentive plugin", "turn"), sub),
    "spawn and stop": Row(("spawn and stop",)),
    "spawn and stop, one specification": Row(("spawn and stop, one specification",)),
    "turn that is aborted": Row(("abort",)),
    "tool turn in a crowd of 100": Row(("crowd",), lambda crowd: crowd / CROWD),
    "hook callback": Row(("25 plugins", "1 plugin"), lambda many, one: (many - one) / (PLUGINS - 1)),
}


def measured(jobs: Collection[str] = tuple(JOBS)) -> dict[str, float]:
    """Return the instructions of everything for which these *jobs* are enough, by name."""
    rounds = per_round(jobs)
    rows = {name: row for name, row in ROWS.items() if rounds.keys() >= {*row.jobs}}
    return {name: row.of(*[rounds[job] for job in row.jobs]) for name, row in rows.items()}


def per_round(names: Collection[str]) -> dict[str, float]:
    """Return the instructions of one round of each job of these *names*, in the thread of the loop."""
    with tempfile.TemporaryDirectory() as folder:
        _run(Path(folder), names)
        totals = _totals(Path(folder))
    if len(totals) < 2 * len(names):
        message = f"callgrind has seen {len(totals)} of {2 * len(names)} marks: is `getsid` not a symbol of this libc?"
        raise RuntimeError(message)
    within = totals[1::2]  # a part ends at each mark: every second one lies between the two marks of a job
    return {name: total / JOBS[name][0] for name, total in zip(names, within, strict=True)}


def _run(folder: Path, names: Collection[str]) -> None:
    """Run the jobs of these *names* under callgrind, with the same addresses and the same hashes each time."""
    command = [
        "valgrind",
        "--tool=callgrind",
        "--separate-threads=yes",
        "--dump-before=getsid",
        f"--callgrind-out-file={folder / 'part'}",
        sys.executable,
        "-m",
        "bench.counted",
        *names,
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


def off(found: Mapping[str, float], room: float = ROOM) -> dict[str, float]:
    """Return by which factor the figures differ from what the table says, of those that differ by more than *room*."""
    factors = {name: count / FIGURES[name].now for name, count in found.items()}
    return {name: factor for name, factor in factors.items() if not 1 / room <= factor <= room}


def main() -> int:
    """Print the table, and say whether a figure is missed."""
    missing = why_not()
    if missing:
        print(missing, file=sys.stderr)
        return 1
    here = interpreter()
    print(f"instructions of user code with {here}; the other figures are of {INTERPRETER}")
    print(f"{'':32}{'measured':>12}{'now':>12}{'must':>12}{'aim':>12}")
    missed = False
    for name, count in measured().items():
        figure = FIGURES[name]
        mark = "  MISSED" if count > figure.must else "" if count > figure.aim else "  as wanted"
        missed |= count > figure.must
        print(f"{name:32}{count:>12,.0f}" + "".join(f"{each:>12,.0f}" for each in figure) + mark)
    return int(missed and here == INTERPRETER)


if __name__ == "__main__":
    sys.exit(main())

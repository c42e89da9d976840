"""`python -m property_tests.planted [--write] [--from SEED] [word ...]`: plant, search, print a table.

Exits 1 if a bug is not found within `MOST_SEEDS` seeds. With `--write`, the seeds that found bugs are stored in
`seeds.py`; CI plants each bug and tries its stored seed.
"""

from __future__ import annotations

import multiprocessing
import sys
import time
from argparse import ArgumentParser
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path

from property_tests.planted.finding import BUGS, Found, sought
from property_tests.planted.seeds import SEEDS

HEAD = '"""Which seed has found which planted bug, and what it broke: `python -m property_tests.planted --write`."""'


def main(words: list[str]) -> int:
    """Search for the bugs that the command line names, and print which seed found each; return the exit code."""
    parser = ArgumentParser(prog="python -m property_tests.planted")
    parser.add_argument("words", nargs="*", help="parts of names of bugs; none: all of them")
    parser.add_argument("--write", action="store_true", help="keep the seeds that have found something")
    parser.add_argument("--from", type=int, default=0, dest="start", help="the first seed (0)")
    parser.add_argument("--jobs", type=int, default=2, help="how many processes (2)")
    asked = parser.parse_args(words)
    names = [name for name in BUGS if not asked.words or any(word in name for word in asked.words)]
    found: dict[str, Found] = {}
    began = time.monotonic()
    with multiprocessing.get_context("spawn").Pool(asked.jobs, maxtasksperchild=1) as pool:
        for name, at in pool.imap_unordered(partial(sought, asked.start), names, chunksize=1):
            print(f"{name:<38} {'not found' if at is None else f'{at.rule:<28} seed {at.seed}'}", flush=True)
            if at is not None:
                found[name] = at
    print(f"{len(found)} of {len(names)} found, {time.monotonic() - began:.0f} s")
    if asked.write:
        write({**{name: Found(*known) for name, known in SEEDS.items() if name in BUGS}, **found}, BUGS)
    return int(len(found) < len(names))


def write(found: Mapping[str, Found], order: Iterable[str]) -> None:
    """Write `seeds.py`: for each bug in *found*, its seed and the rule that it broke, in the given order."""
    rows = "".join(f'    "{name}": ({found[name].seed}, "{found[name].rule}"),\n' for name in order if name in found)
    text = f"{HEAD}\n\nfrom typing import Final\n\nSEEDS: Final[dict[str, tuple[int, str]]] = {{\n{rows}}}\n"
    (Path(__file__).parent / "seeds.py").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

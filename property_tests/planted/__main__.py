"""`python -m property_tests.planted [--write] [--from SEED] [word ...]`: plant, search, print a table.

Exits 1 if a bug is not found within `MOST_SEEDS` seeds. With `--write`, the seeds that found bugs are stored
with them; the campaign plants each bug and tries its stored seed.
"""

from __future__ import annotations

import multiprocessing
import sys
import time
from argparse import ArgumentParser
from functools import partial

from property_tests.planted.bugs import Found, store
from property_tests.planted.finding import BUGS, sought


def main(words: list[str]) -> int:
    """Search for the bugs that the command line names, and print which seed found each; return the exit code."""
    parser = ArgumentParser(prog="python -m property_tests.planted")
    parser.add_argument("words", nargs="*", help="parts of the words of bugs; none: all of them")
    parser.add_argument("--write", action="store_true", help="keep the seeds that have found something")
    parser.add_argument("--from", type=int, default=0, dest="start", help="the first seed (0)")
    parser.add_argument("--jobs", type=int, default=2, help="how many processes (2)")
    asked = parser.parse_args(words)
    names = [name for name in BUGS if not asked.words or any(word in name for word in asked.words)]
    found: dict[str, Found] = {}
    began = time.monotonic()
    with multiprocessing.get_context("spawn").Pool(asked.jobs, maxtasksperchild=1) as pool:
        for name, at in pool.imap_unordered(partial(sought, asked.start), names, chunksize=1):
            print(f"{name}: {'not found' if at is None else f'seed {at.seed}: {at.rule}'}", flush=True)
            if at is not None:
                found[name] = at
    print(f"{len(found)} of {len(names)} found, {time.monotonic() - began:.0f} s")
    if asked.write:
        store(found, BUGS.values())
    return int(len(found) < len(names))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""`python -m property_tests.mutants [--edits N] [word ...]`: edit, test, print a table.

Exits 1 if an edit survives that is not explained, and 2 if an explanation does not fit the source any more.
"""

from __future__ import annotations

import json
import math
import os
import resource
import sys
import time
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Final

from attrs import evolve

from property_tests.mutants.areas import AREAS, SUITES, Suite, whole
from property_tests.mutants.explained import EXPLAINED
from property_tests.mutants.operators import ROOT, Edit, edits_of
from property_tests.mutants.reach import BUILD, Reach, reach
from property_tests.mutants.server import Fate, Job, needs_import, work

CORES: Final = 2
"""On how many cores all edits are to be tested within two hours."""

STALE: Final = 2
"""The exit code if an explanation does not fit the source any more: nothing was tested."""


def main(words: Sequence[str]) -> int:
    """Edit what is asked for, test, and report."""
    parser = ArgumentParser(prog="python -m property_tests.mutants")
    parser.add_argument("words", nargs="*", help="parts of names of edits; none: all of them")
    parser.add_argument("--edits", type=int, default=500, help="how many of each area, over all its modules (500)")
    parser.add_argument("--tests", action="append", help="folders or modules of tests")
    parser.add_argument("--jobs", type=int, default=2, help="how many processes (2)")
    parser.add_argument(
        "--results",
        type=Path,
        default=BUILD / "results.jsonl",
        help="a line for each edit as soon as its fate is known (build/mutants/results.jsonl)",
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=math.inf,
        help="CPU time of the tests of an edit, after which the others are left to a later run with --resume",
    )
    parser.add_argument("--resume", action="store_true", help="leave out what an earlier run has killed")
    asked = parser.parse_args(words)
    edits = all_edits()
    why = {name: reason for reason, names in EXPLAINED.items() for name in names}
    stale = sorted(why.keys() - {edit.name for edit in edits})
    if stale:
        print("no such edit any more:", *stale, sep="\n", file=sys.stderr)
        return STALE
    began = time.monotonic()
    chosen = [
        edit for edit in drawn(edits, asked.edits) if not asked.words or any(word in edit.name for word in asked.words)
    ]
    fates = tested([edit for edit in chosen if edit.name not in why], asked)
    left = report({edit: fate_of(edit, why, fates) for edit in chosen})
    for line in costs(chosen, fates):
        print(line)
    used, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic() - began
    print(f"{(used.ru_utime + used.ru_stime) / 60:.0f} CPU minutes for this run, in {wall / 60:.0f} minutes")
    return int(left > 0 or not chosen)


def all_edits() -> list[Edit]:
    """Return every edit of the areas."""
    paths = (path for area in AREAS for path in sorted((ROOT / "agentrail" / area).rglob("*.py")))
    return [edit for path in paths for edit in edits_of(path)]


def drawn(edits: Sequence[Edit], most: int) -> list[Edit]:
    """Return *most* edits of each area in a mixed order: of each module its share, rounded up."""
    modules: dict[str, list[Edit]] = {}
    for edit in sorted(edits, key=lambda edit: edit.rank):
        modules.setdefault(edit.module, []).append(edit)
    whole = Counter(edit.area for edit in edits)
    shares = (its[: -(-len(its) * most // whole[its[0].area])] for its in modules.values())
    return sorted((edit for share in shares for edit in share), key=lambda edit: edit.rank)


def tested(edits: Sequence[Edit], asked: Namespace) -> dict[str, Fate]:
    """Test *edits* in several processes, and return what has become of each."""
    before = {name: fate for name, fate in read(asked.results).items() if fate.by is not None} if asked.resume else {}
    if not asked.resume:
        asked.results.unlink(missing_ok=True)
    left = [edit for edit in edits if edit.name not in before]
    for suite in [Suite(AREAS, whole(asked.tests))] if asked.tests else SUITES:
        those = [edit for edit in left if edit.area in suite.areas]
        if those:
            _test_by(suite, those, asked)
    fates = before | read(asked.results)
    if len(fates.keys() & {edit.name for edit in left}) < len(left):
        sys.exit(f"not all edits were tested: {BUILD}/log-*")
    return fates


def _test_by(suite: Suite, edits: Sequence[Edit], asked: Namespace) -> None:
    """Test *edits* by the tests of *suite*, and write their fates down."""
    known = reach(suite.parts)
    jobs = [job_of(edit, known, asked.seconds) for edit in edits]
    areas = ", ".join(suite.areas)
    print(f"{areas}: {len(jobs)} edits, {sum(job.cold for job in jobs)} of them in what runs at the import", flush=True)
    began = time.monotonic()
    screen, done = os.dup(1), 0

    def tell(job: Job, fate: Fate) -> None:
        """Print and keep what has become of an edit."""
        nonlocal done
        done += 1
        with asked.results.open("a", encoding="utf-8") as out:
            out.write(json.dumps([job.edit.name, fate.how, fate.by, fate.tests, fate.seconds]) + "\n")
        if fate.by is None or asked.words:
            os.write(screen, f"{fate.how}: {job.edit.name} — {fate.by or f'{fate.tests} tests'}\n".encode())
        if done % 20 == 0:
            os.write(screen, f"some {done * asked.jobs} after {time.monotonic() - began:.0f} s\n".encode())

    for at_import in (False, True):
        unknown = {name for name, fate in read(asked.results).items() if fate.how == "unknown"} if at_import else set()
        those = [evolve(job, cold=at_import) for job in jobs if job.cold is at_import or job.edit.name in unknown]
        children: list[int] = []
        for nth in range(asked.jobs):
            pid = os.fork()
            if pid == 0:
                log = BUILD / f"log-{int(at_import)}{nth}"
                try:
                    work(those[nth :: asked.jobs], known.seconds, suite.paths, tell, log)
                finally:
                    os._exit(0)
            children.append(pid)
        for pid in children:
            os.waitpid(pid, 0)


def job_of(edit: Edit, known: Reach, seconds: float) -> Job:
    """Find the tests of *edit*, as many as take *seconds*, and how it is made."""
    tests, imported = known.tests(edit)
    sums = accumulate((known.seconds[test] for test in tests), initial=0.0)
    some = tuple(test for test, before in zip(tests, sums, strict=False) if before < seconds)
    return Job(edit, some, imported or needs_import(edit))


def read(results: Path) -> dict[str, Fate]:
    """Return what is known of edits."""
    if not results.exists():
        return {}
    lines = map(json.loads, results.read_text(encoding="utf-8").splitlines())
    return {name: Fate(*rest) for name, *rest in lines}


def fate_of(edit: Edit, why: Mapping[str, str], fates: Mapping[str, Fate]) -> str:
    """Say in a word what has become of *edit*."""
    fate = fates.get(edit.name)
    return "explained" if edit.name in why else "killed" if fate is not None and fate.by is not None else "left"


def costs(edits: Sequence[Edit], fates: Mapping[str, Fate]) -> Iterator[str]:
    """Yield for each area, and for all, how long the last tests of its *edits* took, in this run or an earlier one."""
    seconds: Counter[str] = Counter()
    for edit in edits:
        if edit.name in fates:
            seconds.update(dict.fromkeys((edit.area, "all"), fates[edit.name].seconds))
    for area in sorted(seconds, key=lambda area: (area == "all", area)):
        minutes = seconds[area] / 60
        yield f"{area}: {minutes:.0f} CPU minutes of tests, which are {minutes / CORES:.0f} on {CORES} cores"


def report(words: Mapping[Edit, str]) -> int:
    """Print the table, and return how many edits are left."""
    counts: Counter[tuple[str, str]] = Counter()
    for edit, word in words.items():
        for row in (edit.room, f"all of {edit.area}"):
            counts.update([(row, "edits"), (row, word)])
    columns = ("edits", "killed", "explained", "left")
    print(f"{'room':<28}", *(f"{column:>10}" for column in columns))
    for row in sorted({row for row, _ in counts}, key=lambda row: (row.startswith("all"), row)):
        print(f"{row:<28}", *(f"{counts[row, column]:>10}" for column in columns))
    return sum(word == "left" for word in words.values())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

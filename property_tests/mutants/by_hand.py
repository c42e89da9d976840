"""Tests the edits of `by_hand.txt`: `python -m property_tests.mutants.by_hand --area host [--write] [word ...]`.

Each is made in a fork, and the quick tests that reach its lines are run until one fails, those near it by their names
first. With `--write`, the file gets what has come of each, as soon as it is known.
"""

from __future__ import annotations

import json
import os
import sys
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from property_tests.mutants.areas import Suite, quick
from property_tests.mutants.hand_edits import FILE, NOT_NOTICED, NOTICED, HandEdit, read, write
from property_tests.mutants.matrix import near_first
from property_tests.mutants.operators import Edit
from property_tests.mutants.reach import BUILD, Reach, reach
from property_tests.mutants.server import Fate, Job, needs_import, work

SECONDS: Final = 3.0
"""CPU seconds of the tests of an edit, the quick ones first; those near it by their names have as many of their own."""

MORE_SECONDS: Final = 12.0
"""As many seconds for an edit that no test has noticed, which is then looked at again."""

WANTED: Final = 85
"""Of 100 edits of an area, how many the quick tests are to notice."""

STALE: Final = 2
"""The exit code if an edit does not fit the source any more: nothing was tested."""

RESULTS: Final = BUILD / f"by_hand-{os.getpid()}.jsonl"
"""A line for each edit, with the test that notices, as soon as it is known."""

_MACHINE: Final = ("tests/cells", "tests/core", "tests/hooks", "tests/limits", "tests/plugins", "tests/runtime")

GROUPS: Final = (
    Suite(("cluster",), quick("tests/cluster")),
    Suite(("mcp",), quick("tests/mcp")),
    Suite(("insight",), quick("tests/host", "tests/insight", "tests/runtime")),
    Suite(("codec", "values"), quick("tests/adapters", "tests/codec", "tests/tools", "tests/values")),
    Suite(("api",), quick("tests/api", "tests/host")),
    Suite(("evals",), quick("tests/evals")),
    Suite(("testing",), quick("tests/plugins", "tests/testing")),
    Suite(("tools",), quick("tests/sandboxes", "tests/tools")),
    Suite(("remote",), quick("tests/cli", "tests/remote")),
    Suite(("plugins",), quick("tests/hooks", "tests/plugins")),
    Suite(("aio", "bridge", "sync"), quick("tests/bridge")),
    Suite(("core", "hooks", "runtime"), quick(*_MACHINE)),
    Suite(("adapters",), quick("tests/adapters", "tests/sandboxes")),
    Suite(("cli",), quick("tests/cli")),
    Suite(("host",), quick("tests/api", "tests/host")),
)
"""Each area, with the tests that are asked."""


def main(words: Sequence[str]) -> int:
    """Test what is asked for, and report; return 1 if too few edits of an area are noticed."""
    parser = ArgumentParser(prog="python -m property_tests.mutants.by_hand")
    parser.add_argument("words", nargs="*", help="parts of the first lines of edits; none: all of the areas")
    parser.add_argument("--area", action="append", help="the edits of this area (all)")
    parser.add_argument("--write", action="store_true", help="write into the file what has come of each edit")
    parser.add_argument("--new", action="store_true", help="only those that were not tested, or not noticed")
    parser.add_argument("--jobs", type=int, default=2, help="how many processes (2)")
    asked = parser.parse_args(words)
    edits, problems = read(FILE.read_text(encoding="utf-8"))
    if problems:
        print("these do not fit the source any more:", *problems, sep="\n", file=sys.stderr)
        return STALE
    chosen = [
        edit
        for edit in edits
        if (not asked.area or edit.area in asked.area)
        and (not asked.words or any(word in edit.name for word in asked.words))
        and not edit.is_equivalent
        and not (asked.new and edit.outcome.startswith(NOTICED))
    ]
    for edit in chosen:
        edit.check()
    outcomes: dict[str, str] = {}
    for group in GROUPS:
        those = [edit for edit in chosen if edit.area in group.areas]
        if those:
            outcomes |= tested(group, those, asked.jobs)
            if asked.write:
                write(outcomes)
    for name, outcome in outcomes.items():
        if outcome == NOT_NOTICED or asked.words:
            print(f"{outcome}: {name}")
    return int(report(chosen, outcomes))


def tested(group: Suite, edits: Sequence[HandEdit], processes: int) -> dict[str, str]:
    """Test *edits* by the tests of *group*, and return what has come of each."""
    RESULTS.unlink(missing_ok=True)
    known = reach(group.parts)
    for seconds in (SECONDS, MORE_SECONDS):
        noticed = {name for name, _, by in _told() if by is not None}
        left = [edit for edit in edits if edit.name not in noticed]
        print(f"{', '.join(group.areas)}: {len(left)} edits, with {seconds:g} s of tests", flush=True)
        for at_import in (False, True):
            unknown = {name for name, how, _ in _told() if how == "unknown"} if at_import else set[str]()
            jobs = [job_of(edit, known, seconds) for edit in left]
            jobs = [job for job in jobs if job.cold is at_import or job.edit.name in unknown]
            _work([Job(job.edit, job.tests, at_import) for job in jobs], known, processes)
    by_name = {name: by for name, _, by in _told() if by is not None}
    return {edit.name: f"{NOTICED}{by}" if (by := by_name.get(edit.name)) else NOT_NOTICED for edit in edits}


def job_of(edit: Edit, known: Reach, seconds: float) -> Job:
    """Return the job of *edit*: the tests that reach it, near ones first, and how it is made."""
    return Job(edit, near_first(edit, known.tests(edit)[0], known.seconds, seconds), needs_import(edit))


def _told() -> list[tuple[str, str, str | None]]:
    """Return what `RESULTS` tells of each edit: its name, how it ended, and the test that notices, if any."""
    return list(map(json.loads, RESULTS.read_text(encoding="utf-8").splitlines())) if RESULTS.exists() else []


def _work(jobs: Sequence[Job], known: Reach, processes: int) -> None:
    """Test *jobs*, all of one kind, in several processes; what notices is written to `RESULTS`."""
    before = len(_told())
    unreached = [job for job in jobs if not job.tests]
    jobs = [job for job in jobs if job.tests]
    paths = sorted({test.partition("::")[0] for job in jobs for test in job.tests})
    for job in unreached:
        _tell(job, Fate("unreached", None, 0, 0.0))
    children: list[int] = []
    for nth in range(processes):
        if jobs[nth::processes]:
            pid = os.fork()
            if pid == 0:
                try:
                    work(jobs[nth::processes], known.seconds, paths, _tell, BUILD / f"log-by-hand{nth}")
                finally:
                    os._exit(0)
            children.append(pid)
    for pid in children:
        os.waitpid(pid, 0)
    if len(_told()) < before + len(jobs) + len(
        unreached
    ):  # pytest returns from an error of its own as if all were well
        sys.exit(f"not all edits were tested: {BUILD}/log-by-hand*")


def _tell(job: Job, fate: Fate) -> None:
    with RESULTS.open("a", encoding="utf-8") as out:
        out.write(json.dumps([job.edit.name, fate.how, fate.by]) + "\n")


def report(edits: Sequence[HandEdit], outcomes: dict[str, str]) -> bool:
    """Print the table of the areas, and return whether one has too few edits that are noticed."""
    counts = Counter((edit.area, outcomes[edit.name] == NOT_NOTICED) for edit in edits)
    print(f"{'area':<12}{'edits':>8}{'noticed':>9}{'of 100':>8}")
    return not all(list(_rows(counts)))  # each row is printed


def _rows(counts: Counter[tuple[str, bool]]) -> Iterator[bool]:
    for area in sorted({area for area, _ in counts}):
        noticed, missed = counts[area, False], counts[area, True]
        share = 100 * noticed // (noticed + missed)
        print(f"{area:<12}{noticed + missed:>8}{noticed:>9}{share:>8}")
        yield share >= WANTED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

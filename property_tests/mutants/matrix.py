"""The kill matrix: which folders of tests notice which edits, in `matrix.txt` beside this file.

`python -m property_tests.mutants.matrix --write [word ...]` tests the edits that are not in it, and those whose names
have one of the words; an edit whose function is gone makes room for the next one. It may be interrupted: what is known
by then is written down, and the next run goes on. `--check` exits 1 if nothing notices an edit any more that something
did. With `--area host`, only the edits of the host are looked at.
"""

from __future__ import annotations

import json
import os
import sys
from argparse import ArgumentParser
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import accumulate, islice
from pathlib import Path
from typing import Final, TypeAlias

from property_tests.mutants.__main__ import all_edits
from property_tests.mutants.areas import Suite, quick
from property_tests.mutants.explained import EXPLAINED
from property_tests.mutants.operators import Edit
from property_tests.mutants.reach import BUILD, Reach, reach
from property_tests.mutants.server import Fate, Job, needs_import, work

FILE: Final = Path(__file__).with_name("matrix.txt")

RESULTS: Final = BUILD / "matrix.jsonl"
"""A line for each edit and folder, with the test that notices, as soon as it is known."""

EDITS: Final = 100
"""How many edits of each group are drawn."""

PORTION: Final = 20
"""How many edits are tested before the matrix is written, so that an interrupted run loses only a few."""

SECONDS: Final = 1.5
"""CPU seconds of the tests of one folder for one edit, the quick ones first, as recorded.

Those that are near the edit by their names have as many of their own: thousands reach what each request goes through.
"""

MORE_SECONDS: Final = 30.0
"""As many seconds for an edit that no folder has noticed, which is then looked at again."""

_MACHINE: Final = ("tests/cells", "tests/core", "tests/plugins", "tests/runtime")

GROUPS: Final = (
    Suite(("host",), quick("tests/api", "tests/host", "tests/remote")),
    Suite(("core",), quick(*_MACHINE)),
    Suite(("runtime",), quick("tests/bridge", *_MACHINE)),
    Suite(("adapters", "plugins"), quick("tests/adapters", "tests/mcp", "tests/plugins", "tests/sandboxes")),
)
"""Areas of which edits are drawn together, and the folders of tests that are asked."""

Matrix: TypeAlias = Mapping[str, Sequence[str]]
"""The folders that notice, by the name of the edit."""


def main(words: Sequence[str]) -> int:
    """Write the matrix or compare it; return the exit code."""
    parser = ArgumentParser(prog="python -m property_tests.mutants.matrix")
    parser.add_argument("words", nargs="*", help="parts of names of edits that are tested again")
    do = parser.add_mutually_exclusive_group(required=True)
    do.add_argument("--write", action="store_true", help="test what is not in the matrix yet, and write it down")
    do.add_argument("--check", action="store_true", help="test what is in the matrix, and tell what is lost")
    parser.add_argument("--area", action="append", help="the edits of this area, and those drawn with it (all)")
    parser.add_argument("--jobs", type=int, default=2, help="how many processes (2)")
    asked = parser.parse_args(words)
    groups = [group for group in GROUPS if not asked.area or not set(asked.area).isdisjoint(group.areas)]
    whole, edits = load(FILE), all_edits()
    stored = {name: folders for name, folders in whole.items() if any(is_of(name, group) for group in groups)}
    gone = sorted(stored.keys() - {edit.name for edit in edits})
    for name in gone:
        print(f"gone: {name}")
    if asked.check:
        lost = lost_edits(stored, tested(edits, stored.keys(), asked.jobs))
        for name in lost:
            print(f"lost: {name}: noticed by {', '.join(stored[name])} before, and by no folder now")
        return int(bool(lost or gone))
    chosen = [edit.name for group in groups for edit in drawn(edits, group, stored.keys())]
    again = [name for name in chosen if name not in stored or any(word in name for word in asked.words)]
    others = {name: folders for name, folders in whole.items() if name not in stored}
    known = others | {name: stored[name] for name in chosen if name in stored}
    for start in range(0, len(again), PORTION):
        known |= tested(edits, again[start : start + PORTION], asked.jobs)
        store(FILE, known)
    print(f"{len(again)} edits tested, {sum(not known[name] for name in again)} of them noticed by no folder")
    return 0


def is_of(name: str, group: Suite) -> bool:
    """Whether the edit with this *name* is of *group*."""
    return name.partition("/")[0] in group.areas


def load(file: Path) -> dict[str, list[str]]:
    """Read a matrix; what is not there is empty."""
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    pairs = (line.split("\t") for line in lines)
    return {name: folders.split() for name, folders in pairs}


def store(file: Path, matrix: Matrix) -> None:
    """Write a matrix: one line an edit, its name, a tab, and the folders."""
    lines = (f"{name}\t{' '.join(folders)}\n" for name, folders in sorted(matrix.items()))
    file.write_text("".join(lines), encoding="utf-8")


def drawn(edits: Iterable[Edit], group: Suite, stored: Collection[str]) -> list[Edit]:
    """Return the edits of *group* that are in the matrix: those that are *stored*, then others by their rank.

    They are in functions, which costs no import, and none is explained.
    """
    explained = {name for names in EXPLAINED.values() for name in names}
    its = [edit for edit in edits if edit.area in group.areas and edit.name not in explained]
    its.sort(key=lambda edit: (edit.name not in stored, edit.rank))
    in_functions = (edit for edit in its if edit.name in stored or (edit.function and not needs_import(edit)))
    return list(islice(in_functions, EDITS))


def lost_edits(before: Matrix, now: Matrix) -> list[str]:
    """Return the names of the edits that a folder noticed *before*, and none does *now*."""
    return sorted(name for name, folders in now.items() if before[name] and not folders)


def tested(edits: Iterable[Edit], names: Collection[str], jobs: int) -> dict[str, list[str]]:
    """Test the edits with these *names*, and return the folders that notice each."""
    RESULTS.unlink(missing_ok=True)
    matrix: dict[str, list[str]] = {edit.name: [] for edit in edits if edit.name in names}
    for group in GROUPS:
        those = sorted(
            (edit for edit in edits if edit.name in names and edit.area in group.areas), key=lambda edit: edit.rank
        )
        for seconds in (SECONDS, MORE_SECONDS):
            noticed = {name for name, _, by in _told() if by is not None}
            left = [edit for edit in those if edit.name not in noticed]
            if left:
                _test(group, left, jobs, seconds)
    for name, folder, by in _told():
        if by is not None:
            matrix[name].append(folder)
    return {name: sorted(folders) for name, folders in matrix.items()}


def _told() -> list[tuple[str, str, str | None]]:
    """Return what `RESULTS` tells of each edit and folder: their names, and the test that notices, if any."""
    return list(map(json.loads, RESULTS.read_text(encoding="utf-8").splitlines())) if RESULTS.exists() else []


def _test(group: Suite, edits: Sequence[Edit], jobs: int, seconds: float) -> None:
    """Test *edits* in several processes; what notices is written to `RESULTS`."""
    known = reach(group.parts)
    those = [job for edit in edits for job in jobs_of(edit, known, seconds)]
    print(f"{', '.join(group.areas)}: {len(edits)} edits, {len(those)} pairs of an edit and a folder", flush=True)
    children, before = list[int](), len(_told())
    for nth in range(jobs):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                work(those[nth::jobs], known.seconds, group.paths, _tell, BUILD / f"log-matrix{nth}")
                code = 0
            finally:
                os._exit(code)
        children.append(pid)
    failed = [pid for pid in children if os.waitpid(pid, 0)[1]]
    if failed or len(_told()) < before + len(those):  # pytest returns from an error of its own as if it had ended well
        sys.exit(f"not all edits were tested: {BUILD}/log-matrix*")


def _tell(job: Job, fate: Fate) -> None:
    with RESULTS.open("a", encoding="utf-8") as out:
        out.write(json.dumps([job.edit.name, folder_of(job.tests[0]), fate.by]) + "\n")


def jobs_of(edit: Edit, known: Reach, seconds: float = SECONDS) -> list[Job]:
    """Return a job for each folder with tests that reach *edit*: the near ones that take *seconds*, then any others."""
    folders: dict[str, list[str]] = {}
    for test in known.tests(edit)[0]:
        folders.setdefault(folder_of(test), []).append(test)
    chosen = (near_first(edit, tests, known.seconds, seconds) for tests in folders.values())
    return [Job(edit, tests, cold=False) for tests in chosen]


def near_first(edit: Edit, tests: Sequence[str], took: Mapping[str, float], seconds: float) -> tuple[str, ...]:
    """Return those of *tests* that are near *edit*, as many as take *seconds*, then as many of the others."""
    near = _within([test for test in tests if is_near(test, edit)], took, seconds)
    return (*near, *_within([test for test in tests if not is_near(test, edit)], took, seconds))


def is_near(test: str, edit: Edit) -> bool:
    """Whether the path of *test*, below its folder, has a word of the path of the edited module, below its area."""
    _, _, *of_test = test.partition("::")[0].removesuffix(".py").replace("test_", "").split("/")
    _, *of_module = edit.module.removesuffix(".py").split("/")
    words = [set("_".join(parts).split("_")) for parts in (of_test, of_module)]
    return not words[0].isdisjoint(words[1])


def _within(tests: Sequence[str], took: Mapping[str, float], seconds: float) -> tuple[str, ...]:
    sums = accumulate((took[test] for test in tests), initial=0.0)
    return tuple(test for test, before in zip(tests, sums, strict=False) if before < seconds)


def folder_of(test: str) -> str:
    """Return the folder below `tests` that *test* is in."""
    return test.split("/")[1]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

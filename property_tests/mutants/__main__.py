"""`python -m property_tests.mutants [word ...]`: break, test, print a table.

Exits 1 if a mutant survives, and 2 if an edit does not fit the source any more.
"""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from property_tests.mutants import Edit
from property_tests.mutants.choices import accepted, all_choices
from property_tests.mutants.edits import EDITS, stale
from property_tests.mutants.rows import outcomes
from property_tests.mutants.suite import little_memory, load, notice

STALE: Final = 2
"""The exit code if an edit does not fit the source any more: nothing was tested."""

Line: TypeAlias = tuple[str, str, str | None]
"""Group, name of the mutant, and the test that failed; `None` if none did."""


def main(words: Sequence[str]) -> int:
    """Test all mutants, or those that *words* name, and print a table; return the exit code."""
    wrong = list(stale())
    if wrong:
        print(*wrong, sep="\n", file=sys.stderr)
        return STALE
    began = time.monotonic()
    survivors: list[Line] = []
    counts: Counter[tuple[str, bool]] = Counter()
    for group, name, by in everything(words):
        counts[group, by is not None] += 1
        if by is None:
            survivors.append((group, name, by))
            print(f"survived: {group}: {name}", flush=True)
        elif words:
            print(f"{group}: {name} — {by}")
    groups = sorted({group for group, _ in counts})
    print(f"{'group':<18}{'mutants':>8}{'killed':>8}{'left':>6}")
    for group in groups:
        killed, left = counts[group, True], counts[group, False]
        print(f"{group:<18}{killed + left:>8}{killed:>8}{left:>6}")
    total = sum(counts.values())
    print(f"{'all':<18}{total:>8}{total - len(survivors):>8}{len(survivors):>6}   in {time.monotonic() - began:.0f} s")
    return 1 if survivors or not total else 0


def everything(words: Sequence[str]) -> Iterator[Line]:
    """Yield the result of each mutant; those of the transition table are tested concurrently with the others."""
    load()
    context = multiprocessing.get_context("fork")
    with context.Pool(2, little_memory, maxtasksperchild=1) as pool:
        edited = pool.imap_unordered(fate_of_edit, chosen_edits(words), chunksize=1)
        table = pool.apply_async(fates_of_rows) if not words or "table" in words else None
        yield from edited
        yield from pool.imap_unordered(fate_of_choice, chosen_choices(words), chunksize=1)
        if table is not None:
            yield from table.get()


def chosen_edits(words: Sequence[str]) -> list[int]:
    """Return the places of the edits that *words* name."""
    return [place for place, edit in enumerate(EDITS) if not words or any(word in edit.name for word in words)]


def chosen_choices(words: Sequence[str]) -> list[int]:
    """Return the places of the choices that *words* name."""
    mutants = enumerate(all_choices())
    return [n for n, mutant in mutants if not words or any(word in f"{mutant.group} {mutant.name}" for word in words)]


def fate_of_choice(place: int) -> Line:
    """Apply a mutant of data in this process, which runs nothing else, and run the tests."""
    mutant = all_choices()[place]
    mutant.apply()
    return mutant.group, mutant.name, notice(mutant.tests)


def fate_of_edit(place: int) -> Line:
    """Apply an edit of the source in a child process, which has imported nothing yet, and run the tests there."""
    edit = EDITS[place]
    child = subprocess.run(
        [sys.executable, "-m", "property_tests.mutants.edited", str(place)],
        check=False,
        capture_output=True,
        text=True,
    )
    if child.returncode:
        broken = f"{edit.name}: {child.stderr}"
        raise BrokenRunError(broken)
    return edit_group(edit), edit.name, child.stdout.strip() or None


class BrokenRunError(Exception):
    """The process that tests an edit has failed, so it is unknown whether a test would notice the edit."""


def edit_group(edit: Edit) -> str:
    """Return the group of an edit, by its module."""
    return "figure" if edit.module.endswith("options") else "pipeline" if "hooks" in edit.module else "core"


def fates_of_rows() -> list[Line]:
    """Test the mutants of the matrix of actions and of the transition table."""
    return [*accepted(), *((outcome.group, outcome.name, outcome.by) for outcome in outcomes())]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

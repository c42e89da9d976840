"""Changes tables of the core and of the pipeline cell by cell, in memory: `python -m property_tests.mutants.tables`."""

from __future__ import annotations

import multiprocessing
import sys
from collections import Counter
from collections.abc import Iterator
from typing import TypeAlias

from property_tests.mutants.choices import accepted, all_choices
from property_tests.mutants.rows import outcomes
from property_tests.mutants.suite import little_memory, load, notice

Line: TypeAlias = tuple[str, str, str | None]
"""Group, mutant, and the test that fails; `None` if none does."""


def main() -> int:
    """Test all mutants of tables, and print how many of each group are killed; return the exit code."""
    counts: Counter[tuple[str, bool]] = Counter()
    for group, name, by in everything():
        counts[group, by is not None] += 1
        if by is None:
            print(f"survived: {group}: {name}", flush=True)
    print(f"{'table':<28}{'mutants':>10}{'killed':>10}{'left':>10}")
    for group in sorted({group for group, _ in counts}):
        killed, left = counts[group, True], counts[group, False]
        print(f"{group:<28}{killed + left:>10}{killed:>10}{left:>10}")
    return int(any(not killed for _, killed in counts) or not counts)


def everything() -> Iterator[Line]:
    """Yield the result of each mutant; those of the transition table are tested concurrently with the others."""
    load()
    with multiprocessing.get_context("fork").Pool(2, little_memory, maxtasksperchild=1) as pool:
        table = pool.apply_async(fates_of_rows)
        yield from pool.imap_unordered(fate_of_choice, range(len(all_choices())), chunksize=1)
        yield from table.get()


def fate_of_choice(place: int) -> Line:
    """Apply a mutant of data in this process, which runs nothing else, and run the tests."""
    mutant = all_choices()[place]
    mutant.apply()
    return mutant.group, mutant.name, notice(mutant.tests)


def fates_of_rows() -> list[Line]:
    """Test the mutants of the matrix of actions and of the transition table."""
    return [*accepted(), *((outcome.group, outcome.name, outcome.by) for outcome in outcomes())]


if __name__ == "__main__":
    sys.exit(main())

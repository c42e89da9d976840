"""Changes in memory the two tables that no source spells out, cell by cell: `python -m property_tests.mutants.tables`.

These are the matrix of hooks and actions, and the transition table. Any other table is edited in its source.
"""

from __future__ import annotations

import resource
import sys
import time
from collections import Counter
from collections.abc import Iterator

from agentrail.hooks import actions, hook_run, plugin
from property_tests.mutants.rows import Outcome, outcomes, replace
from property_tests.mutants.server import MEMORY
from property_tests.mutants.suite import fails, load, tests_of


def main() -> int:
    """Test all mutants of both tables, and print how many of each group are killed; return the exit code."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    counts: Counter[tuple[str, bool]] = Counter()
    for outcome in (*accepted(), *outcomes()):
        counts[outcome.group, outcome.by is not None] += 1
        if outcome.by is None:
            print(f"survived: {outcome.group}: {outcome.name}", flush=True)
    print(f"{'table':<28}{'mutants':>10}{'killed':>10}{'left':>10}")
    for group in sorted({group for group, _ in counts}):
        killed, left = counts[group, True], counts[group, False]
        print(f"{group:<28}{killed + left:>10}{killed:>10}{left:>10}")
    print(f"{time.process_time() / 60:.0f} CPU minutes")
    return int(any(not killed for _, killed in counts) or not counts)


def accepted() -> Iterator[Outcome]:
    """Reverse for each cell of the matrix whether the hook accepts the action."""
    tests = [test for module in load("tests/cells") if "matrix" in module.__name__ for test in tests_of(module)]
    whole = plugin.MATRIX
    for hook, kinds in whole.items():
        for kind in actions.ACTIONS:
            replace(hook_run, "MATRIX", {**whole, hook: kinds ^ {kind}})
            noticed = next((name for name, test in tests if fails(test)), None)
            replace(hook_run, "MATRIX", whole)
            yield Outcome("matrix", f"{hook} × {kind.kind}", noticed)


if __name__ == "__main__":
    sys.exit(main())

"""What `make quick` needs: `python -m property_tests.mutants.quick_list`.

Records all that `make test` runs, writes which test functions reach which functions of the package to
`build/reach.json`, and the test functions that reach nearly all lines for the least time to `tests/runner/quick.txt`.
"""

from __future__ import annotations

import heapq
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from property_tests.mutants.operators import ROOT
from property_tests.mutants.reach import IMPORT, Reach, all_parts, reach
from tests.runner.pieces import function_of
from tests.runner.quick import LIST, REACH, FunctionReach, functions_of, store_reach

SHARE: Final = 0.99
"""Of the lines that `make test` reaches, how many the list does."""

FILE_SECONDS: Final = 0.06
"""What it costs to import a file of tests: pytest rewrites its assertions, and it may import more."""


def main() -> int:
    """Record, and write both files."""
    known = reach(all_parts())
    seconds: dict[str, float] = {}
    for test, cost in known.seconds.items():
        name = function_of(test)
        seconds[name] = seconds.get(name, 0.0) + cost
    lines = lines_of(known)
    store_reach(FunctionReach(seconds, functions_reached(lines)), REACH)
    chosen = cover(masks_of(lines), seconds)
    LIST.write_text("".join(f"{test}\n" for test in sorted(chosen)), "utf-8")
    files = len({test.partition("::")[0] for test in chosen})
    print(f"{len(chosen)} test functions of {files} files, {sum(seconds[test] for test in chosen):.0f} s as recorded")
    return 0


def lines_of(known: Reach) -> dict[str, dict[int, set[str]]]:
    """Return the test functions that reach each line of each module, without those that run at the import alone."""
    lines: dict[str, dict[int, set[str]]] = {}
    for recording in known.recordings:
        for path in recording.measured_files():
            its = lines.setdefault(Path(path).relative_to(ROOT).as_posix(), {})
            for line, tests in recording.contexts_by_lineno(path).items():
                reached = {function_of(test) for test in tests if test != IMPORT and test in known.seconds}
                if reached:
                    its.setdefault(line, set()).update(reached)
    return lines


def functions_reached(lines: Mapping[str, Mapping[int, set[str]]]) -> dict[str, list[str]]:
    """Return the test functions that reach each function of the package."""
    reached: dict[str, set[str]] = {}
    for path, its in lines.items():
        functions = functions_of((ROOT / path).read_text("utf-8"))
        for line, tests in its.items():
            if line in functions:
                reached.setdefault(f"{path} {functions[line]}", set()).update(tests)
    return {function: sorted(tests) for function, tests in reached.items()}


def masks_of(lines: Mapping[str, Mapping[int, set[str]]]) -> dict[str, int]:
    """Return the lines that each test function reaches, as bits: a set of them would take too much memory."""
    masks: dict[str, bytearray] = {}
    size = sum(map(len, lines.values())) // 8 + 1
    for at, tests in enumerate(_each_line(lines)):
        for test in tests:
            masks.setdefault(test, bytearray(size))[at // 8] |= 1 << at % 8
    return {test: int.from_bytes(mask, "little") for test, mask in masks.items()}


def _each_line(lines: Mapping[str, Mapping[int, set[str]]]) -> Iterator[set[str]]:
    for its in lines.values():
        yield from its.values()


def cover(masks: Mapping[str, int], seconds: Mapping[str, float], share: float = SHARE) -> list[str]:
    """Return tests that reach *share* of the bits: each time the one with the most new bits for its time."""
    whole = 0
    for mask in masks.values():
        whole |= mask
    enough, covered = share * whole.bit_count(), 0
    chosen: list[str] = []
    files: set[str] = set()

    def worth(test: str) -> float:
        file = 0.0 if test.partition("::")[0] in files else FILE_SECONDS
        return -(masks[test] & ~covered).bit_count() / (seconds[test] + file + 1e-4)

    heap = [(worth(test), test) for test in sorted(masks)]
    heapq.heapify(heap)
    while covered.bit_count() < enough:
        _, test = heapq.heappop(heap)
        now = worth(test)
        if heap and now > heap[0][0]:
            heapq.heappush(heap, (now, test))  # others have covered some of its bits meanwhile
            continue
        chosen.append(test)
        covered |= masks[test]
        file = test.partition("::")[0]
        if file not in files:
            files.add(file)
            heap = [(worth(each) if each.partition("::")[0] == file else old, each) for old, each in heap]
            heapq.heapify(heap)
    return chosen


if __name__ == "__main__":
    sys.exit(main())

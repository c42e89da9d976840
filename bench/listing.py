"""How long a page of 100 of the list of sessions takes, for each condition, among a million sessions in a file.

`python -m bench.listing 1000000`
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import trio

from agentrail.journals import SessionFilter, SqliteJournal
from tests.adapters.journals.many import COMBINED, WANTED, fill

PAGE: Final = 100
PAGES: Final = 20
FIGURE: Final = 20.0
"""Milliseconds that a page may take."""


async def pages(journal: SqliteJournal, wanted: SessionFilter) -> list[float]:
    """Return the milliseconds that each of the first pages takes."""
    taken: list[float] = []
    last = None
    for _ in range(PAGES):
        began = time.perf_counter()
        page = await journal.sessions(wanted, last, PAGE)
        taken.append((time.perf_counter() - began) * 1000)
        if len(page) < PAGE:
            break
        last = page[-1]
    return taken


async def main(count: int) -> int:
    """Print the median and the longest page for each condition, and for several at once; return 1 if one is missed."""
    longest = 0.0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "journal" / "agentrail.db"
        fill(path, count)
        journal = SqliteJournal(path)
        for name, wanted in WANTED.items():
            taken = await pages(journal, wanted)
            longest = max(longest, shown(name, taken))
        taken = [statistics.median([(await pages(journal, wanted))[0] for _ in range(3)]) for wanted in COMBINED]
        longest = max(longest, shown("combined", taken))
        await journal.close()
    return int(longest > FIGURE)


def shown(name: str, taken: list[float]) -> float:
    """Print the figures of a row, and return the longest."""
    longest = max(taken)
    missed = "" if longest <= FIGURE else "  MISSED"
    print(f"{name:10} median {statistics.median(taken):6.2f} ms, longest {longest:6.2f} ms of {FIGURE:.0f}{missed}")
    return longest


if __name__ == "__main__":
    sys.exit(trio.run(main, int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000))

"""What a crash leaves, as tables of the docs: those that the tests die by."""

from __future__ import annotations

from itertools import groupby

from docs.printing.markdown import table
from tests.recovery.expected import STORED, TOLD, Told


def told() -> list[str]:
    """Return what becomes of a call when the process ends at each place, by what doing it twice would mean."""
    rows: list[list[str]] = []
    for (point, story), group in groupby(TOLD, lambda row: (row.point, row.story)):
        for _, same in groupby(group, lambda row: row[3:]):
            found = list(same)
            rows.append([point.value, f"{story}: {_times(found)}", *(cell or "–" for cell in found[0][3:])])
    return table(
        ("the process ends when", "story, and which time", "`pure`, `idempotent`", "`checkable`", "`unsafe`"), rows
    )


def _times(rows: list[Told]) -> str:
    return ", ".join(str(row.times) for row in rows)


def stored() -> list[str]:
    """Return what is in the file of a journal when the process ends at each place in the thread that writes."""
    rows = (
        [row.point.value, str(row.times), str(row.epoch), str(row.records), "yes" if row.snapshot else "no"]
        for row in STORED
    )
    return table(("the process ends when", "time", "epoch", "records", "snapshot"), rows)

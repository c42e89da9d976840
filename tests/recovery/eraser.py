"""A journal whose process ends while a session is deleted: `python -m tests.recovery.eraser FOLDER POINT:TIMES …`.

As `tests.recovery.writer`, with other work: `erased`.
"""

from pathlib import Path
from typing import Final

from agentrail import State
from agentrail.journals import Journal, Record, Redaction, Snapshot
from tests.kit import Failpoint, Setup, prompted
from tests.recovery.writer import main

END: Final = 150
"""Records of the session that is deleted."""

KEPT: Final = ("another", "third")
"""The sessions that stay."""

OF_BOTH: Final = "said-by-all-of-them "
"""A part of a text that all sessions have."""

SHARED: Final = OF_BOTH * 5000

ERASED: Final = (
    (Failpoint.DELETION_MARKED, 1),
    (Failpoint.BEGUN, 12),
    (Failpoint.COMMIT, 12),
    (Failpoint.COMMITTED, 12),
    (Failpoint.ROWS_ERASED, 1),
    (Failpoint.ROWS_ERASED, 2),
    (Failpoint.ROWS_ERASED, 3),
    (Failpoint.ROWS_ERASED, 5),
    (Failpoint.LOG_MOVED, 1),
    (Failpoint.LOG_MOVED, 2),
    (Failpoint.GAPS_ZEROED, 1),
    (Failpoint.JOBS_ANSWERED, 12),
    (Failpoint.JOBS_ANSWERED, 13),
    (Failpoint.JOBS_ANSWERED, 16),
)
"""The places at which the process ends."""


REDACTED: Final = (
    (Failpoint.TEXTS_REPLACED, 1),
    (Failpoint.TEXTS_REPLACED, 4),
    (Failpoint.TEXTS_REPLACED, 10),
    (Failpoint.GAPS_ZEROED, 2),
)
"""The places at which the process ends while it redacts the session `third`."""

NOTE: Final = Redaction(7, "who asked for it")


def canary(name: str) -> str:
    """Return a text that only one session has."""
    return f"the-canary-of-{name}-"


def written_by(name: str) -> tuple[Record, ...]:
    """Return the records of a session."""
    records = [prompted(name, number, canary(name) * 40, command=f"c{number}") for number in range(1, END)]
    return (*records, prompted(name, END, SHARED))


async def sessions_of(journal: Journal) -> None:
    """Write the sessions, one of them with a sub-agent."""
    for name in ("another", "doomed", "third"):
        claim = await journal.claim(name, "test")
        await journal.append(claim, 0, written_by(name))
        await journal.keep(claim, Snapshot(name, END, State(name, Setup(canary(name)), "demo")))
    opening = State("doomed.c1", Setup(canary("child"), path=("doomed", "c1")), "demo")
    child = await journal.claim("doomed.c1", "test")
    await journal.append(child, 0, (prompted("doomed.c1", 1, opening=opening),))


async def erased(journal: Journal, _: Path) -> None:
    """Write the sessions, delete one, and redact another."""
    await sessions_of(journal)
    await journal.delete("doomed", "", 0)
    await journal.redact("third", 1, END, NOTE, "")
    await journal.close()


if __name__ == "__main__":
    main(erased)

"""A journal whose process ends at a failpoint: `python -m tests.recovery.writer FOLDER POINT:TIMES …`.

For each place, a process is forked that runs `written` with a journal in a folder of that name. The steps that were
done are noted in that folder, and the exit status is written to standard output.
"""

import os
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

import trio

from agentrail import State
from agentrail.journals import Journal, MemoryJournal, Snapshot, SqliteJournal
from tests.kit import Failpoint, Setup, prompted, watching

Work = Callable[[Journal, Path], Awaitable[None]]
"""What a process does with its journal; it may note in a file what is done."""

REACHED = 77
"""Exit status of a process that ended at its place."""

LONG = "x" * 100_000
"""A text so long that the journal stores it apart from its record."""


async def written(journal: Journal, done: Path) -> None:
    """Claim a session, write three records and a snapshot, and close the journal; note each done step in a file."""
    opened = os.open(done, os.O_CREAT | os.O_WRONLY)

    def note(what: str) -> None:
        os.write(opened, f"{what}\n".encode())

    claim = await journal.claim("s", "test")
    note("claim")
    await journal.append(claim, 0, (prompted("s", 1),))
    note("record 1")
    await journal.append(claim, 1, (prompted("s", 2, LONG),))
    note("record 2")
    await journal.keep(claim, Snapshot("s", 2, State("s", Setup(), "demo")))
    note("snapshot")
    await journal.append(claim, 2, (prompted("s", 3),))
    note("record 3")
    await journal.close()
    note("close")
    os.close(opened)


def end_at(work: Work, failpoint: Failpoint, times: int) -> None:
    """Run *work*, and end the process when *failpoint* has been reached *times* times."""
    folder = Path(f"{failpoint.name}:{times}")
    folder.mkdir()
    reached: Counter[Failpoint] = Counter()

    def watch(point: Failpoint) -> None:
        reached[point] += 1
        if point is failpoint and reached[point] == times:
            os._exit(REACHED)

    with watching(watch):
        trio.run(work, SqliteJournal(folder.absolute() / "agentrail.db"), folder / "done")


def main(work: Work = written) -> None:
    os.chdir(sys.argv[1])
    trio.run(work, MemoryJournal(encode=True), Path("warm"))
    for index in sys.argv[2:]:
        child = os.fork()
        if not child:
            name, _, times = index.partition(":")
            end_at(work, Failpoint[name], int(times))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{index} {os.waitstatus_to_exitcode(status)}\n")


if __name__ == "__main__":
    main()

"""A supervisor whose files may not grow, by a limit of the process (`RLIMIT_FSIZE`), for a while or for ever.

`python -m tests.adapters.journals.small_files PATH [once | while | ever]` says what happened, as JSON. The kernel
answers such a write with `EFBIG`, which SQLite calls an error of the disk and not a full one.
"""

import json
import resource
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import trio

from agentrail import SessionSpec, open_supervisor
from agentrail.errors import JournalUnavailable, NotWrittenYet
from agentrail.journals import Claim, Record, SqliteJournal
from agentrail.testing import ScriptedModel

LONGEST: Final = 30.0
ROOM: Final = 10_000
"""Bytes that the log may still grow by: less than a commit of a long prompt."""

LONG: Final = "two? " * 10_000
ENOUGH: Final = 4
LIFTED_AFTER: Final = {"once": 1, "while": ENOUGH, "ever": 0}
"""Failed appends after which the limit is lifted, by how long it is to last; 0: never."""


def limit(size: int) -> None:
    """Let no file of this process grow over *size* bytes."""
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))


class Noting(SqliteJournal):
    """Takes note of what an append raises, and lifts the limit after so many errors."""

    said: list[JournalUnavailable]
    lifted_after = 0

    async def append(self, claim: Claim, expected: int, records: Sequence[Record]) -> int:
        """Append, and say what that raises."""
        try:
            return await super().append(claim, expected, records)
        except JournalUnavailable as error:
            self.said.append(error)
            if len(self.said) == self.lifted_after:
                limit(resource.RLIM_INFINITY)
            raise


async def main(path: Path, how: str) -> dict[str, object]:
    """Ask two sessions, limit the files, ask again, and lift the limit as *how* says."""
    journal = Noting(path)
    journal.said = []
    journal.lifted_after = LIFTED_AFTER[how]
    facts: dict[str, object] = {}
    with trio.fail_after(LONGEST):
        async with open_supervisor(journal=journal) as supervisor, trio.open_nursery() as nursery:
            session = await supervisor.spawn(SessionSpec(model=ScriptedModel(["one", "two"])), "s")
            other = await supervisor.spawn(SessionSpec(model=ScriptedModel(["uno", "due"])), "t")
            facts["first"] = [(await session.ask("one?")).text, (await other.ask("uno?")).text]
            limit(Path(f"{path}-wal").stat().st_size + ROOM)  # noqa: ASYNC240 - nobody else waits
            if how == "ever":
                nursery.start_soon(session.prompt, LONG)
                while len(journal.said) < ENOUGH:  # noqa: ASYNC110 - nobody sets an event for it
                    await trio.sleep(0.01)
                try:
                    await session.stop()
                except NotWrittenYet:
                    facts["then"] = "not written yet"
                nursery.cancel_scope.cancel()
            else:
                facts["then"] = [(await session.ask(LONG)).text, (await other.ask("due?")).text]
    facts["said"] = sorted({f"{type(error).__name__}: {'SQLITE_IOERR_WRITE' in str(error)}" for error in journal.said})
    await journal.close()
    return facts


if __name__ == "__main__":
    sys.stdout.write(json.dumps(trio.run(main, Path(sys.argv[1]), sys.argv[2])))

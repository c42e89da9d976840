"""Processes that are killed at each step of a call with snapshots, and of a rewind: `python -m … FOLDER PLACE…`.

Each place is the name of a failpoint and how often it is reached. Each process has a folder of that name.
"""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import Final

import trio

from agentrail import SessionSpec, open_supervisor
from agentrail.journals import SqliteJournal
from agentrail.sandboxes import LocalSandbox
from agentrail.testing import ScriptedModel, call, say
from agentrail.tools import standard_tools
from tests.kit import Failpoint, watching

STEPS: Final = {
    Failpoint.FILES_KEPT: 4,
    Failpoint.SNAPSHOT_TAKEN: 4,
    Failpoint.FILE_STAGED: 3,
    Failpoint.FILE_BACK: 5,
    Failpoint.FILES_BACK: 1,
}
"""How often each failpoint is reached: by the snapshots before and after the call, and those of the rewind."""

OLD: Final = {"a.txt": "old", "b.txt": "old", "d": "old", "mine.txt": "old"}
WORK: Final = "printf agent > a.txt; rm b.txt d; mkdir d new; printf agent > d/c.txt; printf agent > new/e.txt"
AFTER: Final = {"a.txt": "agent", "d/c.txt": "agent", "new/e.txt": "agent"}
MINE: Final = {"mine.txt": "mine", "own.txt": "mine"}
"""What the person writes before the rewind."""


def spec_in(folder: Path) -> SessionSpec:
    """Return an agent that runs one command in *folder*."""
    model = ScriptedModel([say(calls=[call("shell", {"command": WORK})]), "Done."])
    sandbox = LocalSandbox(folder, snapshots=True)
    return SessionSpec(name="n", model=model, tools=standard_tools(), sandbox=sandbox, working_dir=str(folder))


async def life(top: Path) -> None:
    """Have the agent work, edit files as a person, and rewind."""
    folder = top / "work"
    async with open_supervisor(journal=SqliteJournal(top / "journal.db")) as supervisor:
        session = await supervisor.spawn(spec_in(folder), "s")
        await session.ask("Go.")
        for name, text in MINE.items():
            (folder / name).write_text(text)
        await session.rewind(0)


def live(top: Path, point: str, times: int) -> None:
    """Live in *top* until the failpoint *point* is reached for the last of so many *times*; then kill this process."""
    reached = Counter[str]()

    def watch(failpoint: Failpoint) -> None:
        reached[failpoint.name] += 1
        if reached[point] == times:
            os.kill(os.getpid(), signal.SIGKILL)

    os.environ["AGENTRAIL_HOME"] = str(top / "home")
    with watching(watch):
        trio.run(life, top)


def main(folder: str, *places: str) -> None:
    """Begin a process for each place, one after the other, and print how it ended."""
    for text in places:
        top = Path(folder, text)
        (top / "work").mkdir(parents=True)
        for name, old in OLD.items():
            (top / "work" / name).write_text(old)
        point, _, times = text.partition(":")
        if not (child := os.fork()):
            live(top, point, int(times))
            os._exit(0)
        print(text, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)  # noqa: T201 - for the test


if __name__ == "__main__":
    main(*sys.argv[1:])

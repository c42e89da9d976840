"""A stored journal and a stored session, as each format was written: the first three are refused, the others read.

`python -m tests.adapters.journals.sampling` makes those of the newest format and never touches what is there: a sample
that no longer loads means that the journals of users no longer load.
"""

from pathlib import Path

import trio

from agentrail import SessionSpec, open_supervisor, tool
from agentrail.adapters.journals.archive import export_session
from agentrail.adapters.journals.sqlite import SqliteJournal
from agentrail.codec.upcasting import FORMAT
from agentrail.plugins import BudgetGuard, HumanApproval
from agentrail.testing import ScriptedModel, call, say

SAMPLES = Path(__file__).parent / "samples"
OLDER = [SAMPLES / f"v{number}" for number in range(1, 4)]
"""Samples of formats that are refused."""

READ = [folder for number in range(4, FORMAT + 1) if (folder := SAMPLES / f"v{number}").exists()]
"""Samples of formats that are read, for ever."""

SESSION = "session.jsonl"
JOURNAL = "journal.db"
LONG = "word " * 14_000


@tool
async def note(text: str) -> str:
    """Note something."""
    return f"noted: {text}"


async def make(folder: Path) -> None:
    """Record a session with a call that was approved, an abort and a long text; and one that is stopped at once."""
    journal = SqliteJournal(folder / JOURNAL)
    script = [say(calls=[call("note", {"text": "é 🙂"})]), say("done"), say("never heard", delay=1.0), say(LONG)]
    async with open_supervisor(journal=journal, seed=1) as supervisor:
        plugins = (HumanApproval(tools=["note"]), BudgetGuard(max_rounds=100))
        spec = SessionSpec(model=ScriptedModel(script), tools=[note], plugins=plugins, system="Be brief.")
        session = await supervisor.spawn(spec, "sample")
        other = await supervisor.spawn(spec, "other")
        (held,) = (await session.ask("go on", command="c1")).held
        await session.approve(held.id, command="c2")
        await session.prompt("and then?")
        await session.abort("enough")
        await session.ask("a long one, please")
        await other.stop()
        await session.stop()
    await export_session(journal, "sample", folder / SESSION)
    await journal.close()


def main() -> None:
    """Make what is missing."""
    newest = SAMPLES / f"v{FORMAT}"
    if not newest.exists():
        newest.mkdir()
        trio.run(make, newest)


if __name__ == "__main__":
    main()

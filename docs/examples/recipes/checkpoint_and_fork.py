"""Checkpoint and fork: each step is in the journal, so a session goes on from any of them, twice if you like.

There is nothing to save: a number of a record is a checkpoint. A fork begins with the past up to it and lives on its
own; the first session knows nothing of it. Both are there after a restart.

    sibling: ['name a drink', 'Tea.', 'now a cold one', 'Iced tea.']
    session: ['name a drink', 'Tea.', 'now a hot one', 'Black tea.']
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import trio

from agentrail import SessionSpec, open_supervisor
from agentrail.journals import SqliteJournal
from agentrail.testing import ScriptedModel


async def main() -> None:
    """Ask twice from the same point."""
    spec = SessionSpec(model=ScriptedModel(["Tea.", "Black tea.", "Iced tea."]))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "drinks.db"
        async with open_supervisor(journal=SqliteJournal(path)) as supervisor:
            session = await supervisor.spawn(spec, id="session")
            await session.ask("name a drink")
            (checkpoint,) = await supervisor.stored()
            await session.ask("now a hot one")
            sibling = await session.fork(at=checkpoint.head, id="sibling")
            await sibling.ask("now a cold one")
        async with open_supervisor(journal=SqliteJournal(path)) as supervisor:
            for name in ("sibling", "session"):
                found = await supervisor.resume(name, spec)
                print(f"{name}: {[message.text for message in found.messages()]}")


trio.run(main)

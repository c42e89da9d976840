"""A stored session of very many records, most of which change nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from agentrail import SessionSpec, open_supervisor
from agentrail.core.vocabulary.inputs import SessionWoke
from agentrail.journals import Record, SqliteJournal
from agentrail.testing import ScriptedModel
from tests.kit import Arrival

NAME: Final = "h.local.you.many"
"""Id of the session in the journal."""

AT_ONCE: Final = 1_000


async def fill(path: Path, count: int) -> None:
    """Store the session with *count* records in the journal at *path*."""
    journal = SqliteJournal(path, sync="normal")
    async with open_supervisor(journal=journal) as supervisor:
        await supervisor.spawn(SessionSpec(model=ScriptedModel([])), NAME, tenant="local", owner="you")
    head = len(await journal.read(NAME))
    claim = await journal.claim(NAME, "test")
    for first in range(head, count, AT_ONCE):
        last = min(first + AT_ONCE, count)
        records = [
            Record(NAME, number, Arrival(SessionWoke(), at=1_800_000_000_000 + number, random=0))
            for number in range(first + 1, last + 1)
        ]
        await journal.append(claim, first, records)
    await journal.close()

"""The embedded journal: one SQLite file, one process that writes it, everything durable when it returns."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from functools import partial
from typing import Final

from agentrail.adapters.journals.sqlite.opening import Connect
from agentrail.adapters.journals.sqlite.ownership import place_of
from agentrail.adapters.journals.sqlite.reading import JournalReader
from agentrail.adapters.journals.sqlite.worker import Worker
from agentrail.adapters.journals.sqlite.writing import Writer
from agentrail.errors import BadChoice
from agentrail.ports.journal import Claim, Record, Snapshot, StoredAnswer, StoredSession, check_numbers
from agentrail.reprs import in_brackets

SYNCHRONOUS: Final = ("FULL", "NORMAL")
"""After each commit the disk is waited for; or it is not, and a power cut takes the last commits with it."""

MOST_TOGETHER: Final = 512
"""Calls that one transaction carries out."""

READ_AT_ONCE: Final = 100
"""Records that are read before others get their turn."""


class SqliteJournal:
    """Keeps records in a file, by default one per user; `AGENTRAIL_HOME` or *path* moves it.

    One process writes it. Another one is refused, or takes over: then the first can write nothing any more.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        synchronous: str = "FULL",
        take_over: bool = False,
        connect: Connect = sqlite3.connect,
    ) -> None:
        if synchronous not in SYNCHRONOUS:
            raise BadChoice.among("synchronous", synchronous, SYNCHRONOUS)
        self.path = place_of(path)
        writer = Writer(self.path, connect, synchronous=synchronous, take_over=take_over)
        self._writing = Worker("agentrail journal writer", writer, MOST_TOGETHER)
        self._reading = Worker("agentrail journal reader", JournalReader(self.path, connect), 1)

    @in_brackets
    def __repr__(self) -> str:
        return f"{str(self.path)!r} {'in use' if self._writing.is_alive or self._reading.is_alive else 'at rest'}"

    async def claim(self, session_id: str, owner: str) -> Claim:
        """Become the only writer of a session."""
        return await self._writing.do(lambda writer: writer.claim(session_id, owner), session_id)

    async def append(self, claim: Claim, expected: int, records: Sequence[Record]) -> int:
        """Write *records* behind record *expected* and return the new head."""
        check_numbers(claim, expected, records)
        return await self._writing.do(lambda writer: writer.append(claim, expected, records), claim.session_id)

    async def read(self, session_id: str, after: int = 0, limit: int = 1000) -> tuple[Record, ...]:
        """Return up to *limit* records behind number *after*."""
        found: list[Record] = []
        while len(found) < limit:
            start, most = after + len(found), min(READ_AT_ONCE, limit - len(found))
            piece = await self._reading.do(
                partial(JournalReader.read, session_id=session_id, after=start, limit=most), session_id
            )
            found.extend(piece)
            if len(piece) < most:
                break
        return tuple(found)

    async def place(self, session_id: str, seq: int) -> int:
        """Return the number of the record behind which the events after durable event *seq* are to be read."""
        return await self._reading.do(lambda reader: reader.place(session_id, seq), session_id)

    async def answer(self, session_id: str, command: str) -> StoredAnswer | None:
        """Return what was answered to a command id, if it is known."""
        return await self._reading.do(lambda reader: reader.answer(session_id, command), session_id)

    async def sessions(self, after: str = "", limit: int = 1000) -> tuple[StoredSession, ...]:
        """Return up to *limit* stored sessions behind the id *after*, in the order of their ids."""
        return await self._reading.do(lambda reader: reader.sessions(after, limit))

    async def keep(self, claim: Claim, snapshot: Snapshot) -> None:
        """Keep a snapshot instead of the one before."""
        await self._writing.do(lambda writer: writer.keep(claim, snapshot), claim.session_id)

    async def snapshot(self, session_id: str) -> Snapshot | None:
        """Return the snapshot of a session, if there is one that can be used."""
        return await self._reading.do(lambda reader: reader.snapshot(session_id), session_id)

    async def close(self) -> None:
        """Give back files and threads, behind what is under way; the next call opens them again."""
        await self._reading.close()
        await self._writing.close()

"""A server that is killed under load: what was acknowledged is there once, and what was removed is gone.

`AGENTRAIL_PROFILE=campaign` kills it `AGENTRAIL_KILLS` times (1,000 if not set), and prints a table with `-s`.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Awaitable, Callable
from random import Random
from typing import TypeVar

import pytest
import trio

from agentrail import State
from agentrail.errors import JournalUnavailable, NothingWritten
from agentrail.journals import Claim, Lease, PostgresJournal, Record, Redaction, Snapshot
from tests.adapters.journals.postgres.server import PostgresServer, folder_of_servers, needs_postgres
from tests.kit import PromptSent, Setup, prompted
from tests.patience import PATIENCE
from tests.profiles import CAMPAIGN

pytestmark = [needs_postgres, pytest.mark.long]

KILLS = int(os.environ.get("AGENTRAIL_KILLS", "1000")) if CAMPAIGN else 3
WRITERS = 16
LONGEST = 0.7
"""The most seconds between the start of the server and its end."""

LEASE = Lease(0, 3_600_000)

T = TypeVar("T")


class Writer:
    """Uses one session with each command of a journal, and knows what must be stored of it."""

    def __init__(self, journal: PostgresJournal, name: str, figures: Counter[str]) -> None:
        self._journal = journal
        self._name = name
        self._chance = Random(name)
        self._figures = figures
        self._texts: list[str] = []
        self._redacted: set[int] = set()
        """Records whose redaction was acknowledged."""
        self._doubtful: set[int] = set()
        """Records whose redaction was begun."""
        self._claim: Claim | None = None
        self._tried = 0

    async def use(self, is_over: trio.Event) -> None:
        """Use the session until it *is_over*."""
        commands = (self._append, self._append, self._append, self._append, self._keep, self._redact, self._renew)
        while not is_over.is_set():
            command = self._delete if self._chance.random() < 0.01 else self._chance.choice(commands)
            try:
                await command()
            except NothingWritten:
                await trio.sleep(0.02)
            except JournalUnavailable:
                self._figures["in doubt"] += 1
                await self.check()
            else:
                self._figures[command.__name__[1:]] += 1

    async def _claimed(self) -> Claim:
        if self._claim is None:
            self._claim = await self._journal.claim(self._name, self._name, LEASE)
            assert self._claim.head == len(self._texts)
        return self._claim

    async def _append(self) -> None:
        claim = await self._claimed()
        first, records = len(self._texts) + 1, list[Record]()
        for number in range(first, first + self._chance.choice((1, 1, 3))):
            self._tried += 1
            records.append(prompted(self._name, number, f"{self._name}, text {self._tried} of this session"))
        texts = [text_of(record) for record in records]
        try:
            await self._journal.append(claim, first - 1, records)
        except NothingWritten:
            raise
        except JournalUnavailable:
            found = await persistently(lambda: self._journal.read(self._name, first - 1))
            assert [text_of(record) for record in found] in ([], texts)
            self._texts += texts if found else []
            raise
        self._texts += texts

    async def _keep(self) -> None:
        if self._texts:
            state = State(self._name, Setup(), "demo")
            await self._journal.keep(await self._claimed(), Snapshot(self._name, len(self._texts), state))

    async def _redact(self) -> None:
        if self._texts:
            self._claim = None  # a redaction ends it
            number = self._chance.randint(1, len(self._texts))
            self._doubtful.add(number)
            await self._journal.redact(self._name, number, number, Redaction(1, "test"), self._name)
            self._redacted.add(number)

    async def _renew(self) -> None:
        assert await self._journal.renew([await self._claimed()], LEASE) == ()

    async def _delete(self) -> None:
        self._claim = None
        try:
            await self._journal.delete(self._name, self._name, 1)
        except NothingWritten:
            raise
        except JournalUnavailable:
            if await persistently(lambda: self._journal.read(self._name)):
                raise
        assert await persistently(lambda: self._journal.read(self._name)) == ()
        self._texts, self._redacted, self._doubtful = [], set(), set()

    async def check(self) -> None:
        """Check that each record is stored once, and redacted if that was acknowledged."""
        found = await persistently(lambda: self._journal.read(self._name, 0, 100_000))
        assert [record.number for record in found] == list(range(1, len(self._texts) + 1))
        for record, text in zip(found, self._texts, strict=True):
            if record.redacted is None:
                assert (text_of(record), record.number in self._redacted) == (text, False)
            else:
                assert (record.number in self._doubtful, text in text_of(record)) == (True, False)


def text_of(record: Record) -> str:
    """Return the text of a record's prompt."""
    assert isinstance(record.arrival.input, PromptSent)
    (part,) = record.arrival.input.parts
    return str(getattr(part, "text", part))


async def persistently(read: Callable[[], Awaitable[T]]) -> T:
    """Return what *read* returns, once the server answers."""
    while True:
        try:
            return await read()
        except JournalUnavailable:
            await trio.sleep(0.02)


async def test_what_was_acknowledged_outlives_a_server_that_is_killed_under_load() -> None:
    figures, chance = Counter[str](), Random(1)
    with folder_of_servers() as folder:
        server = PostgresServer(folder)
        await trio.to_thread.run_sync(server.make)
        await trio.to_thread.run_sync(server.start)
        journal = PostgresJournal(server.url)
        writers = [Writer(journal, f"s{number}", figures) for number in range(WRITERS)]
        is_over = trio.Event()
        try:
            async with trio.open_nursery() as nursery:
                for writer in writers:
                    nursery.start_soon(writer.use, is_over)
                for _ in range(KILLS):
                    await trio.sleep(chance.uniform(0, LONGEST))
                    await trio.to_thread.run_sync(server.kill)
                    await trio.to_thread.run_sync(server.start)
                    before = figures["append"]
                    with trio.fail_after(PATIENCE):
                        while figures["append"] <= before:  # noqa: ASYNC110 - nobody sets an event for it
                            await trio.sleep(0.01)
                is_over.set()
            for writer in writers:
                await writer.check()
            await journal.close()
        finally:
            if server.process is not None:
                await trio.to_thread.run_sync(server.kill)
    print(f"\n{KILLS} kills: {dict(figures)}")  # noqa: T201
    assert figures["in doubt"] or KILLS < 10  # of ten, one falls into a commit

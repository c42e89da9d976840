"""One of several processes that write one file: `python -m tests.adapters.journals.sql.one_of_several PATH NAME SEED`.

It claims sessions that the others claim too, and appends to them until it is told to end, or killed. Its clock is
right, or a minute wrong, by its seed. Each acknowledged append is a line on standard output: session, number and text
of the record. At the end it says how many were refused.
"""

import random
import sys
import time
from pathlib import Path

import trio

from agentrail.adapters.journals.sql.sql_journal import SqlJournal
from agentrail.adapters.journals.sql.sqlite_dialect import SqliteDialect
from agentrail.errors import Fenced, SessionHeld
from agentrail.journals import Lease
from tests.kit import prompted

SESSIONS = tuple(f"shared-{number}" for number in range(4))
LEASE_MS = 10**15
SHORT_MS = 50

CLOCKS_MS = (0, 60_000, -60_000)
"""How wrong the clocks of three processes are."""


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


class Process:
    """The work of one process."""

    def __init__(self, path: Path, name: str, seed: int) -> None:
        self._journal = SqlJournal(SqliteDialect(path))
        self._name = name
        self._seed = seed
        self._chance = random.Random(seed)
        self._clock_ms = CLOCKS_MS[seed % len(CLOCKS_MS)]
        self._refused = 0
        self._count = 0

    async def write_own(self) -> None:
        """Append to a session that nobody else claims."""
        claim = await self._journal.claim(self._name, self._name, Lease(0, LEASE_MS))
        head = claim.head
        while True:
            text = f"own-{self._name}-{head + 1}"
            head = await self._journal.append(claim, head, (prompted(self._name, head + 1, text),))
            say(self._name, head, text)

    async def write_shared(self) -> None:
        """Claim sessions of others too, with and without their leave, and append some records."""
        while True:
            session_id = self._chance.choice(SESSIONS)
            try:
                lease = Lease(int(time.time() * 1000) + self._clock_ms, SHORT_MS)
                claim = await self._journal.claim(session_id, self._name, lease, take_over=self._chance.random() < 0.5)
                head = claim.head
                for _ in range(self._chance.randrange(4)):
                    self._count += 1
                    text = f"{self._name}-{self._seed}-{self._count}"
                    head = await self._journal.append(claim, head, (prompted(session_id, head + 1, text),))
                    say(session_id, head, text)
                    await trio.sleep(self._chance.random() * 0.004)
            except (Fenced, SessionHeld):
                self._refused += 1

    async def run(self) -> None:
        """Write until standard input ends."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.write_own)
            nursery.start_soon(self.write_shared)
            await trio.to_thread.run_sync(sys.stdin.read)
            nursery.cancel_scope.cancel()
        await self._journal.close()
        say("refused", self._refused)


if __name__ == "__main__":
    trio.run(Process(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])).run)

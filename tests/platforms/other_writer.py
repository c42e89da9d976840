"""Tries to take a session that another process holds, and prints what it is told: `other_writer JOURNAL`."""

import sys

import trio

from agentrail.errors import SessionHeld
from agentrail.journals import Lease, SqliteJournal


async def main() -> None:
    journal = SqliteJournal(sys.argv[1])
    try:
        await journal.claim("s", "other", Lease(0, 1000))
    except SessionHeld as refused:
        sys.stdout.write(f"{refused}\n")
    await journal.close()


trio.run(main)

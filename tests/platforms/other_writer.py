"""Tries to write a journal that another process writes, and prints what it is told: `other_writer JOURNAL not|over`."""

import sys

import trio

from agentrail.errors import JournalInUse
from agentrail.journals import SqliteJournal


async def main() -> None:
    _, path, how = sys.argv
    journal = SqliteJournal(path, take_over=how == "over")
    try:
        await journal.claim("s", "other")
    except JournalInUse as refused:
        sys.stdout.write(f"{refused}\n")
    await journal.close()


trio.run(main)

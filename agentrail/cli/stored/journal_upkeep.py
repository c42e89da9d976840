"""`agentrail journal restored` and `vacuum`: what the operator of a journal in PostgreSQL does to it."""

from __future__ import annotations

import sys
from typing import Final

import trio

from agentrail.adapters.journals.journal_addresses import address_named
from agentrail.adapters.journals.postgres.postgres_journal import PostgresJournal
from agentrail.cli.output.bad_input import BadInputError
from agentrail.cli.output.exit_status import DONE, FAILED, tell
from agentrail.cli.output.progress_bar import ProgressBar
from agentrail.cli.output.screen import clean, counted, one_line
from agentrail.cli.stored.stored_sessions import PAGE
from agentrail.errors import AgentrailError
from agentrail.ports.journal import StoredSession

NOT_FLUSHED: Final = (
    "the user may not run `checkpoint`: the files have the old pages until the server's next checkpoint, "
    "some minutes from now"
)


def restored_journal(url: str) -> int:
    """Look after the journal at *url* after a restore, and return the exit status."""
    return trio.run(_restored, url)


async def _restored(name: str) -> int:
    """Let no claim from before a restore count at the server *name*, check all records, and return the exit status."""
    from agentrail.adapters.journals.postgres import server_upkeep  # noqa: PLC0415 - needs the extra

    journal = _server(name)
    try:
        sessions = await trio.to_thread.run_sync(server_upkeep.raise_epochs, name)
        tell(f"no claim from before counts at {journal.url}: whoever still runs one of its sessions stops")
        records, damaged = await _check(journal, sessions)
    finally:
        await journal.close()  # noqa: ASYNC102 - nothing cancels a command: Ctrl-C raises `KeyboardInterrupt`
    tell(f"{counted(sessions, 'session')} with {counted(records, 'record')} were read, {damaged:,} of them damaged")
    return FAILED if damaged else DONE


async def _check(journal: PostgresJournal, sessions: int) -> tuple[int, int]:
    """Read all records, and print a line for each session that is damaged; return how many each there are."""
    bar, records, damaged, checked = ProgressBar(sys.stderr), 0, 0, 0
    last: StoredSession | None = None
    while page := await journal.sessions(after=last, limit=PAGE):
        last = page[-1]
        for stored in page:
            count, problem = await _records_of(journal, stored)
            records += count
            checked += 1
            if problem:
                damaged += 1
                bar.wipe()
                print(f"{one_line(clean(stored.session_id))}: {one_line(clean(problem))}", flush=True)
            bar.show(checked / max(sessions, 1), "check", f": {checked:,} of {counted(sessions, 'session')}")
    bar.wipe()
    return records, damaged


async def _records_of(journal: PostgresJournal, stored: StoredSession) -> tuple[int, str]:
    """Return how many records of a session can be read, and why the next one cannot; empty if that is all."""
    number = 0
    try:
        while page := await journal.read(stored.session_id, number, PAGE):
            number = page[-1].number
    except AgentrailError as error:
        return number, str(error)
    return number, "" if number >= stored.head else f"records {number + 1} to {stored.head} are missing"


def vacuum_journal(url: str) -> int:
    """Write the tables of the journal at *url* anew, and return the exit status."""
    return trio.run(_vacuum, url)


async def _vacuum(name: str) -> int:
    """Write the tables at the server *name* anew, and return the exit status."""
    from agentrail.adapters.journals.postgres import server_upkeep  # noqa: PLC0415 - needs the extra
    from agentrail.adapters.journals.postgres.server_tables import TABLES  # noqa: PLC0415 - only here

    journal, bar, freed = _server(name), ProgressBar(sys.stderr), 0
    for number, table in enumerate(TABLES):
        bar.show(number / len(TABLES), f"write `{table}` anew")
        old_bytes, new_bytes = await trio.to_thread.run_sync(server_upkeep.rewrite_table, name, table)
        freed += old_bytes - new_bytes
    bar.wipe()
    if not await trio.to_thread.run_sync(server_upkeep.flush_pages, name):
        tell(NOT_FLUSHED)
    tell(f"the tables at {journal.url} are written anew, {freed / 1e6:,.1f} MB smaller")
    tell("deleted texts may still be in its write-ahead log, replicas and backups")
    return DONE


def _server(name: str) -> PostgresJournal:
    """Return the journal at the server *name*; raise `BadInputError` if that is a file."""
    if not isinstance(address_named(name), str):
        raise BadInputError(f"{name} is no URL of a server: give one such as postgresql://host/agentrail")
    return PostgresJournal(name)

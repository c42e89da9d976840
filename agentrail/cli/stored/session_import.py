"""`import_file`: writes the session of an export file to a journal, where it rests until a person brings it back.

`withdraw_allowed` is for each session that comes into a journal: it is asked about, whatever was allowed before.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

import trio

from agentrail.adapters.journals.archive import read_archive, store_session
from agentrail.adapters.journals.archive_writer import ArchiveWriter
from agentrail.adapters.journals.journal_addresses import JournalAddress, PlacedJournal
from agentrail.adapters.journals.sql.sqlite_journal import SqliteJournal
from agentrail.cli.agents.agent_seal import AgentSeal
from agentrail.cli.agents.agent_source import AgentSource
from agentrail.cli.agents.begun_agents import is_begun, source_in, withdraw_session
from agentrail.cli.output.bad_input import BadInputError
from agentrail.cli.session_names import name_in_chat, resume_command
from agentrail.cli.stored.steps_without_code import paused
from agentrail.ports.journal import Record, opening_of
from agentrail.runtime.shared.clock import Clock

BEGUN_ABOVE: Final = "it is a sub-agent of a session that you have begun there, and is not put under it"
LEFT_OUT: Final = "the file is left out, and the agent of the command line stands in its place"


async def import_file(
    journal: PlacedJournal, path: str | os.PathLike[str], address: JournalAddress | None
) -> Sequence[str]:
    """Import the session in the file *path*, paused; return the lines that a person is told about it.

    *address* names *journal* in the command line that they tell.
    """
    session_id, records = await read_archive(path)
    setup = opening_of(records[0]).setup
    if setup.path and isinstance(journal, SqliteJournal) and await is_begun(journal, records[0]):
        raise BadInputError(f"{path}: {BEGUN_ABOVE}")
    source, stored = AgentSource.read(setup.spec), paused(records, Clock().now_ms())
    await withdraw_allowed(journal, stored[0])
    await store_session(journal, session_id, stored)
    result = f"{session_id} is in the journal, and rests"
    if source is None:
        return [result]
    left_out = f"; {LEFT_OUT}" if source.file else ""
    to_do = f"{resume_command(session_id, address)} shows it, and asks"
    return [result, f"its agent was: {source.description}{left_out}", to_do]


async def withdraw_allowed(target: PlacedJournal | ArchiveWriter, first: Record) -> None:
    """Have the session of the record *first* asked about in *target*: one of its name may have been allowed before."""
    source = source_in(first)
    if source is not None and isinstance(target, SqliteJournal):
        seal = AgentSeal(target.path)
        await trio.to_thread.run_sync(withdraw_session, seal, source, name_in_chat(first.session_id))

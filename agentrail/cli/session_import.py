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
from agentrail.adapters.journals.journal_places import JournalPlace, PlacedJournal
from agentrail.adapters.journals.sql.sqlite_journal import SqliteJournal
from agentrail.cli.agent_seal import AgentSeal
from agentrail.cli.agent_source import AgentSource
from agentrail.cli.begun_agents import withdraw_session
from agentrail.cli.session_names import name_in_chat, resume_command
from agentrail.cli.steps_without_code import paused
from agentrail.ports.journal import Record, opening_of
from agentrail.runtime.shared.clock import Clock

LEFT_OUT: Final = "the file is left out, and the agent of the command line stands in its place"


async def import_file(
    journal: PlacedJournal, path: str | os.PathLike[str], place: JournalPlace | None
) -> Sequence[str]:
    """Import the session in the file *path*, paused; return the lines that a person is told about it.

    *place* names *journal* in the command line that they tell.
    """
    session_id, records = await read_archive(path)
    source = AgentSource.read(opening_of(records[0]).setup.spec)
    stored = paused(records, Clock().now_ms())
    await withdraw_allowed(journal, stored[0])
    await store_session(journal, session_id, stored)
    result = f"{session_id} is in the journal, and rests"
    if source is None:
        return [result]
    left_out = f"; {LEFT_OUT}" if source.file else ""
    to_do = f"{resume_command(session_id, place)} shows it, and asks"
    return [result, f"its agent was: {source.description}{left_out}", to_do]


async def withdraw_allowed(target: PlacedJournal | ArchiveWriter, first: Record) -> None:
    """Have the session of the record *first* asked about in *target*: one of its name may have been allowed before."""
    source = _source_of(first)
    if source is not None and isinstance(target, SqliteJournal):
        seal = AgentSeal(target.path)
        await trio.to_thread.run_sync(withdraw_session, seal, source, name_in_chat(first.session_id))


def is_begun(target: PlacedJournal | ArchiveWriter, first: Record) -> bool:
    """Whether this user has begun the session of the record *first* in *target*, so that it comes back unasked."""
    source = _source_of(first)
    return source is not None and isinstance(target, SqliteJournal) and AgentSeal(target.path).fits(source)


def _source_of(first: Record) -> AgentSource | None:
    """Return what the agent of a session is made of; `None` if it is none of `agentrail chat`, or not told."""
    return None if first.opening is None else AgentSource.read(first.opening.setup.spec)

"""`import_file`: writes the session of an export file to a journal, where it rests until a person brings it back."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

from agentrail.adapters.journals.archive import read_archive, store_session
from agentrail.cli.agent_source import AgentSource
from agentrail.cli.session_names import name_in_chat
from agentrail.cli.steps_without_code import paused
from agentrail.ports.journal import Journal, opening_of
from agentrail.runtime.shared.clock import Clock

LEFT_OUT: Final = "the file is left out, and the agent of the command line stands in its place"


async def import_file(journal: Journal, path: str | os.PathLike[str]) -> Sequence[str]:
    """Import the session in the file *path*, paused; return the lines that a person is told about it."""
    session_id, records = await read_archive(path)
    source = AgentSource.read(opening_of(records[0]).setup.spec)
    await store_session(journal, session_id, paused(records, Clock().now_ms()))
    told = f"{session_id} is in the journal, and rests"
    if source is None:
        return [told]
    left_out = f"; {LEFT_OUT}" if source.file else ""
    asks = f"`agentrail chat --resume {name_in_chat(session_id)}` shows it, and asks"
    return [told, f"its agent was: {source.described}{left_out}", asks]

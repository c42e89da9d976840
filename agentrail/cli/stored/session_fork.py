"""`fork_session`: begins a copy of a session of `chat`, by whoever serves its journal, else from its records alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from agentrail.adapters.journals.archive import store_session
from agentrail.adapters.journals.journal_addresses import PlacedJournal
from agentrail.adapters.journals.sql.sqlite_journal import SqliteJournal
from agentrail.cli.agents.agent_source import AgentSource
from agentrail.cli.host.shared_host import is_served, open_served
from agentrail.cli.output.bad_input import BadInputError
from agentrail.cli.session_names import OWN, STORED, name_in_chat, new_name
from agentrail.cli.stored.steps_without_code import branched
from agentrail.cli.stored.stored_sessions import state_after
from agentrail.errors import UnknownRecord
from agentrail.ports.journal import Record
from agentrail.runtime.shared.clock import Clock
from agentrail.runtime.supervision.restore import left_behind

ELSEWHERE: Final = "`supervisor.fork` forks it there, and `copy` takes it elsewhere"


async def fork_session(journal: PlacedJournal, records: Sequence[Record], head: int | None) -> str:
    """Fork the session of *records* at record *head* (`None`: its end), and return the name of the fork.

    If a process serves the journal, it makes the fork. Otherwise no code of its agent is imported or run.
    """
    name, origin = new_name(), records[0].session_id
    if isinstance(journal, SqliteJournal) and await is_served(journal.path):
        async with open_served(journal.path) as host:
            return (await host.fork(name_in_chat(origin), at=head, id=name)).id.removeprefix(OWN)
    number = len(records) if head is None else head
    if number > len(records):
        raise UnknownRecord(origin, number)
    state = state_after(records[:number])
    if AgentSource.read(state.setup.spec) is None:
        raise BadInputError(f"`{origin}` has the agent of another program; {ELSEWHERE}")
    left_subagents = await left_behind(journal, origin, number, state)
    await store_session(
        journal, STORED + name, [branched(state, number, left_subagents, STORED + name, Clock().now_ms())]
    )
    return name

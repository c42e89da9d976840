"""`fork_session`: begins a copy of a session of `chat`, by whoever serves its journal, else by itself."""

from __future__ import annotations

import trio

from agentrail.adapters.journals.journal_places import PlacedJournal
from agentrail.adapters.journals.sqlite.journal import SqliteJournal
from agentrail.app.spec import SessionSpec
from agentrail.app.supervisor import open_supervisor
from agentrail.cli.agent_source import AgentSource
from agentrail.cli.bad_input import BadInputError
from agentrail.cli.session_names import OWN, STORED, name_in_chat, new_name
from agentrail.cli.shared_host import is_served, open_served
from agentrail.core.vocabulary.state import State


async def fork_session(journal: PlacedJournal, origin: State, at: int | None) -> str:
    """Fork *origin* at record *at* (`None`: its end), by the serving process if there is one; return the new name."""
    name = new_name()
    if isinstance(journal, SqliteJournal) and await is_served(journal.path):
        async with open_served(journal.path) as host:
            return (await host.fork(name_in_chat(origin.session_id), at=at, id=name)).id.removeprefix(OWN)
    spec = await trio.to_thread.run_sync(_spec_of, origin)
    # Without `specs`, the supervisor resumes no other session of the journal.
    async with open_supervisor(journal=journal) as supervisor:
        await supervisor.fork(origin.session_id, spec, at=at, id=STORED + name)
    return name


def _spec_of(origin: State) -> SessionSpec:
    """Return a new spec of the session's agent; raise `BadInputError` if another program made the session."""
    source = AgentSource.read(origin.setup.spec)
    spec = None if source is None else source.profile().spec
    if source is None or not isinstance(spec, SessionSpec):
        problem = f"`{origin.session_id}` has the agent of another program"
        raise BadInputError(f"{problem}; `supervisor.fork` forks it there, and `copy` takes it elsewhere")
    return spec.but(name=source.id)

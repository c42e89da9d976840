"""The sessions of a journal, as commands name and read them that only look."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Final

from agentrail.adapters.journals.journal_addresses import JournalAddress, PlacedJournal, shown_address
from agentrail.adapters.journals.sql.sqlite_journal import SqliteJournal
from agentrail.cli.journal_file import open_journal
from agentrail.cli.output.bad_input import BadInputError
from agentrail.cli.output.exit_status import tell
from agentrail.cli.session_names import id_of_chat
from agentrail.core.vocabulary.state import State
from agentrail.errors import BadRecord, SessionNotStored
from agentrail.errors.agentrail_error import suggestion
from agentrail.host.authentication.authenticators import LOCAL
from agentrail.ports.journal import Journal, Record, SessionFilter, StoredSession, folded, opening_of
from agentrail.runtime.actor.journal_log import rebuild_state
from agentrail.values.events.life import AgentAbort, AgentEnd

PAGE: Final = 500
"""Sessions, or records, that are read at once."""

MOST_COMPARED: Final = 1_000
"""With how many ids a name is compared that is none: each takes some 50 microseconds."""


@asynccontextmanager
async def existing_journal(address: JournalAddress | None) -> AsyncGenerator[PlacedJournal, None]:
    """Open the journal at *address*, by default the user's file; raise `BadInputError` if there is no such file."""
    async with open_journal(address) as journal:
        if isinstance(journal, SqliteJournal) and not journal.path.exists():
            message = f"there is no journal at {journal.path}; `--journal FILE` names another"
            raise BadInputError(message)
        yield journal


async def stored_id(journal: Journal, name: str) -> str:
    """Return the id of the session *name*, which may be an id or the shorter name that `chat` shows."""
    session_id = id_of_chat(name)
    is_short = await journal.summary(session_id) is not None and await journal.summary(name) is None
    return session_id if is_short else name


async def stored_sessions(journal: Journal, filter_: SessionFilter) -> list[StoredSession]:
    """Return the sessions of the journal that *filter_* selects."""
    sessions: list[StoredSession] = []
    while page := await journal.sessions(filter_, sessions[-1] if sessions else None, PAGE):
        sessions.extend(page)
    return sessions


async def last_chats(journal: Journal, label: str) -> list[StoredSession]:
    """Return the sessions of `chat` that have *label* and have not ended, the last used first."""
    filter_ = SessionFilter(tenant=LOCAL.tenant, owner=LOCAL.user, label=label, ended=False)
    return sorted(await stored_sessions(journal, filter_), key=lambda stored: stored.active, reverse=True)


async def waiting_ids(journal: Journal, sessions: Iterable[StoredSession]) -> frozenset[str]:
    """Return the ids of those of *sessions* that wait for a person: a call may be held without a time limit.

    No summary says so. The last record of most sessions ends a turn, which is enough; only the states of the others
    are rebuilt.
    """
    return frozenset([stored.session_id for stored in sessions if await _waits(journal, stored)])


async def _waits(journal: Journal, stored: StoredSession) -> bool:
    if stored.problem or stored.ended or stored.at_work:
        return False
    try:
        for record in await journal.read(stored.session_id, stored.head - 1, 1):
            if any(isinstance(envelope.event, AgentEnd | AgentAbort) for envelope in record.events):
                return False
        return (await rebuild_state(journal, stored.session_id)).state.waits
    except BadRecord:
        return False  # what is damaged is told where it is read


async def stored_records(journal: Journal, session_id: str) -> list[Record]:
    """Return all records of a session; raise `SessionNotStored` if there are none."""
    records: list[Record] = []
    while page := await journal.read(session_id, len(records), PAGE):
        records.extend(page)
    if not records:
        raise SessionNotStored(session_id)
    return records


def state_after(records: Sequence[Record]) -> State:
    """Return the state of a session after *records*, which begin with its first one."""
    state = opening_of(records[0])
    for record in records:
        state = folded(state, record)
    return state


async def read_session(address: JournalAddress | None, name: str) -> list[Record] | None:
    """Return all records of the session *name* of the journal at *address*, by default the user's.

    If there is no such session, say so on standard error, and return `None`.
    """
    async with existing_journal(address) as journal:
        try:
            return await stored_records(journal, await stored_id(journal, name))
        except SessionNotStored as missing:
            tell(f"agentrail: {await no_such_session(journal, missing)}")
            return None


async def no_such_session(journal: PlacedJournal, missing: SessionNotStored) -> str:
    """Return the error about a session that is not stored: it names the most similar one of those used last."""
    name = str(missing.args[0])
    ids = [stored.session_id for stored in await journal.last_used(MOST_COMPARED)]
    advised = suggestion(name, ids) or "; `agentrail sessions` lists those there are"
    return f"there is no session `{name}` in {shown_address(journal)}{advised}"

"""`BegunAgents`: the agents of one journal's sessions, of those alone that this user has begun or allowed.

It stands where an agent is made from the name that is stored with a session. So it holds for each way in which one
begins or comes back: in a terminal, for a run, in an editor, on the page, by a fork, by itself when it is due, and in
another process that takes the sessions over.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

import trio

from agentrail.adapters.journals.sql.sqlite_journal import SqliteJournal
from agentrail.cli.agents.agent_seal import AgentSeal
from agentrail.cli.agents.agent_source import AgentSource
from agentrail.cli.folder.surface import Surface
from agentrail.cli.session_names import OWN, journal_option
from agentrail.cli.trust.trust_store import allow, unallowed, withdraw
from agentrail.errors import RefusedError
from agentrail.host.plugins.plugin_values import RequestContext
from agentrail.host.profiles import Profile
from agentrail.ports.journal import Record, StoredSession
from agentrail.values.json import canonical

AgentMaker = Callable[[RequestContext], Awaitable[Profile | None]]
"""Makes the agent whose name is in a context; returns `None` for the agent of another program."""


class BegunAgents:
    """Has agents made that this user has begun in a journal, and those of sessions that the user has allowed."""

    def __init__(self, journal: Path | None, make: AgentMaker) -> None:
        self._seal = AgentSeal(journal)
        self._make = make

    async def find(self, context: RequestContext) -> Profile | None:
        """Return the agent of a session for the host; raise `RefusedError` before any code of it runs."""
        source = AgentSource.read(context.agent_id)
        if source is not None:
            await trio.to_thread.run_sync(check_allowed, self._seal, source, context.session_id)
        return await self._make(context)


def check_allowed(seal: AgentSeal, source: AgentSource, session_id: str) -> None:
    """Raise `RefusedError` unless this user has begun *source*, or has allowed the session in the seal's journal."""
    if not is_known(seal, source, session_id):
        name = session_id.removeprefix(OWN)
        raise RefusedError("agent-not-allowed", name, source.description, f"{name}{journal_option(seal.journal)}")


def is_known(seal: AgentSeal, source: AgentSource, session_id: str) -> bool:
    """Whether this user has begun *source* in the seal's journal, or has allowed the session."""
    return seal.fits(source) or is_allowed(seal, source, session_id)


def first_known(seal: AgentSeal, sessions: Iterable[StoredSession]) -> StoredSession | None:
    """Return the first of *sessions* that this user has begun or allowed; `None` if all came from somebody else."""
    for stored in sessions:
        source = AgentSource.read(stored.about.spec)
        if source is not None and is_known(seal, source, stored.session_id):
            return stored
    return None


async def is_begun(journal: SqliteJournal, first: Record) -> bool:
    """Whether this user has begun the session of the record *first* in *journal*, or the one whose sub-agent it is."""
    path = () if first.opening is None else first.opening.setup.path
    for root in await journal.read(path[0], 0, 1) if path else (first,):
        source = source_in(root)
        if source is not None:
            return await trio.to_thread.run_sync(AgentSeal(journal.path).fits, source)
    return False


def source_in(first: Record) -> AgentSource | None:
    """Return what the agent of a session is made of; `None` if it is none of `agentrail chat`, or not told."""
    return None if first.opening is None else AgentSource.read(first.opening.setup.spec)


def is_allowed(seal: AgentSeal, source: AgentSource, session_id: str) -> bool:
    """Whether the user has allowed the session, with exactly this agent, in the seal's journal."""
    return not unallowed(Path(source.folder), [_surface(seal, source, session_id)])


def allow_session(seal: AgentSeal, source: AgentSource, session_id: str) -> None:
    """Store that the user has allowed the session to come back with *source*."""
    allow(Path(source.folder), [_surface(seal, source, session_id)])


def withdraw_session(seal: AgentSeal, source: AgentSource, session_id: str) -> None:
    """Store that the session is not allowed any more: another one that comes under its name is asked about again.

    It may have been allowed without the seal that another journal gave it.
    """
    withdraw(Path(source.folder), [_surface(seal, form, session_id) for form in (source, source.but(seal=""))])


def _surface(seal: AgentSeal, source: AgentSource, session_id: str) -> Surface:
    """Return the session as what a user allows, stored with the settings of its folder, and forgotten with them."""
    name = session_id.removeprefix(OWN)
    return Surface(f"session.{name}", canonical([os.fsencode(seal.journal).hex(), name, source.id]))

"""`ask_about_session`, `ask_about_last`: ask at the terminal before a session comes back that somebody else has begun.

What is shown is what its records say, and not what its agent promises alone: they may have more rights than that.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Final

import trio

from agentrail.adapters.journals.sql.sqlite_journal import SqliteJournal
from agentrail.cli.agent_seal import AgentSeal
from agentrail.cli.agent_source import AgentSource
from agentrail.cli.bad_input import BadInputError
from agentrail.cli.begun_agents import allow_session, is_allowed
from agentrail.cli.screen import escaped
from agentrail.cli.session_facts import facts_of
from agentrail.cli.session_names import id_of_chat, name_in_chat
from agentrail.cli.stored_sessions import last_chats, state_after, stored_records
from agentrail.cli.surface import Surface
from agentrail.cli.trust_question import says_yes
from agentrail.cli.trust_store import described
from agentrail.core.vocabulary.state import State
from agentrail.errors import SessionNotStored

TOO_MUCH: Final = (
    "It is too much to be shown, so you are not asked: `agentrail sessions export` writes it to a file, "
    "and `import` has it rest in another journal, with less to look at."
)


def ask_about_session(journal: Path | None, name: str) -> None:
    """At a terminal, show the session *name* and ask about it if this user has not begun its agent; store a yes.

    Raise `BadInputError` if the answer is no. No-op without a terminal: whoever serves the session refuses it.
    """
    _ask(journal, partial(_state_named, name=name))


def ask_about_last(journal: Path | None, label: str) -> None:
    """Do the same for the last used session with *label*; no-op if there is none."""
    _ask(journal, partial(_state_of_last, label=label))


def _ask(journal: Path | None, find: Callable[[SqliteJournal], Awaitable[State | None]]) -> None:
    seal = AgentSeal(journal)
    if not sys.stdin.isatty() or not seal.journal.exists():
        return
    state = trio.run(_state_in, seal.journal, find)
    source = None if state is None else AgentSource.read(state.setup.spec)
    if state is None or source is None or seal.fits(source):
        return
    session = name_in_chat(state.session_id)
    if is_allowed(seal, source, session):
        return
    print(f"You have not begun the session {escaped(session)} in this journal. It has:")
    facts = [Surface(key, text) for key, text in facts_of(state, source)]
    print(described(facts))
    if not says_yes(facts, TOO_MUCH):
        raise BadInputError(f"the session {escaped(session)} is not brought back, as it was not allowed")
    allow_session(seal, source, session)


async def _state_in(path: Path, find: Callable[[SqliteJournal], Awaitable[State | None]]) -> State | None:
    """Return what *find* returns for the journal at *path*."""
    journal = SqliteJournal(path)
    try:
        return await find(journal)
    finally:
        await journal.close()  # noqa: ASYNC102 - nothing cancels it: Ctrl-C raises `KeyboardInterrupt`


async def _state_named(journal: SqliteJournal, name: str) -> State | None:
    """Return the state of the session *name*; `None` if the journal has no such session."""
    try:
        return state_after(await stored_records(journal, id_of_chat(name_in_chat(name))))
    except SessionNotStored:
        return None


async def _state_of_last(journal: SqliteJournal, label: str) -> State | None:
    """Return the state of the session of `chat` that was used last and has *label*; `None` if there is none."""
    sessions = await last_chats(journal, label)
    return await _state_named(journal, sessions[0].session_id) if sessions else None

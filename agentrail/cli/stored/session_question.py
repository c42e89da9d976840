"""`ask_about_session`: asks at the terminal before a session comes back that somebody else has begun.

What is shown is what its records say, and not what its agent promises alone: they may have more rights than that. Its
sub-agents come back with it, so each one that has not ended is shown too.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Final

import trio

from agentrail.adapters.journals.sql.sqlite_journal import SqliteJournal
from agentrail.cli.agents.agent_seal import AgentSeal
from agentrail.cli.agents.agent_source import AgentSource
from agentrail.cli.agents.begun_agents import allow_session, is_allowed
from agentrail.cli.folder.surface import Surface
from agentrail.cli.output.bad_input import BadInputError
from agentrail.cli.output.screen import escaped
from agentrail.cli.session_names import id_of_chat, name_in_chat
from agentrail.cli.stored.session_facts import facts_of, facts_of_subagent
from agentrail.cli.stored.stored_sessions import state_after, stored_records
from agentrail.cli.trust.trust_question import says_yes
from agentrail.cli.trust.trust_store import described
from agentrail.core.vocabulary.state import Phase, State
from agentrail.errors import SessionNotStored
from agentrail.ports.journal import opening_of
from agentrail.runtime.supervision.subagents.subagents import DIGEST_CHARS
from agentrail.values.session_ids import MAX_ID

TOO_MUCH: Final = (
    "It is too much to be shown, so you are not asked: `agentrail sessions export` writes it to a file, "
    "and `import` has it rest in another journal, with less to look at."
)


def ask_about_session(journal: Path | None, name: str) -> None:
    """At a terminal, show the session *name* and ask about it if this user has not begun its agent; store a yes.

    Raise `BadInputError` if the answer is no. No-op without a terminal: whoever serves the session refuses it.
    """
    seal = AgentSeal(journal)
    if not sys.stdin.isatty() or not seal.journal.exists():
        return
    states = trio.run(_states_in, seal.journal, name)
    if not states:
        return
    state, *subagents = states
    source = AgentSource.read(state.setup.spec)
    if source is None or seal.fits(source):
        return
    session = name_in_chat(state.session_id)
    if is_allowed(seal, source, session):
        return
    print(f"You have not begun the session {escaped(session)} in this journal. It has:")
    pairs = chain(facts_of(state, source), *(facts_of_subagent(subagent, source) for subagent in subagents))
    facts = [Surface(key, text) for key, text in pairs]
    print(described(facts))
    if not says_yes(facts, TOO_MUCH):
        raise BadInputError(f"the session {escaped(session)} is not brought back, as it was not allowed")
    allow_session(seal, source, session)


async def _states_in(path: Path, name: str) -> Sequence[State]:
    """Return the states of the session *name* of the journal at *path*, and of its sub-agents."""
    journal = SqliteJournal(path)
    try:
        return await _states_named(journal, name)
    finally:
        await journal.close()  # noqa: ASYNC102 - nothing cancels it: Ctrl-C raises `KeyboardInterrupt`


async def _states_named(journal: SqliteJournal, name: str) -> Sequence[State]:
    """Return the states of the session *name* and of its sub-agents; none if the journal has no such session."""
    session_id = id_of_chat(name_in_chat(name))
    try:
        state = state_after(await stored_records(journal, session_id))
    except SessionNotStored:
        return ()
    return state, *await _living_subagents(journal, state)


async def _living_subagents(journal: SqliteJournal, top: State) -> Sequence[State]:
    """Return the states of the sub-agents of the session *top*, at any depth, that have not ended.

    They are those that a state names, and those that have the id of one: a call that is still to come takes up the
    sub-agent that is there under its id.
    """
    states, session_id = dict[str, State](), top.session_id
    names = [agent.child for agent in top.subagents]
    for name in await journal.ids_from(f"{session_id}."[: MAX_ID - DIGEST_CHARS - 1]):
        first = await journal.read(name, 0, 1)
        if first and session_id in opening_of(first[0]).setup.path[:1]:
            names.append(name)
    while names:
        name = names.pop()
        if name not in states and await journal.read(name, 0, 1):
            states[name] = state_after(await stored_records(journal, name))
            names += (agent.child for agent in states[name].subagents)
    return [state for state in states.values() if state.phase is not Phase.ENDED]

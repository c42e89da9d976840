"""`ask_about_session`: asks the person at the terminal before a session comes back that somebody else has begun.

What is shown is what its records say, and not what its agent promises alone: they may have more rights than that.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import trio

from agentrail.adapters.journals.sqlite.journal import SqliteJournal
from agentrail.cli.agent_seal import AgentSeal
from agentrail.cli.agent_source import LIMITS, NO_CONFIG, AgentSource
from agentrail.cli.bad_input import BadInputError
from agentrail.cli.begun_agents import allow_session, is_allowed
from agentrail.cli.chat_options import MODES_ABOUT
from agentrail.cli.default_agent import MODES, mode_named
from agentrail.cli.project_settings import Surface
from agentrail.cli.screen import escaped
from agentrail.cli.session_names import id_of_chat, name_in_chat
from agentrail.cli.steps_without_code import rests
from agentrail.cli.stored_sessions import state_after, stored_records
from agentrail.cli.trust_question import says_yes
from agentrail.cli.trust_store import described
from agentrail.core.vocabulary.state import State
from agentrail.errors import SessionNotStored
from agentrail.values.json import canonical

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
    state = trio.run(_stored_state, seal.journal, name)
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


async def _stored_state(path: Path, name: str) -> State | None:
    """Return the state of the session *name* in the journal at *path*; `None` if it has no such session."""
    journal = SqliteJournal(path)
    try:
        return state_after(await stored_records(journal, id_of_chat(name_in_chat(name))))
    except SessionNotStored:
        return None
    finally:
        await journal.close()  # noqa: ASYNC102 - nothing cancels it: Ctrl-C raises `KeyboardInterrupt`


def facts_of(state: State, source: AgentSource) -> Iterator[tuple[str, str]]:
    """Yield what a person has to know of a stored session before it comes back: pairs of name and text."""
    yield "title", state.title
    yield "folder", source.folder
    if os.path.normpath(state.setup.working_dir) != os.path.normpath(source.folder):
        yield "works in", state.setup.working_dir
    yield "agent", f"{source.file} {source.name}, whose code is run" if source.file else "that of the command line"
    if not source.file:
        mode = mode_named(source.mode) or MODES[0]
        yield "mode", f"{mode}: {MODES_ABOUT[mode]}"
        yield "settings", "those of the folder do not count" if source.config == NO_CONFIG else "those of the folder"
    for limit in LIMITS:
        text: str = getattr(source, limit)
        if text:
            yield limit, text
    yield from _changed_facts(state, source)


def _changed_facts(state: State, source: AgentSource) -> Iterator[tuple[str, str]]:
    """Yield in what the session differs from a new one of its agent, and what it would do at once."""
    if state.model != source.model:
        yield "model now", state.model
    for plugin in state.plugins:
        for option in plugin.changed:
            yield "changed", f"{plugin.key}: {option} = {canonical(plugin.options.get(option))}"
    for key in state.removed_plugins:
        yield "taken away", key
    for tool, family in sorted(state.approved_always):
        yield "always allowed", f"{tool} {family}"
    if not rests(state):
        yield "under way", "a turn, or what waits for one: it goes on at once"
    for call in () if state.batch is None else state.batch.calls:
        if not call.done:
            yield "call", f"{call.name} {canonical(call.args)}"

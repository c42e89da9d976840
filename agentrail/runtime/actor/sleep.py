"""What stays in memory of a session that sleeps, and how it is made whole again.

A session that sleeps keeps its mailbox, its subscribers and its timers; its state is reduced, and its code is let go.
"""

from __future__ import annotations

from typing import Final

from agentrail.core.vocabulary.state import NO_TOOLS, State
from agentrail.hooks.hook_runner import RecordedRunner
from agentrail.hooks.plugin import ON_EVENT
from agentrail.hooks.ruling import Ruling
from agentrail.runtime.actor.journal_log import revived
from agentrail.runtime.resources import SessionCode
from agentrail.values.messages import EMPTY_HISTORY

_NONE_APPROVED: Final = frozenset[tuple[str, str]]()
_NONE_PRICED: Final = frozenset[str]()


def without_code() -> RecordedRunner:
    """Return a hook runner that runs no plugin, for a step of a sleeping session, whose code is not there."""
    return RecordedRunner((Ruling(ON_EVENT),))


def with_plugin_classes(code: SessionCode, state: State) -> State:
    """Return *state*, as read from the journal, with each plugin's state as an object of the class that it declares."""
    plugins = [(attached.key, code.hook_runner.plugin(attached)) for attached in state.plugins]
    states = zip(plugins, state.plugin_states, strict=True)
    return state.but(plugin_states=tuple(revived(state.session_id, *plugin, stored) for plugin, stored in states))


def sleeping_state(state: State) -> State:
    """Return the part of *state* needed while the session sleeps: identity, usage, calls that wait for people."""
    return state.but(
        history=EMPTY_HISTORY,
        tools=NO_TOOLS,
        plugins=(),
        plugin_states=(),
        sections=(),
        last_text=None,
        todos=(),
        approved_always=_NONE_APPROVED,
        standing_approvals=(),
        priced_models=_NONE_PRICED,
        notices=(),
        in_doubt_calls=(),
        token_count=None,
        incarnation="",
    )

"""What is left in memory of a session that sleeps: who it is, what it waits for, and how to find its code again."""

from __future__ import annotations

from typing import Final

from agentrail.core.vocabulary.state import NO_TOOLS, State
from agentrail.hooks.judge import Recorded
from agentrail.hooks.plugin import ON_EVENT
from agentrail.hooks.ruling import Ruling
from agentrail.ports.failpoints import Failpoint, reach
from agentrail.reprs import listed
from agentrail.runtime.actor.journal_log import revived
from agentrail.runtime.resources import FindCode, SessionCode
from agentrail.values.messages import EMPTY_HISTORY

_NONE_APPROVED: Final = frozenset[tuple[str, str]]()
_NONE_PRICED: Final = frozenset[str]()


class Sleep:
    """Whether a session sleeps, whether its state is only what stays then, and how it wakes up."""

    __slots__ = ("_base", "_own", "equip", "is_deep", "is_thin")

    def __init__(self, equip: FindCode, outfit: SessionCode) -> None:
        self.equip = equip
        self._base = outfit.revision
        self._own: SessionCode | None = None
        self.is_deep = False
        self.is_thin = False

    def begin(self, state: State, outfit: SessionCode) -> tuple[State, SessionCode | None]:
        """Return what stays: enough of *state* for `status`, and no code but what was attached while it lived."""
        self.is_deep = self.is_thin = True
        reach(Failpoint.ASLEEP)
        self._own = None if outfit.revision == self._base else outfit
        return husk(state), self._own

    def summary(self, state: State) -> str:
        """Return the id of a session in *state*, its phase, and how many prompts wait."""
        phase = "asleep" if self.is_deep else state.phase.value
        return listed(f"{state.session_id!r} {phase}", f"{len(state.queue)} queued" if state.queue else "")

    def end(self, state: State, records: int) -> tuple[State, SessionCode]:
        """Return the session as the journal tells it, with its code."""
        if self._own is None:
            state, outfit, _ = self.equip(state, records)
            self._base = outfit.revision
        else:
            state, outfit = _with_plugins_of(self._own, state), self._own
        self.is_deep = self.is_thin = False
        self._own = None
        reach(Failpoint.AWAKE)
        return state, outfit


def without_code() -> Recorded:
    """Return the judge of one step for which there is no code and that asks no plugin: they do not hear of it."""
    return Recorded((Ruling(ON_EVENT),))


def _with_plugins_of(outfit: SessionCode, state: State) -> State:
    """Return *state* with the states of its plugins in their classes."""
    plugins = [(seat.key, outfit.judge.plugin(seat)) for seat in state.seats]
    states = zip(plugins, state.plugin_states, strict=True)
    return state.but(plugin_states=tuple(revived(state.session_id, *plugin, kept) for plugin, kept in states))


def husk(state: State) -> State:
    """Return what of *state* is wanted while it sleeps: who it is, what it has used, and what waits for a person."""
    return state.but(
        history=EMPTY_HISTORY,
        tools=NO_TOOLS,
        seats=(),
        plugin_states=(),
        sections=(),
        last_reply=None,
        todos=(),
        approved_always=_NONE_APPROVED,
        priced=_NONE_PRICED,
        notices=(),
        in_doubt=(),
    )

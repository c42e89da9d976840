"""Hibernation: what stays in memory of a sleeping session, and how it is rebuilt."""

from __future__ import annotations

from typing import Final

from agentrail.core.vocabulary.state import NO_TOOLS, Setup, State
from agentrail.hooks.judge import Recorded
from agentrail.hooks.plugin import ON_EVENT
from agentrail.hooks.ruling import Ruling
from agentrail.ports.failpoints import reach
from agentrail.runtime.actor.journal_log import revived
from agentrail.runtime.resources import FindCode, SessionCode, SharedServices
from agentrail.values.messages import EMPTY_HISTORY

_NONE_APPROVED: Final = frozenset[tuple[str, str]]()
_NONE_PRICED: Final = frozenset[str]()


class Sleep:
    """The sleep of one session: decides what stays in memory, and gives state and code back when it wakes."""

    __slots__ = ("__weakref__", "_own", "find_code", "is_deep", "is_thin", "revision")

    def __init__(self, find_code: FindCode, revision: int) -> None:
        self.find_code = find_code
        self.revision = revision  # of the code that is found
        self._own: SessionCode | None = None
        self.is_deep = False
        self.is_thin = False

    @property
    def is_blank(self) -> bool:
        """Whether a new one that is told to be asleep (`rested`) would do as well."""
        return self.is_deep and self.is_thin and self._own is None

    def rested(self) -> None:
        """Be asleep, as one that was put away."""
        self.is_deep = self.is_thin = True

    def begin(self, state: State, code: SessionCode) -> tuple[State, SessionCode | None]:
        """Begin the sleep: return the reduced state that stays in memory, and the code that stays.

        The code is `None` if it can be found again, because no tools, plugins or models were given at run time.
        """
        self.is_deep = self.is_thin = True
        reach("ASLEEP")
        self._own = None if code.revision == self.revision else code
        return husk(state), self._own

    async def end(self, state: State, records: int) -> tuple[State, SessionCode]:
        """End the sleep: return *state*, which was rebuilt from the journal, fitted to the code, and the code."""
        if self._own is None:
            state, code, _ = await self.find_code(state, records)
            self.revision = code.revision
        else:
            state, code = _with_plugins_of(self._own, state), self._own
        self.is_deep = self.is_thin = False
        self._own = None
        reach("AWAKE")
        return state, code


def without_code() -> Recorded:
    """Return a judge that runs no plugin, for a step of a sleeping session, whose code is not there."""
    return Recorded((Ruling(ON_EVENT),))


def _with_plugins_of(code: SessionCode, state: State) -> State:
    """Return *state*, as read from the journal, with each plugin's state as an object of the class that it declares."""
    plugins = [(seat.key, code.judge.plugin(seat)) for seat in state.seats]
    states = zip(plugins, state.plugin_states, strict=True)
    return state.but(plugin_states=tuple(revived(state.session_id, *plugin, kept) for plugin, kept in states))


def husk(state: State) -> State:
    """Return the part of *state* needed while the session sleeps: identity, usage, calls that wait for people."""
    return state.but(
        history=EMPTY_HISTORY,
        tools=NO_TOOLS,
        seats=(),
        plugin_states=(),
        sections=(),
        last_reply=None,
        todos=(),
        approved_always=_NONE_APPROVED,
        standing_approvals=(),
        priced=_NONE_PRICED,
        notices=(),
        in_doubt=(),
        measured=None,
        altered=(),
        shown=None,
    )


_BLANK: Final = State("", Setup(), "")
"""The fields that no session has changed."""


def outline(state: State, shared: SharedServices) -> tuple[tuple[str, ...], tuple[object, ...]]:
    """Return the names and values of the fields of a reduced state that differ from their defaults.

    The id is left out. Names and setup are shared with other sessions that have equal ones.
    """
    found: dict[str, object] = {
        name: kept
        for name in State.__struct_fields__
        if (kept := getattr(state, name)) is not getattr(_BLANK, name) and name != "session_id"
    }
    found["setup"] = shared.setups.one(state.setup)
    return shared.outlines.one(tuple(found)), tuple(found.values())


def state_of(session_id: str, names: tuple[str, ...], kept: tuple[object, ...]) -> State:
    """Return the reduced state with the fields *names*, whose values are *kept*; `outline` has made them."""
    return _BLANK.but(session_id=session_id, **dict(zip(names, kept, strict=True)))

"""Replaces plugin states, which may be of any class, by the JSON that stores them, before a value is written."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from operator import attrgetter
from typing import Final, TypeAlias, TypeVar, cast, get_args

import msgspec

from agentrail.codec.misfit import MisfitError
from agentrail.codec.states import kept
from agentrail.core.vocabulary.changes import NO_CHANGE, Change, ChangedStates
from agentrail.core.vocabulary.state import State
from agentrail.hooks.ruling import Ruling
from agentrail.values.json import Json
from agentrail.values.value import Value

V = TypeVar("V", bound=Value)

_HOLDERS: Final[Mapping[type[object], str]] = {
    State: "plugin_states",
    Ruling: "states",
    Change: "plugin_states",
    ChangedStates: "put",
}
"""The field that is or holds plugin states, by class. Of other classes, the fields that hold such a value have them."""

Known: TypeAlias = dict[int, dict[str, Json]]
"""What plugin states were made to in one value, by their ids: a record has a state that changes twice."""


@cache
def _holding(cls: type[Value]) -> tuple[str, ...]:
    """Return the names of the fields of *cls* that may hold plugin states, or a value with plugin states."""
    if cls in _HOLDERS:
        return (_HOLDERS[cls],)
    return tuple([each.name for each in msgspec.structs.fields(cls) if _names_holder(each.type)])


def _names_holder(hint: object) -> bool:
    return any(hint is cls for cls in _HOLDERS) or any(map(_names_holder, get_args(hint)))


def with_states_as_json(value: V) -> V:
    """Return *value* with the JSON that stores them in place of plugin states, which may be of any class.

    They are in a state, a ruling or a change, or in these as fields of a record.
    """
    known: Known = {}
    if type(value) in _HOLDERS:
        return _holder_as_json(value, known)
    changes: dict[str, object] = {}
    name = ""
    try:
        for name in _holding(type(value)):
            found: object = getattr(value, name)
            made = found
            if type(found) in _HOLDERS:
                made = _holder_as_json(cast("Value", found), known)
            elif type(found) is tuple:
                made = _rulings_as_json(cast("tuple[object, ...]", found), known)
            if made is not found:
                changes[name] = made
    except MisfitError as misfit:
        misfit.under(f".{name}")
        raise
    return value.but(**changes) if changes else value


def _holder_as_json(value: V, known: Known) -> V:
    """Return *value*, of a class in `_HOLDERS`, with the JSON of its states."""
    name = _HOLDERS[type(value)]
    found: object = getattr(value, name)
    if not found or found is NO_CHANGE:
        return value
    try:
        if type(found) is ChangedStates:
            return value.but(**{name: _holder_as_json(found, known)})
        if type(found) is tuple:
            states = _states_as_json(cast("tuple[object, ...]", found), known, alone=isinstance(value, State))
            return value.but(**{name: states})
    except MisfitError as misfit:
        misfit.under(f".{name}")
        raise
    return value


def _states_as_json(found: tuple[object, ...], known: Known, *, alone: bool) -> tuple[object, ...]:
    """Return the JSON of the states in *found*, which stand there *alone* or each behind the index of its plugin."""
    made: list[object] = []
    try:
        for item in found:
            if alone:
                made.append(_kept(item, known))
            else:
                seat, state = cast("tuple[int, object]", item)
                made.append((seat, _kept(state, known)))
    except MisfitError as misfit:
        misfit.under(f"[{len(made)}]" if alone else f"[{len(made)}][1]")
        raise
    return tuple(made)


def _rulings_as_json(found: tuple[object, ...], known: Known) -> tuple[object, ...]:
    """Return *found* with the JSON of the states of the rulings among it; itself if they have none, as mostly."""
    if _RULINGS.issuperset(map(type, found)) and not any(map(_states, found)):
        return found
    made: list[object] = []
    try:
        made.extend(_holder_as_json(item, known) if type(item) is Ruling else item for item in found)
    except MisfitError as misfit:
        misfit.under(f"[{len(made)}]")
        raise
    return tuple(made)


_RULINGS: Final = frozenset[type]({Ruling})
_states: Final = attrgetter(_HOLDERS[Ruling])


def _kept(state: object, known: Known) -> dict[str, Json]:
    """Return the JSON object that stores *state*, made once."""
    made = known.get(id(state))
    if made is None:
        made = known[id(state)] = kept(state)
    return made

"""Replaces plugin states, which may be of any class, by the JSON that stores them, before a value is written."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from operator import is_
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


def with_states_as_json(value: V, known: Known | None = None) -> V:
    """Return *value* with the JSON that stores them in place of plugin states, which may be of any class.

    They are in a state, a ruling or a change, or in these as fields of a record.
    """
    kind, name = type(value), ""
    known = {} if known is None else known
    changes: dict[str, object] = {}
    try:
        for name in _holding(kind):
            found: object = getattr(value, name)
            if found is NO_CHANGE or not found:
                continue
            if type(found) in _HOLDERS:
                changes[name] = with_states_as_json(cast("Value", found), known)
            elif type(found) is tuple:
                changes[name] = _each_as_json(kind, cast("tuple[object, ...]", found), known)
    except MisfitError as misfit:
        misfit.under(f".{name}")
        raise
    if not changes:
        return value
    changes = {name: made for name, made in changes.items() if made is not getattr(value, name)}
    return value.but(**changes) if changes else value


def _each_as_json(kind: type[object], items: tuple[object, ...], known: Known) -> tuple[object, ...]:
    """Return *items* of a value of class *kind* with the JSON that stores them in place of plugin states."""
    made: list[object] = []
    try:
        for item in items:
            if kind is State:
                made.append(_kept(item, known))
            elif kind in _HOLDERS:
                seat, state = cast("tuple[int, object]", item)
                made.append((seat, _kept(state, known)))
            else:
                made.append(with_states_as_json(item, known) if type(item) is Ruling and item.states else item)
    except MisfitError as misfit:
        misfit.under(f"[{len(made)}][1]" if kind in (Ruling, ChangedStates) else f"[{len(made)}]")
        raise
    return items if all(map(is_, made, items)) else tuple(made)


def _kept(state: object, known: Known) -> dict[str, Json]:
    """Return the JSON object that stores *state*, made once."""
    made = known.get(id(state))
    if made is None:
        made = known[id(state)] = kept(state)
    return made

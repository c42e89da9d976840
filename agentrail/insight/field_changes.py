"""`at`: the state of a session after one of its records, and what that record changed."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, cast

from agentrail.core.vocabulary.state import State
from agentrail.core.vocabulary.tool_calls import CallList
from agentrail.errors import UnknownRecord
from agentrail.ports.journal import Record, folded, opening_of
from agentrail.values.messages import History
from agentrail.values.value import Value


class FieldChange(Value, gc=True):
    """A part of the state that a record changed."""

    field: str
    """Where it is, such as `phase`, `turn.attempt`, `batch.calls[0].status`, `timers[2:3]` or `plugin_states.Guard`.

    Of a sequence, only the stretch that differs is told: from one index up to the one before the second.
    """
    before: object
    """What was there before: a tuple of a stretch; `None` if there was nothing."""
    after: object
    """What is there now: a tuple of a stretch; `None` if there is nothing."""


class Moment(Value):
    """A session after one of its records."""

    record: Record
    """The record."""
    before: State
    """The state before the record; for the first one, the state with which the session began."""
    state: State
    """The state after the record."""

    @property
    def changes(self) -> tuple[FieldChange, ...]:
        """What the record changed, in the order of the state's fields."""
        return tuple(_of_states(self.before, self.state))


def moments(records: Iterable[Record]) -> Iterator[Moment]:
    """Yield the moment after each of *records*, which begin with the session's first one.

    Each state is made from the one before. The states share what they have in common, so all of them may be kept.
    """
    state: State | None = None
    for record in records:
        old = opening_of(record) if state is None else state
        state = folded(old, record)
        yield Moment(record, old, state)


def at(records: Iterable[Record], number: int) -> Moment:
    """Return the moment after record *number* of *records*, which begin with the session's first one.

    Raise `UnknownRecord` if there is no such record. To go through many moments, use `moments`.
    """
    session_id = ""
    for moment in islice(moments(records), min(max(1, number), sys.maxsize)):
        if moment.record.number == number:
            return moment
        session_id = moment.record.session_id
    raise UnknownRecord(session_id, number)


def differences(path: str, old: object, new: object) -> Iterator[FieldChange]:
    """Yield the smallest named parts in which the two values differ."""
    if _is_alike(old, new):
        return
    here = FieldChange(path, old, new)
    if isinstance(old, Value) and type(old) is type(new):
        for name in old.__struct_fields__:
            yield from differences(f"{path}.{name}", getattr(old, name), getattr(new, name))
    elif isinstance(old, Mapping) and isinstance(new, Mapping):
        yield from _of_mappings(path, cast("Mapping[str, object]", old), cast("Mapping[str, object]", new))
    elif isinstance(old, _SEQUENCES) and isinstance(new, _SEQUENCES):
        yield from _of_sequences(path, cast("Sequence[object]", old), cast("Sequence[object]", new))
    else:
        yield here


def _of_states(old: State, new: State) -> Iterator[FieldChange]:
    for name in State.__struct_fields__:
        was, now = _value(old, name), _value(new, name)
        if was is not now:
            yield from differences(name, was, now)


def _value(state: State, name: str) -> object:
    """Return a field of *state*; the states of plugins by the keys of these."""
    value: object = getattr(state, name)
    if name == "plugin_states" and len(state.plugin_states) == len(state.plugins):
        return {
            attached.key: plugin_state
            for attached, plugin_state in zip(state.plugins, state.plugin_states, strict=True)
        }
    return value


_SEQUENCES: Final = (tuple, list, History, CallList)


def _of_mappings(path: str, old: Mapping[str, object], new: Mapping[str, object]) -> Iterator[FieldChange]:
    for key in {**old, **new}:
        yield from differences(f"{path}.{key}", old.get(key), new.get(key))


def _of_sequences(path: str, old: Sequence[object], new: Sequence[object]) -> Iterator[FieldChange]:
    """Yield the stretch in which two sequences differ; if it is one item in both, what differs in that."""
    first = _common_start(old, new)
    most = min(len(old), len(new)) - first
    pairs = zip(reversed(old), reversed(new), strict=False)
    alike = next((index for index, (was, now) in enumerate(islice(pairs, most)) if not _is_alike(was, now)), most)
    was, now = tuple(old[first : len(old) - alike]), tuple(new[first : len(new) - alike])
    if len(was) == len(now) == 1:
        yield from differences(f"{path}[{first}]", was[0], now[0])
    elif was or now:
        yield FieldChange(f"{path}[{first}:{first + max(len(was), len(now))}]", was, now)


def _common_start(old: Sequence[object], new: Sequence[object]) -> int:
    """Return how many items at the beginning are the same."""
    if isinstance(old, History) and isinstance(new, History) and new.added_to(old) is not None:
        return len(old)
    pairs = zip(old, new, strict=False)
    return next((index for index, (was, now) in enumerate(pairs) if not _is_alike(was, now)), min(len(old), len(new)))


def _is_alike(was: object, now: object) -> bool:
    return was is now or (type(was) is type(now) and was == now)

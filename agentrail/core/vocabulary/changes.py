"""What one step changed in the state of a session: `change` makes it, and `fold` applies it.

A session is brought back by folding the changes of its records. The code of the step is not run for that, so newer
code reads older sessions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import compress, repeat
from operator import is_not
from types import MappingProxyType
from typing import Final, cast

from msgspec import UNSET, UnsetType
from msgspec.structs import astuple, replace

from agentrail.core.vocabulary.state import (
    NO_TOOLS,
    Attached,
    Compaction,
    Due,
    Phase,
    PluginChange,
    Prompt,
    Request,
    Setup,
    Spare,
    State,
    Steering,
    Subagent,
    Suspension,
    Turn,
)
from agentrail.core.vocabulary.tool_calls import Batch, Call, Doubt, Stray
from agentrail.hooks.attachments import AttachedPlugin
from agentrail.values.json import JsonObject
from agentrail.values.messages import History, Message
from agentrail.values.tools import Todo
from agentrail.values.usage import Usage
from agentrail.values.value import Value


class Appended(Value):
    """Messages that a step appended to the history."""

    messages: tuple[Message, ...]
    """The messages, in order."""


class Range(Value):
    """Consecutive messages of the history before the step."""

    start: int
    """Index of the first one."""
    stop: int
    """Index after the last one."""


class Rearranged(Value):
    """A history that does not begin with all of the history before it, as after a compaction."""

    pieces: tuple[Range | Message, ...]
    """Ranges of the history before the step, and messages that it did not have."""


class ChangedCalls(Value):
    """Calls of the open batch that a step changed."""

    put: tuple[Call, ...] = ()
    """The calls, as they are after the step."""
    decisions: tuple[tuple[str, bool], ...] | UnsetType = UNSET
    """`Batch.decisions`, if it changed."""
    texts: tuple[tuple[str, str], ...] | UnsetType = UNSET
    """`Batch.texts`, if it changed."""


class ChangedStates(Value, gc=True):
    """States of plugins that a step changed."""

    count: int
    """Number of plugins after the step."""
    put: tuple[tuple[int, object], ...] = ()
    """The states that are other objects than before: pairs of the plugin's index and its state."""


class ChangedTools(Value):
    """Tools that a step attached, replaced or detached."""

    gone: tuple[str, ...] = ()
    """Names of the detached tools."""
    put: Mapping[str, Attached] = NO_TOOLS
    """The attached and replaced tools, by name."""


class Change(Value, gc=True):
    """The fields of a state that one step changed, with their new values; the others are `UNSET`.

    The fields are those of `State`, in the same order. Four of them grow with the session, so what is written of them
    is only what the step changed.
    """

    session_id: str | UnsetType = UNSET
    setup: Setup | UnsetType = UNSET
    model: str | UnsetType = UNSET
    model_options: JsonObject | UnsetType = UNSET
    used_model: tuple[str, JsonObject] | UnsetType | None = UNSET
    tools: ChangedTools | UnsetType = UNSET
    seats: tuple[AttachedPlugin, ...] | UnsetType = UNSET
    plugin_states: ChangedStates | UnsetType = UNSET
    deafness: tuple[tuple[str, int], ...] | UnsetType = UNSET
    changes: tuple[PluginChange, ...] | UnsetType = UNSET
    phase: Phase | UnsetType = UNSET
    opening: bool | UnsetType = UNSET
    seq: int | UnsetType = UNSET
    serial: int | UnsetType = UNSET
    turns: int | UnsetType = UNSET
    round: int | UnsetType = UNSET
    history: Appended | Rearranged | UnsetType = UNSET
    usage: Usage | UnsetType = UNSET
    last_reply: str | UnsetType | None = UNSET
    todos: tuple[Todo, ...] | UnsetType = UNSET
    sections: tuple[tuple[str, str], ...] | UnsetType = UNSET
    approved_always: frozenset[tuple[str, str]] | UnsetType = UNSET
    queue: tuple[Prompt, ...] | UnsetType = UNSET
    steering: tuple[Steering, ...] | UnsetType = UNSET
    taking: Prompt | UnsetType | None = UNSET
    turn: Turn | UnsetType | None = UNSET
    batch: Batch | ChangedCalls | UnsetType | None = UNSET
    request: Request | UnsetType | None = UNSET
    compaction: Compaction | UnsetType | None = UNSET
    compact_wanted: str | UnsetType | None = UNSET
    due: tuple[Due, ...] | UnsetType = UNSET
    suspended: tuple[Suspension, ...] | UnsetType = UNSET
    quarantined: tuple[Stray, ...] | UnsetType = UNSET
    lingering: tuple[Stray, ...] | UnsetType = UNSET
    notices: tuple[str, ...] | UnsetType = UNSET
    in_doubt: tuple[Doubt, ...] | UnsetType = UNSET
    timers: tuple[tuple[str, int], ...] | UnsetType = UNSET
    stopping: str | UnsetType | None = UNSET
    crashed: str | UnsetType | None = UNSET
    spares: tuple[Spare, ...] | UnsetType = UNSET
    priced: frozenset[str] | UnsetType = UNSET
    paused: tuple[Due, ...] | UnsetType = UNSET
    jobs: tuple[str, ...] | UnsetType = UNSET
    asleep: bool | UnsetType = UNSET
    subagents: tuple[Subagent, ...] | UnsetType = UNSET
    gone_tools: tuple[str, ...] | UnsetType = UNSET
    gone_plugins: tuple[str, ...] | UnsetType = UNSET
    elsewhere: Usage | UnsetType = UNSET
    title: str | UnsetType = UNSET
    labels: tuple[str, ...] | UnsetType = UNSET


NO_CHANGE: Final = Change()

NAMES: Final = State.__struct_fields__
_PLACES: Final = range(len(NAMES))
_SCALARS: Final = frozenset({int, str})
"""Types of which equal values are written alike. (Two floats are not: `0.0 == -0.0`.)"""


def change(old: State, new: State) -> Change:
    """Return the fields of *old* that *new* has changed: folded on *old*, they give *new*, down to its text.

    Fields that are the same object are unchanged. Equality does not decide, as `1 == True`; only of equal numbers and
    texts of one type, nothing is written.
    """
    before, after = astuple(old), astuple(new)
    changed: dict[str, object] = {}
    for place in compress(_PLACES, map(is_not, before, after)):
        was, now = before[place], after[place]
        if type(now) in _SCALARS and type(was) is type(now) and was == now:
            continue
        name = NAMES[place]
        form = _FORMS.get(name)
        changed[name] = now if form is None else form[0](was, now)
    return replace(NO_CHANGE, **changed)


def fold(state: State, change: Change) -> State:
    """Return *state* with *change* applied; raise `ValueError` or `LookupError` if the change is of another state."""
    fields = astuple(change)
    changed: dict[str, object] = {}
    for place in compress(_PLACES, map(is_not, fields, repeat(UNSET))):
        name, now = NAMES[place], fields[place]
        form = _FORMS.get(name)
        changed[name] = now if form is None else form[1](getattr(state, name), now)
    return state.but(**changed)


def _grown(old: History, new: History) -> Appended | Rearranged | UnsetType:
    if new.continues(old) or not old:
        added = new[len(old) :]
        return Appended(added) if added else UNSET
    places = {id(message): place for place, message in enumerate(old)}
    pieces: list[Range | Message] = []
    last: Range | None = None
    for message in new:
        if last is not None and last.stop < len(old) and old[last.stop] is message:
            pieces[-1] = last = Range(last.start, last.stop + 1)
            continue
        place = places.get(id(message))
        last = None if place is None else Range(place, place + 1)
        pieces.append(message if last is None else last)
    return Rearranged(tuple(pieces))


def _grow(old: History, form: Appended | Rearranged) -> History:
    if isinstance(form, Appended):
        return old.and_(*form.messages)
    messages: list[Message] = []
    for piece in form.pieces:
        if not isinstance(piece, Range):
            messages.append(piece)
        elif 0 <= piece.start < piece.stop <= len(old):
            messages.extend(old[piece.start : piece.stop])
        else:
            problem = f"it keeps messages {piece.start} to {piece.stop} of a history of {len(old)}"
            raise ValueError(problem)
    return History(messages)


def _changed_batch(old: Batch | None, new: Batch | None) -> Batch | ChangedCalls | None:
    put = None if old is None or new is None else new.calls.changed_since(old.calls)
    if put is None or old is None or new is None:
        return new
    return ChangedCalls(
        put,
        UNSET if new.decisions is old.decisions else new.decisions,
        UNSET if new.texts is old.texts else new.texts,
    )


def _change_batch(old: Batch | None, form: Batch | ChangedCalls | None) -> Batch | None:
    if not isinstance(form, ChangedCalls):
        return form
    if old is None:
        problem = "it changes calls, and there is no batch"
        raise ValueError(problem)
    calls = old.calls
    for call in form.put:
        calls = calls.put(call)
    return Batch(
        calls,
        old.decisions if form.decisions is UNSET else form.decisions,
        old.texts if form.texts is UNSET else form.texts,
    )


def _changed_states(old: tuple[object, ...], new: tuple[object, ...]) -> ChangedStates:
    had = len(old)
    put = ((place, state) for place, state in enumerate(new) if place >= had or old[place] is not state)
    return ChangedStates(len(new), tuple(put))


def _change_states(old: tuple[object, ...], form: ChangedStates) -> tuple[object, ...]:
    put = dict(form.put)
    if not put.keys() | range(len(old)) >= set(range(form.count)) or max(put, default=-1) >= form.count:
        problem = f"it has states of the plugins {sorted(put)} of {form.count}, and there were {len(old)}"
        raise ValueError(problem)
    return tuple([put[place] if place in put else old[place] for place in range(form.count)])


def _changed_tools(old: Mapping[str, Attached], new: Mapping[str, Attached]) -> ChangedTools:
    gone = tuple(name for name in old if name not in new)
    put = {name: attached for name, attached in new.items() if old.get(name) is not attached}
    form = ChangedTools(gone, MappingProxyType(put))
    if list(_change_tools(old, form)) == list(new):
        return form
    return ChangedTools(tuple(old), MappingProxyType(dict(new)))


def _change_tools(old: Mapping[str, Attached], form: ChangedTools) -> Mapping[str, Attached]:
    kept = {name: attached for name, attached in old.items() if name not in form.gone}
    return kept | dict(form.put)


# Of each field that is not written whole: the functions that make its form of the values before and after the step,
# and the value after it of the one before and the form. They take values of one field, whose types differ by field.
_FORMS: Final = cast(
    "Mapping[str, tuple[Callable[[object, object], object], Callable[[object, object], object]]]",
    MappingProxyType(
        {
            "history": (_grown, _grow),
            "batch": (_changed_batch, _change_batch),
            "plugin_states": (_changed_states, _change_states),
            "tools": (_changed_tools, _change_tools),
        }
    ),
)

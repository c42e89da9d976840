"""What one step changed in the state of a session, as it is stored: `change` makes it, and `fold` applies it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import compress, count, filterfalse, repeat
from operator import is_, is_not, itemgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar, cast, get_type_hints

from msgspec import UNSET, Struct, UnsetType, defstruct
from msgspec.structs import astuple

from agentrail.core.vocabulary.state import (
    NO_TOOLS,
    AttachedTool,
    Prompt,
    State,
    Suspension,
    Turn,
)
from agentrail.core.vocabulary.tool_calls import Batch, Call, CallList, first_call
from agentrail.hooks.hook_types import AfterTurn, BeforeCompaction, BeforeRequest
from agentrail.values.json import EMPTY
from agentrail.values.messages import (
    EMPTY_HISTORY,
    AssistantMessage,
    History,
    Message,
    Rearranged,
    ToolMessage,
    rearrange,
)
from agentrail.values.personal import Kept, Personal
from agentrail.values.tools import ToolSpec
from agentrail.values.usage import NOTHING_USED
from agentrail.values.value import TAG, Value, defaults_of

V = TypeVar("V", bound=Value)


class ResultOf(Value, tag_field=TAG):
    """Stands for a result that a step appended to the history: that of a call in the batch before the step."""

    call_id: Kept[str]
    """Id of the call."""


class Appended(Value, tag_field=TAG):
    """Messages that a step appended to the history."""

    messages: tuple[ResultOf | Message, ...]
    """The messages, in order."""


class SpecOfTool(Value, tag_field=TAG):
    """Stands for a call's tool description: that of the session's tool of this name, before the step."""


def changes_of(changed: type[Struct]) -> Callable[[type[V]], type[V]]:
    """Return a class decorator that adds the fields of *changed*, each `UNSET` by default.

    A field that the decorated class declares itself keeps its type and default, because it is stored in another form.
    """

    def derive(cls: type[V]) -> type[V]:
        """Return a class with the fields of *changed*, and the name, module and docstring of *cls*."""
        own_hints, defaults = get_type_hints(cls, include_extras=True), defaults_of(cls)
        hints = get_type_hints(changed, include_extras=True)
        hints = {name: hint | UnsetType for name, hint in hints.items()} | own_hints
        required = own_hints.keys() - defaults.keys()
        fields = [
            (name, hints[name]) if name in required else (name, hints[name], UNSET)
            for name in changed.__struct_fields__
        ]
        namespace = {"__doc__": cls.__doc__}
        change_class = defstruct(cls.__name__, fields, bases=(Value,), module=cls.__module__, namespace=namespace)
        return cast("type[V]", change_class)

    return derive


@changes_of(Call)
class ChangedCall(Value):
    """The fields of a call that a step changed, with their new values; the others are `UNSET`."""

    call_id: Kept[str]
    """Id of the call."""
    spec: ToolSpec | SpecOfTool | UnsetType | None = UNSET
    """The tool's description."""

    if TYPE_CHECKING:  # all fields, as type checkers do not see those that are derived

        def __init__(self, *args: object, **fields: object) -> None: ...

        def __getattr__(self, name: str) -> object: ...


class ChangedCalls(Value, tag_field=TAG):
    """Calls of the open batch that a step changed."""

    put: tuple[ChangedCall, ...] = ()
    """What changed in which calls."""
    begins: bool = False
    """Whether the step began the batch: then the calls before it are those of the last message, not ruled on yet."""
    decisions: Kept[tuple[tuple[str, bool], ...] | UnsetType] = UNSET
    """`Batch.decisions`, if it changed."""
    texts: Personal[tuple[tuple[str, str], ...] | UnsetType] = UNSET
    """`Batch.texts`, if it changed."""


class ChangedStates(Value):
    """States of plugins that a step changed."""

    count: int
    """Number of plugins after the step."""
    put: Personal[tuple[tuple[int, object], ...]] = ()
    """The states that are other objects than before: pairs of the plugin's index and its state."""


class ChangedTools(Value):
    """Tools that a step attached, replaced or detached."""

    removed: Kept[tuple[str, ...]] = ()
    """Names of the detached tools."""
    put: Kept[Mapping[str, AttachedTool]] = NO_TOOLS
    """The attached and replaced tools, by name."""


@changes_of(Turn)
class ChangedTurn(Value):
    """The fields of the open turn that a step changed; for a new turn, the fields that differ from `NO_TURN`."""

    if TYPE_CHECKING:  # all fields, as type checkers do not see those that are derived

        def __init__(self, *args: object, **fields: object) -> None: ...

        def __getattr__(self, name: str) -> object: ...


NO_TURN: Final = Turn("", 0, 0, NOTHING_USED, "", EMPTY)
"""The turn that one that begins is compared with."""


class ChangedQueue(Value):
    """Prompts that a step queued or took from the queue; the others keep their order."""

    removed: Kept[tuple[str, ...]] = ()
    """Ids of the prompts that are no longer in the queue."""
    first: tuple[Prompt, ...] = ()
    """Prompts that were put before those that were there."""
    put: tuple[Prompt, ...] = ()
    """Prompts that were put behind them."""


class ChangedTimers(Value):
    """Timers that a step set or cleared; those that it set come last, in this order."""

    removed: Kept[tuple[str, ...]] = ()
    """Names of the cleared timers."""
    put: Kept[tuple[tuple[str, int], ...]] = ()
    """The timers that were set: pairs of name and time."""


class Suspended(Value):
    """A paused run of a hook; messages in the hook are written as ranges of the history after the step."""

    run: Suspension
    """The paused run; its hook has no messages, if they are in `messages`."""
    messages: Rearranged | None = None
    """The messages of the hook; `None` if it is about none."""


class ChangedSuspended(Value):
    """Paused runs of hooks that a step began, changed or ended; new ones come after those that were there."""

    put: tuple[Suspended, ...] = ()
    """Runs that are new or changed."""
    removed: Kept[tuple[str, ...]] = ()
    """Ids of the requests whose runs are no longer paused."""
    begins: bool = False
    """Whether none of the runs before is left but those in `put`."""


NONE_LEFT: Final = ChangedSuspended(begins=True)
"""No run is paused any more."""


@changes_of(State)
class Change(Value):
    """The fields of a state that one step changed, with their new values; the others are `UNSET`.

    Of those that are large, or grow with the session, only what the step changed is written: they are declared here.
    """

    tools: ChangedTools | UnsetType = UNSET
    plugin_states: ChangedStates | UnsetType = UNSET
    history: Appended | Rearranged | UnsetType = UNSET
    turn: ChangedTurn | UnsetType | None = UNSET
    batch: Batch | ChangedCalls | UnsetType | None = UNSET
    suspended_runs: ChangedSuspended | UnsetType = UNSET
    queue: tuple[Prompt, ...] | ChangedQueue | UnsetType = UNSET
    timers: ChangedTimers | UnsetType = UNSET

    if TYPE_CHECKING:  # all fields, as type checkers do not see those that are derived

        def __init__(self, *args: object, **fields: object) -> None: ...

        def __getattr__(self, name: str) -> object: ...


NO_CHANGE: Final = Change()


_SPEC_OF_TOOL: Final = SpecOfTool()
_NO_BATCH: Final = Batch(CallList())
_SPEC_INDEX: Final = Call.__struct_fields__.index("spec")

Changed: TypeAlias = dict[str, object]
"""Fields of a state with their new values."""

NAMES: Final = State.__struct_fields__
_INDICES: Final = range(len(NAMES))
_PLAIN: Final = frozenset({int, str})
"""Types of which equal values have the same text."""


def change(old: State, new: State) -> Change:
    """Return the fields of *old* that *new* has changed: folded on *old*, they give *new*, down to its text.

    Fields that are the same object are unchanged. Equality does not decide, as `1 == True` and `0.0 == -0.0`; only of
    equal whole numbers and texts, nothing is written.
    """
    changed = _differing(old, new)
    for index, make in compress(_MADE, map(is_not, _FORMED(changed), repeat(UNSET))):
        changed[index] = make(old, new)
    return Change(*changed)


def _differing(old: Struct, new: Struct) -> list[object]:
    """Return the fields of *new* in order, with `UNSET` in place of those that equal the field of *old*."""
    old_fields, new_fields = astuple(old), astuple(new)
    changed: list[object] = [UNSET] * len(old_fields)
    for index in compress(_INDICES, map(is_not, old_fields, new_fields)):
        now: object = new_fields[index]
        if type(now) in _PLAIN and now == (was := old_fields[index]) and type(now) is type(was):
            continue
        changed[index] = now
    return changed


def fold(state: State, change: Change) -> State:
    """Return *state* with *change* applied; raise `ValueError` or `LookupError` if the change is of another state."""
    fields = astuple(change)
    changed: dict[str, object] = {}
    for index in compress(_INDICES, map(is_not, fields, repeat(UNSET))):
        name, now = NAMES[index], fields[index]
        form = _FORMS.get(name)
        changed[name] = now if form is None else form[1](state, now, changed)
    return state.but(**changed)


def _grown(old: State, new: State) -> Appended | Rearranged | UnsetType:
    """Return how the history changed: the appended messages, or a rearrangement; `UNSET` if it did not."""
    added = new.history.added_to(old.history)
    if added is None:
        return rearrange(old.history, new.history)
    batch = old.batch
    messages = added if batch is None else tuple([_short_form(message, batch) for message in added])
    return Appended(messages) if messages else UNSET


def _short_form(message: Message, batch: Batch) -> Message | ResultOf:
    """Return a `ResultOf` if *message* is the result of a call of *batch*, else *message* itself."""
    if not isinstance(message, ToolMessage):
        return message
    call = batch.calls.find(message.call_id)
    return message if call is None or call.result is not message else ResultOf(message.call_id)


def _grow(old_state: State, form: Appended | Rearranged, _: Changed) -> History:
    """Return the history of *old_state* with the change *form* applied."""
    old = old_state.history
    if isinstance(form, Appended):
        batch = old_state.batch
        return old.and_(*[_result(m.call_id, batch) if isinstance(m, ResultOf) else m for m in form.messages])
    return History(form.of(old))


def _result(call_id: str, batch: Batch | None) -> ToolMessage:
    """Return the result of call *call_id*; raise `ValueError` if *batch* has none."""
    call = None if batch is None else batch.calls.find(call_id)
    if call is None or call.result is None:
        problem = f"it appends the result of call {call_id}, and there is none"
        raise ValueError(problem)
    return call.result


def _changed_batch(old_state: State, new_state: State) -> Batch | ChangedCalls | None:
    """Return how the batch changed: its changed calls, or the whole batch; `None` if none is open."""
    old, new = old_state.batch, new_state.batch
    if new is None:
        return None
    pairs = None if old is None else new.calls.changed_since(old.calls)
    begins = pairs is None
    if old is None or pairs is None:
        first = _first_calls(new_state.history)
        if [call.call_id for call in first] != [call.call_id for call in new.calls]:
            return new
        old, pairs = _NO_BATCH, tuple(zip(first, new.calls, strict=True))
    return ChangedCalls(
        tuple([_changed_call(was, now, old_state.tools) for was, now in pairs]),
        begins,
        UNSET if new.decisions is old.decisions else new.decisions,
        UNSET if new.texts is old.texts else new.texts,
    )


def _first_calls(history: History) -> tuple[Call, ...]:
    """Return the calls of the last message as a new batch has them, with no ruling yet."""
    last = history[-1] if history else None
    return tuple(map(first_call, last.calls)) if isinstance(last, AssistantMessage) else ()


def _set_fields(form: Value) -> dict[str, object]:
    """Return the fields of *form* that are not `UNSET`, by name."""
    names, fields = form.__struct_fields__, astuple(form)
    return {names[index]: fields[index] for index in compress(range(len(names)), map(is_not, fields, repeat(UNSET)))}


def _changed_call(old: Call, new: Call, tools: Mapping[str, AttachedTool]) -> ChangedCall:
    """Return the fields of *new* that differ from *old*; a spec that its tool has is replaced by `SpecOfTool`."""
    changed = _differing(old, new)
    changed[0] = new.call_id
    if changed[_SPEC_INDEX] is not UNSET and (attached := tools.get(new.name)) and attached.spec is new.spec:
        changed[_SPEC_INDEX] = _SPEC_OF_TOOL
    return ChangedCall(*changed)


def _change_call(call: Call, form: ChangedCall, tools: Mapping[str, AttachedTool]) -> Call:
    """Return *call* with the change *form* applied."""
    changed = _set_fields(form)
    if isinstance(form.spec, SpecOfTool):
        changed["spec"] = tools[cast("str", changed.get("name", call.name))].spec
    return call.but(**changed)


def _change_batch(old_state: State, form: Batch | ChangedCalls | None, changed: Changed) -> Batch | None:
    """Return the batch of *old_state* with the change *form* applied."""
    if not isinstance(form, ChangedCalls):
        return form
    old = old_state.batch
    if form.begins:
        old = Batch(CallList(_first_calls(cast("History", changed.get("history", old_state.history)))))
    if old is None:
        problem = "it changes calls, and there is no batch"
        raise ValueError(problem)
    calls = old.calls
    for changed_call in form.put:
        call = calls.find(changed_call.call_id)
        if call is None:
            problem = f"it changes call {changed_call.call_id}, which is not in the batch"
            raise ValueError(problem)
        calls = calls.put(_change_call(call, changed_call, old_state.tools))
    return Batch(
        calls,
        old.decisions if form.decisions is UNSET else form.decisions,
        old.texts if form.texts is UNSET else form.texts,
    )


def _changed_states(old_state: State, new_state: State) -> ChangedStates:
    """Return the plugin states that are new or changed, with their indices."""
    old, new = old_state.plugin_states, new_state.plugin_states
    had = len(old)
    states = [(index, state) for index, state in enumerate(new) if index >= had or old[index] is not state]
    return ChangedStates(len(new), tuple(states))


def _change_states(old_state: State, form: ChangedStates, _: Changed) -> tuple[object, ...]:
    """Return the plugin states of *old_state* with the change *form* applied; raise `ValueError` if one is missing."""
    old = old_state.plugin_states
    states = dict(form.put)
    if not states.keys() | range(len(old)) >= set(range(form.count)) or max(states, default=-1) >= form.count:
        problem = f"it has states of the plugins {sorted(states)} of {form.count}, and there were {len(old)}"
        raise ValueError(problem)
    return tuple([states[index] if index in states else old[index] for index in range(form.count)])


def _changed_tools(old_state: State, new_state: State) -> ChangedTools:
    """Return the tools that were removed, added or replaced; all tools if the order changed otherwise."""
    old, new = old_state.tools, new_state.tools
    removed = tuple(name for name in old if name not in new)
    tools = {name: attached for name, attached in new.items() if old.get(name) is not attached}
    form = ChangedTools(removed, MappingProxyType(tools))
    if list(_change_tools(old_state, form, {})) == list(new):
        return form
    return ChangedTools(tuple(old), MappingProxyType(dict(new)))


def _change_tools(old: State, form: ChangedTools, _: Changed) -> Mapping[str, AttachedTool]:
    """Return the tools of *old* with the change *form* applied."""
    tools = {name: attached for name, attached in old.tools.items() if name not in form.removed}
    return tools | dict(form.put)


def _changed_turn(old: State, new: State) -> ChangedTurn | UnsetType | None:
    """Return the changed fields of the turn; `None` if none is open, `UNSET` if nothing changed."""
    if new.turn is None:
        return None
    changed = _differing(old.turn or NO_TURN, new.turn)
    return UNSET if old.turn and changed.count(UNSET) == len(changed) else ChangedTurn(*changed)


def _change_turn(old: State, form: ChangedTurn | None, _: Changed) -> Turn | None:
    """Return the turn of *old* with the change *form* applied."""
    return None if form is None else (old.turn or NO_TURN).but(**_set_fields(form))


def _changed_queue(old_state: State, new_state: State) -> tuple[Prompt, ...] | ChangedQueue:
    """Return which prompts were added and removed; the whole queue if the order changed."""
    old, new = old_state.queue, new_state.queue
    had, has = {id(prompt) for prompt in old}, {id(prompt) for prompt in new}
    rest = [prompt for prompt in old if id(prompt) in has]
    if not rest or len({prompt.ref for prompt in old}) < len(old):
        return new
    begin = next(index for index, prompt in enumerate(new) if id(prompt) in had)
    if list(map(id, new[begin : begin + len(rest)])) != list(map(id, rest)):  # the kept prompts are in another order
        return new
    removed = tuple([prompt.ref for prompt in old if id(prompt) not in has])
    return ChangedQueue(removed, new[:begin], new[begin + len(rest) :])


def _change_queue(old: State, form: tuple[Prompt, ...] | ChangedQueue, _: Changed) -> tuple[Prompt, ...]:
    """Return the queue of *old* with the change *form* applied."""
    if not isinstance(form, ChangedQueue):
        return form
    removed = frozenset(form.removed)
    return (*form.first, *[prompt for prompt in old.queue if prompt.ref not in removed], *form.put)


def _changed_timers(old_state: State, new_state: State) -> ChangedTimers:
    """Return which timers were cleared and set; all of them if the order changed."""
    old, new = old_state.timers, new_state.timers
    if not old:
        return ChangedTimers((), new)
    index = next(compress(count(), map(is_not, old, new)), min(len(old), len(new)))
    cleared, rest = old[index : index + 1], old[index + 1 :]
    stop = index + len(rest)
    if new[index:stop] != rest:  # more than one timer was cleared
        has = set(new)
        rest = tuple(filter(has.__contains__, old))
        cleared, stop = tuple(filterfalse(has.__contains__, old)), len(rest)
        if new[:stop] != rest:  # the remaining timers are in another order
            cleared, stop = old, 0
    timers = new[stop:]
    names = dict(timers)
    return ChangedTimers(tuple([name for name, _ in cleared if name not in names]), timers)


def _change_timers(old: State, form: ChangedTimers, _: Changed) -> tuple[tuple[str, int], ...]:
    """Return the timers of *old* with the change *form* applied."""
    removed = {*form.removed, *(name for name, _ in form.put)}
    return (*[timer for timer in old.timers if timer[0] not in removed], *form.put)


def _changed_suspended(old_state: State, new_state: State) -> ChangedSuspended:
    """Return which suspended runs began, changed or ended; all of them if the order changed."""
    old, new, history = old_state.suspended_runs, new_state.suspended_runs, new_state.history
    if not new:
        return NONE_LEFT
    if not old:
        return ChangedSuspended(tuple([_without_messages(run, history) for run in new]))
    had, has = {run.ask_id: run for run in old}, {run.ask_id for run in new}
    ask_ids = [ask_id for ask_id in had if ask_id in has]
    if [run.ask_id for run in new[: len(ask_ids)]] != ask_ids:  # they are in another order
        return ChangedSuspended(tuple([_without_messages(run, history) for run in new]), begins=True)
    runs = tuple([_without_messages(run, history) for run in new if had.get(run.ask_id) is not run])
    return ChangedSuspended(runs, tuple([ask_id for ask_id in had if ask_id not in has]))


def _without_messages(run: Suspension, history: History) -> Suspended:
    """Return *run* with the messages of its hook as ranges of *history*."""
    match run.hook:
        case BeforeRequest() | BeforeCompaction() as hook:
            return Suspended(run.but(hook=hook.but(messages=EMPTY_HISTORY)), rearrange(history, hook.messages))
        case AfterTurn() as hook:
            return Suspended(run.but(hook=hook.but(messages_diff=())), rearrange(history, hook.messages_diff))
        case _:
            return Suspended(run)


def _change_suspended(old: State, form: ChangedSuspended, changed: Changed) -> tuple[Suspension, ...]:
    """Return the suspended runs of *old* with the change *form* applied."""
    history = cast("History", changed.get("history", old.history))
    runs = {} if form.begins else {run.ask_id: run for run in old.suspended_runs}
    for ask_id in form.removed:
        del runs[ask_id]
    runs |= {suspended.run.ask_id: _with_messages(suspended, history) for suspended in form.put}
    return tuple(runs.values())


def _with_messages(form: Suspended, history: History) -> Suspension:
    """Return the suspended run of *form*, with the messages of its hook taken from *history*."""
    if form.messages is None:
        return form.run
    messages = form.messages.of(history)
    if isinstance(form.run.hook, AfterTurn):
        return form.run.but(hook=form.run.hook.but(messages_diff=messages))
    is_same = len(messages) == len(history) and all(map(is_, messages, history))
    return form.run.but(hook=form.run.hook.but(messages=history if is_same else History(messages)))


# For each field that a record does not repeat whole, two functions. The first returns the stored form of the change,
# from the states before and after the step. The second applies a form to the state before the step; it also gets the
# fields that were applied earlier.
_FORMS: Final = cast(
    "Mapping[str, tuple[Callable[[State, State], object], Callable[[State, object, Changed], object]]]",
    MappingProxyType(
        {
            "history": (_grown, _grow),
            "batch": (_changed_batch, _change_batch),
            "plugin_states": (_changed_states, _change_states),
            "tools": (_changed_tools, _change_tools),
            "turn": (_changed_turn, _change_turn),
            "suspended_runs": (_changed_suspended, _change_suspended),
            "queue": (_changed_queue, _change_queue),
            "timers": (_changed_timers, _change_timers),
        }
    ),
)

_MADE: Final = tuple((NAMES.index(name), make) for name, (make, _) in _FORMS.items())
"""The function that makes the form of a field, by the field's place, in the order of `_FORMS`."""

_FORMED: Final = cast("Callable[[list[object]], tuple[object, ...]]", itemgetter(*[index for index, _ in _MADE]))
"""Returns those of the fields that have a form."""

"""What one step changed in the state of a session, as it is stored: `folding` makes it, and applies it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, TypeVar, cast, get_type_hints

from msgspec import UNSET, Struct, UnsetType, defstruct

from agentrail.core.vocabulary.state import (
    NO_TOOLS,
    Attached,
    Prompt,
    State,
    Suspension,
    Turn,
)
from agentrail.core.vocabulary.tool_calls import (
    Batch,
    Call,
)
from agentrail.values.json import EMPTY
from agentrail.values.messages import Message, Rearranged
from agentrail.values.tools import ToolSpec
from agentrail.values.usage import NOTHING_USED
from agentrail.values.value import TAG, Value, defaults_of

V = TypeVar("V", bound=Value)


class ResultOf(Value, tag_field=TAG):
    """The result of a call of the batch before the step, which the step appended to the history."""

    call_id: str
    """Id of the call."""


class Appended(Value, tag_field=TAG):
    """Messages that a step appended to the history."""

    messages: tuple[ResultOf | Message, ...]
    """The messages, in order."""


class SpecOfTool(Value, tag_field=TAG):
    """The description of the session's tool of the call's name, before the step."""


def changes_of(changed: type[Struct]) -> Callable[[type[V]], type[V]]:
    """Return a decorator that adds the fields of *changed*, in their order, each `UNSET` by default.

    A field that the decorated class declares itself keeps its type and default: it is stored in a form of its own.
    """

    def derive(cls: type[V]) -> type[V]:
        own, defaults = get_type_hints(cls), defaults_of(cls)
        hints = {name: hint | UnsetType for name, hint in get_type_hints(changed).items()} | own
        required = own.keys() - defaults.keys()
        fields = [
            (name, hints[name]) if name in required else (name, hints[name], UNSET)
            for name in changed.__struct_fields__
        ]
        namespace = {"__doc__": cls.__doc__}
        made = defstruct(cls.__name__, fields, bases=(Value,), module=cls.__module__, namespace=namespace)
        return cast("type[V]", made)

    return derive


@changes_of(Call)
class ChangedCall(Value):
    """The fields of a call that a step changed, with their new values; the others are `UNSET`."""

    call_id: str
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
    decisions: tuple[tuple[str, bool], ...] | UnsetType = UNSET
    """`Batch.decisions`, if it changed."""
    texts: tuple[tuple[str, str], ...] | UnsetType = UNSET
    """`Batch.texts`, if it changed."""


class ChangedStates(Value):
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


@changes_of(Turn)
class ChangedTurn(Value):
    """The fields of the open turn that a step changed; of a turn that it began, those that differ from `NO_TURN`."""

    if TYPE_CHECKING:  # all fields, as type checkers do not see those that are derived

        def __init__(self, *args: object, **fields: object) -> None: ...

        def __getattr__(self, name: str) -> object: ...


NO_TURN: Final = Turn("", 0, 0, NOTHING_USED, "", EMPTY)
"""The turn that one that begins is compared with."""


class ChangedQueue(Value):
    """Prompts that a step queued or took from the queue; the others keep their order."""

    gone: tuple[str, ...] = ()
    """Ids of the prompts that are no longer in the queue."""
    first: tuple[Prompt, ...] = ()
    """Prompts that were put before those that were there."""
    put: tuple[Prompt, ...] = ()
    """Prompts that were put behind them."""


class ChangedTimers(Value):
    """Timers that a step set or cleared; those that it set come last, in this order."""

    gone: tuple[str, ...] = ()
    """Names of the cleared timers."""
    put: tuple[tuple[str, int], ...] = ()
    """The timers that were set: pairs of name and time."""


class ChangedShown(Value):
    """The messages that the last request showed, if plugins had replaced them."""

    messages: Rearranged | UnsetType = UNSET
    """The messages; `UNSET` if they are those of the request that runs after the step."""
    by: str = ""
    """Key of the plugin that replaced them last."""


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
    gone: tuple[str, ...] = ()
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
    suspended: ChangedSuspended | UnsetType = UNSET
    queue: tuple[Prompt, ...] | ChangedQueue | UnsetType = UNSET
    timers: ChangedTimers | UnsetType = UNSET
    shown: ChangedShown | UnsetType | None = UNSET

    if TYPE_CHECKING:  # all fields, as type checkers do not see those that are derived

        def __init__(self, *args: object, **fields: object) -> None: ...

        def __getattr__(self, name: str) -> object: ...


NO_CHANGE: Final = Change()

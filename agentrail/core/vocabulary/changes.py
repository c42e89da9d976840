"""What one step changed in the state of a session, as it is stored: `folding` makes it, and applies it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import UNSET, UnsetType

from agentrail.core.vocabulary.measure import Altered, Compaction, Measured, Request
from agentrail.core.vocabulary.options import Spare
from agentrail.core.vocabulary.state import (
    NO_TOOLS,
    AskedBy,
    Attached,
    Due,
    Phase,
    PluginChange,
    Prompt,
    Setup,
    Steering,
    Suspension,
    Turn,
)
from agentrail.core.vocabulary.tool_calls import (
    Batch,
    CallStatus,
    Doubt,
    Hold,
    Question,
    Stray,
    Subagent,
)
from agentrail.hooks.attachments import AttachedPlugin
from agentrail.hooks.ruling import Gathered, Place, Section
from agentrail.values.json import EMPTY, JsonObject
from agentrail.values.messages import Message, Rearranged, ToolMessage
from agentrail.values.tools import Err, Ok, Todo, ToolSpec
from agentrail.values.usage import NOTHING_USED, Usage
from agentrail.values.value import TAG, Value


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


class ChangedCall(Value):
    """The fields of a call that a step changed, with their new values; the others are `UNSET`."""

    call_id: str
    name: str | UnsetType = UNSET
    args: JsonObject | UnsetType = UNSET
    status: CallStatus | UnsetType = UNSET
    spec: ToolSpec | SpecOfTool | UnsetType | None = UNSET
    revision: int | UnsetType = UNSET
    refusal: str | UnsetType | None = UNSET
    attempt: int | UnsetType = UNSET
    started_at: int | UnsetType = UNSET
    error: str | UnsetType = UNSET
    notes: tuple[str, ...] | UnsetType = UNSET
    hold: Hold | UnsetType | None = UNSET
    question: Question | UnsetType | None = UNSET
    approved: JsonObject | UnsetType | None = UNSET
    holders: frozenset[str] | UnsetType = UNSET
    place: Place | UnsetType = UNSET
    gathered: Gathered | UnsetType = UNSET
    answer: Ok | Err | UnsetType | None = UNSET
    result: ToolMessage | UnsetType | None = UNSET


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


class ChangedTurn(Value):
    """The fields of the open turn that a step changed; of a turn that it began, those that differ from `NO_TURN`."""

    ref: str | UnsetType = UNSET
    started_at: int | UnsetType = UNSET
    mark: int | UnsetType = UNSET
    used: Usage | UnsetType = UNSET
    model: str | UnsetType = UNSET
    options: JsonObject | UnsetType = UNSET
    attempt: int | UnsetType = UNSET
    last_error: str | UnsetType | None = UNSET
    overflowed: bool | UnsetType = UNSET
    empty: bool | UnsetType = UNSET
    interventions: int | UnsetType = UNSET
    last_call: tuple[str, JsonObject] | UnsetType | None = UNSET
    repeats: int | UnsetType = UNSET
    subjects: tuple[tuple[str, int], ...] | UnsetType = UNSET
    stop: str | UnsetType = UNSET
    ended: str | UnsetType | None = UNSET
    abort_kind: str | UnsetType | None = UNSET
    abort_reason: str | UnsetType | None = UNSET
    deadline_left: int | UnsetType | None = UNSET
    spares: tuple[Spare, ...] | UnsetType = UNSET
    failed_over: int | UnsetType = UNSET
    returns: JsonObject | UnsetType = UNSET
    misfits: int | UnsetType = UNSET
    fits: bool | UnsetType = UNSET
    asked: AskedBy | UnsetType = UNSET
    worked_ms: int | UnsetType = UNSET


NO_TURN: Final = Turn("", 0, 0, NOTHING_USED, "", EMPTY)
"""The turn that one that begins is compared with."""


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


class Change(Value):
    """The fields of a state that one step changed, with their new values; the others are `UNSET`.

    The fields are those of `State`, in the same order. Of those that are large, or grow with the session, only what the
    step changed is written.
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
    sections: tuple[Section, ...] | UnsetType = UNSET
    approved_always: frozenset[tuple[str, str]] | UnsetType = UNSET
    queue: tuple[Prompt, ...] | UnsetType = UNSET
    steering: tuple[Steering, ...] | UnsetType = UNSET
    taking: Prompt | UnsetType | None = UNSET
    turn: ChangedTurn | UnsetType | None = UNSET
    batch: Batch | ChangedCalls | UnsetType | None = UNSET
    request: Request | UnsetType | None = UNSET
    compaction: Compaction | UnsetType | None = UNSET
    compact_wanted: str | UnsetType | None = UNSET
    due: tuple[Due, ...] | UnsetType = UNSET
    suspended: ChangedSuspended | UnsetType = UNSET
    quarantined: tuple[Stray, ...] | UnsetType = UNSET
    lingering: tuple[Stray, ...] | UnsetType = UNSET
    notices: tuple[str, ...] | UnsetType = UNSET
    in_doubt: tuple[Doubt, ...] | UnsetType = UNSET
    timers: ChangedTimers | UnsetType = UNSET
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
    found: tuple[str, ...] | UnsetType = UNSET
    elsewhere: Usage | UnsetType = UNSET
    title: str | UnsetType = UNSET
    labels: tuple[str, ...] | UnsetType = UNSET
    measured: Measured | UnsetType | None = UNSET
    altered: tuple[Altered, ...] | UnsetType = UNSET
    shown: ChangedShown | UnsetType | None = UNSET
    compact_by: str | UnsetType = UNSET
    crowded: int | UnsetType = UNSET
    by_tool: bool | UnsetType | None = UNSET
    worked_ms: int | UnsetType = UNSET
    working_since: int | UnsetType | None = UNSET
    worked_elsewhere: int | UnsetType = UNSET


NO_CHANGE: Final = Change()

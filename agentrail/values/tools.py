"""Descriptions of tools (`ToolSpec`), the values that tools return, and what a person has approved for always."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from functools import cached_property
from typing import Protocol, TypeAlias

from msgspec.structs import force_setattr

from agentrail.values.content import Part, as_parts, text_of
from agentrail.values.json import EMPTY, JsonObject, freeze_object, weight
from agentrail.values.personal import Kept, Personal, ToolName
from agentrail.values.untrusted_values import as_seconds
from agentrail.values.value import TAG, Authored, Value, quick


class EffectClass(Enum):
    """What happens if an interrupted call of a tool is run again, and so whether it may be.

    `PURE` has no effects; `IDEMPOTENT` has the same effect as running once; `CHECKABLE` has a probe that tells what the
    first run did; `UNSAFE` might take effect twice, so the session does not run it again.
    """

    PURE = "pure"
    IDEMPOTENT = "idempotent"
    CHECKABLE = "checkable"
    UNSAFE = "unsafe"


CAN_RUN_AGAIN = frozenset({EffectClass.PURE, EffectClass.IDEMPOTENT})
"""The effects of calls that may be made again."""


def cut_time(value: float) -> float:
    """Return *value*, a time in seconds, cut to ten years; an invalid time is returned unchanged, and refused later."""
    plain = as_seconds(value)
    return value if plain is None else plain


class ToolSpec(Authored, tag_field=TAG, dict=True, gc=True):  # msgspec wants `gc` beside `dict`, which keeps `size`
    """Description of a tool: everything but its code."""

    name: Kept[str]
    """Name by which the model calls the tool."""
    description: Kept[str]
    """Description for the model."""
    parameters: Kept[JsonObject] = EMPTY
    """JSON Schema of the tool's arguments."""
    timeout: float = 60.0
    """Seconds that a call may run before it is cancelled; waits for a person or for other calls do not count.

    Longer than ten years counts as ten years.
    """
    immune: bool = False
    """Whether steering and a default abort leave its calls running."""
    parallel: bool = True
    """Whether calls of the tool may run while other calls run."""
    effect: EffectClass = EffectClass.UNSAFE
    """What happens if an interrupted call is run again."""
    subject: Kept[str | tuple[str, ...] | None] = None
    """Arguments that say what a call is about, by name, to detect loops; those after the first say which part of it."""
    requires: Kept[frozenset[str]] = frozenset()
    """Names of what the tool uses, such as `files`, `shell`, `network`; plugins may decide by that."""
    max_result_chars: int = 30_000
    """The most characters of a result that the model sees; a longer one is cut."""
    deferred: bool = False
    """Whether the model gets only the name of the tool until it has found it with `find_tools`."""
    elsewhere: bool = False
    """Whether its calls are made elsewhere: each waits, at most for `timeout`, for what `session.result` gives it."""
    result: Kept[JsonObject] = EMPTY
    """JSON Schema of an object that a result from elsewhere must be; empty: any result will do."""
    retries: int | None = None
    """How often a call that raised is run again; `None`: as often as `tool_max_retries` of the session says.

    Only a `pure` or `idempotent` tool may have retries. Each attempt has the whole `timeout`.
    """
    wait: float = 0.0
    """Seconds between a failed attempt and the next one."""

    def __post_init__(self) -> None:
        force_setattr(self, "parameters", freeze_object(self.parameters))
        force_setattr(self, "result", freeze_object(self.result))
        force_setattr(self, "timeout", cut_time(self.timeout))

    @cached_property
    def size(self) -> int:
        """Approximate number of characters that the model reads of the tool: its name, description and schema.

        It is measured once, because a schema takes long to measure, and each round asks for it.
        """
        return len(self.name) + len(self.description) + weight(self.parameters)


class HasSpec(Protocol):
    """An object with the description of a tool."""

    @property
    def spec(self) -> ToolSpec:
        """Description of the tool."""
        ...


class Ok(Authored, tag_field=TAG):
    """Result of a tool that succeeded."""

    content: tuple[Part, ...]
    """Content for the model."""
    details: Personal[JsonObject | None] = None
    """Data for programs; the model never sees it."""


class Err(Authored, tag_field=TAG):
    """Result of a tool that failed; the model reads why, so that it can correct itself."""

    content: tuple[Part, ...]
    """Content for the model."""
    details: Personal[JsonObject | None] = None
    """Data for programs; the model never sees it."""


class Todo(Authored):
    """An item of the session's list of things to do."""

    text: Personal[str]
    """Text of the item."""
    status: Kept[str] = "pending"
    """`pending`, `in_progress` or `done`."""


class SetTodos(Authored, tag_field=TAG):
    """Effect of a tool: replace the session's list of things to do."""

    todos: tuple[Todo, ...]
    """The whole new list."""


class AskPerson(Authored, tag_field=TAG):
    """Effect of a tool: ask a person a question; the call waits for the answer."""

    question: Personal[str]
    """Text of the question."""
    options: Personal[tuple[str, ...]] = ()
    """Answers to choose from; empty if the answer is free text."""
    resume: Personal[JsonObject | None] = None
    """State with which the tool runs again once a person has answered; `None` if the answer is the call's result."""


class PersonAnswer(Authored):
    """A person's answer, for a tool that runs again to go on with it: `ToolContext.person_answer`."""

    state: Personal[JsonObject]
    """`AskPerson.resume` of the question."""
    answer: Personal[str]
    """The answer."""


class CompactNow(Authored, tag_field=TAG):
    """Effect of a tool: compact the context before the next request."""

    reason: Personal[str] = "asked by the model"
    """Why the context is to be compacted, for events."""


class ActingAgent(Authored):
    """The agent that a session was handed to: the texts and the form that hold in place of those of `spawn`."""

    name: Kept[str]
    """Name of the agent's specification."""
    system: Kept[str] = ""
    """The user layer of the system prompt."""
    returns: Kept[JsonObject] = EMPTY
    """The JSON Schema of an object that each answer must fit, if its prompt has no other; empty: answers are text."""


class HandOver(Authored, tag_field=TAG):
    """Effect of a tool of `SessionSpec.handoffs`: once all calls have results, another agent goes on.

    It has all that the session takes from the other agent, so that records can be read without that agent's code.
    """

    agent: ActingAgent
    """The agent that goes on."""
    tools: tuple[ToolSpec, ...] = ()
    """Its tools."""
    leaves: Kept[tuple[str, ...]] = ()
    """Names of the tools of the agent that hands over; tools that its specification does not name stay."""
    revision: int = 0
    """Revision of the tools."""
    models: tuple[tuple[Kept[str], Kept[JsonObject]], ...] = ()
    """Its models with their options, in order; empty if it goes on with the model in use."""
    priced: Kept[frozenset[str]] = frozenset()
    """Those of the models whose price is known."""
    history: Kept[str] = "all"
    """The messages that it sees: `all`, those of the open `turn`, or a `summary` of them."""


ToolEffect: TypeAlias = SetTodos | AskPerson | CompactNow | HandOver


class Effect(Authored, tag_field=TAG):
    """Result of a tool that asks the session to do something; the model sees a short fixed text."""

    effect: ToolEffect
    """What the session is to do."""


ToolResult: TypeAlias = Ok | Err | Effect


class NotStarted(Authored, tag_field=TAG):
    """Result of a probe: the call has done nothing, so it may run."""


class Unknown(Authored, tag_field=TAG):
    """Result of a probe: the tool cannot tell whether the call has done anything."""


Probed: TypeAlias = Ok | Err | NotStarted | Unknown
"""Result of a probe: the call's result, `NotStarted`, or `Unknown`."""


_ok = quick(Ok)


def ok(content: str | Sequence[Part], details: JsonObject | None = None) -> Ok:
    """Return `Ok` with text or parts."""
    return _ok(as_parts(content), details)


def err(content: str | Sequence[Part], details: JsonObject | None = None) -> Err:
    """Return `Err` with text or parts."""
    return Err(as_parts(content), details)


def result_text(result: Ok | Err) -> str:
    """Return the text of *result*, with JSON values as JSON text, and without images and details."""
    return text_of(result.content)


class StandingApproval(Value):
    """An approval for always: later calls of its kind run without being held."""

    tool: ToolName
    """Name of the tool."""
    command_family: Personal[str]
    """Command family of the calls."""
    by: Kept[str] = ""
    """Id of the user who approved; empty if it was given without one."""
    at_ms: int = 0
    """When it was given, in milliseconds since 1970; 0 if its record is older than this field."""

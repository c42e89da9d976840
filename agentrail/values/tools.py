"""What a tool is and what it answers, as values."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import TypeAlias

import attrs

from agentrail.values.content import Part, as_parts, text_of
from agentrail.values.foreign import seconds
from agentrail.values.json import EMPTY, JsonObject, freeze_object
from agentrail.values.value import Authored, Value, value


class EffectClass(Enum):
    """What running a tool again would mean."""

    PURE = "pure"
    IDEMPOTENT = "idempotent"
    CHECKABLE = "checkable"
    UNSAFE = "unsafe"


def cut_time(found: float) -> float:
    """Return a time that is a number, cut to ten years; of anything else whoever declares a tool is told."""
    plain = seconds(found)
    return found if plain is None else plain


@value
class ToolSpec(Authored):
    """Everything about a tool but its code."""

    name: str
    """What the model calls it."""
    description: str
    """What the model reads about it."""
    parameters: JsonObject = attrs.field(default=EMPTY, converter=freeze_object)
    """The JSON Schema of its arguments."""
    timeout: float = attrs.field(default=60.0, converter=cut_time)
    """Seconds it may run; more than ten years are cut to that."""
    immune: bool = False
    """Whether steering and a default abort leave it alone."""
    parallel: bool = True
    """Whether it may run beside other calls."""
    effect: EffectClass = EffectClass.UNSAFE
    """What running it again would mean."""
    subject: str | tuple[str, ...] | None = None
    """Which argument names what it is about; of several, those behind the first say which part of that."""
    requires: frozenset[str] = frozenset()
    """What it touches, such as `files`, `shell`, `network`."""
    max_result_chars: int = 30_000
    """How much text of a result the model sees."""


@value
class Ok(Value):
    """The tool did it."""

    content: tuple[Part, ...]
    """What the model sees."""
    details: JsonObject | None = None
    """For programs; the model never sees it."""


@value
class Err(Value):
    """The tool could not do it; the model may correct itself."""

    content: tuple[Part, ...]
    """What the model sees."""
    details: JsonObject | None = None
    """For programs; the model never sees it."""


@value
class Todo(Authored):
    """One thing to do."""

    text: str
    """What is to be done."""
    status: str = "pending"
    """`pending`, `in_progress` or `done`."""


@value
class SetTodos(Authored):
    """The session's list of things to do becomes this one."""

    todos: tuple[Todo, ...]
    """The whole list."""


@value
class AskPerson(Authored):
    """The person is asked; the call waits for the answer."""

    question: str
    """What is asked."""
    options: tuple[str, ...] = ()
    """Answers to choose from; empty: free text."""


@value
class CompactNow(Authored):
    """The context is compacted before the next request."""

    reason: str = "asked by the model"
    """Why."""


ToolEffect: TypeAlias = SetTodos | AskPerson | CompactNow


@value
class Effect(Authored):
    """The tool wants the session to do something; the model sees a short fixed text."""

    effect: ToolEffect
    """What the session is to do."""


ToolResult: TypeAlias = Ok | Err | Effect


@value
class NotStarted(Value):
    """A probe found that the call has done nothing: it may run."""


@value
class Unknown(Value):
    """A probe could not find out whether the call has done anything."""


Probed: TypeAlias = Ok | Err | NotStarted | Unknown
"""What has become of a call: its result, nothing, or nobody knows."""


def ok(content: str | Sequence[Part], details: JsonObject | None = None) -> Ok:
    """Return `Ok` with text or parts."""
    return Ok(as_parts(content), details)


def err(content: str | Sequence[Part], details: JsonObject | None = None) -> Err:
    """Return `Err` with text or parts."""
    return Err(as_parts(content), details)


def result_text(result: Ok | Err) -> str:
    """Return the text of *result*."""
    return text_of(result.content)

"""What a plugin may ask the world for, and the answers."""

from __future__ import annotations

from typing import TypeAlias

from agentrail.values.json import EMPTY, Json, JsonObject
from agentrail.values.value import Authored, Value, value


@value
class CallModel(Authored):
    """Ask a model something, outside the conversation."""

    prompt: str
    """What to ask."""
    model: str | None = None
    """Which model; `None`: the session's."""
    system: str = ""
    """The system prompt of the question."""


@value
class RunTool(Authored):
    """Run one of the session's tools."""

    name: str
    """Which tool."""
    args: JsonObject = EMPTY
    """With which arguments."""


@value
class ReadFile(Authored):
    """Read a text file below the working directory."""

    path: str
    """Which file."""


@value
class CallService(Authored):
    """Call a service that was given to the session."""

    name: str
    """Which service."""
    payload: Json = None
    """What it gets."""


AskRequest: TypeAlias = CallModel | RunTool | ReadFile | CallService


@value
class Answered(Value):
    """It was done."""

    value: Json
    """What came of it: the text of a model, tool or file, or a service's answer."""


@value
class Failed(Value):
    """It could not be done."""

    error: str
    """Why."""


@value
class TimedOut(Value):
    """It was not done before the deadline."""

    seconds: float
    """How long it was waited for."""


AskAnswer: TypeAlias = Answered | Failed | TimedOut

"""What can be said: text, images, data and thoughts, and calls to tools."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from agentrail.errors import WrongType
from agentrail.values.json import EMPTY, Json, JsonObject
from agentrail.values.value import Value, value


@value
class Text(Value):
    """Plain text."""

    text: str
    """The text."""


@value
class Image(Value):
    """A picture."""

    media_type: str
    """Its type, such as `image/png`."""
    data: str
    """The bytes in base64."""


@value
class Data(Value):
    """A JSON value."""

    data: Json
    """The value."""


@value
class Thinking(Value):
    """What the model thought before it spoke."""

    text: str
    """The thought."""
    signature: str | None = None
    """The provider's seal, needed to send it back."""


@value
class ToolCall(Value):
    """The model asks for a tool."""

    call_id: str
    """The session's own id, unique in the session."""
    name: str
    """Which tool."""
    args: JsonObject = EMPTY
    """Its arguments."""
    provider_id: str = ""
    """The provider's id, kept for the wire."""


Part: TypeAlias = Text | Image | Data
Said: TypeAlias = Text | Thinking


def text_of(parts: Iterable[Part | Said]) -> str:
    """Return the text among *parts*, joined."""
    return "".join([part.text for part in parts if type(part) is Text])


def as_parts(given: str | Iterable[Part]) -> tuple[Part, ...]:
    """Return *given*, text or parts, as parts."""
    try:
        return (Text(given),) if isinstance(given, str) else tuple(given)
    except TypeError as error:
        raise WrongType.of("content", given, "text, or a list of parts") from error

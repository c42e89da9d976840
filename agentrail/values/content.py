"""Content of messages: text, images, JSON, thoughts and tool calls."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias, TypeVar

from agentrail.errors import WrongType
from agentrail.values.json import EMPTY, Json, JsonObject, canonical
from agentrail.values.value import TAG, Authored, quick


class Text(Authored, tag_field=TAG):
    """Plain text."""

    text: str
    """The text."""


class Image(Authored, tag_field=TAG):
    """An image."""

    media_type: str
    """Media type, such as `image/png`."""
    data: str
    """The image's bytes in base64."""


class Data(Authored, tag_field=TAG):
    """A JSON value."""

    data: Json
    """The value."""


class Thinking(Authored, tag_field=TAG):
    """Thoughts (reasoning) of the model."""

    text: str
    """Text of the thoughts."""
    signature: str | None = None
    """Signature of the provider, needed to send the thoughts back."""


class ToolCall(Authored):
    """A tool call that the model asks for."""

    call_id: str
    """Id of the call, unique in the session."""
    name: str
    """Name of the tool."""
    args: JsonObject = EMPTY
    """Arguments of the call."""
    provider_id: str = ""
    """Id that the provider gave the call, needed when the result is sent back."""
    via: str = ""
    """Name of the tool through which the model made the call (`call_tool`); empty if it called the tool itself."""


Part: TypeAlias = Text | Image | Data
Said: TypeAlias = Text | Thinking

P = TypeVar("P")

_text = quick(Text)


def text_of(parts: Iterable[Part | Said]) -> str:
    """Return the texts and the JSON of *parts*, joined; images and thoughts are left out."""
    if isinstance(parts, tuple) and len(parts) == 1 and type(part := parts[0]) is Text:
        return part.text  # the usual case, for speed
    return "".join(
        [part.text if type(part) is Text else canonical(part.data) if type(part) is Data else "" for part in parts]
    )


def with_text(parts: Iterable[P], text: str) -> tuple[P | Text, ...]:
    """Return *parts* with *text* in place of their texts and JSON, where the first of them was, else at the end."""
    there = tuple(parts)
    kept = [isinstance(part, Image | Thinking) for part in there]
    place = kept.index(False) if False in kept else len(there)
    after = [part for part, stays in zip(there[place:], kept[place:], strict=True) if stays]
    return (*there[:place], _text(text), *after)


def in_words(part: Part) -> str:
    """Return *part* as text for people; an image is only mentioned."""
    return "(an image)" if isinstance(part, Image) else text_of((part,))


def as_parts(given: str | Iterable[Part]) -> tuple[Part, ...]:
    """Return *given* as a tuple of parts; a text becomes one part."""
    try:
        return (_text(given),) if isinstance(given, str) else tuple(given)
    except TypeError as error:
        raise WrongType.of("content", given, "text, or a list of parts") from error

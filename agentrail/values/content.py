"""Content of messages: text, images, files, JSON, thoughts and tool calls."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final, TypeAlias, TypeVar

from agentrail.errors import WrongType
from agentrail.values.json import EMPTY, Json, JsonObject, canonical, is_same
from agentrail.values.personal import Kept, Personal, ToolName
from agentrail.values.value import TAG, Authored, quick

URLS: Final = ("https://", "http://", "gs://")
"""Beginnings of references that need no provider."""


MAX_MEMORY: Final = 64 * 1024
"""The most bytes of a memory file that the model gets, in UTF-8, with the mark of a cut."""


class Text(Authored, tag_field=TAG):
    """Plain text."""

    text: Personal[str]
    """The text."""


class Image(Authored, tag_field=TAG):
    """An image."""

    media_type: Kept[str]
    """Media type, such as `image/png`."""
    data: Personal[str]
    """The image's bytes in base64."""


class File(Authored, tag_field=TAG):
    """A file for the model to read, such as a PDF: its bytes, or where the provider gets them.

    It has either `data` or a `reference`: a URL, or with `provider` the id of a file that was uploaded there.
    """

    media_type: Kept[str]
    """Media type, such as `application/pdf`."""
    data: Personal[str] = ""
    """The file's bytes in base64; empty if there is a reference."""
    reference: Personal[str] = ""
    """URL of the file, or its id at the provider; empty if there are bytes."""
    name: Personal[str] = ""
    """Name of the file."""
    provider: Kept[str] = ""
    """The provider that the file was uploaded to, such as `anthropic`; empty if the reference is a URL."""

    @property
    def problem(self) -> str | None:
        """Reason why no provider can take the file; `None` if one can."""
        if not self.media_type:
            return "a `File` without a media type"
        if bool(self.data) == bool(self.reference):
            return "a `File` with both bytes and a reference" if self.data else "a `File` without bytes or a reference"
        if self.provider and self.data:
            return "a `File` with bytes, and a provider that has it"
        if self.reference and not self.provider and not self.reference.startswith(URLS):
            return "a `File` whose reference is no URL, without the provider that has it"
        return None


class Data(Authored, tag_field=TAG):
    """A JSON value; two are equal if they are the same JSON."""

    data: Personal[Json]
    """The value."""

    def __eq__(self, other: object) -> bool:
        return is_same(self.data, other.data) if type(other) is Data else NotImplemented

    def __ne__(self, other: object) -> bool:  # msgspec's own would not call `__eq__`
        return not is_same(self.data, other.data) if type(other) is Data else NotImplemented

    def __hash__(self) -> int:
        return hash((Data, self.data))


class Thinking(Authored, tag_field=TAG):
    """Thoughts (reasoning) of the model."""

    text: Personal[str]
    """Text of the thoughts."""
    signature: Personal[str | None] = None
    """Signature of the provider, needed to send the thoughts back."""


class ToolCall(Authored):
    """A tool call that the model asks for."""

    call_id: Kept[str]
    """Id of the call, unique in the session."""
    name: ToolName
    """Name of the tool."""
    args: Personal[JsonObject] = EMPTY
    """Arguments of the call."""
    provider_id: Kept[str] = ""
    """Id that the provider gave the call, needed when the result is sent back."""
    via: ToolName = ""
    """Name of the tool through which the model made the call (`call_tool`); empty if it called the tool itself."""


Part: TypeAlias = Text | Image | File | Data
Said: TypeAlias = Text | Thinking
PromptContent: TypeAlias = str | Iterable[Part]
"""A prompt as a caller gives it: its text, or its parts."""

P = TypeVar("P")

_text = quick(Text)


def text_of(parts: Iterable[Part | Said]) -> str:
    """Return the texts and the JSON of *parts*, joined; images, files and thoughts are left out."""
    if isinstance(parts, tuple) and len(parts) == 1 and type(part := parts[0]) is Text:
        return part.text  # a single text is the usual case, and this is faster
    return "".join(
        [part.text if type(part) is Text else canonical(part.data) if type(part) is Data else "" for part in parts]
    )


def with_text(parts: Iterable[P], text: str) -> tuple[P | Text, ...]:
    """Return *parts* with *text* in place of all texts and JSON: where the first of them was, or else at the end."""
    old_parts = tuple(parts)
    stay = [isinstance(part, Image | File | Thinking) for part in old_parts]
    index = stay.index(False) if False in stay else len(old_parts)
    after = [part for part, stays in zip(old_parts[index:], stay[index:], strict=True) if stays]
    return (*old_parts[:index], _text(text), *after)


MAX_PARTS: Final = 10_000
"""The most parts that a tool's result may have: an iterator may never end."""

PARTS_WANTED: Final = "text, or a list of parts"


def in_words(part: Part) -> str:
    """Return *part* as text for people; an image or a file is only mentioned."""
    if isinstance(part, File):
        return f"(the file {part.name})" if part.name else "(a file)"
    return "(an image)" if isinstance(part, Image) else text_of((part,))


def quoted(text: str) -> str:
    """Return *text* with `> ` before each line, so that it cannot be mistaken for the words of somebody else."""
    return "\n".join(f"> {line}" for line in text.splitlines())


def as_parts(content: str | Iterable[Part]) -> tuple[Part, ...]:
    """Return *content* as a tuple of parts; a text becomes one part."""
    if isinstance(content, str):
        return (_text(content),)
    try:
        parts = tuple(islice(content, MAX_PARTS + 1))
    except TypeError as error:
        raise WrongType.of("content", content, PARTS_WANTED) from error
    if len(parts) > MAX_PARTS:
        raise WrongType("content", f"more than {MAX_PARTS} parts", PARTS_WANTED)
    return parts


def memory_text(content: str | bytes, size: int | None = None) -> str:
    """Return the content of a memory file as the model gets it: at most `MAX_MEMORY` bytes, with a mark if it is cut.

    *size* is the size of the whole file in bytes, if *content* is only its beginning. Bytes that are not UTF-8 become
    replacement characters.
    """
    data = content.encode(errors="replace") if isinstance(content, str) else content
    file_size = len(data) if size is None else size
    text = data[: MAX_MEMORY + 1].decode(errors="replace").removeprefix("\ufeff")
    if file_size <= MAX_MEMORY and len(text.encode()) <= MAX_MEMORY:
        return text
    mark = f"\n\n[cut here: the file has {file_size} bytes, and at most {MAX_MEMORY} of it are shown]"
    beginning = text.encode()[: MAX_MEMORY - len(mark)].decode(errors="ignore")
    line_end = beginning.rfind("\n")
    return (beginning if line_end < len(beginning) // 2 else beginning[:line_end]) + mark

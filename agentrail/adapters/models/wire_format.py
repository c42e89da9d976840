"""The record `WireFormat`: how the requests of one API are written, its answers decoded and its errors understood.

A wire format does no I/O and keeps no state. `RemoteModel` sends the request that `render` returns, and passes the
events of each answer to a new `Decoder`.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol, cast

from agentrail.adapters.models.provider_errors import Faults
from agentrail.adapters.models.settings import Settings
from agentrail.adapters.models.sse import EventReader, ServerEvent
from agentrail.errors import NotJson, StreamGarbled
from agentrail.values.content import File, Image, Part, Text
from agentrail.values.json import EMPTY, JsonObject, freeze_object
from agentrail.values.stream import Chunk, ModelRequest, Response
from agentrail.values.value import Value

LARGEST = 2**40
"""The largest count of tokens that is believed; a larger one counts as 0."""

NO_HEADERS: Mapping[str, str] = MappingProxyType({})

SHOWN = 200
"""The most characters of unreadable data that an error shows."""


PDF: Final = "application/pdf"
ANY: Final = ""
"""Prefix of all media types."""

ALIKE: Final[tuple[frozenset[str], ...]] = (frozenset({"openai", "openai-chat"}), frozenset({"azure", "azure-chat"}))
"""Providers that have the same files."""

UNTAKEN: Final = "[{kind} ({what}) cannot be shown to you: {why}]"
"""The text that stands in place of a part that a model does not take, as after a switch of models."""

KINDS: Final = {"image/": "images", PDF: "PDFs"}
"""What is said of a prefix of media types that a model does not take."""

WRITTEN: Final = "[the file {name}]\n{text}"
"""The text that stands in place of a text file, for an API that takes none."""

TEXTS: Final = "text/"
"""Prefix of the media types of text files, whose bytes every API takes: as text if it knows no files."""

UNREAD: Final = "(its bytes are no base64)"
"""The text of a text file that cannot be read."""

A_FILE: Final = "(the file follows)"
"""The text of a result without a text, whose files the API takes only after the results."""

AN_IMAGE: Final = "(the image follows)"
"""The text of a result of images alone, which the API takes only after the results."""


class Rendered(Value):
    """An HTTP request for a provider, without the API key."""

    path: str
    """The part of the URL after `base_url`, with the query if there is one."""
    body: JsonObject
    """The body, without the fields of the option `extra`."""
    headers: Mapping[str, str] = NO_HEADERS
    """Headers that the wire format demands."""


class Takes(Value):
    """The files and images that a model takes: those that its API takes, but some."""

    data: tuple[str, ...] = ()
    """Prefixes of the media types of files that it takes by their bytes."""
    urls: tuple[str, ...] = ()
    """Prefixes of the media types of files that it takes by their URL."""
    ids: bool = False
    """Whether it takes files that were uploaded to it, by their ids."""
    untaken: tuple[str, ...] = ()
    """Prefixes of media types that the model does not take, though its API does."""
    model: str = ""
    """The model, if something is known that it does not take."""
    instead: str = ""
    """A model of the provider that takes what this one does not; empty if none is known."""

    def why_not(self, part: File | Image, provider: str) -> str | None:
        """Return why the model of *provider* does not take *part*; `None` if it does."""
        kind = next((prefix for prefix in self.untaken if part.media_type.startswith(prefix)), None)
        if kind is not None:
            other = f", `{provider}:{self.instead}` does" if self.instead else ""
            return f"`{self.model}` takes no {KINDS[kind]}{other}"
        return None if isinstance(part, Image) else self._why_not_file(part, provider)

    def _why_not_file(self, file: File, provider: str) -> str | None:
        if file.data and file.media_type.startswith(TEXTS):
            return None
        if not self.data:
            return f"`{provider}` takes no files"
        if file.provider:
            if file.provider != provider and not any({file.provider, provider} <= both for both in ALIKE):
                return f"it was uploaded to `{file.provider}`, and `{provider}` is asked"
            return None if self.ids else f"`{provider}` takes no files by their ids"
        prefixes = self.urls if file.reference else self.data
        if file.media_type.startswith(prefixes):
            return None
        how = "by a URL" if file.reference else "by their bytes"
        return f"`{provider}` takes {_join_prefixes(prefixes)} {how}"


class StreamReader(Protocol):
    """Parses the bytes of one stream into events, without I/O."""

    def feed(self, piece: bytes) -> Sequence[ServerEvent]:
        """Take the next *piece* of the stream, and return the events that it completes.

        Raise `StreamGarbled` for bytes that do not follow the format.
        """
        ...

    def end(self) -> Sequence[ServerEvent]:
        """Finish the stream; return its last event if only the end of the stream completes it."""
        ...


class Decoder(Protocol):
    """Decodes the events of one answer into chunks, and puts the whole `Response` together."""

    def feed(self, event: ServerEvent) -> Sequence[Chunk]:
        """Take the next event and return its chunks, which are the same for all providers.

        Raise `StreamGarbled` for an event that does not follow the format, and another `ModelError` for an error that
        the provider reports.
        """
        ...

    @property
    def complete(self) -> bool:
        """Whether the last event of the answer has arrived; data after it is ignored."""
        ...

    def response(self) -> Response:
        """Return the whole answer; raise `StreamEndedEarly` if its end has not arrived."""
        ...


def bearer(key: str) -> Mapping[str, str]:
    """Return the HTTP headers that carry the API key, as most providers want it."""
    return {"authorization": f"Bearer {key}"}


def given_form(request: ModelRequest, _provider: str, _model: str) -> JsonObject | None:
    """Return the schema of the answer as it is."""
    return request.returns


def always_demands(_provider: str, _model: str, _settings: Settings) -> bool:
    """Whether a request can demand the call of one tool: always."""
    return True


class WireFormat(NamedTuple):
    """The API of one kind of provider: how requests are written, answers decoded and errors understood."""

    faults: Faults
    """The provider's error codes with our exceptions; `provider_errors` looks errors up there."""
    render: Callable[[ModelRequest, str, str, Settings], Rendered]
    """Returns a request as an HTTP request, of a provider and a model by its name without the provider."""
    decoder: Callable[[], Decoder]
    """Returns a new decoder for the events of one answer."""
    takes: Callable[[str, str], Takes]
    """Returns which files and images a model of a provider takes."""
    form: Callable[[ModelRequest, str, str], JsonObject | None] = given_form
    """Returns the schema of the answer as a model takes it in place of `response_format`, or `None`.

    `None` if the model takes none, or not this one, or none beside the tools of the request: then the answer comes by a
    tool.
    """
    demands: Callable[[str, str, Settings], bool] = always_demands
    """Whether a request can demand the call of one tool."""
    key_headers: Callable[[str], Mapping[str, str]] = bearer
    """Returns the HTTP headers that carry the API key."""
    reader: Callable[[], StreamReader] = EventReader
    """Returns a new reader, which parses the bytes of one answer into events."""


def object_of(data: str) -> Mapping[str, object]:
    """Return the JSON object in *data*, or raise `StreamGarbled`."""
    try:
        parsed: object = json.loads(data)
    except (ValueError, RecursionError):
        problem = f"an event is no JSON: {data!r:.{SHOWN}}"
        raise StreamGarbled(problem) from None
    if not isinstance(parsed, dict):
        problem = f"an event is no object: {data!r:.{SHOWN}}"
        raise StreamGarbled(problem)
    return cast("Mapping[str, object]", parsed)


def sub(value: object, key: str) -> Mapping[str, object]:
    """Return the JSON object under *key* of *value*; an empty one if there is none."""
    item = cast("Mapping[str, object]", value).get(key) if isinstance(value, Mapping) else None
    return cast("Mapping[str, object]", item) if isinstance(item, Mapping) else {}


def text(fields: Mapping[str, object], key: str) -> str:
    """Return the text under *key* of *fields*; an empty text if there is none."""
    item = fields.get(key)
    return item if isinstance(item, str) else ""


def index_of(fields: Mapping[str, object], key: str = "index") -> int | str | None:
    """Return the index under *key* of *fields*; `None` if there is none, or it is no whole number or text.

    Decoders use the index as a key of a dictionary. A server that imitates another may send an object there, which is
    not hashable.
    """
    index = fields.get(key)
    return index if isinstance(index, int | str) else None


def count(fields: Mapping[str, object], key: str) -> int:
    """Return the count of tokens under *key* of *fields*; 0 if there is none, or it is negative or above `LARGEST`."""
    item = fields.get(key)
    return item if isinstance(item, int) and not isinstance(item, bool) and 0 < item <= LARGEST else 0


def arguments(text_: str) -> JsonObject:
    """Return the arguments of a tool call from the JSON *text_* by the model; an empty text or `null` means none.

    Text that is no JSON object, or one with too many levels or items, becomes `{"": text}`. The check of the arguments
    then fails, and the model gets the reason as the result, so that it can correct itself.
    """
    if text_.strip() in {"", "null"}:
        return EMPTY
    try:
        parsed: object = json.loads(text_)
    except (ValueError, RecursionError):
        parsed = None
    if isinstance(parsed, dict):
        try:
            return freeze_object(cast("object", parsed))
        except NotJson:
            pass
    return freeze_object({"": text_})


# Files


def _join_prefixes(prefixes: tuple[str, ...]) -> str:
    return f"only files of {' and '.join(f'`{prefix}`' for prefix in prefixes)}" if prefixes else "no files"


def accepted_part(part: Part, takes: Takes, provider: str) -> Part:
    """Return *part*, or a text in its place if it is a file or image that the model of *provider* does not take."""
    if not isinstance(part, File | Image):
        return part
    why, is_file = takes.why_not(part, provider), isinstance(part, File)
    if why is not None:
        name = part.name or part.reference if isinstance(part, File) else ""
        what = ", ".join(filter(None, (part.media_type, name)))
        return Text(UNTAKEN.format(kind="a file" if is_file else "an image", what=what, why=why))
    if isinstance(part, File) and part.data and not part.media_type.startswith(takes.data or (PDF,)):
        return Text(WRITTEN.format(name=part.name, text=text_in(part)))
    return part


def text_in(file: File) -> str:
    """Return the bytes of *file* as text; what is no UTF-8 is replaced."""
    try:
        return b64decode(file.data).decode(errors="replace")
    except ValueError:
        return UNREAD

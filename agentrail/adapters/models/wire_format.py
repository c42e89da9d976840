"""`WireFormat`: the part of a model that differs per provider: it renders requests, decodes answers, and maps errors.

A format renders a request and decodes the events of the answer. It does no I/O, waits for nothing and keeps nothing:
`RemoteModel` sends what `render` returns, and feeds a fresh `Decoder` with the events as they come.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Protocol, cast

from agentrail.adapters.models.provider_errors import Faults
from agentrail.adapters.models.settings import Settings
from agentrail.adapters.models.sse import ServerEvent
from agentrail.errors import NotJson, StreamGarbled
from agentrail.values.json import EMPTY, JsonObject, freeze_object
from agentrail.values.stream import Chunk, ModelRequest, Response
from agentrail.values.value import Value, value

LARGEST = 2**40
"""A count of tokens above it is none."""

NO_HEADERS: Mapping[str, str] = MappingProxyType({})

SHOWN = 200
"""Characters of what cannot be read that an error shows."""


@value
class Rendered(Value):
    """An HTTP request for a provider, without the API key."""

    path: str
    """Path after `base_url`, with a query if there is one."""
    body: JsonObject
    """The body; `extra` is not in it yet."""
    headers: Mapping[str, str] = NO_HEADERS
    """Headers that the format wants."""


class Decoder(Protocol):
    """Reads the events of one answer."""

    def feed(self, event: ServerEvent) -> Sequence[Chunk]:
        """Take the next event, and return what it says in neutral chunks.

        Raises `StreamGarbled` for what is not of the format, and what the provider reports as an error.
        """
        ...

    @property
    def complete(self) -> bool:
        """Whether the end of the answer has come; nothing after it is read."""
        ...

    def response(self) -> Response:
        """Return the whole answer; raise `StreamEndedEarly` if its end has not come."""
        ...


class WireFormat(Protocol):
    """One way to write requests and answers."""

    @property
    def faults(self) -> Faults:
        """The table of the provider's errors, for `provider_errors`."""
        ...

    def key_headers(self, key: str) -> Mapping[str, str]:
        """Return the HTTP headers that carry the API key."""
        ...

    def render(self, request: ModelRequest, provider: str, model: str, settings: Settings) -> Rendered:
        """Return the HTTP path and body of *request*; *model* is the model's name without its *provider*."""
        ...

    def decoder(self) -> Decoder:
        """Return a new decoder for the events of one answer."""
        ...


def object_of(data: str) -> Mapping[str, object]:
    """Return the JSON object in *data*, or raise `StreamGarbled`."""
    try:
        found: object = json.loads(data)
    except (ValueError, RecursionError):
        problem = f"an event is no JSON: {data!r:.{SHOWN}}"
        raise StreamGarbled(problem) from None
    if not isinstance(found, dict):
        problem = f"an event is no object: {data!r:.{SHOWN}}"
        raise StreamGarbled(problem)
    return cast("Mapping[str, object]", found)


def sub(found: object, key: str) -> Mapping[str, object]:
    """Return the object under *key*; an empty one if there is none."""
    item = cast("Mapping[str, object]", found).get(key) if isinstance(found, Mapping) else None
    return cast("Mapping[str, object]", item) if isinstance(item, Mapping) else {}


def text(found: Mapping[str, object], key: str) -> str:
    """Return the text under *key*; an empty one if there is none."""
    item = found.get(key)
    return item if isinstance(item, str) else ""


def count(found: Mapping[str, object], key: str) -> int:
    """Return the count under *key*; 0 if there is none, or one that no answer can have."""
    item = found.get(key)
    return item if isinstance(item, int) and not isinstance(item, bool) and 0 < item <= LARGEST else 0


def arguments(written: str) -> JsonObject:
    """Return the arguments of a call from the JSON that was streamed; nothing at all, or `null`, stands for none.

    What is no JSON object, or one with too many levels or items, becomes `{"": text}`, which the judge refuses with
    that reason: the model may correct itself.
    """
    if written.strip() in {"", "null"}:
        return EMPTY
    try:
        found: object = json.loads(written)
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, dict):
        try:
            return freeze_object(cast("object", found))
        except NotJson:
            pass
    return freeze_object({"": written})

"""What the function of an operation returns: a value, a stream, or a problem. Each face of a host writes it in its way.

A face is a way in: HTTP, a WebSocket, a plugin, AG-UI, another host.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias, cast

import msgspec
from attrs import frozen

from agentrail.api.operation_table import JSON
from agentrail.api.problems import MEDIA_TYPE, Problem
from agentrail.api.sse_frames import MEDIA_TYPE as STREAM
from agentrail.api.views import to_json, to_plain
from agentrail.host.plugins.plugin_values import NO_BODY
from agentrail.host.requests.http_messages import Headers, HttpResponse, Streaming, hold_nothing, problem_answer
from agentrail.values.json import Json

NO_STORE: Final = ("cache-control", "no-store")
OF_JSON: Final[Headers] = (("content-type", JSON), NO_STORE)
STREAMED: Final[Headers] = (("content-type", STREAM), NO_STORE, ("x-accel-buffering", "no"))
"""Headers of a stream of events; the last one keeps a proxy from holding it back."""


@frozen
class Shown:
    """An answer with a value that is written as JSON, which no cache may keep."""

    status: int
    """Status of the response over HTTP; one of `NO_BODY` if there is no value."""
    value: object = None
    """A view, plain JSON, or `msgspec.Raw` with the JSON of another host."""
    headers: Headers = ()
    """Further headers; they replace those that such an answer has by itself."""

    @property
    def content(self) -> bytes:
        """The value as JSON; empty if there is none."""
        return b"" if self.status in NO_BODY else to_json(self.value)

    @property
    def plain(self) -> Json:
        """The value as plain dicts, lists, texts and numbers."""
        value = self.value
        return cast("Json", msgspec.json.decode(value)) if isinstance(value, msgspec.Raw) else to_plain(value)

    @property
    def all_headers(self) -> Headers:
        """All headers, as they are sent over HTTP."""
        own: Headers = (NO_STORE,) if self.status in NO_BODY else OF_JSON
        return own if not self.headers else tuple((dict(own) | dict(self.headers)).items())

    @property
    def is_problem(self) -> bool:
        """Whether the value is a problem document."""
        return ("content-type", MEDIA_TYPE) in self.headers


@frozen
class ShownText:
    """An answer with a text that is no JSON."""

    text: str
    media_type: str


@frozen
class Streamed:
    """An answer that is a stream of events."""

    write: Streaming
    """Sends the events."""
    abandon: Callable[[], None] = hold_nothing
    """Called when nothing more is done with the answer: a stream that was never written lets go of what it holds."""


Answer: TypeAlias = Shown | ShownText | Streamed | Problem
"""What the function of an operation returns."""


def http_response(answer: Answer) -> HttpResponse:
    """Return *answer* as it is sent over HTTP."""
    match answer:
        case Streamed():
            return HttpResponse(200, STREAMED, answer.write, answer.abandon)
        case Shown():
            return HttpResponse(answer.status, answer.all_headers, answer.content)
        case Problem():
            return problem_answer(answer)
        case ShownText():
            return HttpResponse(200, (("content-type", answer.media_type), NO_STORE), answer.text.encode())

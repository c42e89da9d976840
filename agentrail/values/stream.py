"""Requests to a model, and what comes back: chunks, responses and failures.

Where a provider does not count tokens, they are estimated from the number of characters, so that usage is never 0 by
mistake.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Final, TypeAlias

from agentrail.values.content import Said, ToolCall
from agentrail.values.json import EMPTY, JsonObject, weight
from agentrail.values.messages import Message, StopReason, total_size
from agentrail.values.personal import Personal
from agentrail.values.tools import ToolSpec
from agentrail.values.usage import NOTHING_USED, Usage
from agentrail.values.value import Authored, Value

CHARS_PER_TOKEN: Final = 4
"""Characters per token, for estimates where the provider does not count."""


class ModelRequest(Authored):
    """One request to a model."""

    model: str
    """Name of the model."""
    messages: Sequence[Message]
    """The conversation so far."""
    system: str = ""
    """The part of the system prompt that does not change while the session lives."""
    sections: tuple[tuple[str, str], ...] = ()
    """Named sections that may change with each request; they are sent after the messages, in order."""
    tools: tuple[ToolSpec, ...] = ()
    """The tools that the request declares: those that are not deferred, and those that lead to the others."""
    may_call: bool = True
    """`False` if the model sees the tools but must not call them (in the last round of a turn)."""
    options: JsonObject = EMPTY
    """Options for the model's provider."""
    session_id: str = ""
    """Id of the session."""
    request_id: str = ""
    """Id of the request, unique in the session; each attempt has its own."""
    returns: JsonObject = EMPTY
    """The JSON Schema of an object that the answer must fit; if empty, the answer is text."""
    deferred: tuple[ToolSpec, ...] = ()
    """The deferred tools, for a model whose provider has a form of its own for them."""
    background: tuple[tuple[str, str], ...] = ()
    """Named sections that change seldom (skills, memory); they are sent after `system`, before the messages."""
    must_call: str = ""
    """The tool that the model must call, alone; if empty, it decides. Set if an answer can come by that tool alone."""
    once: bool = False
    """`True` if no later request begins with this one, so that it is not worth a place in the provider's cache."""
    passing: int = 0
    """The number of messages at the end that are of this request alone, and that the next one does not have."""
    memory: int = 0
    """How many of the last sections in `background` are texts of memory files."""
    explains_tags: bool = True
    """Whether the system prompt says what the tags around the texts of the program mean, in a request of a session."""

    @property
    def size(self) -> int:
        """Approximate number of characters that the model reads, without the tools' schemas."""
        named = sum(len(text) for _, text in (*self.background, *self.sections))
        return len(self.system) + named + total_size(self.messages)


class TextChunk(Value):
    """A piece of the response's text."""

    text: str
    """Text to append to what came before."""


class ThinkingChunk(Value):
    """A piece of the model's thoughts (reasoning)."""

    text: str
    """Text to append to what came before."""


class UsageChunk(Authored):
    """A report of the provider on the tokens used so far."""

    usage: Usage
    """Total for this response so far."""


class CallChunk(Value):
    """A piece of a tool call's arguments; it is not published as an event, but counts as progress and as tokens."""

    text: str
    """Text to append to what came before."""


class PingChunk(Authored):
    """A chunk without content, sent by the provider to show that it is still working."""


Chunk: TypeAlias = TextChunk | ThinkingChunk | CallChunk | UsageChunk | PingChunk

PING = PingChunk()
"""The only instance of `PingChunk` that is needed, since it has no fields."""


class Response(Authored):
    """A complete response of a model."""

    parts: tuple[Said, ...] = ()
    """Text and thoughts (reasoning), in order."""
    calls: tuple[ToolCall, ...] = ()
    """Tool calls that the model asks for, with the provider's ids."""
    stop: StopReason = StopReason.END
    """Why the model stopped."""
    usage: Usage = NOTHING_USED
    """Usage of the response."""
    by_tool: bool = False
    """Whether the answer in a form was asked for by a tool, because the model or its provider took no schema."""


class Partial(Value):
    """The part of a response that was received before the response was cut off."""

    text: Personal[str] = ""
    """Text received."""
    thinking: Personal[str] = ""
    """Thoughts (reasoning) received."""
    usage: Usage = NOTHING_USED
    """Usage so far, estimated where the provider has not reported it."""


NOTHING_YET = Partial()


class FailureKind(Enum):
    """How to handle a failed request: retry it, compact the context, give up, or abort the turn as a plugin does."""

    TRANSIENT = "transient"
    PERMANENT = "permanent"
    LIMIT = "limit"
    OVERFLOW = "overflow"


class Failure(Authored):
    """Why a request to a model failed."""

    kind: FailureKind
    """How to handle the failure."""
    error: Personal[str]
    """Class of the error."""
    message: Personal[str]
    """Message of the error."""
    retry_after: float | None = None
    """Seconds that the provider asks to wait before a retry; `None` if it did not."""
    here_alone: bool = False
    """Whether a permanent failure concerns this model only, so that another model may succeed."""
    unreached_ms: int | None = None
    """Milliseconds that the attempt took if it could not connect to any server; `None` if it did."""


def read_tokens(request: ModelRequest) -> int:
    """Return the approximate number of tokens in *request*, the tools' schemas included."""
    tools = sum(tool.size for tool in request.tools)
    return tokens(request.size + tools + (weight(request.returns) if request.returns else 0))


def with_read(usage: Usage, request: ModelRequest) -> Usage:
    """Return *usage*; if the provider did not count input tokens, with an estimate of them from *request*."""
    if usage.input_tokens:
        return usage
    return usage.but(input_tokens=read_tokens(request), estimated=True)


def estimate_usage(response: Response, request: ModelRequest) -> Response:
    """Return *response* with estimates of tokens that the provider did not count; its usage is then marked so."""
    usage = with_read(response.usage, request)
    if not usage.output_tokens and (chars := _output_size(response)):
        usage = usage.but(output_tokens=tokens(chars), estimated=True)
    return response if usage is response.usage else response.but(usage=usage)


def _output_size(response: Response) -> int:
    chars = sum(len(part.text) for part in response.parts)
    return chars + sum(len(call.name) + weight(call.args) for call in response.calls)


def tokens(characters: int) -> int:
    """Return the approximate number of tokens in a text of *characters* characters."""
    return -(-characters // CHARS_PER_TOKEN)

"""What is asked of a model and what comes back, as values.

Tokens that a provider has not counted, taken from the characters, so that what was used is never nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Final, TypeAlias

from agentrail.values.content import Said, ToolCall
from agentrail.values.json import EMPTY, JsonObject, weight
from agentrail.values.messages import Message, StopReason, total_size
from agentrail.values.tools import ToolSpec
from agentrail.values.usage import NOTHING_USED, Usage
from agentrail.values.value import Value, value

CHARS_PER_TOKEN: Final = 4
"""How many characters a token is taken for where the provider has not counted."""


@value
class ModelRequest(Value):
    """One request to a model."""

    model: str
    """Which model."""
    messages: Sequence[Message]
    """The conversation so far."""
    system: str = ""
    """The system prompt."""
    sections: tuple[tuple[str, str], ...] = ()
    """Named sections behind the system prompt, in the order they were set."""
    tools: tuple[ToolSpec, ...] = ()
    """The tools the model may call."""
    may_call: bool = True
    """False: tools are shown, but must not be called (the last round of a turn)."""
    options: JsonObject = EMPTY
    """Options of the provider."""
    session_id: str = ""
    """Whose request it is."""
    request_id: str = ""
    """Unique in the session; attempts are requests of their own."""

    @property
    def size(self) -> int:
        """About how many characters the model reads, without the schemas of the tools."""
        return len(self.system) + sum(len(text) for _, text in self.sections) + total_size(self.messages)


@value
class TextChunk(Value):
    """A piece of text came."""

    text: str
    """The piece."""


@value
class ThinkingChunk(Value):
    """A piece of a thought came."""

    text: str
    """The piece."""


@value
class UsageChunk(Value):
    """The provider said what was used so far."""

    usage: Usage
    """The sum so far, of this response."""


@value
class CallChunk(Value):
    """A piece of a call's arguments came; nobody hears it, but it counts as life and as tokens."""

    text: str
    """The piece."""


@value
class PingChunk(Value):
    """The provider has shown that it is still at work."""


Chunk: TypeAlias = TextChunk | ThinkingChunk | CallChunk | UsageChunk | PingChunk

PING = PingChunk()


@value
class Response(Value):
    """A whole response."""

    parts: tuple[Said, ...] = ()
    """Text and thoughts, in order."""
    calls: tuple[ToolCall, ...] = ()
    """The tools it asks for, with the provider's ids."""
    stop: StopReason = StopReason.END
    """Why the model stopped."""
    usage: Usage = NOTHING_USED
    """What it used."""


@value
class Partial(Value):
    """What had come of a response when it was cut."""

    text: str = ""
    """The text so far."""
    thinking: str = ""
    """The thoughts so far."""
    usage: Usage = NOTHING_USED
    """What was used so far, estimated where the provider had not said."""


NOTHING_YET = Partial()


class FailureKind(Enum):
    """What can be done about a request that failed."""

    TRANSIENT = "transient"
    PERMANENT = "permanent"
    OVERFLOW = "overflow"


@value
class Failure(Value):
    """A request to a model failed."""

    kind: FailureKind
    """What can be done about it."""
    error: str
    """The class of the error."""
    message: str
    """What the provider said."""
    retry_after: float | None = None
    """Seconds the provider asks us to wait."""
    here_alone: bool = False
    """Whether a permanent failure is of this model alone, so that the next of a chain is asked."""


def read_tokens(request: ModelRequest) -> int:
    """Return about how many tokens *request* has, the schemas of its tools included."""
    tools = sum(len(tool.name) + len(tool.description) + weight(tool.parameters) for tool in request.tools)
    return tokens(request.size + tools)


def with_read(usage: Usage, request: ModelRequest) -> Usage:
    """Return *usage* with what the model has read, if the provider has not counted that."""
    if usage.input_tokens:
        return usage
    return usage.but(input_tokens=read_tokens(request), estimated=True)


def counted(response: Response, request: ModelRequest) -> Response:
    """Return *response* with what the provider has not counted of its usage, marked as estimated."""
    usage = with_read(response.usage, request)
    if not usage.output_tokens and (written := _written(response)):
        usage = usage.but(output_tokens=tokens(written), estimated=True)
    return response if usage is response.usage else response.but(usage=usage)


def _written(response: Response) -> int:
    said = sum(len(part.text) for part in response.parts)
    return said + sum(len(call.name) + weight(call.args) for call in response.calls)


def tokens(characters: int) -> int:
    """Return how many tokens so many *characters* are taken for."""
    return -(-characters // CHARS_PER_TOKEN)

"""Everything a session can ask the world to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias, get_args

from agentrail.errors import AgentrailError
from agentrail.hooks.actions import AskRequest
from agentrail.values.json import JsonObject
from agentrail.values.messages import Message
from agentrail.values.stream import ModelRequest
from agentrail.values.value import Value, value


@value
class ReportStart(Value):
    """Tell whoever spawned the session that it runs, or why it does not."""

    error: AgentrailError | None = None
    """Why it does not."""


@value
class StartRequest(Value):
    """Send a request to the model."""

    request: ModelRequest
    """The request."""
    stall_timeout: float
    """Seconds without a chunk that count as a stall."""
    inline_tags: bool = False
    """Whether status and title tags are cut out of the deltas."""


@value
class OpenStream(Value):
    """Let the deltas of a stream out: that it began is known now."""

    request_id: str
    """Of which request."""


@value
class CancelRequest(Value):
    """Cut a request."""

    request_id: str
    """Which request."""


@value
class StartCall(Value):
    """Run a tool."""

    call_id: str
    """For which call."""
    attempt: int
    """Which attempt."""
    name: str
    """Which tool."""
    revision: int
    """Which form of it."""
    args: JsonObject
    """With which arguments."""
    key: str
    """The same for every attempt of one call."""


@value
class ProbeCall(Value):
    """Ask a tool what has become of a call that ran when the process ended."""

    call_id: str
    """Which call."""
    attempt: int
    """Which attempt."""
    name: str
    """Which tool."""
    revision: int
    """Which form of it."""
    args: JsonObject
    """With which arguments it ran."""
    key: str
    """Under which key it ran."""


@value
class CancelCalls(Value):
    """Cancel calls that run."""

    call_ids: tuple[str, ...]
    """Which calls."""


@value
class SetTimer(Value):
    """Fire a timer at a time; one with the same name is replaced."""

    timer: str
    """Which timer."""
    at: int
    """When, in milliseconds since 1970."""


@value
class ClearTimer(Value):
    """Forget a timer."""

    timer: str
    """Which timer."""


@value
class CarryOut(Value):
    """Do what a plugin asked for."""

    ask_id: str
    """Which question."""
    plugin: str
    """Who asks."""
    request: AskRequest
    """What is to be done."""
    model: str
    """The session's model."""


@value
class CancelAsk(Value):
    """Give up what a plugin asked for."""

    ask_id: str
    """Which question."""


@value
class StartCompaction(Value):
    """Make a context shorter."""

    compaction_id: str
    """Which compaction."""
    messages: Sequence[Message]
    """The context."""
    keep: int
    """About how many characters may stay."""


@value
class CancelCompaction(Value):
    """Give up a compaction."""

    compaction_id: str
    """Which compaction."""


@value
class ResumeSubagents(Value):
    """Bring sub-agents back that the process before this one had."""

    children: tuple[str, ...]
    """Their sessions."""


@value
class StopSubagents(Value):
    """Stop sub-agents, with everything under them."""

    children: tuple[str, ...]
    """Their sessions."""


@value
class WriteLog(Value):
    """Write a line to the log."""

    level: str
    """How grave it is."""
    message: str
    """The line."""
    fields: JsonObject
    """What belongs to it."""


@value
class CloseSession(Value):
    """The session is over: end everything under it."""

    reason: str
    """Why."""


AnyEffect: TypeAlias = (
    ReportStart
    | StartRequest
    | OpenStream
    | CancelRequest
    | StartCall
    | ProbeCall
    | CancelCalls
    | SetTimer
    | ClearTimer
    | CarryOut
    | CancelAsk
    | StartCompaction
    | CancelCompaction
    | ResumeSubagents
    | StopSubagents
    | WriteLog
    | CloseSession
)

EFFECTS: Final[tuple[type[Value], ...]] = get_args(AnyEffect)

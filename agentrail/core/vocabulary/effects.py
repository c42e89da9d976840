"""Effects: what a step of the machine asks the runtime to do, as data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias, get_args

from agentrail.core.vocabulary.commands import Refused
from agentrail.core.vocabulary.options import Options
from agentrail.errors import AgentrailError
from agentrail.hooks.actions import Errand
from agentrail.values.json import JsonObject
from agentrail.values.messages import Message
from agentrail.values.stream import ModelRequest
from agentrail.values.tools import PersonAnswer
from agentrail.values.value import Value


class ReportStart(Value):
    """Report to the caller of `spawn` that the session has started, or why it could not."""

    refusal: Refused | None = None
    """Why the session did not start; `None` if it did."""

    @property
    def error(self) -> AgentrailError | None:
        """The error that the caller gets, made anew each time; `None` if the session did start."""
        return None if self.refusal is None else self.refusal.error


class StartRequest(Value):
    """Send a request to the model."""

    request: ModelRequest
    """Everything that the model receives."""
    stall_timeout: float
    """Seconds without a chunk after which the response counts as stalled."""
    inline_tags: bool = False
    """Whether `<status>` and `<title>` tags are removed from the deltas."""


class CancelRequest(Value):
    """Cancel a running request to the model."""

    request_id: str
    """Id of the request."""


class StartCall(Value):
    """Start a tool."""

    call_id: str
    """Id of the call."""
    attempt: int
    """Number of the attempt, from 1."""
    name: str
    """Name of the tool."""
    revision: int
    """Revision of the tool: which of the tools that had this name."""
    args: JsonObject
    """Arguments of the call."""
    key: str
    """Idempotency key: the same for every attempt of one call."""
    person_answer: PersonAnswer | None = None
    """The answer with which the tool goes on after a question; `None` if it starts from the beginning."""


class ProbeCall(Value):
    """Ask a tool what became of a call that was running when an earlier process ended."""

    call_id: str
    """Id of the call."""
    attempt: int
    """Number of the attempt that was running."""
    name: str
    """Name of the tool."""
    revision: int
    """Revision of the tool: which of the tools that had this name."""
    args: JsonObject
    """Arguments of the interrupted call."""
    key: str
    """Idempotency key of the interrupted call."""


class CancelCalls(Value):
    """Cancel running tool calls."""

    call_ids: tuple[str, ...]
    """Ids of the calls."""


class SetTimer(Value):
    """Set a timer; it replaces one with the same name."""

    timer: str
    """Name of the timer: its kind and, after a colon, the id of its call or hold."""
    due_ms: int
    """When the timer fires, in milliseconds since 1970."""


class ClearTimer(Value):
    """Delete a timer."""

    timer: str
    """Name of the timer."""


class CarryOut(Value):
    """Carry out a plugin's ask: a model call, a tool, a file or a service."""

    ask_id: str
    """Id of the ask; its answer (`AskSettled`) has the same one."""
    plugin: str
    """Key of the plugin that asks."""
    request: Errand
    """The model call, tool, file or service that the plugin asks for."""
    model: str
    """The session's model, used if the plugin names none."""
    key: str
    """Idempotency key of the tool, the same for every attempt; of no meaning if it asks for something else."""


class CancelAsk(Value):
    """Cancel a plugin's ask, whose answer is no longer wanted."""

    ask_id: str
    """Id of the ask."""


class StartCompaction(Value):
    """Start to shorten the context (summarize it or drop messages)."""

    compaction_id: str
    """Id of the compaction, which its outcome repeats."""
    messages: Sequence[Message]
    """Messages to shorten."""
    target_chars: int
    """Size in characters that the conversation should have afterwards (a target, not a limit)."""
    model: str
    """The model that writes the summary: that of the session."""
    options: JsonObject
    """Options for the model's provider."""
    model_chars: int
    """About how many characters the model can read at once."""
    session_options: Options
    """Options of the session: how long the summary may take, and how often it is tried again."""
    random: float = 0.5
    """The random number of the step, from 0 to 1, which shortens the waits before further attempts."""
    keep_whole_chars: int = 0
    """Size in characters up to which messages that must stay are left as they are."""
    reads_back: bool = False
    """Whether the session has the tool `read_history`, so that the text may name it."""
    is_assumed: bool = False
    """Whether nobody knows how many tokens the model can read, so that the window is assumed."""
    needs_summary: bool = False
    """Whether no message goes if the summary cannot be written: a caller asked for it, and nothing needs the room."""


class CancelCompaction(Value):
    """Cancel a running compaction."""

    compaction_id: str
    """Id of the compaction."""


class ResumeSubagents(Value):
    """Resume the sub-agents that were running when an earlier process ended."""

    children: tuple[str, ...]
    """Session ids of the sub-agents."""


class StopSubagents(Value):
    """Stop sub-agents, each with its own sub-agents."""

    children: tuple[str, ...]
    """Session ids of the sub-agents."""


class WriteLog(Value):
    """Write a line to the program's log."""

    level: str
    """Log level: `debug`, `info`, `warning` or `error`."""
    message: str
    """The text of the log line."""
    fields: JsonObject
    """Data to log in addition to the text."""


class CloseSession(Value):
    """End the session's actor with everything it started; the session is over."""

    reason: str
    """Why the session ended."""


AnyEffect: TypeAlias = (
    ReportStart
    | StartRequest
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

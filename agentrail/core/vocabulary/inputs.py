"""Everything that can happen to a session: calls to its handle, results of its effects, and time."""

from __future__ import annotations

from typing import Final, TypeAlias, get_args

from agentrail.core.vocabulary.commands import (
    AbortSent,
    ApproveSent,
    AttachPluginSent,
    ChangeToolsSent,
    CompactSent,
    DetachPluginSent,
    PromptSent,
    RejectSent,
    RespondSent,
    ResumeSent,
    SteerSent,
    StopSent,
    SuspendSent,
    SwitchModelSent,
    TraceSent,
    UpdatePluginSent,
    WithdrawSent,
)
from agentrail.hooks.actions import AskAnswer
from agentrail.hooks.attachments import AttachedPlugin
from agentrail.values.events.envelope import Event
from agentrail.values.messages import Message
from agentrail.values.stream import NOTHING_YET, Failure, Partial, Response
from agentrail.values.tools import Err, Ok, Probed, ToolResult, ToolSpec
from agentrail.values.usage import NOTHING_USED, Usage
from agentrail.values.value import Value, value


@value
class SessionOpened(Value):
    """The session was spawned."""


@value
class ActorRestarted(Value):
    """The session's actor crashed, and was started again from the records."""

    cause: str
    """What it crashed of."""


@value
class CrashedTooOften(Value):
    """The session's actor crashed too often, and is not started again."""

    cause: str
    """What it crashed of."""
    input: str = ""
    """The kind of message that it crashed on each time; empty: on different ones."""


@value
class SessionReturned(Value):
    """The session came back from its journal; its code may be other than it was."""

    records: int
    """How many records it was rebuilt from."""
    seats: tuple[AttachedPlugin, ...]
    """The row of plugins from now on; those that were there before are all in it."""
    tools: tuple[ToolSpec, ...] = ()
    """Tools that are new or have changed."""
    gone: tuple[str, ...] = ()
    """Tools that are not there any more."""
    revision: int = 0
    """The number of this change of tools."""
    without: tuple[str, ...] = ()
    """Plugins whose change waits, and whose code is not there."""
    lost: tuple[str, ...] = ()
    """What else was there and is gone, in words."""
    pause: bool = False
    """Whether an open turn rests until somebody says how it goes on."""
    options: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Plugins whose options are others now, each with those that were changed at run time and are the code's again."""
    waiting: tuple[AttachedPlugin, ...] = ()
    """Plugins whose change waits, in the form that they will have."""


@value
class SessionBranched(Value):
    """The session begins with the past of another one; its code may be other than it was then."""

    origin: str
    """Which one."""
    at: int
    """Behind which of its records."""
    left_behind: tuple[str, ...] = ()
    """What it has done since that cannot be undone, in words."""
    seats: tuple[AttachedPlugin, ...] = ()
    """The row of plugins from now on; those that were there before are all in it."""
    tools: tuple[ToolSpec, ...] = ()
    """Tools that are new or have changed."""
    gone: tuple[str, ...] = ()
    """Tools that are not there any more."""
    revision: int = 0
    """The number of this change of tools."""
    options: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Plugins whose options are others now, each with those that were changed at run time and are the code's again."""


@value
class SleepDue(Value):
    """Nothing has happened for so long that the session may give its memory back."""


@value
class SessionWoke(Value):
    """The session was brought up again, because something is there for it."""


@value
class StreamBegan(Value):
    """The first chunk of a response came."""

    request_id: str
    """Of which request."""


@value
class StreamEnded(Value):
    """A response is complete."""

    request_id: str
    """Of which request."""
    response: Response
    """The whole of it."""


@value
class StreamCut(Value):
    """A request ended before its response was complete."""

    request_id: str
    """Which request."""
    partial: Partial
    """What had come."""
    failure: Failure
    """Why."""


@value
class StreamStalled(Value):
    """No chunk came for a while."""

    request_id: str
    """Of which request."""
    elapsed_s: float
    """Seconds since the last chunk, or since the request went out if none has come."""
    partial: Partial = NOTHING_YET
    """What had come before."""


@value
class ToolReturned(Value):
    """A tool answered."""

    call_id: str
    """Which call."""
    attempt: int
    """Which attempt."""
    result: ToolResult
    """The answer."""
    jobs: tuple[str, ...] | None = None
    """The commands that run in the background now; `None`: as before."""


@value
class ToolRaised(Value):
    """A tool broke."""

    call_id: str
    """Which call."""
    attempt: int
    """Which attempt."""
    error: str
    """Type and message."""


@value
class ToolStopped(Value):
    """A cancelled call has ended."""

    call_id: str
    """Which call."""
    attempt: int
    """Which attempt."""


@value
class CallProbed(Value):
    """A tool was asked what has become of a call."""

    call_id: str
    """Which call."""
    attempt: int
    """Which attempt."""
    found: Probed
    """What has become of it."""


@value
class TimerFired(Value):
    """A timer came due."""

    timer: str
    """Which timer."""
    partial: Partial = NOTHING_YET
    """What had come of the response that is out, if it is the time of the turn that is over."""


@value
class AskSettled(Value):
    """What a plugin asked for is done, or could not be done."""

    ask_id: str
    """Which question."""
    answer: AskAnswer
    """The answer."""
    usage: Usage = NOTHING_USED
    """What the answer used."""


@value
class CompactionEnded(Value):
    """The context was made shorter."""

    compaction_id: str
    """Which compaction."""
    messages: tuple[Message, ...]
    """What is left."""
    removed: int
    """How many messages went."""
    note: str
    """What was done, in words."""


@value
class CompactionFailed(Value):
    """The context could not be made shorter."""

    compaction_id: str
    """Which compaction."""
    error: str
    """Why."""


@value
class HooksWereSlow(Value):
    """The hooks of a step took too long."""

    plugins: tuple[str, ...]
    """The plugins that ran in it."""
    elapsed_ms: int
    """How long the step took."""


@value
class SubagentStarted(Value):
    """A sub-agent runs."""

    child: str
    """Its session."""
    call_id: str
    """The call that has started it."""
    agent: str
    """Which of the agents that the session may start."""
    description: str
    """What it is to do."""
    background: bool = False
    """Whether the call does not wait for it."""


@value
class SubagentReported(Value):
    """A sub-agent has gone on."""

    child: str
    """Its session."""
    events: tuple[Event, ...] = ()
    """What has happened there since the last report."""
    heard: int = 0
    """The number of the last of all these events."""
    used: Usage = NOTHING_USED
    """What it has used in all, with what is under it."""
    waits: bool = False
    """Whether nothing of it goes on without a person."""


@value
class SubagentEnded(Value):
    """A sub-agent is over, with everything under it."""

    child: str
    """Its session."""
    answer: Ok | Err
    """What it answered, or why it did not: the result of the call that waits for it."""


@value
class ElsewhereUsed(Value):
    """Others have used something of a limit that a sub-agent shares with them."""

    used: Usage
    """What they have used in all, since it began."""


SubagentInput: TypeAlias = SubagentStarted | SubagentReported | SubagentEnded | ElsewhereUsed
StreamInput: TypeAlias = StreamBegan | StreamEnded | StreamCut | StreamStalled
CallInput: TypeAlias = ToolReturned | ToolRaised | ToolStopped | CallProbed

AnyInput: TypeAlias = (
    SessionOpened
    | PromptSent
    | SteerSent
    | AbortSent
    | ApproveSent
    | RejectSent
    | RespondSent
    | SwitchModelSent
    | ChangeToolsSent
    | UpdatePluginSent
    | AttachPluginSent
    | DetachPluginSent
    | CompactSent
    | WithdrawSent
    | StopSent
    | SessionBranched
    | SuspendSent
    | ResumeSent
    | TraceSent
    | ActorRestarted
    | CrashedTooOften
    | SessionReturned
    | SleepDue
    | SessionWoke
    | StreamInput
    | CallInput
    | TimerFired
    | AskSettled
    | CompactionEnded
    | CompactionFailed
    | HooksWereSlow
    | SubagentInput
)

INPUTS: Final[tuple[type[Value], ...]] = get_args(AnyInput)


@value
class Arrival(Value):
    """An input in its envelope: when it came, and chance, which the machine has none of its own."""

    input: AnyInput
    """What happened."""
    at: int
    """When, in milliseconds since 1970."""
    random: float = 0.5
    """A number between 0 and 1."""
    partial: Partial = NOTHING_YET
    """What had come of the response that is out: only if the input does not say it, and a critical plugin listens."""

"""Everything that can happen to a session: calls to its handle, results of its effects, and time."""

from __future__ import annotations

from typing import Final, TypeAlias, get_args

from agentrail.core.state import Spare
from agentrail.hooks.asks import AskAnswer
from agentrail.hooks.seats import Seat
from agentrail.values.content import Part
from agentrail.values.json import EMPTY, JsonObject
from agentrail.values.messages import Message
from agentrail.values.stream import NOTHING_YET, Failure, Partial, Response
from agentrail.values.tools import ToolResult, ToolSpec
from agentrail.values.usage import NOTHING_USED, Usage
from agentrail.values.value import Value, value


@value
class SessionOpened(Value):
    """The session was spawned."""


@value
class PromptSent(Value):
    """`prompt` was called."""

    parts: tuple[Part, ...]
    """What was said."""


@value
class SteerSent(Value):
    """`steer` was called."""

    text: str
    """What was said."""
    when: str = "gap"
    """`gap`: before the next request; `now`: the stream is cut for it."""
    partial: Partial = NOTHING_YET
    """What had come of the stream."""


@value
class AbortSent(Value):
    """`abort` was called."""

    reason: str | None = None
    """The caller's words."""
    kill_tools: str = "killable"
    """`killable`, `all` or `none`."""
    clear_queue: bool = False
    """Whether queued prompts go too."""
    dropped: tuple[str, ...] = ()
    """Texts of prompts that were still in the mailbox and go too."""
    partial: Partial = NOTHING_YET
    """What had come of the stream."""


@value
class ApproveSent(Value):
    """`approve` was called."""

    approval_id: str
    """Which held call."""
    args: JsonObject | None = None
    """Edited arguments; `None`: as they are."""
    always: bool = False
    """Whether calls of this family pass from now on."""
    auto_resume: bool = True
    """Whether the model goes on when the batch is done."""


@value
class RejectSent(Value):
    """`reject` was called."""

    approval_id: str
    """Which held call."""
    reason: str | None = None
    """Why."""
    auto_resume: bool = False
    """Whether the model goes on when the batch is done."""


@value
class RespondSent(Value):
    """`respond` was called."""

    ref: str
    """Which question."""
    answer: str
    """The answer."""


@value
class SwitchModelSent(Value):
    """`switch_model` was called."""

    model: str
    """Which model."""
    options: JsonObject = EMPTY
    """Options for its provider."""
    spares: tuple[Spare, ...] = ()
    """What it may fall back to, in order."""
    priced: frozenset[str] = frozenset()
    """Those of them whose price is known."""


@value
class ChangeToolsSent(Value):
    """`attach_tools`, `detach_tools` or `replace_tools` was called, or a source of tools has other ones now."""

    attach: tuple[ToolSpec, ...] = ()
    """Tools that come."""
    detach: tuple[str, ...] = ()
    """Tools that go."""
    replace: bool = False
    """Whether tools that come may take the place of those that are there."""
    revision: int = 0
    """The number of this change."""
    source: str = ""
    """Which source has other tools now; empty: it was called."""
    problems: tuple[str, ...] = ()
    """Why the source has no tools, or not all of them."""


@value
class UpdatePluginSent(Value):
    """`update_plugin` was called."""

    seat: Seat
    """The plugin in its new form."""
    options: JsonObject
    """The options that change."""


@value
class AttachPluginSent(Value):
    """`attach_plugin` was called."""

    seat: Seat
    """The plugin."""


@value
class DetachPluginSent(Value):
    """`detach_plugin` was called."""

    key: str
    """Which plugin."""


@value
class CompactSent(Value):
    """`compact` was called."""

    reason: str | None = None
    """Why."""


@value
class WithdrawSent(Value):
    """`withdraw` was called."""

    ref: str
    """Which queued prompt."""


@value
class StopSent(Value):
    """`stop` was called."""

    reason: str = "stopped"
    """Why."""
    partial: Partial = NOTHING_YET
    """What had come of the stream."""


@value
class ForkSent(Value):
    """`fork` was called."""


@value
class SuspendSent(Value):
    """`suspend` was called."""


@value
class ResumeSent(Value):
    """`resume` was called."""


@value
class TraceSent(Value):
    """`trace` was called."""


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
    """The session came back from its journal."""


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
    """For how many seconds."""
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
class TimerFired(Value):
    """A timer came due."""

    timer: str
    """Which timer."""


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


StreamInput: TypeAlias = StreamBegan | StreamEnded | StreamCut | StreamStalled
CallInput: TypeAlias = ToolReturned | ToolRaised | ToolStopped

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
    | ForkSent
    | SuspendSent
    | ResumeSent
    | TraceSent
    | ActorRestarted
    | CrashedTooOften
    | SessionReturned
    | StreamInput
    | CallInput
    | TimerFired
    | AskSettled
    | CompactionEnded
    | CompactionFailed
    | HooksWereSlow
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

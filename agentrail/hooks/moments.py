"""The 14 hooks: one record each, saying what its plugins are asked about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

import attrs

from agentrail.hooks.actions import AskAnswer, AskRequest
from agentrail.values.json import JsonObject
from agentrail.values.messages import AssistantMessage, Message, ToolMessage
from agentrail.values.tools import Err, Ok
from agentrail.values.usage import Usage
from agentrail.values.value import Value, value


@value
class Hook(Value):
    """A moment at which plugins are asked."""

    moment: ClassVar[str] = ""
    about: ClassVar[str] = ""

    asked: AskRequest | None = attrs.field(default=None, kw_only=True)
    """What this plugin asked for a moment ago, if this is the second time it is asked."""
    answer: AskAnswer | None = attrs.field(default=None, kw_only=True)
    """The answer to that."""


@value
class SessionStart(Hook):
    """The session begins, once in the life of its id."""

    moment = "session_start"
    about = "once in the life of an id: not after recovery, waking or fork"


@value
class SessionEnd(Hook):
    """The session is stopped for good."""

    moment = "session_end"
    about = "the session is stopped for good"

    reason: str
    """Why."""


@value
class AfterTurn(Hook):
    """A turn is over, finished or aborted; the session is about to go idle."""

    moment = "after_turn"
    about = "just before going idle, finished or aborted"

    outcome: str
    """`finished` or `aborted`."""
    abort_kind: str | None
    """What aborted it, as `AgentAbort.kind`: `user`, `plugin`, `deadline`, …; `None` if it was not aborted."""
    abort_reason: str | None
    """The words of whoever aborted it; `None` if it was not aborted, or without a word."""
    messages_diff: tuple[Message, ...]
    """What the turn added to the history."""
    token_usage_diff: Usage
    """What the turn used."""
    started_at_ms: int
    """When it started."""
    ended_at_ms: int
    """When it ended."""

    @property
    def duration_ms(self) -> int:
        """How long it took."""
        return self.ended_at_ms - self.started_at_ms


@value
class BeforePrompt(Hook):
    """A prompt is about to be taken."""

    moment = "before_prompt"
    about = "before a prompt is taken"

    text: str
    """The text of it."""
    ref: str = ""
    """Which prompt."""


@value
class BeforeRequest(Hook):
    """A request is about to go to the model, first or again."""

    moment = "before_request"
    about = "before every attempt of a request to the model"

    messages: Sequence[Message]
    """What the model would see."""
    attempt: int = 1
    """1 for the first; each retry is one more."""
    last_error: str | None = None
    """Why the attempt before failed."""


@value
class AfterResponse(Hook):
    """A response is complete."""

    moment = "after_response"
    about = "a response is complete"

    message: AssistantMessage
    """The whole of it."""


@value
class BeforeTool(Hook):
    """A call is about to run."""

    moment = "before_tool"
    about = "before one call runs"

    name: str
    """Which tool."""
    args: JsonObject
    """With which arguments: those that would run."""
    call_id: str
    """Which call."""
    approved: bool = False
    """Whether a person approved exactly these arguments."""
    final: bool = False
    """Whether a guard is asked once more because arguments were replaced behind it."""


@value
class OnToolError(Hook):
    """A tool failed and would be tried again."""

    moment = "on_tool_error"
    about = "a tool failed and would be retried"

    name: str
    """Which tool."""
    call_id: str
    """Which call."""
    error: str
    """What it raised."""
    attempt: int
    """Which attempt failed."""


@value
class AfterTool(Hook):
    """A call has its result and the model has not seen it."""

    moment = "after_tool"
    about = "one call has its result"

    name: str
    """Which tool."""
    call_id: str
    """Which call."""
    result: Ok | Err
    """What the history would get."""


@value
class AfterToolBatch(Hook):
    """All calls of the response have results."""

    moment = "after_tool_batch"
    about = "all calls of the response have results"

    results: tuple[ToolMessage, ...]
    """The results, in the order of the calls."""


@value
class BeforeFinish(Hook):
    """The model has given its final answer."""

    moment = "before_finish"
    about = "before the final answer is final"


@value
class BeforeCompaction(Hook):
    """The context is about to be compacted."""

    moment = "before_compact"
    about = "before the context is compacted"

    messages: Sequence[Message]
    """What compaction would see."""
    reason: str = ""
    """Why it is compacted."""


@value
class BeforeSteering(Hook):
    """A steering text is about to be queued."""

    moment = "before_steering"
    about = "before a steering text is queued"

    text: str
    """The text."""
    ref: str = ""
    """Which text."""


@value
class BeforePluginOptsUpdate(Hook):
    """New options of another plugin are about to apply."""

    moment = "before_plugin_opts_update"
    about = "before a plugin's new options apply (idle only)"

    plugin: str
    """The key of that plugin."""
    options: JsonObject
    """Its new options."""


HOOKS: Final[tuple[type[Hook], ...]] = (
    SessionStart,
    SessionEnd,
    AfterTurn,
    BeforePrompt,
    BeforeRequest,
    AfterResponse,
    BeforeTool,
    OnToolError,
    AfterTool,
    AfterToolBatch,
    BeforeFinish,
    BeforeCompaction,
    BeforeSteering,
    BeforePluginOptsUpdate,
)

HOOK_NAMES: Final = frozenset(hook.moment for hook in HOOKS)

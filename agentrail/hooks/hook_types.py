"""The 14 hooks: one class each, with the data that plugins get when they are asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from agentrail.hooks.actions import AskAnswer, AskRequest
from agentrail.values.json import EMPTY, JsonObject
from agentrail.values.messages import AssistantMessage, Message, ToolMessage
from agentrail.values.personal import Kept, Personal, ToolName
from agentrail.values.tools import Err, Ok
from agentrail.values.usage import Usage
from agentrail.values.value import TAG, Authored


class Hook(Authored, kw_only=True, tag_field=TAG):
    """Base class of the hooks: a moment of the session at which plugins may act."""

    hook_name: ClassVar[str] = ""
    about: ClassVar[str] = ""

    asked: AskRequest | None = None
    """Request that this plugin made with `Ask`; `None` the first time it is called."""
    answer: AskAnswer | None = None
    """Answer to the request in `asked`; `None` the first time."""


class SessionStart(Hook):
    """The session starts; called once, not again after a recovery."""

    hook_name = "session_start"
    about = "once in the life of a session: not after a recovery, a sleep or a fork"


class SessionEnd(Hook):
    """The session was stopped and is about to end."""

    hook_name = "session_end"
    about = "the session was stopped and is about to end"

    reason: Personal[str]
    """Reason given to `stop`."""


class AfterTurn(Hook):
    """A turn has finished or was aborted; the session is idle next, or takes its next prompt."""

    hook_name = "after_turn"
    about = "a turn has finished or was aborted, and no other one has begun"

    outcome: Kept[str]
    """`finished` or `aborted`."""
    abort_kind: Kept[str | None]
    """Why the turn was aborted, as in `AgentAbort.kind`: `user`, `plugin`, `deadline`, …; `None` if it was not."""
    abort_reason: Personal[str | None]
    """Reason given with the abort; `None` if there was none."""
    messages_diff: tuple[Message, ...]
    """Messages that the turn added to the history."""
    token_usage_diff: Usage
    """Tokens and cost of the turn."""
    started_at_ms: int
    """When the turn started, in milliseconds since 1970."""
    ended_at_ms: int
    """When the turn ended, in milliseconds since 1970."""

    @property
    def duration_ms(self) -> int:
        """Duration of the turn in milliseconds."""
        return self.ended_at_ms - self.started_at_ms


class BeforePrompt(Hook):
    """A prompt is about to start a turn."""

    hook_name = "before_prompt"
    about = "before a prompt starts a turn"

    text: Personal[str]
    """Text of the prompt."""
    ref: Kept[str] = ""
    """Id of the prompt."""


class BeforeRequest(Hook):
    """A request is about to go to the model, for the first time or as a retry."""

    hook_name = "before_request"
    about = "before every attempt of a request to the model"

    messages: Sequence[Message]
    """Messages that the model will see."""
    attempt: int = 1
    """Number of the attempt, from 1."""
    last_error: Personal[str | None] = None
    """Why the last attempt failed; `None` on the first."""


class AfterResponse(Hook):
    """The model's response is complete."""

    hook_name = "after_response"
    about = "the model's response is complete"

    message: AssistantMessage
    """The response."""


class BeforeTool(Hook):
    """A tool call is about to run."""

    hook_name = "before_tool"
    about = "before one call runs"

    name: ToolName
    """Name of the tool."""
    args: Personal[JsonObject]
    """Arguments with which the call would run, as changed by earlier plugins."""
    call_id: Kept[str]
    """Id of the call."""
    approved: bool = False
    """Whether a person approved the call with exactly these arguments."""
    final: bool = False
    """Whether a critical plugin is asked again, because a later plugin replaced the arguments."""


class OnToolError(Hook):
    """A tool raised an exception, and the call would be tried again."""

    hook_name = "on_tool_error"
    about = "a tool failed and would be retried"

    name: ToolName
    """Name of the tool."""
    call_id: Kept[str]
    """Id of the call."""
    error: Personal[str]
    """The exception as text."""
    attempt: int
    """Number of the attempt that failed, from 1."""


class AfterTool(Hook):
    """A call has its result, which the model has not seen yet."""

    hook_name = "after_tool"
    about = "one call has a result, which the model has not seen yet"

    name: ToolName
    """Name of the tool."""
    call_id: Kept[str]
    """Id of the call."""
    result: Ok | Err
    """Result that would go into the history."""
    args: Personal[JsonObject] = EMPTY
    """Arguments with which the call ran."""
    duration_ms: int = 0
    """Time since the call was started first, in milliseconds."""
    max_result_chars: int | None = None
    """The most characters of text and JSON that the model sees: the rest is cut after this hook. `None`: all."""


class AfterToolBatch(Hook):
    """All calls of a response have their results."""

    hook_name = "after_tool_batch"
    about = "all calls of the response have results"

    results: tuple[ToolMessage, ...]
    """The results of all calls of a response, in the order of the calls."""


class BeforeFinish(Hook):
    """The model has given its final answer, and the turn is about to end."""

    hook_name = "before_finish"
    about = "a response without calls is about to end the turn"

    texts: Personal[tuple[str, ...]] = ()
    """Texts of plugins that were asked before, by `Intervene`; if there are any, the turn goes on after this hook."""


class BeforeCompaction(Hook):
    """The context is about to be compacted."""

    hook_name = "before_compact"
    about = "before the context is compacted"

    messages: Sequence[Message]
    """Messages to be compacted."""
    reason: Personal[str] = ""
    """Why the context is to be compacted."""


class BeforeSteering(Hook):
    """A steering text is about to be queued."""

    hook_name = "before_steering"
    about = "before a steering text is queued"

    text: Personal[str]
    """Text that the user sent."""
    ref: Kept[str] = ""
    """Id of the text."""


class BeforePluginOptsUpdate(Hook):
    """Another plugin is about to get new options."""

    hook_name = "before_plugin_opts_update"
    about = "before a plugin gets new options, while no turn is open"

    plugin: Kept[str]
    """Key of the plugin that is to get the options."""
    options: Kept[JsonObject]
    """The new options."""


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

HOOK_NAMES: Final = frozenset(hook.hook_name for hook in HOOKS)

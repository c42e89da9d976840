"""Events of tools and their calls."""

from __future__ import annotations

from typing import TypeAlias

from agentrail.values.content import Part, text_of
from agentrail.values.events.envelope import Ephemeral, Event
from agentrail.values.json import JsonObject
from agentrail.values.personal import Kept, Personal, ToolName
from agentrail.values.tools import StandingApproval, Todo


class ToolCalls(Event):
    """The model's response asks for tool calls."""

    count: int
    """Number of calls in the response."""


class ToolExecutionStart(Event):
    """A tool call started, or a tool run that a plugin asked for."""

    call_id: Kept[str]
    """Id of the call, or of the plugin's request."""
    name: ToolName
    """Name of the tool."""
    args: Personal[JsonObject]
    """Arguments of the call."""
    attempt: int = 1
    """Number of the attempt, from 1."""
    standing: tuple[StandingApproval, ...] = ()
    """The approvals for always without which the call would have been held."""


class ToolExecutionUpdate(Ephemeral):
    """A running call reported its progress."""

    call_id: Kept[str]
    """Id of the call."""
    update: Personal[str]
    """The progress, as text."""


class ToolExecutionEnd(Event):
    """A call has ended with a result."""

    call_id: Kept[str]
    """Id of the call."""
    name: ToolName
    """Name of the tool."""
    content: tuple[Part, ...]
    """The result as the tool returned it: before `after_tool` may replace it, and before it is cut to its limit."""
    is_error: bool
    """Whether the result is an error."""
    details: Personal[JsonObject | None] = None
    """The data that the tool returned for programs; the model never sees it."""
    late: bool = False
    """Whether the turn no longer waited for the call, so that its result does not enter the history."""

    @property
    def text(self) -> str:
        """The text of the result, with JSON values as JSON text."""
        return text_of(self.content)


class ToolExecutionMetrics(Event):
    """How long a call took."""

    call_id: Kept[str]
    """Id of the call."""
    name: ToolName
    """Name of the tool."""
    started_at_ms: int
    """When the call started, in milliseconds since 1970."""
    ended_at_ms: int
    """When the call ended, in milliseconds since 1970."""
    duration_ms: int
    """Milliseconds from the start of the first attempt to the end of the call."""


class ToolBlocked(Event):
    """A plugin blocked a call."""

    call_id: Kept[str]
    """Id of the call."""
    name: ToolName
    """Name of the tool."""
    reason: Personal[str]
    """Reason that the plugin gave."""
    plugin: Kept[str]
    """Key of the plugin."""


class ToolKilled(Event):
    """A call got an error result because its turn was aborted."""

    call_id: Kept[str]
    """Id of the call."""
    name: ToolName
    """Name of the tool."""
    reason: Personal[str]
    """Reason of the abort."""


class ToolAbandoned(Event):
    """A cancelled call still runs after a quarter of a second."""

    call_id: Kept[str]
    """Id of the call."""
    name: ToolName
    """Name of the tool."""


class ToolUnknown(Event):
    """It is not known whether an interrupted call has taken effect."""

    call_id: Kept[str]
    """Id of the call."""
    name: ToolName
    """Name of the tool."""


class ToolSkippedForSteering(Event):
    """A call got an error result because the user sent a steering text."""

    call_id: Kept[str]
    """Id of the call."""
    name: ToolName
    """Name of the tool."""


class ToolAttached(Event):
    """A tool was added to the session."""

    name: Kept[str]
    """Name of the tool."""


class ToolDetached(Event):
    """A tool was removed from the session."""

    name: Kept[str]
    """Name of the tool."""


class ToolsUpdated(Event):
    """Several tools were added or removed in one step."""

    attached: Kept[tuple[str, ...]]
    """Names of the tools added."""
    detached: Kept[tuple[str, ...]]
    """Names of the tools removed."""
    source: Kept[str] = ""
    """Name of the source (an MCP server), or key of the plugin, that changed them; empty if a program did."""
    problems: Personal[tuple[str, ...]] = ()
    """Why the source offers no tools, or only some of them."""


class ToolCallUnknown(Event):
    """The model called a tool that does not exist."""

    call_id: Kept[str]
    """Id of the call."""
    name: ToolName
    """The name that the model used."""


class ToolsFound(Event):
    """The model looked for deferred tools, with `find_tools`."""

    call_id: Kept[str]
    """Id of the call."""
    query: Personal[str]
    """What the model looked for."""
    names: tuple[ToolName, ...]
    """Names of the tools whose definitions it got."""


class LoopDetected(Event):
    """The model repeats itself: it makes the same call again and again, or many calls about one subject."""

    kind: Kept[str]
    """`repeat_pattern`, `file_loop_warn` or `file_loop_abort`."""
    name: ToolName
    """Name of the tool."""
    count: int
    """Number of equal calls in a row, or of calls about the subject in this turn."""
    subject: Personal[str | None] = None
    """For the file loops: the file or subject of the calls."""


class LargeResultOffloaded(Event):
    """A large result was written to a file; the model sees only part of it."""

    call_id: Kept[str]
    """Id of the call."""
    name: ToolName
    """Name of the tool."""
    path: Kept[str]
    """Path of the file that holds the whole result."""
    bytes: int
    """Size of the file in bytes."""


class TodoChange(Event):
    """The session's list of things to do changed."""

    todos: tuple[Todo, ...]
    """The whole new list."""


class SubagentStart(Event):
    """A sub-agent was started."""

    call_id: Kept[str]
    """Id of the call that started the sub-agent."""
    child: Kept[str]
    """Session id of the sub-agent."""
    description: Personal[str]
    """The task of the sub-agent, in a few words."""
    agent: Kept[str] = ""
    """Name of the sub-agent's kind in the session's list of agents."""
    background: bool = False
    """Whether the call returns at once instead of waiting for the sub-agent."""
    peers: Kept[tuple[str, ...]] = ()
    """Session ids of the sub-agents with which it may exchange messages."""


class SubagentEnd(Event):
    """A sub-agent ended."""

    call_id: Kept[str]
    """Id of the call that started the sub-agent."""
    child: Kept[str]
    """Session id of the sub-agent."""
    text: Personal[str]
    """Answer of the sub-agent, or why there is none."""
    is_error: bool
    """Whether the sub-agent failed."""


class SubAgentEvent(Event):
    """A sub-agent emitted an event."""

    call_id: Kept[str]
    """Id of the call that started the sub-agent."""
    child: Kept[str]
    """Session id of the sub-agent."""
    event: Event
    """The event of the sub-agent."""


AnyToolEvent: TypeAlias = (
    LargeResultOffloaded
    | LoopDetected
    | SubAgentEvent
    | SubagentEnd
    | SubagentStart
    | TodoChange
    | ToolAbandoned
    | ToolAttached
    | ToolBlocked
    | ToolCallUnknown
    | ToolCalls
    | ToolDetached
    | ToolExecutionEnd
    | ToolExecutionMetrics
    | ToolExecutionStart
    | ToolExecutionUpdate
    | ToolKilled
    | ToolSkippedForSteering
    | ToolUnknown
    | ToolsFound
    | ToolsUpdated
)
"""The events of this module, in the order of the catalogue."""

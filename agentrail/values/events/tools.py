"""Events of tools and their calls."""

from __future__ import annotations

from agentrail.values.content import Part, text_of
from agentrail.values.events.envelope import Ephemeral, Event
from agentrail.values.json import JsonObject
from agentrail.values.tools import Todo
from agentrail.values.value import value


@value
class ToolCalls(Event):
    """The model asked for tools."""

    count: int
    """How many calls."""


@value
class ToolExecutionStart(Event):
    """A call runs now, or a tool that a plugin asked for."""

    call_id: str
    """Which call, or which question of a plugin."""
    name: str
    """Which tool."""
    args: JsonObject
    """With which arguments."""
    attempt: int = 1
    """1 for the first; each retry is one more."""


@value
class ToolExecutionUpdate(Ephemeral):
    """A running call reports progress."""

    call_id: str
    """Which call."""
    update: str
    """What it says."""


@value
class ToolExecutionEnd(Event):
    """A call has its result."""

    call_id: str
    """Which call."""
    name: str
    """Which tool."""
    content: tuple[Part, ...]
    """What the model will see."""
    is_error: bool
    """Whether it failed."""
    details: JsonObject | None = None
    """What the tool says to programs."""
    late: bool = False
    """Whether its turn had gone on without it: the history does not change."""

    @property
    def text(self) -> str:
        """The text of the result."""
        return text_of(self.content)


@value
class ToolExecutionMetrics(Event):
    """How long a call took."""

    call_id: str
    """Which call."""
    name: str
    """Which tool."""
    started_at_ms: int
    """When it started."""
    ended_at_ms: int
    """When it ended."""
    duration_ms: int
    """How long it took."""


@value
class ToolBlocked(Event):
    """A plugin blocked a call."""

    call_id: str
    """Which call."""
    name: str
    """Which tool."""
    reason: str
    """Why."""
    plugin: str
    """Who blocked it."""


@value
class ToolKilled(Event):
    """An abort took a call out of its turn."""

    call_id: str
    """Which call."""
    name: str
    """Which tool."""
    reason: str
    """Why."""


@value
class ToolAbandoned(Event):
    """A cancelled call still runs after its grace; it is in quarantine."""

    call_id: str
    """Which call."""
    name: str
    """Which tool."""


@value
class ToolUnknown(Event):
    """Whether a call took effect is not known."""

    call_id: str
    """Which call."""
    name: str
    """Which tool."""


@value
class ToolSkippedForSteering(Event):
    """Steering took a call out of its batch."""

    call_id: str
    """Which call."""
    name: str
    """Which tool."""


@value
class ToolAttached(Event):
    """A tool was attached."""

    name: str
    """Which tool."""


@value
class ToolDetached(Event):
    """A tool was detached."""

    name: str
    """Which tool."""


@value
class ToolsUpdated(Event):
    """Tools were attached and detached in one step."""

    attached: tuple[str, ...]
    """Those that came."""
    detached: tuple[str, ...]
    """Those that went."""
    source: str = ""
    """The source that has other tools now, such as an MCP server; empty: a program changed them."""
    problems: tuple[str, ...] = ()
    """Why the source has no tools, or not all of them."""


@value
class ToolCallUnknown(Event):
    """The model called a tool that is not there."""

    call_id: str
    """Which call."""
    name: str
    """What it called."""


@value
class LoopDetected(Event):
    """The model goes in circles."""

    kind: str
    """`repeat_pattern`, `file_loop_warn` or `file_loop_abort`."""
    name: str
    """Which tool."""
    count: int
    """How often."""
    subject: str | None = None
    """On what, for the file loops."""


@value
class LargeResultOffloaded(Event):
    """A big result went to a file."""

    call_id: str
    """Of which call."""
    name: str
    """Which tool."""
    path: str
    """Where it is."""
    bytes: int
    """How big it is."""


@value
class TodoChange(Event):
    """The list of things to do changed."""

    todos: tuple[Todo, ...]
    """The whole list."""


@value
class SubagentStart(Event):
    """A sub-agent was started."""

    call_id: str
    """For which call."""
    child: str
    """The child session."""
    description: str
    """What it is to do."""
    agent: str = ""
    """Which of the agents that the session may start."""
    background: bool = False
    """Whether the call does not wait for it."""


@value
class SubagentEnd(Event):
    """A sub-agent ended."""

    call_id: str
    """For which call."""
    child: str
    """The child session."""
    text: str
    """What it answered."""
    is_error: bool
    """Whether it failed."""


@value
class SubAgentEvent(Event):
    """Something happened in a sub-agent."""

    call_id: str
    """For which call it works."""
    child: str
    """The child session."""
    event: Event
    """What happened there."""

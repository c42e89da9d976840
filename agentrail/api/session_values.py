"""Values that handles and supervisors return: replies, the status of a session, the tree of supervisors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, Never, TypeAlias

from agentrail.core.answers import read_answer
from agentrail.hints import missing_attribute
from agentrail.ports.tool import Task
from agentrail.values.content import ToolCall
from agentrail.values.json import JsonObject
from agentrail.values.messages import AssistantMessage, Message
from agentrail.values.usage import NOTHING_USED, Usage
from agentrail.values.value import Value


class HeldCall(Value):
    """A call that waits for a person's decision or answer, or for its result from elsewhere."""

    id: str
    """Id to pass to `approve`, `reject`, `respond` or `result`."""
    kind: str
    """`approval`, `question` or `result`."""
    call_id: str
    """Id of the call."""
    tool: str
    """Name of the tool."""
    args: JsonObject
    """Arguments of the call."""
    hint: str
    """What the person should know before deciding; for a question, its text."""
    options: tuple[str, ...] = ()
    """Answers to choose from; empty if any text will do."""
    expires_at: int | None = None
    """When it waits no more, in milliseconds since 1970; `None`: never."""
    family: str | None = None
    """Family of commands that `approve` with `always` would let pass; `None` if that is not possible."""
    path: tuple[str, ...] = ()
    """For a call of a sub-agent: the ids of parent session and call, outermost first; else empty."""
    since: int = 0
    """Since when it waits, in milliseconds since 1970."""
    asked_by: tuple[str, ...] = ()
    """Who asked for the turn of the call, as the callers said (`SessionHandle.by`); empty if nobody said so."""
    digest: str = ""
    """Digest of what is shown here: `approve` and `reject` of this object send it, and are refused if the call is
    another by then. Empty for a question."""


HELD: Final = "held"
"""Stop reason of a reply whose turn waits for a person, and goes on afterwards."""

RUNNING: Final = "running"
"""Stop reason of a reply that was not waited for: the turn goes on, or has not begun."""

Until: TypeAlias = Literal["rest", "end"]
"""Until when `ask` waits: also until the turn waits for a person (`rest`), or until it is over (`end`)."""

UNTILS: Final[tuple[Until, ...]] = ("rest", "end")
"""The values of `Until`."""


class Reply(Value):
    """How a turn ended; the result of `ask`."""

    ref: str
    """Id of the prompt that the turn answered."""
    stop_reason: str
    """`end`, `max_rounds`, `left`, `superseded`, `length`, `refused`; or `held`: the turn waits for a person."""
    messages: tuple[Message, ...] = ()
    """Messages that the turn added to the history."""
    usage: Usage = NOTHING_USED
    """Usage of the turn."""
    held: tuple[HeldCall, ...] = ()
    """The calls that wait for a person."""
    fits: bool = False
    """Whether the text is a JSON object that fits the schema which the prompt, or the session, asked for."""
    dropped: tuple[ToolCall, ...] = ()
    """The calls of an earlier turn that waited for a person, and that this prompt has dropped: they did not run."""

    @property
    def text(self) -> str:
        """Text of the model's last message in the turn; empty if there is none, or while the turn waits for a person.

        What the model said before it came to wait is no answer; it is in `messages`, and what waits is in `held`.
        """
        if self.stop_reason == HELD:
            return ""
        texts = [message.text for message in self.messages if isinstance(message, AssistantMessage)]
        return texts[-1] if texts else ""

    @property
    def answer(self) -> JsonObject | None:
        """The answer as JSON, if a form was asked for (`returns`) and it fits; else `None`."""
        answer = read_answer(self.text) if self.fits else None
        return None if isinstance(answer, str) else answer

    if not TYPE_CHECKING:  # hidden from type checkers, so that they report missing attributes

        def __getattr__(self, name: str) -> Never:
            """Raise the `AttributeError`, with a hint for a name of another library."""
            raise missing_attribute("Reply", self, name)


class Background(Value):
    """A call that still runs although its turn no longer waits for it."""

    call_id: str
    """Id of the call."""
    name: str
    """Name of the tool."""
    since: int
    """When the call left its turn, or was cancelled after that, in milliseconds since 1970."""
    abandoned: bool = False
    """Whether the call was cancelled and has not ended in time."""


class Asking(Value):
    """A hook that is paused until what a plugin asked for is done."""

    hook: str
    """Name of the hook."""
    plugin: str
    """Key of the plugin."""
    request: str
    """Kind of request, such as `RunTool`."""


class Compacting(Value):
    """A compaction of the context that is under way."""

    reason: str
    """Why the context is compacted."""
    tokens: int
    """About how many tokens the context takes."""


class Status(Value):
    """What a session is doing now, as `status()` returns it."""

    session_id: str
    """Id of the session."""
    phase: str
    """`idle`, `running`, `streaming`, `executing_tools`; `ended` when it is over."""
    model: str
    """Name of the model for the next turn."""
    turn: int
    """Number of turns started so far."""
    round: int
    """Number of the round in the open turn, 0 if none is open."""
    turn_open: bool
    """Whether a turn is open, even if it waits for a person."""
    usage: Usage
    """Usage of the session so far."""
    queued: int
    """Number of queued prompts."""
    steering: int
    """Number of queued steering texts."""
    held: tuple[HeldCall, ...]
    """Calls that wait for a person; those of sub-agents come last."""
    asking: tuple[Asking, ...]
    """Hooks that are paused until what a plugin asked for is done."""
    lingering: tuple[Background, ...]
    """Immune calls that were left running in the background."""
    quarantined: tuple[Background, ...]
    """Cancelled calls that have not ended."""
    tasks: tuple[Task, ...] = ()
    """Running sub-agents, and those in the background that have ended."""
    compacting: Compacting | None = None
    """The compaction of the context that is under way, while the phase is `running`; `None` if there is none."""
    waits: bool = False
    """Whether the open turn, its sub-agents included, can do nothing until a person decides something."""
    agent: str = ""
    """Name of the agent that works: of the session's specification, or the one that it was handed over to."""


class SessionDown(Value):
    """The end of a session, as a monitor reports it."""

    session_id: str
    """Id of the session."""
    reason: str
    """Why the session ended."""


class ChildView(Value):
    """One child of a supervisor, as `tree()` shows it, with what is under it."""

    name: str
    """Name of the child."""
    kind: str
    """`session`, `service` or `supervisor`."""
    state: str
    """`starting`, `running`, `waiting` (to be started again), `stopping`, `asleep`, `quarantined`, `stuck`, `down`."""
    restart: str
    """`permanent`, `transient` or `temporary`."""
    restarts: int = 0
    """How often the child was restarted."""
    phase: str = ""
    """Of a session: the phase of its machine."""
    suspended: bool = False
    """Of a session: whether it was suspended."""
    mailbox: tuple[int, int, int] = (0, 0, 0)
    """Of a session: how many messages wait in each lane: control, results, user."""
    memory: int = 0
    """Of a session: about how many characters of conversation it holds in memory."""
    limited: int = 0
    """Of a session: how many of its requests to models wait for the limit of their provider."""
    children: tuple[ChildView, ...] = ()
    """Of a supervisor: its children; of a session: its sub-agents; in the order of their start."""
    host: str = ""
    """Of a session at one of several hosts: the address of the host; empty otherwise."""


class CallInProgress(Value):
    """A tool call that runs."""

    call_id: str
    """Id of the call."""
    tool: str
    """Name of the tool."""
    since: int
    """When its first attempt started, in milliseconds since 1970."""


class TreeRow(Value):
    """One session of the tree, flat: what it does now, what waits in it, and what it has used."""

    session: str
    """Id of the session."""
    parent: str
    """Id of the session whose sub-agent it is; empty if it has no parent."""
    tenant: str
    """Its tenant; empty if it has none."""
    user: str
    """Its owner; empty if it has none."""
    agent: str
    """Name of its specification, which is that of its profile at a host; or of the sub-agent."""
    title: str
    """Its title; empty if it has none."""
    state: str
    """`starting`, `running`, `waiting` (to be started again), `stopping`, `asleep`, `quarantined`, `stuck`, `down`."""
    restarts: int
    """How often it was restarted."""
    suspended: bool
    """Whether it was suspended."""
    phase: str
    """Phase of its machine."""
    waits: bool
    """Whether its open turn, sub-agents included, can do nothing until a person decides something."""
    model: str
    """Model of the open turn, or else for the next one."""
    turn: int
    """Number of turns started so far."""
    round: int
    """Number of the round in the open turn, 0 if none is open."""
    turn_since: int | None
    """When the open turn started, in milliseconds since 1970; `None` if none is open."""
    calls: int
    """Number of tool calls that run."""
    running: tuple[CallInProgress, ...]
    """The first of these calls."""
    queued: int
    """Number of queued prompts."""
    steering: int
    """Number of queued steering texts."""
    held: int
    """Number of calls that wait for a person."""
    quarantined: int
    """Number of calls that were cancelled and have not ended."""
    context_tokens: int | None
    """Tokens of the context at the last response; `None` if they are not known, or the session sleeps."""
    context_window: int
    """Tokens that the model can read; an assumed number if it is not known."""
    tokens: int
    """Tokens read and written so far."""
    cost_usd: float | None
    """Cost so far in US dollars; `None` if a price is unknown."""
    records: int
    """Number of its last record."""

"""`Tool`: something that the model may call, and `ToolContext`: what the runtime passes to it.

`Threads` runs synchronous tools in worker threads. `Past` reads all messages of the session.

`ToolSource` supplies a session with tools that may change while it runs, such as those of an MCP server.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple, Protocol, TypeVar, runtime_checkable

import attrs

from agentrail.ports.agents import Agents, Peers
from agentrail.ports.jobs import Jobs
from agentrail.ports.sandbox import Sandbox
from agentrail.ports.web import Web
from agentrail.reprs import in_brackets
from agentrail.values.json import EMPTY, Json, JsonObject
from agentrail.values.messages import Message
from agentrail.values.spelling import spelt
from agentrail.values.tools import Probed, Todo, ToolResult, ToolSpec

T = TypeVar("T")


class Threads(Protocol):
    """Runs the synchronous code of one tool call in worker threads."""

    async def run(self, work: Callable[[], T], /) -> T:
        """Run *work* in a worker thread and return its result.

        A cancelled caller does not wait: the thread goes on, its result is dropped, and the call is in quarantine
        until the thread has ended. Raises `ToolError` if too many such abandoned threads still run.
        """
        ...


def unheard(_: str) -> None:
    """No-op: the default of `ToolContext.report`, for calls without a subscriber."""


class Surroundings:
    """The sandbox and web fetcher of a session's tools; each is made at its first use."""

    __slots__ = ()

    @property
    def sandbox(self) -> Sandbox:
        """Sandbox of the session's tools."""
        raise NotImplementedError

    @property
    def web(self) -> Web:
        """Fetcher of web pages."""
        raise NotImplementedError


PLACES: Final = 2**20
"""How many messages one record may append: the number of a message is that of its record times this, and its place."""


class PastMessage(NamedTuple):
    """A message of a session, with its number."""

    number: int
    """Number of the message in its session: later ones have larger numbers, and a compaction changes none."""
    message: Message
    """The message, as it was said."""


class Past(Protocol):
    """Reads the messages of one session, in the order in which they were said."""

    async def messages(
        self, after: int, limit: int, wanted: Callable[[Message], bool] | None = None
    ) -> tuple[PastMessage, ...]:
        """Return up to *limit* messages after number *after*: all, or those of which *wanted* returns `True`."""
        ...


@spelt
@attrs.frozen(repr=False, slots=False)  # made for each call: to fill slots of a frozen class takes six times as long
class ToolContext:
    """Passed to each tool call beside its arguments: facts about the session, and what the tool may use."""

    session_id: str = "session"
    """Session that makes the call."""
    call_id: str = "call"
    """Id of the call."""
    idempotency_key: str = "key"
    """Key that is the same for each attempt of one call, so that a server can recognise a repeated one."""
    working_dir: str = "."
    """Folder in which the tools work."""
    model: str = ""
    """Name of the session's model."""
    todos: tuple[Todo, ...] = ()
    """The session's to-do list, as the tool `write_todos` last set it."""
    user_data: JsonObject = EMPTY
    """`SessionSpec.user_data`: anything that the program gave the session."""
    turn: int = 0
    """Number of the turn, from 1."""
    total_tokens: int = 0
    """Tokens that the session has used so far."""
    cost_usd: float | None = None
    """Cost of the session so far in US dollars; `None` if it is not known."""
    report: Callable[[str], None] = unheard
    """Report progress to subscribers at once. In the thread of a cancelled call it raises, to end the thread."""
    _sandbox: Sandbox | Surroundings | None = attrs.field(default=None, alias="sandbox")
    jobs: Jobs | None = None
    """The session's background commands; set in each call of a session, `None` only in calls by a program."""
    _web: Web | Surroundings | None = attrs.field(default=None, alias="web")
    threads: Threads | None = None
    """Worker threads for synchronous code; set in each call of a session."""
    agents: Agents | None = None
    """The session's sub-agents; `None` if it may start none."""
    memory_contents: JsonObject = EMPTY
    """The sections of the layer `memory`: contents of memory files, by path."""
    past: Past | None = None
    """All messages of the session; set in each call of a session, `None` only in calls by a program."""
    peers: Peers | None = None
    """The sub-agents to which the session may write; set in each call of a session, `None` only in calls by a program.
    """

    @in_brackets
    def __repr__(self) -> str:
        return f"{self.session_id!r} call {self.call_id!r}"

    @property
    def sandbox(self) -> Sandbox | None:
        """The session's sandbox, made at its first use; `None` only in calls outside a session."""
        found = self._sandbox
        return found.sandbox if isinstance(found, Surroundings) else found

    @property
    def web(self) -> Web | None:
        """The session's fetcher of web pages, made at its first use; `None` only in calls outside a session."""
        found = self._web
        return found.web if isinstance(found, Surroundings) else found


class Tool(Protocol):
    """Something the model may call."""

    @property
    def spec(self) -> ToolSpec:
        """Description of the tool: name, schema of the arguments, timeouts, effect class."""
        ...

    async def execute(self, args: JsonObject, ctx: ToolContext) -> ToolResult:
        """Execute a call. Raise `ToolError` to tell the model of an error; another exception is a crash of the call."""
        ...


@runtime_checkable
class Checkable(Protocol):
    """A tool of effect class `checkable`: it can find out what became of a call that a crash interrupted."""

    async def probe(self, key: str) -> Probed:
        """Return the result of the call that ran under the idempotency key *key*, `NotStarted()`, or `Unknown()`."""
        ...


Service = Callable[[Json], Awaitable[Json]]
"""An async function given to a session, for plugins to call by `Ask(CallService(…))`."""


class Offer(Protocol):
    """Callback with which a tool source hands its current tools to the session."""

    async def __call__(self, tools: Sequence[Tool], problems: Sequence[str] = ()) -> None:
        """Replace all tools of the source in the session by *tools*, in one step; *problems* are reported as events."""
        ...


@runtime_checkable
class ToolSource(Protocol):
    """Supplies a session with tools that come and go, such as those of a server; restarted when it ends."""

    @property
    def name(self) -> str:
        """Name of the source, unique within a session."""
        ...

    def check(self) -> None:
        """Raise an error if the source is set up so that it can never start; called before a session starts."""
        ...

    async def supply(self, working_dir: str, offer: Offer) -> None:
        """Offer tools until the source fails, then raise why. If cancelled, it must clean up before it ends."""
        ...

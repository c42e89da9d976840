"""What the shell needs of a tool, and what a tool gets from it.

What tools need of whoever runs sync code beside the sessions.

What the shell needs of whoever supplies a session with tools for as long as it lives.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar, runtime_checkable

import attrs

from agentrail.ports.agents import Agents
from agentrail.ports.jobs import Jobs
from agentrail.ports.sandbox import Sandbox
from agentrail.ports.web import Web
from agentrail.values.json import EMPTY, Json, JsonObject
from agentrail.values.tools import Probed, Todo, ToolResult, ToolSpec
from agentrail.values.value import Value, value

T = TypeVar("T")


class Threads(Protocol):
    """Worker threads for the sync code of one call."""

    async def run(self, work: Callable[[], T], /) -> T:
        """Return what *work* returns in a worker thread.

        Who is cancelled does not wait for it: the thread goes on, its result is dropped, and the call is in quarantine
        until it has ended. Raise `ToolError` if too many threads go on like that.
        """
        ...


def unheard(_: str) -> None:
    """Stand in where nobody listens to progress."""


class Surroundings:
    """Where the tools of a session work; each part is made when it is first asked for."""

    __slots__ = ()

    @property
    def sandbox(self) -> Sandbox:
        """Where files are and commands run."""
        raise NotImplementedError

    @property
    def web(self) -> Web:
        """How pages are fetched."""
        raise NotImplementedError


@value
class ToolContext(Value):
    """What a tool may know and do beside its arguments."""

    session_id: str = "session"
    """Whose call it is."""
    call_id: str = "call"
    """Which call."""
    idempotency_key: str = "key"
    """The same for every attempt of one call."""
    working_dir: str = "."
    """Where tools work."""
    model: str = ""
    """The session's model."""
    todos: tuple[Todo, ...] = ()
    """The session's list of things to do."""
    user_data: JsonObject = EMPTY
    """What the spawner gave the session."""
    turn: int = 0
    """Which turn."""
    total_tokens: int = 0
    """What the session has used."""
    cost_usd: float | None = None
    """What the session has cost; `None`: not known."""
    report: Callable[[str], None] = attrs.field(default=unheard)
    """Say how far it is: subscribers see it at once. In a worker thread it ends a call that was cancelled."""
    _sandbox: Sandbox | Surroundings | None = attrs.field(default=None, alias="sandbox")
    jobs: Jobs | None = None
    """What runs in the session's background; a session always gives it."""
    _web: Web | Surroundings | None = attrs.field(default=None, alias="web")
    threads: Threads | None = None
    """Where sync code runs; a session always gives it."""
    agents: Agents | None = None
    """The session's sub-agents; `None`: it may start none."""

    @property
    def sandbox(self) -> Sandbox | None:
        """Where files are and commands run; a session always gives one, made when a tool first asks for it."""
        found = self._sandbox
        return found.sandbox if isinstance(found, Surroundings) else found

    @property
    def web(self) -> Web | None:
        """How pages are fetched; a session always gives it, made when a tool first asks for it."""
        found = self._web
        return found.web if isinstance(found, Surroundings) else found


class Tool(Protocol):
    """Something the model may call."""

    @property
    def spec(self) -> ToolSpec:
        """Everything about it but its code."""
        ...

    async def execute(self, args: JsonObject, ctx: ToolContext) -> ToolResult:
        """Do it. Raise `ToolError` to answer `Err`; any other exception is a crash of the call."""
        ...


@runtime_checkable
class Checkable(Protocol):
    """A tool that can find out what has become of a call that was interrupted; its effect class is `checkable`."""

    async def probe(self, key: str) -> Probed:
        """Return the result of the call that ran under the idempotency key *key*, `NotStarted()`, or `Unknown()`."""
        ...


Service = Callable[[Json], Awaitable[Json]]
"""An async function given to a session, for plugins to call by `Ask(CallService(…))`."""


class Offer(Protocol):
    """Takes the tools that a source has now."""

    async def __call__(self, tools: Sequence[Tool], problems: Sequence[str] = ()) -> None:
        """Let the session have these tools of the source and no others, in one step; *problems* are reported."""
        ...


@runtime_checkable
class ToolSource(Protocol):
    """Supplies tools that come and go; it is started again when it ends."""

    @property
    def name(self) -> str:
        """What it is called; one session has no two of the same name."""
        ...

    def check(self) -> None:
        """Raise what must be put right before it can be started at all."""
        ...

    async def supply(self, working_dir: str, offer: Offer) -> None:
        """Offer tools until that is possible no more, and raise why; when it is cancelled, nothing of it is left."""
        ...

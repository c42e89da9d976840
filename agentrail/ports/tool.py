"""`Tool`: something that the model may call; and what it is given (`ToolContext`, `Jobs`, `Agents`, `Web`)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, Generic, NamedTuple, Protocol, cast, runtime_checkable

import attrs
from typing_extensions import TypeVar

from agentrail.errors import UsageError
from agentrail.ports.sandbox import Process, Sandbox
from agentrail.reprs import in_brackets
from agentrail.values.argument_checks import spelt
from agentrail.values.json import EMPTY, Json, JsonObject
from agentrail.values.messages import Message
from agentrail.values.tools import Err, Ok, PersonAnswer, Probed, Todo, ToolResult, ToolSpec
from agentrail.values.value import Authored


class Task(Authored):
    """One run of a sub-agent: what it was asked to do, and how far it is."""

    child: str
    """Session id of the sub-agent, whose session can be used while the sub-agent runs.

    Its records stay readable after that, unless the supervisor was given no journal.
    """
    agent: str
    """Name of the agent, by which the session knows it."""
    description: str
    """Short description of the task, as the model that started it gave it."""
    call_id: str
    """Id of the tool call that started the sub-agent."""
    background: bool = False
    """Whether the sub-agent runs in the background: its tool call returned without waiting for the answer."""
    status: str = "running"
    """`running`, `waiting` for a person, `done` or `failed`."""
    peers: tuple[str, ...] = ()
    """Ids of sub-agents that were there before, with which this one may exchange messages."""


class Agents(Protocol):
    """Starts and stops the sub-agents of one session; they end with that session."""

    async def run(
        self, call_id: str, agent: str, description: str, prompt: str, peers: tuple[str, ...] = ()
    ) -> Ok | Err:
        """Run *agent* on *prompt* and return its answer; cancelling this call stops the sub-agent."""
        ...

    async def start(
        self, call_id: str, agent: str, description: str, prompt: str, peers: tuple[str, ...] = ()
    ) -> Task | Err:
        """Start *agent* on *prompt* in the background; return its task once it runs, or why it could not start.

        It and the running sub-agents *peers* may exchange messages.
        """
        ...

    def tasks(self) -> tuple[Task, ...]:
        """Return the last background tasks that have ended, in the order of their ends, and then those that run."""
        ...

    async def result(self, child: str) -> Ok | Err:
        """Wait for the answer of the background task *child*, and return it; raise `UnknownTask` if there is none."""
        ...

    async def tell(self, command: str | None, child: str, text: str, by: str | None = None) -> None:
        """Send *text* to the running sub-agent *child*, which gets it before its next request and stops nothing for it.

        Raise `UsageError` if it has ended, and `UnknownTask` if there is none. The same *command* sends it once only.
        *by* is who gives a program the command, and may be empty; `None` if the session sends it in its open turn.
        """
        ...

    async def wait(
        self, call_id: str | None, children: Iterable[str], seconds: float, *, every: bool
    ) -> Mapping[str, Ok | Err]:
        """Wait until *every* one of *children* has ended, or any one; return the answers of those that have, by id.

        The call *call_id* waits for *seconds* from its start at most, also if a restart interrupted it, and until
        a message to its session waits. A program, without a call, waits for *seconds* from now at most.
        """
        ...

    async def cancel(self, child: str) -> None:
        """Stop the sub-agent *child*; return when it and everything that it started have ended."""
        ...


class Peers(Protocol):
    """Exchanges messages with the sub-agents of which the parent has given the address."""

    def peers(self) -> tuple[Task, ...]:
        """Return the running sub-agents with which messages may be exchanged."""
        ...

    async def send(self, call_id: str, to: str, text: str) -> None:
        """Send *text* to the sub-agent *to*, once for each *call_id*, as `Agents.tell` does.

        Raise `UnknownTask` if the parent has not given its address.
        """
        ...

    async def arrived(self, call_id: str, seconds: float) -> bool:
        """Wait until a message has come; return `False` if none has *seconds* after the start of the call *call_id*."""
        ...


class Job(Protocol):
    """A command that runs, or ran, in the background of a session."""

    @property
    def job_id(self) -> str:
        """Name of the job that the model uses, such as `job-1`."""
        ...

    @property
    def command(self) -> str:
        """The command line."""
        ...

    @property
    def process(self) -> Process:
        """The process of the command: has its output, and its exit code once it has ended."""
        ...

    @property
    def has_ended(self) -> bool:
        """Whether the command has ended."""
        ...

    @property
    def problem(self) -> str:
        """Why the command could not be run; empty if it could."""
        ...

    async def kill(self) -> None:
        """End the command, and return when it has ended."""
        ...


class Jobs(Protocol):
    """Starts and finds the background commands of one session; they end with that session."""

    def start(self, command: str, process: Process) -> Job:
        """Run *process* as a job; raise `CommandRefused` if too many jobs run already."""
        ...

    def all(self) -> tuple[Job, ...]:
        """Return the running jobs and the last ones that have ended, in the order in which they were started."""
        ...

    def find(self, job_id: str) -> Job | None:
        """Return the job called *job_id*; `None` if there is none."""
        ...


MAX_PAGE = 2 * 1024 * 1024
"""Bytes of a page that are read at most."""


class Page(Authored):
    """A fetched page."""

    url: str
    """Address of the page after all redirects."""
    status: int
    """HTTP status of the answer, such as 200 or 404."""
    media_type: str
    """Media type that the server gives, such as `text/html`."""
    text: str
    """Text of the page; HTML is turned into Markdown unless `raw` was set."""
    cut: bool = False
    """Whether the page is longer than the part that was read."""


class Web(Protocol):
    """Fetches pages. Raises `WebRefused` for addresses that tools must not reach, and `WebFailed` if a fetch fails."""

    async def fetch(self, url: str, *, timeout: float, raw: bool = False) -> Page:  # noqa: ASYNC109 - a limit of the fetch
        """Return the page at *url*; with *raw*, HTML as it is; *timeout* is in seconds."""
        ...


class SearchResult(Authored):
    """A page that a search of the web has found."""

    url: str
    """Address of the page, with `http://` or `https://`."""
    title: str = ""
    """Title of the page."""
    snippet: str = ""
    """What of the page fits the query, or what the page is about."""
    date: str = ""
    """When it was published or changed, as the service writes it; empty if the service does not say."""


@runtime_checkable
class SearchesWeb(Protocol):
    """Interface: a `Web` that also searches. Raises `SearchFailed` if a search fails, or if there is no key for one."""

    async def search(self, query: str, *, max_results: int, timeout: float) -> Sequence[SearchResult]:  # noqa: ASYNC109 - a limit of the search
        """Return up to *max_results* pages for *query*, the best first; *timeout* is in seconds."""
        ...


T = TypeVar("T")
Deps_co = TypeVar("Deps_co", default=object, covariant=True)


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


class ToolResources:
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


MESSAGES_PER_RECORD: Final = 2**20
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


class DepsWanted(Authored):
    """The session that `SessionSpec.deps` makes dependencies for; passed to such a function if it takes an argument."""

    session_id: str
    """Id of the session; for inherited dependencies, of the one that they are inherited from."""
    name: str
    """Name of its specification."""
    tenant: str
    """Tenant of the session."""
    owner: str
    """Owner of the session."""
    labels: tuple[str, ...]
    """Labels of the session."""
    user_data: JsonObject
    """User data of the session."""


NOT_GIVEN: Final = (
    "this call has none; annotate the tool's parameter `ToolContext[…]` with their class, and give the session "
    "`SessionSpec(deps=…)`, or a call by a program `ToolContext(deps=…)`"
)

NO_DEPS: Final = object()
"""Stands for the dependencies of a call that has none: `None` may be some."""


@spelt
# Not frozen: one is made for each call, and filling the slots of a frozen class takes six times as long.
@attrs.frozen(repr=False, slots=False)
class ToolContext(Generic[Deps_co]):
    """Passed to each tool call beside its arguments: facts about the session, and what the tool may use.

    In a call that a program makes outside of a session, `jobs`, `threads`, `past`, `peers`, `sandbox` and `web` may be
    `None`; in a session they never are.
    """

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
    _sandbox: Sandbox | ToolResources | None = attrs.field(default=None, alias="sandbox")
    jobs: Jobs | None = None
    """The session's background commands."""
    _web: Web | ToolResources | None = attrs.field(default=None, alias="web")
    threads: Threads | None = None
    """Worker threads for synchronous code."""
    agents: Agents | None = None
    """The session's sub-agents; `None` if it may start none."""
    memory_contents: JsonObject = EMPTY
    """The sections of the layer `memory`: contents of memory files, by path."""
    past: Past | None = None
    """All messages of the session."""
    peers: Peers | None = None
    """The sub-agents to which the session may write."""
    person_answer: PersonAnswer | None = None
    """The answer with which the call goes on after `AskPerson(resume=…)`; `None` if it starts from the beginning."""
    shell_folder: str = "."
    """The folder in which the shell was left, relative to that of the files."""
    shell_exports: JsonObject = EMPTY
    """The environment variables that earlier commands of the shell have exported, by name."""
    # Not compared: an object of the program may do anything when it is.
    _deps: Deps_co = attrs.field(default=cast("Deps_co", NO_DEPS), alias="deps", eq=False)

    @in_brackets
    def __repr__(self) -> str:
        return f"{self.session_id!r} call {self.call_id!r}"

    @property
    def deps(self) -> Deps_co:
        """`SessionSpec.deps`, for a tool with a parameter `ToolContext[Deps]`; raise `UsageError` if there are none."""
        if self._deps is NO_DEPS:
            raise UsageError("bad-deps", NOT_GIVEN)
        return self._deps

    @property
    def sandbox(self) -> Sandbox | None:
        """The session's sandbox, made at its first use."""
        sandbox = self._sandbox
        return sandbox.sandbox if isinstance(sandbox, ToolResources) else sandbox

    @property
    def web(self) -> Web | None:
        """The session's fetcher of web pages, made at its first use."""
        web = self._web
        return web.web if isinstance(web, ToolResources) else web


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
    """Callback with which a tool source sets its current tools in the session."""

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

"""What a session's actor is given from outside: its code, shared services, and interfaces to parent and sub-agents."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, cast

import trio

from agentrail.api.session_values import ChildView, HeldCall
from agentrail.core.vocabulary.commands import Answer, ChangeToolsSent
from agentrail.core.vocabulary.inputs import SessionReturned, SubagentReported
from agentrail.core.vocabulary.state import State
from agentrail.hooks.attachments import AttachedPlugin, brought_tools
from agentrail.hooks.declarations import BroughtCompactor
from agentrail.hooks.live_runner import LiveRunner, Validator
from agentrail.hooks.plugin import AnyPlugin, find_declaration
from agentrail.hooks.ruling import Section
from agentrail.ports.journal import Journal
from agentrail.ports.model import Model, PriceBook
from agentrail.ports.money import SpendingLimit
from agentrail.ports.protocol_members import has_members
from agentrail.ports.sandbox import Sandbox, SessionSandbox
from agentrail.ports.snapshots import Snapshots, snapshots_of
from agentrail.ports.tool import Agents, Service, Task, Tool, ToolSource, Web
from agentrail.ports.tool import ToolResources as ToolSurroundings
from agentrail.runtime.diagnosis.plugin_complaints import Complaints
from agentrail.runtime.diagnosis.watchdog import watchdog_of_run
from agentrail.runtime.inbox.letter import Letter, NewCode
from agentrail.runtime.shared.admission import HEARING, Gate
from agentrail.runtime.shared.clock import Clock
from agentrail.runtime.shared.code_loops import bind_function
from agentrail.runtime.shared.journal_retry import SteadyJournal
from agentrail.runtime.shared.leases import Leases
from agentrail.runtime.shared.provider_limits import ProviderLimits
from agentrail.runtime.shared.task_pool import TaskPool
from agentrail.runtime.shared.threads import WorkerThreads
from agentrail.runtime.shared.timers import Timers
from agentrail.runtime.shared.turn_waits import TurnWaits
from agentrail.runtime.work.session_deps import SessionDeps, refuse_without_deps
from agentrail.runtime.work.tool_call import Calls
from agentrail.values.messages import Compactor
from agentrail.values.usage import Limit

if TYPE_CHECKING:  # commands that only read a journal or settings import no machine
    from agentrail.ports.instrumentation import RecordListener
    from agentrail.runtime.diagnosis.figures import Figures
    from agentrail.runtime.diagnosis.shadows import Shadows
    from agentrail.runtime.inbox.mailbox import Mailbox
    from agentrail.runtime.shared.slots import OwnSlots, Slots
    from agentrail.runtime.work.reservations import FamilyUsage


class SharedServices:
    """Services that all sessions of a supervisor share.

    *forget* drops a session from the journal (`None`: kept).
    """

    __slots__ = (
        "calls",
        "clock",
        "complain",
        "figures",
        "forget",
        "fork",
        "gate",
        "hearing",
        "home",
        "journal",
        "leases",
        "limits",
        "listener",
        "model",
        "nursery",
        "parkable",
        "random",
        "shadows",
        "slots",
        "spending_limit",
        "tasks",
        "threads",
        "timers",
        "turn_waits",
        "watchdog",
    )

    fork: Callable[[str, int | str | None, str], Awaitable[object]]
    """Forks a stored session; set by the sessions of the tree."""

    def __init__(
        self,
        *,
        nursery: trio.Nursery,
        journal: Journal,
        model: Callable[[str], Model],
        gate: Gate,
        limits: Mapping[str, Limit],
        random_: random.Random,
        forget: Callable[[str], None] | None = None,
    ) -> None:
        self.nursery = nursery
        self.home = trio.lowlevel.current_trio_token()
        self.clock = Clock()
        self.journal: SteadyJournal = SteadyJournal(journal, self.clock)
        self.forget = forget
        self.model = model
        self.complain = Complaints(self.clock.now).tell  # one bound method, which all sessions share
        self.gate = gate
        self.hearing = Gate(HEARING)
        self.random = random_
        self.calls = Calls()
        self.tasks = TaskPool(nursery)
        self.threads = WorkerThreads()
        self.timers = Timers(self.clock)
        self.watchdog = watchdog_of_run()
        self.turn_waits = TurnWaits()
        self.limits = ProviderLimits(limits, self.timers)
        self.leases = Leases(self.journal, self.timers, "", 0)
        self.slots: Slots | OwnSlots | None = None  # the part of the journal to look after; `None`: all of it
        self.figures: Figures | None = None  # made when figures are first asked for
        self.listener: RecordListener | None = None  # told of each stored record; `None` if nobody listens
        self.spending_limit: SpendingLimit | None = None  # reserves money of tenants; `None` if no host limits them
        self.shadows: Shadows | None = None  # made with the first session that has a shadow
        # Made when all sessions are to be parked: an event for each session id, set once nothing is lost by parking it.
        self.parkable: defaultdict[str, trio.Event] | None = None


class SharedSurroundings(ToolSurroundings):
    """Where a session's tools work: sandbox and web access, each made on first use."""

    __slots__ = ("_make_sandbox", "_make_web", "_sandbox", "_web", "_working_dir")

    def __init__(
        self,
        sandbox: Sandbox | None,
        web: Web | None,
        working_dir: str,
        make_sandbox: Callable[[str], Sandbox],
        make_web: Callable[[], Web],
    ) -> None:
        self._sandbox = sandbox
        self._web = web
        self._working_dir = working_dir
        self._make_sandbox: Callable[[str], Sandbox] | None = make_sandbox  # `None` after the first use
        self._make_web = make_web

    @property
    def sandbox(self) -> Sandbox:
        """Sandbox with the files, in which commands run; the session's own if it is a `SessionSandbox`."""
        sandbox = self._sandbox
        if self._make_sandbox is not None:
            sandbox = self._make_sandbox(self._working_dir) if sandbox is None else sandbox
            self._sandbox = sandbox = sandbox.for_session() if has_members(sandbox, SessionSandbox) else sandbox
            self._make_sandbox = None
        return cast("Sandbox", sandbox)

    @property
    def own_sandbox(self) -> SessionSandbox | None:
        """The sandbox if it is the session's own and was used; else `None`."""
        is_own = self._make_sandbox is None and has_members(self._sandbox, SessionSandbox)
        return cast("SessionSandbox", self._sandbox) if is_own else None

    def inherited(self) -> InheritedSurroundings:
        """Return the same surroundings for a sub-agent, at whose end nothing of them ends."""
        return InheritedSurroundings(self)

    @property
    def snapshots(self) -> Snapshots | None:
        """Snapshots of the files; `None` if the sandbox takes none, as one that is made here."""
        return None if self._sandbox is None else snapshots_of(self._sandbox)

    @property
    def web(self) -> Web:
        """Client that fetches web pages."""
        if self._web is None:
            self._web = self._make_web()
        return self._web


class InheritedSurroundings(SharedSurroundings):
    """The surroundings of a sub-agent: those of its parent."""

    __slots__ = ("_parent",)

    def __init__(self, parent: SharedSurroundings) -> None:
        self._parent = parent

    @property
    def sandbox(self) -> Sandbox:
        """The parent's sandbox."""
        return self._parent.sandbox

    @property
    def own_sandbox(self) -> None:
        """`None`: it is the parent's."""
        return None

    @property
    def snapshots(self) -> Snapshots | None:
        """The snapshots of the parent's sandbox."""
        return self._parent.snapshots

    @property
    def web(self) -> Web:
        """The parent's client that fetches web pages."""
        return self._parent.web


class WaitingSession(Protocol):
    """Interface: a session that waits for a decision, as handles use it (implemented by `Session`)."""

    state: State
    """State after the last step."""
    mailbox: Mailbox
    """Its mailbox."""

    @property
    def code(self) -> SessionCode:
        """Its code."""
        ...


class ActorSubagents(Agents, Protocol):
    """Interface: the sub-agents of a session, as its actor uses them (implemented by `Subagents`)."""

    @property
    def limits(self) -> FamilyUsage:
        """Their usage of the limits that they share."""
        ...

    def held_calls(self) -> tuple[HeldCall, ...]:
        """Return the calls of sub-agents, at any depth, that wait for a person."""
        ...

    def waiting(self, ref: str) -> WaitingSession | None:
        """Return the session of the sub-agent, at any depth, that waits for a decision on *ref*; `None` if none."""
        ...

    async def answered(self, ref: str, letter: Letter) -> Answer | None:
        """Return the answer that a sub-agent gave to a command id before it ended; `None` if none is known."""
        ...

    def decisions(self, report: SubagentReported) -> SubagentReported:
        """Return *report* with all that the sub-agent has reported since."""
        ...

    def resume(self, children: tuple[str, ...], state: State) -> None:
        """Start to resume the sub-agents that an earlier process ran; *state* is the parent's."""
        ...

    def stop(self, children: tuple[str, ...]) -> None:
        """Start to stop the given sub-agents."""
        ...

    def close(self) -> None:
        """Start to stop all sub-agents, and refuse new ones."""
        ...

    def views(self) -> tuple[ChildView, ...]:
        """Return the sub-agents' entries in `tree()`."""
        ...


class AgentCode(Protocol):
    """Interface: how a kind of sub-agent is made, with what it inherits from its parent."""

    has_form: bool
    """Whether the answers must fit a schema."""
    talks: bool
    """Whether the agent can send messages to others, so that it can have peers."""

    def finder(self, task: Task, parent: State, code: SessionCode, now: int) -> FindCode:
        """Return the function that finds the code of a stored sub-agent."""
        ...

    def make(
        self, task: Task, path: tuple[str, ...], parent: State, code: SessionCode, now: int
    ) -> tuple[State, SessionCode]:
        """Return the initial state and the code of the session for *task*."""
        ...


NO_AGENTS: Mapping[str, AgentCode] = MappingProxyType({})
NO_SHADOW: Mapping[str, AnyPlugin] = MappingProxyType({})

NOTHING_RESERVED: Final = frozenset[tuple[str, int]]()
NO_TOOL_CODE: Mapping[tuple[str, int], Tool] = MappingProxyType({})


class SectionFiles(Protocol):
    """Interface: the skills and memory files that a specification names."""

    async def sections(self, session_id: str, *, tell: bool) -> tuple[Section, ...]:
        """Return the prompt sections with the texts of the files, read now; with *tell*, log those left out."""
        ...


class SessionCode:
    """The code of one session: plugins, tools, services, sandbox, and validators of arguments."""

    __slots__ = (
        "agents",
        "compactor",
        "deps",
        "environment",
        "hook_runner",
        "models",
        "prices",
        "reserved",
        "revision",
        "section_files",
        "services",
        "shadow",
        "sources",
        "surroundings",
        "tools",
        "validator",
    )

    def __init__(  # noqa: PLR0913, PLR0917 - each part is one of its own
        self,
        hook_runner: LiveRunner,
        tools: Mapping[tuple[str, int], Tool],
        models: dict[str, Model],
        services: Mapping[str, Service],
        surroundings: SharedSurroundings,
        validator: Callable[[Tool], Validator],
        prices: PriceBook,
        sources: tuple[ToolSource, ...] = (),
        agents: Mapping[str, AgentCode] = NO_AGENTS,
        compactor: Compactor | None = None,
    ) -> None:
        self.revision = 0
        self.reserved = NOTHING_RESERVED  # tools of the agents to which the session may be handed over
        self.section_files: SectionFiles | None = None
        self.environment = ""  # text on folder and machine for the model, used when the session begins
        self.compactor = compactor
        self.shadow: Mapping[str, AnyPlugin] = NO_SHADOW  # plugins that are asked beside those of the session, by key
        self.deps: SessionDeps | None = None  # what tools want by `ToolContext[Deps]`; `None` if the spec has none
        self.hook_runner = hook_runner
        self.tools: Mapping[tuple[str, int], Tool] = tools
        self.models = models
        self.services = services
        self.surroundings = surroundings
        self.validator = validator
        self.prices = prices
        self.sources = sources
        self.agents = agents

    def next_revision(self) -> int:
        """Return a new number for a change of plugins, tools or own models, unique in the session."""
        self.revision += 1
        return self.revision

    def keep(self, state: State) -> None:
        """Drop the code of plugins and tools that *state* no longer uses, which changes of them have left here."""
        joining = (change.attached for change in state.plugin_changes if change.attached is not None)
        attached_plugins = (*state.plugins, *joining)
        plugins = {(attached.key, attached.revision) for attached in attached_plugins}
        tools = {(name, tool.revision) for name, tool in state.tools.items()}
        tools |= {(spec.name, attached.revision) for attached in attached_plugins for spec in attached.tools}
        tools |= self.reserved
        if state.batch is not None:
            tools |= {(call.name, call.revision) for call in state.batch.calls}
        self.hook_runner.keep(plugins, tools)
        self.tools = {code: tool for code, tool in self.tools.items() if code in tools} or NO_TOOL_CODE

    def joining(self, attached: AttachedPlugin, plugin: AnyPlugin, as_tool: Callable[[object], Tool]) -> NewCode:
        """Return the code of *plugin*, which *attached* describes, and of the tools that it brings.

        Raise `BadTool` if one of them is none.
        """
        tools = map(as_tool, brought_tools(plugin))
        return NewCode(attached.revision, self._validated(tools), (attached.key, plugin))

    def _validated(self, tools: Iterable[Tool]) -> tuple[tuple[Tool, Validator], ...]:
        """Return each tool with the validator of its arguments; raise `UsageError` if one wants other dependencies."""
        tools = tuple(tools)
        refuse_without_deps(self.deps, tools)
        return tuple((tool, self.validator(tool)) for tool in tools)

    def add(self, new: NewCode) -> None:
        """Store the code that a command has brought, before its step."""
        if new.plugin is not None:
            key, plugin = new.plugin
            self.hook_runner.attach(key, new.revision, plugin)
        self.tools = {**self.tools, **{(tool.spec.name, new.revision): tool for tool, _ in new.tools}} or NO_TOOL_CODE
        for tool, validator in new.tools:
            self.hook_runner.tool(tool.spec.name, new.revision, validator)

    def compactor_for(self, state: State) -> Compactor | None:
        """Return the specification's compactor, else that of the first plugin that has one; `None` if none has."""
        if self.compactor is not None:
            return self.compactor
        for attached in state.plugins:
            brought = find_declaration(self.hook_runner.plugin(attached), BroughtCompactor)
            if brought is not None:
                return bind_function(brought.compactor)
        return None

    def know(self, tool: Tool, revision: int) -> None:
        """Store the code of a tool whose description the state has already: its source is back or offers it again."""
        name = tool.spec.name
        is_known = (name, revision) in self.tools
        if not isinstance(self.tools, dict):  # what other sessions have too, or none have
            self.tools = dict(self.tools)
        self.tools[name, revision] = tool
        if not is_known:
            self.hook_runner.tool(name, revision, self.validator(tool))

    def change(
        self,
        tools: tuple[Tool, ...],
        detach: tuple[str, ...] = (),
        *,
        replace: bool = False,
        source: str = "",
        problems: tuple[str, ...] = (),
        closed: tuple[str, ...] = (),
    ) -> tuple[ChangeToolsSent, NewCode]:
        """Return the input for a change of tools, and their code."""
        revision = self.next_revision()
        specs = tuple(tool.spec for tool in tools)
        command = ChangeToolsSent(specs, detach, replace, revision, source, problems, closed)
        return command, NewCode(revision, self._validated(tools))


FoundCode: TypeAlias = tuple[State, SessionCode, SessionReturned]
"""A stored state with typed plugin states, its code, and the input that tells the session what has changed."""

FindCode: TypeAlias = Callable[[State, int], Awaitable[FoundCode]]
"""Finds the code for a stored state, given also its number of records.

It returns the state with the states of its plugins in their classes, the code, and what the session is to hear if it
comes from another process; it raises `PluginMismatch` and what else does not fit.
"""

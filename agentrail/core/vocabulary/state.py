"""State of a session between two inputs, and the values it consists of."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final

from msgspec.structs import astuple

from agentrail.core.vocabulary.options import Options, Spare
from agentrail.core.vocabulary.tool_calls import (
    DONE,
    WAITS_FOR_PERSON,
    Batch,
    Call,
    DetachedCall,
    Doubt,
    EndedTask,
    Subagent,
)
from agentrail.core.vocabulary.tool_calls import RUNNING as RUNNING_CALL
from agentrail.errors import UnknownPlugin
from agentrail.hooks.attachments import AttachedPlugin
from agentrail.hooks.hook_runner import PluginRow
from agentrail.hooks.hook_types import Hook
from agentrail.hooks.ruling import Decisions, Pause, Section
from agentrail.values.content import Part, text_of
from agentrail.values.json import EMPTY, JsonObject
from agentrail.values.messages import EMPTY_HISTORY, History, Rearranged
from agentrail.values.personal import Kept, Personal
from agentrail.values.tools import ActingAgent, StandingApproval, Todo, ToolSpec
from agentrail.values.usage import NOTHING_USED, Usage
from agentrail.values.value import Draftable, Value


class RunningRequest(Value):
    """The running request to the model."""

    request_id: Kept[str]
    """Id of the request."""
    stalls: int = 0
    """How many times the request has stalled."""
    messages: Rearranged | None = None
    """What the model sees, as ranges of the history when the request was sent; `None` if it is all of the history."""
    layers: Kept[tuple[str, ...] | None] = None
    """Names of the sections of the system prompt that the model gets, in order; `None` if it gets all."""


class Compaction(Value):
    """A compaction that runs or is about to."""

    compaction_id: Kept[str]
    """Id of the compaction."""
    reason: Personal[str]
    """Why the context is compacted."""
    running: bool = False
    """Whether the compaction has started; before that, plugins are asked."""
    forced: bool = False
    """Whether a failure of the compaction aborts the turn, because the context is too long for the model."""
    tokens: int = 0
    """About how many tokens the context takes."""
    by: Kept[str] = ""
    """What caused it: `compact_at`, `overflow`, `caller`, or the name of a tool; or the key of a plugin.

    The plugin is the one that replaced the messages to compact last, at `before_compact`.
    """


class Measured(Value):
    """Tokens and characters of the context after a response."""

    tokens: int
    """Tokens that the model has read and written, as the provider says."""
    size: int
    """Characters of the same context: system prompt, sections, tools and history, the response included."""


class Phase(Enum):
    """Phase of a session: with the type of an input, it selects a rule of the transition table."""

    NEW = "new"
    IDLE = "idle"
    RUNNING = "running"
    STREAMING = "streaming"
    EXECUTING_TOOLS = "executing_tools"
    ENDED = "ended"

    __hash__ = object.__hash__


NEW, IDLE, RUNNING, STREAMING, EXECUTING_TOOLS, ENDED = Phase  # CPython 3.11 looks a member up in 900 instructions


class Setup(Value):
    """What a session got when it was spawned; never changes."""

    system: Kept[str] = ""
    """The user layer of the system prompt."""
    options: Options = Options()
    """The limits and choices of the session."""
    working_dir: Kept[str] = "."
    """Directory in which the session's tools work."""
    user_data: Personal[JsonObject] = EMPTY
    """Data from the caller of `spawn`, for plugins and tools."""
    prompt_mode: Kept[str] = "full"
    """Which layers of the system prompt are sent: `full`, `task`, `minimal` or `none` (`core.system_prompt.MODES`)."""
    path: Kept[tuple[str, ...]] = ()
    """For a sub-agent: the ids of parent session and call, outermost first; else empty."""
    spec: Kept[str] = ""
    """Name of the specification that the session was spawned from."""
    agents: Kept[tuple[str, ...]] = ()
    """Names of the sub-agents that the session may start."""
    shares: bool = False
    """For a sub-agent: whether it shares a money limit with its parent."""
    tenant: Kept[str] = ""
    """Tenant of the session, as the caller of `spawn` names it; that of its parent for a sub-agent."""
    owner: Kept[str] = ""
    """Owner of the session, as the caller of `spawn` names it; that of its parent for a sub-agent."""
    returns: Kept[JsonObject] = EMPTY
    """The JSON Schema of an object that each answer must fit, if its prompt has no other; empty: answers are text."""
    agent: Kept[str] = ""
    """Name of the first agent of a session with handoffs, if it is not that of the specification."""


class AskedBy(Value):
    """The callers who asked for something, and the id of their request."""

    by: Kept[tuple[str, ...]] = ()
    """Who asked, in the words of the callers (`SessionHandle.by`); empty if nobody said so."""
    request: Kept[str] = ""
    """Id of the request by which it was asked for, in the words of the caller; empty if none was given."""


NOBODY_ASKED: Final = AskedBy()


class Prompt(Value):
    """An accepted prompt."""

    ref: Kept[str]
    """Id of the prompt in events."""
    parts: tuple[Part, ...]
    """Text and images of the prompt."""
    returns: Kept[JsonObject] = EMPTY
    """The JSON Schema of an object that the turn's answer must fit; if empty, the session's own holds."""
    asked_by: AskedBy = NOBODY_ASKED
    """Who asked for its turn."""

    @property
    def text(self) -> str:
        """The text of the prompt, with JSON values as JSON text, and without images."""
        return text_of(self.parts)


class Steering(Value):
    """A steering text that waits for the next request."""

    ref: Kept[str]
    """Id under which events speak of the text."""
    text: Personal[str]
    """The text for the model."""
    asked_by: AskedBy = NOBODY_ASKED
    """Who steered."""


class Turn(Value):
    """The open turn: the work on one prompt."""

    ref: Kept[str]
    """Id of the prompt that started the turn."""
    started_at: int
    """When the turn started, in milliseconds since 1970."""
    mark: int
    """Number of messages in the history before the turn."""
    used: Usage
    """Usage of the session before the turn."""
    model: Kept[str]
    """Name of the model in use."""
    options: Kept[JsonObject]
    """Options for the model's provider."""
    attempt: int = 0
    """How many attempts of this round's request were made so far."""
    last_error: Personal[str | None] = None
    """Why the last attempt failed; `None` if none did."""
    overflowed: bool = False
    """Whether this round's context was compacted because the provider reported an overflow."""
    empty: bool = False
    """Whether this round's request is a retry because the first response was empty."""
    interventions: int = 0
    """How often plugins have prolonged the turn."""
    last_call: Personal[tuple[str, JsonObject] | None] = None
    """Tool and arguments of the last call, to detect repetition."""
    repeats: int = 0
    """How many times in a row the last call was made."""
    subjects: Personal[tuple[tuple[str, int], ...]] = ()
    """Number of calls per subject (a file, for instance), to detect loops."""
    stop: Kept[str] = "end"
    """How the turn ends if this response is its last: `end`, `length` or `refused`."""
    ended: Kept[str | None] = None
    """`finished` or `aborted` once only `after_turn` is left to run; `None` before."""
    abort_kind: Kept[str | None] = None
    """Why the turn was aborted, as in `AgentAbort.kind`; `None` if it was not."""
    abort_reason: Personal[str | None] = None
    """Reason given with the abort; `None` if there was none."""
    deadline_left: int | None = None
    """Milliseconds of the turn's time limit that were left when its clock was stopped; `None` while the clock runs."""
    spares: tuple[Spare, ...] = ()
    """Fallback models that are left, in order."""
    failed_over: int = 0
    """How many attempts of this round's request were made with earlier models of the chain."""
    returns: Kept[JsonObject] = EMPTY
    """The schema of the prompt, which the answer must fit; if empty, that of `Setup` holds."""
    misfits: int = 0
    """How many answers of the turn did not fit the schema."""
    fits: bool = False
    """Whether the response of this round is an answer that fits the schema."""
    asked_by: AskedBy = NOBODY_ASKED
    """Who asked for the turn: who began it, and whose steering texts it has taken."""
    worked_ms: int = 0
    """Milliseconds that the session had worked before the turn, as in `State.worked_ms`."""
    unreached_since: int | None = None
    """Since when no attempt could connect, in milliseconds since 1970; `None` if one did, or if none has failed."""


class Suspension(Value):
    """A hook run that is suspended until a plugin's ask has ended."""

    ask_id: Kept[str]
    """Id of the plugin's request."""
    hook: Hook
    """The hook with its data."""
    ref: Kept[str]
    """Id of the call or text that the hook is about; empty if there is none."""
    plugin: Kept[str]
    """Key of the plugin that asked."""
    pause: Pause
    """Where to continue the hook run, and what was asked for."""
    decisions: Decisions
    """What earlier plugins of this hook run decided."""
    started_at: int | None = None
    """When the tool that the plugin asked for started, in milliseconds since 1970; `None` if it asked for no tool."""
    is_sent: bool = True
    """Whether the request was handed to the runtime; false while its tool is ruled on, and after a restart."""
    run: Kept[str] = ""
    """Id of the plugin's request for a tool that this hook rules on; empty if the hook is about no such request."""
    incarnation: Kept[str] = ""
    """`State.incarnation` when the tool started; empty if none has."""


class PluginChange(Value):
    """A change of the session's plugins, queued until no turn is open."""

    kind: Kept[str]
    """`update`, `attach` or `detach`."""
    key: Kept[str]
    """Key of the plugin."""
    attached: AttachedPlugin | None = None
    """Description of the plugin after the change; `None` for `detach`."""
    options: Kept[JsonObject] = EMPTY
    """Options that change, with their new values."""


class AttachedTool(Value):
    """A tool of the session."""

    spec: ToolSpec
    """Description of the tool."""
    revision: int
    """Revision of the tool: which of the tools that had this name."""
    source: Kept[str] = ""
    """Name of the source (an MCP server) that the tool came from; empty if none."""
    plugin: Kept[str] = ""
    """Key of the plugin that brought the tool; empty if none."""


NOBODY: Final = PluginRow((), ())
NO_TOOLS: Final[Mapping[str, AttachedTool]] = MappingProxyType({})


class State(Draftable):
    """State of a session between two inputs; never changes (a step makes a new one)."""

    session_id: Kept[str]
    """Id of the session."""
    setup: Setup
    """What `spawn` has fixed for good."""
    model: Kept[str]
    """Model for the next turn."""
    model_options: Kept[JsonObject] = EMPTY
    """Options of that model."""

    # Identity

    title: Personal[str] = ""
    """What people call the session; empty if nothing yet."""
    labels: Kept[tuple[str, ...]] = ()
    """Labels that people gave the session."""
    phase: Phase = Phase.NEW
    """Row of the transition table."""
    is_starting: bool = True
    """Whether `session_start` has not finished yet."""
    asleep: bool = False
    """Whether the session sleeps: only what wakes it is in memory."""
    stop_reason: Personal[str | None] = None
    """Reason of the stop that is under way or done; `None` if none is."""
    quarantine_cause: Personal[str | None] = None
    """The last crash, if the session crashed too often and is quarantined; else `None`."""

    # What it works with

    last_request_model: Kept[tuple[str, JsonObject] | None] = None
    """Model and options of the last request; `None` before the first one."""
    fallbacks: tuple[Spare, ...] = ()
    """Models to try after `model`, in order."""
    priced_models: Kept[frozenset[str]] = frozenset()
    """Models whose price is known."""
    tools: Kept[Mapping[str, AttachedTool]] = NO_TOOLS
    """Attached tools, by name."""
    removed_tools: Kept[tuple[str, ...]] = ()
    """Names of tools and sources that recovery must not add again."""
    found_tools: Kept[tuple[str, ...]] = ()
    """Deferred tools that the model has found, the latest last."""
    plugins: tuple[AttachedPlugin, ...] = ()
    """Attached plugins, in order."""
    plugin_states: Personal[tuple[object, ...]] = ()
    """States of `plugins`, in the same order."""
    removed_plugins: Kept[tuple[str, ...]] = ()
    """Keys of plugins that recovery must not add again."""
    plugin_changes: tuple[PluginChange, ...] = ()
    """Changes of plugins that wait until no turn is open."""
    listener_failures: Kept[tuple[tuple[str, int], ...]] = ()
    """How often `on_event` of a plugin failed in this turn, by its key; after too many, it hears nothing more."""

    # Conversation

    history: History = EMPTY_HISTORY
    """Messages that the model sees."""
    sections: tuple[Section, ...] = ()
    """Texts beside the messages, set by plugins."""
    last_text: Personal[str | None] = None
    """Text of the last response."""
    todos: tuple[Todo, ...] = ()
    """The model's list of things to do."""
    shell_folder: Kept[str] = "."
    """The folder in which the next command of the shell begins, relative to that of the files."""
    shell_exports: Personal[JsonObject] = EMPTY
    """The environment variables that earlier commands of the shell have exported, by name."""
    notices: Personal[tuple[str, ...]] = ()
    """Lines for the model, which the next request carries."""
    token_count: Measured | None = None
    """Tokens and characters of the context at the last response; `None` if they are not known."""
    tokens_after_compaction: int = 0
    """Tokens that a compaction left that missed its target; 0 otherwise."""

    # The open turn

    turn: Turn | None = None
    """The open turn; `None` if none is."""
    round: int = 0
    """Number of the round of the open turn, from 1; 0 outside of turns."""
    request: RunningRequest | None = None
    """The running request; `None` if none is."""
    batch: Batch | None = None
    """The calls of the last response; `None` if there are none."""
    compaction: Compaction | None = None
    """The compaction under way; `None` if none is."""
    compaction_reason: Personal[str | None] = None
    """Why a compaction is due before the next request; `None` if none is."""
    compaction_cause: Kept[str] = ""
    """What asked for that compaction, as in `Compaction.by`; empty if nothing did."""
    is_paused: bool = False
    """Whether the open turn rests since a recovery: what was under way goes on when it is resumed."""
    next_prompt: Prompt | None = None
    """Prompt whose `before_prompt` runs; `None` if none does."""

    # What waits

    queue: tuple[Prompt, ...] = ()
    """Prompts for later turns."""
    steering: tuple[Steering, ...] = ()
    """Texts for the next request."""
    suspended_runs: tuple[Suspension, ...] = ()
    """Runs of hooks that wait for what a plugin asked for."""
    timers: Kept[tuple[tuple[str, int], ...]] = ()
    """Timers that are set: pairs of id and time, in milliseconds since 1970."""
    approved_always: Personal[frozenset[tuple[str, str]]] = frozenset()
    """Pairs of a tool and a family of commands that need no approval."""
    standing_approvals: tuple[StandingApproval, ...] = ()
    """Who approved the pairs of `approved_always`, and when; those approved before this field was there are missing."""
    in_doubt_calls: tuple[Doubt, ...] = ()
    """Interrupted calls that may have had their effect."""

    # Work beside the turn

    quarantined_calls: tuple[DetachedCall, ...] = ()
    """Calls that were cancelled and have not ended."""
    lingering_calls: tuple[DetachedCall, ...] = ()
    """Calls of immune tools that outlived their turn."""
    background_jobs: Personal[tuple[str, ...]] = ()
    """Names of the commands in the background at the last result of a tool."""
    subagents: tuple[Subagent, ...] = ()
    """Sub-agents that have not ended."""
    ended_tasks: tuple[EndedTask, ...] = ()
    """The last sub-agents in the background that have ended, `MAX_ENDED_TASKS` at most, in the order of their ends."""

    # Accounts

    last_seq: int = 0
    """Number of the last durable event."""
    last_id: int = 0
    """Counter behind the session's own ids."""
    incarnation: Kept[str] = ""
    """Random part of idempotency keys and of ids for decisions, drawn anew at each spawn, fork and return.

    So a decision about a call of an earlier session with the same id, or of another copy of this one, finds no call.
    """
    turn_count: int = 0
    """How many turns have begun."""
    usage: Usage = NOTHING_USED
    """Tokens and money that the session has used."""
    shared_usage: Usage = NOTHING_USED
    """Usage of other sessions under the same limits."""
    worked_ms: int = 0
    """Milliseconds that the session has worked, up to `working_since_ms`."""
    working_since_ms: int | None = None
    """When the present stretch of work began, in milliseconds since 1970; `None` if none is under way."""
    shared_worked_ms: int = 0
    """Milliseconds that those others have worked."""

    # Handoffs

    agent: ActingAgent | None = None
    """The agent that the session was handed to; `None` if it never was."""

    @property
    def acting(self) -> Setup:
        """The setup with the texts and the answer form of the agent that the session was handed to."""
        agent = self.agent
        if agent is None:
            return self.setup
        return self.setup.but(system=agent.system, returns=agent.returns)

    @property
    def agent_name(self) -> str:
        """Name of the agent that works: of the session's specification, or the one that it was handed to."""
        return (self.setup.agent or self.setup.spec) if self.agent is None else self.agent.name

    def plugin_state(self, plugin: str | type[object]) -> object:
        """Return the state of one plugin, given by its class or its key; raise `UnknownPlugin` if there is none."""
        key = plugin if isinstance(plugin, str) else plugin.__name__
        for attached, remembered in zip(self.plugins, self.plugin_states, strict=True):
            if attached.key == key:
                return remembered
        raise UnknownPlugin.among(key, (attached.key for attached in self.plugins))

    @property
    def returns(self) -> JsonObject:
        """The JSON Schema that the answer of the open turn must fit; empty if it is text, or no turn is open."""
        return EMPTY if self.turn is None else self.turn.returns or self.acting.returns

    @property
    def asked_by(self) -> tuple[str, ...]:
        """Who asked for the open turn, in the words of the callers; nobody if none is open."""
        return () if self.turn is None else self.turn.asked_by.by

    @property
    def using(self) -> tuple[str, JsonObject]:
        """The model in use and its options: those of the open turn, else of the session."""
        return (self.model, self.model_options) if self.turn is None else (self.turn.model, self.turn.options)

    @property
    def resting(self) -> bool:
        """Whether the open turn rests: it goes on only after a person's decision, or after `resume`."""
        return self.phase is IDLE and self.turn is not None

    @property
    def has_running_work(self) -> bool:
        """Whether the session is in a turn or starting, or has a lingering call, or a sub-agent that does not rest."""
        runs = self.phase is not IDLE and self.phase is not ENDED
        return runs or bool(self.lingering_calls) or any(not agent.rests for agent in self.subagents)

    @property
    def runs_without_person(self) -> bool:
        """Whether the open turn or a sub-agent does something that needs no person; time limits count while it does."""
        runs = self.phase is RUNNING or self.phase is STREAMING or self.phase is EXECUTING_TOOLS
        return (runs and not self.waits) or any(agent.works and not agent.rests for agent in self.subagents)

    def works_on(self, ref: str) -> bool:
        """Whether the turn of the prompt *ref* is open, or about to begin."""
        turn, prompt = self.turn, self.next_prompt
        is_open = turn is not None and turn.ended is None and turn.ref == ref
        return is_open or (prompt is not None and prompt.ref == ref)

    def worked(self, now_ms: int) -> int:
        """Return the milliseconds until *now_ms* in which the session has worked; 0 if no plugin counts them.

        A clock that was set back counts nothing.
        """
        return (
            self.worked_ms if self.working_since_ms is None else self.worked_ms + max(0, now_ms - self.working_since_ms)
        )

    def worked_in_turn(self, now_ms: int) -> int:
        """Return the milliseconds in which the session has worked since the open turn began; 0 if none is open."""
        return 0 if self.turn is None else max(0, self.worked(now_ms) - self.turn.worked_ms)

    @property
    def waits(self) -> bool:
        """Whether the open turn, its sub-agents included, can do nothing until a person decides something."""
        if self.phase is not EXECUTING_TOOLS or self.batch is None:
            return self.resting
        calls = self.batch.calls
        running = calls.count(RUNNING_CALL)
        if running and not self.subagents:
            return False
        held_count = calls.waiting
        if held_count + running + calls.count(DONE) < len(calls):
            return False
        return all(map(self._rests_below, calls.among(RUNNING_CALL))) if running else held_count > 0

    def _rests_below(self, call: Call) -> bool:
        """Whether *call* waits for a sub-agent that itself waits for a person."""
        return any(agent.waits and not agent.background and agent.call_id == call.call_id for agent in self.subagents)

    @property
    def row(self) -> PluginRow:
        """The session's plugins with their states, as the hook runner takes them."""
        return PluginRow(self.plugins, self.plugin_states) if self.plugins else NOBODY

    @property
    def waiting_calls(self) -> tuple[Call, ...]:
        """Calls that wait for an approval or an answer of a person."""
        return () if self.batch is None else tuple(c for c in self.batch.calls if c.status in WAITS_FOR_PERSON)

    def running_calls(self) -> int:
        """Return how many calls run or are about to be probed, those left over from earlier turns included."""
        return (0 if self.batch is None else self.batch.calls.busy) + len(self.lingering_calls)


class Draft(State, frozen=False):
    """A mutable copy of a state, on which one step works; `finished` freezes it."""


def drafted(state: State) -> Draft:
    """Return a mutable copy of a state."""
    return Draft(*astuple(state))


def finished(draft: Draft) -> State:
    """Turn *draft* into a frozen state, in place: its class is swapped. No code may change it afterwards."""
    draft.__class__ = State  # type: ignore[assignment]  # the same fields in the same places, frozen
    return draft

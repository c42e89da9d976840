"""What a session is between two inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final, cast

from agentrail.core.vocabulary.options import Options
from agentrail.core.vocabulary.tool_calls import WAITS_FOR_PERSON, Batch, Call, CallStatus, Doubt, Stray
from agentrail.errors import UnknownPlugin
from agentrail.hooks.attachments import AttachedPlugin
from agentrail.hooks.judge import PluginRow
from agentrail.hooks.moments import Hook
from agentrail.hooks.ruling import Gathered, Pause
from agentrail.values.content import Part, text_of
from agentrail.values.json import EMPTY, JsonObject
from agentrail.values.messages import EMPTY_HISTORY, History
from agentrail.values.tools import Todo, ToolSpec
from agentrail.values.usage import NOTHING_USED, Usage
from agentrail.values.value import Value, copier, draftable, value


class Phase(Enum):
    """Which row of the transition table a session is in."""

    NEW = "new"
    IDLE = "idle"
    RUNNING = "running"
    STREAMING = "streaming"
    EXECUTING_TOOLS = "executing_tools"
    ENDED = "ended"

    __hash__ = object.__hash__


@value
class Setup(Value):
    """What a session was spawned with and keeps for life."""

    system: str = ""
    """The system prompt."""
    options: Options = Options()
    """Its figures."""
    working_dir: str = "."
    """Where its tools work."""
    user_data: JsonObject = EMPTY
    """What the spawner gave it."""
    prompt_mode: str = "full"
    """How much of a system prompt it has."""
    path: tuple[str, ...] = ()
    """Of a sub-agent: parent session and call, outermost first."""
    spec: str = ""
    """What its specification is called."""
    agents: tuple[str, ...] = ()
    """The names of the sub-agents that it may start."""
    shares: bool = False
    """Whether it shares a limit with the session that has started it."""


@value
class Prompt(Value):
    """A prompt that was accepted."""

    ref: str
    """What events call it."""
    parts: tuple[Part, ...]
    """What was said."""

    @property
    def text(self) -> str:
        """The text of it."""
        return text_of(self.parts)


@value
class Steering(Value):
    """A steering text that waits for the next request."""

    ref: str
    """What events call it."""
    text: str
    """The text."""


@value
class Spare(Value):
    """A model that is asked when those before it cannot answer."""

    model: str
    """Which model."""
    options: JsonObject = EMPTY
    """With which options of its provider."""


@value
class Turn(Value):
    """The open turn."""

    ref: str
    """The prompt it answers."""
    started_at: int
    """When it started."""
    mark: int
    """How long the history was before it."""
    used: Usage
    """What the session had used before it."""
    model: str
    """The model it uses."""
    options: JsonObject
    """With which options of its provider."""
    attempt: int = 0
    """Attempts of the request of this round."""
    last_error: str | None = None
    """Why the last attempt failed."""
    overflowed: bool = False
    """Whether the context was compacted by force for this request."""
    empty: bool = False
    """Whether a response with nothing in it was retried."""
    interventions: int = 0
    """How often plugins have prolonged it."""
    last_call: tuple[str, JsonObject] | None = None
    """The last call, to see repetition."""
    repeats: int = 0
    """How often the last call came in a row."""
    subjects: tuple[tuple[str, int], ...] = ()
    """How often calls were about the same thing."""
    stop: str = "end"
    """How it ends, if it ends now."""
    ended: str | None = None
    """`finished` or `aborted`, once it is over and only `after_turn` is left."""
    abort_kind: str | None = None
    """What aborted it, as `AgentAbort.kind`; `None` if it was not aborted."""
    abort_reason: str | None = None
    """The words that came with the abort; `None` if there were none."""
    deadline_left: int | None = None
    """Milliseconds left when it came to rest."""
    spares: tuple[Spare, ...] = ()
    """The models it may still fall back to, in order."""
    failed_over: int = 0
    """Attempts of the request of this round with the models before this one."""


@value
class Request(Value):
    """The request that is out."""

    request_id: str
    """Which request."""
    stalls: int = 0
    """How often it stalled."""


@value
class Compaction(Value):
    """The compaction that runs, or is about to."""

    compaction_id: str
    """Which compaction."""
    reason: str
    """Why."""
    running: bool = False
    """Whether it runs."""
    forced: bool = False
    """Whether the turn is lost if it fails."""


@value
class Suspension(Value):
    """A hook that waits for what one of its plugins asked for."""

    ask_id: str
    """Which question."""
    hook: Hook
    """What the plugins are asked about."""
    ref: str
    """Of which call or text, if the hook is about one."""
    plugin: str
    """Who asks."""
    pause: Pause
    """Where the pipeline goes on, and the request."""
    gathered: Gathered
    """What the pipeline has accumulated."""
    started_at: int | None = None
    """When the tool that it asked for started, if it asked for one."""
    asked: bool = True
    """Whether it is being asked for; not yet, if the session has just come back."""


@value
class Due(Value):
    """A hook or a stage that comes next."""

    what: str
    """Which one."""
    ref: str = ""
    """For which call or text, if it is about one."""


@value
class Change(Value):
    """A change to the row of plugins that waits until no turn is open."""

    kind: str
    """`update`, `attach` or `detach`."""
    key: str
    """Which plugin."""
    seat: AttachedPlugin | None = None
    """The plugin as it will be."""
    options: JsonObject = EMPTY
    """The options that change."""


@value
class Attached(Value):
    """A tool of the session."""

    spec: ToolSpec
    """The tool."""
    revision: int
    """Which form of it."""
    source: str = ""
    """Which source of tools has brought it; empty: none."""


@value
class Subagent(Value):
    """A sub-agent that runs."""

    child: str
    """Its session."""
    call_id: str
    """The call that has started it."""
    agent: str
    """Which of the agents that the session may start."""
    background: bool = False
    """Whether the call does not wait for it."""
    heard: int = 0
    """The number of the last event of it that was heard."""
    used: Usage = NOTHING_USED
    """What it has used, as far as that was counted here."""
    waits: bool = False
    """Whether nothing of it goes on without a person."""
    left: int | None = None
    """While it waits or rests: milliseconds that are left of its call's time."""
    rests: bool = False
    """Whether it comes back only when its turn goes on, which rests since the session came back."""


NOBODY: Final = PluginRow((), ())

NO_TOOLS: Final[Mapping[str, Attached]] = MappingProxyType({})


@draftable
class State(Value):
    """A session between two inputs."""

    session_id: str
    setup: Setup
    model: str
    model_options: JsonObject = EMPTY
    used_model: tuple[str, JsonObject] | None = None
    tools: Mapping[str, Attached] = NO_TOOLS
    seats: tuple[AttachedPlugin, ...] = ()
    plugin_states: tuple[object, ...] = ()
    deafness: tuple[tuple[str, int], ...] = ()
    changes: tuple[Change, ...] = ()
    phase: Phase = Phase.NEW
    opening: bool = True
    seq: int = 0
    serial: int = 0
    turns: int = 0
    round: int = 0
    history: History = EMPTY_HISTORY
    usage: Usage = NOTHING_USED
    last_reply: str | None = None
    todos: tuple[Todo, ...] = ()
    sections: tuple[tuple[str, str], ...] = ()
    approved_always: frozenset[tuple[str, str]] = frozenset()
    queue: tuple[Prompt, ...] = ()
    steering: tuple[Steering, ...] = ()
    taking: Prompt | None = None
    turn: Turn | None = None
    batch: Batch | None = None
    request: Request | None = None
    compaction: Compaction | None = None
    compact_wanted: str | None = None
    due: tuple[Due, ...] = ()
    suspended: tuple[Suspension, ...] = ()
    quarantined: tuple[Stray, ...] = ()
    lingering: tuple[Stray, ...] = ()
    notices: tuple[str, ...] = ()
    in_doubt: tuple[Doubt, ...] = ()
    timers: tuple[tuple[str, int], ...] = ()
    stopping: str | None = None
    crashed: str | None = None
    spares: tuple[Spare, ...] = ()
    priced: frozenset[str] = frozenset()
    paused: tuple[Due, ...] = ()
    jobs: tuple[str, ...] = ()
    asleep: bool = False
    subagents: tuple[Subagent, ...] = ()
    gone_tools: tuple[str, ...] = ()
    gone_plugins: tuple[str, ...] = ()
    elsewhere: Usage = NOTHING_USED

    def plugin_state(self, plugin: str | type[object]) -> object:
        """Return what a plugin remembers, by its class or the key that it was given."""
        key = plugin if isinstance(plugin, str) else plugin.__name__
        for seat, remembered in zip(self.seats, self.plugin_states, strict=True):
            if seat.key == key:
                return remembered
        raise UnknownPlugin.among(key, (seat.key for seat in self.seats))

    @property
    def resting(self) -> bool:
        """Whether a turn is open and only a person can move it."""
        return self.phase is Phase.IDLE and self.turn is not None

    @property
    def at_work(self) -> bool:
        """Whether something is under way that ends without a person: a request, a call, a hook's question."""
        if self.phase is Phase.IDLE or self.phase is Phase.ENDED:
            goes_on = not self.paused and (self.suspended or self.compaction is not None)
            return bool(self.lingering or goes_on or any(not agent.rests for agent in self.subagents))
        return True

    @property
    def waits(self) -> bool:
        """Whether a turn is open and nothing of it goes on without a person, here or in a sub-agent."""
        if self.phase is not Phase.EXECUTING_TOOLS or self.batch is None:
            return self.resting
        calls = self.batch.calls
        running = calls.count(CallStatus.RUNNING)
        if running and not self.subagents:
            return False
        held = calls.waiting
        if held + running + calls.count(CallStatus.DONE) < len(calls):
            return False
        return all(map(self._rests_below, calls.among(CallStatus.RUNNING))) if running else held > 0

    def _rests_below(self, call: Call) -> bool:
        """Whether a call waits for a sub-agent that waits for a person."""
        agents = self.subagents
        return any(agent.waits and not agent.background and agent.call_id == call.call_id for agent in agents)

    @property
    def row(self) -> PluginRow:
        """Its plugins and what they remember."""
        return PluginRow(self.seats, self.plugin_states) if self.seats else NOBODY

    @property
    def waiting_calls(self) -> tuple[Call, ...]:
        """The calls that wait for a person."""
        return () if self.batch is None else tuple(c for c in self.batch.calls if c.status in WAITS_FOR_PERSON)

    def running_calls(self) -> int:
        """How many calls run or are about to be probed, lingering ones included."""
        running = 0 if self.batch is None else self.batch.calls.busy
        return running + len(self.lingering)


class Draft(State):
    """A state in the making: it may be changed, and never leaves its step."""

    __slots__ = ()
    __setattr__ = object.__setattr__
    __delattr__ = object.__delattr__  # without it, Python sets a field ten times as slowly


drafted: Final = cast("Callable[[State], Draft]", copier(State, Draft))
"""Returns a draft of a state."""


def finished(draft: Draft) -> State:
    """Freeze *draft*; nobody may use it as a draft from now on."""
    draft.__class__ = State  # type: ignore[assignment]  # the same fields in the same places, frozen
    return draft

"""Figures of all sessions, by tenant: counted step by step, so that nobody has to look at each session.

A step costs the comparison of a few fields, and what its events are; nothing of it grows with the history. A gauge is
the sum over all sessions of what `TenantFigures.add` counts for a state, so a step adds the difference.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Final, NamedTuple

from agentrail.core.machine.step import Step
from agentrail.core.vocabulary.inputs import AnyInput, SubagentReported
from agentrail.core.vocabulary.state import ENDED, State
from agentrail.runtime.diagnosis.session_listener import Duration, SessionListener
from agentrail.runtime.shared.clock import Clock
from agentrail.runtime.shared.journal_retry import SteadyJournal
from agentrail.runtime.shared.provider_limits import ProviderLimits
from agentrail.values.events.envelope import Envelope
from agentrail.values.events.life import AgentAbort, AgentEnd, AgentStart, SessionQuarantined
from agentrail.values.usage import NOTHING_USED, Usage

BOUNDS: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the ranges into which the times of aborts and of requests to a host are counted, in seconds."""

TURN_BOUNDS: Final = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
"""The same for times of turns, which have requests to models in them, and may wait for people."""

MAX_MODELS: Final = 50
"""How many models of one tenant are counted by name; the others are counted together."""

MILLISECONDS: Final = 1000
ASLEEP: Final = "asleep"
ABORTED: Final = "aborted"
NOBODY_WAITS: Final[Mapping[str, int | None]] = MappingProxyType({})
_COUNTED: Final = frozenset({AgentStart, AgentEnd, AgentAbort, SessionQuarantined})
"""Classes of the events that are counted: most events of a turn are others, and are passed over at once."""

REST: Final = ""
"""Name under which tenants, or models, are counted that have no count of their own."""


class Spread:
    """A histogram: how many times fell into each range."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float] = BOUNDS) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, seconds: float) -> None:
        """Count a time."""
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.total += seconds


class ModelFigures:
    """Usage of one model, summed over responses."""

    __slots__ = ("cost_usd", "unpriced", "used")

    def __init__(self) -> None:
        self.used = NOTHING_USED
        self.cost_usd = 0.0
        self.unpriced = 0

    def add(self, usage: Usage) -> None:
        """Count the *usage* of a response."""
        self.used = self.used.plus(usage)
        if usage.cost_usd is None:
            self.unpriced += not usage.is_nothing
        else:
            self.cost_usd += usage.cost_usd


class TenantFigures:
    """The figures of one tenant, or of all those that are not counted by name."""

    __slots__ = (
        "abort_times",
        "aborts",
        "dropped",
        "first_words",
        "held",
        "merged",
        "models",
        "phases",
        "quarantined",
        "queued",
        "set_aside",
        "steering",
        "turn_times",
        "turns",
    )

    def __init__(self) -> None:
        self.phases = Counter[str]()
        self.queued = self.steering = self.quarantined = 0
        self.held: dict[tuple[str, str], int] = {}  # when each call began to wait, in milliseconds since 1970
        self.turns = Counter[str]()
        self.aborts = Counter[str]()
        self.abort_times = Spread()
        self.turn_times = Spread(TURN_BOUNDS)
        self.first_words = Spread(TURN_BOUNDS)
        self.models: dict[str, ModelFigures] = {}
        self.set_aside = 0
        self.merged = self.dropped = 0  # events that were merged or dropped for slow clients of the host

    def add(self, state: State, times: int, now: int) -> None:
        """Add to the gauges what a session in *state* counts for; subtract it if *times* is -1."""
        self.phases[_phase(state)] += times
        self.queued += times * len(state.queue)
        self.steering += times * len(state.steering)
        self.quarantined += times * len(state.quarantined_calls)
        if times > 0:
            self._hold(state, now)
        else:
            for call in state.waiting_calls:
                self.held.pop((state.session_id, call.call_id), None)

    def move(self, old: State, new: State, now: int) -> None:
        """Update the gauges from a session's state before a step to its state after it."""
        if old.phase is not new.phase or old.asleep is not new.asleep:
            self.phases[_phase(old)] -= 1
            self.phases[_phase(new)] += 1
        if old.queue is not new.queue:
            self.queued += len(new.queue) - len(old.queue)
        if old.steering is not new.steering:
            self.steering += len(new.steering) - len(old.steering)
        if old.quarantined_calls is not new.quarantined_calls:
            self.quarantined += len(new.quarantined_calls) - len(old.quarantined_calls)
        if old.batch is not new.batch and (_waiting(old) or _waiting(new)):
            since = {call.call_id: self.held.pop((old.session_id, call.call_id), None) for call in old.waiting_calls}
            self._hold(new, now, since)

    def _hold(self, state: State, now: int, since: Mapping[str, int | None] = NOBODY_WAITS) -> None:
        """Note the calls that wait; *since* says of some when they began to."""
        for call in state.waiting_calls:
            asked_at = now if call.hold is None else call.hold.requested_at
            self.held[state.session_id, call.call_id] = since.get(call.call_id) or asked_at

    def use(self, model: str, usage: Usage) -> None:
        """Add the usage of a response of *model*."""
        figures = self.models.get(model)
        if figures is None:
            name = model if len(self.models) < MAX_MODELS else REST
            figures = self.models.setdefault(name, ModelFigures())
        figures.add(usage)


class Figures:
    """The figures of all sessions of a supervisor."""

    def __init__(self, clock: Clock, journal: SteadyJournal, limits: ProviderLimits, tenants: int) -> None:
        self._clock = clock
        self._journal = journal
        journal.when_committed = self._committed
        self._limits = limits
        self._most = tenants
        self._aborting: dict[str, float] = {}
        self._silent: dict[str, float] = {}  # start of each turn without a first word yet, by session id
        self.tenants: dict[str, TenantFigures] = {}
        """By name, in the order in which they came; the empty name is that of all that came later, or have none."""
        self._listeners: tuple[SessionListener, ...] = ()
        # the methods that listeners define, by name: a step calls no method that does nothing
        self._hears = _heard_by(())

    def of(self, tenant: str) -> TenantFigures:
        """Return the figures of *tenant*; shared ones if the tenant is not counted by name."""
        figures = self.tenants.get(tenant)
        if figures is None:
            figures = self.tenants.setdefault(REST if self.is_full else tenant, TenantFigures())
        return figures

    def name_up_to(self, tenants: int) -> None:
        """Count at least so many *tenants* by name."""
        self._most = max(self._most, tenants)

    @property
    def is_full(self) -> bool:
        """Whether no more tenants are counted by name."""
        return len(self.tenants) - (REST in self.tenants) >= self._most

    @property
    def now_ms(self) -> int:
        """The time, in milliseconds since 1970, by the clock of the supervisor."""
        return self._clock.now_ms()

    @property
    def commits(self) -> int:
        """How often records were written to the journal."""
        return self._journal.commits

    @property
    def failures(self) -> int:
        """How many calls to the journal have failed."""
        return self._journal.failures

    @property
    def is_failing(self) -> bool:
        """Whether the journal has failed of late, and has written nothing since."""
        return self._journal.is_failing

    @property
    def limited(self) -> int:
        """How many requests to models wait for the limits of their providers."""
        return self._limits.waiting

    @contextmanager
    def telling(self, *listeners: SessionListener) -> Generator[None]:
        """Tell *listeners* of each step, and of sessions that come, go or change, as long as this is open."""
        for listener in listeners:
            self.tell(listener)
        try:
            yield
        finally:
            for listener in listeners:
                self.tell_no_more(listener)

    def tell(self, listener: SessionListener) -> None:
        """Tell *listener* of each step from now on."""
        self._listeners = (*self._listeners, listener)
        self._hears = _heard_by(self._listeners)

    def tell_no_more(self, listener: SessionListener) -> None:
        """Tell *listener* nothing any more."""
        self._listeners = tuple([other for other in self._listeners if other is not listener])
        self._hears = _heard_by(self._listeners)

    # Called by sessions

    def changed(self, session_id: str) -> None:
        """Tell the listeners that a session has changed otherwise than by a step."""
        for changed in self._hears.changed:
            changed(session_id)

    def came(self, state: State) -> None:
        """Add a session that this supervisor runs from now on."""
        self.changed(state.session_id)
        self._tell_of_held(state, state)
        if _counts(state):
            self.of(state.setup.tenant).add(state, 1, self._clock.now_ms())

    def forget(self, state: State) -> None:
        """Remove a session that is gone from the gauges."""
        self.changed(state.session_id)
        self.not_here(state.session_id)
        self._tell_of_held(state, state)
        self._aborting.pop(state.session_id, None)
        self._silent.pop(state.session_id, None)
        if _counts(state):
            self.of(state.setup.tenant).add(state, -1, 0)

    def not_here(self, session_id: str) -> None:
        """Tell the listeners that a session runs here no more, or was to run here and could not begin to."""
        for notify in self._hears.gone:
            notify(session_id)

    def moved(self, old: State, new: State) -> None:
        """Update the gauges to a session's new state."""
        if (
            old.phase is new.phase
            and old.asleep is new.asleep
            and old.queue is new.queue
            and old.steering is new.steering
            and old.quarantined_calls is new.quarantined_calls
            and old.batch is new.batch
            and old.is_starting is new.is_starting
        ):
            return
        if old.batch is not new.batch:
            self._tell_of_held(old, new)
        if _counts(old) and _counts(new):
            self.of(new.setup.tenant).move(old, new, self._clock.now_ms())
        elif _counts(old):
            self.of(old.setup.tenant).add(old, -1, 0)
        elif _counts(new):
            self.of(new.setup.tenant).add(new, 1, self._clock.now_ms())

    def _tell_of_held(self, old: State, new: State) -> None:
        """Tell the listeners if calls or questions wait for a person, or have waited."""
        if _waiting(old) or _waiting(new):
            for waiting_changed in self._hears.waiting_changed:
                waiting_changed(new.session_id)

    def stepped(self, old: State, input_: AnyInput, outcome: Step) -> None:
        """Count a step of a session: its new state, its events, and what it has used."""
        new = outcome.state
        self.moved(old, new)
        # The usage of sub-agents is counted with their own steps.
        if old.usage is not new.usage and type(input_) is not SubagentReported:
            model, usage = old.using[0], new.usage.minus(old.usage)
            self.of(new.setup.tenant).use(model, usage)
            for used in self._hears.used:
                used(new, model, usage)
        if outcome.events:
            self._count_ends(old, new, outcome.events)
        self.changed(new.session_id)
        if outcome.events:
            for stepped in self._hears.stepped:
                stepped(old, outcome)

    def began(self, old: State, new: State) -> None:
        """Count that the response to a request has begun, which is no step."""
        self.moved(old, new)
        self._spoke(new)
        self.changed(new.session_id)

    def _spoke(self, state: State) -> None:
        """Record the time to the first word or thought of a turn. No-op after the first."""
        began = self._silent.pop(state.session_id, None)
        if began is not None:
            seconds = max(0.0, self._clock.now() - began)
            self.of(state.setup.tenant).first_words.add(seconds)
            self._took(state, "first_word", seconds)

    def _count_ends(self, old: State, state: State, events: Sequence[Envelope]) -> None:
        """Count the ends of turns, and aborts, among *events*."""
        for envelope in events:
            event = envelope.event
            if type(event) not in _COUNTED:
                continue
            if isinstance(event, AgentStart):
                self._silent[state.session_id] = self._clock.now()
            elif isinstance(event, AgentEnd):
                self.of(state.setup.tenant).turns[event.reason] += 1
                self._ended(old, envelope)
            elif isinstance(event, AgentAbort):
                self._aborted(state, event)
                if event.ref is not None:
                    self._ended(old, envelope)
            elif isinstance(event, SessionQuarantined):
                self.of(state.setup.tenant).set_aside += 1

    def _ended(self, old: State, end: Envelope) -> None:
        """Count the time of a turn, from its start on, also if that was in an earlier process."""
        self._silent.pop(old.session_id, None)
        began = end.at if old.turn is None else old.turn.started_at
        seconds = max(0, end.at - began) / MILLISECONDS
        self.of(old.setup.tenant).turn_times.add(seconds)
        self._took(old, "turn", seconds)

    def abort_began(self, session_id: str) -> None:
        """Note that an abort was asked for; its time ends with its record."""
        self._aborting.setdefault(session_id, self._clock.now())

    def _aborted(self, state: State, event: AgentAbort) -> None:
        """Count an abort, and how long it took."""
        figures = self.of(state.setup.tenant)
        figures.aborts[event.kind] += 1
        if event.ref is not None:
            figures.turns[ABORTED] += 1
        began = self._aborting.pop(state.session_id, None)
        if began is not None:
            seconds = max(0.0, self._clock.now() - began)
            figures.abort_times.add(seconds)
            self._took(state, "abort", seconds)

    def _took(self, state: State, duration: Duration, seconds: float) -> None:
        for took in self._hears.took:
            took(state, duration, seconds)

    def _committed(self, seconds: float) -> None:
        for committed in self._hears.committed:
            committed(seconds)


class _Hears(NamedTuple):
    """The methods of listeners, by what they are told."""

    changed: tuple[Callable[[str], None], ...]
    stepped: tuple[Callable[[State, Step], None], ...]
    gone: tuple[Callable[[str], None], ...]
    used: tuple[Callable[[State, str, Usage], None], ...]
    took: tuple[Callable[[State, Duration, float], None], ...]
    waiting_changed: tuple[Callable[[str], None], ...]
    committed: tuple[Callable[[float], None], ...]


def _heard_by(listeners: Sequence[SessionListener]) -> _Hears:
    """Return the methods that *listeners* define, without those that they inherit from the base, which do nothing."""
    base = SessionListener

    def those(name: str) -> list[SessionListener]:
        return [listener for listener in listeners if getattr(type(listener), name) is not getattr(base, name)]

    return _Hears(
        tuple([listener.changed for listener in those("changed")]),
        tuple([listener.stepped for listener in those("stepped")]),
        tuple([listener.gone for listener in those("gone")]),
        tuple([listener.used for listener in those("used")]),
        tuple([listener.took for listener in those("took")]),
        tuple([listener.waiting_changed for listener in those("waiting_changed")]),
        tuple([listener.committed for listener in those("committed")]),
    )


def _counts(state: State) -> bool:
    """Whether a session in *state* is counted: it has started and not ended."""
    return not state.is_starting and state.phase is not ENDED


def _phase(state: State) -> str:
    """Return the name under which a session's phase is counted."""
    return ASLEEP if state.asleep else state.phase.value


def _waiting(state: State) -> int:
    """Return how many calls of a session wait for a person."""
    return 0 if state.batch is None else state.batch.calls.waiting

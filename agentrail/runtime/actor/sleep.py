"""The parts of a session; while it hibernates, they are put away, and made again when one of them is needed.

A session that hibernates is asked for little, and there may be very many. So what its parts know is kept in one tuple
(`Packed`), and the parts themselves are freed. No reader of `session.mailbox` or `session.bus` notices a difference.

Hibernation: what stays in memory of a sleeping session, and how it is rebuilt.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import ClassVar, Final, NamedTuple, Protocol
from weakref import ref

import trio

from agentrail.core.machine.step import Step
from agentrail.core.vocabulary.state import NO_TOOLS, Phase, Setup, State
from agentrail.errors import JournalUnavailable
from agentrail.hooks.hook_runner import Recorded
from agentrail.hooks.live_hook_runner import Live
from agentrail.hooks.plugin import ON_EVENT
from agentrail.hooks.ruling import Ruling
from agentrail.ports.failpoints import reach
from agentrail.ports.journal import Claim
from agentrail.reprs import listed
from agentrail.runtime.actor.journal_log import Records, revived
from agentrail.runtime.actor.parent_link import UNTIED, Ties
from agentrail.runtime.actor.tool_sources import Sources
from agentrail.runtime.diagnosis.plugin_complaints import write_events
from agentrail.runtime.events.bus import Bus
from agentrail.runtime.events.tracing import Traces
from agentrail.runtime.inbox.command_results import Answers
from agentrail.runtime.inbox.letter import Letter
from agentrail.runtime.inbox.mailbox import Mailbox
from agentrail.runtime.inbox.replies import Waiters, relieve
from agentrail.runtime.resources import FindCode, SessionCode, SharedServices
from agentrail.values.events.envelope import Cursor
from agentrail.values.messages import EMPTY_HISTORY

_NONE_APPROVED: Final = frozenset[tuple[str, str]]()
_NONE_PRICED: Final = frozenset[str]()


class Sleep:
    """The sleep of one session: decides what stays in memory, and gives state and code back when it wakes."""

    __slots__ = ("__weakref__", "_own", "find_code", "is_deep", "is_thin", "revision")

    def __init__(self, find_code: FindCode, revision: int) -> None:
        self.find_code = find_code
        self.revision = revision  # of the code that is found
        self._own: SessionCode | None = None
        self.is_deep = False
        self.is_thin = False

    @property
    def is_blank(self) -> bool:
        """Whether a new one that is told to be asleep (`rested`) would do as well."""
        return self.is_deep and self.is_thin and self._own is None

    def rested(self) -> None:
        """Be asleep, as one that was put away."""
        self.is_deep = self.is_thin = True

    def begin(self, state: State, code: SessionCode) -> tuple[State, SessionCode | None]:
        """Begin the sleep: return the reduced state that stays in memory, and the code that stays.

        The code is `None` if it can be found again, because no tools, plugins or models were given at run time.
        """
        self.is_deep = self.is_thin = True
        reach("ASLEEP")
        self._own = None if code.revision == self.revision else code
        return husk(state), self._own

    async def end(self, state: State, records: int) -> tuple[State, SessionCode]:
        """End the sleep: return *state*, which was rebuilt from the journal, fitted to the code, and the code."""
        if self._own is None:
            state, code, _ = await self.find_code(state, records)
            self.revision = code.revision
        else:
            state, code = _with_plugins_of(self._own, state), self._own
        self.is_deep = self.is_thin = False
        self._own = None
        reach("AWAKE")
        return state, code


def without_code() -> Recorded:
    """Return a judge that runs no plugin, for a step of a sleeping session, whose code is not there."""
    return Recorded((Ruling(ON_EVENT),))


def _with_plugins_of(code: SessionCode, state: State) -> State:
    """Return *state*, as read from the journal, with each plugin's state as an object of the class that it declares."""
    plugins = [(seat.key, code.judge.plugin(seat)) for seat in state.seats]
    states = zip(plugins, state.plugin_states, strict=True)
    return state.but(plugin_states=tuple(revived(state.session_id, *plugin, kept) for plugin, kept in states))


def husk(state: State) -> State:
    """Return the part of *state* needed while the session sleeps: identity, usage, calls that wait for people."""
    return state.but(
        history=EMPTY_HISTORY,
        tools=NO_TOOLS,
        seats=(),
        plugin_states=(),
        sections=(),
        last_reply=None,
        todos=(),
        approved_always=_NONE_APPROVED,
        standing_approvals=(),
        priced=_NONE_PRICED,
        notices=(),
        in_doubt=(),
        measured=None,
        altered=(),
        shown=None,
    )


_BLANK: Final = State("", Setup(), "")
"""The fields that no session has changed."""


def outline(state: State, shared: SharedServices) -> tuple[tuple[str, ...], tuple[object, ...]]:
    """Return the names and values of the fields of a reduced state that differ from their defaults.

    The id is left out. Names and setup are shared with other sessions that have equal ones.
    """
    found: dict[str, object] = {
        name: kept
        for name in State.__struct_fields__
        if (kept := getattr(state, name)) is not getattr(_BLANK, name) and name != "session_id"
    }
    found["setup"] = shared.setups.one(state.setup)
    return shared.outlines.one(tuple(found)), tuple(found.values())


def state_of(session_id: str, names: tuple[str, ...], kept: tuple[object, ...]) -> State:
    """Return the reduced state with the fields *names*, whose values are *kept*; `outline` has made them."""
    return _BLANK.but(session_id=session_id, **dict(zip(names, kept, strict=True)))


_STATE: Final = "state"

_PARTS: Final = ("traces", "waiters", "sources", "ties", "_answers", "sleep", "bus", "records", "mailbox")
"""Parts in the order in which they are put away: the bus has the records, so it comes first."""

_NAMES: Final = frozenset({_STATE, *_PARTS})

_LOCK: Final = threading.RLock()
"""Held while parts are put away or made again: another thread may look at a session, as at its status."""


class Part(Protocol):
    """Interface: a part of a session."""

    @property
    def is_blank(self) -> bool:
        """Whether a new one that knows what `Packed` has would do as well."""
        ...


class Packed(NamedTuple):
    """What is kept of the parts of a session that hibernates."""

    alarm: Callable[[], None] | None
    """Wakes the session; from its mailbox."""
    number: int
    """Number of the last letter in its mailbox."""
    claim: Claim
    """Claim under which its records are written."""
    head: int
    """Number of its last record."""
    dropped: Cursor | None
    """Last ephemeral event that can no longer be replayed; from its bus."""
    whispered: int
    """Number of ephemeral events since the last durable one; from its bus."""
    find_code: FindCode
    """Finds its code."""
    revision: int
    """Revision of the code that is found."""
    names: tuple[str, ...]
    """Names of the fields of its reduced state that differ from their defaults."""
    values: tuple[object, ...]
    """Values of these fields."""


class Parts:
    """Mailbox, state, bus, records and the other parts of a session."""

    __slots__ = (
        "__weakref__",
        "_answers",
        "_in_hand",
        "_packed",
        "bus",
        "mailbox",
        "records",
        "session_id",
        "shared",
        "sleep",
        "sources",
        "state",
        "ties",
        "traces",
        "waiters",
        "when_stuck",
    )

    # While its parts are put away, a session is of a class of its own, whose `__getattr__` makes them again. If the
    # class of all sessions had that method, each access to a part would take longer.
    awake_class: ClassVar[type[Parts]]
    packed_class: ClassVar[type[Parts]]

    def __init__(self, state: State, claim: Claim, shared: SharedServices, sleep: Sleep, *, returned: bool) -> None:
        self._packed: Packed | None = None
        self._in_hand: Letter | None = None
        self.when_stuck: tuple[Callable[[JournalUnavailable], None], ...] = ()
        self.session_id = state.session_id
        self.shared = shared
        self.state = state
        self.sleep = sleep
        self.mailbox = Mailbox(state.session_id, shared.gate, shared.idlers)
        self.records = Records(claim, shared, None if returned else state)
        self.records.callers = self
        self.bus = self._bus(state, state.seq, mid_turn=state.phase is not Phase.IDLE)
        self.ties = Ties()
        self.sources = Sources()
        self.waiters = Waiters()
        self.traces = Traces()
        self._answers = Answers(state.session_id, shared.journal, new=not returned)

    def _bus(self, state: State, before: int, *, mid_turn: bool = False) -> Bus:
        size, hearing = state.setup.options.event_buffer_size, self.shared.hearing
        return Bus(self.session_id, size, self.records, hearing, before, mid_turn=mid_turn)

    def _never_was(self, outcome: Step) -> bool:
        """Whether the session failed to start: then nothing is journaled and its id stays free."""
        return self.records.head == 0 and outcome.state.phase is Phase.ENDED

    def write_lines(self, outcome: Step, judge: Live) -> None:
        """Write the lines that plugins want in the log for the events of a step."""
        if outcome.events and (lines := judge.event_lines(outcome.state.seats)):
            write_events(self.session_id, outcome.events, lines)

    # What can be told without making the parts again

    @property
    def is_packed(self) -> bool:
        """Whether the parts are put away."""
        return self._packed is not None

    @property
    def sleeps(self) -> bool:
        """Whether the session hibernates."""
        return self._packed is not None or self.sleep.is_deep

    @property
    def is_opening(self) -> bool:
        """Whether the start of the session is not journaled yet."""
        return self._packed is None and self.state.opening

    @property
    def bonds(self) -> Ties:
        """The links to parent and sub-agents, only to be read; the session has none if they are put away."""
        return UNTIED if self._lacks("ties") else self.ties

    @property
    def box(self) -> Mailbox | None:
        """The mailbox; `None` if it is put away, for then it is empty."""
        return None if self._lacks("mailbox") else self.mailbox

    @property
    def summary(self) -> str:
        """Id of the session, its phase, and how many prompts wait."""
        state = self.state
        phase = "asleep" if self.sleeps else state.phase.value
        return listed(f"{self.session_id!r} {phase}", f"{len(state.queue)} queued" if state.queue else "")

    def relieve(self) -> None:
        """Answer callers of abort and stop early, and tell `when_stuck`, if the journal cannot write."""
        stuck = self.records.stuck
        if stuck is not None:
            in_hand = () if self._in_hand is None else (self._in_hand,)
            relieve(self.session_id, (*in_hand, *self.mailbox.control), stuck)
            for tell in self.when_stuck:
                tell(stuck)

    # Putting away

    def pack(self) -> None:
        """Put the parts away, except for those that do more than a new one would, or that other code holds.

        A part that a subscription, a timer or a caller holds stays the part of this session.
        """
        with _LOCK:
            if self._packed is not None or not self.sleep.is_deep:
                return
            if self.mailbox.alarm is None or not self.mailbox.is_blank:
                return
            self.shared.idlers.forget(self.mailbox)
            self._packed = Packed(
                self.mailbox.alarm,
                self.mailbox.number,
                self.records.claim,
                self.records.head,
                self.bus.dropped,
                self.bus.cursor.n,
                self.sleep.find_code,
                self.sleep.revision,
                *outline(self.state, self.shared),
            )
            object.__setattr__(self, "__class__", self.packed_class)
            del self.state
            for name in _PARTS:
                self._put_away(name)

    def doze(self) -> None:
        """Put the parts away again that were needed, but have not woken the session."""
        self.pack()

    def _put_away(self, name: str) -> None:
        part: Part | None = getattr(self, name)
        if part is not None and part.is_blank:
            held = ref(part)
            delattr(self, name)
            del part
            part = held()
            if part is not None:  # other code holds it
                setattr(self, name, part)

    def _lacks(self, name: str) -> bool:
        try:
            object.__getattribute__(self, name)
        except AttributeError:
            return True
        return False

    def part(self, name: str) -> object:
        """Return a part that was put away, which makes all of them again; a look at the state makes none."""
        packed = self._packed if name in _NAMES else None
        if packed is not None and name == _STATE:
            return state_of(self.session_id, packed.names, packed.values)
        if packed is not None:
            self.unpack()
        found: object = object.__getattribute__(self, name)
        return found

    def unpack(self) -> None:
        """Make the parts again that are put away; no-op if none is.

        To be called before anything of a session that may hibernate is changed. A part that is only read is made by
        itself, but some may be there, such as the bus of a session with a subscriber.
        """
        with _LOCK:
            if self._packed is None:
                return
            self._make(self._packed)
            object.__setattr__(self, "__class__", self.awake_class)
            self._packed = None
        if _runs(self.shared.home):  # another thread leaves them
            self.shared.idlers.note(self)

    def _make(self, packed: Packed) -> None:
        state = state_of(self.session_id, packed.names, packed.values)
        shared = self.shared
        if self._lacks("sleep"):
            self.sleep = Sleep(packed.find_code, packed.revision)
            self.sleep.rested()
        if self._lacks("records"):
            self.records = Records(packed.claim, shared, None)
            self.records.rested(packed.head)
            self.records.callers = self
        if self._lacks("bus"):
            self.bus = self._bus(state, state.seq)
            self.bus.rested(packed.dropped, packed.whispered)
        if self._lacks("mailbox"):
            self.mailbox = Mailbox(self.session_id, shared.gate, shared.idlers)
            self.mailbox.number, self.mailbox.alarm = packed.number, packed.alarm
        if self._lacks("_answers"):
            self._answers = Answers(self.session_id, shared.journal)
        for name, make in _EMPTY:
            if self._lacks(name):
                setattr(self, name, make())
        self.state = state


_EMPTY: Final[tuple[tuple[str, Callable[[], object]], ...]] = (
    ("ties", Ties),
    ("sources", partial(Sources, opened=True)),
    ("waiters", Waiters),
    ("traces", Traces),
)


def _runs(home: trio.lowlevel.TrioToken) -> bool:
    """Whether the caller is in the run *home*, and not in another thread."""
    return trio.lowlevel.in_trio_run() and trio.lowlevel.current_trio_token() is home

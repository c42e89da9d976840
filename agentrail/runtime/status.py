"""What a session is doing, for people."""

from __future__ import annotations

from agentrail.core.vocabulary.state import State
from agentrail.ports.agents import Task
from agentrail.runtime.inbox.replies import HeldCall, held_calls
from agentrail.values.usage import Usage
from agentrail.values.value import Value, value


@value
class Background(Value):
    """Work that has left its turn and still runs."""

    call_id: str
    """Which call."""
    name: str
    """Which tool."""
    since: int
    """Since when, in milliseconds since 1970."""
    abandoned: bool = False
    """Whether it ignores its cancellation."""


@value
class Asking(Value):
    """A hook that waits for what a plugin asked for."""

    hook: str
    """Which hook."""
    plugin: str
    """Who asks."""
    request: str
    """The kind of request."""


@value
class Status(Value):
    """What a session is doing."""

    session_id: str
    """Which session."""
    phase: str
    """`idle`, `running`, `streaming`, `executing_tools`; `ended` when it is over."""
    model: str
    """The model of the next turn."""
    turn: int
    """How many turns it has begun."""
    round: int
    """The round of the open turn, 0 if none is open."""
    turn_open: bool
    """Whether a turn is open, also if it rests."""
    usage: Usage
    """What it has used."""
    queued: int
    """Prompts that wait."""
    steering: int
    """Steering texts that wait."""
    held: tuple[HeldCall, ...]
    """Calls that wait for a person, those of sub-agents behind its own."""
    asking: tuple[Asking, ...]
    """Hooks that wait for what a plugin asked for."""
    lingering: tuple[Background, ...]
    """Immune calls that go on in the background."""
    quarantined: tuple[Background, ...]
    """Cancelled calls that have not ended."""
    tasks: tuple[Task, ...] = ()
    """What its sub-agents do, and those in the background that have ended did."""


@value
class SessionDown(Value):
    """A session is gone for good."""

    session_id: str
    """Which session."""
    reason: str
    """Why."""


def status_of(state: State, below: tuple[HeldCall, ...] = (), tasks: tuple[Task, ...] = ()) -> Status:
    """Return what the session of *state* is doing, with its sub-agents: what waits *below*, and their *tasks*."""
    return Status(
        state.session_id,
        state.phase.value,
        state.model,
        state.turns,
        state.round,
        state.turn is not None,
        state.usage,
        len(state.queue),
        len(state.steering),
        (*held_calls(state), *below),
        tuple(Asking(w.hook.moment, w.plugin, type(w.pause.request).__name__) for w in state.suspended),
        tuple(Background(stray.call_id, stray.name, stray.since) for stray in state.lingering),
        tuple(Background(stray.call_id, stray.name, stray.since, stray.reported) for stray in state.quarantined),
        tasks,
    )

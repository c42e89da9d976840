"""What a session is doing, for people, and that it is gone."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Self

from agentrail.core.vocabulary.state import State
from agentrail.ports.agents import Task
from agentrail.reprs import in_brackets
from agentrail.runtime.inbox.replies import HeldCall, held_calls
from agentrail.values.usage import Usage
from agentrail.values.value import Value, value

if TYPE_CHECKING:
    from agentrail.runtime.actor.loop import Session


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


class Monitor:
    """Tells that a session is gone for good, also if it already was, to everybody who waits."""

    __slots__ = ("_session",)

    def __init__(self, session: Session) -> None:
        self._session = session

    @in_brackets
    def __repr__(self) -> str:
        gone = self._session.gone
        return f"{self._session.session_id!r} {'alive' if gone is None else 'gone'}"

    async def __aenter__(self) -> Self:
        """Begin to watch."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Watch no more."""

    async def wait(self) -> SessionDown:
        """Return when the session is gone for good."""
        gone = await self._session.wait_down()
        return SessionDown(self._session.session_id, gone.reason)

"""`Status`: what a session is doing, for display."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self

from agentrail.core.vocabulary.state import State
from agentrail.errors import JournalUnavailable
from agentrail.ports.agents import Task
from agentrail.reprs import in_brackets
from agentrail.runtime.inbox.replies import HeldCall, held_calls
from agentrail.values.usage import Usage
from agentrail.values.value import Value

if TYPE_CHECKING:
    from agentrail.runtime.actor.loop import Session


class Background(Value):
    """A call that still runs although its turn no longer waits for it."""

    call_id: str
    """Id of the call."""
    name: str
    """Name of the tool."""
    since: int
    """When the call left its turn, or was cancelled after that, in milliseconds since 1970."""
    abandoned: bool = False
    """Whether the call was cancelled and has not ended in time."""


class Asking(Value):
    """A hook that is paused until what a plugin asked for is done."""

    hook: str
    """Name of the hook."""
    plugin: str
    """Key of the plugin."""
    request: str
    """Kind of request, such as `RunTool`."""


class Compacting(Value):
    """A compaction of the context that is under way."""

    reason: str
    """Why the context is compacted."""
    tokens: int
    """About how many tokens the context takes."""


class Status(Value):
    """What a session is doing now, as `status()` returns it."""

    session_id: str
    """Id of the session."""
    phase: str
    """`idle`, `running`, `streaming`, `executing_tools`; `ended` when it is over."""
    model: str
    """Name of the model for the next turn."""
    turn: int
    """Number of turns started so far."""
    round: int
    """Number of the round in the open turn, 0 if none is open."""
    turn_open: bool
    """Whether a turn is open, even if it waits for a person."""
    usage: Usage
    """Usage of the session so far."""
    queued: int
    """Number of queued prompts."""
    steering: int
    """Number of queued steering texts."""
    held: tuple[HeldCall, ...]
    """Calls that wait for a person; those of sub-agents come last."""
    asking: tuple[Asking, ...]
    """Hooks that are paused until what a plugin asked for is done."""
    lingering: tuple[Background, ...]
    """Immune calls that were left running in the background."""
    quarantined: tuple[Background, ...]
    """Cancelled calls that have not ended."""
    tasks: tuple[Task, ...] = ()
    """Running sub-agents, and those in the background that have ended."""
    compacting: Compacting | None = None
    """The compaction of the context that is under way, while the phase is `running`; `None` if there is none."""


class SessionDown(Value):
    """The end of a session, as a monitor reports it."""

    session_id: str
    """Id of the session."""
    reason: str
    """Why the session ended."""


def status_of(state: State, below: tuple[HeldCall, ...] = (), tasks: tuple[Task, ...] = ()) -> Status:
    """Return the status of a session in *state*; *below* is what waits in sub-agents, *tasks* what they do."""
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
        None if state.compaction is None else Compacting(state.compaction.reason, state.compaction.tokens),
    )


class Monitor:
    """Waits for the end of a session: `wait` returns when it is gone for good, at once if it is already.

    Who must not wait for the journal meanwhile is told by `when_stuck` that it cannot write.
    """

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

    def when_stuck(self, tell: Callable[[JournalUnavailable], None]) -> Callable[[], None]:
        """Have *tell* called after each attempt to write a record of the session that fails; return what ends that.

        The record is written when the journal can, so the caller of its command waits until then.
        """
        session = self._session
        session.when_stuck = (*session.when_stuck, tell)

        def end() -> None:
            session.when_stuck = tuple(other for other in session.when_stuck if other is not tell)

        return end

    async def wait(self) -> SessionDown:
        """Return when the session is gone for good."""
        gone = await self._session.wait_down()
        return SessionDown(self._session.session_id, gone.reason)

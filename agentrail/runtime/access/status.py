"""How programs look at a session: its status and tasks, its events and steps, and a monitor that waits for its end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Self

from agentrail.api.command_checks import choice_of, counted, cursor_of, kinds_of
from agentrail.api.session_values import Asking, Background, Compacting, HeldCall, SessionDown, Status
from agentrail.core.vocabulary.state import State
from agentrail.errors import JournalUnavailable, UnknownCursor
from agentrail.ports.tool import Task
from agentrail.reprs import in_brackets
from agentrail.runtime.events import tracing
from agentrail.runtime.events.log import EventLog
from agentrail.runtime.events.subscription import CAPACITY, Subscription
from agentrail.runtime.events.tracing import ActorTrace, Traces
from agentrail.runtime.inbox.replies import held_calls
from agentrail.values.events.envelope import Event
from agentrail.values.events.policies import POLICIES

if TYPE_CHECKING:
    from agentrail.runtime.actor.session import Session


def status_of(state: State, below: tuple[HeldCall, ...] = (), tasks: tuple[Task, ...] = ()) -> Status:
    """Return the status of a session in *state*; *below* is what waits in sub-agents, *tasks* what they do."""
    return Status(
        state.session_id,
        state.phase.value,
        model=state.model,
        turn=state.turn_count,
        round=state.round,
        turn_open=state.turn is not None,
        usage=state.usage,
        queued=len(state.queue),
        steering=len(state.steering),
        held=(*held_calls(state), *below),
        asking=tuple(Asking(w.hook.hook_name, w.plugin, type(w.pause.request).__name__) for w in state.suspended_runs),
        lingering=tuple(
            Background(detached.call_id, detached.name, detached.since) for detached in state.lingering_calls
        ),
        quarantined=tuple(
            Background(detached.call_id, detached.name, detached.since, detached.reported)
            for detached in state.quarantined_calls
        ),
        tasks=tasks,
        compacting=None if state.compaction is None else Compacting(state.compaction.reason, state.compaction.tokens),
        waits=state.waits,
        agent=state.agent_name,
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
        end = self._session.gone
        return f"{self._session.session_id!r} {'alive' if end is None else 'gone'}"

    async def __aenter__(self) -> Self:
        """Begin to watch."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Watch no more."""

    def when_stuck(self, tell: Callable[[JournalUnavailable], None]) -> Callable[[], None]:
        """Call *tell* after each failed attempt to write a record of the session; return a function that ends that.

        The record is written when the journal can, so the caller of its command waits until then.
        """
        session = self._session
        session.when_stuck = (*session.when_stuck, tell)

        def end() -> None:
            """Remove the callback."""
            session.when_stuck = tuple(other for other in session.when_stuck if other is not tell)

        return end

    async def wait(self) -> SessionDown:
        """Return when the session is gone for good."""
        end = await self._session.wait_down()
        return SessionDown(self._session.session_id, end.reason)


def tasks_of(state: State) -> tuple[Task, ...]:
    """Return what `tasks()` shows in *state*: the last ended sub-agents in the background, then the running ones."""
    running = (
        Task(
            agent.child,
            agent.agent,
            agent.description,
            agent.call_id,
            agent.background,
            "waiting" if agent.waits else "running",
            agent.peers,
        )
        for agent in state.subagents
        if not agent.rests
    )
    return (*ended_tasks(state), *running)


def ended_tasks(state: State) -> tuple[Task, ...]:
    """Return the entries in `tasks()` of the last sub-agents in the background that have ended."""
    return tuple(
        Task(
            task.child,
            task.agent,
            task.description,
            task.call_id,
            True,
            "failed" if task.failed else "done",
            task.peers,
        )
        for task in state.ended_tasks
    )


def subscription(
    log: EventLog, since: object, types: Iterable[type[Event]] | None, policy: str, capacity: int | None
) -> Subscription:
    """Return a subscription to the events of *log*."""
    kinds = None if types is None else kinds_of(types)
    start = cursor_of(since)
    if start is not None and start.seq > log.cursor.seq:
        raise UnknownCursor(log.session_id, start.seq, log.cursor.seq)
    return Subscription(
        log,
        since=start,
        types=kinds,
        policy=choice_of("policy", policy, POLICIES),
        capacity=CAPACITY if capacity is None else counted("capacity", capacity),
    )


def trace(traces: Traces, begin: Callable[[], Awaitable[None]], capacity: int | None) -> ActorTrace:
    """Return a reader of the steps that *traces* shows."""
    return ActorTrace(traces, begin, tracing.CAPACITY if capacity is None else counted("capacity", capacity))

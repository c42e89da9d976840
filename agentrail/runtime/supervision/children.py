"""The children of a supervisor: sessions, services, and supervisors of their own."""

from __future__ import annotations

import inspect
import math
from collections.abc import Awaitable, Callable
from contextvars import Context
from enum import Enum
from functools import partial
from typing import Final, Protocol, TypeAlias

import trio

from agentrail.api.session_values import ChildView
from agentrail.core.supervision_rules import ChildFacts
from agentrail.core.vocabulary.commands import StopSent
from agentrail.errors import Fenced, JournalUnavailable
from agentrail.ports.failpoints import reach
from agentrail.reprs import in_brackets, listed, some
from agentrail.runtime.actor.session import Session
from agentrail.runtime.actor.sleep import sleeping_state
from agentrail.runtime.handle import SessionHandle
from agentrail.runtime.inbox.letter import Letter
from agentrail.runtime.shared.reply_slot import Slot
from agentrail.runtime.shared.timers import Timers

ServiceFunction: TypeAlias = Callable[..., Awaitable[None]]
"""An async function that runs until it is cancelled; if it takes `task_status`, it reports itself when it is ready."""


class ChildState(Enum):
    """State of a child, as `tree()` shows it.

    The next state after each event; a dash is for one that cannot come, or that changes nothing:

    | state       | pause ends | is ready | run ends          | `stop`    | `_halt`  | late  | letter   |
    | ----------- | ---------- | -------- | ----------------- | --------- | -------- | ----- | -------- |
    | STARTING    | –          | RUNNING  | DOWN              | cancelled | STOPPING | STUCK | –        |
    | WAITING     | STARTING   | –        | DOWN              | cancelled | STOPPING | STUCK | –        |
    | RUNNING     | –          | –        | ASLEEP, DOWN      | STOPPING  | STOPPING | STUCK | –        |
    | STOPPING    | –          | –        | DOWN, QUARANTINED | cancelled | STOPPING | STUCK | –        |
    | STUCK       | –          | –        | DOWN              | cancelled | STOPPING | STUCK | –        |
    | ASLEEP      | –          | –        | –                 | STARTING  | –        | –     | STARTING |
    | DOWN        | –          | –        | –                 | –         | –        | –     | –        |
    | QUARANTINED | –          | –        | –                 | –         | –        | –     | –        |

    `stop` is for good: it wakes a session that sleeps, ends a RUNNING child in order, and cancels any other as it is.
    `_halt` is for a restart. A RUNNING session may rest: its run has ended, and the next starts when it needs a
    task. A child is late if it ignores its cancellation for `shutdown` seconds. A RUNNING session is ASLEEP after
    its run if it ended by itself to sleep, and else DOWN, as all others are. What comes after DOWN, the rules
    decide (`core.supervision_rules.decide`): the child is removed; or it is STARTING again, if need be WAITING
    before; or it has crashed too often, and is STOPPING until its quarantine is written.
    """

    STARTING = "starting"
    """A task runs, and the child cannot be used yet."""
    WAITING = "waiting"
    """A task waits before a restart."""
    RUNNING = "running"
    """The child is ready."""
    STOPPING = "stopping"
    """The child was told to end, or its quarantine is being written."""
    STUCK = "stuck"
    """The child has not ended in its time: its task is left behind."""
    ASLEEP = "asleep"
    """A session without a task; a letter wakes it."""
    DOWN = "down"
    """The last run is over."""
    QUARANTINED = "quarantined"
    """A session that crashed too often: it can be read, and does not run."""


WITH_TASK: Final = frozenset(set(ChildState) - {ChildState.ASLEEP, ChildState.DOWN, ChildState.QUARANTINED})
"""States in which a child has a task, or is a session that rests: it gets one as soon as it needs one."""


class ChildRunner(Protocol):
    """Interface of what a child runs; one class for each kind of child: session, service, supervisor."""

    @property
    def kind(self) -> str:
        """`session`, `service` or `supervisor`."""
        ...

    def run(self, ready: Callable[[], None]) -> Awaitable[None]:
        """Run once: call *ready* when the child can be used; return or raise at its end."""
        ...

    def broke(self, cause: str) -> None:
        """Called before a restart with the exception that ended the previous run."""
        ...

    async def wind_down(self) -> None:
        """End in order, for good; cancelled by the supervisor if it takes too long."""
        ...

    async def rest(self) -> None:
        """Prepare to be cancelled, and perhaps to be restarted."""
        ...

    def clean_up(self, error: BaseException | None) -> None:
        """Clean up after the last run: there will be no restart."""
        ...

    def view(self, entry: ChildView) -> ChildView:
        """Return *entry* with the facts that only this kind has."""
        ...


FILES_WITHIN: Final = 10.0
"""The most seconds that the end of a supervisor waits for files that are brought back."""


class SessionRunner:
    """A session as a child. A restart rebuilds it from its journal; mailbox and running work outlive the actor."""

    __slots__ = ("fenced_by", "handle", "session", "stop_reason")

    kind = "session"

    def __init__(self, session: Session, handle: SessionHandle) -> None:
        self.session = session
        self.handle = handle
        self.stop_reason = "the supervisor stopped"
        self.fenced_by: Fenced | None = None

    def run(self, ready: Callable[[], None]) -> Awaitable[None]:
        """Run the session's actor until the session ends."""
        if self.fenced_by is not None and not self.session.is_writing:
            raise self.fenced_by
        ready()
        return self.session.run()  # no coroutine of its own, which would take 224 bytes as long as the session lives

    def broke(self, cause: str) -> None:
        """Keep the exception: the next actor reports the crash in the journal."""
        self.session.crash_text = cause

    async def wind_down(self) -> None:
        """Stop the session's work at once, and post a stop to its actor."""
        session = self.session
        stop = Letter(StopSent(self.stop_reason), answer=Slot())
        session.abort_now(stop)
        session.mailbox.post_control(stop)
        session.tell_if_late(stop)
        # A session at rest has ended now: who stops a thousand lets all other tasks run in between.
        await trio.lowlevel.cancel_shielded_checkpoint()

    async def rest(self) -> None:
        """Wait until files that are brought back now are in a record: else they would count as edited by somebody."""
        files = None if self.session.is_asleep else self.session.effect_runner.rewinding
        if files is not None:
            with trio.move_on_after(FILES_WITHIN):
                await files.settle()

    def mark_fenced(self) -> None:
        """Note that another supervisor has claimed the session; a sleeping one is woken, to end here."""
        self.fenced_by = self.session.records.fenced
        if self.session.mailbox.wake_callback is not None:
            self.session.mailbox.wake_callback()

    def clean_up(self, error: BaseException | None) -> None:
        """Answer all callers that still wait for the session."""
        if self.session.gone is None:
            self.session.finish(error)
            reach("LEFT")

    def forget(self) -> None:
        """Free the memory of a session that is gone, except for its `status`, if the journal does not keep sessions."""
        session = self.session
        if session.shared.forget is not None:
            session.shared.forget(session.session_id)
            forget_records(session)

    def view(self, entry: ChildView) -> ChildView:
        """Add phase, mailbox, requests waiting for a provider's limit, and sub-agents."""
        session, state = self.session, self.session.state
        subagents = session.links.subagents
        return entry.but(
            suspended=session.mailbox.suspended,
            mailbox=session.mailbox.lengths,
            phase=state.phase.value,
            memory=state.history.size,
            limited=session.shared.limits.waiting_of(session.session_id),
            children=() if subagents is None else subagents.views(),
        )


class ServiceRunner:
    """A plain async function as a child."""

    kind = "service"

    def __init__(self, service: ServiceFunction) -> None:
        self._service = service

    async def run(self, ready: Callable[[], None]) -> None:
        """Run the function; one that does not take `task_status` counts as ready at once."""
        if "task_status" in inspect.signature(self._service).parameters:
            await self._service(task_status=_Ready(ready))
        else:
            ready()
            await self._service()

    def broke(self, cause: str) -> None:
        """No-op: the function starts from scratch."""

    async def wind_down(self) -> None:
        """No-op: the function ends when it is cancelled."""

    async def rest(self) -> None:
        """No-op: the function may be cancelled at any time."""

    def clean_up(self, error: BaseException | None) -> None:
        """No-op: the function cleans up by itself."""

    def view(self, entry: ChildView) -> ChildView:
        """Return *entry* unchanged: a service has no facts of its own."""
        return entry


class _Ready:
    """The `task_status` that a service gets."""

    __slots__ = ("_ready",)

    def __init__(self, ready: Callable[[], None]) -> None:
        self._ready = ready

    def started(self, _value: object = None) -> None:
        """Called by the service when it is ready."""
        self._ready()


_READY: Final[Slot[BaseException | None]] = Slot()
_READY.settle(None)
"""The settled `run_ready` and `first_ready` of every child that is ready: one object for all, which saves memory."""


_NO_RUN: Final = trio.CancelScope()
"""Scope of all children without a task."""


class Child:
    """A child of a supervisor, over all its restarts."""

    __slots__ = (
        "_ended",
        "_state",
        "error",
        "facts",
        "first_ready",
        "is_leaving",
        "is_reported",
        "key",
        "restarts",
        "rests",
        "run_ready",
        "runner",
        "scope",
        "shutdown",
        "start_timeout",
        "stop_requested",
    )

    def __init__(
        self, runner: ChildRunner, facts: ChildFacts, shutdown: float, start_timeout: float = math.inf
    ) -> None:
        self.runner = runner
        self.key = facts.key
        self.facts = facts
        self.shutdown = shutdown
        self.start_timeout = start_timeout
        self.restarts = 0
        self.is_leaving = False  # it is being stopped for good
        # Settled when the child is ready for the first time, whichever run it is; `start` waits for it. `run_ready` is
        # settled at the readiness or the end of each run; a restart of several children waits for it.
        self.first_ready: Slot[BaseException | None] = Slot()
        self.reset_for_run()

    @in_brackets
    def __repr__(self) -> str:
        return listed(f"{self.key!r} {self.runner.kind} {self.state.value}", some(self.restarts, "restart"))

    @property
    def state(self) -> ChildState:
        """State of the child, as `tree()` shows it."""
        return self._state

    @state.setter
    def state(self, state: ChildState) -> None:
        self._state = state
        session = session_of(self)
        if session is not None and session.shared.figures is not None:
            session.shared.figures.changed(self.key)

    def reset_for_run(self) -> None:
        """Reset what belongs to one run, so that the next one can start."""
        self.state = ChildState.STARTING
        self.stop_requested = False
        self.error: BaseException | None = None
        self.is_reported = False  # the error is in a crash report, or was raised to the caller who started the child
        # A cancellation of the nursery must not reach a child before its supervisor stops it in order:
        # tests/runtime/test_shutdown.py::test_if_the_roof_comes_down_the_body_ends_and_the_sessions_are_stopped
        self.scope = trio.CancelScope(shield=True)
        self.rests = False  # it is a session that runs and needs no task until `SupervisorNode.go_on`
        self.run_ready: Slot[BaseException | None] = Slot()
        self._ended: trio.Event | None = None

    def has_task(self) -> bool:
        """Whether the child runs; one that sleeps or is down does not."""
        return self.state in WITH_TASK

    def mark_ready(self) -> None:
        """Settle `run_ready` and `first_ready`, and lift the time limit of the start."""
        if self.scope.deadline != math.inf:  # to set it is dear
            self.scope.deadline = math.inf
        if self.state is ChildState.STARTING:
            self.state = ChildState.RUNNING
        self.run_ready.settle(None)
        self.first_ready.settle(None)
        self.run_ready = self.first_ready = _READY

    def cancel(self) -> None:
        """Cancel the run; a session without a task is down, and no letter starts one any more."""
        self.stop_requested = True
        session = session_of(self)
        if self.rests and session is not None and session.is_writing:
            session.mailbox.go_on(needs_task=True)  # a task, which waits for the end of that
        self.scope.cancel()
        if (self.rests or self.state is ChildState.ASLEEP) and session is not None:
            session.mailbox.wake_callback = None
            self.mark_ended()

    def mark_ended(self, state: ChildState = ChildState.DOWN) -> None:
        """Set the *state* after a run, and wake all tasks that wait for its end."""
        self.state = state
        self.rests = False
        if state is ChildState.ASLEEP:
            self.scope = _NO_RUN
        if self._ended is not None:
            self._ended.set()

    def rest(self) -> None:
        """Note that the session runs without a task."""
        self.rests, self.scope = True, _NO_RUN

    async def wait_ended(self) -> None:
        """Wait until no task of the child runs."""
        if self.has_task():
            if self._ended is None:
                self._ended = trio.Event()
            await self._ended.wait()

    def view(self) -> ChildView:
        """Return the child's entry in `tree()`."""
        view_ = ChildView(self.key, self.runner.kind, self.state.value, self.facts.restart, self.restarts)
        return self.runner.view(view_)


def session_of(child: Child | None) -> Session | None:
    """Return the session that *child* runs, `None` if it is no session."""
    runner = None if child is None else child.runner
    return runner.session if isinstance(runner, SessionRunner) else None


def forget_records(session: Session) -> None:
    """Free the memory of a session whose records are gone, except for its `status`; its handles read none any more."""
    session.records.forgotten = True
    session.state = sleeping_state(session.state)


def failed_to_start(child: Child, error: BaseException | None) -> bool:
    """Whether *child* ended before it could be used: its starter gets the error then, and it is not restarted."""
    if isinstance(child.runner, SessionRunner):  # a session can be used when its start is written to the journal
        return child.runner.session.state.is_starting or isinstance(error, JournalUnavailable)
    return child.restarts == 0 and not child.run_ready.settled


# Waking sessions

RECHECK_SECONDS: Final = 0.001
"""Seconds after which a clock that shows infinity is looked at again."""


class Waker(Protocol):
    """Interface: the supervisor of a session, which can wake it."""

    def wake(self, child: Child) -> None:
        """Give a session a task that sleeps, or rests, because a letter came."""
        ...


class WakeCallback:
    """Callback that wakes a session without a task; kept small, as there may be very many."""

    __slots__ = ("_child", "_context", "_node")

    def __init__(self, node: Waker, child: Child) -> None:
        self._node = node
        self._child = child
        # The context variables of the task that ends here, so that the next one, and the tools that it starts, have
        # the same; and not those of the caller whose letter it is:
        # tests/runtime/test_waking.py::test_tools_see_the_context_of_the_spawn_whoever_woke_the_session
        context = trio.lowlevel.current_task().context
        self._context = context if len(context) else None

    def __call__(self) -> None:
        """Wake the session."""
        (self._context or Context()).run(self._node.wake, self._child)


def when_finite(timers: Timers, session_id: str, begin: Callable[[], None]) -> None:
    """Call *begin* as soon as a user's clock does not show infinity: Trio would cancel its task at once."""
    if trio.current_time() == math.inf:
        again = partial(when_finite, timers, session_id, begin)
        timers.set((session_id, "wake"), timers.clock.after(RECHECK_SECONDS), again)
    else:
        begin()

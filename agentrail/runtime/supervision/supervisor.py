"""A supervisor: runs children and applies the rules of `core.supervision_rules`; itself a child of the one above."""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

import trio

from agentrail.api.session_values import ChildView
from agentrail.core.supervision_rules import ChildFacts, Ending, Policy, RestartDecision, decide, is_final
from agentrail.errors import (
    CommitUnknown,
    Fenced,
    NotReady,
    StartTooSlow,
    SupervisorClosed,
    SupervisorFailed,
    UsageError,
)
from agentrail.reprs import in_brackets, listed, some
from agentrail.runtime.diagnosis.crash_reports import CrashReport, reason_of
from agentrail.runtime.shared.reply_slot import Slot
from agentrail.runtime.shared.untrusted_calls import split, traced
from agentrail.runtime.supervision.children import (
    Child,
    ChildState,
    SessionRunner,
    WakeCallback,
    failed_to_start,
    when_finite,
)
from agentrail.runtime.supervision.tree import Tree
from agentrail.values.untrusted_values import described

log = logging.getLogger("agentrail.supervisor")

ROOT: Final = "the root"
ENDED_LATE: Final = "it has ended at last"


class SupervisorNode:
    """A supervisor in the tree."""

    kind = "supervisor"

    def __init__(self, tree: Tree, policy: Policy, path: tuple[str, ...] = ()) -> None:
        self.tree = tree
        self.path = path
        self._policy = policy
        self._children: dict[str, Child] = {}
        self._facts: dict[str, ChildFacts] = {}
        self._restarts: tuple[float, ...] = ()
        self._busy = False
        self._stopping = False
        self._winding_down = False
        self._delayed_endings: deque[Child] = deque()
        self._end: Slot[BaseException | None] = Slot()

    @in_brackets
    def __repr__(self) -> str:
        return self.summary

    @property
    def summary(self) -> str:
        """Path and state of the supervisor, and the number of its children, as text."""
        state = f"{'/' + '/'.join(self.path)!r} {self._state}"
        return listed(state, some(len(self._children), "child", "children"))

    @property
    def _state(self) -> str:
        return "stopping" if self._stopping or self.tree.closing else "running"

    @property
    def children(self) -> Mapping[str, Child]:
        """The children of the supervisor, in the order of their start."""
        return self._children

    # Called by the parent supervisor

    async def run(self, ready: Callable[[], None]) -> None:
        """Restart the children that it had, then run until it fails or is stopped."""
        self._end = Slot()
        self._restarts = ()
        self._delayed_endings = deque()
        self._busy, self._stopping = True, self._winding_down  # children that end meanwhile are dealt with afterwards
        for child in list(self._children.values()):
            if child.facts.restart == "temporary":
                self._forget(child, None)
        failed = await self._start_again(tuple(self._children), "its supervisor was started again")
        if failed is not None:
            await self.rest()
            raise SupervisorFailed(self.path[-1], described(failed))
        ready()
        self._go_on()
        error = await self._end.wait()
        if error is not None:
            raise SupervisorFailed(self.path[-1], described(error)) from error

    def broke(self, cause: str) -> None:
        """No-op: each child records the crash itself."""

    async def wind_down(self) -> None:
        """Stop the children for good, the youngest first."""
        self._stopping = self._winding_down = True
        for child in reversed(list(self._children.values())):
            if self.tree.closing and self.tree.parks and isinstance(child.runner, SessionRunner):
                await self.park(child)
            else:
                await self.stop(child)
        self._end.settle(None)

    async def rest(self) -> None:
        """Stop the children, the youngest first, so that they can be started again."""
        self._stopping = True
        for child in reversed(list(self._children.values())):
            await self._halt(child)

    def clean_up(self, error: BaseException | None) -> None:
        """Remove all children: there will be no restart."""
        for child in list(self._children.values()):
            self._forget(child, error)

    def view(self, entry: ChildView) -> ChildView:
        """Return *entry* with the children."""
        return entry.but(children=tuple(child.view() for child in self._children.values()))

    def tree_view(self) -> ChildView:
        """Return the supervisor's entry in `tree()`, with everything under it."""
        return self.view(ChildView(self.path[-1] if self.path else "", self.kind, self._state, "permanent"))

    # Starting

    def check(self, name: str) -> None:
        """Raise an error if a child called *name* cannot be started here."""
        self.check_open(name)
        if name in self._children:
            raise UsageError("child-exists", name)

    def check_open(self, name: str) -> None:
        """Raise `SupervisorClosed` if the supervisor is closing and starts nothing any more."""
        if self.tree.closing or self._stopping:
            raise SupervisorClosed(name)

    def adopt(self, child: Child) -> None:
        """Add *child* to the children and start it, without waiting until it is ready."""
        self._children[child.key] = child
        self._facts[child.key] = child.facts
        self._begin(child, 0.0)

    async def start(self, child: Child) -> None:
        """Start *child* and wait until it is ready, even if it is restarted first; raise if it is removed before."""
        self.check(child.key)
        self.adopt(child)
        try:
            error = await child.first_ready.wait()
        except trio.Cancelled:
            # Shielded: a cancelled caller has to stop the child first, because nobody else knows of it:
            # tests/runtime/test_cut_anywhere.py::test_a_service_that_is_started
            with trio.CancelScope(shield=True):
                await self.stop(child)
            raise
        if error is not None:
            raise error

    def _begin(self, child: Child, pause: float) -> None:
        """Start one run of *child* in a task of its own, after a *pause*."""
        name = f"{child.runner.kind} {'/'.join((*self.path, child.key))}"
        self.tree.shared.nursery.start_soon(self._run_child, child, pause, name=name)

    async def _run_child(self, child: Child, pause: float) -> None:
        """Body of a child's task; exceptions are handled here, except those that must end the process."""
        error: BaseException | None = None
        try:
            with child.scope:
                if pause:
                    child.state = ChildState.WAITING
                    await trio.sleep(pause)
                    child.state = ChildState.STARTING
                if child.start_timeout != math.inf:
                    child.scope.deadline = self.tree.shared.clock.deadline_in(child.start_timeout)
                await child.runner.run(child.mark_ready)
        except BaseException as crash:  # noqa: ASYNC103 - what is ours is raised again
            # Its scope is shielded: a `Cancelled` that a service kept from elsewhere is a crash as any other.
            # tests/runtime/test_tree.py::test_a_service_that_raises_a_cancellation_that_it_kept_is_started_again
            passing = split(crash)[0]
            if passing is not None:
                child.mark_ended()
                child.runner.clean_up(crash)
                raise
            error = crash
        if (
            error is None
            and child.state is ChildState.STARTING
            and child.scope.cancelled_caught
            and not child.stop_requested
        ):
            error = StartTooSlow(child.key, child.start_timeout)
        if error is None and child.scope.cancelled_caught and isinstance(child.runner, SessionRunner):
            error = child.runner.fenced_by
        child.error, error = error, None  # its traceback holds this frame
        self._on_end(child, child.error)

    # When a child has ended

    def _on_end(self, child: Child, error: BaseException | None) -> None:
        runner = child.runner
        if (
            error is None
            and not child.stop_requested
            and isinstance(runner, SessionRunner)
            and (runner.session.is_asleep or runner.session.rests)
        ):
            if runner.session.is_asleep:
                child.mark_ended(ChildState.ASLEEP)
            else:
                child.rest()
            runner.session.mailbox.wake_callback = WakeCallback(self, child)
            if runner.fenced_by is not None:  # in the very pass in which the task ended
                self.wake(child)
            return
        is_stuck, has_not_started = child.state is ChildState.STUCK, failed_to_start(child, error)
        child.is_reported = has_not_started
        child.mark_ended()
        child.run_ready.settle(NotReady(child.key) if child.stop_requested else error)  # however it is dealt with below
        if isinstance(error, CommitUnknown) and child.stop_requested:
            # Whoever stops the child goes on, but nobody may write any more:
            # tests/runtime/test_tree.py::test_an_uncertain_commit_of_a_session_that_is_stopped_ends_the_whole_tree
            self._fail(child, error)
        elif child.stop_requested and child.is_leaving:
            self._forget(child, error)  # before anyone wakes who would start it again with its siblings
        elif child.stop_requested:
            halted = is_stuck and self._children.get(child.key) is child
            if halted and self._busy:
                self._delayed_endings.append(child)
            elif halted and not self._stopping and not self.tree.closing:
                self._begin_again(child, ENDED_LATE, 0.0)
        elif has_not_started or self._winding_down or self.tree.closing:
            self._forget(child, error)
        elif (self._busy or self._stopping) and not is_final(child.facts, ending_of(child, error)):
            # A supervisor that rests starts it with the others, when it is run again.
            self._delayed_endings.append(child)
        else:
            self._apply_rules(child, error)

    def _apply_rules(self, child: Child, error: BaseException | None) -> None:
        """Apply the supervision rules to the end of *child*."""
        runner = child.runner if isinstance(child.runner, SessionRunner) else None
        ending = ending_of(child, error)
        now, chance = self.tree.shared.clock.now(), self.tree.shared.random.random()
        decided = decide(self._policy, self._facts, self._restarts, child.key, ending, now=now, chance=chance)
        self._restarts = decided.restarts
        if error is not None and not decided.fails:
            self._report(child, error, _outcome(decided))
        if decided.drops_input and runner is not None:
            runner.session.drop_input()
        if decided.facts is not None:
            child.facts = self._facts[child.key] = decided.facts
        if decided.fails:
            self._fail(child, error)
        elif decided.facts is None:
            self._forget(child, error)
        elif decided.quarantine and runner is not None and error is not None:
            del self._facts[child.key]
            child.reset_for_run()
            child.state = ChildState.STOPPING
            kind = ending.input.partition(" ")[0] if decided.same_input else ""
            self.tree.shared.nursery.start_soon(self._quarantine, child, runner, kind, error)
        elif decided.stop or decided.start != (child.key,):
            self._busy = True
            self.tree.shared.nursery.start_soon(self._regroup, decided, error)
        else:
            self._begin_again(child, "it ended" if error is None else described(error), decided.pause)

    def _fail(self, child: Child, error: BaseException | None) -> None:
        """Stop all children and fail, because of how *child* has ended."""
        if error is not None:
            self._report(child, error, "failed")
        self._busy = True
        self.tree.shared.nursery.start_soon(self._give_up, error or UsageError("ended-too-often", child.key))

    def _begin_again(self, child: Child, cause: str, pause: float) -> None:
        self._report_if_new(child, "restarted")
        child.reset_for_run()
        child.restarts += 1
        child.runner.broke(cause)
        self._begin(child, pause)

    def wake(self, child: Child) -> None:
        """Give a session a task that sleeps, or rests, because a letter came; one that ended by that letter is down."""
        if isinstance(child.runner, SessionRunner):
            child.runner.session.mailbox.wake_callback = None  # later letters need not wake it
            if child.rests and child.runner.session.has_ended_at_rest:
                self._on_end(child, None)  # as its task would do, which costs as much as a whole step
                return
        if child.rests:
            child.rests, child.scope = False, trio.CancelScope(shield=True)
        else:
            child.reset_for_run()
        when_finite(self.tree.shared.timers, child.key, partial(self._begin, child, 0.0))

    async def _start_again(self, keys: Sequence[str], cause: str) -> BaseException | None:
        """Restart the children *keys* that are down, in this order; other endings have to wait meanwhile.

        Wait for each until it is ready, or is stopped. If one crashes before, return its error, and start no other.
        """
        for key in keys:
            child = self._children.get(key)
            if child is None or child.state is not ChildState.DOWN:  # removed, or started, while another one got ready
                continue
            if self._stopping:
                break
            self._begin_again(child, cause, 0.0)
            error = await child.run_ready.wait()
            ended = self._children.get(key)
            if error is not None and ended is not None and ended is child and ended.state is ChildState.DOWN:
                return error
        return None

    async def _regroup(self, decided: RestartDecision, error: BaseException | None) -> None:
        """Stop children, youngest first, restart them, oldest first, until one fails; then handle delayed endings."""
        cause = "it ended" if error is None else described(error)
        for key in decided.stop:
            if key in self._children:  # it may have been removed while another one was stopped
                await self._halt(self._children[key])
        for key in decided.forget:
            if key in self._children:
                self._forget(self._children[key], None)
        await self._start_again(decided.start, cause)
        self._go_on()

    def _go_on(self) -> None:
        """Handle the endings that had to wait, and those that come from now on; none once the supervisor stops."""
        self._busy = False
        while self._delayed_endings and not self._busy and not self._stopping:
            child = self._delayed_endings.popleft()
            if child.state is not ChildState.DOWN or self._children.get(child.key) is not child:
                continue
            if child.stop_requested:
                self._begin_again(child, ENDED_LATE, 0.0)
            else:
                self._apply_rules(child, child.error)

    async def _quarantine(self, child: Child, runner: SessionRunner, kind: str, error: BaseException) -> None:
        """Quarantine a session: it is not restarted, but can be read. If the journal fails, this is only logged."""
        try:
            with child.scope:
                child.scope.deadline = self.tree.shared.clock.deadline_in(child.shutdown)
                await runner.session.quarantine(described(error), kind)
        except Exception as problem:  # noqa: BLE001 - whatever broke the actor may break this too
            log.error("that session %s is set aside could not be written: %s", child.key, traced(problem))
        child.mark_ended(ChildState.QUARANTINED)
        runner.clean_up(error)
        self.tree.quarantine(child.key, partial(self._forget, child, error))

    async def _give_up(self, error: BaseException) -> None:
        """Stop all children and fail; the supervisor above then decides, and the root's `async with` raises."""
        if isinstance(error, CommitUnknown):  # whether the write happened is unknown: end everything
            self.tree.doom()
            raise error
        await self.rest()
        if self.path:
            self._end.settle(error)
        else:
            raise SupervisorFailed(ROOT, described(error)) from error

    def _report_if_new(self, child: Child, outcome: str) -> None:
        """Report the crash of a child that is dealt with together with others, or was stopped when it crashed."""
        if child.error is not None and not child.is_reported:
            self._report(child, child.error, outcome)

    def _report(self, child: Child, error: BaseException, outcome: str) -> None:
        child.is_reported = True
        path = (*self.path, child.key)
        view = child.view()
        now_ms = self.tree.shared.clock.now_ms()
        report = CrashReport(
            path, child.runner.kind, reason_of(error), outcome, child.restarts, in_hand(child), view.mailbox, now_ms
        )
        self.tree.reports.append(report)
        log.error(
            "%s %s crashed and is %s: %s",
            child.runner.kind,
            "/".join(path),
            outcome,
            traced(error),
            extra={"report": report},
        )

    # Stopping

    async def _halt(self, child: Child) -> None:
        """Stop *child* so that it can be restarted; log its name if it does not end in time."""
        if not child.has_task():
            return
        child.stop_requested = True
        child.state = ChildState.STOPPING
        await child.runner.rest()
        self._cancel(child)
        await self._wait(child)

    def _cancel(self, child: Child) -> None:
        """Cancel the run of *child*; a session that rests gets a task, which ends it."""
        if child.rests:
            self.wake(child)
        child.scope.cancel()

    async def park(self, child: Child) -> None:
        """Stop a session without ending it: it can be resumed from its journal, with its work under way."""
        if isinstance(child.runner, SessionRunner):
            child.runner.session.parked = True
        await self._halt(child)
        self._forget(child, child.error)

    async def stop_for_caller(self, child: Child) -> None:
        """Stop *child* for good, as `stop` does; if the caller is cancelled meanwhile, that goes on without them."""
        stopped: Slot[None] = Slot()
        self.tree.shared.nursery.start_soon(self._stop_and_tell, child, stopped, name=f"stop {child.key}")
        await stopped.wait()

    async def _stop_and_tell(self, child: Child, stopped: Slot[None]) -> None:
        try:
            await self.stop(child)
        finally:
            stopped.settle(None)

    async def stop(self, child: Child) -> None:
        """Stop *child* for good, by cancelling it if it takes too long; log its name if it still runs."""
        child.is_leaving = True
        if child.state is ChildState.ASLEEP:
            self.wake(child)
            await child.run_ready.wait()
        if child.has_task():
            child.stop_requested = True
            if child.state is ChildState.RUNNING:
                child.state = ChildState.STOPPING
                with trio.move_on_after(child.shutdown):
                    await child.runner.wind_down()
                    if isinstance(child.runner, SessionRunner | SupervisorNode):
                        await child.wait_ended()
                if child.has_task() and child.runner.kind == "session":
                    log.warning("session %s did not stop in time and is cancelled", child.key)
            elif isinstance(child.runner, SupervisorNode):  # it is being started again, or rests
                await child.runner.wind_down()
            self._cancel(child)
            await self._wait(child)
        self._forget(child, child.error)

    async def _wait(self, child: Child) -> None:
        with trio.move_on_after(child.shutdown):
            await child.wait_ended()
        if child.has_task():
            child.state = ChildState.STUCK
            child.run_ready.settle(NotReady(child.key))  # its siblings do not wait for one that may never end
            name = "/".join((*self.path, child.key))
            log.warning("%s %s ignores its cancellation and is left behind", child.runner.kind, name)

    def _forget(self, child: Child, error: BaseException | None) -> None:
        """Remove *child*: it will not be restarted."""
        if self._children.get(child.key) is child:  # another one of its name may have been started since
            self._report_if_new(child, "given_up")
            del self._children[child.key]
            if child.has_task():
                child.cancel()  # it was asleep when its siblings were stopped, and a message has woken it since
            if not child.first_ready.settled:
                child.first_ready.settle(error or NotReady(child.key))
            self._facts.pop(child.key, None)
            if isinstance(child.runner, SessionRunner):
                self.tree.forget(child.key)
            child.runner.clean_up(error)
            child.error = None  # the frames of its traceback hold the child
            if isinstance(child.runner, SessionRunner):
                child.runner.forget()


def _outcome(decided: RestartDecision) -> str:
    """Return what is done about a crash, as its report says it."""
    if decided.quarantine:
        return "set_aside"
    if decided.drops_input:
        return "input_set_aside"
    return "given_up" if decided.facts is None else "restarted"


def ending_of(child: Child, error: BaseException | None) -> Ending:
    """Return how the run of *child* has ended, as the rules see it; *error* is `None` if it returned."""
    letter = in_hand(child)
    return Ending(
        error is not None,
        "" if letter == "SessionWoke 0" else letter,  # each waking has a new letter, without a number
        isinstance(child.runner, SessionRunner) and child.runner.session.can_drop_input,
        isinstance(error, Fenced),
        isinstance(error, CommitUnknown),
    )


def in_hand(child: Child) -> str:
    """Return the letter that a session was handling; empty if it was not handling one, or *child* is no session."""
    return child.runner.session.in_hand if isinstance(child.runner, SessionRunner) else ""

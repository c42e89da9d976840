"""Checks sessions at moments at which all tasks wait.

The work that runs and the timers that are set must be those in the session's records. No letter may lie unread, and no
sub-agent that was stopped may go on.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Final

import trio
from trio.testing import wait_all_tasks_blocked

from agentrail.api.session_values import ChildView
from agentrail.app.supervisor import Supervisor
from agentrail.core.vocabulary.effects import StartCall
from agentrail.core.vocabulary.state import Phase, State
from agentrail.runtime.actor.effect_runner import LOOK_AGAIN
from agentrail.runtime.actor.session import Session
from agentrail.testing.simulator.auditor import Book
from agentrail.testing.simulator.environment import Environment
from agentrail.testing.simulator.faulty_parts import TASK_TOOL

PAUSE: Final = 0.41
"""Seconds between two looks."""

FEWER: Final = 200
"""After how many looks the pauses get a hundred times as long; only a clock that was set back makes a life so long."""

ROUNDED: Final = 2
"""Milliseconds by which a timer may fire late, because times are rounded."""


class LivenessCheck:
    """Compares all sessions with their records from time to time, when all tasks wait for time to pass."""

    def __init__(self, environment: Environment, supervisor: Supervisor) -> None:
        self._environment = environment
        self._supervisor = supervisor
        self._goes_on: set[str] = set()

    async def run(self) -> None:
        """Check all sessions again and again until the life ends."""
        for looks in count():
            await trio.sleep(PAUSE if looks < FEWER else 100 * PAUSE)
            await wait_all_tasks_blocked()
            self.look()

    def look(self) -> None:
        """Check every session, except those that are starting, ended, or at work on a letter."""
        views = {view.name: view for view in _flat(self._supervisor.tree())}
        suspects: set[str] = set()
        for name, session in self._environment.actors.items():
            book, view = self._environment.auditor.book(name), views.get(name)
            state = book.state
            if view is None or state is None or state.is_starting or state.phase is Phase.ENDED:
                continue
            suspects |= self._going_on(book, views)
            # the session may wait for the journal during an outage
            waits = session.in_hand or session.records.outage is not None
            if view.state in ("running", "asleep") and not waits:
                self._look_at(session, book, state, view)
        self._goes_on = suspects

    def _look_at(self, session: Session, book: Book, state: State, view: ChildView) -> None:
        """Check a session that handles no letter now: its mailbox, its timers and its work."""
        name, waits = session.session_id, any(view.mailbox)
        asleep = view.state == "asleep"
        if asleep:
            self._demand(
                not waits and not view.children, "`{}` sleeps, beside {} {}", name, view.mailbox, view.children
            )
        if waits:
            reads = not (asleep or state.asleep or view.suspended)
            self._demand(not reads, "`{}` does nothing, and letters wait: {}", name, view.mailbox)
            return
        self._timers(session, state)
        self._work(session, book)

    def _timers(self, session: Session, state: State) -> None:
        """Check that each timer in *state* is set in the clock and not overdue."""
        name, now = session.session_id, self._environment.watch.time() * 1000
        for timer, due in state.timers:
            is_set = (name, timer) in self._environment.timers
            self._demand(
                is_set, "`{}` waits for the timer `{}`, due in {:.0f} ms, which is not set", name, timer, due - now
            )
            late = due + _extension_ms(session, timer, due)
            self._demand(
                late > now - ROUNDED, "`{}` waits for the timer `{}`, due {:.0f} ms ago", name, timer, now - late
            )

    def _work(self, session: Session, book: Book) -> None:
        """Check that the calls and requests that run are exactly those that run by the records."""
        name, environment, out = session.session_id, self._environment, book.out
        begins = f"{name}/"
        runs = {
            key.removeprefix(begins) for key, count in environment.running.items() if count and key.startswith(begins)
        }
        self._demand(
            runs <= {*out.calls, *out.asks}, "of `{}` run {}, and only {} are to", name, sorted(runs), [*out.calls]
        )
        calls = {call_id for call_id in out.live_calls if _is_seen(out.calls[call_id].start)}
        self._demand(calls <= runs, "of `{}` {} are said to run, and do not", name, sorted(calls - runs))
        requests = {request_id for request_id in out.live_requests if not environment.asking[name, request_id]}
        spending = None if session.is_asleep else session.effect_runner.spending
        if requests and spending is not None and spending.purse.queue.waiting_of(name):
            runs_beside = any(not reservation.ended for reservation in spending.purse.pending)
            self._demand(runs_beside, "a request of `{}` waits near a limit, and no other is under way", name)
        else:
            names_ = sorted(requests)
            self._demand(not requests, "of `{}` the requests {} are said to be out, and are not", name, names_)

    def _going_on(self, book: Book, views: dict[str, ChildView]) -> set[str]:
        """Return the sub-agents that run although they were stopped; report those that did at the last check too."""
        children: set[str] = set()
        for child, agent in book.out.agents.items():
            call = book.out.calls.get(agent.call_id)
            stopped = agent.cancelled or (call is not None and call.cancelled and not agent.background)
            view = views.get(child)
            if stopped and view is not None and view.state == "running":
                children.add(child)
        for child in sorted(children & self._goes_on):
            self._demand(False, "the task of `{}` was stopped, and it goes on", child)
        return children

    def _demand(self, holds: bool, text: str, *about: object) -> None:
        self._environment.demand(holds, "alive", text, *about)


def _extension_ms(session: Session, timer: str, due_at_ms: int) -> float:
    """Return the extension of *timer*, in ms: the time limit of a sub-agent's call stops while its requests wait."""
    if session.is_asleep:
        return 0.0
    due = session.shared.clock.trio_time(due_at_ms)
    extension = session.effect_runner.later(timer, due) - due
    return 1000 * (extension + LOOK_AGAIN) if extension else 0.0


def _is_seen(start: object) -> bool:
    """Return whether *start* is of a simulated tool, which notes when it runs; the task tool does not."""
    return isinstance(start, StartCall) and start.name != TASK_TOOL


def _flat(view: ChildView) -> Iterator[ChildView]:
    yield view
    for child in view.children:
        yield from _flat(child)

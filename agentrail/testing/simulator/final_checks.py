"""Checks at the end of each life of the process: crashes and restarts, sessions at rest, and the order of stops."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

import trio

from agentrail.api.session_values import ChildView
from agentrail.app.supervisor import Supervisor
from agentrail.core.supervision_rules import SAME_INPUT, Strategy
from agentrail.errors import SessionAsleep
from agentrail.runtime.diagnosis.crash_reports import CrashReport
from agentrail.runtime.handle import SessionHandle
from agentrail.testing.simulator.auditor import is_same
from agentrail.testing.simulator.callers import DOINGS, SimulatedCaller
from agentrail.testing.simulator.environment import Environment
from agentrail.testing.simulator.outage_rules import check_outages

REST: Final = 60.0
"""Seconds within which every session must come to rest after the faults have stopped, if no clock was set back."""

QUIET: Final = 5.0
"""Seconds for which sessions at rest are watched; longer than any of them waits before it goes to sleep."""

OVERDUE: Final = 5000
"""By how many milliseconds a timer of a session at rest may be overdue."""

ON_PURPOSE: Final[Mapping[str, tuple[str, ...]]] = {
    "BrokenOnPurposeError": ("actor_breaks", "actor_breaks_behind", "effect_breaks", "message_poisoned"),
    "BrokenJournal": ("journal_breaks", "journal_breaks_behind"),
    "CommitUnknown": ("commit_unknown", "commit_unknown_kept", "process_dies"),
    "Fenced": ("fenced",),
}
"""The errors by which a session may crash, each with the faults that cause it; one of them must have fired."""

NEAR: Final = 5
"""Milliseconds around the edge of a restart period. A crash so near the edge may count or not.

Then what was done about the last crash is not judged.
"""


class Intensity(Protocol):
    """The restart policy of a supervisor: its strategy, and how many restarts it allows within a period."""

    strategy: Strategy
    max_restarts: int
    period: float


def check_reports(environment: Environment, policy: Intensity, supervisor: Supervisor) -> None:
    """Check every crash report: its cause must be a fault that fired, and the restart what the policy demands."""
    crashes: dict[str, list[CrashReport]] = {}
    check_outages(environment, supervisor)
    for report in supervisor.crashes():
        name = report.path[-1]
        kind = report.reason.kind
        environment.auditor.book(name).crashed = True
        is_expected = any(environment.chaos.counts[fault] for fault in ON_PURPOSE.get(kind, ()))
        environment.demand(
            is_expected, "crashes", "`{}` crashed: {}, {}", name, report.reason.text, report.reason.where
        )
        mine = kind != "Fenced" or report.done == "given_up"
        environment.demand(mine, "restarts", "`{}`, which another owner has claimed, is {}", name, report.done)
        reports = crashes.setdefault(name, [])
        if report.kind == "session" and report.done in ("restarted", "set_aside"):
            reports.append(report)
        elif report.done == "input_set_aside":
            same_input = bool(reports) and reports[-1].input == report.input
            environment.demand(same_input, "restarts", "`{}` put `{}` aside at its first crash", name, report.input)
            del reports[-1:]  # the first crash on that input does not count
    if policy.strategy == "one_for_one" and len(supervisor.crashes()) < 100:  # noqa: PLR2004 - a supervisor keeps 100
        for name, reports in crashes.items():
            for index in range(len(reports)):
                _check_restart(environment, policy, name, reports[: index + 1])


def _check_restart(environment: Environment, policy: Intensity, name: str, reports: Sequence[CrashReport]) -> None:
    """Check the reaction to the last crash in *reports*: after too many crashes quarantine, otherwise a restart."""
    last = reports[-1]
    ago = [last.at - report.at for report in reports]
    edge = policy.period * 1000
    if any(abs(age - edge) < NEAR for age in ago):
        return
    often = sum(1 for age in ago if age <= edge) > policy.max_restarts
    inputs = [report.input for report in reports[-SAME_INPUT:]]
    same = len(inputs) == SAME_INPUT and bool(last.input) and set(inputs) == {last.input}
    expected = "set_aside" if often or same else "restarted"
    text = f"`{name}` is {last.done} after its crashes {ago} ms ago, on {inputs}"
    environment.demand(last.done == expected, "restarts", text)


def begin_to_close(environment: Environment, supervisor: Supervisor) -> None:
    """Store the order of the supervisor's children when it begins to close, for `check_order`."""
    environment.closing = [child.name for child in supervisor.tree().children]
    environment.ending.clear()
    environment.down.clear()


def check_order(environment: Environment) -> None:
    """Check that the closing supervisor ended its children from the youngest to the oldest.

    A child that crashes or ends by itself, while the supervisor waits for a younger one, does not count.
    """
    ended = [name for name in environment.down if name in environment.closing]
    expected = [name for name in reversed(environment.closing) if name in ended]
    environment.demand(ended == expected, "order", "{} have gone in the order {}", environment.closing, ended)
    environment.closing = []


async def comes_to_rest(environment: Environment, supervisor: Supervisor, quiet: Callable[[], bool]) -> None:
    """Decide held calls and questions until all sessions rest and *quiet* is true; check that this happens in time."""
    janitor = SimulatedCaller(environment, "janitor")
    began = trio.current_time()
    longest = REST + environment.watch.behind
    with trio.move_on_after(longest) as scope:
        while not (await _all_rest(supervisor, janitor) and quiet()):  # noqa: ASYNC110 - no event says that it rests
            await trio.sleep(0.1 if trio.current_time() < began + REST else REST)
    if scope.cancelled_caught:
        stuck = [f"{handle.id}: {handle.status()}" for handle in _living(supervisor) if _busy(handle)]
        environment.demand(False, "rest", "after {:g} s: callers wait: {}; {}", longest, not quiet(), stuck)
        return
    await trio.sleep(1)
    for handle in _living(supervisor):
        _check_idle(environment, supervisor, handle)
    await _stays_quiet(environment, supervisor)


async def _stays_quiet(environment: Environment, supervisor: Supervisor) -> None:
    """Check that each resting session writes at most one record within `QUIET`, and one for each late answer.

    The one is for falling asleep.
    """
    books = [environment.auditor.book(handle.id) for handle in _living(supervisor, "asleep")]
    limits = {book.session_id: book.records + 1 + book.out.late_answers for book in books}
    await trio.sleep(QUIET)
    for name, limit in limits.items():
        more = environment.auditor.book(name).records - limit
        text = "`{}` has written {} records too many in {:g} s, without any call"
        environment.demand(more <= 0, "quiet", text, name, more, QUIET)


def _living(supervisor: Supervisor, *also: str) -> list[SessionHandle]:
    states = {child.name: child.state for child in supervisor.tree().children}
    return [handle for handle in supervisor.sessions() if states.get(handle.id) in ("running", *also)]


def _busy(handle: SessionHandle) -> bool:
    status = handle.status()
    at_work = status.phase not in ("idle", "ended") or status.turn_open
    return at_work or bool(status.queued or status.lingering or status.quarantined)


async def _all_rest(supervisor: Supervisor, janitor: SimulatedCaller) -> bool:
    return all(
        [await _rests(handle, janitor, _view(supervisor, handle.id)) for handle in _living(supervisor, "asleep")]
    )


async def _rests(handle: SessionHandle, janitor: SimulatedCaller, view: ChildView | None) -> bool:
    """Return whether a session rests; to get it there, decide its held calls, and resume it if it is suspended."""
    if view is None:
        return True
    try:
        paused = view.state == "running" and handle.inspect().is_paused
    except SessionAsleep:  # the session is waking up, and waits for the journal
        return False
    if view.suspended or paused:
        await janitor.do(RESUME, handle)
    if handle.status().held:
        await janitor.do(DECIDE, handle)
    return not _busy(handle) and not view.suspended and not any(view.mailbox)


def _check_idle(environment: Environment, supervisor: Supervisor, handle: SessionHandle) -> None:
    book, state = environment.auditor.book(handle.id), handle.inspect()
    if state.turn is not None or _busy(handle):
        return
    view = _view(supervisor, handle.id)
    environment.demand(view is None or not any(view.mailbox), "idle", "`{}` is at rest, and letters wait", handle.id)
    environment.demand(is_same(state, book.state), "visible", "`{}` is not what its records tell", handle.id)
    now = environment.watch.time() * 1000
    late = [timer for timer, due in state.timers if due < now - OVERDUE]
    environment.demand(not late, "idle", "`{}` waits for timers that never fire: {}", handle.id, late)
    leaving = {detached.call_id for detached in (*state.lingering_calls, *state.quarantined_calls)}
    alive = {
        key.partition("/")[2] for key, count in environment.running.items() if count and key.startswith(f"{handle.id}/")
    }
    environment.demand(alive <= leaving, "idle", "`{}` is at rest, and tools run: {}", handle.id, alive - leaving)


def _view(supervisor: Supervisor, name: str) -> ChildView | None:
    return next((child for child in supervisor.tree().children if child.name == name), None)


DECIDE: Final = next(doing for doing in DOINGS if doing.name == "decide")
RESUME: Final = next(doing for doing in DOINGS if doing.name == "resume")

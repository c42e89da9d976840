"""`backtest`: asks other plugins beside the recorded rulings of sessions that happened."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from os import PathLike, fspath
from types import MappingProxyType
from typing import Final, Literal

from agentrail.adapters.system import core_count
from agentrail.errors import UsageError
from agentrail.hooks.plugin import Attachable
from agentrail.insight.session_backtest import SessionBackTest
from agentrail.values.argument_checks import checked
from agentrail.what_if.back_test import BackTest
from agentrail.what_if.candidates import Candidate, Options, PluginsOf
from agentrail.what_if.recorded_sessions import SessionSource, open_sessions, stored_in
from agentrail.what_if.tested_session import tested_session
from agentrail.what_if.worker_processes import can_send, run_workers

NO_OPTIONS: Final[Options] = MappingProxyType({})

WORTH_A_PROCESS: Final = 16
"""How many sessions are worth a process more."""

BEYOND: Final = ("stop", "as recorded")
"""What happens behind the first ruling that differs."""


class BackTestProgress:
    """How far a back-test is; `stop` ends it, and what is done is kept."""

    @checked
    def __init__(self, show: Callable[[BackTestProgress], None] | None = None) -> None:
        self.total = 0
        """Number of sessions that there are."""
        self.done = 0
        """Number of sessions that are done."""
        self.part = 0
        """Number of these in which the candidate does something else."""
        self.stopped = False
        """Whether it ends early."""
        self._show = show
        """Called when a session is done."""

    def stop(self) -> None:
        """Begin no more sessions."""
        self.stopped = True

    def note(self, session: SessionBackTest) -> None:
        """Count a session that is done."""
        self.done += 1
        self.part += bool(session.parts)
        if self._show is not None:
            self._show(self)


@checked
async def backtest(
    sessions: SessionSource,
    plugins: Sequence[Attachable] | PluginsOf | None = None,
    *,
    options: Options = NO_OPTIONS,
    only: Iterable[str] | None = None,
    beyond: Literal["stop", "as recorded"] = "stop",
    at_once: int | None = None,
    progress: BackTestProgress | None = None,
) -> BackTest:
    """Return where *plugins* would have ruled otherwise in *sessions*, exactly up to the first such ruling of each.

    *sessions* are those of a journal, of the file of one or of an export, of a supervisor that runs, or their records;
    with *only*, those of these ids. *plugins* take the place of those that a session had, or a function returns them
    for each session; without, each session keeps its own, and *options* change some by plugin and name. With *beyond*
    as `as recorded`, each session goes on behind its first difference with what was recorded, and says that it guesses.
    *at_once* processes test the sessions of a file, by default as many as there are cores, if there are many sessions.
    Nothing is run: no tool, no model, no service.
    """
    if beyond not in BEYOND:
        raise UsageError("bad-beyond", beyond)
    if at_once is not None and at_once < 1:
        raise UsageError("bad-at-once", at_once)
    candidate = Candidate(plugins, options)
    progress = progress or BackTestProgress()
    outcomes: list[SessionBackTest] = []

    def take(outcome: SessionBackTest) -> bool:
        outcomes.append(outcome)
        progress.note(outcome)
        return not progress.stopped

    async with open_sessions(sessions) as source:
        stored = await stored_in(source, only)
        progress.total = len(stored)
        file = fspath(sessions) if isinstance(sessions, str | PathLike) else None
        count = _process_count(at_once, candidate, file, len(stored))
        is_beyond = beyond == BEYOND[1]
        if file is not None and count > 1:
            await run_workers(candidate, file, stored, take, count, beyond=is_beyond)
        else:
            for summary in stored:
                if not take(await tested_session(candidate, source, summary, beyond=is_beyond)):
                    break
    return BackTest(tuple(sorted(outcomes, key=lambda session: session.session_id)), len(stored) - len(outcomes))


def _process_count(at_once: int | None, candidate: Candidate, file: str | None, sessions: int) -> int:
    """Return in how many processes to test so many sessions; raise if more are wanted than can be."""
    can = file is not None and can_send(candidate)
    if at_once is None:
        return min(core_count(), sessions // WORTH_A_PROCESS) if can else 1
    if at_once > 1 and not can:
        raise UsageError("no-processes")
    return at_once

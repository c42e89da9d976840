"""`backtest`: asks other plugins beside the recorded rulings of sessions that happened."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Literal

import trio

from agentrail.core.vocabulary.state import State
from agentrail.errors import AgentrailError, UsageError
from agentrail.hooks.plugin import Attachable
from agentrail.insight.candidate_row import CandidateRow
from agentrail.insight.session_backtest import SessionBackTest, backtest_session
from agentrail.ports.journal import Record, StoredSession
from agentrail.values.argument_checks import checked
from agentrail.values.untrusted_values import error_text
from agentrail.what_if.candidates import Candidate, NoCodeError, Options, PluginsOf
from agentrail.what_if.recorded_sessions import SessionSource, StoredSessions, open_sessions, records_of, stored_in
from agentrail.what_if.results import BackTest

NO_OPTIONS: Final[Options] = MappingProxyType({})

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


async def backtest(
    sessions: SessionSource,
    plugins: Sequence[Attachable] | PluginsOf | None = None,
    *,
    options: Mapping[str, Mapping[str, object]] = NO_OPTIONS,
    only: Iterable[str] | None = None,
    beyond: Literal["stop", "as recorded"] = "stop",
    progress: BackTestProgress | None = None,
) -> BackTest:
    """Return where *plugins* would have ruled otherwise in *sessions*, exactly up to the first such ruling of each.

    *sessions* are those of a journal, of the file of one or of an export, of a supervisor that runs, or their records;
    with *only*, those of these ids. *plugins* take the place of those that a session had, or a function returns them
    for each session; without, each session keeps its own, and *options* change some by plugin and name. With *beyond*
    as `as recorded`, each session goes on behind its first difference with what was recorded, and says that it guesses.
    Nothing is run: no tool, no model, no service.
    """
    if beyond not in BEYOND:
        raise UsageError("bad-beyond", beyond)
    candidate = Candidate(plugins, options)
    progress = progress or BackTestProgress()
    done: list[SessionBackTest] = []
    async with open_sessions(sessions) as source:
        stored = await stored_in(source, only)
        progress.total = len(stored)
        for summary in stored:
            if progress.stopped:
                break
            outcome = await _tested(candidate, source, summary, beyond=beyond == BEYOND[1])
            done.append(outcome)
            progress.note(outcome)
    return BackTest(tuple(sorted(done, key=lambda session: session.session_id)), len(stored) - len(done))


async def _tested(
    candidate: Candidate, source: StoredSessions, stored: StoredSession, *, beyond: bool
) -> SessionBackTest:
    try:
        records = await records_of(source, stored)
    except AgentrailError as error:  # a damaged session is named, and the others are looked at all the same
        return _skipped(stored.session_id, error_text(error))
    return await trio.to_thread.run_sync(tested, candidate, stored.session_id, records, beyond)


def tested(candidate: Candidate, session_id: str, records: Sequence[Record], beyond: bool) -> SessionBackTest:
    """Return what *candidate* would have done in the session of *records*."""
    inexact: list[str] = []

    def make_row(state: State) -> CandidateRow:
        row, notes = candidate.row_for(state)
        inexact.extend(notes)
        return row

    try:
        outcome = backtest_session(session_id, records, make_row, beyond=beyond)
    except (AgentrailError, NoCodeError) as error:
        return _skipped(session_id, str(error))
    return outcome.but(inexact=tuple(dict.fromkeys([*inexact, *outcome.inexact])))


def _skipped(session_id: str, why: str) -> SessionBackTest:
    return SessionBackTest(session_id, 0, 0, 0, (), (), why)

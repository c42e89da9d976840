"""`tested_session`: tests one stored session with a candidate."""

from __future__ import annotations

from collections.abc import Sequence

import trio

from agentrail.core.vocabulary.state import State
from agentrail.errors import AgentrailError, UsageError
from agentrail.insight.candidate_row import CandidateRow
from agentrail.insight.session_backtest import SessionBackTest, backtest_session
from agentrail.ports.journal import Record, StoredSession
from agentrail.values.untrusted_values import error_text
from agentrail.what_if.candidates import Candidate, NoCodeError
from agentrail.what_if.recorded_sessions import StoredSessions, records_of


async def tested_session(
    candidate: Candidate, source: StoredSessions, stored: StoredSession, *, beyond: bool
) -> SessionBackTest:
    """Return what *candidate* would have done in the session *stored*, whose records *source* has.

    A session that cannot be read or tested is returned with the reason: the others are looked at all the same.
    """
    try:
        records = await records_of(source, stored)
    except AgentrailError as error:
        return skipped(stored.session_id, error_text(error))
    return await trio.to_thread.run_sync(backtest_records, candidate, stored.session_id, records, beyond)


def backtest_records(candidate: Candidate, session_id: str, records: Sequence[Record], beyond: bool) -> SessionBackTest:
    """Return what *candidate* would have done in the session of *records*; for a thread."""
    inexact: list[str] = []
    rows: list[CandidateRow] = []

    def make_row(state: State) -> CandidateRow:
        row, notes = candidate.row_for(state)
        inexact.extend(notes)
        rows.append(row)
        return row

    try:
        outcome = backtest_session(session_id, records, make_row, beyond=beyond)
    except UsageError:  # the candidate is at fault, and not this session
        raise
    except (AgentrailError, NoCodeError) as error:
        return skipped(session_id, str(error))
    problems = [problem for row in rows for problem in row.problems]
    return outcome.but(inexact=tuple(dict.fromkeys([*inexact, *outcome.inexact, *problems])))


def skipped(session_id: str, why: str) -> SessionBackTest:
    """Return the outcome of a session that was not tested."""
    return SessionBackTest(session_id, 0, 0, 0, (), (), why)

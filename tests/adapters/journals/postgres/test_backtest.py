"""What happened is kept by a server: a back-test finds there what it finds elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentrail.insight import BackTest, backtest
from agentrail.journals import PostgresJournal, SqliteJournal
from agentrail.plugins import AnyPlugin
from tests.adapters.journals.postgres.server import needs_postgres
from tests.what_if.stories import Closed, SpendCounter, Turn, sessions_of

pytestmark = [needs_postgres, pytest.mark.long]

TURNS: tuple[Turn, Turn] = ([("look", "a"), ("pay", 600)], [("look", "c"), ("pay", 600)])


def told(outcome: BackTest) -> list[tuple[str, int, str, str, str]]:
    """Return where sessions part, and both sides' sentences; ids of calls are new in each session."""
    parts = [part for session in outcome.sessions for part in session.parts]
    return [(part.session_id, part.record, part.field, part.then.sentence, part.now.sentence) for part in parts]


async def test_sessions_at_a_server_are_tested_as_those_in_a_file(url: str, tmp_path: Path) -> None:
    server, file = PostgresJournal(url), SqliteJournal(tmp_path / "agents.db")
    for journal in (server, file):
        await sessions_of([Closed("b"), SpendCounter(2_000)], *TURNS, count=3, journal=journal)
    same = await backtest(server, [Closed("b"), SpendCounter(2_000)])
    assert (same.counts["sessions"], same.parting) == (3, ())
    for path, most in (("c", 2_000), ("b", 1_000)):
        changed: list[AnyPlugin] = [Closed(path), SpendCounter(most)]
        there, here = [await backtest(journal, changed) for journal in (server, file)]
        assert len(there.parting) == 3
        assert told(there) == told(here) == told(await backtest(url, changed, at_once=2))
    await server.close()
    await file.close()

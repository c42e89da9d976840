"""`agentrail.insight.backtest`: where other plugins would have ruled otherwise in sessions that happened."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Literal, cast

import pytest
from attrs import frozen

from agentrail import Continue, Plugin, SessionSpec, SpecWanted, open_supervisor
from agentrail.errors import BadPlugin, SessionNotStored, UnknownPlugin, UsageError, WrongType
from agentrail.insight import BackTestProgress, SessionBackTest, backtest
from agentrail.journals import MemoryJournal, SqliteJournal, export_session
from agentrail.plugins import BeforeTool, BudgetGuard, Context, Keyed, PermissionPolicy
from agentrail.testing import ScriptedModel, as_test
from agentrail.testing.impure_calls import refusing
from agentrail.what_if.candidates import Candidate
from agentrail.what_if.tested_session import backtest_records
from tests.what_if.stories import Cap, Closed, SpendCounter, records_of, sessions_of

TURNS = ([("look", "a"), ("look", "b")], [("look", "c")])


def where(outcome: SessionBackTest) -> list[tuple[int, str, str]]:
    return [(part.record, part.hook, part.field) for part in outcome.parts]


async def test_the_plugins_of_then_rule_as_they_did() -> None:
    journal = await sessions_of([Closed("b")], *TURNS)
    outcome = await backtest(journal, [Closed("b")])
    assert dict(outcome.counts) == {
        "sessions": 1,
        "part": 0,
        "skipped": 0,
        "remaining": 0,
        "turns": 2,
        "records": 10,
        "rulings": outcome.counts["rulings"],
    }
    assert outcome.table().startswith("1 session, 2 turns, ")


async def test_a_difference_has_both_sides_reasons() -> None:
    journal = await sessions_of([Closed("b")], *TURNS)
    (session,) = (await backtest(journal, [Closed("c")])).sessions
    (part,) = session.parts
    assert (part.turn, part.hook, part.field, part.took_effect) == (1, "before_tool", "verdict", part.record)
    assert "blocked by `Closed`: b is closed" in part.then.sentence
    assert part.now.sentence.startswith("it went on")
    assert part.question is not None
    assert not part.guess


async def test_nothing_is_run_written_or_asked() -> None:
    journal = await sessions_of([Closed("b")], *TURNS)
    records, refused = await records_of(journal), list[str]()
    candidate = Candidate([Closed("c"), SpendCounter(3)], {})
    outcome = refusing(lambda: backtest_records(candidate, "s1", records, beyond=True), refused)
    assert outcome.parts
    assert refused == []


async def test_behind_a_difference_it_guesses() -> None:
    journal = await sessions_of([], *TURNS)
    stopped = (await backtest(journal, [Closed("a"), Keyed("too", Closed("c"))])).sessions[0]
    beyond = (await backtest(journal, [Closed("a"), Keyed("too", Closed("c"))], beyond="as recorded")).sessions[0]
    assert [part.guess for part in stopped.parts] == [False]
    assert [(part.turn, part.guess) for part in beyond.parts] == [(1, False), (2, True)]
    assert beyond.parts[0] == stopped.parts[0]
    assert beyond.records > stopped.records


async def test_options_change_the_plugins_that_a_session_had() -> None:
    journal = await sessions_of([BudgetGuard(max_rounds=10), PermissionPolicy(allow=("look",))], *TURNS)
    assert not (await backtest(journal, options={"BudgetGuard": {"max_rounds": 5}})).parting
    (session,) = (await backtest(journal, options={"BudgetGuard": {"max_rounds": 2}})).parting
    assert session.parts[0].now.ruling.by == "BudgetGuard"
    assert session.inexact == (
        "the limits of `BudgetGuard` are compared at its hooks alone, and not before each request is sent",
    )


async def test_a_plugin_whose_code_is_not_here_is_told() -> None:
    journal = await sessions_of([Closed(), BudgetGuard(max_rounds=10)], *TURNS)
    outcome = await backtest(journal, options={"BudgetGuard": {"max_rounds": 2}})
    (skipped,) = outcome.inexact
    assert skipped.startswith("its plugin `Closed` is `tests.what_if.stories:Closed`, whose code is not here")
    assert outcome.counts["skipped"] == 1


@frozen
class Failing(Plugin[int]):
    """Fails at each call."""

    def init(self, ctx: Context) -> int:
        return 0

    def before_tool(self, hook: BeforeTool, state: int, ctx: Context) -> Continue[int]:
        raise ValueError(hook.name)


@frozen
class Unable(Plugin[int]):
    """Has no first state."""

    def init(self, ctx: Context) -> int:
        raise ValueError(ctx.session_id)

    def before_tool(self, hook: BeforeTool, state: int, ctx: Context) -> Continue[int]:
        return Continue(state + 1)


async def test_that_a_plugin_fails_is_told() -> None:
    """Else a plugin that never answers would seem to agree."""
    journal = await sessions_of([], *TURNS, count=2)
    assert (await backtest(journal, [Failing(), Unable()])).inexact == {
        "`Unable` made no first state, so no session would begin with it: ValueError: s1": 1,
        "`Unable` made no first state, so no session would begin with it: ValueError: s2": 1,
        "`Failing` failed in `before_tool`: ValueError: look": 2,
    }


async def test_a_function_says_what_each_session_gets() -> None:
    journal = await sessions_of([Closed("b")], *TURNS, count=2)

    def plugins_of(wanted: SpecWanted) -> list[Closed]:
        return [Closed("b" if wanted.session_id == "s1" else "nothing")]

    assert [session.session_id for session in (await backtest(journal, plugins_of)).parting] == ["s2"]


async def test_sessions_come_from_wherever_they_are(tmp_path: Path) -> None:
    file = tmp_path / "agents.db"
    journal = await sessions_of([], *TURNS, count=2, journal=SqliteJournal(file))
    await export_session(journal, "s1", tmp_path / "s1.jsonl")
    records = await records_of(journal)
    await journal.close()
    expected = (await backtest(records, [Closed()])).sessions[0]
    assert expected.parts
    for sessions in (str(file), file, tmp_path / "s1.jsonl"):
        assert (await backtest(sessions, [Closed()], only=["s1"])).sessions == (expected,)
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(SessionSpec(model=ScriptedModel(["Yes."])), "live")
        await session.ask("Are you there?")
        assert (await backtest(supervisor, [Closed()])).counts["turns"] == 1


async def test_two_public_traps_are_found_in_what_happened() -> None:
    """A counter that is asked before a plugin which replaces the call counts what never runs."""
    journal = await sessions_of([SpendCounter(1_000), Cap(10_000)], [("pay", 600)], [("pay", 300)])
    (session,) = (await backtest(journal, [SpendCounter(500), Cap(100)])).parting
    assert session.parts[0].now.ruling.by == "SpendCounter"  # although `Cap` would have paid 100
    (session,) = (await backtest(journal, [SpendCounter(1_000), Cap(100)])).parting
    (part,) = session.parts
    assert (part.field, part.now.ruling.decisions.args) == ("arguments", {"amount": 100})
    assert "`Cap` replaced the arguments" in part.now.steps[1].sentence


async def test_what_was_redacted_is_not_compared(tmp_path: Path) -> None:
    journal = await sessions_of([], *TURNS, journal=SqliteJournal(tmp_path / "agents.db"))
    async with open_supervisor(journal=journal) as supervisor:
        await supervisor.redact("s1", by="desk", first=3)
    outcome = await backtest(tmp_path / "agents.db", [Closed()])
    assert list(outcome.inexact) == ["record 3 is redacted: what was said there is gone"]
    assert outcome.sessions[0].records == 2


async def test_a_stop_keeps_what_is_done() -> None:
    journal = await sessions_of([], *TURNS, count=3)
    progress = BackTestProgress(lambda progress: progress.stop() if progress.done == 2 else None)
    outcome = await backtest(journal, [Closed()], progress=progress)
    assert (len(outcome.sessions), outcome.remaining, progress.part) == (2, 1, 2)
    assert "1 session not looked at: it was stopped" in outcome.table()


@pytest.mark.long
async def test_processes_find_the_same(tmp_path: Path) -> None:
    file = tmp_path / "agents.db"
    journal = await sessions_of([], *TURNS, count=5, journal=SqliteJournal(file))
    await cast("SqliteJournal", journal).close()
    one, two = [await backtest(file, [Closed()], at_once=count) for count in (1, 2)]
    assert one.json() == two.json()
    assert [where(session) for session in one.sessions] == [where(session) for session in two.sessions]
    progress = BackTestProgress(lambda progress: progress.stop())
    stopped = await backtest(file, [Closed()], at_once=2, progress=progress)
    assert 1 <= len(stopped.sessions) < 5
    assert stopped.remaining == 5 - len(stopped.sessions)


async def test_a_difference_becomes_a_test(tmp_path: Path) -> None:
    journal = await sessions_of([], [("pay", 600)], [("pay", 600)])
    (session,) = (await backtest(journal, [SpendCounter(1_000)])).parting
    text = as_test(session.parts[0])
    assert text is not None
    file = tmp_path / "test_it.py"
    file.write_text(text)
    names = runpy.run_path(str(file))
    (name,) = [name for name in names if name.startswith("test_")]
    names[name]()
    names["STATES"]["SpendCounter"] = 0
    with pytest.raises(AssertionError):
        names[name]()


async def test_a_difference_before_a_request_becomes_a_test_with_its_messages(tmp_path: Path) -> None:
    journal = await sessions_of([], *TURNS)
    (session,) = (await backtest(journal, [BudgetGuard(max_rounds=1)])).parting
    (part,) = session.parts
    text = as_test(part)
    assert part.hook == "before_request"
    assert text is not None
    file = tmp_path / "test_it.py"
    file.write_text(text)
    names = runpy.run_path(str(file))
    (name,) = [name for name in names if name.startswith("test_")]
    names[name]()


async def test_the_outcome_is_data() -> None:
    journal = await sessions_of([], *TURNS)
    data = json.loads(json.dumps((await backtest(journal, [Closed()])).json()))
    (session,) = data["sessions"]
    (part,) = session["parts"]
    assert (part["hook"], part["field"], part["then"]["verdict"], part["now"]["verdict"]) == (
        "before_tool",
        "verdict",
        "pass",
        "block",
    )


async def test_what_is_wrong_is_told() -> None:
    journal = MemoryJournal()
    with pytest.raises(UsageError, match="cannot test nothing"):
        await backtest(journal)
    with pytest.raises(UsageError, match="`beyond` is `stop` or `as recorded`"):
        await backtest(journal, [Closed()], beyond=cast("Literal['stop']", "never"))
    with pytest.raises(UsageError, match="`at_once` is a number from 1 on"):
        await backtest(journal, [Closed()], at_once=0)
    with pytest.raises(UsageError, match="in several processes"):
        await backtest(journal, [Closed()], at_once=2)
    with pytest.raises(UnknownPlugin, match="Closed"):
        await backtest(journal, [Closed()], options={"Closd": {}})
    with pytest.raises(UsageError, match="cannot test `Closed` with these options"):
        await backtest(journal, [Closed()], options={"Closed": {"pat": "x"}})
    with pytest.raises(WrongType):
        await backtest(cast("MemoryJournal", 3), [Closed()])
    with pytest.raises(WrongType):
        await backtest(journal, [Closed()], options=cast("dict[str, dict[str, object]]", {"Closed": 3}))
    with pytest.raises(BadPlugin):
        await backtest(journal, [cast("Closed", 3)])
    with pytest.raises(SessionNotStored):
        await backtest(journal, [Closed()], only=["nobody"])
    with pytest.raises(UsageError, match="there is no such file"):
        await backtest("nothing.db", [Closed()])

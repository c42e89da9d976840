"""`experiment`: what it runs, counts, keeps and leaves out."""

from pathlib import Path

import msgspec
import pytest
import trio

from agentrail import SessionSpec, open_supervisor, tool
from agentrail.errors import OutsideError, UsageError
from agentrail.evals import (
    Case,
    Progress,
    RecordedCall,
    Results,
    Run,
    Score,
    ScoredRun,
    Scorer,
    calls_match,
    exact,
    experiment,
    experiments,
    held,
    scorer,
)
from agentrail.events import ApprovalResolved
from agentrail.insight import why
from agentrail.journals import MemoryJournal
from agentrail.models import EmitChunk, ModelRequest, Price, Response, Usage
from agentrail.plugins import HumanApproval
from agentrail.testing import ScriptedModel, call, say, stall
from tests.evals.drawn import Dice, agent, look, rooms
from tests.kit import Element


async def test_each_case_runs_so_often_each_time_in_a_session_of_its_own() -> None:
    journal = MemoryJournal()
    results = await experiment(rooms(3), agent(), [exact, calls_match()], repeats=2, journal=journal, name="trip")
    assert [(run.case, run.repeat, run.session) for run in results.runs] == [
        (f"room-{n}", repeat, f"trip-room-{n}-{repeat}") for n in range(3) for repeat in (1, 2)
    ]
    assert results.mean("exact") == results.mean("calls_match in order") == 1
    assert (results.failed, results.missing, results.stopped, results.usd) == (0, 0, "", 0)
    records = await journal.read("trip-room-1-2", 0, 100)
    assert why(records, 1).entries


async def test_results_come_back_from_their_file(tmp_path: Path) -> None:
    results = await experiment(rooms(2), agent(0.5), [exact], repeats=2)
    results.write(tmp_path / "results.json")
    assert Results.read(tmp_path / "results.json") == results
    (tmp_path / "results.json").write_text("{}")
    with pytest.raises(UsageError, match="cannot read the results in"):
        Results.read(tmp_path / "results.json")


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"runs": (ScoredRun("b", 1, ""),)}, "a run is of the case `b`, which is not among the `cases`"),
        ({"runs": (ScoredRun("a", 1, "", scores={"exact": Score(-1e308)}),)}, "a score of the case `a` is beyond 1e"),
        ({"cases": ("a", "a")}, "two of the `cases` have one name"),
        ({"repeats": 10**30}, "`repeats` is 1000000000000000000000000000000, not 1 to 1000000"),
        ({"repeats": 0}, "`repeats` is 0, not 1 to"),
        ({"format": 2}, "its `format` is 2, and this agentrail reads 1"),
    ],
    ids=str,
)
def test_results_that_no_experiment_writes_are_not_read(wrong: dict[str, object], problem: str, tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    msgspec.structs.replace(Results("try", ("a",), ("exact",), 1, ()), **wrong).write(path)
    with pytest.raises(UsageError, match=problem):
        Results.read(path)
    path.write_text(f'{{"other": {"[" * 100_000}')
    with pytest.raises(UsageError, match="maximum recursion depth"):
        Results.read(path)


class Flaky(Dice):
    """Fails in each third request."""

    async def stream(self, request: ModelRequest, emit: EmitChunk) -> Response:
        response = await super().stream(request, emit)
        if self.requests % 3 == 0:
            raise RuntimeError("the line is dead")
        return response


async def test_a_run_that_fails_is_counted_and_named_and_no_score_of_0() -> None:
    results = await experiment(
        rooms(3), SessionSpec(model=Flaky(1.0), tools=[look], max_retries=0), [exact], repeats=4, at_once=1
    )
    assert 0 < results.failed < 12
    assert results.mean("exact") == 1
    assert len(results.runs) == 12
    assert any("failed: " in line and "the line is dead" in line for line in results.problems())


async def test_an_experiment_whose_runs_all_fail_raises() -> None:
    with pytest.raises(OutsideError, match=r"no run of `dead` came to an end; the first error: .*element"):
        await experiment(rooms(2), SessionSpec(model=ScriptedModel([])), [exact], name="dead")


@scorer
async def broken(run: Run) -> bool:
    raise KeyError(run.reply)


@scorer
async def polite(_: Run) -> Score:
    await trio.lowlevel.checkpoint()
    return Score(0.5, "so so", usd=0.25)


async def test_a_scorer_that_raises_is_an_error_of_that_run_told_apart() -> None:
    results = await experiment(rooms(1), agent(), [broken, polite, exact], repeats=2)
    assert results.failed == 0
    assert results.runs[0].errors == {"broken": "KeyError: 'it is in room 0'"}
    assert results.mean("broken") is None
    assert results.mean("polite") == 0.5
    assert results.usd == 0.5
    assert next(iter(results.problems())) == "room-0 #1: no score of `broken`: KeyError: 'it is in room 0'"


class Priced(Dice):
    """Each request uses a million tokens."""

    async def stream(self, request: ModelRequest, emit: EmitChunk) -> Response:
        return (await super().stream(request, emit)).but(usage=Usage(1_000_000))


async def test_a_budget_that_ends_in_the_middle_loses_nothing_and_says_so() -> None:
    spec = SessionSpec(model=Priced(1.0), tools=[look], prices={"dice": Price(0.1, 0.1)})
    results = await experiment(rooms(3), spec, [exact], repeats=3, at_once=1, max_usd=0.75)
    assert results.stopped == "0.75 USD are spent"
    assert (len(results.runs), results.missing) == (4, 5)
    assert results.usd == pytest.approx(0.8)
    assert [run.case for run in results.runs] == ["room-0", "room-0", "room-1", "room-2"]


async def test_a_cost_that_is_unknown_ends_an_experiment_with_a_limit() -> None:
    spec = SessionSpec(model=Priced(1.0), tools=[look])
    results = await experiment(rooms(2), spec, [exact], at_once=1, max_usd=1)
    assert len(results.runs) == 1
    assert "the cost of a run is unknown" in results.stopped


async def test_what_is_stopped_is_kept_and_goes_on_later() -> None:
    journal, model = MemoryJournal(), Dice(1.0)
    spec = SessionSpec(model=model, tools=[look])
    progress = Progress(lambda progress: progress.stop() if progress.done == 3 else None)
    first = await experiment(rooms(3), spec, [exact], repeats=2, at_once=1, journal=journal, progress=progress)
    assert (first.stopped, len(first.runs), first.missing) == ("interrupted", 3, 3)
    before = model.requests
    second = await experiment(rooms(3), spec, [exact], repeats=2, journal=journal, resume=first)
    assert second.name == first.name
    assert (second.stopped, second.missing) == ("", 0)
    assert {run.session for run in first.runs} < {run.session for run in second.runs}
    assert model.requests - before == 6


async def test_sessions_that_are_done_are_not_run_again_even_if_their_results_are_lost() -> None:
    journal, model = MemoryJournal(), Dice(1.0)
    spec = SessionSpec(model=model, tools=[look])
    results = await experiment(rooms(2), spec, [exact], repeats=1, journal=journal)
    lost = Results(results.name, results.cases, results.scorers, 1, ())
    before = model.requests
    assert (await experiment(rooms(2), spec, [exact], repeats=1, journal=journal, resume=lost)).runs == results.runs
    assert model.requests == before


async def test_a_session_that_is_no_run_is_neither_deleted_nor_scored_whatever_the_results_are_called() -> None:
    journal, spec = MemoryJournal(), SessionSpec(model=Dice(1.0), tools=[look])
    case = Case("one", ("hi",), expected="hi")
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(SessionSpec(model=ScriptedModel([])), "mine-one-1", title="of the user")
        await session.stop()
    hostile = Results("mine", ("one",), ("exact",), 1, ())
    with pytest.raises(OutsideError, match="`mine-one-1` is stored and is no run of an experiment"):
        await experiment([case], spec, [exact], repeats=1, journal=journal, resume=hostile)
    async with open_supervisor(journal=journal) as supervisor:
        assert (await supervisor.state("mine-one-1")).title == "of the user"


@tool
async def refund(order: int) -> str:
    """Give the money back."""
    raise AssertionError(f"a recorded tool never runs: {order}")


async def test_recorded_tools_and_decisions_answer_as_then() -> None:
    script: list[Element] = [
        say(calls=[call("refund", {"order": 17})]),
        say(calls=[call("refund", {"order": 17})]),
        say(calls=[call("refund", {"order": 18})]),
    ]
    case = Case(
        "refund",
        ("My money!",),
        tools="recorded",
        recorded=(
            RecordedCall("refund", {"order": 17}, "paid 17", decision="approved"),
            RecordedCall("refund", {"order": 17}, "again", is_error=True, decision="approved"),
        ),
    )

    def spec(_case: Case) -> SessionSpec:
        return SessionSpec(model=ScriptedModel(script), tools=[refund], plugins=[HumanApproval(("refund",))])

    made: list[tuple[str, bool]] = []
    decided: list[str | None] = []

    @scorer
    def note(run: Run) -> bool:
        made.extend((call.result, call.is_error) for call in run.calls)
        events = [envelope.event for record in run.records for envelope in record.events]
        decided.extend(event.reason or event.status for event in events if isinstance(event, ApprovalResolved))
        return True

    results = await experiment([case], spec, [note, held("refund")], repeats=1)
    assert made == [("paid 17", False), ("again", True)]
    assert decided == ["approved", "approved", "nobody is there to decide: this is an evaluation"]
    assert results.mean("held refund") == 1


async def test_a_call_that_was_never_made_is_a_gap_that_is_told() -> None:
    case = Case("gap", ("room 1",), tools="recorded", recorded=(RecordedCall("look", {"at": "room 2"}, "x"),))
    results = await experiment([case], agent(), [Scorer("any", lambda _: True)], repeats=1)
    assert results.runs[0].unrecorded == ('look({"at": "room 1"})',)
    assert list(results.problems()) == ['gap #1: no recorded answer to look({"at": "room 1"})']


async def test_a_tool_of_then_that_the_agent_lacks_is_told_before_anything_runs() -> None:
    model = Dice(1.0)
    case = Case("gone", ("room 1",), tools="recorded", recorded=(RecordedCall("fly", {}, "x"),))
    with pytest.raises(UsageError, match="the agent has no tool `fly`, which its session called"):
        await experiment([case], SessionSpec(model=model, tools=[look]), [exact])
    assert model.requests == 0
    with pytest.raises(UsageError, match="no tool `fly`, whose answer the case gives"):
        await experiment([Case("fix", ("a",), tools={"fly": "x"})], agent(), [exact])


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"dataset": []}, "there is no case"),
        ({"scorers": []}, "there is no scorer"),
        ({"scorers": [exact, exact]}, "two scorers have one name"),
        ({"scorers": [3]}, "a `int` is no scorer"),
        ({"repeats": 0}, "`repeats` is a number from 1 to 1000000"),
        ({"name": "n" * 64, "dataset": [Case("c" * 56, ("Hi",))]}, "have more than 119 characters together"),
        ({"at_once": 0}, "`at_once` is a number from 1 on"),
        ({"max_usd": 0}, "`max_usd` is an amount above 0"),
        ({"name": "a b"}, "`a b` is no name"),
    ],
)
async def test_arguments_that_cannot_be_used_are_refused(change: dict[str, object], problem: str) -> None:
    usual: dict[str, object] = {"dataset": rooms(1), "spec": agent(), "scorers": [exact]}
    with pytest.raises(UsageError, match=problem):
        await experiment(**usual | change)  # type: ignore[arg-type]


async def test_no_run_begins_once_all_of_a_budget_is_spent() -> None:
    spec = SessionSpec(model=Priced(1.0), tools=[look], prices={"dice": Price(0.125, 0.125)})
    results = await experiment(rooms(3), spec, [exact], repeats=3, at_once=1, max_usd=1.0)
    assert (results.usd, len(results.runs), results.stopped) == (1.0, 4, "1 USD are spent")


def test_the_first_reason_to_stop_is_told() -> None:
    progress = Progress()
    progress.stop("first")
    progress.stop()
    assert progress.stopped == "first"


async def test_results_are_gone_on_with_in_fewer_repetitions_and_what_no_scorer_could_score_is_scored_again() -> None:
    journal, fails = MemoryJournal(), [True]

    @scorer
    def moody(run: Run) -> bool:
        if run.session.endswith("-1") and fails.pop():
            raise ValueError("not now")
        fails.append(False)
        return True

    first = await experiment(rooms(1), agent(), [moody], repeats=3, at_once=1, journal=journal)
    assert [bool(run.errors) for run in first.runs] == [True, False, False]
    second = await experiment(rooms(1), agent(), [moody], repeats=2, journal=journal, resume=first)
    assert [(run.repeat, bool(run.errors)) for run in second.runs] == [(1, False), (2, False)]
    assert second.missing == 0


async def test_a_run_that_was_cut_short_is_made_again() -> None:
    journal, progress = MemoryJournal(), Progress()
    case = Case("two", ("one", "two"), expected="second")

    def stop(_: ModelRequest) -> Element:
        progress.stop()
        return stall()

    cut = SessionSpec(model=ScriptedModel(["first", stop]))
    first = await experiment([case], cut, [exact], repeats=1, journal=journal, progress=progress)
    assert first.missing == 1
    whole = SessionSpec(model=ScriptedModel(["first", "second"]))
    second = await experiment([case], whole, [exact], repeats=1, journal=journal, resume=first)
    assert [run.reply for run in second.runs] == ["second"]


async def test_without_a_journal_no_session_stays_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    journals: list[MemoryJournal] = []

    def made() -> MemoryJournal:
        journals.append(MemoryJournal())
        return journals[-1]

    monkeypatch.setattr(experiments, "MemoryJournal", made)
    results = await experiment(rooms(2), agent(), [exact], repeats=2)
    assert len(results.runs) == 4
    assert await journals[0].sessions() == ()

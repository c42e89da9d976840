"""Cases of real sessions: the turn as it happened, and the session as it was before."""

from pathlib import Path

import pytest
import trio

from agentrail import SessionSpec, open_supervisor, tool
from agentrail.errors import AgentrailError, UsageError
from agentrail.evals import (
    Case,
    CasePast,
    Dataset,
    RecordedCall,
    calls_match,
    contains,
    exact,
    expect,
    experiment,
    text_report,
)
from agentrail.evals.recorded_turns import RecordedTurn
from agentrail.events import ApprovalRequired, ApprovalResolved, Envelope, Event
from agentrail.journals import MemoryJournal, Record, export_session
from agentrail.models import EmitChunk, ModelRequest, Price, Response, Usage, UserMessage
from agentrail.plugins import BudgetGuard, HumanApproval
from agentrail.testing import ScriptedModel, call, say
from tests.evals.drawn import agent
from tests.kit import freeze_object

RUNS: list[int] = []


@tool
async def refund(order: int) -> str:
    """Give the money back."""
    RUNS.append(order)
    return f"paid {order}"


def desk(*script: object, system: str = "Be kind.") -> SessionSpec:
    model = ScriptedModel(script, name="desk-model")  # type: ignore[arg-type]
    return SessionSpec(
        model=model, tools=[refund], plugins=[HumanApproval(("refund",)), BudgetGuard(max_rounds=50)], system=system
    )


async def real_session(journal: MemoryJournal) -> list[Record]:
    """Play a session of three turns; in the second one a person lets a call run, with another order than asked for."""
    spec = desk("Hello Ann.", say(calls=[call("refund", {"order": 71})]), "It is paid.", "Goodbye.")
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(spec, "real")
        await session.ask("I am Ann")
        reply = await session.ask("My money!")
        await session.approve(reply.held[0], {"order": 17})
        await session.ask("Bye")
        return list(await journal.read("real", 0, 100))


async def test_a_turn_of_a_real_session_is_a_case() -> None:
    records = await real_session(MemoryJournal())
    case = Case.of(records, 2)
    recorded = RecordedCall("refund", {"order": 71}, "paid 17", decision="approved", edited={"order": 17})
    assert case == Case(
        "my-money",
        ("I am Ann", "My money!"),
        expected="It is paid.",
        calls=(expect("refund", order=17),),
        tools="recorded",
        recorded=(recorded,),
        source="real:2",
    )


async def test_its_tools_answer_as_then_and_never_run() -> None:
    case = Case.of(await real_session(MemoryJournal()), 2)
    RUNS.clear()
    script = ("Hello.", say(calls=[call("refund", {"order": 71})]), "It is paid.")
    results = await experiment([case], lambda _: desk(*script), [exact, calls_match("exact", "all")], repeats=2)
    assert list(results.problems()) == []
    assert (results.mean("exact"), results.mean("calls_match exact")) == (1, 1)
    assert RUNS == []


async def test_a_case_begins_at_a_record_with_what_was_said_and_the_prompt_of_now(tmp_path: Path) -> None:
    journal = MemoryJournal()
    records = await real_session(journal)
    await export_session(journal, "real", tmp_path / "real.jsonl")
    case = Case.of(records, 3, past="real.jsonl")
    assert case.prompts == ("Bye",)
    assert case.past is not None
    Dataset([case], tmp_path).write(tmp_path / "cases.jsonl")
    spec = desk("Goodbye Ann.", system="Be brief.")
    kept = MemoryJournal()
    results = await experiment(
        Dataset.read(tmp_path / "cases.jsonl"), spec, [contains], repeats=1, journal=kept, name="again"
    )
    assert list(results.problems()) == []
    assert results.runs[0].reply == "Goodbye Ann."
    (request,) = spec.model.requests  # type: ignore[union-attr]
    texts = [message.text for message in request.messages if isinstance(message, UserMessage)]
    assert texts == ["I am Ann", "My money!", "Bye"]
    assert request.system == "Be brief."
    assert {stored.session_id for stored in await kept.sessions()} == {"again-bye-1", "again-bye-past"}


async def test_a_past_that_is_missing_or_too_short_is_told_before_anything_runs(tmp_path: Path) -> None:
    case = Case("lost", ("Hi",), past=CasePast("none.jsonl", 3))
    with pytest.raises(UsageError, match=r"cannot use the case `lost`: its past is not there: .*none.jsonl"):
        await experiment(Dataset([case], tmp_path), agent(), [exact])
    journal = MemoryJournal()
    records = await real_session(journal)
    await export_session(journal, "real", tmp_path / "real.jsonl")
    case = Case("late", ("Hi",), past=CasePast("real.jsonl", 1000))
    with pytest.raises(UsageError, match=rf"after record 1000, and .* has {len(records)}"):
        await experiment(Dataset([case], tmp_path), agent(), [exact])


async def test_a_first_turn_has_no_past_whatever_was_recorded_before() -> None:
    journal = MemoryJournal()
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(desk("Hello.", "Yes?"), "h.local.you.3f2a9c01")
        await session.label(add=["mine"])
        await session.ask("Where is my order?")
        records = await journal.read(session.id, 0, 100)
        case = Case.of(records, 1, past="past.jsonl")
        assert (case.past, case.name) == (None, "where-is-my-order")
        fork = await supervisor.fork(session.id, id="fork")
        await fork.ask("?")
    case = Case.of(await journal.read("fork", 0, 100), 2, past="past.jsonl")
    assert (case.past, case.name) == (CasePast("past.jsonl", 1), "turn-2")


async def test_a_state_of_a_plugin_that_the_agent_lacks_is_left_out_and_that_is_told(tmp_path: Path) -> None:
    journal = MemoryJournal()
    records = await real_session(journal)
    await export_session(journal, "real", tmp_path / "real.jsonl")
    case = Case.of(records, 3, past="real.jsonl")
    spec = SessionSpec(model=ScriptedModel(["Goodbye."] * 2), tools=[refund])
    results = await experiment(Dataset([case], tmp_path), spec, [exact], repeats=2)
    assert (results.mean("exact"), list(results.problems())) == (1, [])
    note = "bye: its past has a state of the plugin `BudgetGuard`, which the agent lacks; it is left out"
    assert results.notes == (note,)
    assert note in text_report(results).splitlines()


async def test_a_past_that_is_torn_is_told_before_anything_runs(tmp_path: Path) -> None:
    journal = MemoryJournal()
    records = await real_session(journal)
    await export_session(journal, "real", tmp_path / "real.jsonl")
    case = Case.of(records, 3, past="real.jsonl")
    torn = (tmp_path / "real.jsonl").read_bytes()[:-40]
    (tmp_path / "real.jsonl").write_bytes(torn)
    kept = MemoryJournal()
    with pytest.raises(AgentrailError, match=r"real\.jsonl"):
        await experiment(Dataset([case], tmp_path), desk("Goodbye."), [exact], journal=kept)
    assert await kept.sessions() == ()


async def test_a_past_in_which_a_tool_was_called_that_the_agent_lacks_goes_on(tmp_path: Path) -> None:
    journal = MemoryJournal()
    records = await real_session(journal)
    await export_session(journal, "real", tmp_path / "real.jsonl")
    case = Case.of(records, 3, past="real.jsonl")
    spec = SessionSpec(model=(model := ScriptedModel(["Goodbye."])), system="Be brief.")
    results = await experiment(Dataset([case], tmp_path), spec, [exact], repeats=1)
    assert (results.mean("exact"), list(results.problems())) == (1, [])
    assert model.requests[0].tools == ()


class Priced:
    """Each request uses a million tokens."""

    name = "priced"

    async def stream(self, request: ModelRequest, emit: EmitChunk) -> Response:
        await trio.lowlevel.checkpoint()
        return say("c").response.but(usage=Usage(1_000_000))


async def test_what_the_past_has_cost_is_no_cost_of_the_run(tmp_path: Path) -> None:
    prices = {"priced": Price(0.5, 0.5)}
    journal = MemoryJournal()
    async with open_supervisor(journal=journal) as supervisor:
        spec = SessionSpec(model=Priced(), prices=prices)
        session = await supervisor.spawn(spec, "real")
        for text in ("one", "two", "three"):
            await session.ask(text)
    records = await journal.read("real", 0, 100)
    await export_session(journal, "real", tmp_path / "real.jsonl")
    case = Case.of(records, 3, past="real.jsonl")
    spec = SessionSpec(model=Priced(), prices=prices)
    results = await experiment(Dataset([case], tmp_path), spec, [exact], repeats=1, max_usd=3)
    assert results.usd == pytest.approx(0.5)


async def test_a_turn_that_is_not_there_is_told() -> None:
    records = await real_session(MemoryJournal())
    with pytest.raises(UsageError, match="the session has no turn 4; its last one is 3"):
        Case.of(records, 4)


@pytest.mark.parametrize(
    ("status", "decision"), [("approved", "approved"), ("rejected", "rejected"), ("timeout", ""), ("aborted", "")]
)
def test_the_end_of_a_hold_is_a_decision_only_if_a_person_made_it(status: str, decision: str) -> None:
    turn = RecordedTurn("My money!", 1)
    events: tuple[Event, ...] = (
        ApprovalRequired("a1", "c1", "refund", freeze_object({}), "", "HumanApproval", 0, None),
        ApprovalResolved("a1", "c1", "refund", status),
    )
    for seq, event in enumerate(events, 1):
        turn.take(Envelope("s", seq, 0, 0, 1, 1, event))
    assert [recorded.decision for recorded in turn.calls] == [decision]

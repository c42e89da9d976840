"""Who asked for a turn: the state knows it, and with four eyes they do not decide about its calls."""

from typing import Final

import pytest
import trio

from agentrail import SessionHandle, SessionSpec, open_supervisor, tool
from agentrail.core.vocabulary.state import AskedBy
from agentrail.errors import BadChoice, RefusedError
from agentrail.events import (
    AgentEnd,
    ApprovalResolved,
    Envelope,
    PromptReceived,
    SubAgentEvent,
    ToolApprovedAlways,
    ToolExecutionStart,
)
from agentrail.journals import MemoryJournal, audit
from agentrail.plugins import HumanApproval
from agentrail.testing import ScriptedModel, call, say
from agentrail.tools.builtin import ask_user
from agentrail.values.tools import StandingApproval
from tests.coded import coded
from tests.kit import Element
from tests.runtime.families import agent, task

ANN: Final = "ann"


@tool
async def pay(to: str) -> str:
    """Pay."""
    return f"paid {to}"


def paying(to: str = "eve") -> Element:
    return say(calls=[call("pay", {"to": to})])


def payer(*script: Element) -> SessionSpec:
    return SessionSpec(
        model=ScriptedModel(list(script)),
        tools=[pay],
        plugins=[HumanApproval(tools=["pay"])],
        on_prompt_while_held="queue",
        name="payer",
    )


async def stored(journal: MemoryJournal, session_id: str) -> list[Envelope]:
    return [envelope for record in await journal.read(session_id) for envelope in record.events]


async def held(session: SessionHandle, text: str) -> str:
    """Prompt a session, and return the id of the call that is then held."""
    (hold,) = (await session.ask(text)).held
    return hold.id


async def test_a_prompt_that_waited_says_whose_it_is_when_its_turn_begins() -> None:
    journal = MemoryJournal(encode=True)
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(payer(paying(), "done", "more"), "s")
        waits = await held(session.by(ANN, "r1"), "first")
        turn = session.inspect().turn
        assert turn is not None
        assert (turn.asked_by, session.inspect().asked_by) == (AskedBy((ANN,), "r1"), (ANN,))
        await session.by("bob", "r2").prompt("second")
        assert [prompt.asked_by for prompt in session.inspect().queue] == [AskedBy(("bob",), "r2")]
        async with session.subscribe(since=0, types=[PromptReceived, AgentEnd]) as events:
            await session.by("boss").approve(waits)
            heard = [(type(item.event).__name__, item.by) for item in [await anext(events) for _ in range(4)]]
    assert heard == [("PromptReceived", ANN), ("AgentEnd", ""), ("PromptReceived", "bob"), ("AgentEnd", "")]
    assert await audit(journal, "s") == ()


async def test_who_steers_a_turn_has_asked_for_it_too() -> None:
    running = trio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        running.set()
        await trio.sleep_forever()
        return ""

    journal = MemoryJournal(encode=True)
    spec = payer(say(calls=[call("wait", {})]), paying(), "done")
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(spec.but(tools=[pay, wait]), "s")
        command = "c"
        await session.by(ANN).prompt("go on", command=command)
        await running.wait()
        await session.by("eve").steer("pay eve")
        (hold,) = (await session.by(ANN).ask("go on", command=command)).held
        assert (hold.asked_by, hold.since > 0) == ((ANN, "eve"), True)
        for who in (ANN, "eve"):
            with pytest.raises(RefusedError, check=coded("own-decision")):
                await session.by(who, four_eyes=True).approve(hold.id)
        await session.by("bob", four_eyes=True).approve(hold.id, command="a")
        await session.by("bob").approve(hold.id, command="a")  # the same command, though it is checked less strictly
    assert await audit(journal, "s") == ()


async def test_who_answers_a_question_has_asked_for_what_follows_too() -> None:
    journal = MemoryJournal(encode=True)
    spec = payer(say(calls=[call("ask_user", {"question": "whom?"})]), paying(), "done")
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(spec.but(tools=[pay, ask_user]), "s")
        question = await session.by(ANN).ask("pay", command="c")
        await session.by("eve", four_eyes=True).respond(question.held[0].id, "eve")
        (hold,) = (await session.by(ANN).ask("pay", command="c")).held
        assert hold.asked_by == (ANN, "eve")
        for who in (ANN, "eve"):
            with pytest.raises(RefusedError, check=coded("own-decision")):
                await session.by(who, four_eyes=True).approve(hold.id)
        await session.by("bob", four_eyes=True).approve(hold.id)
    assert await audit(journal, "s") == ()


async def test_who_rejects_with_a_reason_has_asked_for_what_follows_too() -> None:
    journal = MemoryJournal(encode=True)
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(payer(paying("eve"), paying("tom"), paying("bob"), "done"), "s")
        waits = (await session.by(ANN).ask("pay", command="c")).held[0].id
        await session.by("tom", four_eyes=True).reject(waits, auto_resume=True)
        (hold,) = (await session.by(ANN).ask("pay", command="c")).held
        assert hold.asked_by == (ANN,)
        await session.by("bob", four_eyes=True).reject(hold.id, "pay bob", auto_resume=True)
        (hold,) = (await session.by(ANN).ask("pay", command="c")).held
        assert (hold.args, hold.asked_by) == ({"to": "bob"}, (ANN, "bob"))
        for who in (ANN, "bob"):
            with pytest.raises(RefusedError, check=coded("own-decision")):
                await session.by(who, four_eyes=True).approve(hold.id)
        await session.by("tom", four_eyes=True).approve(hold.id)
    assert await audit(journal, "s") == ()


async def test_who_has_asked_more_than_once_is_named_once() -> None:
    async with open_supervisor() as supervisor:
        ann = (await supervisor.spawn(payer(paying(), paying("tom"), paying("bob"), "done"), "s")).by(ANN)
        for text in ("pay tom", "pay bob", "enough"):
            (hold,) = (await ann.ask("pay", command="c")).held
            assert hold.asked_by == (ANN,)
            await ann.reject(hold.id, text, auto_resume=True)


async def test_what_is_approved_for_always_is_held_again_once_it_is_taken_back() -> None:
    journal = MemoryJournal()
    async with open_supervisor(journal=journal) as supervisor:
        pays = [paying("eve"), "done"]
        session = await supervisor.spawn(payer(*pays, *pays, *pays), "s")
        await session.approve(await held(session, "pay"), always=True)
        assert not (await session.ask("pay")).held
        await session.disallow("pay", "another")
        assert [approval.tool for approval in session.inspect().standing_approvals] == ["pay"]
        (family,) = (approval.command_family for approval in session.inspect().standing_approvals)
        await session.disallow("pay", family, command="c1")
        await session.disallow("pay", family, command="c1")
        assert (session.inspect().standing_approvals, session.inspect().approved_always) == ((), frozenset())
        assert await held(session, "pay")
    assert await audit(journal, "s") == ()


async def test_with_four_eyes_nobody_approves_later_calls() -> None:
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(payer(paying("eve"), "done"), "s")
        waits = await held(session.by(ANN), "pay")
        bob = session.by("bob", four_eyes=True)
        with pytest.raises(
            RefusedError,
            check=coded("four-eyes-wanted"),
            match="`always` would let calls run that nobody else has seen",
        ):
            await bob.approve(waits, always=True)
        assert [hold.id for hold in session.status().held] == [waits]
        await bob.approve(waits)
        assert session.status().held == ()


async def test_with_four_eyes_nobody_approves_arguments_of_their_own() -> None:
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(payer(paying("eve"), "done"), "s")
        waits = await held(session.by(ANN), "pay")
        bob = session.by("bob", four_eyes=True)
        with pytest.raises(RefusedError, check=coded("own-decision")):
            await bob.approve(waits, {"to": "bob"})
        assert [(hold.id, hold.args) for hold in session.status().held] == [(waits, {"to": "eve"})]
        await bob.approve(waits, {"to": "eve"})
        assert session.status().held == ()


@pytest.mark.parametrize("decision", ["approve", "reject"])
async def test_with_four_eyes_nobody_decides_about_what_they_asked_for(decision: str) -> None:
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(payer(paying(), "done"), "s")
        waits = await held(session.by(ANN), "pay")
        with pytest.raises(RefusedError, check=coded("own-decision"), match=f"you ask for `{waits}` yourself"):
            await getattr(session.by(ANN, four_eyes=True), decision)(waits)
        assert [hold.id for hold in session.status().held] == [waits]
        bob = session.by("bob", four_eyes=True)
        await getattr(bob, decision)(waits, command="c")
        assert session.status().held == ()
        await getattr(session.by("bob"), decision)(waits, command="c")  # the same command, and the same answer


async def test_without_four_eyes_they_may() -> None:
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(payer(paying(), "done"), "s")
        await session.by(ANN).approve(await held(session.by(ANN), "pay"))


async def test_it_holds_after_a_restart() -> None:
    journal = MemoryJournal(encode=True)
    model = ScriptedModel([paying(), "done"])
    async with open_supervisor(journal=journal) as supervisor:
        waits = await held((await supervisor.spawn(payer().but(model=model), "s")).by(ANN, "r1"), "pay")
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.resume("s", payer().but(model=model))
        assert [hold.asked_by for hold in session.status().held] == [(ANN,)]
        with pytest.raises(RefusedError, check=coded("own-decision")):
            await session.by(ANN, four_eyes=True).approve(waits)
        await session.by("bob", four_eyes=True).approve(waits)


async def test_it_holds_for_calls_of_subagents() -> None:
    helper = agent([paying(), "done"], tools=[pay], plugins=[HumanApproval(["pay"])])
    parent = SessionSpec(model=ScriptedModel([task("helper"), "well"]), agents={"helper": helper})
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(parent, "s")
        (hold,) = (await session.by(ANN).ask("pay")).held
        assert (hold.path[0], hold.asked_by) == ("s", (ANN,))
        with pytest.raises(RefusedError, check=coded("own-decision")):
            await session.by(ANN, four_eyes=True).reject(hold.id)
        await session.by("bob", four_eyes=True).approve(hold.id)


@pytest.mark.parametrize("deep", [False, True])
async def test_who_gave_words_to_a_sub_agent_has_asked_for_what_follows_its_answer(deep: bool) -> None:
    running = trio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        running.set()
        await trio.sleep_forever()
        return ""

    journal = MemoryJournal(encode=True)
    helper = agent([say(calls=[call("wait", {})]), "pay eve"], tools=[wait])
    if deep:
        helper = agent([task("helper"), "pay eve"], agents={"helper": helper}, max_agent_depth=2)
    spec = payer(task("helper"), paying(), "done").but(agents={"helper": helper}, max_agent_depth=3)
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(spec, "s")
        await session.by(ANN).prompt("go on", command="c")
        await running.wait()
        below = supervisor.session("s.c3.c3" if deep else "s.c3")
        await below.by("eve").steer("say: pay eve")
        (hold,) = (await session.by(ANN).ask("go on", command="c")).held
        assert (hold.path, hold.asked_by) == ((), (ANN, "eve"))
        for who in (ANN, "eve"):
            with pytest.raises(RefusedError, check=coded("own-decision")):
                await session.by(who, four_eyes=True).approve(hold.id)
        await session.by("bob", four_eyes=True).approve(hold.id)
    assert await audit(journal, "s") == ()


async def test_whether_four_eyes_are_wanted_is_yes_or_no() -> None:
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(payer("well"), "s")
        with pytest.raises(BadChoice, match="four_eyes"):
            session.by(ANN, four_eyes="yes")  # type: ignore[arg-type]


@pytest.mark.parametrize("seconds", [None, 60.0])
async def test_a_call_that_runs_by_an_approval_for_always_says_who_gave_it_when_and_for_what(
    seconds: float | None,
) -> None:
    journal = MemoryJournal(encode=True)
    spec = payer(paying(), "done", paying("bob"), "again", paying("joe"), "at last").but(
        plugins=[HumanApproval(tools=["pay"], always_seconds=seconds)]
    )
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(spec, "s")
        waits = await held(session, "first")
        await session.by("boss").approve(waits, always=True)
        async with session.subscribe(since=0, types=[ToolApprovedAlways]) as events:
            approved = await events.__anext__()
        assert isinstance(approved.event, ToolApprovedAlways)
        assert approved.event.by == "boss"
        family = approved.event.command_family
        assert (await session.by("eve").ask("second")).stop_reason == "end"
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.resume("s", spec)
        assert (await session.by("eve").ask("third")).stop_reason == "end"
    approval = StandingApproval("pay", family, "boss", approved.at)
    starts = [
        session_.event for session_ in await stored(journal, "s") if isinstance(session_.event, ToolExecutionStart)
    ]
    assert [start.standing for start in starts] == [(), (approval,), (approval,)]
    assert await audit(journal, "s") == ()


async def test_the_parent_s_record_says_who_approved_a_call_of_its_sub_agent() -> None:
    journal = MemoryJournal(encode=True)
    child = agent([paying(), paying("bob"), "paid"], tools=[pay], plugins=[HumanApproval(tools=["pay"])])
    async with open_supervisor(journal=journal) as supervisor:
        spec = SessionSpec(model=ScriptedModel([task(), "done"]), agents={"finder": child})
        session = await supervisor.spawn(spec, "p")
        waits = await held(session, "go")
        await session.by("boss").approve(waits, always=True)
        async with session.subscribe(since=0, types=[AgentEnd]) as events:
            await events.__anext__()
    records = await stored(journal, "p")
    (resolved,) = [record.event for record in records if isinstance(record.event, ApprovalResolved)]
    assert (resolved.status, resolved.by) == ("approved", "boss")
    inner = [record_.event.event for record_ in records if isinstance(record_.event, SubAgentEvent)]
    assert [start.standing[0].by for start in inner if isinstance(start, ToolExecutionStart) and start.standing] == [
        "boss"
    ]

"""Handoffs of a session: by spec and by name, with a process that ends between any two commits, forks and limits."""

from collections.abc import Callable

import attrs
import pytest
import trio

from agentrail import Handoff, SessionSpec, open_supervisor, tool
from agentrail.errors import BadSpec, ToolExists
from agentrail.events import AgentEnd, HandedOff
from agentrail.insight import why
from agentrail.journals import Record
from agentrail.mcp import McpServer
from agentrail.models import AssistantMessage, EmitChunk, ModelRequest, Response
from agentrail.plugins import BudgetGuard, HumanApproval
from agentrail.testing import ScriptedModel, call, say
from agentrail.testing.scripted import ScriptedResponse
from tests.runtime.test_subagents_back import Noting, cut, events_of
from tests.runtime.world import until

TO_BILLING = say(calls=[call("transfer_to_billing")])
TO_FRONT = say(calls=[call("transfer_to_front")])


@tool(effect="idempotent")
async def look_up(order: int) -> str:
    """Look an order up."""
    return f"front: {order}"


def refunding() -> object:
    @tool(effect="idempotent")
    async def look_up(order: int) -> str:
        """Look an order up."""
        return f"billing: {order}"

    return look_up


class Next:
    """A model whose answer depends on the tools, and on how many messages it has written before."""

    def __init__(self, name: str, *answers: ScriptedResponse) -> None:
        self.name = name
        self._answers = answers

    async def stream(self, request: ModelRequest, emit: EmitChunk) -> Response:
        count = sum(
            isinstance(message, AssistantMessage) and message.model == self.name for message in request.messages
        )
        await trio.lowlevel.checkpoint()
        answer = self._answers[min(count, len(self._answers) - 1)]
        return answer.response  # type: ignore[union-attr]  # they all say something


def desk(front: object, billing: object, **more: object) -> SessionSpec:
    """Return the spec of a desk whose two agents may hand over to each other."""
    other = SessionSpec(
        name="billing",
        description="Pays back.",
        model=billing,  # type: ignore[arg-type]  # a model
        system="You pay back.",
        tools=[refunding()],
        handoffs=["front"],
    )
    return SessionSpec(
        name="front",
        description="Finds out who can help.",
        model=front,  # type: ignore[arg-type]  # a model
        system="Find out who can help.",
        tools=[look_up],
        handoffs=[other],
        **more,  # type: ignore[arg-type]  # a test may give any field
    )


def there_and_back() -> SessionSpec:
    asks = say(calls=[call("look_up", {"order": 7})])
    return desk(Next("front", asks, TO_BILLING, say("bye")), Next("billing", asks, TO_FRONT))


async def test_both_agents_have_a_tool_of_one_name() -> None:
    front = ScriptedModel([say(calls=[call("look_up", {"order": 7})]), TO_BILLING, "bye"], name="front")
    billing = ScriptedModel([say(calls=[call("look_up", {"order": 7})]), TO_FRONT], name="billing")
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(desk(front, billing))
        reply = await session.ask("My money back, please.")
        assert reply.text == "bye"
        texts = [message.text for message in session.messages()]
        assert [text for text in texts if text.endswith(": 7")] == ["front: 7", "billing: 7"]
        names = ["look_up", "transfer_to_front"]
        assert [[tool.name for tool in request.tools] for request in billing.requests] == [names, names]
        assert {request.system for request in billing.requests} == {"You pay back."}
        assert front.requests[-1].system == "Find out who can help."


def written() -> list[Record]:
    """Return the records of a conversation that is handed over and back."""
    noting = Noting()

    async def work() -> None:
        async with open_supervisor(journal=noting) as supervisor:
            session = await supervisor.spawn(there_and_back(), "s")
            await session.ask("go")

    trio.run(work)
    return noting.written


@pytest.mark.long
def test_between_any_two_commits_the_right_agent_goes_on() -> None:
    records = written()
    places = [index for index, record in enumerate(records) if record.events]

    async def comes_back(count: int) -> None:
        journal = await cut(records[:count])
        async with open_supervisor(journal=journal) as supervisor:
            session = await supervisor.resume("s", there_and_back())
            await until(lambda: session.inspect().turn is None)
        events = await events_of(journal, "s")
        handed = [(event.from_, event.to) for event in events if isinstance(event, HandedOff)]
        assert handed == [("front", "billing"), ("billing", "front")], count
        assert sum(isinstance(event, AgentEnd) for event in events) == 1
        texts = [message.text for message in session.messages()]
        assert [text for text in texts if text.endswith(": 7")] == ["front: 7", "billing: 7"], count

    for count in range(places[1] + 1, len(records)):
        trio.run(comes_back, count)


async def test_a_session_comes_back_as_the_agent_that_it_was_handed_to() -> None:
    noting = Noting()
    front, billing = ScriptedModel([TO_BILLING], name="front"), ScriptedModel(["I am billing."], name="billing")
    async with open_supervisor(journal=noting) as supervisor:
        await (await supervisor.spawn(desk(front, billing), "s")).ask("go")
    again = ScriptedModel([say(calls=[call("look_up", {"order": 7})]), "paid"], name="billing")
    async with open_supervisor(journal=noting) as supervisor:
        session = await supervisor.resume("s", desk(ScriptedModel([], name="front"), again))
        assert session.inspect().agent_name == "billing"
        assert (await session.ask("and now?")).text == "paid"
        assert "billing: 7" in [message.text for message in session.messages()]
        assert again.requests[0].system == "You pay back."


async def test_a_fork_is_the_same_agent() -> None:
    front, billing = ScriptedModel([TO_BILLING], name="front"), ScriptedModel(["one", "two"], name="billing")
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(desk(front, billing), "s")
        await session.ask("go")
        fork = await session.fork()
        assert (await fork.ask("and now?")).text == "two"
        assert billing.requests[-1].system == "You pay back."


async def test_an_agent_that_is_gone_is_named() -> None:
    noting = Noting()
    front, billing = ScriptedModel([TO_BILLING], name="front"), ScriptedModel(["one"], name="billing")
    async with open_supervisor(journal=noting) as supervisor:
        await (await supervisor.spawn(desk(front, billing), "s")).ask("go")
    async with open_supervisor(journal=noting) as supervisor:
        with pytest.raises(BadSpec, match="have no agent 'billing', which goes on with the stored session `s`"):
            await supervisor.resume("s", desk(front, billing).but(handoffs=[]))


async def test_agents_that_hand_over_for_ever_meet_the_round_limit() -> None:
    front, billing = ScriptedModel([TO_BILLING] * 9, name="front"), ScriptedModel([TO_FRONT] * 9, name="billing")
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(desk(front, billing, max_rounds=4))
        reply = await session.ask("go")
        assert (reply.stop_reason, len(front.requests) + len(billing.requests)) == ("max_rounds", 4)


async def test_guards_of_the_session_stay() -> None:
    front, billing = ScriptedModel([TO_BILLING, "fine"], name="front"), ScriptedModel([], name="billing")
    spec = desk(front, billing, plugins=[HumanApproval(tools=["transfer_to_billing"])])
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(spec)
        reply = await session.ask("go")
        await session.reject(reply.held[0].id, "no")
        await until(lambda: session.inspect().turn is None)
        assert session.inspect().agent is None


async def test_each_agent_answers_in_its_own_form() -> None:
    @attrs.frozen
    class Refund:
        order: int

    front, billing = ScriptedModel([TO_BILLING], name="front"), ScriptedModel(['{"order": 7}'], name="billing")
    spec = desk(front, billing)
    (other,) = spec.handoffs
    assert isinstance(other, SessionSpec)
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(spec.but(handoffs=[other.but(returns=Refund)]))
        assert (await session.ask("go")).answer == {"order": 7}


def one(**fields: object) -> SessionSpec:
    return SessionSpec(name="billing", description="Pays back.").but(**fields)


@pytest.mark.parametrize(
    ("handoffs", "problem"),
    [
        (lambda: [one(), one()], "two agents called 'billing'"),
        (lambda: ["billing"], "no agent is called so; those there are: `front`"),
        (lambda: ["front"], "twice, or itself"),
        (lambda: [one(name="")], "use 1 to 52 letters"),
        (lambda: [one(name="x" * 53)], "use 1 to 52 letters"),
        (lambda: [one(description=" ")], "without a `description`"),
        (lambda: [one(plugins=[BudgetGuard(max_tokens=5)])], "with `plugins` of its own"),
        (lambda: [one(max_rounds=3)], "with `max_rounds` of its own"),
        (lambda: [one(tools=[McpServer(["true"], name="m")])], "with a source of tools"),
        (lambda: [Handoff(one(), "none")], "use one of `all`, `turn`, `summary`"),  # type: ignore[arg-type]  # a wrong value
        (lambda: [7], "have a `int`"),
    ],
)
async def test_what_cannot_be_handed_over_is_refused(handoffs: Callable[[], list[object]], problem: str) -> None:
    async with open_supervisor() as supervisor:
        with pytest.raises(BadSpec, match=problem):
            await supervisor.spawn(SessionSpec(model="demo", name="front", handoffs=handoffs()))  # type: ignore[arg-type]  # as above


async def test_what_is_equal_to_the_fields_of_the_session_may_be_said_again() -> None:
    guard, asks = BudgetGuard(max_tokens=500), HumanApproval()
    async with open_supervisor() as supervisor:
        handoffs = [one(plugins=[guard], max_rounds=9)]
        await supervisor.spawn(SessionSpec(model="demo", plugins=[asks, guard], max_rounds=9, handoffs=handoffs))


async def test_a_tool_may_not_have_the_name_of_that_of_a_handoff() -> None:
    @tool
    async def transfer_to_billing() -> str:
        """Be in the way."""
        return ""

    async with open_supervisor() as supervisor:
        with pytest.raises(ToolExists):
            await supervisor.spawn(SessionSpec(model="demo", tools=[transfer_to_billing], handoffs=[one()]))


async def test_why_tells_of_a_handoff() -> None:
    front, billing = ScriptedModel([TO_BILLING], name="front"), ScriptedModel(["fine"], name="billing")
    noting = Noting()
    async with open_supervisor(journal=noting) as supervisor:
        await (await supervisor.spawn(desk(front, billing), "s")).ask("go")
    sentences = [entry.sentence for entry in why(noting.written, 1).entries]
    assert "the conversation was handed over to billing, as the model asked" in sentences

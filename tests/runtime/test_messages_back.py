"""Messages are sent once, and waits go on, in the process after one that ended between any two commits."""

import time

import pytest
import trio

from agentrail import SessionSpec, open_supervisor
from agentrail.errors import UnknownTask
from agentrail.events import SteeringReceived
from agentrail.models import ToolMessage
from agentrail.testing import call, say
from agentrail.testing.scripted import ScriptedResponse
from agentrail.tools import message_tools, ok
from tests.runtime.journals import TestJournal
from tests.runtime.test_subagents_back import Next, Noting, cut, events_of, over
from tests.runtime.world import until

HURRY = "Message from `p`, which gave you the task:\n> hurry"
HELLO = ", an agent `b` at work beside you:\n> hello"


def uses(name: str, **args: object) -> ScriptedResponse:
    response = say(calls=[call(name, args)])  # type: ignore[arg-type]  # JSON all the same
    assert isinstance(response, ScriptedResponse)
    return response


def begins(agent: str, **more: object) -> ScriptedResponse:
    return uses("task", agent=agent, description="look", prompt="find it", background=True, **more)


def talking() -> SessionSpec:
    listens = uses("message_wait", seconds=1)
    remaining_next = Next("a", listens, listens, say("left is done"))
    right = Next("b", uses("message_send", to="p.c3", message="hello"), say("right is done"))
    agents = {
        name: SessionSpec(description="Finds things.", model=model, tools=message_tools())
        for name, model in (("a", remaining_next), ("b", right))
    }
    parent = Next(
        "parent",
        begins("a"),
        begins("b", peers=["p.c3"]),
        uses("task_send", task="p.c3", message="hurry"),
        uses("task_wait", tasks=["p.c3"]),
        say("fine"),
    )
    return SessionSpec(model=parent, agents=agents)


@pytest.mark.long
async def test_between_any_two_commits_each_message_is_sent_once() -> None:
    noting = Noting()
    async with open_supervisor(journal=noting) as supervisor:
        session = await supervisor.spawn(talking(), "p")
        await session.ask("go")
        await over(session)
        await session.stop()
    first = [record.session_id for record in noting.written].index("p.c3")
    last = len(noting.written) - 1
    assert last - first > 30
    for count in range(first, last):
        journal = await cut(noting.written[:count])
        async with open_supervisor(journal=journal) as supervisor:
            session = await supervisor.resume("p", talking())
            await over(session)
            heard = [event for event in await events_of(journal, "p.c3") if isinstance(event, SteeringReceived)]
            assert [event.status for event in heard] == ["queued", "queued"], count
            assert [any(event.text.endswith(text) for event in heard) for text in (HURRY, HELLO)] == [True, True], count
            results = [message.text for message in session.messages() if isinstance(message, ToolMessage)]
            assert results[2:] == ["sent to `p.c3`", "p.c3: done:\n> left is done"], count
            assert session.messages()[-1].text == "fine", count


@pytest.mark.long
async def test_a_wait_takes_no_longer_because_the_process_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 1.7e9 + trio.current_time())  # both processes see the same time of day
    journal = TestJournal()
    late = SessionSpec(description="Finds things.", model=Next("a", say("late", delay=500.0)))
    parent = Next("parent", begins("a"), uses("task_wait", tasks=["p.c3"], seconds=10), say("fine"))
    spec = SessionSpec(model=parent, agents={"a": late})
    began = trio.current_time()
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(spec, "p")
        await session.prompt("go")
        await trio.sleep(6)
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.resume("p", spec)
        await until(lambda: session.inspect().turn is None)
        assert 9 < trio.current_time() - began < 11
        (_, waited) = (message.text for message in session.messages() if isinstance(message, ToolMessage))
        assert waited == "p.c3 (a): running: look"


async def test_the_answer_of_a_task_outlives_the_process() -> None:
    journal = TestJournal()
    quick = SessionSpec(description="Finds things.", model=Next("a", say("found")))
    spec = SessionSpec(model=Next("parent", begins("a"), say("fine")), agents={"a": quick})
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(spec, "p")
        await session.ask("go")
        await over(session)
        await supervisor.spawn(spec, "p.c9")
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.resume("p", spec)
        assert await session.task_result("p.c3") == ok("found")
        assert await session.wait_tasks("p.c3") == {"p.c3": ok("found")}
        for other in ("p.c9", "p", "q.c3", "p.c3\x00", "../p.c3"):
            try:
                await session.task_result(other)
            except UnknownTask:
                continue
            raise AssertionError(other)

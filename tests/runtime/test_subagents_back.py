"""Sub-agents come back with their parents, after a process that ended between any two commits."""

from collections.abc import Sequence

import pytest
import trio

from agentrail import SessionHandle, SessionSpec, open_supervisor, tool
from agentrail.core.vocabulary.inputs import SubagentStarted
from agentrail.errors import UnknownSession
from agentrail.events import Event, PromptReceived, SubagentEnd, SubAgentEvent, SubagentStart
from agentrail.journals import Claim, Journal, MemoryJournal, Record
from agentrail.models import AssistantMessage, EmitChunk, ModelRequest, Response, ToolMessage, Usage
from agentrail.plugins import BudgetGuard, HumanApproval
from agentrail.runtime.supervision.subagents import subagents
from agentrail.runtime.supervision.subagents.subagents import NO_PROMPT
from agentrail.testing import ScriptedModel, call, say
from agentrail.testing.scripted import ScriptedResponse
from agentrail.tools import ToolContext
from tests.kit import NOTHING_USED
from tests.runtime.counting import counting
from tests.runtime.families import task
from tests.runtime.journals import TestJournal
from tests.runtime.tools import slow
from tests.runtime.world import rebuilt, until

TEN = Usage(8, 2)


class Next:
    """A model whose answer depends only on the number of its earlier answers in the conversation, in any process."""

    def __init__(self, name: str, *answers: ScriptedResponse) -> None:
        self.name = name
        self._answers = answers

    async def stream(self, request: ModelRequest, emit: EmitChunk) -> Response:
        count = sum(isinstance(message, AssistantMessage) for message in request.messages)
        answer = self._answers[min(count, len(self._answers) - 1)]
        await trio.sleep(answer.delay or 0.01)
        for chunk in answer.chunks:
            emit(chunk)
        return answer.response  # type: ignore[union-attr]  # they all say something


class Noting(TestJournal):
    """A journal that notes the order of all records."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[Record] = []

    async def append(self, claim: Claim, expected: int, records: Sequence[Record]) -> int:
        head = await super().append(claim, expected, records)
        self.written.extend(records)
        return head


class Looking(TestJournal):
    """A journal that compares, before each commit, what a session shows of its tasks with what is stored."""

    def __init__(self, inner: Journal | None = None) -> None:
        super().__init__(commit=0.1, inner=None if inner is None else lambda: inner)
        self.session: SessionHandle | None = None
        self.compared: list[tuple[set[tuple[str, str]], set[tuple[str, str]]]] = []
        """Child and status of each task: as shown, and as stored."""

    async def append(self, claim: Claim, expected: int, records: Sequence[Record]) -> int:
        await self._compare()
        return await super().append(claim, expected, records)

    async def _compare(self) -> None:
        if self.session is not None:
            stored = await rebuilt(self.inner, self.session.id)
            running = {(agent.child, "waiting" if agent.waits else "running") for agent in stored.subagents}
            ended = {(agent.child, "failed" if agent.failed else "done") for agent in stored.ended_tasks}
            assert self.session.status().tasks == self.session.tasks()
            self.compared.append(({(task.child, task.status) for task in self.session.tasks()}, running | ended))


def spec(*, background: bool = False) -> SessionSpec:
    finder = SessionSpec(
        description="Finds things.",
        model=Next("child", say(calls=[call("slow")], usage=TEN), say("found", usage=TEN)),
        tools=[slow(seconds=1.0)],
        on_repeat_unknown="allow",
    )
    asks = task(usage=TEN, background=background)
    assert not callable(asks)
    return SessionSpec(model=Next("parent", asks, say("fine", usage=TEN)), agents={"finder": finder})  # type: ignore[arg-type]  # it is no text


async def over(session: SessionHandle) -> None:
    await until(lambda: session.inspect().turn is None and not session.inspect().subagents)


async def events_of(journal: Journal, session_id: str) -> list[Event]:
    records = await journal.read(session_id, 0, 10_000)
    return [envelope.event for record in records for envelope in record.events]


async def cut(records: Sequence[Record]) -> TestJournal:
    """Return a journal with these records only."""
    journal = TestJournal(inner=lambda: MemoryJournal(encode=True))
    heads: dict[str, int] = {}
    for record in records:
        claim = await journal.claim(record.session_id, "the process before")
        head = heads.get(record.session_id, 0)
        heads[record.session_id] = await journal.append(claim, head, [record])
    return journal


async def test_a_task_goes_on_in_the_next_process() -> None:
    journal = TestJournal()
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(spec(), "p")
        await session.prompt("go")
        await until(lambda: len(supervisor.sessions()) == 2)
        await trio.sleep(0.5)
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.resume("p", spec())
        (shown_task,) = session.tasks()
        assert (shown_task.child, shown_task.agent, shown_task.description) == ("p.c3", "finder", "look")
        await over(session)
        assert session.messages()[-1].text == "fine"
        assert session.status().usage.total_tokens == 40
    events = await events_of(journal, "p")
    assert len([event for event in events if isinstance(event, SubagentStart)]) == 1
    (end,) = (event for event in events if isinstance(event, SubagentEnd))
    assert (end.text, end.is_error) == ("found", False)
    inner = [event.event for event in events if isinstance(event, SubAgentEvent)]
    assert inner == await events_of(journal, "p.c3")


@pytest.mark.parametrize("more", [-1, 0, 1])
async def test_however_many_records_are_read_at_once_a_task_goes_on(more: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One less than there are, as many, and one more."""
    journal = TestJournal()
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(spec(), "p")
        await session.prompt("go")
        await until(lambda: len(supervisor.sessions()) == 2)
        await trio.sleep(0.5)
    count = len(await journal.read("p.c3", 0, 10_000))
    assert count > 2
    monkeypatch.setattr(subagents, "PAGE", count + more)
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.resume("p", spec())
        await over(session)
        assert session.messages()[-1].text == "fine"
    inner = [event.event for event in await events_of(journal, "p") if isinstance(event, SubAgentEvent)]
    assert inner == await events_of(journal, "p.c3")


@pytest.mark.long
@pytest.mark.parametrize(
    ("background", "answer"),
    [(False, "found"), (True, "the task `p.c3` runs in the background; `task_result` waits for its answer")],
)
async def test_between_any_two_commits(background: bool, answer: str) -> None:
    noting = Noting()
    async with open_supervisor(journal=noting) as supervisor:
        session = await supervisor.spawn(spec(background=background), "p")
        await session.ask("go")
        await over(session)
        await session.stop()
    first = [record.session_id for record in noting.written].index("p.c3")
    last = len(noting.written) - 1
    assert last - first > 10
    outcomes: set[str] = set()
    for count in range(first, last):
        journal = await cut(noting.written[:count])
        async with open_supervisor(journal=journal) as supervisor:
            session = await supervisor.resume("p", spec(background=background))
            await over(session)
            (result,) = (message for message in session.messages() if isinstance(message, ToolMessage))
            assert not result.is_error, count
            outcomes.add(result.text)
            assert session.messages()[-1].text == "fine", count
            events = await events_of(journal, "p")
            starts = [event for event in events if isinstance(event, SubagentStart)]
            ends = [event for event in events if isinstance(event, SubagentEnd)]
            assert (len(starts), [end.text for end in ends]) == (1, ["found"]), count
            child = await rebuilt(journal, "p.c3")
            inner = [event.event for event in events if isinstance(event, SubAgentEvent)]
            assert inner == await events_of(journal, "p.c3"), count
            assert session.status().usage == child.usage.plus(TEN).plus(TEN), count
    assert outcomes == {answer}


def as_before(record: Record) -> Record:
    """Return *record* as older versions wrote it: without what a restart needs of a sub-agent."""
    changed = record.change.subagents
    if isinstance(changed, tuple):
        older = tuple(item.but(description="", prompt="", asked_by=()) for item in changed)
        record = record.but(change=record.change.but(subagents=older))
    given_input = record.arrival.input
    if isinstance(given_input, SubagentStarted):
        record = record.but(arrival=record.arrival.but(input=given_input.but(prompt="", asked_by=())))
    return record


@pytest.mark.long
async def test_a_task_of_an_older_version_goes_on_or_says_that_it_has_no_prompt() -> None:
    noting = Noting()
    async with open_supervisor(journal=noting) as supervisor:
        session = await supervisor.spawn(spec(), "p")
        await session.ask("go")
        await over(session)
        await session.stop()
    first = [record.session_id for record in noting.written].index("p.c3")
    outcomes: list[str] = []
    for count in range(first, len(noting.written) - 1):
        journal = await cut([as_before(record) for record in noting.written[:count]])
        async with open_supervisor(journal=journal) as supervisor:
            session = await supervisor.resume("p", spec())
            await over(session)
            (result,) = (message for message in session.messages() if isinstance(message, ToolMessage))
            outcomes.append(result.text)
            assert session.messages()[-1].text == "fine", count
    request = outcomes.index("found", outcomes.index(NO_PROMPT))
    assert set(outcomes[request:]) == {"found"}
    assert set(outcomes[:request]) == {NO_PROMPT, "found"}  # one that an older process had not started yet is started


async def test_a_call_that_waits_for_a_person_still_waits() -> None:
    journal = TestJournal()

    def careful() -> SessionSpec:
        finder = SessionSpec(
            description="Finds things.",
            model=Next("child", say(calls=[call("count", {"n": 7})]), say("counted")),
            tools=[counting()],
            plugins=[HumanApproval(tools=["count"], timeout=None)],
        )
        asks = task()
        assert not callable(asks)
        model = Next("parent", asks, say("fine"))  # type: ignore[arg-type]  # it is no text
        return SessionSpec(model=model, agents={"finder": finder}, max_agent_seconds=20.0, max_turn_seconds=30.0)

    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(careful(), "p")
        (held,) = (await session.ask("go")).held
    await trio.sleep(1000)
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.resume("p", careful())
        await until(lambda: session.status().held)
        assert session.status().held == (held,)
        await trio.sleep(1000)
        await session.approve(held.id)
        await over(session)
        assert session.messages()[-1].text == "fine"
    (end,) = (event for event in await events_of(journal, "p") if isinstance(event, SubagentEnd))
    assert end.text == "counted"


async def test_a_task_in_the_background_comes_back_too() -> None:
    journal = TestJournal()
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(spec(background=True), "p")
        assert (await session.ask("go")).text == "fine"
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.resume("p", spec(background=True))
        assert "found" in str(await session.task_result("p.c3"))


async def test_what_was_used_before_it_came_back_is_not_counted_against_it_again() -> None:
    journal = TestJournal()
    works = say(calls=[call("slow")], usage=TEN)
    full = spec()
    finder = full.agents["finder"].but(model=Next("child", works, works, say("found", usage=TEN)))
    bounded = full.but(plugins=(BudgetGuard(max_tokens=1000),), agents={"finder": finder})
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(bounded, "p")
        await session.prompt("go")
        await until(lambda: len(supervisor.sessions()) == 2)
        await trio.sleep(0.5)
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.resume("p", bounded)
        await over(session)
    child = await rebuilt(journal, "p.c3")
    assert child.setup.shares
    assert (child.usage, child.shared_usage) == (TEN.plus(TEN).plus(TEN), NOTHING_USED)


async def test_one_that_is_stopped_after_it_has_come_back() -> None:
    journal = TestJournal()
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(spec(), "p")
        await session.prompt("go")
        await until(lambda: len(supervisor.sessions()) == 2)
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.resume("p", spec())
        await until(lambda: len(supervisor.sessions()) == 2)
        await session.abort()
        await until(lambda: not session.inspect().subagents)
        with pytest.raises(UnknownSession):
            supervisor.session("p.c3")
    assert (await rebuilt(journal, "p.c3")).phase.value == "ended"


async def test_one_that_is_gone_is_an_error_of_the_call() -> None:
    journal = Noting()
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(spec(), "p")
        await session.prompt("go")
        await until(lambda: session.inspect().subagents)
    remaining = await cut([record for record in journal.written if record.session_id == "p"])
    async with open_supervisor(journal=remaining) as supervisor:
        session = await supervisor.resume("p", spec())
        await over(session)
        (result,) = (message for message in session.messages() if isinstance(message, ToolMessage))
        assert result.is_error
        assert "there is no session `p.c3`" in result.text


async def test_one_whose_agent_is_gone_is_an_error_of_the_call() -> None:
    journal = TestJournal()
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(spec(), "p")
        await session.prompt("go")
        await until(lambda: session.inspect().subagents)
    bare = SessionSpec(model=Next("parent", say("never"), say("fine")))
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.resume("p", bare)
        await over(session)
        assert session.messages()[-1].text == "fine"


async def test_a_sub_agent_rests_with_its_turn_and_goes_on_with_it() -> None:
    journal = TestJournal()
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(spec(), "p")
        await session.prompt("go")
        await until(lambda: session.inspect().subagents)
        await trio.sleep(0.5)
    for _ in range(2):  # also if that process ends as well
        async with open_supervisor(journal=journal) as supervisor:
            session = await supervisor.resume("p", spec(), recovery="pause")
            await trio.sleep(1000)
            assert [session_.id for session_ in supervisor.sessions()] == ["p"]
    async with open_supervisor(journal=journal, specs={"": spec}) as supervisor:
        await trio.sleep(1000)
        assert supervisor.sessions() == ()  # nobody has said how it goes on
        session = await supervisor.resume("p", spec(), recovery="pause")
        await session.resume()
        await over(session)
        assert session.messages()[-1].text == "fine"
        assert session.status().usage.total_tokens == 40
    events = await events_of(journal, "p")
    (end,) = (event for event in events if isinstance(event, SubagentEnd))
    assert (end.text, end.is_error) == ("found", False)
    inner = [event.event for event in events if isinstance(event, SubAgentEvent)]
    assert inner == await events_of(journal, "p.c3")


async def test_a_sub_agent_that_rests_ends_with_its_turn() -> None:
    journal = TestJournal()
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(spec(), "p")
        await session.prompt("go")
        await until(lambda: session.inspect().subagents)
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.resume("p", spec(), recovery="pause")
        await session.prompt("rather that")
        await over(session)
    (end,) = (event for event in await events_of(journal, "p") if isinstance(event, SubagentEnd))
    assert end.is_error


def forgetting() -> SessionSpec:
    """A session whose compaction leaves nothing of the call that started its sub-agent but a summary."""

    def answer(request: ModelRequest) -> ScriptedResponse:
        if "write summaries" in request.system:
            return say("there was a task")
        asks = task(background=True)
        assert not callable(asks)
        return asks if request.messages[-1].text == "go" else say("word " * 130)  # type: ignore[return-value]  # it is no text

    return spec(background=True).but(model=ScriptedModel([answer], repeat_last=True), context_window=1_000)


async def test_a_task_whose_call_has_left_the_conversation_comes_back_too() -> None:
    """The history of a session is no record of what runs: a compaction may take any message out of it."""
    journal = TestJournal()
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(forgetting(), "p")
        for prompt in ("begin", "go", *["word " * 130] * 3):
            await session.ask(prompt)
        assert not any(isinstance(message, ToolMessage) for message in session.messages())
        assert [task_.child for task_ in session.tasks()] == ["p.c5"]
        old_tasks = session.tasks()
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.resume("p", forgetting())
        assert session.tasks() == old_tasks
        assert "found" in str(await session.task_result("p.c5"))


@pytest.mark.long
@pytest.mark.parametrize("background", [False, True])
async def test_a_session_shows_of_its_tasks_what_is_stored_also_after_a_restart(background: bool) -> None:
    """Before the records of a start, of a wait for a person, and of an end, none of them is shown."""

    def held() -> SessionSpec:
        asks = spec(background=background)
        finder = asks.agents["finder"].but(plugins=[HumanApproval(tools=("slow",))])
        return asks.but(agents={"finder": finder})

    noting = Noting()
    looking = Looking(noting)
    async with open_supervisor(journal=looking) as supervisor:
        looking.session = await supervisor.spawn(held(), "p")
        await looking.session.prompt("go")
        await until(lambda: looking.session and [task.status for task in looking.session.tasks()] == ["waiting"])
        await looking.session.approve(looking.session.status().held[0].id)
        await over(looking.session)
        looking.session = None
    assert [visible for visible, _ in looking.compared] == [stored for _, stored in looking.compared]
    assert {status for shown_value, _ in looking.compared for _, status in shown_value} >= {"running", "waiting"}

    ended = next(
        number
        for number, record in enumerate(noting.written)
        if any(isinstance(envelope.event, SubagentEnd) for envelope in record.events)
    )
    again = Looking(await cut(noting.written[:ended]))
    async with open_supervisor(journal=again) as supervisor:
        again.session = await supervisor.resume("p", held())
        await over(again.session)
        again.session = None
    assert [visible_value for visible_value, _ in again.compared] == [stored for _, stored in again.compared]
    assert ("p.c3", "running") in again.compared[0][0]


@pytest.mark.long
@pytest.mark.parametrize("background", [False, True])
async def test_between_any_two_commits_a_task_has_the_prompt_that_its_tool_gave_it(background: bool) -> None:
    """A tool of a program words the prompt itself, and plugins may replace the arguments that the model gave."""

    @tool(effect="pure")
    async def research(topic: str, ctx: ToolContext) -> str:
        """Have something found out."""
        assert ctx.agents is not None
        start = ctx.agents.start if background else ctx.agents.run
        return str(await start(ctx.call_id, "finder", f"about {topic}", f"Find out about {topic}."))

    def own() -> SessionSpec:
        model = Next("parent", say(calls=[call("research", {"topic": "tea"})]), say("fine"))
        return spec().but(model=model, tools=[research], on_repeat_unknown="allow")

    noting = Noting()
    async with open_supervisor(journal=noting) as supervisor:
        session = await supervisor.spawn(own(), "p")
        await session.by("ann").ask("go")
        await over(session)
        await session.stop()
    first = [record.session_id for record in noting.written].index("p.c3")
    for count in range(first, len(noting.written) - 1):
        journal = await cut(noting.written[:count])
        async with open_supervisor(journal=journal) as supervisor:
            session = await supervisor.resume("p", own())
            assert [task_.description for task_ in session.tasks()] in ([], ["about tea"])
            await over(session)
        child = await rebuilt(journal, "p.c3")
        prompts = [event for event in await events_of(journal, "p.c3") if isinstance(event, PromptReceived)]
        assert [prompt.text for prompt in prompts] == ["Find out about tea."], count
        assert child.history[0].text == "Find out about tea.", count

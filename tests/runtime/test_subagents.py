"""Sub-agents: sessions that another session starts, prompts, observes and stops."""

import pytest
import trio

from agentrail import Context, Continue, Plugin, SessionHandle, SessionSpec, open_supervisor
from agentrail.errors import (
    BadSpec,
    SessionCrashed,
    SessionParked,
    ToolExists,
    TurnAborted,
    UnknownSession,
    UnknownTask,
)
from agentrail.events import (
    AgentAbort,
    PromptReceived,
    SessionEnded,
    SubagentEnd,
    SubagentStart,
    ToolExecutionEnd,
    ToolKilled,
    ToolSkippedForSteering,
)
from agentrail.models import FrozenObject, StopReason
from agentrail.plugins import AfterResponse, HumanApproval
from agentrail.testing import ScriptedModel, call, say
from agentrail.values.session_ids import MAX_ID
from tests.kit import Element, freeze
from tests.runtime.families import agent, ids, inner, task, tasks
from tests.runtime.journals import TestJournal
from tests.runtime.poison import Poison, crash_this_step
from tests.runtime.test_restarting import times
from tests.runtime.tools import quick, shielded, slow
from tests.runtime.world import World, open_world, rebuilt, settle, spec_of, until

STOPPED = "it was stopped before it had an answer"


async def begun(session: SessionHandle, count: int = 1) -> None:
    """Prompt the session, and wait until it has *count* sub-agents."""
    await session.prompt("go")
    await until(lambda: len(session.inspect().subagents) == count)


def answer(world: World, session: SessionHandle) -> str:
    return world.heard(session).only(ToolExecutionEnd).text


# What a task is


async def test_a_task_is_done_by_a_session_of_its_own(world: World) -> None:
    session = await world.spawn([task(), "it is there"], "p", agents={"finder": agent(["under the sofa"])})
    assert (await session.ask("where is it?")).text == "it is there"
    heard = world.heard(session)
    assert heard.only(SubagentStart) == SubagentStart("c3", "p.c3", "look", "finder")
    assert heard.only(SubagentEnd) == SubagentEnd("c3", "p.c3", "under the sofa", is_error=False)
    assert answer(world, session) == "under the sofa"
    names = heard.names
    assert names.index("SubagentStart") < names.index("SubAgentEvent")
    assert names.index("SubagentEnd") < names.index("ToolExecutionEnd")
    assert PromptReceived("p1", "find it") in inner(world, session)
    assert inner(world, session)[-1] == SessionEnded("its task is done")


async def test_its_transcript_stays_in_the_journal(world: World) -> None:
    session = await world.spawn([task(), "fine"], "p", agents={"finder": agent(["under the sofa"])})
    await session.ask("go")
    with pytest.raises(UnknownSession):
        world.supervisor.session("p.c3")
    child = await rebuilt(world.journal, "p.c3")
    assert child.last_text == "under the sofa"
    assert child.setup.path == ("p", "c3")
    records = await world.journal.read("p.c3", 0, 100)
    assert {envelope.path for record in records for envelope in record.events} == {("p", "c3")}


async def test_a_sub_agent_has_what_its_spec_leaves_out_from_its_parent(world: World) -> None:
    model = ScriptedModel([task(), "from the child", "fine"])
    lean = agent().but(model="", system="Be quick.")
    more = {"working_dir": "/work", "user_data": FrozenObject(team="red"), "max_rounds": 7}
    session = await world.spawn(model, "p", agents={"finder": lean}, **more)
    assert (await session.ask("go")).text == "fine"
    assert [request.system for request in model.requests] == ["", "Be quick.", ""]
    child = await rebuilt(world.journal, "p.c3")
    assert (child.setup.working_dir, child.setup.user_data, child.model) == ("/work", {"team": "red"}, "scripted")
    assert child.setup.options.max_rounds == 100


async def test_sub_agents_run_side_by_side(world: World) -> None:
    both = {"a": agent([say("one", delay=5.0)], "a"), "b": agent([say("two", delay=5.0)], "b")}
    session = await world.spawn([tasks("a", "b"), "fine"], "p", agents=both)
    start = trio.current_time()
    await session.ask("go")
    assert trio.current_time() - start < 6.0
    assert {end.text for end in world.heard(session).of(ToolExecutionEnd)} == {"one", "two"}


@pytest.mark.long
async def test_one_that_is_starting_waits_for_nobody() -> None:
    journal = TestJournal()
    async with open_world(journal) as world, trio.open_nursery() as nursery:
        session = await world.spawn([task(), "fine"], "p", agents={"finder": agent(["found"])})
        journal.commit = 1.0
        nursery.start_soon(session.ask, "go")
        await until(session.tasks)
        assert [task_.status for task_ in session.tasks()] == ["running"]


async def test_the_tree_shows_them_under_their_parent(world: World) -> None:
    nested = agent([task("inner")], agents={"inner": agent([say("late", delay=100.0)], "inner")})
    session = await world.spawn([task()], "p", agents={"finder": nested})
    await session.prompt("go")
    await until(lambda: len(world.supervisor.sessions()) == 3)
    (shown_child,) = world.supervisor.tree().children
    (child,) = shown_child.children
    (grandchild,) = child.children
    assert [view.name for view in (shown_child, child, grandchild)] == ["p", "p.c3", "p.c3.c3"]
    assert (child.kind, child.restart, child.phase) == ("session", "temporary", "executing_tools")
    assert world.supervisor.session("p.c3.c3").inspect().setup.path == ("p", "c3", "p.c3", "c3")


async def test_a_long_id_is_shortened_and_stays_an_id(world: World) -> None:
    name = "p" * MAX_ID
    session = await world.spawn([task(), task(), "fine"], name, agents={"finder": agent(["a", "b"])})
    assert (await session.ask("go")).text == "fine"
    children = [start.child for start in world.heard(session).of(SubagentStart)]
    assert len(set(children)) == 2
    assert all(len(child) == MAX_ID for child in children)


@pytest.mark.long
async def test_nothing_is_kept_of_sub_agents_that_have_ended(world: World) -> None:
    count = 20
    script = [*(task(prompt=f"find {n}") for n in range(count)), "fine"]
    finder = agent(ScriptedModel(["found"], repeat_last=True, name="child"))
    session = await world.spawn(script, "p", agents={"finder": finder}, file_loop_abort=1000)
    assert (await session.ask("go")).text == "fine"
    assert len(world.heard(session).of(SubagentEnd)) == count
    assert session.inspect().subagents == ()
    assert session.tasks() == ()
    assert ids(world) == ["p"]
    (child,) = world.supervisor.tree().children
    assert child.children == ()


# When it does not answer


async def test_the_crash_of_a_sub_agent_is_an_error_of_the_call(world: World) -> None:
    finder = agent(["never heard"], plugins=[Poison()])
    session = await world.spawn([task(prompt="die"), "it died"], "p", agents={"finder": finder})
    assert (await session.ask("go")).text == "it died"
    assert answer(world, session) == "the sub-agent failed: session `p.c3` crashed: OurBug: poison"
    assert world.heard(session).only(SubagentEnd).is_error
    (report,) = world.supervisor.crashes()
    assert (report.path, report.done) == (("p", "p.c3"), "given_up")
    assert ids(world) == ["p"]


async def test_the_crash_of_a_sub_agent_that_has_taken_its_prompt_is_one_too(world: World) -> None:
    class Late(Plugin):
        def after_response(self, hook: AfterResponse, state: None, ctx: Context) -> Continue[None]:
            crash_this_step()
            return Continue()

    session = await world.spawn([task(), "it died"], "p", agents={"finder": agent(["unheard"], plugins=[Late()])})
    assert (await session.ask("go")).text == "it died"
    assert answer(world, session) == "the sub-agent failed: session `p.c3` crashed: OurBug: poison"


async def test_an_answer_that_was_cut_for_its_length_is_an_answer(world: World) -> None:
    long = agent([say("half of it", stop=StopReason.LENGTH)])
    session = await world.spawn([task(), "fine"], "p", agents={"finder": long})
    await session.ask("go")
    assert answer(world, session) == "half of it"


async def test_a_sub_agent_whose_model_fails_is_an_error_of_the_call(world: World) -> None:
    session = await world.spawn([task(), "fine"], "p", agents={"finder": agent([])})
    await session.ask("go")
    assert "the sub-agent failed: the turn of prompt `p1` was aborted" in answer(world, session)


async def test_a_sub_agent_that_cannot_start_is_an_error_of_the_call(world: World) -> None:
    session = await world.spawn([task(), "fine"], "p", agents={"finder": agent(["never"])})
    taken = await world.spawn(["mine"], "p.c3")
    assert (await session.ask("go")).text == "fine"
    assert "cannot start `p.c3`" in answer(world, session)
    assert world.heard(session).of(SubagentStart) == []
    assert world.heard(session).of(SubagentEnd) == []
    assert (await taken.ask("still there?")).text == "mine"


async def test_a_sub_agent_that_takes_too_long_is_stopped(world: World) -> None:
    finder = agent([say("never", delay=1000.0)])
    session = await world.spawn([task(), "fine"], "p", agents={"finder": finder}, max_agent_seconds=30.0)
    assert (await session.ask("go")).text == "fine"
    assert answer(world, session).startswith("stopped after 30 s, the tool's limit")
    await settle()
    assert ids(world) == ["p"]
    assert world.heard(session).only(SubagentEnd).text == STOPPED


async def test_an_actor_that_crashes_finds_its_sub_agents_at_work() -> None:
    journal = TestJournal()
    async with open_world(journal) as world:
        finder = agent([say("under the sofa", delay=1.0)])
        session = await world.spawn([task(), "fine"], "p", agents={"finder": finder})
        journal.failing = times(2, "SubagentReported")
        assert (await session.ask("go")).text == "fine"
        assert answer(world, session) == "under the sofa"
        stored = await world.journal.read("p.c3", 0, 100)
        events = [envelope.event for record in stored for envelope in record.events]
        assert inner(world, session) == events


async def test_sub_agents_end_with_a_parent_that_is_not_started_again() -> None:
    journal = TestJournal()
    async with open_world(journal) as world:
        finder = agent([say("late", delay=1000.0)])
        spec = spec_of(ScriptedModel([task(background=True), "meanwhile"]), agents={"finder": finder})
        session = await world.supervisor.spawn(spec, "p", restart="temporary")
        assert (await session.ask("go")).text == "meanwhile"
        assert ids(world) == ["p", "p.c3"]
        journal.failing = times(1)
        with pytest.raises(SessionCrashed):
            await session.ask("and?")
        await trio.sleep(1)
        assert ids(world) == []
    assert (await rebuilt(journal, "p.c3")).stop_reason == "its task was stopped"


# Limits


async def test_they_are_nested_as_deep_as_they_may_be(world: World) -> None:
    inmost = agent([task("deeper"), "too deep"], "inner", agents={"deeper": agent(["never"], "deeper")})
    middle = agent([task("inner"), "tried"], agents={"inner": inmost})
    session = await world.spawn([task(), "fine"], "p", agents={"finder": middle}, max_agent_depth=2)
    await session.ask("go")
    child = await rebuilt(world.journal, "p.c3.c3")
    assert child.setup.options.max_agent_depth == 0
    assert "nested as deep as they may be" in [message.text for message in child.history][2]
    assert world.heard(session).only(SubagentEnd).text == "tried"


async def test_there_are_no_more_at_once_than_there_may_be_in_the_whole_tree(world: World) -> None:
    busy = agent([task("inner"), "tried"], "busy", agents={"inner": agent(["never"], "inner")})
    both = {"slow": agent([say("one", delay=5.0)], "slow"), "busy": busy}
    session = await world.spawn([tasks("slow", "busy"), "fine"], "p", agents=both, max_agents=2)
    assert (await session.ask("go")).text == "fine"
    assert [end.text for end in world.heard(session).of(SubagentEnd)] == ["tried", "one"]
    records = await world.journal.read("p.c4", 0, 100)
    (event,) = [e.event for r in records for e in r.events if isinstance(e.event, ToolExecutionEnd)]
    assert event.text == "2 sub-agents run already, and no more than 2 may; wait for one to end"
    assert event.is_error


@pytest.mark.parametrize(
    ("agents", "problem"),
    [
        ({"no good": agent(["x"])}, "have one called 'no good'"),
        ({"finder": agent(["x"]).but(description=" ")}, "without a `description`"),
        ({"finder": "demo"}, "have a `str` under `finder`"),
        ({"finder": agent(["x"], max_rounds=0)}, "must be at least 1"),
        ({"finder": agent(["x"], returns={"type": "array"})}, "`returns` will not do: its schema is invalid"),
        ({"finder": agent(["x"], agents={"": agent(["x"])})}, "have one called ''"),
    ],
)
async def test_what_cannot_be_a_sub_agent_is_refused_at_spawn(
    world: World, agents: dict[str, object], problem: str
) -> None:
    with pytest.raises(BadSpec, match=problem):
        await world.supervisor.spawn(spec_of("demo", agents=agents))


async def test_the_names_of_its_tools_are_taken(world: World) -> None:
    with pytest.raises(ToolExists):
        await world.spawn([], agents={"finder": agent(["x"])}, tools=[quick("task")])


# Stopping


async def test_an_abort_stops_the_sub_agent_at_once(world: World) -> None:
    session = await world.spawn([task()], "p", agents={"finder": agent([say("never heard", delay=100.0)])})
    await begun(session)
    time = trio.current_time()
    await session.abort()
    await settle()
    assert trio.current_time() - time < 0.1
    assert ids(world) == ["p"]
    assert world.heard(session).only(SubagentEnd) == SubagentEnd("c3", "p.c3", STOPPED, is_error=True)
    assert world.heard(session).only(ToolKilled).call_id == "c3"
    assert inner(world, session)[-1] == SessionEnded("its task was stopped")
    assert (session.inspect().subagents, session.inspect().quarantined_calls) == ((), ())


async def test_an_abort_reaches_the_last_of_a_line(world: World) -> None:
    inmost = agent([say(calls=[call("slow")])], "inner", tools=[slow(seconds=1000.0, timeout=5000.0)])
    middle = agent([task("inner")], agents={"inner": inmost})
    session = await world.spawn([task()], "p", agents={"finder": middle})
    await session.prompt("go")
    await until(lambda: len(world.supervisor.sessions()) == 3)
    time = trio.current_time()
    await session.abort()
    await settle()
    assert trio.current_time() - time < 0.1
    assert ids(world) == ["p"]
    for child in ("p.c3", "p.c3.c3"):
        assert (await rebuilt(world.journal, child)).phase.value == "ended"


async def test_steering_stops_the_sub_agent(world: World) -> None:
    session = await world.spawn([task(), "fine"], "p", agents={"finder": agent([say("never", delay=100.0)])})
    await begun(session)
    await session.steer("leave it", when="now")
    await until(lambda: not session.inspect().turn)
    assert world.heard(session).only(ToolSkippedForSteering).call_id == "c3"
    assert world.heard(session).only(SubagentEnd).text == STOPPED
    assert ids(world) == ["p"]


@pytest.mark.long
async def test_an_abort_that_spares_tools_lets_it_go_on(world: World) -> None:
    session = await world.spawn([task()], "p", agents={"finder": agent([say("found", delay=25.0)])})
    await begun(session)
    await session.abort(kill_tools="none")
    assert session.status().phase == "idle"
    assert [task.status for task in session.tasks()] == ["running"]
    await until(lambda: not session.inspect().subagents, 200.0)
    await settle()
    ended = world.heard(session).only(ToolExecutionEnd)
    assert (ended.text, ended.late) == ("found", True)


async def test_the_end_of_a_session_comes_behind_those_of_its_sub_agents(world: World) -> None:
    nested = agent([task("inner")], agents={"inner": agent([say("late", delay=100.0)], "inner")})
    session = await world.spawn([task()], "p", agents={"finder": nested})
    await session.prompt("go")
    await until(lambda: len(world.supervisor.sessions()) == 3)
    await session.stop("enough")
    assert ids(world) == []
    await settle()
    names = world.heard(session).names
    assert names[-1] == "SessionEnded"
    assert names.index("SubagentEnd") < names.index("SessionEnded")
    assert world.heard(session).only(AgentAbort).kind == "stopped"
    assert ids(world) == []


async def test_a_suspended_session_can_be_stopped_with_its_sub_agents(world: World) -> None:
    session = await world.spawn([task()], "p", agents={"finder": agent([say("late", delay=100.0)])})
    await begun(session)
    await session.suspend()
    await session.stop()
    assert ids(world) == []


async def test_a_session_that_only_has_the_id_of_a_sub_agent_is_left_alone(world: World) -> None:
    other = await world.spawn(["not for you"], "p.c3")
    await other.ask("mine")
    await other.stop()
    session = await world.spawn([task(), "fine"], "p", agents={"finder": agent(["found"])})
    await session.ask("go")
    assert "p.c3" in answer(world, session)
    assert world.heard(session).only(ToolExecutionEnd).is_error
    assert world.heard(session).of(SubagentStart) == []


@pytest.mark.long
async def test_whoever_says_stop_again_waits_for_the_same_end() -> None:
    alive: list[list[str]] = []

    async def stop(world: World, session: SessionHandle) -> None:
        await session.stop(command="stop")
        alive.append(ids(world))

    async with open_world(TestJournal(commit=1.0)) as world:
        session = await world.spawn([task()], "p", agents={"finder": agent([say("late", delay=100.0)])})
        await begun(session)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stop, world, session)
            await until(lambda: session.inspect().stop_reason)
            nursery.start_soon(stop, world, session)
        assert alive == [[], []]


@pytest.mark.long
async def test_a_stop_that_the_end_of_the_process_overtakes_says_so() -> None:
    raised: list[SessionParked] = []

    async def stop(session: SessionHandle) -> None:
        try:
            await session.stop()
        except SessionParked as error:
            raised.append(error)

    spec = SessionSpec(model=ScriptedModel([task()]), agents={"finder": agent([say("late", delay=100.0)])})
    async with trio.open_nursery() as nursery, open_supervisor(journal=TestJournal(commit=1.0)) as supervisor:
        session = await supervisor.spawn(spec, "p")
        await begun(session)
        nursery.start_soon(stop, session)
        await until(lambda: session.inspect().stop_reason)
    assert raised == [SessionParked("p")]


async def test_the_end_of_the_supervisor_ends_them_first() -> None:
    async with open_world() as world:
        session = await world.spawn([task()], "p", agents={"finder": agent([say("late", delay=100.0)])})
        await begun(session)
    assert world.heard(session).names[-1] == "SessionEnded"
    assert "SubagentEnd" in world.heard(session).names


async def test_a_sub_agent_that_does_not_end_holds_nobody_up_for_long(world: World) -> None:
    finder = agent([say(calls=[call("shielded")])], tools=[shielded(seconds=500.0)], shutdown=1.0)
    session = await world.spawn([task()], "p", agents={"finder": finder})
    await session.prompt("go")
    await until(lambda: "p.c3" in ids(world) and world.supervisor.session("p.c3").status().phase == "executing_tools")
    time = trio.current_time()
    await session.stop()
    assert trio.current_time() - time < 3.0
    assert ids(world) == []
    await trio.sleep(600)


# In the background


async def test_a_task_in_the_background_does_not_hold_up_the_turn(world: World) -> None:
    finder = agent([say("under the sofa", delay=25.0)])
    script = [task(background=True), "meanwhile", say(calls=[call("task_result", {"task": "p.c3"})]), "thanks"]
    model = ScriptedModel(script)
    session = await world.spawn(model, "p", agents={"finder": finder})
    assert (await session.ask("go")).text == "meanwhile"
    (shown_task,) = session.tasks()
    assert (shown_task.child, shown_task.agent, shown_task.status, shown_task.background) == (
        "p.c3",
        "finder",
        "running",
        True,
    )
    assert session.inspect().has_running_work
    assert (await session.ask("and?")).text == "thanks"
    assert [end.text for end in world.heard(session).of(ToolExecutionEnd)][1:] == ["under the sofa"]
    assert [task.status for task in session.tasks()] == ["done"]


async def test_a_task_in_the_background_can_be_cancelled_by_model_and_handle(world: World) -> None:
    late = {"finder": agent(ScriptedModel([say("late", delay=500.0)], repeat_last=True, name="child"))}
    script: list[Element] = [
        say(calls=[call("task", {"agent": "finder", "description": d, "prompt": d, "background": True}) for d in "ab"]),
        say(calls=[call("task_list")]),
        say(calls=[call("task_cancel", {"task": "p.c3"})]),
        "fine",
    ]
    session = await world.spawn(script, "p", agents=late)
    await session.ask("go")
    listed, cancelled = (end.text for end in world.heard(session).of(ToolExecutionEnd)[-2:])
    assert sorted(listed.splitlines()) == ["p.c3 (finder): running: a", "p.c4 (finder): running: b"]
    assert cancelled == "the task `p.c3` has ended"
    await session.cancel_task("p.c4")
    assert ids(world) == ["p"]
    await settle()  # it has ended, and the record of its parent that says so follows
    assert [task.status for task in session.tasks()] == ["failed", "failed"]
    with pytest.raises(UnknownTask, match=r"no sub-agent `p.c9` is known here \(known are: "):
        await session.task_result("p.c9")


async def test_a_task_in_the_background_has_a_limit_too(world: World) -> None:
    finder = agent([say("never", delay=1000.0)])
    spec = {"agents": {"finder": finder}, "max_agent_seconds": 30.0}
    session = await world.spawn([task(background=True), "meanwhile"], "p", **spec)
    await session.ask("go")
    result = await session.task_result("p.c3")
    assert "the turn took longer than 30 s" in str(result)


async def test_an_abort_of_everything_stops_the_background_too(world: World) -> None:
    session = await world.spawn(
        [task(background=True), "meanwhile"], "p", agents={"finder": agent([say("late", delay=500.0)])}
    )
    await session.ask("go")
    await session.abort()
    assert ids(world) == ["p", "p.c3"]
    await session.abort(kill_tools="all")
    await settle()
    assert ids(world) == ["p"]


async def test_a_session_without_sub_agents_knows_no_tasks(world: World) -> None:
    session = await world.spawn(["hello"])
    assert session.tasks() == ()
    with pytest.raises(UnknownTask):
        await session.cancel_task("p.c3")


# Answers in a form


FORM = {"type": "object", "properties": {"room": {"type": "string"}}, "required": ["room"]}


async def test_an_answer_can_have_a_form(world: World) -> None:
    model = ScriptedModel(['```json\n{"room": "kitchen"}\n```'], name="child")
    session = await world.spawn([task(), "fine"], "p", agents={"finder": agent(model, returns=FORM)})
    await session.ask("go")
    (part,) = world.heard(session).only(ToolExecutionEnd).content
    assert getattr(part, "data", None) == {"room": "kitchen"}
    (tool,) = model.requests[0].tools
    assert (tool.name, tool.parameters) == ("answer", freeze(FORM))


@pytest.mark.long
@pytest.mark.parametrize(
    "written",
    ["[" * 100_000, '{"room":' * 100_000, "```json" + "\n" * 20_000 + "x", "```json\n" + "\n```x" * 20_000],
    ids=["lists", "objects", "an empty fence", "many fences"],
)
async def test_an_answer_that_is_made_to_take_long_is_asked_for_once_more(world: World, written: str) -> None:
    model = ScriptedModel([written, '```\n\n{"room":\n"kitchen"}\n\n ``` \n'], name="child")
    session = await world.spawn([task(), "fine"], "p", agents={"finder": agent(model, returns=FORM)})
    assert (await session.ask("go")).text == "fine"
    (part,) = world.heard(session).only(ToolExecutionEnd).content
    assert getattr(part, "data", None) == {"room": "kitchen"}
    assert "Your answer does not fit the form that was asked for: it is no JSON" in str(model.requests[1].messages[-1])


async def test_an_answer_that_never_fits_is_an_error(world: World) -> None:
    finder = agent(["the kitchen", '{"floor": 1}', "{}"], returns=FORM)
    session = await world.spawn([task(), "fine"], "p", agents={"finder": finder})
    assert (await session.ask("go")).text == "fine"
    assert answer(world, session).startswith("the sub-agent failed: the answer to prompt `p1` does not fit `returns`")
    assert "room" in answer(world, session)


async def test_a_sub_agent_without_an_answer_in_its_form_is_an_error(world: World) -> None:
    finder = agent([say(calls=[call("look", {"path": "a"})]), "the kitchen"], returns=FORM, max_rounds=1)
    session = await world.spawn([task(), "fine"], "p", agents={"finder": finder})
    assert (await session.ask("go")).text == "fine"
    assert answer(world, session) == "the sub-agent stopped without an answer in its form (max_rounds)"


async def test_whoever_asks_hears_that_the_turn_was_aborted(world: World) -> None:
    session = await world.spawn([task()], "p", agents={"finder": agent([say("late", delay=100.0)])})
    async with trio.open_nursery() as nursery:

        async def ask() -> None:
            with pytest.raises(TurnAborted):
                await session.ask("go")

        nursery.start_soon(ask)
        await until(lambda: len(ids(world)) == 2)
        await session.abort()


async def test_guards_may_hold_the_task_itself(world: World) -> None:
    plugins = [HumanApproval(tools=["task"])]
    session = await world.spawn([task(), "fine"], "p", agents={"finder": agent(["found"])}, plugins=plugins)
    (held,) = (await session.ask("go")).held
    assert (held.tool, held.path) == ("task", ())
    await session.approve(held.id)
    await until(lambda: not session.inspect().turn)
    assert world.heard(session).only(SubagentEnd).text == "found"

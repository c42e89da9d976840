"""An actor that crashes is restarted from its records; its mailbox, its work and its subscribers are kept."""

import pytest
import trio

from agentrail import ChildView, Context, Continue, Plugin, SessionDown, SessionHandle, open_supervisor
from agentrail.core.supervision_rules import STRATEGIES, Strategy
from agentrail.errors import CommandSetAside, IllegalInput, SessionCrashed, TurnAborted
from agentrail.events import InputQuarantined, SessionQuarantined, SessionRestarted, ToolExecutionEnd
from agentrail.journals import MemoryJournal, Record
from agentrail.models import ToolMessage
from agentrail.plugins import AfterResponse, BeforePrompt, BudgetGuard
from agentrail.runtime.inbox.letter import Letter
from agentrail.runtime.shared.reply_slot import Slot
from agentrail.testing import ScriptedModel, call, say
from agentrail.values.value import Value
from tests.kit import Failpoint, Refused, watching
from tests.runtime.journals import BROKEN, BROKEN_CAUSE, TestJournal
from tests.runtime.poison import POISONED, OurBug, Poison, PoisonedResponse, crash_this_step
from tests.runtime.tools import quick, slow
from tests.runtime.world import World, check_records, open_world, settle, spec_of


class Failing:
    """Makes the first *count* commits of one kind of input fail."""

    def __init__(self, count: int, what: str) -> None:
        self.left = count
        self.what = what

    def __call__(self, record: Record) -> Exception | None:
        if type(record.arrival.input).__name__ != self.what or not self.left:
            return None
        self.left -= 1
        return BROKEN


def times(count: int, what: str = "PromptSent") -> Failing:
    return Failing(count, what)


def view(world: World, session: SessionHandle) -> ChildView:
    (found_child,) = (child for child in world.supervisor.tree().children if child.name == session.id)
    return found_child


async def test_the_message_in_hand_is_given_again() -> None:
    journal = TestJournal()
    async with open_world(journal) as world:
        session = await world.spawn(["fine", "fine again"])
        journal.failing = times(1)
        assert (await session.ask("go")).text == "fine"
        assert world.heard(session).names[:3] == ["SessionStarted", "SessionRestarted", "PromptReceived"]
        assert world.heard(session).only(SessionRestarted).cause == BROKEN_CAUSE
        assert (await session.ask("and now?")).text == "fine again"
        assert view(world, session).restarts == 1


async def test_the_crash_of_a_session_that_ends_its_program_is_told_also_afterwards() -> None:
    journal = TestJournal()
    sessions: list[SessionHandle] = []

    async def body() -> None:
        async with open_supervisor(journal=journal) as supervisor:
            sessions.append(await supervisor.spawn(spec_of(ScriptedModel([])), "mine"))
            journal.failing = lambda _: KeyboardInterrupt()  # type: ignore[assignment,return-value]
            with pytest.raises(SessionCrashed):
                await sessions[0].prompt("go")
            await trio.sleep_forever()

    with pytest.RaisesGroup(KeyboardInterrupt, flatten_subgroups=True, allow_unwrapped=True):
        await body()
    with pytest.raises(SessionCrashed, match="KeyboardInterrupt"):
        await sessions[0].prompt("go")


async def test_it_is_given_again_if_the_crash_came_before_its_step_too(world: World) -> None:
    session = await world.spawn(["fine"])
    crash_this_step(Failpoint.ANSWER_LOOKED_UP)
    assert (await session.ask("go", command="c")).text == "fine"
    assert [event.cause for event in world.heard(session).of(SessionRestarted)] == [POISONED]


async def test_a_restart_that_crashes_itself_is_reported_once() -> None:
    journal = TestJournal()
    async with open_world(journal) as world:
        session = await world.spawn(["fine"])
        crash_this_step(Failpoint.ANSWER_LOOKED_UP)
        journal.failing = times(1, "ActorRestarted")
        assert (await session.ask("go", command="c")).text == "fine"
        assert len(world.heard(session).of(SessionRestarted)) == 1


async def test_what_was_written_before_the_crash_is_not_done_twice() -> None:
    journal = TestJournal()
    async with open_world(journal) as world:
        session = await world.spawn(["fine"])
        journal.fails_after = times(1)
        assert (await session.ask("go")).text == "fine"
        assert world.heard(session).names.count("PromptReceived") == 1
        assert world.heard(session).names[1:4] == ["PromptReceived", "AgentStart", "RequestStart"]


class Once(Value, eq=False):
    """A plugin state whose first comparison raises."""

    number: int = 0

    def __eq__(self, other: object) -> bool:
        if not COMPARED:
            COMPARED.append(other)
            raise OurBug
        return isinstance(other, Once) and other.number == self.number

    def __hash__(self) -> int:
        return self.number


COMPARED: list[object] = []


class Counts(Plugin[Once]):
    """Counts prompts in such a state."""

    def init(self, ctx: Context) -> Once:
        return Once()

    def before_prompt(self, hook: BeforePrompt, state: Once, ctx: Context) -> Continue[Once]:
        return Continue(Once(state.number + 1))


async def test_a_crash_while_it_comes_back_loses_nothing_of_what_was_written_before_the_first() -> None:
    COMPARED.clear()
    journal = TestJournal()
    async with open_world(journal) as world:
        session = await world.spawn(["fine"], plugins=[Counts()])
        journal.fails_after = times(1)
        assert (await session.ask("go")).text == "fine"
        assert len(COMPARED) == 1
        assert world.heard(session).names.count("PromptReceived") == 1


@pytest.mark.parametrize("point", ["PUBLISH", "PUBLISHED", "ANSWER", "ANSWERED"])
async def test_what_was_written_before_the_crash_is_seen_and_answered_once(world: World, point: str) -> None:
    full_session = await world.spawn(["fine", "well"])
    session = await world.spawn(["fine", "well"])
    for item in (full_session, session):
        if item is session:
            crash_this_step(Failpoint[point])
        assert [(await item.ask(text)).text for text in ("go", "and?")] == ["fine", "well"]
    await settle()
    heard = [name for name in world.heard(session).names if name != "SessionRestarted"]
    assert heard == world.heard(full_session).names
    assert len(world.heard(session).names) == len(heard) + 1


async def test_a_response_that_was_written_before_the_crash_is_shown_once(world: World) -> None:
    class Late(Plugin):
        def after_response(self, hook: AfterResponse, state: None, ctx: Context) -> Continue[None]:
            crash_this_step(Failpoint.PUBLISHED)
            return Continue()

    session = await world.spawn(["fine"], plugins=[Late()])
    assert (await session.ask("go")).text == "fine"
    await settle()
    assert world.heard(session).names.count("ResponseComplete") == 1
    assert [report.done for report in world.supervisor.crashes()] == ["restarted"]


async def test_plugins_remember_what_they_knew_also_if_it_was_written_and_read() -> None:
    journal = TestJournal(inner=lambda: MemoryJournal(encode=True))
    async with open_world(journal) as world:
        session = await world.spawn(["fine", "fine again"], plugins=[BudgetGuard(max_rounds=2)])
        assert (await session.ask("go")).text == "fine"
        journal.failing = times(1)
        assert (await session.ask("and now?")).text == "fine again"
        assert world.heard(session).of(SessionRestarted) == [SessionRestarted(BROKEN_CAUSE)]
        with pytest.raises(TurnAborted, match="max_rounds=2 is used up"):
            await session.ask("once more")


async def kinds(journal: TestJournal, session: SessionHandle) -> list[str]:
    """Return the kinds of the inputs that are journaled, after the first."""
    return [type(record.arrival.input).__name__ for record in await journal.read(session.id, 1)]


async def test_results_whose_commit_fails_are_handled_one_by_one() -> None:
    journal = TestJournal()
    async with open_world(journal) as world:
        session = await world.spawn(
            [say(calls=[call("quick", {"n": number}) for number in range(3)]), "next"], tools=[quick()]
        )
        journal.failing = times(1, "CallsEnded")
        reply = await session.ask("go")
        assert [message.text for message in reply.messages if isinstance(message, ToolMessage)] == ["done"] * 3
        report = await kinds(journal, session)
        assert report == [
            *("PromptSent", "StreamEnded", "ActorRestarted"),
            *("ToolReturned", "ToolReturned", "ToolReturned"),
            "StreamEnded",
        ]
        heard = world.heard(session)
        assert len(heard.of(ToolExecutionEnd)) == 3
        assert heard.of(SessionRestarted) == [SessionRestarted(BROKEN_CAUSE)]


async def test_results_that_were_written_before_a_crash_are_shown_once() -> None:
    journal = TestJournal()
    async with open_world(journal) as world:
        session = await world.spawn(
            [say(calls=[call("quick", {"n": number}) for number in range(3)]), "next"], tools=[quick()]
        )
        journal.fails_after = times(1, "CallsEnded")
        assert (await session.ask("go")).text == "next"
        assert await kinds(journal, session) == [
            "PromptSent",
            "StreamEnded",
            "CallsEnded",
            "ActorRestarted",
            "StreamEnded",
        ]
        heard = world.heard(session)
        assert sorted(event.call_id for event in heard.of(ToolExecutionEnd)) == ["c3", "c4", "c5"]
        assert heard.of(SessionRestarted) == [SessionRestarted(BROKEN_CAUSE)]


async def test_what_runs_in_the_world_goes_on() -> None:
    journal = TestJournal()
    async with open_world(journal) as world:
        session = await world.spawn([say(calls=[call("slow")]), "done"], tools=[slow(seconds=5)])
        start = trio.current_time()
        await session.prompt("go")
        await trio.sleep(1)
        journal.failing = times(1, "SteerSent")
        await session.steer("hurry")
        async with session.monitor():
            await trio.sleep(20)
        assert world.heard(session).of(SessionRestarted) == [SessionRestarted(BROKEN_CAUSE)]
        assert session.messages()[-1].text == "done"
        assert trio.current_time() - start == pytest.approx(21)


async def test_a_command_that_crashes_the_actor_twice_is_put_aside_and_the_session_goes_on(world: World) -> None:
    session = await world.spawn(["one", "two"], "mine", plugins=[Poison()])
    await session.ask("first")
    for _ in range(5):  # more crashes than a session may have in this time
        with pytest.raises(CommandSetAside) as aside:
            await session.ask("die", command="once")
        assert aside.value == CommandSetAside("mine", "PromptSent", "OurBug: poison")
    assert (await session.ask("still there?")).text == "two"
    heard = world.heard(session)
    assert heard.of(SessionRestarted) == [SessionRestarted("OurBug: poison")] * 10
    assert heard.of(InputQuarantined) == [InputQuarantined("PromptSent", "OurBug: poison")] * 5
    assert [report.done for report in world.supervisor.crashes()] == ["restarted", "input_set_aside"] * 5
    assert view(world, session).state == "running"
    await check_records(world.journal, session)


async def test_a_command_that_was_put_aside_does_not_come_back_in_another_process() -> None:
    journal = TestJournal()
    spec = spec_of(ScriptedModel(["fine", "fine"]), plugins=[Poison()])
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(spec, "mine")
        await session.ask("go")
        with pytest.raises(CommandSetAside):
            await session.prompt("die", command="once")
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.resume("mine", spec)
        assert (await session.ask("and now?")).text == "fine"
        assert [message.text for message in session.messages()] == ["go", "fine", "and now?", "fine"]
        assert supervisor.crashes() == ()


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_a_command_that_is_put_aside_costs_the_others_one_restart_at_most(strategy: Strategy) -> None:
    async with open_supervisor(strategy=strategy) as supervisor:
        session = await supervisor.spawn(spec_of(ScriptedModel(["fine"]), plugins=[Poison()]), "mine")
        other = await supervisor.spawn(spec_of(ScriptedModel(["fine"])), "other")
        with pytest.raises(CommandSetAside):
            await session.prompt("die")
        assert [(await item.ask("go")).text for item in (session, other)] == ["fine", "fine"]


async def test_an_input_that_the_machine_cannot_take_is_refused_and_crashes_nothing(world: World) -> None:
    session = await world.spawn(["fine"], "mine")
    for input_ in ("hello", 5, object()):
        letter = Letter(input_, answer=Slot())  # type: ignore[arg-type]  # no handle posts one
        letter.input = input_  # type: ignore[assignment]
        mailbox = world.supervisor._sessions.handle("mine")._session.mailbox  # noqa: SLF001 - past the checks of the handle
        mailbox.post_user_nowait(letter)
        answer = await letter.answer.wait()
        assert isinstance(answer, Refused)
        assert isinstance(answer.error, IllegalInput)
    assert (await session.ask("go")).text == "fine"
    assert world.supervisor.crashes() == ()


async def test_a_result_that_kills_three_times_is_set_aside_with_its_session(world: World) -> None:
    session = await world.spawn(["one", "poison"], "mine", plugins=[PoisonedResponse()])
    await session.ask("first")
    async with session.monitor() as down:
        with pytest.raises(SessionCrashed) as crashed:
            await session.ask("second")
        assert await down.wait() == SessionDown("mine", "crashed: OurBug: poison")
    assert crashed.value == SessionCrashed("mine", "OurBug: poison")
    await settle()
    heard = world.heard(session)
    assert heard.of(SessionRestarted) == [SessionRestarted("OurBug: poison")] * 2
    assert heard.only(InputQuarantined) == InputQuarantined("StreamEnded", "OurBug: poison")
    assert heard.events[-1] == SessionQuarantined("OurBug: poison")
    assert len(session.messages()) == 3
    assert world.supervisor.session("mine") is session
    assert view(world, session).state == "quarantined"
    with pytest.raises(SessionCrashed):
        await session.prompt("still there?")
    assert [(report.done, report.restarts) for report in world.supervisor.crashes()] == [
        ("restarted", 0),
        ("restarted", 1),
        ("set_aside", 2),
    ]
    assert {report.input.split()[0] for report in world.supervisor.crashes()} == {"StreamEnded"}


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_one_that_cannot_come_back_is_set_aside_and_the_others_go_on(strategy: Strategy) -> None:
    def watcher(point: Failpoint) -> None:
        if point is Failpoint.APPEND:
            message = "poison"
            raise OurBug(message)

    async with open_supervisor(strategy=strategy) as supervisor:
        session = await supervisor.spawn(spec_of(ScriptedModel(["fine"])), "broken")
        with watching(watcher), pytest.raises(SessionCrashed):
            await session.prompt("go")
        assert [report.done for report in supervisor.crashes()] == [*["restarted"] * 3, "set_aside"]
        assert (await (await supervisor.spawn(spec_of(ScriptedModel(["fine"])))).ask("hi")).text == "fine"


async def test_the_first_restart_is_at_once_and_later_ones_wait_longer_and_longer() -> None:
    journal = TestJournal()
    restarts: list[float] = []
    async with open_world(journal) as world:
        session = await world.spawn(["fine"] * 4)
        for number in range(3):
            old_time = trio.current_time()
            journal.failing = times(1)
            await session.ask(f"{number}")
            restarts.append(trio.current_time() - old_time)
            assert view(world, session).state == "running"
    assert restarts[0] == 0
    assert 0.05 <= restarts[1] <= 0.1
    assert 0.1 <= restarts[2] <= 0.2


async def test_too_many_crashes_on_different_messages_set_the_session_aside() -> None:
    journal = TestJournal()
    async with open_world(journal) as world:
        session = await world.spawn(["fine"] * 4)
        for number in range(3):
            journal.failing = times(1)
            await session.ask(f"{number}")
        journal.failing = times(1)
        with pytest.raises(SessionCrashed):
            await session.ask("3")
        await settle()
        assert world.heard(session).of(InputQuarantined) == []
        assert world.heard(session).only(SessionQuarantined).cause == BROKEN_CAUSE
        await check_records(journal, session)


async def test_a_temporary_session_is_not_started_again() -> None:
    journal = TestJournal()
    async with open_world(journal) as world:
        session = await world.supervisor.spawn(spec_of(ScriptedModel([])), "mine", restart="temporary")
        journal.failing = times(1)
        with pytest.raises(SessionCrashed, match="KeyError: 0"):
            await session.prompt("go")
        assert world.supervisor.sessions() == ()
        assert [report.done for report in world.supervisor.crashes()] == ["given_up"]

"""With a journal that writes at once, a step is made in the pass of whoever posts the letter."""

from collections.abc import AsyncIterator
from contextvars import ContextVar
from functools import partial

import pytest
import trio
import trio.testing

from agentrail import Context, Continue, Plugin, Supervisor, open_supervisor
from agentrail.errors import Fenced
from agentrail.journals import MemoryJournal
from agentrail.plugins import BeforePrompt
from agentrail.runtime.handle import ask_at_once
from agentrail.runtime.inbox.end_reason import TAKEN
from agentrail.testing import ScriptedModel, say
from tests.kit import Failpoint, watching
from tests.runtime.poison import crash_this_step
from tests.runtime.world import spec_of


@pytest.fixture
async def supervisor() -> AsyncIterator[Supervisor]:
    async with open_supervisor() as opened:
        yield opened


WHO: ContextVar[str] = ContextVar("WHO", default="nobody")


async def count_passes(passes: list[None]) -> None:
    while True:
        passes.append(None)
        await trio.lowlevel.checkpoint()


async def test_a_prompt_is_answered_in_the_pass_in_which_it_is_sent(supervisor: Supervisor) -> None:
    session = await supervisor.spawn(spec_of(ScriptedModel(["one"])))
    passes: list[None] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(count_passes, passes)
        await trio.lowlevel.checkpoint()
        old_count = len(passes)
        await session.prompt("hi")
        assert len(passes) == old_count
        nursery.cancel_scope.cancel()


async def test_commands_that_are_sent_one_after_the_other_let_all_other_tasks_run(supervisor: Supervisor) -> None:
    session = await supervisor.spawn(spec_of(ScriptedModel(["one"])))
    passes: list[None] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(count_passes, passes)
        for _ in range(100):
            await session.abort()
        assert len(passes) >= 99
        for _ in range(100):
            await session.label(["so"])
        assert len(passes) >= 99 + 100 // 8
        nursery.cancel_scope.cancel()


async def test_a_step_that_crashes_is_the_crash_of_the_session_and_not_of_the_caller(supervisor: Supervisor) -> None:
    session = await supervisor.spawn(spec_of(ScriptedModel(["one", "two"])))
    crash_this_step()
    assert (await session.ask("hi")).text == "one"
    (report,) = supervisor.crashes()
    assert (report.done, report.input.partition(" ")[0]) == ("restarted", "PromptSent")
    assert (await session.ask("and?")).text == "two"


class Sees(Plugin[str]):
    """Notes in whose context its hook runs."""

    def init(self, ctx: Context) -> str:
        return ""

    def before_prompt(self, hook: BeforePrompt, state: str, ctx: Context) -> Continue[str]:
        return Continue(state + WHO.get() + " ")


async def test_hooks_have_the_context_variables_of_the_session_whoever_sends(supervisor: Supervisor) -> None:
    WHO.set("spawner")
    session = await supervisor.spawn(spec_of(ScriptedModel(["one", "two"]), plugins=[Sees()]))
    WHO.set("caller")
    await session.ask("hi")
    await session.ask("and?")
    assert session.inspect().plugin_states[0] == "spawner spawner "


async def test_letters_that_a_step_posts_are_handled_after_it(supervisor: Supervisor) -> None:
    """A session whose response ends in the pass of its prompt has one step after the other."""
    session = await supervisor.spawn(spec_of(ScriptedModel(["yes"], repeat_last=True)))
    async with trio.open_nursery() as nursery:
        for number in range(50):
            nursery.start_soon(partial(session.ask, f"prompt {number}"))
    texts = [message.text for message in session.messages()]
    assert texts[1::2] == ["yes"] * 50
    assert sorted(texts[::2]) == sorted(f"prompt {number}" for number in range(50))


def tasks() -> int:
    """Return how many tasks there are."""
    return trio.lowlevel.current_statistics().tasks_living


async def test_an_idle_session_has_no_task_and_is_stopped_in_order(supervisor: Supervisor) -> None:
    old_tasks = tasks()
    sessions = [await supervisor.spawn(spec_of(ScriptedModel(["one", "two"])), f"s{number}") for number in range(100)]
    await trio.testing.wait_all_tasks_blocked()
    assert tasks() == old_tasks
    for session in sessions[:10]:
        assert (await session.ask("hi")).text == "one"
    assert [child.state for child in supervisor.tree().children] == ["running"] * 100
    for session in sessions[:50]:
        await session.stop()
    assert [session.id for session in supervisor.sessions()] == [f"s{number}" for number in range(50, 100)]


async def test_an_abort_that_is_journaled_in_its_pass_wakes_no_timer(supervisor: Supervisor) -> None:
    session = await supervisor.spawn(spec_of(ScriptedModel(["one"])))
    reached: list[Failpoint] = []
    with watching(reached.append):
        await session.abort()
        await session.stop()
    assert Failpoint.ANSWERED in reached
    assert Failpoint.TIMER_SET not in reached


class CountTasks(trio.abc.Instrument):
    """Counts the tasks that are started."""

    def __init__(self) -> None:
        self.count = 0

    def task_spawned(self, task: trio.lowlevel.Task) -> None:
        """Count one."""
        self.count += 1


async def test_the_end_of_one_that_rests_needs_no_task_and_frees_its_id(supervisor: Supervisor) -> None:
    session = await supervisor.spawn(spec_of(ScriptedModel(["one"])), "it")
    await trio.testing.wait_all_tasks_blocked()
    tasks = CountTasks()
    trio.lowlevel.add_instrument(tasks)
    await session.stop()
    trio.lowlevel.remove_instrument(tasks)
    assert (tasks.count, supervisor.tree().children, supervisor.crashes()) == (0, (), ())
    await supervisor.spawn(spec_of(ScriptedModel(["one"])), "it")


async def test_the_end_of_many_that_rest_lets_all_other_tasks_run() -> None:
    passes: list[None] = []
    async with trio.open_nursery() as nursery:
        async with open_supervisor() as supervisor:
            for _ in range(50):
                await supervisor.spawn(spec_of(ScriptedModel(["one"])))
            nursery.start_soon(count_passes, passes)
            await trio.lowlevel.checkpoint()
        assert len(passes) >= 50
        nursery.cancel_scope.cancel()


async def test_one_that_crashes_while_it_is_stopped_is_started_again_and_then_stopped(supervisor: Supervisor) -> None:
    session = await supervisor.spawn(spec_of(ScriptedModel(["one"])), "it")
    await trio.testing.wait_all_tasks_blocked()
    crash_this_step()
    await session.stop()
    (report,) = supervisor.crashes()
    assert (report.done, report.input.partition(" ")[0]) == ("restarted", "StopSent")
    assert supervisor.tree().children == ()


async def test_one_that_rests_ends_when_it_is_taken_over() -> None:
    journal = MemoryJournal()
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(spec_of(ScriptedModel(["one"])), "s")
        await trio.testing.wait_all_tasks_blocked()
        async with open_supervisor(journal=journal) as other, session.monitor() as monitor:
            again = await other.resume("s", spec_of(ScriptedModel(["two"])), take_over=True)
            assert (await again.ask("hi")).text == "two"
            with pytest.raises(Fenced):
                await session.ask("hi")
            assert (await monitor.wait()).reason == TAKEN


async def test_who_asks_for_the_reply_once_the_session_is_elsewhere_gets_why_it_is_gone() -> None:
    journal = MemoryJournal()
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(spec_of(ScriptedModel([say("late", delay=100.0)])), "s")
        sent = await ask_at_once(session, "hi")
        with trio.move_on_after(1):
            await sent.reply()
        async with open_supervisor(journal=journal) as other, session.monitor() as monitor:
            await other.resume("s", spec_of(ScriptedModel(["two"])), take_over=True)
            await monitor.wait()
            with trio.fail_after(5), pytest.raises(Fenced):
                await sent.reply()


async def test_prompts_with_command_ids_pass_a_crowded_gate(supervisor: Supervisor) -> None:
    sessions = [
        await supervisor.spawn(spec_of(ScriptedModel(["yes"], repeat_last=True)), f"s{number}") for number in range(100)
    ]
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            for session in sessions:
                for number in range(2):
                    nursery.start_soon(partial(session.ask, "go", command=f"c{number}"))
    assert [session.messages()[-1].text for session in sessions] == ["yes"] * 100

"""After a restart, a session lists the sub-agents in the background that had ended before."""

from collections.abc import Iterable
from pathlib import Path

import pytest
import trio

from agentrail import SessionHandle, SessionSpec, Task, open_supervisor
from agentrail.core.vocabulary.tool_calls import MAX_ENDED_TASKS
from agentrail.journals import SqliteJournal
from agentrail.models import Text, ToolMessage
from agentrail.testing import ScriptedModel, call, permanent, say, stall
from agentrail.tools import Err
from tests.kit import Element

pytestmark = pytest.mark.long


def agent(*script: Element) -> SessionSpec:
    return SessionSpec(model=ScriptedModel(script, name="finder", repeat_last=True), description="Finds things.")


def spec(script: Iterable[Element]) -> SessionSpec:
    agents = {"quick": agent("found"), "broken": agent(permanent("no such place")), "slow": agent(stall())}
    return SessionSpec(model=ScriptedModel(script), agents=agents, max_rounds=1_000)


def begin(name: str, description: str) -> Element:
    return say(calls=[call("task", {"agent": name, "description": description, "prompt": "go", "background": True})])


async def tasks_of(session: SessionHandle, *running: str) -> tuple[Task, ...]:
    """Return the list of tasks, once no agents are under way but *running*."""
    with trio.fail_after(60):
        while [subagent.agent for subagent in session.inspect().subagents] != [*running]:  # noqa: ASYNC110 - nobody sets one
            await trio.sleep(0.01)
    return session.tasks()


async def listed(session: SessionHandle) -> str:
    """Return what the tool tells the model, whose script goes on with `LIST`."""
    reply = await session.ask("which are there?")
    return next(message.text for message in reply.messages if isinstance(message, ToolMessage))


LIST = (say(calls=[call("task_list")]), "those")


async def test_those_that_have_ended_and_one_under_way_are_listed_as_before(tmp_path: Path) -> None:
    script = [begin("quick", "tea"), begin("broken", "rum"), "fine", begin("quick", "milk"), begin("slow", "gin"), "so"]
    async with open_supervisor(journal=SqliteJournal(tmp_path / "j.db")) as supervisor:
        session = await supervisor.spawn(spec([*script, *LIST]), "p")
        await session.ask("go")
        await tasks_of(session)
        await session.ask("and more")
        old_tasks = await tasks_of(session, "slow")
        report = await listed(session)
    actual = [(task.description, task.agent, task.background, task.status) for task in old_tasks]
    assert sorted(actual) == [
        ("gin", "slow", True, "running"),
        ("milk", "quick", True, "done"),
        ("rum", "broken", True, "failed"),
        ("tea", "quick", True, "done"),
    ]
    async with open_supervisor(journal=SqliteJournal(tmp_path / "j.db")) as supervisor:
        session = await supervisor.resume("p", spec(LIST))
        assert session.tasks() == old_tasks
        assert await listed(session) == report
        results = {task.description: await session.task_result(task.child) for task in old_tasks[:-1]}
        assert results["tea"].content == results["milk"].content == (Text("found"),)
        assert isinstance(results["rum"], Err)
        await session.cancel_task(old_tasks[-1].child)
        assert await tasks_of(session) == (*old_tasks[:-1], old_tasks[-1].but(status="failed"))


async def test_of_those_that_ended_in_several_processes_the_last_32_are_listed(tmp_path: Path) -> None:
    names = [f"task {number}" for number in range(40)]
    old_tasks: tuple[Task, ...] = ()
    for more in (names[:20], names[20:], []):
        async with open_supervisor(journal=SqliteJournal(tmp_path / "j.db")) as supervisor:
            full = spec([*(begin("quick", name) for name in more), "fine"])
            session = await (supervisor.resume("p", full) if old_tasks else supervisor.spawn(full, "p"))
            assert session.tasks() == old_tasks
            await session.ask("go")
            old_tasks = await tasks_of(session)
    actual = [(task.description, task.status) for task in old_tasks]
    assert sorted(actual) == sorted((name, "done") for name in names[-MAX_ENDED_TASKS:])

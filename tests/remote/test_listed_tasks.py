"""The list of sub-agents over HTTP is that of the session, also after a restart of the host."""

from __future__ import annotations

import trio

from agentrail import RemoteSession, SessionSpec, Task, connect
from agentrail.host import Profile
from agentrail.journals import MemoryJournal
from agentrail.models import Json, Text
from agentrail.testing import ScriptedModel, call, permanent, say
from agentrail.tools import Err
from tests.host.hosted import KEYS, open_desk
from tests.kit import Element


def delegating_spec(*script: Element) -> SessionSpec:
    agents = {
        "quick": SessionSpec(model=ScriptedModel(["found"], name="quick"), description="Finds."),
        "broken": SessionSpec(model=ScriptedModel([permanent()], name="broken"), description="Breaks."),
    }
    return SessionSpec(model=ScriptedModel(list(script)), agents=agents)


async def ended(session: RemoteSession) -> tuple[Task, ...]:
    """Return the list of tasks, once both have ended."""
    while {task.status for task in await session.tasks()} != {"done", "failed"}:  # noqa: ASYNC110 - nobody sets one
        await trio.sleep(0.02)
    return await session.tasks()


async def test_those_that_ended_before_a_restart_are_listed_whether_the_session_runs_or_not() -> None:
    journal = MemoryJournal()
    args: dict[str, Json] = {"description": "look", "prompt": "go", "background": True}
    both = say(calls=[call("task", {"agent": name, **args}) for name in ("quick", "broken")])
    with trio.fail_after(120):
        async with (
            open_desk([Profile("desk", delegating_spec(both, "started"))], journal=journal) as desk,
            connect(desk.serving.url, KEYS["ann"]) as supervisor,
        ):
            session = await supervisor.spawn("desk", "trip")
            await session.ask("go")
            earlier = await ended(session)
        model = ScriptedModel(["well"])
        async with (
            open_desk([Profile("desk", delegating_spec().but(model=model))], journal=journal) as desk,
            connect(desk.serving.url, KEYS["ann"]) as supervisor,
        ):
            session = supervisor.session("trip")
            assert await session.tasks() == earlier
            assert (await session.ask("and?")).text == "well"
            assert await session.tasks() == earlier
            results = {task.agent: await session.task_result(task.child) for task in earlier}
            assert (results["quick"].content[0], isinstance(results["broken"], Err)) == (Text("found"), True)

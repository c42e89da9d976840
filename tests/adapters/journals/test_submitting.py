"""Sessions whose journal is a file: they have no task while a record is being written."""

from contextvars import ContextVar
from pathlib import Path

import trio
import trio.testing

from agentrail import Context, Continue, Plugin, SessionSpec, open_supervisor
from agentrail.journals import SqliteJournal
from agentrail.plugins import BeforePrompt
from agentrail.testing import ScriptedModel, stall

WHO: ContextVar[str] = ContextVar("WHO", default="nobody")


class Sees(Plugin[str]):
    """Notes in whose context its hook runs."""

    def init(self, ctx: Context) -> str:
        return ""

    def before_prompt(self, hook: BeforePrompt, state: str, ctx: Context) -> Continue[str]:
        return Continue(state + WHO.get() + " ")


async def test_hooks_have_the_context_variables_of_the_session_also_after_a_write(tmp_path: Path) -> None:
    WHO.set("spawner")
    async with open_supervisor(journal=SqliteJournal(tmp_path / "j.db")) as supervisor:
        session = await supervisor.spawn(SessionSpec(model=ScriptedModel(["one", "two", "three"]), plugins=[Sees()]))
        WHO.set("caller")
        async with trio.open_nursery() as nursery:
            for text in ("hi", "and?", "then?"):
                nursery.start_soon(session.ask, text)
        assert session.inspect().plugin_states[0] == "spawner " * 3


async def test_sessions_in_a_file_have_no_task_while_they_are_idle_or_wait_for_a_model(tmp_path: Path) -> None:
    async with open_supervisor(journal=SqliteJournal(tmp_path / "j.db")) as supervisor:
        before = tasks()
        models = [ScriptedModel([stall()]) for _ in range(20)]
        sessions = [
            await supervisor.spawn(SessionSpec(model=model), f"s{number}") for number, model in enumerate(models)
        ]
        await trio.testing.wait_all_tasks_blocked()
        assert tasks() == before
        for session in sessions[:10]:
            await session.prompt("hi")
        await trio.testing.wait_all_tasks_blocked()
        assert tasks() == before + 10  # the requests
        assert [child.state for child in supervisor.tree().children] == ["running"] * 20
        for session in sessions:
            await session.stop()
        assert tasks() == before


def tasks() -> int:
    """Return how many tasks there are."""
    return trio.lowlevel.current_statistics().tasks_living

"""Options of plugins of sub-agents: updates and pins last when the sub-agent ends, crashes or comes back."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from attrs import evolve, field, frozen

from agentrail import Ask, Context, Continue, Plugin, Priority, SessionHandle, SessionSpec, Supervisor, open_supervisor
from agentrail.events import PluginOptsUpdated
from agentrail.journals import Journal, SqliteJournal
from agentrail.models import Json
from agentrail.plugins import CallService, HumanApproval, Keyed, SessionStart
from agentrail.runtime.supervision.children import SessionRunner
from agentrail.testing import call, say
from tests.runtime.families import task
from tests.runtime.journals import AwakeJournal, TestJournal
from tests.runtime.test_options_return import Changes, Loose, Strict
from tests.runtime.test_restarting import times
from tests.runtime.test_subagents_back import Next, events_of, over
from tests.runtime.tools import quick
from tests.runtime.world import until

CHILD = "p.c3"


@frozen
class Bound(Strict):
    """A guard that binds sub-agents too."""

    priority = Priority.SECURITY + 50


BOUND, STRICT = Bound(), Strict()


@frozen
class Waits(Plugin[None]):
    """Lets a session start when its service `gate` lets it: so its options can be updated before its one turn."""

    def session_start(self, hook: SessionStart, state: None, ctx: Context) -> Continue[None] | Ask[None]:
        return Continue() if hook.asked else Ask(CallService("gate"), deadline=3600.0)


@frozen
class Code:
    """The plugins in the code: the parent's guard, and two of one class for the sub-agent."""

    guard: Loose = BOUND
    first: Loose = STRICT
    second: Loose = STRICT
    gate: trio.Event | None = field(default=None, eq=False)

    def spec(self) -> SessionSpec:
        """Return a parent whose sub-agent needs an approval; it starts when `gate` is set, if there is one."""

        async def gate(_: Json) -> Json:
            if self.gate is not None:
                await self.gate.wait()
            return None

        finder = SessionSpec(
            description="Finds things.",
            model=Next("child", say(calls=[call("quick")]), say("it is found")),
            tools=[quick()],
            plugins=[
                HumanApproval(tools=("quick",), timeout=None),
                Keyed("a", self.first),
                Keyed("b", self.second),
                Waits(),
            ],
            services={"gate": gate},
        )
        request = task()
        assert not callable(request)
        model = Next("parent", request, say("fine"))  # type: ignore[arg-type]  # it is no text
        return SessionSpec(model=model, agents={"finder": finder}, plugins=[self.guard])


@pytest.fixture(params=["memory", "sqlite"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Journal]:
    """Return a function that opens the journal; each call opens the file on disk anew."""
    memory = TestJournal()
    path = tmp_path / "agentrail.db"
    return (lambda: memory) if request.param == "memory" else lambda: AwakeJournal(SqliteJournal(path))


@asynccontextmanager
async def process(journal: Journal) -> AsyncGenerator[Supervisor]:
    async with open_supervisor(journal=journal) as supervisor:
        yield supervisor


def options_of(session: SessionHandle) -> dict[str, Loose]:
    """Return the plugins of a session by their keys; check that its attached plugins have the same options."""
    values: dict[str, Loose] = {}
    for attached in session.inspect().plugins:
        plugin = session._session.code.hook_runner.plugin(attached)  # noqa: SLF001 - what rules
        if isinstance(plugin, Loose):
            values[attached.key] = plugin
            assert {name: attached.options[name] for name in ("one", "two")} == {"one": plugin.one, "two": plugin.two}
    return values


async def held(session: SessionHandle, supervisor: Supervisor) -> SessionHandle:
    """Return the sub-agent when it waits for an approval."""
    await until(lambda: session.status().held)
    return supervisor.session(CHILD)


async def approve(session: SessionHandle) -> None:
    (hold,) = session.status().held
    await session.approve(hold.id)
    await until(lambda: not session.status().held)


async def begun(supervisor: Supervisor, code: Code, changes: dict[str, Changes]) -> tuple[SessionHandle, SessionHandle]:
    """Start parent and sub-agent, update the latter's plugins, and return both when it waits for its approval."""
    gate = trio.Event()
    session = await supervisor.spawn(evolve(code, gate=gate).spec(), "p")
    await session.prompt("go")
    sessions = supervisor._sessions.tree.sessions  # noqa: SLF001 - a session that starts has no handle yet
    await until(lambda: CHILD in sessions)
    runner = sessions[CHILD].runner
    assert isinstance(runner, SessionRunner)
    child = runner.handle
    await until(lambda: child.inspect().suspended_runs)
    for key, change in changes.items():
        await child.update_plugin(key, **change)
    assert len(child.inspect().plugin_changes) == len(changes)
    gate.set()
    assert child is await held(session, supervisor)
    assert not child.inspect().plugin_changes
    return session, child


async def reported_updates(journal: Journal, session_id: str = CHILD) -> list[tuple[str, tuple[str, ...]]]:
    """Return the updates that were reported: plugin, and options that were dropped."""
    events = [event for event in await events_of(journal, session_id) if isinstance(event, PluginOptsUpdated)]
    assert all(event.success for event in events)
    return [(event.plugin, event.dropped) for event in events]


FIRST: dict[str, Changes] = {"a": {"one": 7, "pin": True}, "b": {"one": 7}}
"""Updates for two plugins of one class; the first is pinned."""


@pytest.mark.long
@pytest.mark.parametrize(
    ("code", "after", "dropped"),
    [
        (Code(), {"a": Strict(one=7), "b": Strict(one=7)}, []),
        (
            Code(first=Strict(two=9), second=Strict(two=9)),
            {"a": Strict(one=7, two=9), "b": Strict(two=9)},
            [("a", ()), ("b", ("one",))],
        ),
        (Code(second=Strict(one=3)), {"a": Strict(one=7), "b": Strict(one=3)}, [("b", ("one",))]),
        (Code(first=Strict(one=3)), {"a": Strict(one=7), "b": Strict(one=7)}, []),
        (Code(second=Strict(one=7)), {"a": Strict(one=7), "b": Strict(one=7)}, []),
    ],
)
async def test_a_sub_agent_keeps_what_is_pinned_in_another_process_and_takes_the_code_else(
    opened: Callable[[], Journal], code: Code, after: dict[str, Loose], dropped: list[tuple[str, tuple[str, ...]]]
) -> None:
    async with process(opened()) as supervisor:
        _, child = await begun(supervisor, Code(), FIRST)
        assert options_of(child) == {"Bound": BOUND, "a": Strict(one=7), "b": Strict(one=7)}
    for _ in range(2):  # it is told once, and not again
        async with process(opened()) as supervisor:
            session = await supervisor.resume("p", code.spec())
            assert options_of(await held(session, supervisor)) == {"Bound": BOUND, **after}
    async with process(opened()) as supervisor:
        session = await supervisor.resume("p", code.spec())
        await held(session, supervisor)
        await approve(session)
        await over(session)
        assert session.messages()[-1].text == "fine"
    journal = opened()
    assert await reported_updates(journal) == [("a", ()), ("b", ()), *dropped]
    assert await reported_updates(journal, "p") == []
    await journal.close()


async def test_a_plugin_of_a_sub_agent_that_is_not_critical_keeps_its_changes_beside_other_code() -> None:
    journal = TestJournal()
    async with process(journal) as supervisor:
        await begun(supervisor, Code(first=Loose(), second=Loose()), FIRST)
    async with process(journal) as supervisor:
        session = await supervisor.resume("p", Code(first=Loose(two=9), second=Loose(two=9)).spec())
        child = await held(session, supervisor)
        assert options_of(child) == {"Bound": BOUND, "a": Loose(one=7, two=9), "b": Loose(one=7, two=9)}


@pytest.mark.long
@pytest.mark.parametrize("code", [Code(), Code(first=Strict(two=9), second=Strict(two=9))])
async def test_changes_of_a_sub_agent_that_wait_are_made_with_the_code_of_now(
    opened: Callable[[], Journal], code: Code
) -> None:
    async with process(opened()) as supervisor:
        session = await supervisor.spawn(Code().spec(), "p")
        await session.prompt("go")
        child = await held(session, supervisor)
        for key, change in FIRST.items():
            await child.update_plugin(key, **change)
    for _ in range(2):
        async with process(opened()) as supervisor:
            session = await supervisor.resume("p", code.spec())
            child = await held(session, supervisor)
            assert options_of(child) == {"Bound": BOUND, "a": code.first, "b": code.second}
    async with process(opened()) as supervisor:
        session = await supervisor.resume("p", code.spec())
        child = await held(session, supervisor)
        await approve(session)
        await over(session)
        other = code != Code()
        assert options_of(child)["a"] == evolve(code.first, one=7)
        assert options_of(child)["b"] == evolve(code.second, one=1 if other else 7)
    journal = opened()
    assert [dropped for _, dropped in await reported_updates(journal) if dropped] == ([("one",)] if other else [])
    await journal.close()


async def test_a_parent_that_crashes_leaves_the_options_of_its_sub_agents_as_they_are() -> None:
    journal = TestJournal()
    async with process(journal) as supervisor:
        session, child = await begun(supervisor, Code(), FIRST)
        old_options = options_of(child)
        journal.failing = times(1, "SubagentReported")
        await approve(session)
        await over(session)
        assert supervisor.crashes()
        assert session.messages()[-1].text == "fine"
    assert old_options == {"Bound": BOUND, "a": Strict(one=7), "b": Strict(one=7)}
    assert await reported_updates(journal) == [("a", ()), ("b", ())]


@pytest.mark.long
@pytest.mark.parametrize("pin", [True, False])
async def test_a_change_of_a_guard_binds_sub_agents_that_begin_later_and_a_pin_keeps_it_for_them(
    opened: Callable[[], Journal], pin: bool
) -> None:
    """The parent sleeps after the update; then its process ends, while a sub-agent is under way."""
    async with process(opened()) as supervisor:
        session = await supervisor.spawn(Code().spec().but(hibernate_after=0.001), "p")
        await session.update_plugin("Bound", one=7, pin=pin)
        await until(lambda: session._session.is_asleep)  # noqa: SLF001 - whether it sleeps
        await session.prompt("go")
        child = await held(session, supervisor)
        assert options_of(child)["Bound"] == Bound(one=7)
    code = Code(guard=Bound(two=9))
    for _ in range(2):
        async with process(opened()) as supervisor:
            session = await supervisor.resume("p", code.spec())
            child = await held(session, supervisor)
            assert options_of(session)["Bound"] == Bound(one=7 if pin else 1, two=9)
            assert options_of(child)["Bound"] == options_of(session)["Bound"]
    journal = opened()
    assert await reported_updates(journal, "p") == [("Bound", ()), ("Bound", () if pin else ("one",))]
    assert await reported_updates(journal) == [("Bound", ())]
    await journal.close()


async def test_a_fork_of_a_sub_agent_keeps_what_is_pinned_too() -> None:
    journal = TestJournal()
    async with process(journal) as supervisor:
        _, child = await begun(supervisor, Code(), FIRST)
        same = await child.fork(id="t")
        assert options_of(same) == options_of(child)
        assert await reported_updates(journal, "t") == []
    code = Code(guard=Bound(two=8), first=Strict(two=9), second=Strict(two=9))
    async with process(journal) as supervisor:
        session = await supervisor.resume("p", code.spec())
        child = await held(session, supervisor)
        again = await child.fork(id="u")
        assert options_of(again) == options_of(child)
        plugins = (*code.spec().agents["finder"].plugins, code.guard)
        resumed = await supervisor.resume("t", code.spec().agents["finder"].but(plugins=plugins))
        assert options_of(resumed) == options_of(child)
        assert options_of(child) == {"Bound": Bound(two=8), "a": Strict(one=7, two=9), "b": Strict(two=9)}
    assert await reported_updates(journal, "u") == []
    assert sorted(await reported_updates(journal, "t")) == [("Bound", ()), ("a", ()), ("b", ("one",))]

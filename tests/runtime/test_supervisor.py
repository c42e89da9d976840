"""Supervisors: their sessions, how these start, that a crash affects no other session, and that all end."""

from collections.abc import Iterator

import pytest
import trio
import trio.testing

from agentrail import Abort, Ask, Context, Continue, Plugin, SessionDown, SessionHandle, SessionSpec, open_supervisor
from agentrail.errors import (
    BadId,
    JournalFailed,
    PluginRefused,
    SessionCrashed,
    SessionExists,
    SessionRefused,
    SessionStored,
    StateNotStorable,
    UnknownSession,
)
from agentrail.models import Json
from agentrail.plugins import CallService, SessionStart
from agentrail.runtime.shared.task_pool import SPARE
from agentrail.testing import ScriptedModel, say, stall
from tests.runtime.journals import TestJournal
from tests.runtime.poison import crash_this_step
from tests.runtime.world import World, open_world, settle, spec_of, until


def tasks() -> int:
    """Return how many tasks there are, except those that have no work and wait for some."""

    def below(task: trio.lowlevel.Task) -> Iterator[trio.lowlevel.Task]:
        for nursery in task.child_nurseries:
            for child in nursery.child_tasks:
                yield child
                yield from below(child)

    root = trio.lowlevel.current_root_task()
    assert root is not None
    return sum(task.name != SPARE for task in below(root))


class Never(Plugin):
    def init(self, ctx: Context) -> None:
        raise PluginRefused("not here")


class NoStart(Plugin):
    def session_start(self, hook: SessionStart, state: None, ctx: Context) -> Continue[None] | Abort[None]:
        return Abort("not now")


class SlowNo(Plugin):
    def session_start(self, hook: SessionStart, state: None, ctx: Context) -> Abort[None] | Ask[None]:
        return Abort("not even so") if hook.answer is not None else Ask(CallService("slow"))


class SlowYes(Plugin):
    def session_start(self, hook: SessionStart, state: None, ctx: Context) -> Continue[None] | Ask[None]:
        return Continue() if hook.answer is not None else Ask(CallService("slow"))


class Odd(Plugin[object]):
    def init(self, ctx: Context) -> object:
        return object()


async def service(payload: Json) -> Json:
    await trio.sleep(1)
    return payload


# Starting


async def test_sessions_are_known_by_their_ids_in_the_order_they_were_started(world: World) -> None:
    handles = [await world.spawn([], name) for name in ("b", "a", "c")]
    assert [handle.id for handle in world.supervisor.sessions()] == ["b", "a", "c"]
    assert world.supervisor.session("a") is handles[1]


async def test_an_id_is_made_up_where_none_is_given(world: World) -> None:
    first, second = await world.spawn([]), await world.spawn([])
    assert first.id != second.id
    assert world.supervisor.session(first.id) is first


@pytest.mark.parametrize("name", ["", "-a", ".", "a b", "a/b", "ä", "x" * 129, "a\n", "ann@example.com"])
async def test_an_id_that_breaks_the_grammar_is_refused_and_the_way_out_is_told(world: World, name: str) -> None:
    with pytest.raises(BadId, match="use a hash of it, and `owner` for the name"):
        await world.spawn([], name)


async def test_two_sessions_cannot_have_one_id(world: World) -> None:
    first = await world.spawn(["fine"], "same")
    with pytest.raises(SessionExists, match="`same`"):
        await world.spawn([], "same")
    assert (await first.ask("still there?")).text == "fine"


async def test_nor_can_two_that_start_at_the_same_time() -> None:
    async with open_world(TestJournal(claim=1.0)) as world:
        started: list[SessionHandle] = []
        refused: list[SessionExists] = []

        async def spawn() -> None:
            try:
                started.append(await world.supervisor.spawn(spec_of(ScriptedModel(["fine"])), "same"))
            except SessionExists as error:
                refused.append(error)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(spawn)
            await trio.sleep(0.1)
            nursery.start_soon(spawn)
        assert (len(started), len(refused)) == (1, 1)
        assert (await started[0].ask("fine?")).text == "fine"


async def test_nor_can_two_under_two_supervisors_that_share_a_journal() -> None:
    journal = TestJournal()
    async with open_world(journal) as world, open_supervisor(journal=journal) as other:
        first = await world.spawn(["fine"], "same")
        with pytest.raises(SessionStored):
            await other.spawn(spec_of("demo"), "same")
        assert (await first.ask("still there?")).text == "fine"


async def test_the_id_of_a_session_that_has_ended_stays_taken(world: World) -> None:
    session = await world.spawn([], "once")
    await session.stop()
    await until(lambda: not world.supervisor.sessions())
    with pytest.raises(SessionStored):
        await world.spawn([], "once")


@pytest.mark.parametrize(
    ("plugin", "error"),
    [(Never(), PluginRefused), (NoStart(), SessionRefused), (SlowNo(), SessionRefused), (Odd(), StateNotStorable)],
)
async def test_a_session_that_does_not_start_leaves_nothing_and_frees_its_id(
    world: World, plugin: Plugin[object], error: type[Exception]
) -> None:
    other = await world.spawn(["fine"])
    await settle()
    old_tasks = tasks()
    with pytest.raises(error):
        await world.spawn([], "mine", plugins=[plugin], services={"slow": service})
    await settle()
    assert tasks() == old_tasks
    assert [handle.id for handle in world.supervisor.sessions()] == [other.id]
    assert await world.journal.read("mine") == ()
    again = await world.spawn(["started"], "mine")
    assert (await again.ask("go")).text == "started"


async def test_a_session_may_take_its_time_to_start(world: World) -> None:
    session = await world.spawn(["fine"], "mine", plugins=[SlowYes()], services={"slow": service})
    assert (await session.ask("go")).text == "fine"
    assert world.heard(session).names[:3] == ["AskStarted", "AskAnswered", "SessionStarted"]


async def test_a_session_that_starts_is_not_there_yet(world: World) -> None:
    async with trio.open_nursery() as nursery:
        spec = spec_of(ScriptedModel([]), plugins=[SlowYes()], services={"slow": service})
        nursery.start_soon(world.supervisor.spawn, spec, "mine")
        await trio.sleep(0.5)
        with pytest.raises(UnknownSession):
            world.supervisor.session("mine")
        assert world.supervisor.sessions() == ()
        await trio.sleep(1)
        assert world.supervisor.session("mine").id == "mine"


async def test_a_session_that_crashes_while_it_starts_is_not_started_again() -> None:
    class Late(Plugin):
        def session_start(self, hook: SessionStart, state: None, ctx: Context) -> Continue[None]:
            crash_this_step()
            return Continue()

    async with open_supervisor() as supervisor:
        with pytest.raises(SessionCrashed, match="poison"):
            await supervisor.spawn(SessionSpec(model=ScriptedModel([]), plugins=[Late()]), "s")
        assert supervisor.tree().children == ()
        assert supervisor.crashes() == ()
        await supervisor.spawn(SessionSpec(model=ScriptedModel([])), "s")


async def test_a_spawn_that_is_cancelled_leaves_nothing_and_frees_the_id(world: World) -> None:
    await settle()
    old_tasks = tasks()
    with trio.move_on_after(0.5) as scope:
        await world.spawn([], "mine", plugins=[SlowYes()], services={"slow": service})
    assert scope.cancelled_caught
    await settle()
    assert tasks() == old_tasks
    session = await world.spawn(["fine"], "mine")
    assert (await session.ask("go")).text == "fine"


async def test_a_journal_that_breaks_at_the_start_is_why_it_does_not_start() -> None:
    journal = TestJournal()
    async with open_world(journal) as world:
        journal.failing = lambda _: OSError("gone")
        with pytest.raises(JournalFailed, match=r"could not write a record of session `mine`.*gone.*try again"):
            await world.spawn([], "mine")
        journal.failing = None
        await world.spawn([], "mine")


# Living side by side


async def test_the_crash_of_one_does_not_touch_another() -> None:
    journal = TestJournal()
    async with open_world(journal) as world:
        crashing = await world.spawn([stall()], "crashing")
        others = [await world.spawn([say("a b c", delay=0.5)], f"other-{number}") for number in range(5)]
        replies: list[str] = []

        async def ask(session: SessionHandle) -> None:
            replies.append((await session.ask("go")).text)

        async with trio.open_nursery() as nursery:
            for other in others:
                nursery.start_soon(ask, other)
            await trio.sleep(0.6)
            journal.failing = lambda record: RuntimeError("bug") if record.session_id == "crashing" else None
            with pytest.raises(SessionCrashed):
                await crashing.prompt("go")
        assert replies == ["a b c"] * 5
        assert world.supervisor.session("crashing") is crashing
        (shown_child,) = (child for child in world.supervisor.tree().children if child.name == "crashing")
        assert shown_child.state == "quarantined"


async def test_everybody_who_watches_hears_the_end(world: World) -> None:
    session = await world.spawn([], "mine")
    downs: list[SessionDown] = []

    async def wait() -> None:
        downs.append(await monitor.wait())

    async with session.monitor() as monitor, trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        nursery.start_soon(wait)
        await settle()
        with trio.move_on_after(1):
            await wait()
        await session.stop("enough")
    assert downs == [SessionDown("mine", "enough")] * 2


async def test_a_monitor_hears_one_end_also_of_a_session_that_has_ended(world: World) -> None:
    session = await world.spawn([], "mine")
    async with session.monitor() as monitor:
        await session.stop("enough")
        assert await monitor.wait() == SessionDown("mine", "enough")
    async with session.monitor() as late:
        assert await late.wait() == SessionDown("mine", "enough")

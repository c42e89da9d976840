"""What a caller awaits is cancelled at each of its checkpoints: nothing of it stays, and it can be done again."""

import gc
import threading
from collections.abc import Sequence
from itertools import count

import pytest
import trio
import trio.testing

from agentrail import Abort, Ask, Context, Continue, Plugin, open_supervisor
from agentrail.errors import PluginMismatch, PluginRefused, SessionRefused
from agentrail.journals import Claim, MemoryJournal, Record
from agentrail.models import Json
from agentrail.plugins import CallService, SessionStart
from agentrail.testing import ScriptedModel, say, stall
from tests.runtime.cutting import cut
from tests.runtime.families import agent, ids, task
from tests.runtime.journals import TestJournal
from tests.runtime.world import open_world, settle, spec_of, stop_at_the_end


def living() -> int:
    return trio.lowlevel.current_statistics().tasks_living


class SlowYes(Plugin):
    def session_start(self, hook: SessionStart, state: None, ctx: Context) -> Continue[None] | Ask[None]:
        return Continue() if hook.answer is not None else Ask(CallService("slow"))


class SlowNo(Plugin):
    def session_start(self, hook: SessionStart, state: None, ctx: Context) -> Abort[None] | Ask[None]:
        return Abort("not now") if hook.answer is not None else Ask(CallService("slow"))


class Never(Plugin):
    def init(self, ctx: Context) -> None:
        raise PluginRefused("not here")


async def slowly(payload: Json) -> Json:
    await trio.sleep(1)
    return payload


async def test_a_supervisor_that_is_opened_and_left() -> None:
    journal = TestJournal()
    await settle()
    old = (living(), threading.active_count(), len(gc.callbacks))

    async def opened() -> None:
        async with open_supervisor(journal=journal):
            await trio.lowlevel.checkpoint()

    for moment in count():
        was_cut = await cut(moment, opened)
        await settle()
        assert (living(), threading.active_count(), len(gc.callbacks)) == old
        if not was_cut:
            break


@pytest.mark.parametrize("plugin", [SlowYes, SlowNo])
async def test_a_session_that_is_spawned(plugin: type[Plugin]) -> None:
    spec = spec_of("demo", plugins=[plugin()], services={"slow": slowly})
    for moment in count():
        async with open_supervisor(journal=TestJournal(claim=1, commit=1)) as supervisor:
            await settle()
            old = living()

            async def spawned() -> None:
                try:
                    await supervisor.spawn(spec, "mine")
                except SessionRefused:
                    assert plugin is SlowNo

            was_cut = await cut(moment, spawned)
            if was_cut:
                assert not supervisor.sessions()
                await (await supervisor.spawn(spec_of("demo"), "mine")).stop()  # at once
                await settle()
                assert (supervisor.tree().children, living()) == ((), old)
        if not was_cut:
            break


@pytest.mark.parametrize("fits", [True, False])
async def test_a_session_that_is_brought_back(*, fits: bool) -> None:
    spec = spec_of(ScriptedModel(["fine"] * 100))
    plugins = [SlowYes()] if fits else [SlowYes(), Never()]
    other = spec.but(plugins=plugins, services={"slow": slowly})
    memory_journal = MemoryJournal(encode=True)
    async with open_supervisor(journal=memory_journal) as supervisor:
        await (await supervisor.spawn(spec, "mine")).ask("go")
    for moment in count():
        async with open_supervisor(journal=TestJournal(claim=1, commit=1, inner=lambda: memory_journal)) as supervisor:
            await settle()
            old = living()

            async def brought_back() -> None:
                try:
                    await supervisor.resume("mine", other)
                except PluginMismatch:
                    assert not fits

            was_cut = await cut(moment, brought_back)
            if was_cut:
                assert not supervisor.sessions()
                await settle()
                assert (supervisor.tree().children, living()) == ((), old)
                assert (await (await supervisor.resume("mine", spec)).ask("go")).text == "fine"
        if not was_cut:
            break


async def test_a_service_that_is_started() -> None:
    ended: list[int] = []
    async with open_supervisor() as supervisor:
        await settle()
        old = living()

        async def serves(*, task_status: trio.TaskStatus[None]) -> None:
            try:
                await trio.sleep(1)
                task_status.started()
                await trio.sleep_forever()
            finally:
                with trio.CancelScope(shield=True):
                    await trio.sleep(0.1)
                ended.append(1)

        async def started() -> None:
            await supervisor.start_service(serves, "serves")

        for moment in count():
            tried = len(ended)
            if not await cut(moment, started):
                break
            assert supervisor.tree().children == ()
            assert living() == old
            assert len(ended) <= tried + 1
        assert ended


class SlowBelow(TestJournal):
    """A journal in which records of sub-agents take long."""

    async def append(self, claim: Claim, expected: int, records: Sequence[Record]) -> int:
        await trio.sleep(3 if claim.session_id == "p.c3" else 0.1)
        return await super().append(claim, expected, records)


@pytest.mark.long
async def test_a_call_is_not_over_before_its_sub_agent() -> None:
    """It is aborted at each moment, and counts as under way as long as the session below has not ended."""
    seen = 0
    for moment in range(12):
        async with open_world(SlowBelow()) as world:
            session = await world.spawn([task(), "fine"], "p", agents={"finder": agent([say("found", delay=1)])})
            await session.prompt("go")
            await trio.sleep(moment)
            await session.abort()
            while "p.c3" in ids(world):
                state = session.inspect()
                assert [detached.call_id for detached in (*state.lingering_calls, *state.quarantined_calls)] == ["c3"]
                seen += 1
                await trio.sleep(0.1)
    assert seen > 100


@pytest.mark.long
async def test_a_sub_agent_whose_roof_comes_down() -> None:
    """Its session is stopped in order and its end is told, at whichever moment of its work."""

    def bug() -> None:
        raise ZeroDivisionError

    async def supervised(journal: TestJournal, seconds: float) -> None:
        async with open_supervisor(journal=journal) as supervisor:
            stop_at_the_end(supervisor)
            spec = spec_of(ScriptedModel([task()]), agents={"finder": agent([stall()])})
            session = await supervisor.spawn(spec, "p")
            await session.prompt("go")
            shared = supervisor._sessions.shared  # noqa: SLF001 - only a bug of ours can do this
            shared.timers.set(("mine", "bug"), trio.current_time() + seconds, bug)
            await trio.sleep_forever()

    for moment in range(10):
        journal = TestJournal(commit=0.3)
        with pytest.raises(ZeroDivisionError):
            await supervised(journal, moment * 0.2)
        records = await journal.read("p")
        names = [type(envelope.event).__name__ for record in records for envelope in record.events]
        assert names[-1] == "SessionEnded"
        assert names.count("SubagentStart") == names.count("SubagentEnd")

"""A session that sleeps has no task: the next letter starts one. One that is idle has, and needs no time."""

from contextvars import ContextVar
from functools import partial

import pytest
import trio
import trio.testing

from agentrail import SessionHandle, open_supervisor
from agentrail.errors import CommitUnknown, SessionCrashed, SessionNotAlive
from agentrail.journals import Claim, MemoryJournal, Snapshot
from agentrail.models import JsonObject, Text
from agentrail.runtime.inbox.end_reason import TAKEN
from agentrail.runtime.inbox.letter import Letter
from agentrail.runtime.inbox.mailbox import Mailbox
from agentrail.runtime.shared.admission import Gate
from agentrail.testing import ScriptedModel, call, say
from agentrail.tools import Ok, ToolContext, ok
from tests.kit import Element, PromptSent
from tests.runtime.journals import TestJournal
from tests.runtime.tools import fake
from tests.runtime.world import World, settle, spec_of

LONG = 30.0

WHO: ContextVar[str] = ContextVar("WHO", default="nobody")


def sleeps(session: SessionHandle) -> bool:
    """Whether the session has no task, and a letter starts one."""
    inner = session._session  # noqa: SLF001 - nobody outside need know
    return inner.is_asleep and inner.mailbox.wake_callback is not None


async def test_nothing_is_due_once_all_are_idle(world: World) -> None:
    for _ in range(3):
        session = await world.spawn(["one"])
        await session.ask("hi")
    timers = world.supervisor._sessions.shared.timers  # noqa: SLF001 - an idle process is not to be woken
    await trio.sleep(LONG)
    assert [key for key in timers._live if key] == []  # noqa: SLF001


async def test_after_an_uncertain_commit_no_letter_starts_one_that_sleeps() -> None:
    journal = TestJournal()
    commits = 0

    async def body() -> None:
        nonlocal commits
        async with open_supervisor(journal=journal) as supervisor, trio.open_nursery() as nursery:
            uncertain = await supervisor.spawn(spec_of(ScriptedModel([]), hibernate_after=10), "uncertain")
            other = await supervisor.spawn(spec_of(ScriptedModel(["one"]), hibernate_after=10), "other")
            await trio.sleep(LONG)
            assert sleeps(uncertain)
            assert sleeps(other)
            journal.fails_after = lambda record: CommitUnknown("the cable") if record.session_id != "other" else None
            commits = journal.commits

            async def late() -> None:
                with pytest.raises(SessionCrashed):
                    await uncertain.prompt("go")
                with pytest.raises(Exception, match="other"):
                    await other.prompt("go")

            nursery.start_soon(late)
            await trio.sleep(100)

    with pytest.raises(CommitUnknown):
        await body()
    assert [record.session_id for record in await journal.read("other", 0, 9)] == ["other", "other"]


async def test_tools_see_the_context_of_the_spawn_whoever_woke_the_session(world: World) -> None:
    seen: list[str] = []

    async def look(_args: JsonObject, _ctx: ToolContext) -> Ok:  # noqa: ASYNC124
        seen.append(WHO.get())
        return ok("seen")

    script: list[Element] = [say(calls=[call("look")]), "fine"] * 3
    WHO.set("spawned")
    session = await world.spawn(script, "s", tools=[fake("look", look)], hibernate_after=10)
    WHO.set("asks")
    await session.ask("go")
    for _ in range(2):
        await trio.sleep(LONG)
        assert sleeps(session)
        await session.ask("go")
    assert seen == ["spawned"] * 3


@pytest.mark.parametrize("width", [1, 8])
async def test_those_that_sleep_are_woken_by_prompts_as_the_gate_admits_them(width: int) -> None:
    gate, rung = Gate(width), list[int]()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(gate.run)
        await settle()
        for number in range(20):
            mailbox = Mailbox(f"{number}", gate)
            mailbox.wake_callback = partial(rung.append, number)
            mailbox.post_user_nowait(Letter(PromptSent((Text("go"),))))
        assert rung == list(range(width))
        await settle()
        assert rung == list(range(20))
        nursery.cancel_scope.cancel()


async def test_a_closed_mailbox_rings_no_more() -> None:
    gate, rung = Gate(1), list[int]()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(gate.run)
        await settle()
        gate.enter(lambda: None)
        mailbox = Mailbox("s", gate)
        mailbox.wake_callback = partial(rung.append, 1)
        mailbox.post_user_nowait(Letter(PromptSent((Text("go"),))))
        mailbox.close(SessionNotAlive("s", "stopped"))
        await settle()
        assert rung == []
        nursery.cancel_scope.cancel()


async def test_one_that_is_taken_over_in_the_pass_in_which_it_falls_asleep_is_gone() -> None:
    class Taken(MemoryJournal):
        async def keep(self, claim: Claim, snapshot: Snapshot) -> None:
            await super().keep(claim, snapshot)
            supervisor._sessions._stop_fenced(claim)  # noqa: SLF001 - as a renewal that has failed

    async with open_supervisor(journal=Taken()) as supervisor:
        session = await supervisor.spawn(spec_of(ScriptedModel([]), hibernate_after=10), "s")
        async with session.monitor() as monitor:
            assert (await monitor.wait()).reason == TAKEN
        assert supervisor.sessions() == ()

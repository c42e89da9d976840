"""`supervisor.delete`: what it refuses, and what is left of a session that was deleted."""

import errno
import os
from collections.abc import Sequence
from functools import partial

import pytest
import trio
from attrs import frozen

from agentrail import Context, Continue, Plugin, SessionSpec, open_supervisor
from agentrail.errors import (
    SessionCrashed,
    SessionExists,
    SessionForgotten,
    SessionHeld,
    SessionNotAlive,
    SessionNotStored,
    SessionStillRuns,
    UsageError,
    WrongType,
)
from agentrail.events import Gap, PromptReceived
from agentrail.journals import (
    ALL_SESSIONS,
    Claim,
    Lease,
    MemoryJournal,
    Record,
    Redaction,
    SessionFilter,
    StoredSession,
    audit,
)
from agentrail.plugins import BeforePrompt, HumanApproval
from agentrail.testing import ScriptedModel, call, say, stall
from tests.coded import coded
from tests.runtime.families import agent, task, tasks
from tests.runtime.journals import TestJournal
from tests.runtime.poison import PoisonedResponse
from tests.runtime.tools import quick

FAR = 2**52


@frozen
class Counter(Plugin[tuple[str, ...]]):
    """Keeps the prompts."""

    def init(self, ctx: Context) -> tuple[str, ...]:
        return ()

    def before_prompt(self, hook: BeforePrompt, state: tuple[str, ...], ctx: Context) -> Continue[tuple[str, ...]]:
        return Continue((*state, hook.text))


def saying(*texts: str) -> SessionSpec:
    return SessionSpec(model=ScriptedModel(texts))


async def test_a_session_that_has_ended_is_deleted_and_its_id_is_free() -> None:
    journal = MemoryJournal(encode=True)
    async with open_supervisor(journal=journal) as supervisor:
        old = await supervisor.spawn(saying("fine"), "s")
        await old.ask("go", command="c1")
        await old.stop()
        await supervisor.delete("s")
        assert await supervisor.stored() == ()
        with pytest.raises(SessionNotAlive):
            await old.ask("go", command="c1")
        with pytest.raises(SessionNotStored, match="`s`"):
            await supervisor.delete("s")
        new = await supervisor.spawn(saying("well"), "s")
        assert (await new.ask("go", command="c1")).text == "well"


async def test_handles_of_a_deleted_session_show_nothing_of_the_next_session_with_its_id() -> None:
    async with open_supervisor(journal=MemoryJournal()) as supervisor:
        spec = SessionSpec(model=ScriptedModel([task()]), agents={"finder": agent([stall(after=1)])})
        old = await supervisor.spawn(spec, "s")
        await old.prompt("go")
        while len(supervisor.sessions()) < 2:
            await trio.lowlevel.checkpoint()
        session = supervisor.session("s.c3")
        async with old.subscribe(since=0, types=[PromptReceived, Gap]) as late:
            await old.stop()
            await supervisor.delete("s")
            for id_is_free in ("s", "s.c3"):
                await (await supervisor.spawn(saying("well"), id_is_free)).ask("a secret")
            assert [type(envelope.event) async for envelope in late] == [Gap]
        for handle in (old, session):
            async with handle.subscribe(since=0, types=[PromptReceived]) as events:
                assert [type(envelope.event) async for envelope in events] == [Gap]
            for call in (handle.messages, handle.inspect):
                with pytest.raises(SessionForgotten, match="it was deleted"):
                    call()
            with pytest.raises(SessionForgotten):
                await handle.fork()
            assert handle.status().phase == "ended"


async def test_a_session_that_runs_is_not_deleted_and_the_error_says_how_to_stop_it() -> None:
    async with open_supervisor(journal=MemoryJournal()) as supervisor:
        await supervisor.spawn(saying("fine"), "s")
        with pytest.raises(SessionStillRuns) as raised:
            await supervisor.delete("s")
        assert "`await supervisor.session('s').stop()`" in str(raised.value)
        await supervisor.session("s").stop()
        await supervisor.delete("s")
        assert await supervisor.stored() == ()


async def test_a_session_that_is_coming_back_is_not_deleted() -> None:
    class Slow(TestJournal):
        """A journal that takes a second to claim a session."""

        async def claim(self, *args: object, **more: object) -> Claim:
            await trio.sleep(1)
            return await self.inner.claim(*args, **more)  # type: ignore[arg-type]  # the arguments of the port

    inner = MemoryJournal()
    async with open_supervisor(journal=inner) as supervisor:
        await supervisor.spawn(saying("fine"), "s")
    journal = Slow(inner=lambda: inner)
    async with open_supervisor(journal=journal) as supervisor, trio.open_nursery() as nursery:
        nursery.start_soon(supervisor.resume, "s", saying("fine"))
        await trio.sleep(0.5)
        with pytest.raises(SessionStillRuns):
            await supervisor.delete("s")
        await trio.sleep(1)
        assert (await supervisor.session("s").ask("go")).text == "fine"


class SlowToErase(TestJournal):
    """A journal that takes a second to delete or redact a session."""

    async def delete(self, session_id: str, holder: str, at: int) -> int:
        await trio.sleep(1)
        return await self.inner.delete(session_id, holder, at)

    async def redact(self, session_id: str, first: int, last: int, note: Redaction, holder: str) -> int:
        await trio.sleep(1)
        return await self.inner.redact(session_id, first, last, note, holder)


async def test_a_session_does_not_come_back_while_it_is_deleted_and_two_deletions_are_one() -> None:
    inner = MemoryJournal()
    async with open_supervisor(journal=inner) as supervisor:
        await supervisor.spawn(saying("fine"), "s")
    async with open_supervisor(journal=SlowToErase(inner=lambda: inner)) as supervisor:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(supervisor.delete, "s")
            await trio.sleep(0.5)
            with pytest.raises(SessionExists):
                await supervisor.spawn(saying("fine"), "s")
            with pytest.raises(SessionNotStored):
                await supervisor.resume("s", saying("fine"))
        assert await supervisor.stored() == ()
        await supervisor.spawn(saying("fine"), "u")
        await supervisor.session("u").stop()
        refused: list[str] = []

        async def deletes() -> None:
            try:
                await supervisor.delete("u")
            except SessionNotStored as unknown:
                refused.append(unknown.args[0])

        async with trio.open_nursery() as nursery:
            nursery.start_soon(deletes)
            nursery.start_soon(deletes)
        assert refused == ["u"]


async def test_a_session_comes_back_without_its_texts_if_it_is_brought_back_while_it_is_redacted() -> None:
    inner = MemoryJournal()
    async with open_supervisor(journal=inner) as supervisor:
        await (await supervisor.spawn(saying("fine"), "s")).ask("my secret")
    async with open_supervisor(journal=SlowToErase(inner=lambda: inner)) as supervisor:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(supervisor.redact, "s", by="me"))
            await trio.sleep(0.5)
            session = await supervisor.resume("s", saying("fine"))
        assert "my secret" not in repr(session.messages())


async def test_a_session_that_is_parked_is_deleted() -> None:
    journal = MemoryJournal()
    async with open_supervisor(journal=journal) as supervisor:
        await (await supervisor.spawn(saying("fine"), "s")).ask("go")
    async with open_supervisor(journal=journal) as supervisor:
        await supervisor.delete("s")
        with pytest.raises(SessionNotStored):
            await supervisor.resume("s", saying())


async def test_a_session_that_is_set_aside_is_deleted() -> None:
    async with open_supervisor(journal=MemoryJournal()) as supervisor:
        spec = SessionSpec(model=ScriptedModel(["poison"]), plugins=[PoisonedResponse()])
        session = await supervisor.spawn(spec, "s")
        async with session.monitor() as down:
            with pytest.raises(SessionCrashed):
                await session.ask("go")
            await down.wait()
        assert supervisor.tree().children[0].state == "quarantined"
        await supervisor.delete("s")
        assert supervisor.sessions() == ()
        assert await supervisor.stored() == ()
        with pytest.raises(SessionCrashed):
            await session.prompt("still there?")


async def test_sub_agents_are_deleted_with_their_parent() -> None:
    journal = MemoryJournal(encode=True)
    async with open_supervisor(journal=journal) as supervisor:
        spec = SessionSpec(model=ScriptedModel([task(), "done"]), agents={"finder": agent(["found"])})
        session = await supervisor.spawn(spec, "parent")
        await session.ask("go")
        await session.stop()
        assert [session_.session_id for session_ in await supervisor.stored()] == ["parent", "parent.c3"]
        await supervisor.delete("parent")
        assert await supervisor.stored() == ()


@pytest.mark.parametrize("after", [0.5, 1.5, 10])
async def test_sub_agents_that_end_after_their_parent_are_waited_for(after: float) -> None:
    class Slow(TestJournal):
        """A journal that takes a second to write records of the sub-agent."""

        async def append(self, claim: Claim, expected: int, records: Sequence[Record]) -> int:
            await trio.sleep(claim.session_id == "parent.c3")
            return await self.inner.append(claim, expected, records)

    async with open_supervisor(journal=Slow()) as supervisor:
        spec = SessionSpec(model=ScriptedModel([task()]), agents={"finder": agent([stall(after=1)])})
        session = await supervisor.spawn(spec, "parent")
        await session.prompt("go")
        await trio.sleep(after)
        await session.stop()
        assert await supervisor.redact("parent", by="me")
        await supervisor.delete("parent")
        await trio.sleep(10)
        assert (supervisor.sessions(), await supervisor.stored()) == ((), ())


async def test_a_session_whose_sub_agent_runs_is_not_deleted() -> None:
    async with open_supervisor(journal=MemoryJournal()) as supervisor:
        spec = SessionSpec(model=ScriptedModel([task()]), agents={"finder": agent([stall(after=1)])})
        session = await supervisor.spawn(spec, "parent")
        await session.prompt("go")
        while len(supervisor.sessions()) < 2:
            await trio.lowlevel.checkpoint()
        with pytest.raises(SessionStillRuns):
            await supervisor.delete("parent")
        with pytest.raises(SessionStillRuns):
            await supervisor.delete("parent.c3")


async def test_what_another_supervisor_holds_is_not_deleted() -> None:
    journal = MemoryJournal()
    async with open_supervisor(journal=journal) as supervisor:
        await (await supervisor.spawn(saying("fine"), "s")).ask("go")
    await journal.claim("s", "elsewhere:1", Lease(0, FAR), take_over=True)
    async with open_supervisor(journal=journal) as supervisor:
        with pytest.raises(SessionHeld, match="elsewhere:1"):
            await supervisor.delete("s")


async def test_who_is_refused_to_delete_a_session_can_still_read_it() -> None:
    journal = MemoryJournal()
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(saying("fine"), "s")
        await session.ask("go")
        await session.stop()
        await journal.claim("s", "elsewhere:1", Lease(0, FAR), take_over=True)
        with pytest.raises(SessionHeld):
            await supervisor.delete("s")
        assert len(session.messages()) == 2
        async with session.subscribe(since=0, types=[PromptReceived]) as events:
            assert [type(envelope.event) async for envelope in events] == [PromptReceived]


class Beside:
    """What a program keeps beside the records of a session."""

    def __init__(self) -> None:
        self.is_erased = False

    async def erase(self) -> None:
        await trio.lowlevel.checkpoint()
        self.is_erased = True


@pytest.mark.parametrize("held", ["parent", "parent.c3"])
async def test_what_is_kept_beside_a_session_stays_if_another_supervisor_holds_it_or_a_sub_agent(held: str) -> None:
    journal, beside = MemoryJournal(), Beside()
    async with open_supervisor(journal=journal) as supervisor:
        spec = SessionSpec(model=ScriptedModel([task(), "done"]), agents={"finder": agent(["found"])})
        session = await supervisor.spawn(spec, "parent")
        await session.ask("go")
        await session.stop()
        await supervisor.spawn(saying("fine"), "parent.other")
        await journal.claim("parent.other", "elsewhere:1", Lease(0, FAR), take_over=True)
        await journal.claim(held, "elsewhere:1", Lease(0, FAR), take_over=True)
        with pytest.raises(SessionHeld, match=f"`{held}`"):
            await supervisor.delete("parent", first=beside.erase)
        assert not beside.is_erased
        await journal.claim(held, "elsewhere:1", Lease(0, 0), take_over=True)
        await supervisor.delete("parent", first=beside.erase)
        assert beside.is_erased
        assert [session_.session_id for session_ in await supervisor.stored()] == ["parent.other"]


async def test_sub_agents_are_found_on_every_page_of_the_journal() -> None:
    class Short(TestJournal):
        """A journal that lists two sessions at a time."""

        async def sessions(
            self, wanted: SessionFilter = ALL_SESSIONS, after: StoredSession | None = None, limit: int = 2
        ) -> tuple[StoredSession, ...]:
            return await self.inner.sessions(wanted, after, min(limit, 2))

    journal, beside = Short(inner=MemoryJournal), Beside()
    async with open_supervisor(journal=journal) as supervisor:
        model = ScriptedModel([tasks(*["finder"] * 5), "done"])
        spec = SessionSpec(model=model, agents={"finder": agent(["found"] * 5)})
        session = await supervisor.spawn(spec, "parent")
        await session.ask("go")
        await session.stop()
        last = max(stored.session_id for stored in await journal.inner.sessions())
        await journal.claim(last, "elsewhere:1", Lease(0, FAR), take_over=True)
        with pytest.raises(SessionHeld, match=f"`{last}`"):
            await supervisor.delete("parent", first=beside.erase)
        assert not beside.is_erased


async def test_nobody_gets_a_session_while_what_is_kept_beside_it_is_erased() -> None:
    journal = MemoryJournal()
    async with open_supervisor(journal=journal) as supervisor:
        await (await supervisor.spawn(saying("fine"), "s")).ask("go")
    async with open_supervisor(journal=journal) as supervisor, open_supervisor(journal=journal) as another:

        async def erase() -> None:
            await trio.sleep(1_000)  # many times as long as a lease
            with pytest.raises(SessionHeld):
                await another.resume("s", saying("fine"))

        await supervisor.delete("s", first=erase)
        with pytest.raises(SessionNotStored):
            await another.resume("s", saying("fine"))


async def test_a_session_stays_if_what_is_kept_beside_it_cannot_be_erased() -> None:
    async def erase() -> None:
        await trio.lowlevel.checkpoint()
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    journal = MemoryJournal()
    async with open_supervisor(journal=journal) as supervisor:
        await (await supervisor.spawn(saying("fine"), "s")).ask("go")
    async with open_supervisor(journal=journal) as supervisor, open_supervisor(journal=journal) as another:
        with pytest.raises(OSError, match="Input/output error"):
            await supervisor.delete("s", first=erase)
        await trio.sleep(1)
        assert (await (await another.resume("s", saying("fine"))).ask("go")).text == "fine"


async def test_a_fork_stays() -> None:
    async with open_supervisor(journal=MemoryJournal(encode=True)) as supervisor:
        session = await supervisor.spawn(saying("fine", "well"), "s")
        await session.ask("go")
        fork = await session.fork(id="f")
        await session.stop()
        await supervisor.delete("s")
        assert len(fork.messages()) == 2
        assert [session_.session_id for session_ in await supervisor.stored()] == ["f"]


async def test_without_a_journal_there_is_nothing_to_delete() -> None:
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(saying("fine"), "s")
        await session.stop()
        with pytest.raises(SessionForgotten):
            await supervisor.delete("s")


async def test_an_id_is_text() -> None:
    async with open_supervisor() as supervisor:
        with pytest.raises(WrongType):
            await supervisor.delete(7)  # type: ignore[arg-type]


# Redaction


async def test_a_redacted_session_comes_back_and_says_so_in_its_audit() -> None:
    journal = MemoryJournal(encode=True)

    def spec(*texts: str) -> SessionSpec:
        return SessionSpec(model=ScriptedModel(texts), plugins=[Counter()])

    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(spec("I have it", "and that"), "s")
        await session.ask("my word is canary")
        await session.ask("call me")
    async with open_supervisor(journal=journal) as supervisor:
        (stored,) = await supervisor.stored()
        assert await supervisor.redact("s", by="the desk for privacy") == stored.head
        assert "canary" not in repr(await journal.read("s"))
        differences = await audit(journal, "s")
        assert {difference.what for difference in differences} == {"redacted"}
        assert "by the desk for privacy" in differences[0].now
        session = await supervisor.resume("s", spec("well"))
        assert [message.text for message in session.messages()] == ["[redacted]"] * 4
        assert (await session.ask("who am I?")).text == "well"
    assert {difference_.what for difference_ in await audit(journal, "s")} == {"redacted"}


async def test_a_part_of_a_session_is_redacted() -> None:
    journal = MemoryJournal(encode=True)
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(saying("one", "two"), "s")
        await session.ask("first")
        first = (await supervisor.stored())[0].head
        await session.ask("second")
        await session.stop()
        assert await supervisor.redact("s", last=first, by="me") == first
        fork = await supervisor.fork("s", saying())
        assert [message.text for message in fork.messages()] == ["[redacted]", "[redacted]", "second", "two"]


@pytest.mark.parametrize("work", ["a turn that rests", "a sub-agent in the background"])
async def test_a_session_that_waits_or_has_others_work_for_it_is_not_redacted(work: str) -> None:
    journal = MemoryJournal(encode=True)

    def build() -> SessionSpec:
        if work == "a turn that rests":
            script = [say(calls=[call("quick")])]
            return SessionSpec(
                model=ScriptedModel(script), tools=[quick()], plugins=[HumanApproval(tools=["quick"])], name="s"
            )
        finder = agent([say("found", delay=1_000)])
        return SessionSpec(model=ScriptedModel([task(background=True), "begun"]), agents={"finder": finder}, name="s")

    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(build(), "s")
        reply = await session.ask("go")
        assert (len(reply.held), reply.text) == ((1, "") if work == "a turn that rests" else (0, "begun"))
    async with open_supervisor(journal=journal) as supervisor:
        with pytest.raises(UsageError, check=coded("session-unfinished")):
            await supervisor.redact("s", by="me")
    assert not [entry for entry in await audit(journal, "s") if entry.what == "redacted"]


async def test_a_session_that_runs_or_has_work_to_do_is_not_redacted() -> None:
    journal = MemoryJournal(encode=True)
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(SessionSpec(model=ScriptedModel([stall(after=1)])), "s")
        with pytest.raises(SessionStillRuns):
            await supervisor.redact("s", by="me")
        await session.prompt("go")
    async with open_supervisor(journal=journal) as supervisor:
        with pytest.raises(UsageError, check=coded("session-unfinished"), match="turn is open"):
            await supervisor.redact("s", by="me")
        with pytest.raises(SessionNotStored):
            await supervisor.redact("t", by="me")

"""Representations of the package's objects are informative, contain no secret, and never raise."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import pytest
import trio
import trio.testing

from agentrail import ActorTrace, Monitor, SessionHandle, Subscription, Supervisor
from agentrail.adapters.models.http import Http
from agentrail.adapters.models.remote_model import RemoteModel
from agentrail.core.supervision_rules import ChildFacts
from agentrail.core.vocabulary.commands import Answer
from agentrail.journals import MemoryJournal, SqliteJournal
from agentrail.mcp import McpServer
from agentrail.models import PROVIDERS, DemoModel
from agentrail.reprs import in_brackets, some
from agentrail.runtime.actor.effect_runner import Performer
from agentrail.runtime.actor.session import Session
from agentrail.runtime.actor.tool_sources import RunningSource
from agentrail.runtime.events.bus import Bus
from agentrail.runtime.events.tracing import Traces
from agentrail.runtime.inbox.letter import Letter
from agentrail.runtime.inbox.mailbox import Mailbox
from agentrail.runtime.shared.admission import Gate
from agentrail.runtime.shared.clock import Clock, Timers
from agentrail.runtime.shared.journal_retry import SteadyJournal
from agentrail.runtime.shared.reply_slot import Slot
from agentrail.runtime.supervision.children import Child, ServiceRunner
from agentrail.runtime.supervision.subagents.subagent_run import SubagentRun
from agentrail.runtime.supervision.supervisor import SupervisorNode
from agentrail.runtime.work.plugin_asks import RunningAsk
from agentrail.runtime.work.tool_call import RunningCall
from agentrail.sandboxes import BubblewrapSandbox, CompositeSandbox, LocalSandbox, MemorySandbox
from agentrail.testing import RecordedModel, ScriptedModel, call, say, stall
from agentrail.tools import ToolContext
from tests.each_case import each_case
from tests.kit import DONE, StopSent, freeze_object
from tests.runtime.tools import slow
from tests.runtime.world import open_world, settle

SECRET: Final = "k-very-secret"


def letter() -> Letter:
    made = Letter(StopSent(SECRET), command="c", size=1)
    made.number = 4
    return made


def full() -> Mailbox:
    made = Mailbox("s", Gate())
    made.post_control(Letter(StopSent(SECRET)))
    made.suspend()
    return made


def closed() -> Mailbox:
    made = Mailbox("s", Gate())
    made.close(DONE)
    return made


def settled() -> Slot[Answer]:
    made: Slot[Answer] = Slot()
    made.settle(DONE)
    return made


def timers() -> Timers:
    made = Timers(Clock())
    made.set(("s", "t"), 1.0, lambda: None)
    return made


async def nothing() -> None:
    await trio.lowlevel.checkpoint()


ALONE: Final[dict[str, Callable[[], object]]] = {
    "<Mailbox 's' control 1, results 0, user 0, suspended>": full,
    "<Mailbox 's' control 0, results 0, user 0, closed>": closed,
    "<Letter StopSent 4, command 'c', 1 byte>": letter,
    "<Letter StopSent 0>": partial(Letter, StopSent(SECRET)),
    "<Slot empty>": Slot[None],
    f"<Slot settled with {type(DONE).__name__}>": settled,
    "<Timers 1 kept, 1 owner>": timers,
    "<ActorTrace 0 of 5 wait, not entered>": partial(ActorTrace, Traces(), nothing, 5),
    "<Child 'a' service starting>": partial(Child, ServiceRunner(nothing), ChildFacts("a", "permanent"), 1.0),
    "<MemoryJournal empty>": MemoryJournal,
    "<SteadyJournal over <MemoryJournal empty>>": lambda: SteadyJournal(MemoryJournal(), Clock()),
    "<MemorySandbox 1 file>": partial(MemorySandbox, {"a": SECRET.encode()}),
    "<CompositeSandbox beside <MemorySandbox empty>, 1 route>": partial(
        CompositeSandbox, {"notes/": MemorySandbox()}, MemorySandbox()
    ),
    "<McpServer 'acme'>": partial(McpServer, ["x", SECRET], env={"KEY": SECRET}, name="acme"),
    "<ScriptedModel 'scripted' 0 of 1 elements asked for>": partial(ScriptedModel, [SECRET]),
    "<RecordedModel 'recorded' of 's', 0 requests>": partial(RecordedModel, MemoryJournal(), "s"),
    "<RemoteModel 'openai:gpt'>": lambda: RemoteModel("openai:gpt", PROVIDERS["openai"], Http(), lambda _: SECRET),
    "DemoModel()": DemoModel,
    "<ToolContext 's' call 'c'>": partial(ToolContext, "s", "c", user_data=freeze_object({"key": SECRET})),
    "<RunningAsk 'a'>": lambda: RunningAsk("a", lambda *_: None),
}


@pytest.mark.parametrize("shown", ALONE)
async def test_it_shows_what_it_is(shown: str) -> None:
    assert repr(ALONE[shown]()) == shown


def test_a_sandbox_on_disk_shows_its_root(tmp_path: Path) -> None:
    root = str(tmp_path.resolve())
    assert repr(LocalSandbox(tmp_path, env=[("KEY", SECRET)])) == f"<LocalSandbox {root!r}>"
    assert repr(BubblewrapSandbox(tmp_path, env=[("KEY", SECRET)])) == f"<BubblewrapSandbox {root!r}>"


def test_a_journal_in_a_file_shows_its_path_and_whether_it_is_in_use(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "j.db")
    place = str(journal.path)

    async def use() -> None:
        assert repr(journal) == f"<SqliteJournal {place!r} at rest>"
        await journal.claim("s", "me")
        assert repr(journal) == f"<SqliteJournal {place!r} in use>"
        await journal.close()
        assert repr(journal) == f"<SqliteJournal {place!r} at rest>"

    trio.run(use)  # its threads need real time


async def test_a_journal_in_memory_shows_how_many_sessions_it_holds() -> None:
    journal = MemoryJournal()
    await journal.claim("s", "me")
    await journal.claim("t", "me")
    assert repr(journal) == "<MemoryJournal 2 sessions>"


async def test_a_slot_shows_that_somebody_waits() -> None:
    slot: Slot[None] = Slot()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(slot.wait)
        await settle()
        assert repr(slot) == "<Slot waited for>"
        slot.settle(None)


async def test_a_session_shows_its_phase_and_what_waits() -> None:
    async with open_world() as world:
        handle = await world.spawn([stall(after=1, text="so far")], "s")
        session = handle._session  # noqa: SLF001 - what a debugger shows
        assert repr(handle) == "<SessionHandle 's' idle>"
        await handle.prompt("go")
        await settle()
        await handle.prompt("then")
        await handle.prompt(SECRET)
        assert repr(handle) == "<SessionHandle 's' streaming, 2 queued>"
        assert repr(session) == "<Session 's' streaming, 2 queued>"
        assert repr(session.performer) == "<Performer 's' streaming>"
        async with handle.monitor() as monitor, handle.trace() as trace:
            assert repr(monitor) == "<Monitor 's' alive>"
            assert repr(trace) == "<ActorTrace 0 of 256 wait>"
            await handle.stop()
            assert repr(monitor) == "<Monitor 's' gone>"
        assert repr(trace).endswith("wait, left>")
        assert repr(handle) == "<SessionHandle 's' ended>"
        assert repr(session.performer) == "<Performer 's' closed>"


async def test_a_performer_shows_its_calls_and_a_call_its_tool() -> None:
    async with open_world() as world:
        handle = await world.spawn([say(calls=[call("slow")])], "s", tools=[slow()])
        await handle.prompt("go")
        await settle()
        performer = handle._session.performer  # noqa: SLF001 - what a debugger shows
        assert repr(performer) == "<Performer 's' 1 call>"
        (running,) = (performer._calls or {}).values()  # noqa: SLF001 - see above
        assert repr(running) == f"<RunningCall 'slow' {running.call_id!r}>"
        running.cancel()
        assert repr(running) == f"<RunningCall 'slow' {running.call_id!r}, cancelled>"


async def test_a_subscription_shows_how_many_events_wait() -> None:
    async with open_world() as world:
        handle = await world.spawn(["hi"], "s")
        events = handle.subscribe(capacity=5)
        assert repr(events) == "<Subscription 's' 0 of 5 wait, not entered>"
        async with events:
            await handle.ask("go")
            waiting = events.waiting
            assert repr(events) == f"<Subscription 's' {waiting} of 5 wait>"
            bus = handle._session.bus  # noqa: SLF001 - what a debugger shows
            assert repr(bus) == f"<Bus 's' at {bus.cursor.seq}.{bus.cursor.n}, 2 subscriptions>"
        assert repr(events) == f"<Subscription 's' {waiting} of 5 wait, left>"


async def test_a_supervisor_shows_its_place_and_its_children() -> None:
    async with open_world() as world:
        supervisor = world.supervisor
        assert repr(supervisor) == "<Supervisor '/' running>"
        await world.spawn([], "s")
        below = await supervisor.start_supervisor("below")
        assert repr(supervisor) == "<Supervisor '/' running, 2 children>"
        assert repr(below) == "<Supervisor '/below' running>"
        node = supervisor._node  # noqa: SLF001 - what a debugger shows
        assert repr(node) == "<SupervisorNode '/' running, 2 children>"
        assert repr(node.children["s"]) == "<Child 's' session running>"
    assert repr(supervisor).startswith("<Supervisor '/' stopping")


CLASSES: Final[tuple[type[object], ...]] = (
    ActorTrace,
    BubblewrapSandbox,
    Bus,
    Child,
    CompositeSandbox,
    Letter,
    LocalSandbox,
    Mailbox,
    McpServer,
    MemoryJournal,
    MemorySandbox,
    Monitor,
    Performer,
    RecordedModel,
    RemoteModel,
    SubagentRun,
    RunningAsk,
    RunningCall,
    RunningSource,
    ScriptedModel,
    Session,
    SessionHandle,
    Slot,
    SqliteJournal,
    SteadyJournal,
    Subscription,
    Supervisor,
    SupervisorNode,
    Timers,
    ToolContext,
)


@each_case(CLASSES)
def test_an_object_that_is_half_made_shows_that(cls: type[object]) -> None:
    assert repr(object.__new__(cls)) == f"<{cls.__name__} half-made>"


@pytest.mark.parametrize("shown", ALONE)
async def test_no_secret_is_shown(shown: str) -> None:
    assert SECRET not in repr(ALONE[shown]())


def test_a_description_that_raises_is_no_error() -> None:
    class Hostile:
        @in_brackets
        def __repr__(self) -> str:
            raise RecursionError

    assert repr(Hostile()) == "<Hostile half-made>"


def test_counts_have_their_nouns() -> None:
    assert [some(count, "child", "children") for count in (0, 1, 2)] == ["", "1 child", "2 children"]
    assert some(3, "call") == "3 calls"

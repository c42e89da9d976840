"""Representations of the package's objects are informative, contain no secret, and never raise."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import pytest
import trio
import trio.testing

from agentrail import ActorTrace, Monitor, SessionHandle, Subscription, Supervisor
from agentrail.adapters.models.clouds.accounts import Accounts
from agentrail.adapters.models.http import Http
from agentrail.adapters.models.remote_model import RemoteModel
from agentrail.core.supervision_rules import ChildFacts
from agentrail.core.vocabulary.commands import Answer
from agentrail.errors import SessionNotAlive
from agentrail.journals import MemoryJournal, SqliteJournal
from agentrail.mcp import McpServer
from agentrail.models import PROVIDERS
from agentrail.reprs import in_brackets, some
from agentrail.runtime.actor.effect_runner import EffectRunner
from agentrail.runtime.actor.session import Session
from agentrail.runtime.actor.tool_sources import RunningSource
from agentrail.runtime.events.log import EventLog
from agentrail.runtime.events.tracing import Traces
from agentrail.runtime.inbox.letter import Letter
from agentrail.runtime.inbox.mailbox import Mailbox
from agentrail.runtime.shared.admission import Gate
from agentrail.runtime.shared.clock import Clock
from agentrail.runtime.shared.journal_retry import SteadyJournal
from agentrail.runtime.shared.reply_slot import Slot
from agentrail.runtime.shared.timers import Timers
from agentrail.runtime.supervision.children import Child, ServiceRunner
from agentrail.runtime.supervision.subagents.subagent_run import SubagentRun
from agentrail.runtime.supervision.supervisor import SupervisorNode
from agentrail.runtime.work.plugin_asks import RunningAsk
from agentrail.runtime.work.tool_call import RunningCall
from agentrail.sandboxes import BubblewrapSandbox, CompositeSandbox, LocalSandbox, MemorySandbox
from agentrail.testing import RecordedModel, ScriptedModel, stall
from agentrail.tools import ToolContext
from tests.each_case import each_case
from tests.kit import DONE, StopSent, freeze_object
from tests.runtime.world import open_world, settle

SECRET: Final = "k-very-secret"


def letter() -> Letter:
    new_letter = Letter(StopSent(SECRET), command="c", size=1)
    new_letter.number = 4
    return new_letter


def full() -> Mailbox:
    mailbox = Mailbox("s", Gate())
    mailbox.post_control(Letter(StopSent(SECRET)))
    mailbox.suspend()
    return mailbox


def closed() -> Mailbox:
    mailbox = Mailbox("s", Gate())
    mailbox.close(SessionNotAlive("s", "stopped"))
    return mailbox


def settled() -> Slot[Answer]:
    new_value: Slot[Answer] = Slot()
    new_value.settle(DONE)
    return new_value


def timers() -> Timers:
    new_timers = Timers(Clock())
    new_timers.set(("s", "t"), 1.0, lambda: None)
    return new_timers


async def nothing() -> None:
    await trio.lowlevel.checkpoint()


ALONE: Final[tuple[Callable[[], object], ...]] = (
    full,
    closed,
    letter,
    partial(Letter, StopSent(SECRET)),
    Slot[None],
    settled,
    timers,
    partial(ActorTrace, Traces(), nothing, 5),
    partial(Child, ServiceRunner(nothing), ChildFacts("a", "permanent"), 1.0),
    MemoryJournal,
    lambda: SteadyJournal(MemoryJournal(), Clock()),
    partial(MemorySandbox, {"a": SECRET.encode()}),
    partial(CompositeSandbox, {"notes/": MemorySandbox()}, MemorySandbox()),
    partial(McpServer, ["x", SECRET], env={"KEY": SECRET}, name="acme"),
    partial(ScriptedModel, [SECRET]),
    partial(RecordedModel, MemoryJournal(), "s"),
    lambda: RemoteModel("openai:gpt", PROVIDERS["openai"], Http(), lambda _: SECRET, Accounts()),
    partial(LocalSandbox, ".", env=[("KEY", SECRET)]),
    partial(BubblewrapSandbox, ".", env=[("KEY", SECRET)]),
    partial(SqliteJournal, "j.db"),
    partial(ToolContext, "s", "c", user_data=freeze_object({"key": SECRET})),
    lambda: RunningAsk("a", lambda *_: None),
)


@pytest.mark.parametrize("make", ALONE)
async def test_what_is_shown_begins_with_the_class_and_holds_no_secret(make: Callable[[], object]) -> None:
    new_value = make()
    text = repr(new_value)
    assert text.startswith(f"<{type(new_value).__name__} ")
    assert "half-made" not in text
    assert SECRET not in text


async def test_a_session_shows_its_phase_and_what_waits() -> None:
    async with open_world() as world:
        handle = await world.spawn([stall(after=1, text="so far")], "s")
        assert repr(handle) == "<SessionHandle 's' idle>"
        await handle.prompt("go")
        await settle()
        await handle.prompt("then")
        await handle.prompt(SECRET)
        assert repr(handle) == "<SessionHandle 's' streaming, 2 queued>"
        async with handle.monitor() as monitor, handle.subscribe(capacity=5) as events:
            assert repr(monitor) == "<Monitor 's' alive>"
            assert repr(events) == "<Subscription 's' 0 of 5 wait>"
            await handle.stop()
            assert repr(monitor) == "<Monitor 's' gone>"
        assert repr(handle) == "<SessionHandle 's' ended>"


async def test_a_supervisor_shows_its_place_and_its_children() -> None:
    async with open_world() as world:
        supervisor = world.supervisor
        assert repr(supervisor) == "<Supervisor '/' running>"
        await world.spawn([], "s")
        below = await supervisor.start_supervisor("below")
        assert repr(supervisor) == "<Supervisor '/' running, 2 children>"
        assert repr(below) == "<Supervisor '/below' running>"
    assert repr(supervisor).startswith("<Supervisor '/' stopping")


CLASSES: Final[tuple[type[object], ...]] = (
    ActorTrace,
    BubblewrapSandbox,
    EventLog,
    Child,
    CompositeSandbox,
    Letter,
    LocalSandbox,
    Mailbox,
    McpServer,
    MemoryJournal,
    MemorySandbox,
    Monitor,
    EffectRunner,
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


def test_a_description_that_raises_is_no_error() -> None:
    class Hostile:
        @in_brackets
        def __repr__(self) -> str:
            raise RecursionError

    assert repr(Hostile()) == "<Hostile half-made>"


def test_counts_have_their_nouns() -> None:
    assert [some(count, "child", "children") for count in (0, 1, 2)] == ["", "1 child", "2 children"]
    assert some(3, "call") == "3 calls"

"""Calls of the handle, while the session is idle and while a turn is open."""

from collections.abc import Callable

import pytest
import trio
from attrs import frozen

from agentrail import Context, Continue, HoldTool, Plugin, SessionHandle
from agentrail.core.vocabulary.commands import When
from agentrail.errors import MailboxFull
from agentrail.events import (
    AgentEnd,
    AgentStart,
    ModelEffective,
    ModelSwitched,
    PluginAttached,
    PluginDetached,
    PluginOptsUpdated,
    PromptQueued,
    PromptReceived,
    RequestStart,
    SteeringApplied,
    ToolAttached,
    ToolDetached,
    ToolsUpdated,
)
from agentrail.models import Image, Origin, Part, Text, ToolMessage, UserMessage
from agentrail.plugins import BeforeTool, Keyed
from agentrail.runtime.handle import ask_at_once
from agentrail.runtime.inbox.mailbox import MAX_MESSAGES
from agentrail.testing import Recorder, ScriptedModel, call, say
from tests.kit import Element, Phase
from tests.runtime.journals import TestJournal
from tests.runtime.tools import quick, slow
from tests.runtime.world import World, open_world, settle, until


@frozen
class Limits(Plugin):
    most: int = 1


@frozen
class Ranked(Plugin[str]):
    priority: int  # type: ignore[misc]  # an option here
    own: str

    def init(self, ctx: Context) -> str:
        return self.own


class Holder(Plugin):
    def before_tool(self, hook: BeforeTool, state: None, ctx: Context) -> Continue[None] | HoldTool[None]:
        return HoldTool("may it?") if hook.name == "held" else Continue()


async def idle(session: SessionHandle) -> None:
    await until(lambda: session.status().phase == "idle")
    await settle()


# Talking


@pytest.mark.long
async def test_a_prompt_in_a_turn_is_queued_and_consumed_in_order(world: World) -> None:
    session = await world.spawn([say("a b", delay=1.0), "second", "third"])
    await session.prompt("first")
    accepted = [await session.prompt(text) for text in ("second", "third")]
    assert [(a.status, a.position) for a in accepted] == [("queued", 1), ("queued", 2)]
    assert [prompt.text for prompt in session.queued()] == ["second", "third"]
    await until(lambda: session.status().turn == 3 and not session.status().turn_open)
    await settle()
    heard = world.heard(session)
    assert [event.text for event in heard.of(PromptQueued)] == ["second", "third"]
    assert [event.text for event in heard.of(PromptReceived)] == ["first", "second", "third"]


async def test_a_prompt_can_have_parts(world: World) -> None:
    session = await world.spawn(["ok"])
    parts: list[Part] = [Text("look"), Image("image/png", "aGk=")]
    reply = await session.ask(parts)
    assert reply.messages[0].parts == tuple(parts)


@pytest.mark.long
async def test_the_mailbox_is_bounded_for_those_who_do_not_wait() -> None:
    journal = TestJournal()
    async with open_world(journal) as world:
        session = await world.spawn(ScriptedModel(["ok"], repeat_last=True))
        journal.commit = 1.0
        full: list[MailboxFull] = []

        async def prompt() -> None:
            try:
                await ask_at_once(session, "hi")
            except MailboxFull as error:
                full.append(error)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.switch_model, "demo")
            await trio.sleep(0.1)
            for _ in range(MAX_MESSAGES + 3):
                nursery.start_soon(prompt)
            await trio.sleep(0.1)
            assert len(full) == 3
            nursery.start_soon(session.prompt, "one who waits")
            await trio.sleep(0.1)
            journal.commit = None
        await until(lambda: session.status().phase == "idle" and not session.queued())
        assert session.status().turn == MAX_MESSAGES + 1


@pytest.mark.parametrize("when", ["gap", "now"])
async def test_steering_in_a_turn_is_merged_before_the_next_request(world: World, when: When) -> None:
    model = ScriptedModel([say("a b c", delay=1.0), "then"])
    session = await world.spawn(model)
    await session.prompt("go")
    await trio.sleep(1.5)
    assert (await session.steer("one", when=when)).status == "queued"
    await idle(session)
    heard = world.heard(session)
    assert heard.only(SteeringApplied).count == 1
    assert heard.said == ("a b cthen" if when == "gap" else "a then")
    last = [m for m in model.requests[-1].messages if isinstance(m, UserMessage)][-1]
    assert (last.text, last.origin) == ("one", Origin.STEERING)
    assert len(heard.of(AgentStart)) == 1


# Deciding


@pytest.mark.long
async def test_a_held_call_is_decided_beside_the_batch(world: World) -> None:
    script: list[Element] = [say(calls=[call("slow"), call("held")]), "done"]
    session = await world.spawn(script, tools=[slow(), quick("held")], plugins=[Holder()])
    await session.prompt("go")
    await trio.sleep(1)
    (held,) = session.status().held
    assert session.inspect().phase is Phase.EXECUTING_TOOLS
    await session.approve(held.id)
    assert session.status().held == ()
    await idle(session)
    results = [m for m in session.messages() if isinstance(m, ToolMessage)]
    assert [result.text for result in results] == ["done after 3 s", "done"]


# Changing


async def test_a_model_is_switched_at_once_in_idle(world: World) -> None:
    session = await world.spawn(["one"])
    await session.ask("hi")
    other = ScriptedModel(["two"], name="other")
    await session.switch_model(other, temperature=0)
    assert session.status().model == "other"
    assert (await session.ask("hi")).text == "two"
    await settle()
    heard = world.heard(session)
    assert heard.only(ModelSwitched) == ModelSwitched("scripted", "other", provider_opts_changed=True)
    assert heard.only(ModelEffective) == ModelEffective("other")
    assert other.requests[0].options == {"temperature": 0}


@pytest.mark.long
async def test_a_model_is_switched_from_the_next_turn_on_in_a_turn(world: World) -> None:
    first = ScriptedModel([say(calls=[call("slow")]), "still one"])
    session = await world.spawn(first, tools=[slow()])
    await session.prompt("hi")
    await trio.sleep(1)
    await session.switch_model(ScriptedModel(["two"], name="other"))
    await idle(session)
    assert world.heard(session).said == "still one"
    assert (await session.ask("hi")).text == "two"


async def test_tools_come_and_go(world: World) -> None:
    model = ScriptedModel(["ok"], repeat_last=True)
    session = await world.spawn(model, tools=[quick("a")])
    await session.attach_tools(quick("b"), quick("c"))
    await session.detach_tools("a")
    await session.replace_tools(quick("b", "another"))
    await session.ask("hi")
    assert [spec.name for spec in model.requests[0].tools] == ["b", "c"]
    heard = world.heard(session)
    await settle()
    assert [event.name for event in heard.of(ToolAttached)] == ["b", "c", "b"]
    assert [event.name for event in heard.of(ToolDetached)] == ["a"]
    assert len(heard.of(ToolsUpdated)) == 3


async def test_plugins_change_at_once_in_idle(world: World) -> None:
    session = await world.spawn([], plugins=[Limits()])
    await session.update_plugin(Limits, most=2)
    await session.attach_plugin(Holder())
    await session.detach_plugin(Limits)
    assert [attached.key for attached in session.inspect().plugins] == ["Holder"]
    await settle()
    heard = world.heard(session)
    assert heard.only(PluginOptsUpdated) == PluginOptsUpdated("Limits", success=True)
    assert heard.only(PluginAttached) == PluginAttached("Holder")
    assert heard.only(PluginDetached) == PluginDetached("Limits")


@pytest.mark.long
async def test_options_for_a_plugin_that_another_one_replaces_are_refused(world: World) -> None:
    session = await world.spawn([say("a b", delay=1.0)], plugins=[Keyed("a", Limits()), Holder()])
    await session.prompt("go")
    await session.detach_plugin("a")
    await session.attach_plugin(Keyed("a", Recorder()))
    await session.update_plugin("a", most=2)
    await idle(session)
    refused = world.heard(session).only(PluginOptsUpdated)
    assert not refused.success
    assert refused.error == f"they are for a `{__name__}:Limits`, which another plugin has replaced"
    assert {attached.key: attached.plugin.partition(":")[2] for attached in session.inspect().plugins} == {
        "a": "Recorder",
        "Holder": "Holder",
    }


async def test_a_plugin_whose_options_give_it_another_priority_takes_its_place(world: World) -> None:
    session = await world.spawn(
        [], plugins=[Keyed(own_value, Ranked(1 if own_value == "a" else 2, own_value)) for own_value in "abc"]
    )
    for key, priority, order in [("a", 3, "bca"), ("a", 2, "bca"), ("c", 1, "cba"), ("b", 2, "cba")]:
        await session.update_plugin(key, priority=priority)
        assert "".join(attached.key for attached in session.inspect().plugins) == order
        assert session.inspect().plugin_states == tuple(order)


# Looking


async def test_looking_shows_the_last_durable_step() -> None:
    journal = TestJournal()
    async with open_world(journal) as world:
        session = await world.spawn([say("a b c", delay=1.0)])
        old = session.inspect()
        journal.commit = 5.0
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.prompt, "go")
            await trio.sleep(4)
            assert session.inspect() is old
            assert session.messages() == ()
            assert session.status().phase == "idle"
            journal.commit = None
        assert session.status().phase == "running"
        assert [message.text for message in session.messages()] == ["go"]


@pytest.mark.parametrize("look", ["status", "messages", "inspect", "queued"])
async def test_looking_works_in_every_state(world: World, look: str) -> None:
    session = await world.spawn([say("a b", delay=1.0)])
    looking: Callable[[], object] = getattr(session, look)
    looking()
    await session.prompt("go")
    looking()
    await trio.sleep(1.5)
    assert session.status().phase == "streaming"
    looking()
    await session.stop()
    looking()


async def test_a_turn_has_its_events_in_order(world: World) -> None:
    session = await world.spawn([say("Let me see.", calls=[call("quick")]), "Done."], tools=[quick()])
    await session.ask("go")
    await settle()
    assert world.heard(session).names == [
        "SessionStarted",
        "PromptReceived",
        "AgentStart",
        "RequestStart",
        "ResponseComplete",
        "ToolCalls",
        "ToolExecutionStart",
        "ToolExecutionEnd",
        "ToolExecutionMetrics",
        "RequestStart",
        "ResponseComplete",
        "AgentEnd",
    ]
    heard = world.heard(session)
    kinds = [type(event).__name__ for event in heard.events]
    assert kinds.index("MessageStart") == kinds.index("RequestStart") + 1
    assert len(heard.of(RequestStart)) == 2
    assert heard.only(AgentEnd).reason == "end"

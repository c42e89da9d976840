"""A critical plugin whose `on_event` raises during a response: the text and the usage so far are kept."""

from collections.abc import Awaitable, Callable

import pytest
import trio
from attrs import frozen

from agentrail import Ask, Context, Continue, Plugin, SessionHandle, tool
from agentrail.errors import SteeringQueueFull, TurnAborted
from agentrail.events import AgentAbort, Envelope, ToolExecutionEnd, ToolExecutionStart
from agentrail.models import AssistantMessage, EmitChunk, ModelRequest, Response, Text, TextChunk, Usage, UsageChunk
from agentrail.plugins import BeforeRequest, RunTool
from agentrail.testing import ScriptedModel, call, say
from tests.runtime.families import agent
from tests.runtime.families import task as task_call
from tests.runtime.journals import TestJournal
from tests.runtime.tools import quick, slow
from tests.runtime.world import World, open_world, settle, until

SAID = "what had come "
USED = Usage(input_tokens=100, output_tokens=7)


class Speaking:
    """Answers with *first*; then streams text and usage without an end; later requests it answers at once."""

    name = "speaking"

    def __init__(self, first: ScriptedModel | None = None) -> None:
        self.first = first
        self.spoke = False

    async def stream(self, request: ModelRequest, emit: EmitChunk) -> Response:
        if self.first is not None:
            first, self.first = self.first, None
            return await first.stream(request, emit)
        if self.spoke:
            return Response((Text("whole"),))
        self.spoke = True
        emit(TextChunk(SAID))
        emit(UsageChunk(USED))
        await trio.sleep(3600)
        return Response((Text("too late"),))


@frozen
class Breaking(Plugin[None]):
    """Raises at one kind of event."""

    at: str

    critical = True

    def on_event(self, event: Envelope, state: None, ctx: Context) -> None:
        if type(event.event).__name__ == self.at:
            raise ValueError(self.at)


async def _withdraws(session: SessionHandle) -> None:
    ref = (await session.prompt("queued")).ref
    await session.withdraw(ref)


async def _waits(_: SessionHandle) -> None:
    await trio.sleep(40)


CALLS: dict[str, Callable[[SessionHandle], Awaitable[object]]] = {
    "PromptQueued": lambda session: session.prompt("another"),
    "PromptWithdrawn": _withdraws,
    "SteeringReceived": lambda session: session.steer("by the way"),
    "ModelSwitched": lambda session: session.switch_model("demo"),
    "ToolAttached": lambda session: session.attach_tools(quick("other")),
    "StreamStalled": _waits,
}


async def check(world: World, session: SessionHandle) -> None:
    await until(lambda: session.status().phase == "idle")
    await settle()
    (message,) = [m for m in session.messages() if isinstance(m, AssistantMessage) and m.interrupted]
    assert (message.text, message.usage) == (SAID, USED)
    used = session.inspect().usage
    assert (used.input_tokens, used.output_tokens) >= (USED.input_tokens, USED.output_tokens)
    assert world.heard(session).said == SAID
    assert [abort.kind for abort in world.heard(session).of(AgentAbort)][-1] == "critical"


@pytest.mark.parametrize("commit", [None, 0.5])
@pytest.mark.parametrize("point", CALLS)
async def test_what_a_caller_or_a_timer_causes_ends_the_turn_with_what_had_come(
    point: str, commit: float | None
) -> None:
    async with open_world(TestJournal(commit=commit)) as world:
        session = await world.spawn(Speaking(), plugins=[Breaking(point)])
        await session.prompt("go")
        await until(lambda: world.heard(session).said == SAID)
        await CALLS[point](session)
        await check(world, session)


async def test_a_steering_text_that_is_refused_ends_the_turn_with_what_had_come(world: World) -> None:
    session = await world.spawn(Speaking(), plugins=[Breaking("SteeringReceived")], max_steering_queue=0)
    await session.prompt("go")
    await until(lambda: world.heard(session).said == SAID)
    with pytest.raises(SteeringQueueFull):
        await session.steer("by the way")
    await check(world, session)


@pytest.mark.long
async def test_a_call_that_outlived_its_turn_ends_the_next_one_with_what_had_come(world: World) -> None:
    first = ScriptedModel([say(calls=[call("slow")])])
    session = await world.spawn(Speaking(first), tools=[slow("slow", 5.0)], plugins=[Breaking("ToolExecutionEnd")])
    await session.prompt("go")
    await until(lambda: session.status().phase == "executing_tools")
    await settle()
    await session.abort(kill_tools="none")
    await session.prompt("again")
    await until(lambda: world.heard(session).said == SAID)
    await check(world, session)


@pytest.mark.long
async def test_a_sub_agent_in_the_background_ends_the_turn_with_what_had_come(world: World) -> None:
    first = ScriptedModel([task_call(background=True)])
    agents = {"finder": agent([say("found", delay=2.0)])}
    session = await world.spawn(Speaking(first), agents=agents, plugins=[Breaking("SubagentEnd")])
    await session.prompt("go")
    await until(lambda: world.heard(session).said == SAID)
    await until(lambda: not session.status().turn_open)
    await check(world, session)


async def test_an_actor_that_is_started_again_ends_the_turn_with_what_had_come() -> None:
    journal = TestJournal()
    async with open_world(journal) as world:
        session = await world.spawn(Speaking(), plugins=[Breaking("SessionRestarted")])
        await session.prompt("go")
        await until(lambda: world.heard(session).said == SAID)
        broken = [ValueError("once")]  # a mistake: of an outage no actor crashes
        journal.failing = lambda _record: broken.pop() if broken else None
        with trio.move_on_after(1):
            await session.switch_model("demo")
        await check(world, session)


@pytest.mark.parametrize("point", ["ToolExecutionStart", "ToolCalls", "ResponseComplete"])
async def test_no_start_is_told_of_a_call_that_does_not_start(point: str) -> None:
    ran: list[str] = []

    @tool
    def note(text: str) -> str:
        """Note a text."""
        ran.append(text)
        return "noted"

    journal = TestJournal()
    async with open_world(journal) as world:
        calls = [call("note", {"text": text}) for text in ("one", "two")]
        session = await world.spawn([say(calls=calls), "fine"], tools=[note], plugins=[Breaking(point)])
        with pytest.raises(TurnAborted, match="critical"):
            await session.ask("go")
        assert (await session.ask("and now?")).text == "fine"
        records = await journal.read(session.id)
        envelopes = [envelope for record in records for envelope in record.events]
        assert ran == []
        assert [item.event for item in envelopes if isinstance(item.event, ToolExecutionStart)] == []
        assert [single_value.seq for single_value in envelopes] == list(range(1, len(envelopes) + 1))


class Asking(Plugin[None]):
    """Has a tool run before each request."""

    def before_request(self, hook: BeforeRequest, state: None, ctx: Context) -> Ask[None] | Continue[None]:
        return Ask(RunTool("quick")) if hook.answer is None else Continue()


async def test_nor_of_a_tool_that_a_plugin_asked_for() -> None:
    journal = TestJournal()
    async with open_world(journal) as world:
        plugins = [Breaking("ToolExecutionStart"), Asking()]
        session = await world.spawn(["fine"], tools=[quick()], plugins=plugins)
        with pytest.raises(TurnAborted, match="critical"):
            await session.ask("go")
        events = [envelope.event for record in await journal.read(session.id) for envelope in record.events]
        assert not [event for event in events if isinstance(event, ToolExecutionStart | ToolExecutionEnd)]

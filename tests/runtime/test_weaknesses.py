"""Weak points of earlier systems that no other file tries: prompts, what plugins ask for, tools, answers and parts."""

from __future__ import annotations

from itertools import pairwise
from typing import Final, Literal

import pytest
from attrs import frozen

from agentrail import (
    AddContext,
    Ask,
    Context,
    Emit,
    Plugin,
    SessionSpec,
    SetSection,
    open_supervisor,
    tool,
)
from agentrail.core.compaction import LEFT_OUT
from agentrail.errors import PermanentModelError, TurnAborted, UsageError
from agentrail.events import CompactEnd, PluginError
from agentrail.journals import MemoryJournal
from agentrail.models import AskModel, Image, Json, Leaving, Text, ToolMessage, UserMessage
from agentrail.plugins import Answered, BeforePrompt, BeforeRequest, CallService, Keyed
from agentrail.testing import ScriptedModel, call, fail, say, transient
from agentrail.tools import ToolResult, ok
from agentrail.values.content import text_of
from tests.cache_prefixes import broken_prefixes
from tests.coded import coded
from tests.runtime.world import all_events

IMAGE: Final = "aGVsbG8=" * 2_000


# Those without a test elsewhere


class Commands(Plugin[None]):
    def before_request(self, hook: BeforeRequest, state: None, ctx: Context) -> Emit[None]:
        return Emit([("memory_contents", "new"), ("update_system_context", "new"), ("synthetic_tool_results", "new")])


async def test_an_event_changes_nothing_whatever_its_name() -> None:
    model = ScriptedModel(["yes"])
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(SessionSpec(model=model, plugins=[Commands()], system="Help."))
        await session.ask("go")
        request = model.requests[0]
        assert (request.system, request.background, request.sections) == ("Help.", (), ())
        assert [text_of(message.parts) for message in request.messages if isinstance(message, UserMessage)] == ["go"]


class Recalls(Plugin[None]):
    """Looks up what is known about the prompt."""

    def before_prompt(self, hook: BeforePrompt, state: None, ctx: Context) -> Ask[None] | SetSection[None]:
        if isinstance(hook.answer, Answered):
            return SetSection("recalled", str(hook.answer.value))
        return Ask(CallService("recall", hook.text))


async def test_a_plugin_of_the_same_class_is_refused_or_has_a_key_and_a_state_of_its_own() -> None:
    model = ScriptedModel(["yes"])
    async with open_supervisor() as supervisor:
        with pytest.raises(UsageError, check=coded("plugin-exists"), match="Tells"):
            await supervisor.spawn(SessionSpec(model=model, plugins=[Tells(), Tells()]))
        session = await supervisor.spawn(SessionSpec(model=model, plugins=[Tells(), Keyed("other", Tells(5))]))
        await session.ask("go")
        assert (session.inspect().plugin_state("Tells"), session.inspect().plugin_state("other")) == (1, 6)


class Plans(Plugin[int]):
    """Keeps a plan, which changes with each request."""

    def init(self, ctx: Context) -> int:
        return 0

    def before_request(self, hook: BeforeRequest, state: int, ctx: Context) -> SetSection[int]:
        return SetSection("plan", f"{state} steps are done", state + 1)


async def test_a_plan_that_changes_leaves_what_stands_before_it() -> None:
    model = ScriptedModel(["one", "two"])
    journal = MemoryJournal()
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(SessionSpec(model=model, plugins=[Plans()], system="Help."))
        await session.ask("go")
        await session.ask("on")
        assert not list(broken_prefixes(await journal.read(session.id)))
    first, second = model.requests
    assert [request.sections for request in model.requests] == [
        (("plan", "0 steps are done"),),
        (("plan", "1 steps are done"),),
    ]
    assert (first.system, first.background) == (second.system, second.background) == ("Help.", ())
    assert tuple(second.messages)[: len(first.messages)] == tuple(first.messages)


@tool(effect="pure")
async def look(point: str) -> str:
    """Look."""
    return f"{point} found " * 200


async def written(leaving: Leaving, ask: AskModel) -> str:  # noqa: ARG001 - the parameters of a compactor
    return "there was talk"


async def test_what_was_shortened_stays_as_it_is_until_the_next_compaction() -> None:
    script = [item for turn in range(12) for item in (say(calls=[call("look", {"point": f"{turn}"})]), f"done {turn}")]
    model, journal = ScriptedModel(script), MemoryJournal()
    async with open_supervisor(journal=journal) as supervisor:
        spec = SessionSpec(model=model, tools=[look], context_window=2_500, compactor=written)
        session = await supervisor.spawn(spec)
        for turn in range(12):
            await session.ask(f"turn {turn}")
        events = await all_events(session)
        changes = [changed for _, changed in broken_prefixes(await journal.read(session.id))]
    compactions = [event for event in events if isinstance(event, CompactEnd)]
    assert any("were shortened" in end.note for end in compactions), compactions
    assert [event.name for event in changes] == ["compaction"] * len(compactions)
    moved = [
        index
        for index, (old, after) in enumerate(pairwise(model.requests))
        if tuple(after.messages)[: len(old.messages)] != tuple(old.messages)
    ]
    assert len(moved) == len(compactions)


@pytest.mark.parametrize("text", ["", "It is red. " * 500], ids=["an image alone", "beside a text"])
async def test_an_image_that_leaves_the_context_is_told_of(text: str) -> None:
    @tool(effect="pure")
    async def see() -> ToolResult:
        """Look at the wall."""
        return ok([Image("image/png", IMAGE), *([Text(text)] if text else [])])

    model = ScriptedModel([say(calls=[call("see")]), "red", "yes", "no"])
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(SessionSpec(model=model, tools=[see], context_window=1_000, compactor=written))
        for said_text in ("look", "and? " * 100, "so? " * 100):
            await session.ask(said_text)
        await session.compact()
        (result,) = [message for message in session.messages() if isinstance(message, ToolMessage)]
    assert [type(part) for part in result.parts] == [Text]
    assert result.text.endswith(LEFT_OUT)
    assert ("left out…" in result.text) == bool(text)


async def test_an_error_of_the_provider_is_no_message_and_no_answer() -> None:
    model = ScriptedModel([fail(PermanentModelError("no such thing"))])
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(SessionSpec(model=model))
        with pytest.raises(TurnAborted, match="no such thing"):
            await session.ask("go")
        assert [type(message) for message in session.messages()] == [UserMessage]


async def recall(payload: Json) -> Json:
    return f"about {payload}: blue"


async def test_what_is_looked_up_for_the_first_prompt_is_in_its_request() -> None:
    model = ScriptedModel(["yes"])
    spec = SessionSpec(model=model, plugins=[Recalls()], services={"recall": recall})
    async with open_supervisor() as supervisor:
        await (await supervisor.spawn(spec)).ask("the sky")
    assert model.requests[0].sections == (("recalled", "about the sky: blue"),)


@pytest.mark.parametrize("mode", ["full", "task", "none"])
async def test_a_prompt_has_no_text_that_its_program_did_not_give(mode: Literal["full", "task", "none"]) -> None:
    model = ScriptedModel(["yes"])
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(SessionSpec(model=model, prompt_mode=mode))
        await session.ask("go")
    request = model.requests[0]
    assert (request.system, request.background, request.sections) == ("", (), ())


@frozen
class Tells(Plugin[int]):
    """Adds context with a number of its own."""

    first: int = 0

    def init(self, ctx: Context) -> int:
        return self.first

    def before_request(self, hook: BeforeRequest, state: int, ctx: Context) -> AddContext[int]:
        return AddContext(f"attempt {hook.attempt}, told {state}", state + 1)


class Breaks(Plugin[None]):
    priority = 1

    def before_request(self, hook: BeforeRequest, state: None, ctx: Context) -> AddContext[None]:
        raise OSError


def _last(model: ScriptedModel, index: int) -> list[str]:
    return [text_of(message.parts) for message in model.requests[index].messages if isinstance(message, UserMessage)]


async def test_one_that_breaks_leaves_the_context_of_the_others() -> None:
    model = ScriptedModel(["yes"])
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(SessionSpec(model=model, plugins=[Breaks(), Tells()]))
        async with session.subscribe(types=[PluginError]) as events:
            await session.ask("go")
            event = (await anext(events)).event
    assert isinstance(event, PluginError)
    assert (event.plugin, event.hook) == ("Breaks", "before_request")
    assert _last(model, 0) == ["go", "attempt 1, told 0"]


async def test_each_attempt_has_context_of_its_own_once() -> None:
    model = ScriptedModel([transient(), "yes"])
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(SessionSpec(model=model, plugins=[Tells()]))
        await session.ask("go")
    assert _last(model, 0) == ["go", "attempt 1, told 0"]
    assert _last(model, 1) == ["go", "attempt 2, told 1"]

"""`PrefixChanged` comes if, and only if, the rendered bytes of a request do not begin with those of the last one."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import Literal, TypeAlias

import pytest
import trio
from attrs import frozen

from agentrail import Context, Continue, Plugin, SessionHandle, SessionSpec, SetSection, open_supervisor
from agentrail.hooks.actions import Intervene, ReplaceMessages
from agentrail.hooks.moments import BeforePrompt, BeforeRequest
from agentrail.hooks.plugin import AnyPlugin, Keyed
from agentrail.ports.tool import Tool
from agentrail.testing import ScriptedModel
from agentrail.values.content import Text
from agentrail.values.events import Event
from agentrail.values.events.context import PrefixChanged
from agentrail.values.json import FrozenObject, JsonObject
from agentrail.values.messages import Message, UserMessage
from agentrail.values.stream import ModelRequest
from agentrail.values.tools import ToolResult, ToolSpec, ok
from tests.adapters.models.goldens import OWN
from tests.adapters.models.prefixes import common, prompt_of
from tests.profiles import CAMPAIGN

EDITS = 200 if CAMPAIGN else 60
CLOSING = 16
"""The most bytes that end a prompt and are not there when it goes on: quotes and brackets."""

Layer: TypeAlias = Literal["skills", "memory", "dynamic"]
Expected: TypeAlias = tuple[str, str, str] | None
Between = Callable[[SessionHandle], Awaitable[None]]
LONG = "All that there is to know about it. " * 12


@frozen
class Sets(Plugin[int]):
    """Sets one section at the prompt of one number."""

    at: int
    key_: str
    text: str | None
    layer: Layer

    def init(self, ctx: Context) -> int:
        return 0

    def before_prompt(self, hook: BeforePrompt, state: int, ctx: Context) -> Continue[int] | SetSection[int]:
        if state != self.at:
            return Continue(state + 1)
        return SetSection(self.key_, self.text, state + 1, layer=self.layer)


@frozen
class Shows(Plugin[int]):
    """Shows other messages from the request of one number on: one is changed, left out, or added at the end."""

    at: int
    place: int
    how: Literal["change", "leave_out", "add"]

    def init(self, ctx: Context) -> int:
        return 0

    def before_request(self, hook: BeforeRequest, state: int, ctx: Context) -> Continue[int] | ReplaceMessages[int]:
        if state != self.at:
            return Continue(state + 1)
        messages: list[Message] = list(hook.messages)
        if self.how == "change":
            messages[self.place] = UserMessage((Text("something else"),))
        elif self.how == "leave_out":
            del messages[self.place]
        else:
            messages.append(UserMessage((Text("by the way"),)))
        return ReplaceMessages(messages, state + 1)


class Speaks(Plugin[None]):
    def before_request(self, hook: BeforeRequest, state: None, ctx: Context) -> Intervene[None]:
        return Intervene("go on")


@frozen
class Fake:
    spec: ToolSpec

    async def execute(self, args: JsonObject, ctx: object) -> ToolResult:
        await trio.lowlevel.checkpoint()
        return ok("done")


def tool(name: str, about: str = LONG) -> Tool:
    return Fake(ToolSpec(name, about, FrozenObject({"type": "object"})))


KNOWN: tuple[tuple[str, Layer], ...] = (
    ("sewing", "skills"),
    ("cutting", "skills"),
    ("AGENTS.md", "memory"),
    ("NOTES.md", "memory"),
    ("todos", "dynamic"),
)


class Edit:
    """One edit before the third turn, and what is to be said of it: part, name, plugin; `None` if nothing is."""

    def __init__(self, expected: Expected, *plugins: AnyPlugin, between: Between | None = None) -> None:
        self.expected = expected
        self.plugins = [Keyed(f"Editor{place}", plugin) for place, plugin in enumerate(plugins)]
        self.between = between


def section_edit(chance: random.Random) -> Edit:
    key, layer = chance.choice(KNOWN)
    last = key == [name for name, other in KNOWN if other == layer][-1]
    expected = None if layer == "dynamic" else (layer, key, "Editor0")
    text = f"Now {chance.random()}. {LONG}"
    match chance.randrange(6):
        case 0:
            return Edit(expected, Sets(2, key, text, layer))
        case 1:
            return Edit(expected, Sets(2, key, None, layer))
        case 2:
            return Edit(None, Sets(2, key, f"{key}: {LONG}", layer))
        case 3:
            again = None if expected is None or last else (layer, key, "Editor1")
            return Edit(again, Sets(2, key, None, layer), Sets(2, key, f"{key}: {LONG}", layer))
        case 4:
            added = None if layer == "dynamic" else (layer, "new", "Editor0")
            return Edit(added, Sets(2, "new", text, layer))
        case _:
            moved = (layer, key, "Editor0") if layer != "dynamic" else ("memory", key, "Editor0")
            other: Layer = "dynamic" if layer != "dynamic" else "memory"
            return Edit(moved, Sets(2, key, text, other))


def tool_edit(chance: random.Random) -> Edit:
    name = chance.choice(("cut", "stitch", "press"))

    async def change(session: SessionHandle) -> None:
        await session.detach_tools(name)
        await session.attach_tools(tool(name, "another thing"))

    async def add(session: SessionHandle) -> None:
        await session.attach_tools(tool("iron"))

    async def remove(session: SessionHandle) -> None:
        await session.detach_tools(name)

    async def renew(session: SessionHandle) -> None:
        await session.detach_tools(name)
        await session.attach_tools(tool(name))

    async def come_and_go(session: SessionHandle) -> None:
        await session.attach_tools(tool("iron"))
        await session.detach_tools("iron")

    own = ("tool", name, "")
    return chance.choice(
        (
            Edit(own, between=change),
            Edit(("tool", "iron", ""), between=add),
            Edit(own, between=remove),
            Edit(None if name == "press" else own, between=renew),
            Edit(None, between=come_and_go),
        )
    )


def message_edit(chance: random.Random) -> Edit:
    async def compact(session: SessionHandle) -> None:
        await session.compact("now")

    place = chance.randrange(3)
    replaced = ("messages", "replaced", "Editor0")
    return chance.choice(
        (
            Edit(replaced, Shows(2, place, "change")),
            Edit(replaced, Shows(2, place, "leave_out")),
            Edit(None, Shows(2, place, "add")),
            Edit(None, Speaks()),
            Edit(("messages", "compaction", ""), between=compact),
        )
    )


async def played(edit: Edit) -> tuple[list[ModelRequest], list[PrefixChanged]]:
    """Return the last two requests of a session with *edit* before its third turn, and what was told of prefixes."""
    model = ScriptedModel([f"answer {turn}. {LONG}" for turn in range(3)], name=OWN["anthropic"])
    known = [Keyed(key.partition(".")[0], Sets(0, key, f"{key}: {LONG}", layer)) for key, layer in KNOWN]
    told: list[Event] = []
    async with open_supervisor() as supervisor:
        spec = SessionSpec(
            model=model,
            plugins=[*known, *edit.plugins],
            tools=[tool("cut"), tool("stitch"), tool("press")],
            system="Help.",
            compact_to=0.3,
        )
        session = await supervisor.spawn(spec)
        for turn in range(3):
            if turn == 2 and edit.between is not None:
                await edit.between(session)
            await session.ask(f"question {turn}. {LONG}")
        async with session.subscribe(since=0) as events:
            async for envelope in events:
                told.append(envelope.event)
                if envelope.seq >= session.inspect().seq:
                    break
    return model.requests[-2:], [event for event in told if isinstance(event, PrefixChanged)]


@pytest.mark.parametrize("kind", [section_edit, tool_edit, message_edit], ids=["sections", "tools", "messages"])
async def test_each_edit_is_told_with_its_part_and_plugin_and_nothing_else_is(
    kind: Callable[[random.Random], Edit],
) -> None:
    chance = random.Random(kind.__name__)
    for number in range(EDITS // 3 + 1):
        edit = kind(chance)
        requests, told = await played(edit)
        about = f"edit {number}: {edit.expected}"
        assert [(one.part, one.name, one.by) for one in told] == ([] if edit.expected is None else [edit.expected]), (
            about
        )
        for provider in OWN:
            before, after = (prompt_of(request.but(sections=()), provider) for request in requests)
            paid = len(before) - common(before, after)
            assert (paid > CLOSING) == bool(told), (about, provider)
            if told and told[0].name != "compaction":
                assert abs(told[0].tokens * 4 - paid) < 600 + paid / 4, (about, provider, told, paid)

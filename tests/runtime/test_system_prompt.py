"""Layers of the system prompt: what each `prompt_mode` sends, in which order, and what plugins and tools see of it."""

from __future__ import annotations

from typing import Literal

import pytest
import trio
from attrs import frozen

from agentrail import Context, Continue, Plugin, SetSection
from agentrail.core.system_prompt import LAYERS, MODES
from agentrail.errors import BadSpec
from agentrail.hooks.ruling import SECTION_LAYERS, Section
from agentrail.models import JsonObject, ModelRequest
from agentrail.plugins import AfterResponse, BeforePrompt, Keyed, SessionStart
from agentrail.testing import ScriptedModel, call, say
from agentrail.tools import ToolContext, ToolResult, ok
from tests.runtime.families import agent, tasks
from tests.runtime.tools import fake, quick
from tests.runtime.world import World

Layer = Literal["skills", "memory", "dynamic"]
SEEN: list[Context] = []


@frozen
class Knows(Plugin[None]):
    key_: str
    layer: Layer

    def session_start(self, hook: SessionStart, state: None, ctx: Context) -> SetSection[None]:
        return SetSection(self.key_, f"about {self.key_}", layer=self.layer)


KNOWING = (
    Keyed("D", Knows("plan", "dynamic")),
    Keyed("M", Knows("AGENTS.md", "memory")),
    Keyed("S", Knows("sewing", "skills")),
)


async def first_request(world: World, **spec: object) -> ModelRequest:
    model = ScriptedModel(["hello"])
    tools = [quick("cut"), quick("stitch")]
    session = await world.spawn(model, None, plugins=KNOWING, tools=tools, system="You sew.", **spec)
    await session.ask("hi")
    return model.requests[0]


def shown(request: ModelRequest) -> tuple[str, list[str], list[str]]:
    return request.system, [name for name, _ in request.background], [name for name, _ in request.sections]


EXPECTED = {
    "full": ("You sew.", ["sewing", "AGENTS.md"], ["plan"]),
    "task": ("You sew.", [], ["plan"]),
    "minimal": ("Your tools: cut, stitch.\n\nYou sew.", [], []),
    "none": ("You sew.", [], []),
}


@pytest.mark.parametrize("mode", MODES)
async def test_each_mode_sends_its_layers_in_order(world: World, mode: str) -> None:
    assert shown(await first_request(world, prompt_mode=mode)) == EXPECTED[mode]


async def test_a_session_gets_all_layers_and_a_subagent_those_of_a_task(world: World) -> None:
    assert shown(await first_request(world)) == EXPECTED["full"]
    models = ScriptedModel(["done"]), ScriptedModel(["done"])
    agents = {
        "plain": agent(models[0], plugins=KNOWING, system="You help."),
        "whole": agent(models[1], plugins=KNOWING, system="You help.", prompt_mode="full"),
    }
    session = await world.spawn([tasks("plain", "whole"), "done"], agents=agents, system="You lead.")
    await session.ask("let them sew")
    plain, full = (shown(model.requests[0]) for model in models)
    assert plain == ("You help.", [], ["plan"])
    assert full == ("You help.", ["sewing", "AGENTS.md"], ["plan"])


async def test_empty_layers_leave_no_gap(world: World) -> None:
    model = ScriptedModel(["hello"])
    session = await world.spawn(model, system="You are Ada.", prompt_mode="minimal")
    await session.ask("hi")
    assert model.requests[0].system == "You are Ada."


async def test_memory_is_what_plugins_and_tools_read_of_its_layer(world: World) -> None:
    json_objects: list[JsonObject] = []

    class Reads(Plugin[None]):
        def after_response(self, hook: AfterResponse, state: None, ctx: Context) -> Continue[None]:
            SEEN.append(ctx)
            return Continue()

    async def body(_: JsonObject, ctx: ToolContext) -> ToolResult:
        await trio.lowlevel.checkpoint()
        json_objects.append(ctx.memory_contents)
        return ok("read")

    SEEN.clear()
    tools = [fake("read", body)]
    session = await world.spawn([say(calls=[call("read", {})]), "bye"], plugins=(*KNOWING, Reads()), tools=tools)
    await session.ask("hi")
    assert json_objects == [{"AGENTS.md": "about AGENTS.md"}]
    assert [ctx.memory_contents for ctx in SEEN] == json_objects * 2
    assert {name for name, _ in SEEN[0].sections} == {"plan", "AGENTS.md", "sewing"}
    assert SEEN[0].prompt_mode == "full"


async def test_a_section_set_to_what_it_is_keeps_its_place(world: World) -> None:
    class Again(Plugin[int]):
        def init(self, ctx: Context) -> int:
            return 0

        def before_prompt(self, hook: BeforePrompt, state: int, ctx: Context) -> SetSection[int]:
            text = None if state == 2 else "about sewing"
            return SetSection("sewing", text, state + 1, layer="skills")

    twice = (Keyed("S", Knows("sewing", "skills")), Keyed("T", Knows("cutting", "skills")), Again())
    model = ScriptedModel(["one", "two", "three"])
    session = await world.spawn(model, plugins=twice)
    for _ in range(3):
        await session.ask("hi")
    assert [[name for name, _ in request.background] for request in model.requests] == [
        ["sewing", "cutting"],
        ["sewing", "cutting"],
        ["cutting"],
    ]
    assert session.inspect().sections == (Section("cutting", "about cutting", "skills", "T"),)


async def test_a_layer_of_another_name_is_refused(world: World) -> None:
    session = await world.spawn(["hi"], plugins=[Keyed("S", Knows("sewing", "moods"))])  # type: ignore[arg-type]  # on purpose
    await session.ask("hi")
    heard = world.heard(session)
    assert "its `set_section` has 'moods' for `layer`" in str(heard.events)


async def test_the_system_prompt_is_text(world: World) -> None:
    with pytest.raises(BadSpec, match="its `system` is a `int`; it must be text"):
        await world.spawn(["hi"], None, system=5)


def test_the_modes_name_layers_that_there_are() -> None:
    assert all(set(sent) <= set(LAYERS) for sent in MODES.values())
    assert set(SECTION_LAYERS) < set(LAYERS)
    assert [*MODES["minimal"][:1], *MODES["full"]] == list(LAYERS)

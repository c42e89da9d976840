"""A request begins with what the one before it had, so that the provider's prompt cache fits: in each wire format."""

from __future__ import annotations

from itertools import pairwise

import pytest
from attrs import frozen

from agentrail import Context, Plugin, SessionSpec, SetSection, open_supervisor
from agentrail.hooks.actions import Intervene
from agentrail.hooks.moments import BeforeRequest, SessionStart
from agentrail.hooks.plugin import Keyed
from agentrail.testing import ScriptedModel, call, say
from agentrail.testing.scripted import Element
from agentrail.values.content import Text, Thinking
from agentrail.values.stream import ModelRequest
from tests.adapters.models.goldens import OWN
from tests.adapters.models.prefixes import common, prompt_of
from tests.runtime.tools import quick

TURNS = 50


@frozen
class Knows(Plugin[None]):
    """Sets one lasting section, as a loader of memory files or skills does."""

    name: str
    layer: str

    def session_start(self, hook: SessionStart, state: None, ctx: Context) -> SetSection[None]:
        return SetSection(self.name, f"All about {self.name}. " * 20, layer=self.layer)  # type: ignore[arg-type]  # checked where it runs


class Todos(Plugin[int]):
    """Sets another list of things to do before each request, and speaks up at times."""

    def init(self, ctx: Context) -> int:
        return 0

    def before_request(self, hook: BeforeRequest, state: int, ctx: Context) -> SetSection[int] | Intervene[int]:
        if state % 7 == 3:
            return Intervene(f"do not forget step {state}", state + 1)
        return SetSection("todos", f"- step {state}\n" * (1 + state % 4), state + 1)


def script(turn: int) -> list[Element]:
    """Return the answers of one turn: every second one looks twice before it answers."""
    looks = say("I look.", calls=[call("look", {"at": turn}), call("look", {"at": -turn})])
    thoughts = (Thinking(f"thought {turn}", f"seal-{turn}"), Text("I look."))
    looks = looks.but(response=looks.response.but(parts=thoughts))
    return [looks, f"answer {turn}"] if turn % 2 else [f"answer {turn}"]


async def requests_of(provider: str, turns: int = TURNS, **spec: object) -> list[ModelRequest]:
    """Return the requests of a session of *turns* turns with memory, skills, a changing section and tools."""
    model = ScriptedModel([each for turn in range(turns) for each in script(turn)], name=OWN[provider])
    plugins = (
        Keyed("Memory", Knows("AGENTS.md", "memory")),
        Keyed("Skills", Knows("sewing", "skills")),
        Todos(),
    )
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(
            SessionSpec(model=model, plugins=plugins, tools=[quick("look", "seen")], system="Help.", **spec)  # type: ignore[arg-type]  # fields
        )
        for turn in range(turns):
            await session.ask(f"question {turn}")
    return list(model.requests)


@pytest.mark.parametrize("provider", OWN)
async def test_the_common_prefix_of_fifty_turns_never_shrinks(provider: str) -> None:
    prompts = [prompt_of(request, provider) for request in await requests_of(provider)]
    shared = [common(before, after) for before, after in pairwise(prompts)]
    assert len(prompts) == TURNS * 3 // 2
    assert shared == sorted(shared)
    # What is read anew is the tail alone: the new messages and the section.
    assert max(len(prompt) - same for prompt, same in zip(prompts[1:], shared, strict=True)) < 1500

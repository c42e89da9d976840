"""A request begins with what the one before it had, so that the provider's prompt cache fits: in each wire format."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Final, NamedTuple

import pytest
from attrs import frozen

from agentrail import Context, Intervene, Plugin, SessionSpec, SetSection, open_supervisor
from agentrail.core.tools_on_demand import CALLER, FINDER
from agentrail.models import AskModel, FrozenObject, Leaving, ModelRequest, Text, Thinking
from agentrail.plugins import BeforeRequest, Keyed, SessionStart
from agentrail.testing import ScriptedModel, call, say
from agentrail.tools import ToolSpec
from tests.adapters.models.goldens import OWN
from tests.adapters.models.prefixes import common, prompt_of
from tests.adapters.models.test_tools_on_demand import Working
from tests.kit import Element
from tests.runtime.tools import quick

TURNS = 50
LONG = "All that there is to know about it. " * 12
CHANGING = 300
"""The most bytes that sections which change with each request take in a prompt."""
TAIL = 6_000
"""The most bytes at the end of a prompt that are read anew; definitions of tools that were found are the most."""


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


FOUND: Final = {9: "saw", 21: "file", 33: "glue"}
"""By turn: a tool that the model looks for and then calls."""

LATER: Final = tuple(f"{name}{number}" for name in ("saw", "file", "glue") for number in range(10))
"""Names of the deferred tools."""


def script(turn: int) -> list[Element]:
    """Return the answers of one turn: every second one looks twice before it answers, and some find a tool."""
    looks = say("I look.", calls=[call("look", {"at": turn}), call("look", {"at": -turn})])
    thoughts = (Thinking(f"thought {turn}", f"seal-{turn}"), Text("I look."))
    looks = looks.but(response=looks.response.but(parts=thoughts))
    told = f"answer {turn}. {LONG}"
    if turn in FOUND:
        finds = say("I need one.", calls=[call(FINDER, {"query": FOUND[turn]})])
        calls = say("I use it.", calls=[call(CALLER, {"name": f"{FOUND[turn]}3", "arguments": {"at": turn}})])
        return [finds, calls, told]
    return [looks, told] if turn % 2 else [told]


class Played(NamedTuple):
    """Requests of a session, and the places among them of those that came first after a compaction."""

    requests: list[ModelRequest]
    compacted: list[int]


def in_form(turn: int) -> list[Element]:
    """Return the answers of one turn of a model that looks, and gives its answer by a tool."""
    return [*script(2 * turn + 1)[:1], say(calls=[call("answer", {"answer": f"{turn}. {LONG}"})])]


async def played(
    provider: str, turns: int = TURNS, script: Callable[[int], list[Element]] = script, **spec: object
) -> Played:
    """Play a session of *turns* turns with memory, skills, a changing section, deferred tools and compactions."""
    model = ScriptedModel([each for turn in range(turns) for each in script(turn)], name=OWN[provider])
    compacted: list[int] = []
    plugins = (
        Keyed("Memory", Knows("AGENTS.md", "memory")),
        Keyed("Skills", Knows("sewing", "skills")),
        Todos(),
    )

    async def sums(leaving: Leaving, ask: AskModel) -> str:  # noqa: ARG001 - as a compactor is called
        compacted.append(len(model.requests))
        return f"there was talk until request {len(model.requests)}"

    later = [Working(ToolSpec(name, LONG, FrozenObject({"type": "object"}), deferred=True)) for name in LATER]
    given: dict[str, object] = {
        "model": model,
        "plugins": plugins,
        "tools": [quick("look", "seen"), *later],
        "system": "Help.",
        "compactor": sums,
        "compact_at": 6_000,
        "compact_to": 3_000,
    }
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(SessionSpec(**{**given, **spec}))  # type: ignore[arg-type]  # fields
        for turn in range(turns):
            await session.ask(f"question {turn}")
    return Played(list(model.requests), compacted)


@pytest.mark.long
@pytest.mark.parametrize("provider", OWN)
async def test_the_common_prefix_of_fifty_turns_shrinks_at_compactions_alone(provider: str) -> None:
    requests, compacted = await played(provider)
    prompts = [prompt_of(request, provider) for request in requests]
    shared = [common(before, after) for before, after in pairwise(prompts)]
    assert len(prompts) == TURNS * 3 // 2 + len(FOUND)
    assert len(compacted) > 1
    for begin, end in pairwise((0, *compacted, len(prompts))):
        between = shared[begin : end - 1]  # from the first request after one compaction to the last before the next
        assert between == sorted(between)
        # What is read anew is the tail alone: the new messages and the section.
        tails = [len(prompts[begin + 1 + number]) - same for number, same in enumerate(between)]
        assert max(tails) < TAIL
    # Tools, system prompt, skills, memory and the first prompt stay at a compaction, too.
    for place in compacted:
        assert shared[place - 1] >= prompts[0].index(b"question 0")


AUTO: Final = {"anthropic": b'{"type": "auto"}', "bedrock": b'{"auto": {}}'}
"""Providers that read the messages again after a change of the tool choice, and how the usual one is written."""


@pytest.mark.parametrize("provider", OWN)
@pytest.mark.parametrize("by_tool", [False, True], ids=["plain", "answer tool"])
async def test_the_last_request_of_a_turn_keeps_the_prefix_as_it_forbids_calls(provider: str, by_tool: bool) -> None:
    """A counter of rounds in the system prompt, or tools that are withdrawn at the end, would have all read again.

    Anthropic reads the messages again, and tools and system prompt not, because other calls are allowed. Bedrock's API
    cannot forbid calls: a text at the end says so, and nothing is read again.
    """
    form = {"type": "object", "properties": {"answer": {"type": "string"}}}
    given: dict[str, object] = {"script": in_form, "returns": form} if by_tool else {}
    requests, _ = await played(provider, turns=8, max_rounds=2, **given)  # type: ignore[arg-type]  # of `played`
    assert {request.may_call and not request.must_call for request in requests} == {True, False}
    prompts = [prompt_of(request, provider) for request in requests]
    shared = [common(before, after) for before, after in pairwise(prompts)]
    choices = [("" if provider == "bedrock" else one.may_call, one.must_call) for one in requests]
    flips = [one != other for one, other in pairwise(choices)]
    choosy = provider in AUTO
    kept = prompts[0].index(AUTO[provider]) if choosy else 0
    for before, same, flipped in zip(prompts, shared, flips, strict=False):
        assert kept < same < kept + 16 if choosy and flipped else same > len(before) - CHANGING

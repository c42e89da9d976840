"""Cache marks of the Messages API: each request finds what the one before it has put into the provider's cache."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final, cast

import pytest
from attrs import frozen

from agentrail import AddContext, Ask, Context, Continue, Plugin, SessionSpec, SetSection, open_supervisor
from agentrail.adapters.models.anthropic import FORMAT
from agentrail.adapters.models.settings import read_settings
from agentrail.events import PrefixChanged
from agentrail.journals import MemoryJournal
from agentrail.models import AssistantMessage, ModelRequest, Text, UserMessage
from agentrail.plugins import AnyPlugin, BeforePrompt, BeforeRequest, CallModel, PromptCache
from agentrail.testing import ScriptedModel, call, say
from tests.cache_prefixes import broken_prefixes
from tests.kit import Element, thaw
from tests.runtime.tools import quick

CLAUDE: Final = "anthropic:claude-sonnet-5"

LOOK_BACK: Final = 20
"""Blocks before a mark, itself included, at which the provider looks for what it has in its cache."""


class Cache:
    """The provider's cache, as its guide describes it: written at marks, and found from marks."""

    def __init__(self) -> None:
        self._written: set[str] = set()

    def read(self, request: ModelRequest) -> int:
        """Return how many blocks of *request* are found, and keep those up to each of its marks."""
        blocks = blocks_of(request)
        marks = [place for place, block in enumerate(blocks) if "cache_control" in block]
        plain = [json.dumps({key: block[key] for key in block if key != "cache_control"}) for block in blocks]
        beginnings = {place: "".join(plain[: place + 1]) for place in range(len(plain))}
        looked_at = {place for mark in marks for place in range(max(0, mark - LOOK_BACK + 1), mark + 1)}
        read = max((place + 1 for place in looked_at if beginnings[place] in self._written), default=0)
        self._written |= {beginnings[mark] for mark in marks}
        return read


def blocks_of(request: ModelRequest) -> list[Mapping[str, object]]:
    """Return the blocks of *request* in the order in which the provider reads them."""
    model = request.model.partition(":")[2]
    body = cast(
        "Mapping[str, list[Mapping[str, object]]]",
        thaw(FORMAT.render(request, "anthropic", model, read_settings(request.options)).body),
    )
    messages = [cast("list[Mapping[str, object]]", message["content"]) for message in body["messages"]]
    return [*body.get("tools", ()), *body.get("system", ()), *[block for content in messages for block in content]]


def sites_of_marks(request: ModelRequest) -> list[int]:
    return [index for index, block in enumerate(blocks_of(request)) if "cache_control" in block]


@frozen
class Adds(Plugin[int]):
    """Adds a text to each request, which the next one does not have."""

    def init(self, ctx: Context) -> int:
        return 0

    def before_request(self, hook: BeforeRequest, state: int, ctx: Context) -> AddContext[int]:
        return AddContext(f"it is {state} o'clock", state + 1)


@frozen
class Surrounds(Plugin[None]):
    """Adds messages of both roles around each request."""

    def before_request(self, hook: BeforeRequest, state: None, ctx: Context) -> AddContext[None]:
        note, answered = UserMessage((Text("a note"),)), AssistantMessage((Text("noted"),))
        return AddContext("the end", front=(note, answered), behind=(note, answered))


@frozen
class Answers(Plugin[int]):
    """Adds a message of the model after each request, which the next one does not have."""

    def init(self, ctx: Context) -> int:
        return 0

    def before_request(self, hook: BeforeRequest, state: int, ctx: Context) -> AddContext[int]:
        return AddContext("", state + 1, behind=(AssistantMessage((Text(f"noted {state}"),)),))


@frozen
class Lists(Plugin[int]):
    """Keeps a list that changes with each request."""

    def init(self, ctx: Context) -> int:
        return 0

    def before_request(self, hook: BeforeRequest, state: int, ctx: Context) -> SetSection[int]:
        return SetSection("todos", f"step {state}", state + 1)


class Asks(Plugin[None]):
    """Asks a model about each prompt."""

    def before_prompt(self, hook: BeforePrompt, state: None, ctx: Context) -> Ask[None] | Continue[None]:
        return Ask(CallModel("is it harmless?")) if hook.answer is None else Continue()


def many_calls(calls: int) -> list[Element]:
    """Return the responses of two turns; the first has two rounds with so many calls."""
    rounds: list[Element] = [say(calls=[call("look", {"at": at}) for at in range(calls)]) for _ in range(2)]
    return [*rounds, "done", "and so on"]


async def played(
    script: Sequence[Element], *plugins: AnyPlugin, **spec: object
) -> tuple[list[ModelRequest], list[PrefixChanged]]:
    """Return the requests of a session with two prompts, and why they do not begin as the last one."""
    model = ScriptedModel(script, name=CLAUDE)
    given: dict[str, object] = {"model": model, "system": "Help.", "tools": [quick("look", "seen")], "plugins": plugins}
    journal = MemoryJournal()
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(SessionSpec(**{**given, **spec}))  # type: ignore[arg-type]  # fields
        await session.ask("look everywhere")
        await session.ask("go on")
        records = await journal.read(session.id)
    return list(model.requests), [changed for _, changed in broken_prefixes(records)]


@pytest.mark.parametrize(
    "plugins",
    [
        (),
        (Adds(),),
        (Lists(),),
        (Adds(), Lists()),
        (PromptCache(2, 0),),
        (Surrounds(),),
        (Answers(),),
        (Answers(), Adds(), Lists()),
        (Surrounds(), PromptCache(2, 0)),
    ],
    ids=repr,
)
@pytest.mark.parametrize("calls", [1, 9, 15, 60])
async def test_each_request_finds_all_that_the_one_before_it_had(calls: int, plugins: tuple[AnyPlugin, ...]) -> None:
    requests, broken = await played(many_calls(calls), *plugins)
    cache, lasting = Cache(), 0
    for number, request in enumerate(requests):
        assert cache.read(request) == lasting, number
        lasting = len(blocks_of(request.but(sections=(), messages=tuple(request.messages)[: -request.passing or None])))
        assert len(sites_of_marks(request)) <= 4
    assert len(requests) == 4
    assert not broken


async def test_one_mark_alone_does_not_reach_over_many_calls_and_an_event_says_so() -> None:
    for calls in (9, 10, 15):
        requests, broken = await played(many_calls(calls), model_options={"cache": {"points": 1}})
        cache = Cache()
        found = [cache.read(request) > 0 for request in requests]
        assert found[1:] == ([True] * 3 if calls == 9 else [False, False, True])
        assert [(one.part, one.name, one.by) for one in broken] == [("messages", "marks", "")] * found[1:].count(False)


async def test_what_is_sent_once_is_not_marked() -> None:
    requests, _ = await played(["harmless", "a", "harmless", "b"], Asks())
    assert [bool(sites_of_marks(request)) for request in requests] == [False, True, False, True]


async def test_the_request_for_a_summary_is_not_marked() -> None:
    model = ScriptedModel(["a" * 9_000, "b", "they talked", "c"], name=CLAUDE)
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(SessionSpec(model=model, compact_to=0.3))
        await session.ask("one")
        await session.ask("two")
        await session.compact("now")
        await session.ask("three")
    assert [bool(sites_of_marks(request)) for request in model.requests] == [True, True, False, True]

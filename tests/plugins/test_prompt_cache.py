"""`PromptCache`: where requests are marked for the cache, that nothing else changes, and only where marks are known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from agentrail import SessionSpec, open_supervisor
from agentrail.adapters.models.anthropic import FORMAT
from agentrail.adapters.models.settings import read_settings
from agentrail.errors import BadModelOptions, BadOptions
from agentrail.events import ModelOptionsChanged, ModelSwitched
from agentrail.journals import MemoryJournal
from agentrail.models import Json, Model, ModelRequest, Text, UserMessage
from agentrail.plugins import PromptCache, Recovery
from agentrail.plugins.requests.prompt_cache import MAX_POINTS
from agentrail.testing import ScriptedModel, call, say, transient
from tests.adapters.models.histories import TOOLS
from tests.cache_prefixes import broken_prefixes
from tests.kit import freeze_object
from tests.plugins.test_recovery import asked, in_virtual_time, session_of, told
from tests.runtime.tools import quick

CLAUDE = "anthropic:claude-sonnet-5"


def places(request: ModelRequest) -> list[str]:
    """Return the parts of the body of *request* that are marked, in order."""
    model = request.model.partition(":")[2]
    body = FORMAT.render(request, "anthropic", model, read_settings(request.options)).body
    marked: list[str] = []
    for part in ("tools", "system", "messages"):
        marked += [part for block in blocks(body.get(part, ())) if "cache_control" in block]
    return marked


def blocks(found: Json) -> Iterator[Mapping[str, Json]]:
    """Yield all objects within *found*."""
    if isinstance(found, Mapping):
        yield found
        for item in found.values():
            yield from blocks(item)
    elif isinstance(found, list | tuple):
        for item in found:
            yield from blocks(item)


@in_virtual_time
async def test_a_request_has_at_most_so_many_marks_and_its_beginning_never_changes() -> None:
    script = [say(calls=[call("read")]), "a", "b", transient(), "c"]
    model = ScriptedModel(script, name=CLAUDE)  # type: ignore[arg-type]  # elements
    journal = MemoryJournal()
    async with open_supervisor(journal=journal, models={"anthropic": lambda _: model}, seed=1) as supervisor:
        plugins = [PromptCache(2, min_tokens=0)]
        spec = SessionSpec(model=CLAUDE, system="Be short.", tools=[quick("read")], plugins=plugins)
        session = await supervisor.spawn(spec)
        for text in ("one", "two", "three"):
            await session.ask(text)
        events = await told(session)
        assert not list(broken_prefixes(await journal.read(session.id)))
    assert [places(request) for request in model.requests] == [["system", "messages"], *[["messages"] * 2] * 4]
    assert not [event for event in events if isinstance(event, ModelSwitched)]
    (changed,) = [event for event in events if isinstance(event, ModelOptionsChanged)]
    assert changed == ModelOptionsChanged(CLAUDE, "PromptCache")


@in_virtual_time
async def test_another_provider_gets_no_option_and_nothing_is_written() -> None:
    async with session_of({"main": "ab"}, plugins=[PromptCache()], model_options={"temperature": 0.5}) as session:
        await session.ask("one")
        await session.ask("two")
        changes = ModelOptionsChanged | ModelSwitched
        assert not [event for event in await told(session) if isinstance(event, changes)]
        assert session.inspect().model_options == {"temperature": 0.5}


@in_virtual_time
async def test_other_options_and_the_fallback_models_stay() -> None:
    first = ScriptedModel([transient(), transient()], name=CLAUDE)
    options = freeze_object({"temperature": 0.5})
    async with open_supervisor(models={"anthropic": lambda _: first}, seed=1) as supervisor:
        chain: list[str | Model] = [CLAUDE, ScriptedModel(["here I am"], name="spare")]
        spec = SessionSpec(model=chain, model_options=options, plugins=[PromptCache()])
        session = await supervisor.spawn(spec)
        assert (await session.ask("are you there?")).text == "here I am"
        assert await asked(session) == [CLAUDE, CLAUDE, "spare"]
    assert first.requests[0].options == {**options, "cache": {"points": 3, "min_tokens": 1024}}


@in_virtual_time
async def test_a_program_that_wants_no_marks_gets_none() -> None:
    model = ScriptedModel(["a"], name=CLAUDE)
    async with open_supervisor(models={"anthropic": lambda _: model}, seed=1) as supervisor:
        spec = SessionSpec(model=CLAUDE, model_options={"cache": False}, plugins=[PromptCache(min_tokens=0)])
        session = await supervisor.spawn(spec)
        await session.ask("one")
    assert places(model.requests[0]) == []


@in_virtual_time
async def test_a_fallback_is_left_alone_and_marked_at_its_next_request() -> None:
    models = {name: ScriptedModel(script, name=name) for name, script in {"main": [transient()] * 2}.items()}
    spare = ScriptedModel(["a", "b"], name=CLAUDE)
    factories = {"main": lambda _: models["main"], "anthropic": lambda _: spare}
    async with open_supervisor(models=factories, seed=1) as supervisor:
        spec = SessionSpec(model="main", plugins=[PromptCache(1, 0), Recovery([(CLAUDE, {"max_tokens": 9})])])
        session = await supervisor.spawn(spec)
        await session.ask("one")
        await session.ask("two")
    marks = {"points": 1, "min_tokens": 0}
    assert [request.options for request in spare.requests] == [{"max_tokens": 9}, {"max_tokens": 9, "cache": marks}]


LONG = "word " * 400
REQUEST = ModelRequest(
    CLAUDE, (UserMessage((Text(LONG * 2),)),), "You help.", tools=TOOLS, background=(("memory", LONG),)
)


@pytest.mark.parametrize(
    ("points", "min_tokens", "marked"),
    [
        (4, 0, ["tools", "system", "system", "messages"]),
        (3, 0, ["system", "system", "messages"]),
        (2, 0, ["system", "messages"]),
        (1, 0, ["messages"]),
        (4, 400, ["system", "messages"]),
        (4, 1_000, ["messages"]),
        (4, 100_000, []),
    ],
)
def test_marks_are_where_they_are_worth_most_and_much_stands_before(
    points: int, min_tokens: int, marked: list[str]
) -> None:
    options = freeze_object({"cache": {"points": points, "min_tokens": min_tokens}})
    assert places(REQUEST.but(options=options)) == marked


@pytest.mark.parametrize(
    "found", [{"points": 0}, {"min_tokens": -1}, {"points": True}, {"point": 1}, 3, "yes"], ids=repr
)
def test_the_option_for_marks_is_checked(found: object) -> None:
    with pytest.raises(BadModelOptions, match=r"`cache` is .*; it must be true, false, or an object with `points`"):
        read_settings(freeze_object({"cache": found}))


def test_as_many_marks_are_wanted_as_the_provider_takes() -> None:
    assert [PromptCache(count).max_points for count in (1, MAX_POINTS)] == [1, 4]
    with pytest.raises(BadOptions, match="its `max_points` is 5"):
        PromptCache(MAX_POINTS + 1)


@pytest.mark.parametrize("found", [0, 5, None, True, "3"], ids=repr)
def test_a_number_of_marks_is_one_that_the_provider_takes(found: object) -> None:
    with pytest.raises(
        BadOptions, match=r"its `max_points` is .*; it must be a whole number from 1 to 4; for no marks"
    ):
        PromptCache(found)  # type: ignore[arg-type]


@pytest.mark.parametrize("found", [-1, 1.5, None], ids=repr)
def test_the_fewest_tokens_are_a_number(found: object) -> None:
    with pytest.raises(BadOptions, match="its `min_tokens` is"):
        PromptCache(min_tokens=found)  # type: ignore[arg-type]


def test_it_says_what_it_does() -> None:
    assert PromptCache().describe() == "Limit the cache marks of requests, for providers that have such marks."

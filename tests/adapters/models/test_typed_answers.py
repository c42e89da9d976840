"""Answers in a form with each wire format: the provider's own form, the tool in its place, and what comes back."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from random import Random
from typing import Annotated, Any, Final, Literal, TypeAlias

import pytest
import trio
from anthropic.lib._parse._transform import transform_schema
from jsonschema import Draft202012Validator
from pydantic import BaseModel, Field

from agentrail import Secret, SessionSpec, open_supervisor, tool
from agentrail.adapters.models.anthropic.answer_form import strict_form
from agentrail.adapters.models.providers import format_of
from agentrail.errors import AnswerUnfit, TurnAborted
from agentrail.journals import MemoryJournal
from agentrail.models import PROVIDERS, Json, ModelRequest
from agentrail.tools import ToolSpec
from tests.adapters.models.answers import WRITTEN, Called, Drawn, Heard
from tests.adapters.models.official import KEYS, MODELS, PATHS
from tests.adapters.models.server import Answering, Asked, Play, refusing, serving, streaming
from tests.cache_prefixes import broken_prefixes
from tests.each_case import each_case
from tests.kit import freeze, freeze_object, thaw
from tests.profiles import CAMPAIGN

Body: TypeAlias = dict[str, Any]
Plain: TypeAlias = Any
"""A value of plain JSON."""

SCHEMA: Final[Mapping[str, Json]] = {
    "type": "object",
    "properties": {"room": {"type": "string"}, "lamps": {"type": "integer", "minimum": 0}},
    "required": ["room"],
    "additionalProperties": False,
}
LAMPS: Final = ToolSpec("lamps", "Look at all lamps.")
GOOD: Final = {"room": "attic", "lamps": 2}
DRAWN: Final = 1_000 if CAMPAIGN else 25
"""Schemas that are drawn for each wire format."""

REFUSED: Final = refusing(400, b'{"error": {"type": "invalid_request_error", "message": "no such schema"}}')


def written(provider: str, text: str = "", *calls: Called) -> Play:
    """Answer with *text* or *calls*, as the SDK of the provider writes its own types."""
    heard = Heard(text, "", calls, "calls" if calls else "end", 10, 0, 20)
    return streaming(WRITTEN[provider](Random(1), Drawn(heard, (text,) if text else (), (), 0)))


def tools_in(asked: Asked) -> list[str]:
    """Return the names of the tools in a request, of whatever format."""
    found: Any = asked.json.get("tools", [])
    if found and "functionDeclarations" in found[0]:
        found = found[0]["functionDeclarations"]
    return [one["function"]["name"] if "function" in one else one.get("name", one.get("type")) for one in found]


def form_in(asked: Asked) -> object:
    """Return the schema of the answer in a request; `None` if there is none."""
    body: Any = asked.json
    places: list[Any] = [
        body.get("output_config", {}).get("format", {}).get("schema"),
        body["text"]["format"]["schema"] if "text" in body else None,
        body["response_format"]["json_schema"]["schema"] if "response_format" in body else None,
        body.get("generationConfig", {}).get("responseJsonSchema"),
    ]
    return next((place for place in places if place is not None), None)


def answering(provider: str, *values: Plain) -> Answering:
    """Give *values* in order, each in the form that the request asks for; the last one again and again."""
    left = list(values)

    def answer(asked: Asked) -> Play:
        value = left.pop(0) if len(left) > 1 else left[0]
        by_tool = "answer" in tools_in(asked) and isinstance(value, dict)
        if by_tool:
            return written(provider, "", Called("call_1", "answer", value))
        return written(provider, json.dumps(value))

    return answer


def spec_of(provider: str, url: str, model: str = "", **fields: object) -> SessionSpec:
    options: Mapping[str, Json] = {"base_url": url + PATHS.get(provider, ""), "api_key": Secret("KEY")}
    return SessionSpec(model=model or f"{provider}:{MODELS[provider]}", model_options=options).but(**fields)


async def asked_of(spec: SessionSpec, schema: Mapping[str, Json]) -> object:
    async with open_supervisor(secrets={"KEY": KEYS["openai"]}.get, seed=1) as supervisor:
        session = await supervisor.spawn(spec)
        with trio.fail_after(60):
            return await session.ask("which room?", returns=schema)


class Card(BaseModel):
    by: Literal["card"]
    digits: Annotated[str, Field(pattern=r"^\d{4}$")]


class Cash(BaseModel):
    by: Literal["cash"]


class Bill(BaseModel):
    """A bill."""

    total: float = Field(ge=0, description="in euros")
    paid: Annotated[Card | Cash, Field(discriminator="by")] | None = None
    at: dt.datetime | None = None


@pytest.mark.parametrize("provider", WRITTEN)
async def test_each_provider_gets_the_form_of_a_model_of_pydantic(provider: str) -> None:
    answer = {"total": 3, "paid": {"by": "card", "digits": "1234"}, "at": "2026-01-02T03:04:05Z"}
    secrets = {"KEY": KEYS[provider]}.get
    async with serving(answering(provider, answer)) as server, open_supervisor(secrets=secrets) as supervisor:
        session = await supervisor.spawn(spec_of(provider, server.url))
        assert await session.ask("a bill", returns=Bill) == Bill.model_validate(answer)
        assert form_in(server.asked[0]) is not None


@pytest.mark.parametrize("provider", WRITTEN)
async def test_the_own_form_of_the_provider_is_used(provider: str) -> None:
    async with serving(answering(provider, {"lamps": 1}, GOOD)) as server:
        assert await asked_of(spec_of(provider, server.url), SCHEMA) == GOOD
    assert [tools_in(asked) for asked in server.asked] == [[], []]
    wanted = strict_form(freeze_object(SCHEMA)) if provider == "anthropic" else SCHEMA
    assert [freeze(form_in(asked)) for asked in server.asked] == [freeze(wanted)] * 2
    assert b"does not fit the form" in server.asked[1].body
    assert b"does not fit the form" not in server.asked[0].body


@pytest.mark.parametrize("provider", WRITTEN)
async def test_a_schema_that_the_provider_refuses_is_asked_for_by_a_tool(provider: str) -> None:
    async with serving(REFUSED, answering(provider, GOOD)) as server:
        assert await asked_of(spec_of(provider, server.url), SCHEMA) == GOOD
    first, second = server.asked
    assert (form_in(first) is None, tools_in(first)) == (False, [])
    assert (form_in(second), tools_in(second)) == (None, ["answer"])


@pytest.mark.parametrize("provider", WRITTEN)
async def test_a_schema_that_was_refused_is_not_sent_again(provider: str) -> None:
    good = answering(provider, GOOD)
    async with serving(REFUSED, good) as server, open_supervisor(secrets={"KEY": KEYS["openai"]}.get) as supervisor:
        session = await supervisor.spawn(spec_of(provider, server.url))
        for _ in range(2):
            assert await session.ask("go", returns=SCHEMA) == GOOD
    assert [form_in(one) is None for one in server.asked] == [False, True, True]


@pytest.mark.parametrize("provider", WRITTEN)
async def test_a_schema_that_is_refused_later_is_told_as_the_cause_of_a_lost_cache(provider: str) -> None:
    good, journal = answering(provider, GOOD), MemoryJournal()
    async with serving(good, good, REFUSED, good) as server:
        spec = spec_of(provider, server.url)
        for index in range(2):  # another process does not know that the schema was refused
            async with open_supervisor(journal=journal, secrets={"KEY": KEYS["openai"]}.get) as supervisor:
                session = await supervisor.open("s", spec)
                for _ in range(4 - index):
                    assert await session.ask("go", returns=SCHEMA) == GOOD
    broken = broken_prefixes(await journal.read("s"))
    assert [(turn, changed.part, changed.name) for turn, changed in broken] == [
        (3, "returns", "refused"),
        (5, "returns", "accepted"),
    ]
    forms = [form_in(one) is not None for one in server.asked]
    assert forms == [True, True, True, False, False, True, True, True]


@pytest.mark.parametrize(
    ("provider", "own_form"), [*((provider, False) for provider in WRITTEN), ("anthropic", True), ("openai", True)]
)
async def test_a_deferred_tool_that_tool_choice_demands_is_declared(provider: str, own_form: bool) -> None:
    @tool(deferred=True)
    async def late() -> str:
        """Look late."""
        return "nothing"

    @tool(deferred=True)
    async def later() -> str:
        """Look later."""
        return "nothing"

    async with serving(answering(provider, "fine")) as server:
        spec = spec_of(provider, server.url, tools=[late, later])
        spec = spec.but(model_options={**spec.model_options, "tool_choice": {"tool": "late"}, "tool_search": own_form})
        async with open_supervisor(secrets={"KEY": KEYS["openai"]}.get, seed=1) as supervisor:
            await (await supervisor.spawn(spec)).ask("go")
    body: Any = server.asked[0].json
    names = [one.get("name") or one["function"]["name"] for one in body["tools"] if "name" in one or "function" in one]
    names += [each["name"] for one in body["tools"] for each in one.get("functionDeclarations", ())]
    assert ("late" in names, "later" in names) == (True, provider == "anthropic" and own_form)
    assert all("defer_loading" not in one for one in body["tools"] if one.get("name") == "late")


@pytest.mark.parametrize("provider", WRITTEN)
async def test_what_the_provider_refuses_in_either_form_is_an_error(provider: str) -> None:
    async with serving(REFUSED) as server:
        with pytest.raises(TurnAborted, match="provider_error"):
            await asked_of(spec_of(provider, server.url), SCHEMA)
    assert len(server.asked) == 2


@pytest.mark.parametrize(
    ("provider", "model", "tools"),
    [
        ("anthropic", "anthropic:claude-sonnet-4-20250514", ["answer"]),
        ("anthropic", "anthropic:claude-3-haiku-20240307", ["answer"]),
        ("anthropic", "anthropic:claude-opus-4-1", []),
        ("gemini", "gemini:gemini-2.5-flash", []),
        ("openai-chat", "deepseek:deepseek-chat", ["answer"]),
        ("openai-chat", "groq:llama", ["answer"]),
        ("openai-chat", "mistral:mistral-large", []),
    ],
)
async def test_a_model_without_a_form_of_its_own_gets_the_tool(provider: str, model: str, tools: list[str]) -> None:
    async with serving(answering(provider, GOOD)) as server:
        assert await asked_of(spec_of(provider, server.url, model), SCHEMA) == GOOD
    assert tools_in(server.asked[0]) == tools


@pytest.mark.parametrize(("model", "is_own"), [("gemini-2.5-flash", False), ("gemini-3-flash-preview", True)])
def test_gemini_takes_a_schema_beside_tools_from_version_3_on(model: str, is_own: bool) -> None:
    request = ModelRequest("m", (), tools=(LAMPS,), returns=freeze_object(SCHEMA))
    assert (format_of(PROVIDERS["gemini"]).form(request, "gemini", model) is not None) is is_own


@pytest.mark.parametrize("provider", WRITTEN)
async def test_the_turns_schema_goes_before_the_option_of_the_model(provider: str) -> None:
    async with serving(answering(provider, GOOD)) as server:
        spec = spec_of(provider, server.url)
        spec = spec.but(model_options={**spec.model_options, "response_format": {"type": "object"}})
        assert await asked_of(spec, SCHEMA) == GOOD
    assert "room" in str(form_in(server.asked[0]))


async def test_an_option_that_forbids_tools_does_not_forbid_the_answer() -> None:
    async with serving(answering("openai-chat", GOOD)) as server:
        spec = spec_of("openai-chat", server.url, "deepseek:deepseek-chat")
        spec = spec.but(model_options={**spec.model_options, "tool_choice": "none"})
        assert await asked_of(spec, SCHEMA) == GOOD
    assert server.asked[0].json["tool_choice"] == "auto"


DEMANDS: Final[Mapping[str, object]] = {
    "anthropic": {"type": "tool", "name": "answer"},
    "gemini": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["answer"]}},
    "openai": {"type": "function", "name": "answer"},
    "openai-chat": {"type": "function", "function": {"name": "answer"}},
}


@pytest.mark.parametrize("provider", WRITTEN)
async def test_the_last_request_keeps_all_tools_and_demands_the_answer(provider: str) -> None:
    @tool
    async def look() -> str:
        """Look."""
        return "nothing"

    model = {"openai-chat": "mistral:mistral-large-latest"}.get(provider, "")
    async with serving(REFUSED, answering(provider, GOOD)) as server:
        spec = spec_of(provider, server.url, model, tools=(look,), max_rounds=1)
        assert await asked_of(spec, SCHEMA) == GOOD
    body = server.asked[1].json
    assert tools_in(server.asked[1]) == ["look", "answer"]
    assert (body["toolConfig"] if provider == "gemini" else body["tool_choice"]) == DEMANDS[provider]


@pytest.mark.parametrize(
    ("provider", "model", "options"),
    [
        ("anthropic", "anthropic:claude-opus-5-5", {}),
        ("anthropic", "", {"reasoning_effort": "high"}),
        ("openai-chat", "ollama:qwen3", {}),
    ],
    ids=["never forced", "thinks", "of unknown heed"],
)
async def test_a_model_that_cannot_be_forced_is_told_that_no_other_tool_can_be_called(
    provider: str, model: str, options: Mapping[str, Json]
) -> None:
    @tool
    async def look() -> str:
        """Look."""
        return "nothing"

    async with serving(REFUSED, answering(provider, GOOD)) as server:
        spec = spec_of(provider, server.url, model, tools=(look,), max_rounds=1)
        spec = spec.but(model_options={**spec.model_options, **options})
        assert await asked_of(spec, SCHEMA) == GOOD
    body = server.asked[1].json
    assert tools_in(server.asked[1]) == ["look", "answer"]
    assert body["tool_choice"] in ("auto", {"type": "auto"})
    assert b"No other tool can be called" in server.asked[1].body


# Anthropic's keywords

EXPRESSIBLE: Final[Mapping[str, Mapping[str, Json]]] = {
    "plain": SCHEMA,
    "bounds": {
        "type": "object",
        "properties": {"n": {"type": "number", "description": "A number.", "exclusiveMinimum": 1, "maximum": 2}},
    },
    "texts": {
        "type": "object",
        "properties": {
            "day": {"type": "string", "format": "date"},
            "code": {"type": "string", "pattern": "[a-z]+", "maxLength": 3},
        },
    },
    "lists": {
        "type": "object",
        "properties": {
            "one": {"type": "array", "items": {"type": "string"}, "minItems": 1},
            "two": {"type": "array", "items": {"type": "integer"}, "minItems": 2},
        },
    },
    "alternatives": {"type": "object", "properties": {"x": {"anyOf": [{"type": "string"}, {"type": "null"}]}}},
    "definitions": {
        "type": "object",
        "properties": {"at": {"$ref": "#/$defs/Place"}},
        "required": ["at"],
        "$defs": {"Place": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}},
    },
}


@pytest.mark.parametrize("name", EXPRESSIBLE)
def test_a_schema_is_rewritten_as_the_sdk_of_anthropic_does(name: str) -> None:
    schema = EXPRESSIBLE[name]
    assert thaw(strict_form(freeze_object(schema)) or {}) == transform_schema(json.loads(json.dumps(schema)))


@each_case(
    [
        {"type": "object", "additionalProperties": {"type": "string"}},
        {"type": "object"},
        {},
        True,
        {"type": "array"},
        {"type": "array", "prefixItems": [{"type": "string"}], "items": False},
        {"oneOf": [{"type": "string"}]},
        {"not": {"type": "string"}},
        {"$ref": "#/$defs/Tree"},
        {"$ref": "https://example.org/schema"},
        {"type": ["object", "null"]},
    ]
)
def test_what_the_api_of_anthropic_cannot_say_comes_by_the_tool(inside: Json) -> None:
    tree = {"type": "object", "properties": {"below": {"$ref": "#/$defs/Tree"}}}
    schema = {"type": "object", "properties": {"x": inside}, "$defs": {"Tree": tree}}
    assert strict_form(freeze_object(schema)) is None


# Any schema, and answers that are wrong in one place


def drawn_schema(random: Random, depth: int = 0) -> Body:
    """Draw a schema of any kind; at the top, that of an object."""
    kinds = ("string", "integer", "number", "boolean", "enum", "array", "object", "either")
    kind = "object" if depth == 0 else random.choice(kinds[: 5 if depth > 2 else 8])
    match kind:
        case "string":
            return {"type": "string", **random.choice(({}, {"minLength": 2}, {"maxLength": 3}, {"pattern": "^a"}))}
        case "integer" | "number":
            return {"type": kind, **random.choice(({}, {"minimum": 3}, {"maximum": 3}, {"exclusiveMinimum": 0}))}
        case "boolean":
            return {"type": "boolean"}
        case "enum":
            return {"enum": random.sample(("a", "b", 1, None), k=2)}
        case "array":
            return {"type": "array", "items": drawn_schema(random, depth + 1), **random.choice(({}, {"minItems": 1}))}
        case "either":
            return {"anyOf": [drawn_schema(random, 3), {"type": "null"}]}
        case _:
            names = random.sample(("room", "lamp", "lämpchen", "$x", "a b"), k=random.choice((1, 2, 3)))
            return {
                "type": "object",
                "properties": {name: drawn_schema(random, depth + 1) for name in names},
                "required": names[: random.choice((1, 2, 3))],
                **random.choice(({}, {"additionalProperties": False})),
            }


def drawn_value(random: Random, schema: Body) -> Plain:
    """Draw a value that fits *schema*."""
    if "enum" in schema:
        return random.choice(schema["enum"])
    if "anyOf" in schema:
        return drawn_value(random, random.choice(schema["anyOf"]))
    match schema["type"]:
        case "string":
            return random.choice(("ab", "a", "abc")) if "minLength" not in schema else "abcd"
        case "integer" | "number":
            return 3
        case "boolean":
            return random.choice((True, False))
        case "null":
            return None
        case "array":
            return [drawn_value(random, schema["items"]) for _ in range(random.choice((1, 2)))]
        case _:
            names = [name for name in schema["properties"] if name in schema["required"] or random.random() < 0.5]
            return {name: drawn_value(random, schema["properties"][name]) for name in names}


WRONG: Final[tuple[Plain, ...]] = ("", "zzzzz", -1, 2.5, True, None, [], {}, [{}], {"?": 1})


def broken(random: Random, value: Plain) -> Plain:
    """Return *value* with one place changed: another value, a key less or one more."""
    if isinstance(value, dict) and value and random.random() < 0.8:
        name = random.choice(list(value))
        match random.choice(("below", "below", "less", "more")):
            case "less":
                return {key: item for key, item in value.items() if key != name}
            case "more":
                return {**value, "extra": 1}
            case _:
                return {**value, name: broken(random, value[name])}
    if isinstance(value, list) and value and random.random() < 0.8:
        return [broken(random, value[0]), *value[1:]]
    return random.choice(WRONG)


@pytest.mark.long
@pytest.mark.parametrize("provider", WRITTEN)
async def test_the_object_fits_or_there_is_a_typed_error(provider: str) -> None:
    random = Random(f"{provider} typed")
    given: list[Any] = []
    outcomes = {"object": 0, "error": 0}

    def answer(asked: Asked) -> Play:
        return answering(provider, given.pop(0) if given else None)(asked)

    async with serving(answer) as server, open_supervisor(secrets={"KEY": KEYS[provider]}.get, seed=1) as supervisor:
        spec = spec_of(provider, server.url)
        for number in range(DRAWN):
            schema = drawn_schema(random)
            oracle = Draft202012Validator(schema)
            value = drawn_value(random, schema)
            assert oracle.is_valid(value), (number, schema, value)
            answers = [broken(random, value) for _ in range(random.choice((0, 1, 1, 2, 3)))]
            answers = [*answers, value][:3]
            given[:] = answers
            wanted = next((one for one in answers if isinstance(one, dict) and oracle.is_valid(one)), None)
            session = await supervisor.spawn(spec)
            try:
                with trio.fail_after(60):
                    found: object = await session.ask("which?", returns=schema)
            except AnswerUnfit:
                assert wanted is None, (number, schema, answers)
                outcomes["error"] += 1
            else:
                assert found == freeze(wanted), (number, schema, answers)
                outcomes["object"] += 1
            await session.stop()
    assert all(outcomes.values()), outcomes

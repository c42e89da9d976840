from collections.abc import Mapping

import pytest

from agentrail import SessionSpec
from agentrail.errors import BadTool
from agentrail.models import FrozenObject, Json, JsonObject
from agentrail.tools import EffectClass, FunctionTool, ToolContext, ToolResult, ToolSpec, as_tool, make_spec, ok, tool

SCHEMA: JsonObject = {"type": "object", "properties": {"sql": {"type": "string"}}, "required": ["sql"]}


class Query:
    """A tool by hand."""

    def __init__(self, spec: ToolSpec) -> None:
        self.spec = spec
        self.asked: list[Json] = []

    async def execute(self, args: JsonObject, ctx: ToolContext) -> ToolResult:
        self.asked.append(args["sql"])
        return ok(ctx.call_id)

    async def ask(self, sql: str) -> str:
        """Ask for it."""
        self.asked.append(sql)
        return sql


class Checkable(Query):
    async def probe(self, key: str) -> bool:
        return key in self.asked


class Sync:
    spec = ToolSpec("sync", "Do.")

    def execute(self, args: JsonObject, ctx: ToolContext) -> ToolResult:
        raise NotImplementedError


def of_schema(parameters: JsonObject) -> ToolSpec:
    return ToolSpec("query", "Ask the database.", parameters)


def test_a_tool_is_taken_as_it_is() -> None:
    @tool
    async def look(x: int) -> str:  # noqa: ASYNC124 - a tool is async
        """Look."""
        return str(x)

    by_hand = Query(make_spec("query", "Ask the database.", SCHEMA, effect="pure"))
    assert as_tool(look) is look
    assert as_tool(by_hand) is by_hand
    assert as_tool(Query(ToolSpec("query", "Ask the database."))).spec.parameters == {}


async def test_an_async_function_or_method_becomes_a_tool() -> None:
    query = Query(of_schema(SCHEMA))
    made = as_tool(query.ask)
    assert isinstance(made, FunctionTool)
    assert made.spec.name == "ask"
    assert await made.execute({"sql": "select"}, ToolContext()) == ok("select")
    assert query.asked == ["select"]


def test_a_spec_is_written_by_hand() -> None:
    spec = make_spec("query", "Ask.", SCHEMA, effect="idempotent", requires=["database"], subject="sql", timeout=5)
    assert spec == ToolSpec(
        "query",
        "Ask.",
        SCHEMA,
        timeout=5,
        effect=EffectClass.IDEMPOTENT,
        subject="sql",
        requires=frozenset({"database"}),
    )
    assert isinstance(spec.parameters, FrozenObject)
    assert make_spec("query", "Ask.", SCHEMA, subject=["sql"]).subject == ("sql",)


NO_TOOLS: list[tuple[object, str]] = [
    ("grep", "tools for files, commands and web pages are `standard_tools()`"),
    (SessionSpec(model="demo"), "a sub-agent is given by its name: `SessionSpec(agents={…})`"),
    (3, "cannot make a tool of `int`: it has no `spec` that is a `ToolSpec`; use a function, or a class with `spec`"),
    (Query, "cannot make a tool of `Query`: it is a class; make an object of it"),
    (Sync(), "cannot make a tool of `sync`: it has no `execute` that is an `async def`; give it `async def execute"),
    (len, "cannot make a tool of `len`: its parameter `obj` is positional-only"),
    (Query(ToolSpec("a b", "Ask.")), "models call tools by 1 to 64 letters, digits, `_` and `-`"),
    (Query(ToolSpec("query", "Ask.").but(name=3)), "cannot make a tool of `3`: models call tools by 1 to 64 letters"),
    (
        Query(ToolSpec("query", "Ask.").but(description=None)),
        "it has no description, which is what the model reads; give it one",
    ),
    (Query(ToolSpec("query", " ")), "it has no description, which is what the model reads; give it one"),
    (
        Query(ToolSpec("query", "Ask.", effect=EffectClass.CHECKABLE)),
        "a `checkable` tool has a `probe(key)`; give it one, or declare it `unsafe`",
    ),
]


@pytest.mark.parametrize(("given", "problem"), NO_TOOLS, ids=lambda row: type(row).__name__)
def test_anything_else_is_no_tool(given: object, problem: str) -> None:
    with pytest.raises(BadTool) as caught:
        as_tool(given)
    assert problem in str(caught.value)


def test_a_checkable_tool_can_be_probed() -> None:
    spec = ToolSpec("query", "Ask.", effect=EffectClass.CHECKABLE)
    assert as_tool(Checkable(spec)).spec is spec


LOOP: Mapping[str, Json] = {"$ref": "#/$defs/Loop"}
BAD_SCHEMAS: list[tuple[JsonObject, str]] = [
    ({"type": "array"}, 'its schema must say `"type": "object"`: arguments come by name'),
    ({"properties": {}}, 'its schema must say `"type": "object"`: arguments come by name'),
    (
        {"type": "object", "properties": {"a": {"type": "strnig"}}},
        'its schema will not do: `properties.a.type`: found "strnig", wanted ',
    ),
    ({"type": "object", "required": "a"}, 'its schema will not do: `required`: found "a", wanted a list'),
    (
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}},
        "its schema will not do: `$ref` leads to `#/$defs/A`, which is not in the schema",
    ),
    (
        {"type": "object", "properties": {"a": {"$ref": "https://example.com/a.json"}}},
        "its schema will not do: `$ref` leads to `https://example.com/a.json`, which is not in the schema",
    ),
    (
        {"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}},
        "its schema will not do: the pattern `(` is no regular expression: missing )",
    ),
    (
        {"type": "object", "$defs": {"A": {"$schema": "http://json-schema.org/draft-07/schema#"}}},
        "its schema will not do: `$schema` stands below the top",
    ),
]


@pytest.mark.parametrize(("schema", "problem"), BAD_SCHEMAS, ids=str)
def test_a_schema_that_no_call_could_be_checked_with_is_refused(schema: JsonObject, problem: str) -> None:
    with pytest.raises(BadTool) as by_hand:
        make_spec("query", "Ask.", schema)
    with pytest.raises(BadTool) as taken:
        as_tool(Query(of_schema(schema)))
    assert str(by_hand.value).startswith(f"cannot make a tool of `query`: {problem}")
    assert taken.value == by_hand.value


def test_a_schema_may_refer_to_itself_and_name_a_property_like_a_keyword() -> None:
    schema: JsonObject = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {"$ref": {"type": "string"}, "next": {"$ref": "#"}, "loop": LOOP},
        "$defs": {"Loop": {"anyOf": [{"type": "array", "items": LOOP}, {"type": "null"}]}},
    }
    assert make_spec("query", "Ask.", schema).parameters == of_schema(schema).parameters


def test_a_schema_that_is_not_json_is_refused() -> None:
    with pytest.raises(BadTool, match=r"its schema is not JSON: \$\.a is a `set`"):
        make_spec("query", "Ask.", {"a": set()})  # type: ignore[dict-item] # pyright: ignore[reportArgumentType]

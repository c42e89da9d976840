"""Tests of what every tool must do. Inherit the class, and give it a `tool` fixture that returns your tool.

    class TestMine(ToolConformance):
        @pytest.fixture
        def tool(self) -> object:
            return weather

        def examples(self) -> Sequence[Mapping[str, Json]]:
            return ({"city": "Oslo"},)

The tool is called with the examples, and with arguments made from its schema unless `makes_arguments` is false. Its
context comes from `surroundings()`: a sandbox in memory, unless you override it. The tests are async functions for
pytest-trio.

Makes sample arguments for a tool from its JSON Schema: smallest, largest and odd values of each type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import ClassVar, Final, cast

import attrs
import trio

from agentrail.adapters.sandboxes.memory import MemorySandbox
from agentrail.ports.tool import Tool, ToolContext
from agentrail.runtime.work.tool_call import execute
from agentrail.tools import as_tool, validator_for
from agentrail.values.json import Json, JsonObject, canonical, freeze_object
from agentrail.values.tools import Effect, EffectClass, Err, Ok, ToolResult, ToolSpec

ROWS: Final = 24
"""How many sets of arguments are made for one tool at most."""

DEPTH: Final = 4
"""How many levels of a nested schema are followed; deeper values are `None`."""

TEXTS: Final = ("a.txt", "a", "", "-x", "../a", "a b\n", "a\0b", "(", "**", "$(id)", "ü 漢字 🙂", "x" * 2000)
NUMBERS: Final = (1, 0, -1, 2**31, 2**53)

Schema = Mapping[str, object]


def arguments_for(spec: ToolSpec) -> tuple[JsonObject, ...]:
    """Return sets of arguments that fit the schema of *spec*, at most `ROWS`; empty if none could be made."""
    return tuple(islice(_fitting(spec), ROWS))


def _fitting(spec: ToolSpec) -> Iterator[JsonObject]:
    fits = validator_for(spec)
    for candidate in _objects(spec.parameters, spec.parameters, 0):
        args = freeze_object(cast("Mapping[str, Json]", candidate))
        if fits(args) is None:
            yield args


def _samples(schema: Schema, root: Schema, depth: int) -> Sequence[object]:
    if depth > DEPTH:
        return (None,)
    if "const" in schema:
        return (schema["const"],)
    if "enum" in schema:
        return cast("Sequence[object]", schema["enum"])
    if "$ref" in schema:
        definitions = cast("Mapping[str, Schema]", root.get("$defs", {}))
        return _samples(definitions.get(str(schema["$ref"]).rpartition("/")[2], {}), root, depth + 1)
    for several in ("anyOf", "oneOf", "allOf"):
        if several in schema:
            choices = cast("Sequence[Schema]", schema[several])
            return tuple(chain.from_iterable(_samples(choice, root, depth + 1) for choice in choices))
    kinds = schema.get("type", "string")
    named = (kinds,) if isinstance(kinds, str) else cast("Sequence[str]", kinds)
    return tuple(chain.from_iterable(_KINDS[kind](schema, root, depth + 1) for kind in named if kind in _KINDS))


def _texts(schema: Schema, _root: Schema, _depth: int) -> Sequence[object]:
    least, most = schema.get("minLength", 0), schema.get("maxLength", 2000)
    bounds = ("y" * number for number in (least, most) if isinstance(number, int) and number <= len(TEXTS[-1]))
    return (*TEXTS, *bounds)


def _numbers(schema: Schema, _root: Schema, _depth: int) -> Sequence[object]:
    bounds = (schema[name] for name in ("minimum", "maximum") if name in schema)
    return (*bounds, *NUMBERS)


def _lists(schema: Schema, root: Schema, depth: int) -> Sequence[object]:
    items = _samples(cast("Schema", schema.get("items", {})), root, depth)
    least = schema.get("minItems", 0)
    return ([], list(items[:1]), list(items[:3]), list(items[:1]) * (least if isinstance(least, int) else 1))


def _objects(schema: Schema, root: Schema, depth: int) -> Sequence[object]:
    """Return objects in pairs with different sample values: one with the required properties, one with all."""
    properties = cast("Mapping[str, Schema]", schema.get("properties", {}))
    required = cast("Sequence[str]", schema.get("required", ()))
    samples = {name: _samples(property_, root, depth + 1) or (None,) for name, property_ in properties.items()}
    most = max((len(values) for values in samples.values()), default=1)
    objects: list[object] = []
    for number in range(most):
        full_object = {name: values[number % len(values)] for name, values in samples.items()}
        objects += [{name: full_object[name] for name in required if name in full_object}, full_object]
    return objects


_Maker = Callable[[Schema, Schema, int], Sequence[object]]

_KINDS: Final[Mapping[str, _Maker]] = {
    "string": _texts,
    "integer": _numbers,
    "number": lambda schema, root, depth: (*_numbers(schema, root, depth), 0.5),
    "boolean": lambda _schema, _root, _depth: (True, False),
    "null": lambda _schema, _root, _depth: (None,),
    "array": _lists,
    "object": _objects,
}


# ruff: noqa: S101 - these are tests


TICKS = (0, 1, 2, 3, 5, 8, 20, 50)
"""Numbers of checkpoints that a call passes before it is cancelled."""

ATTEMPTS: Final = 3
"""How often a call may be late to end, in a row, before the tool has failed: a busy machine is late once."""


class ToolConformance:
    """Tests of a tool: its description, its answers to arguments that fit, its cancellation, and its effect class."""

    makes_arguments: ClassVar[bool] = True
    """Whether the tool is also called with arguments made from its schema."""
    cancelled_within: ClassVar[float] = 0.25
    """Seconds that a cancelled call may take to end; a session reports one that takes longer."""

    def examples(self) -> Sequence[Mapping[str, Json]]:
        """Return sets of arguments to call the tool with; none by default. Override this."""
        return ()

    def surroundings(self) -> ToolContext:
        """Return a new context (sandbox, web, `deps`) for one call; by default with a few files in memory."""
        return ToolContext(sandbox=MemorySandbox({"a.txt": b"tea\nx\r\ny", "docs/b": b"\xff\xfe"}))

    def rows(self, tool: Tool) -> tuple[JsonObject, ...]:
        """Return all sets of arguments to call the tool with: the examples, then those made from its schema."""
        examples = tuple(freeze_object(args) for args in self.examples())
        rows = (*examples, *(arguments_for(tool.spec) if self.makes_arguments else ()))
        assert rows, "no arguments are known that fit the schema; give `examples`"
        return rows

    async def test_a_session_takes_it(self, tool: object) -> None:
        """A session accepts the tool: its schema and options are valid, and its `spec` is equal each time."""
        await trio.lowlevel.checkpoint()
        tool_ = as_tool(tool)
        assert tool_.spec == tool_.spec
        assert canonical(tool_.spec.parameters) == canonical(as_tool(tool).spec.parameters)

    async def test_the_examples_fit(self, tool: object) -> None:
        """The example arguments fit the tool's schema."""
        await trio.lowlevel.checkpoint()
        fits = validator_for(as_tool(tool).spec)
        for args in self.examples():
            assert fits(freeze_object(args)) is None, args

    async def test_whatever_fits_is_answered(self, tool: object) -> None:
        """The tool never raises for arguments that fit its schema, and each of its results can be stored."""
        tool_ = as_tool(tool)
        for args in self.rows(tool_):
            await self._answer(tool_, args, self.surroundings())

    async def test_an_example_is_not_an_error(self, tool: object) -> None:
        """Calls with the example arguments succeed."""
        tool_ = as_tool(tool)
        for args in self.examples():
            answer = await self._answer(tool_, freeze_object(args), self.surroundings())
            assert not isinstance(answer, Err), (args, answer)

    async def test_calls_side_by_side_are_all_answered(self, tool: object) -> None:
        """Concurrent calls do not disturb each other, unless the tool declares that it runs alone."""
        tool_ = as_tool(tool)
        if not tool_.spec.parallel:
            return
        ctx = self.surroundings()
        args = self.rows(tool_)[0]
        async with trio.open_nursery() as nursery:  # noqa: TID251 - the calls end with the test
            for number in range(3):
                nursery.start_soon(self._answer, tool_, args, attrs.evolve(ctx, call_id=f"call-{number}"))

    async def test_a_cancelled_call_ends(self, tool: object) -> None:
        """A call ends soon after it is cancelled, at any checkpoint."""
        tool_ = as_tool(tool)
        args = self.rows(tool_)[0]
        for ticks in TICKS:
            late = 0
            while (went_on := await self._seconds_to_end(tool_, args, ticks)) > self.cancelled_within:
                late += 1
                assert late < ATTEMPTS, f"it went on for {went_on:.2f} s"

    async def _seconds_to_end(self, tool: Tool, args: JsonObject, ticks: int) -> float:
        """Call *tool*, cancel the call after some checkpoints, and return how long it went on then."""
        async with trio.open_nursery() as nursery:  # noqa: TID251 - the call ends with the test
            nursery.start_soon(self._answer, tool, args, self.surroundings())
            for _ in range(ticks):
                await trio.lowlevel.checkpoint()
            began = trio.current_time()
            nursery.cancel_scope.cancel()
        return trio.current_time() - began

    async def test_it_is_true_to_its_effect_class(self, tool: object) -> None:
        """A pure tool changes no file in memory, and an idempotent one changes nothing the second time."""
        tool_ = as_tool(tool)
        for args in self.rows(tool_):
            ctx = self.surroundings()
            sandbox = ctx.sandbox
            if not isinstance(sandbox, MemorySandbox):
                return
            old_files = sandbox.files
            await self._answer(tool_, args, ctx)
            new_files = sandbox.files
            if tool_.spec.effect is EffectClass.PURE:
                assert new_files == old_files, f"it is declared `pure` and has changed files with {args}"
            if tool_.spec.effect is EffectClass.IDEMPOTENT:
                await self._answer(tool_, args, ctx)
                assert sandbox.files == new_files, f"it is declared `idempotent` and has changed more with {args}"

    async def _answer(self, tool: Tool, args: JsonObject, ctx: ToolContext) -> ToolResult:
        """Call the tool as a session does, check that it returns a valid result, and return it."""
        answer = await execute(tool, args, ctx)
        assert isinstance(answer, Ok | Err | Effect)
        return answer

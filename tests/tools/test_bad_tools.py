import dataclasses
import functools
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from enum import Enum, Flag
from importlib.metadata import version
from itertools import repeat
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, NamedTuple, TypedDict, TypeVar, cast

import attrs
import pytest
from msgspec import Meta, Struct

from agentrail.errors import BadTool, WrongType
from agentrail.models import Text
from agentrail.tools import Length, Pattern, Range, ToolContext, as_tool, err, tool
from tests.each_case import each_case
from tests.kit import thaw
from tests.tools.kinds import Color, Level, Point, Span, tool_of

T = TypeVar("T")
DO = "use str, int, float, bool, None, Literal, Enum, list, tuple, dict[str, ...], unions of them, Json, a TypedDict"


class Access(Flag):
    READ = 1


class Half(Enum):
    HALF = 0.5


class Nothing(Enum):
    pass


class Mixed(Enum):
    TEXT = "a"
    NUMBER = 1


class Pair(NamedTuple):
    a: int


@attrs.define
class Box(Generic[T]):
    inside: T


@attrs.define
class Holder:
    box: list[set[int]]


@attrs.define
class Wrong:
    pair: "Point | Span"
    again: "Wrong | None" = None


Quoted = TypedDict("Quoted", {'a"b': int})


class Cups(Struct):
    inside: complex


def thing() -> type[Struct]:
    """Return a class that has the name of another."""

    class Thing(Struct):
        a: int

    return Thing


class Untyped:
    pass


@dataclasses.dataclass
class Documented:
    """A pair.

    Attributes:
        x: The first.
        total: Both together, as a property.
        y: The second.
    """

    x: int

    @property
    def total(self) -> int:
        return self.x


@dataclasses.dataclass
class Started:
    seed: dataclasses.InitVar[int]


def refusal(make: Callable[[], object]) -> str:
    with pytest.raises(BadTool) as caught:
        make()
    return str(caught.value)


ROWS: list[tuple[object, str]] = [
    (Any, "is annotated `Any`, of which no schema can be made; say what it is"),
    (object, "is annotated `object`, of which no schema can be made; say what it is"),
    (list, "is annotated `list`, of which no schema can be made; say of what, as in `list[str]`"),
    (dict, "is annotated `dict`, of which no schema can be made; say of what, as in `dict[str, int]`"),
    (tuple, "is annotated `tuple`, of which no schema can be made; say of what, as in `tuple[int, str]`"),
    (set[int], "is annotated `set[int]`, of which no schema can be made; use `list[...]`"),
    (frozenset[int], "is annotated `frozenset[int]`, of which no schema can be made; use `list[...]`"),
    (Sequence[int], "is annotated `collections.abc.Sequence[int]`, of which no schema can be made; use `list[...]`"),
    (bytes, "is annotated `bytes`, of which no schema can be made; use `str`, in base64"),
    (Callable[[], int], "is annotated `collections.abc.Callable[[], int]`, of which no schema can be made; a model"),
    (Path, "is annotated `Path`, of which no schema can be made; use `str`"),
    (Decimal, "is annotated `Decimal`, of which no schema can be made; use `str`"),
    (datetime, "is annotated `datetime`, of which no schema can be made; use `str`, in ISO 8601"),
    (complex, f"is annotated `complex`, of which no schema can be made; {DO}"),
    (T, f"is annotated `~T`, of which no schema can be made; {DO}"),
    (Untyped, f"is annotated `Untyped`, of which no schema can be made; {DO}"),
    (Pair, f"is annotated `Pair`, of which no schema can be made; {DO}"),
    (Access, f"is annotated `Access`, of which no schema can be made; {DO}"),
    (Box[int], f"is annotated `tests.tools.test_bad_tools.Box[int]`, of which no schema can be made; {DO}"),
    (dict[int, str], "is annotated `dict[int, str]`, but the keys of a JSON object are text; use `dict[str, ...]`"),
    (Half, "is annotated `Half`, whose 0.5 is neither text nor an integer; use text"),
    (Nothing, "is annotated `Nothing`, which has no values; give it some"),
    (
        Literal[Color.RED],
        "is annotated `typing.Literal[<Color.RED: 'red'>]`, whose <Color.RED: 'red'> is neither text nor",
    ),
    (Literal["a", True], "whose True is neither text nor an integer"),
    (
        Literal["auto"] | Color,
        "of which no schema can be made: Type unions may not contain more than one str-like type",
    ),
    (Color | str, "schema can be made: Type unions may not contain more than one str-like type"),
    (Point | Span, "all Struct types must be tagged"),
    (list[Point | Span], "JSON does not say which of them a value is; give each class a tag, by `msgspec.Struct`"),
    (Point | dict[str, int], "JSON does not say which of them a value is"),
    (list[int] | list[str], "Type unions may not contain more than one array-like"),
    (
        Annotated[int | None, Range(ge=1)],
        "is bound by `Range(ge=1)`, which says nothing about this type; put it on the",
    ),
    (
        Annotated[int, Range(ge=5)] | Annotated[int, Range(le=1)],
        "which has a type twice, with other bounds",
    ),
    (Annotated[int, Range(ge=0.5)], "is bound by `Range(ge=0.5)`, which has a limit that is no integer"),
    (Annotated[int, Range(ge=1, gt=0)], "is bound by `Range(ge=1, gt=0)`, which will not do: "),
    (Annotated[int, Range(le=2**70)], "of which no schema can be made: Integer bounds constraints"),
    (
        Annotated[str, Pattern("a"), Pattern("b")],
        "is bound by `Pattern(regex='b')`, which something else bounds",
    ),
    (Annotated[str, Length(max=2)] | Literal["abcd"], "which has limits of `str` beside texts to choose from"),
    (Annotated[int, Range(le=3)] | Literal[10], "which has limits of `int` beside numbers to choose from"),
    (Literal[1, "a"] | float, "which has whole numbers to choose from beside `float`; use texts, or add `int`"),
    (list[Level | float | None], "which has whole numbers to choose from beside `float`"),
    (Annotated[int, Range(ge=5)] | float, "which has limits of `int` that a whole number of the `float` need not keep"),
    (list[Annotated[int, Range(lt=2)] | Annotated[float, Range(lt=2.5)]], "which has limits of `int` that a whole"),
    (Annotated[int, Range(ge=1)] | Annotated[float, Range(gt=-0.5)], "which has limits of `int` that a whole number"),
    (Annotated[int, Meta(multiple_of=2)] | float, "which has limits of `int` that a whole number of the `float`"),
    (Cups, "is annotated `Cups`, of which no schema can be made: msgspec, which reads the fields of a `Struct` alone"),
    (
        Mixed,
        "is annotated `Mixed`, of which no schema can be made: Enums must contain either all str or all int values",
    ),
    (Quoted, 'field `a"b` of `Quoted`, has a quote, a backslash or a control character'),
    (Wrong, "field `pair` of `Wrong`, is annotated `"),
    (int | set[int], "is annotated `set[int]`, of which no schema can be made; use `list[...]`"),
    (Box, "field `inside` of `Box`, is annotated `~T`, of which no schema can be made"),
    (list[Holder], "field `box` of `Holder`, is annotated `set[int]`, of which no schema can be made; use `list[...]`"),
    (Started, "field `seed` of `Started`, is an `InitVar`; make it a field"),
    (attrs.make_class("Loose", ["a"]), "field `a` of `Loose`, has no annotation; give it one"),
    (Annotated[int, 3], "is annotated with `3`, which nothing would check; use a text, Range, Length or Pattern"),
    (Annotated[str, Range(ge=1)], "is bound by `Range(ge=1)`, which says nothing about this type; put it on the type"),
    (Annotated[Point, Length(max=1)], "is bound by `Length(max=1)`, which says nothing about this type; put it on"),
    (Annotated[int, Range(ge=1), Range(ge=2)], "is bound by `Range(ge=2)`, which something else bounds already"),
    (Annotated[int, Range(ge=float("nan"))], "is bound by `Range(ge=nan)`, which has a limit that is not finite"),
    (Annotated[str, Length(min=2, max=1)], "is bound by `Length(min=2, max=1)`, which admits nothing"),
    (Annotated[str, Pattern("(")], "is bound by `Pattern(regex='(')`, which is no regular expression: missing )"),
    ("Unknown", "has annotations that cannot be read (name 'Unknown' is not defined); define or import"),
]


@each_case(ROWS)
def test_what_no_schema_can_say_is_refused(annotation: object, problem: str) -> None:
    said = refusal(lambda: tool_of(annotation))
    assert said.startswith("cannot make a tool of `probe`: it")
    assert problem in said
    assert isinstance(annotation, str) or "its parameter `x`" in said


def test_two_classes_of_one_name_are_told_apart_or_refused() -> None:
    """From version 0.23 on, msgspec numbers them."""
    annotation = tuple.__class_getitem__((thing(), thing()))
    if tuple(map(int, version("msgspec").split(".")[:2])) < (0, 23):
        said = refusal(lambda: tool_of(annotation))
        assert "its parameter `x` is annotated `tuple[tests.tools.test_bad_tools.thing.<locals>.Thing," in said
        assert "no schema can be made: another class has the name `Thing` too" in said
        return
    name = "tests.tools.test_bad_tools.thing._locals_.Thing"
    described = {"title": "Thing", "type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    places = [{"$ref": f"#/$defs/{name}"}, {"$ref": f"#/$defs/{name}_2"}]
    assert thaw(tool_of(annotation).spec.parameters) == {
        "type": "object",
        "properties": {"x": {"type": "array", "minItems": 2, "prefixItems": places, "items": False}},
        "required": ["x"],
        "additionalProperties": False,
        "$defs": {name: described, f"{name}_2": described},
    }


async def positional(x: int, /) -> None:
    """Do."""


async def positional_context(ctx: ToolContext, /) -> None:
    """Do."""


async def several(*x: int) -> None:
    """Do."""


async def named(**x: int) -> None:
    """Do."""


async def bare(x) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001 # pyright: ignore[reportMissingParameterType, reportUnknownParameterType]
    """Do."""


async def implicit(x: str = None) -> None:  # type: ignore[assignment]  # noqa: RUF013 # pyright: ignore[reportArgumentType]
    """Do."""


async def unfitting(x: Annotated[int, Range(ge=1)] = 0) -> None:
    """Do."""


async def unmatched(x: Annotated[str, Pattern("^a")] = "b") -> None:
    """Do."""


async def optional_context(ctx: ToolContext | None) -> None:
    """Do."""


async def two_contexts(a: ToolContext, b: ToolContext) -> None:
    """Do."""


async def undocumented(x: int) -> None: ...


async def only_arguments(x: int) -> None:
    """
    Args:
        x: A number.
    """


async def misnamed(x: int) -> None:
    """Do.

    Args:
        y: A number.
    """


async def misnamed_elsewhere(x: int) -> None:
    """Do.

    Params:
        - y: A number.
    """


def sync_yielding(x: int) -> Iterator[int]:
    """Do."""
    yield x


async def yielding(x: int) -> AsyncIterator[int]:  # noqa: ASYNC124 - a tool is async
    """Do."""
    yield x


FUNCTIONS: list[tuple[Callable[..., object], str]] = [
    (positional, "its parameter `x` is positional-only, but arguments come by name; take the `/` away"),
    (positional_context, "its parameter `ctx` is positional-only, but arguments come by name"),
    (several, "its parameter `x` takes any number of arguments; use a parameter annotated `list[...]`"),
    (named, "its parameter `x` takes arguments of any name; use a parameter annotated `dict[str, ...]`"),
    (bare, "its parameter `x` has no annotation; give it one"),
    (
        implicit,
        "its parameter `x` is annotated `str`, which its default None does not fit; annotate what it may be",
    ),
    (unfitting, "which its default 0 does not fit; annotate what it may be"),
    (unmatched, "which its default 'b' does not fit; annotate what it may be"),
    (
        optional_context,
        "write `ToolContext` alone, it is always given",
    ),
    (two_contexts, "its parameter `b` is a second `ToolContext`; one is enough"),
    (undocumented, "it has no docstring; its first paragraph is what the model reads"),
    (only_arguments, "it has no docstring; its first paragraph is what the model reads"),
    (misnamed, "it documents an argument `y` that it does not have; correct the docstring"),
    (
        misnamed_elsewhere,
        "it documents an argument `y` that it does not have; correct the docstring",
    ),
    (sync_yielding, "it yields, but a call has one result; return it, and report progress with `ctx.report`"),
    (yielding, "it yields, but a call has one result; return it, and report progress with `ctx.report`"),
]


@each_case(FUNCTIONS)
def test_a_function_that_a_model_could_not_call_is_refused(fn: Callable[..., object], problem: str) -> None:
    assert problem in refusal(lambda: as_tool(fn))


def test_a_callable_that_is_no_function_is_refused() -> None:
    said = "cannot make a tool of `partial`: it is no function; decorate a function, or write a class with `spec`"
    assert said in refusal(lambda: tool(functools.partial(fine, "a")))


def test_a_method_is_told_what_to_do() -> None:
    def decorate() -> object:
        class Desk:
            @tool
            async def look(self, x: int) -> str:
                """Look."""
                return str(x)

        return Desk

    assert "its parameter `self` needs an object; decorate a function, or make a tool of the bound method" in refusal(
        decorate
    )


async def fine(path: str) -> str:  # noqa: ASYNC124 - a tool is async
    """Do."""
    return path


def test_a_docstring_of_a_class_that_describes_a_field_that_is_not_there_warns() -> None:
    with pytest.warns(UserWarning, match="`Documented` documents a field `y` that it does not have") as warned:
        tool_of(Documented)
    assert len(warned) == 1


OPTIONS: list[tuple[dict[str, object], str]] = [
    (
        {"name": "read file"},
        "cannot make a tool of `read file`: models call tools by 1 to 64 letters, digits, `_` and `-`",
    ),
    ({"name": ""}, "models call tools by 1 to 64 letters"),
    ({"timeout": 0}, "its `timeout` must be a number of seconds above 0"),
    ({"timeout": float("inf")}, "its `timeout` must be a number of seconds above 0"),
    ({"timeout": True}, "its `timeout` must be a number of seconds above 0"),
    ({"deferred": "yes"}, "its `immune`, `parallel` and `deferred` must be true or false"),
    ({"immune": 1}, "its `immune`, `parallel` and `deferred` must be true or false"),
    ({"effect": "harmless"}, "its `effect` is 'harmless'; use `pure`, `idempotent`, `checkable`, `unsafe`"),
    (
        {"effect": "checkable"},
        "a `checkable` tool has a `probe(key)`; write a class with `spec`, `execute` and `probe`",
    ),
    ({"subject": "file"}, "its `subject` must name an argument of it, or several"),
    ({"subject": ("path", "file")}, "its `subject` must name an argument of it, or several"),
    ({"subject": ()}, "its `subject` must name an argument of it, or several"),
    ({"requires": "files"}, 'its `requires` must be several texts, as in `("files",)`'),
    ({"max_result_chars": 0}, "its `max_result_chars` must be above 0"),
    ({"require": ["shell"]}, "there is no option `require`; did you mean `requires`?"),
    (
        {"max_retries": 3},
        "there is no option `max_retries`; did you mean `retries`? To have the model call again, raise",
    ),
    (
        {"xyzzy": 3},
        "there is no option `xyzzy`; there are `deferred`, `effect`, `elsewhere`, `immune`, `max_result_chars`",
    ),
]


@each_case(OPTIONS)
def test_what_a_tool_declares_must_make_sense(options: dict[str, object], problem: str) -> None:
    decorator = cast("Callable[..., Callable[[object], object]]", tool)(**options)
    assert problem in refusal(lambda: decorator(fine))


def test_a_result_of_parts_without_end_is_refused() -> None:
    with pytest.raises(WrongType, match="more than 10000 parts"):
        err(cast("Sequence[Text]", repeat(Text("again"))))

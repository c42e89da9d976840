"""Annotations that the tests of tools share."""

import dataclasses
from collections.abc import Callable
from enum import Enum, IntEnum, StrEnum
from typing import Annotated, NotRequired, TypedDict

import attrs
import pytest

from agentrail.models import Json, Text
from agentrail.tools import Err, FunctionTool, Length, Ok, Range, ToolContext, ToolResult, tool
from tests.kit import freeze

UNLUCKY = "13 is unlucky"


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Size(StrEnum):
    SMALL = "s"
    LARGE = "l"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


def never_13(_: object, __: object, found: int) -> None:
    if found == 13:
        raise ValueError(UNLUCKY)


@attrs.frozen
class Span:
    """From one number to another.

    Attributes:
        low: The least.
    """

    low: int = attrs.field(validator=never_13)
    _high: float | None = None
    secret: int = attrs.field(default=1, init=False)


@attrs.define
class Tree:
    name: str
    children: "list[Tree]" = attrs.Factory(list["Tree"])
    parent: "Tree | None" = None


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0
    tags: list[str] = dataclasses.field(default_factory=list[str])


class Options(TypedDict, total=False):
    """How to do it."""

    depth: int
    color: Color


class Query(TypedDict):
    text: str
    limit: NotRequired[Annotated[int, "At most so many.", Range(ge=1, le=9)]]
    options: NotRequired[Options]
    near: NotRequired[Annotated[str, Length(max=3)]]


def tool_of(annotation: object) -> FunctionTool[[object], str]:
    """Return a tool with one parameter `x` of *annotation*."""

    async def probe(x: object) -> str:  # noqa: ASYNC124 - a tool is async
        """Look."""
        return repr(x)

    probe.__annotations__ = {"x": annotation, "return": str}
    return tool(probe)


class UnfitError(Exception):
    """The arguments of a call do not fit; the text is what the model reads."""


def reader_of(annotation: object) -> Callable[[Json], object]:
    """Return a function from JSON to what a function with a parameter `x` of *annotation* gets for it."""
    got: list[object] = []

    def probe(x: object) -> None:
        """Look."""
        got.append(x)

    probe.__annotations__ = {"x": annotation, "return": None}
    made = tool(probe)

    def read(given: Json) -> object:
        call = made.execute({"x": given}, ToolContext())
        with pytest.raises(StopIteration) as ended:  # no thread without a session: the call ends at once
            call.send(None)
        result: ToolResult = ended.value.value
        if isinstance(result, Ok):
            return got.pop()
        assert isinstance(result, Err)
        (part,) = result.content
        assert isinstance(part, Text)
        raise UnfitError(part.text.removeprefix("these arguments do not fit `probe`: "))

    return read


def read(annotation: object, given: object) -> object:
    """Return what a function with one parameter of *annotation* gets for *given*; raise `UnfitError` if nothing."""
    return reader_of(annotation)(freeze(given))

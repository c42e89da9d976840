"""States that a plugin might keep, one of each kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Generic, Literal, NamedTuple, NewType, TypeVar

import attrs

from agentrail.events import Envelope, Event
from agentrail.models import Json, JsonObject, Part, Usage
from agentrail.models import Json as Anything
from agentrail.tools import Todo
from tests.kit import EMPTY, NOTHING_USED

if TYPE_CHECKING:
    from decimal import Decimal

Name = NewType("Name", str)


class Colour(Enum):
    RED = "red"
    BLUE = 7
    NONE = None


class Level(IntEnum):
    LOW = 1
    HIGH = 2


@attrs.frozen
class Plain:
    count: int = 0
    share: float = 0.5
    name: Name = Name("x")
    _secret: str | None = None
    seen: frozenset[str] = frozenset()
    pairs: frozenset[tuple[str, int]] = frozenset()


@attrs.frozen
class Nested:
    inner: Plain
    colour: Colour
    levels: tuple[Level, ...] = ()
    by_name: Mapping[str, Plain | None] = attrs.field(factory=lambda: MappingProxyType[str, Plain | None]({}))
    mode: Literal["a", "b", 3] = "a"
    places: Sequence[tuple[int, str]] = ()
    nothing: tuple[()] = ()


@dataclass(frozen=True)
class Point:
    x: int
    y: int | float | None = None
    tags: tuple[str, ...] = field(default_factory=tuple)


class Span(NamedTuple):
    start: Point
    end: Point | None = None


@attrs.frozen
class First:
    value: int


@attrs.frozen
class Second:
    value: int


@attrs.frozen
class Union:
    one: First | Second
    many: tuple[First | Second | None, ...] = ()
    text_or_number: str | int | bool = 0
    mixed: Mapping[str, int] | First | tuple[str, ...] | None = None


@attrs.frozen
class Tree:
    name: str
    children: tuple[Tree, ...] = ()


@attrs.frozen
class Ours:
    payload: Json
    anything: Anything = None
    options: JsonObject = EMPTY
    todos: tuple[Todo, ...] = ()
    used: Usage = NOTHING_USED
    parts: tuple[Part, ...] = ()
    last: Event | None = None
    envelope: Envelope | None = None


@attrs.frozen
class Odd:
    """Its fields have names that cattrs keeps for itself."""

    cl: int
    converter: tuple[First, ...] = ()


STATES: Final[tuple[object, ...]] = (
    None,
    bool,
    int,
    float,
    str,
    Json,
    tuple[int, ...],
    frozenset[str],
    Mapping[str, float],
    Colour,
    Plain,
    Nested,
    Point,
    Span,
    Union,
    Tree,
    Ours,
    Odd,
)
"""Types of states that can be kept and that need no more than a class to be read back."""

MIXED: Final[tuple[object, ...]] = (
    tuple[Plain, ...],
    tuple[Colour, ...],
    tuple[frozenset[int], ...],
    frozenset[Colour],
    Mapping[str, Point],
    First | Second | None,
    Colour | Point | tuple[int, ...],
)
"""Types of states that need more than the class of the state."""


@attrs.frozen
class Unseen:
    amount: Decimal | None = None


@attrs.frozen
class Bare:
    items: tuple  # type: ignore[type-arg]  # what it holds is not said


@attrs.frozen
class Listing:
    items: list[int]


@attrs.frozen
class Alike:
    either: Colour | str


@attrs.frozen
class Loose:
    anything: object


T = TypeVar("T")


@attrs.frozen
class Box(Generic[T]):
    item: T

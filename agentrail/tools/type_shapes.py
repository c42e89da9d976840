"""Turns type annotations into shapes; the JSON Schema and the reader of arguments are both made from shapes.

A shape is a type that JSON Schema can express and that JSON values can be checked against strictly. Any other
annotation is refused here, when the tool is defined, with its place and what to write instead.

Bounds on a value, written beside its type: `Annotated[int, Range(ge=1, le=100)]`.

Each bound can be written as keywords of JSON Schema (`keywords`) and checked for a value (`holds`). Like the keywords,
it applies to some types only, and values of other types pass: `Annotated[int | None, Range(ge=1)]` admits `None`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from enum import Enum, Flag
from types import NoneType, UnionType
from typing import Annotated, Final, Literal, NewType, NoReturn, TypeAlias, TypeGuard, Union, cast, get_args, get_origin

from typing_extensions import is_typeddict

from agentrail.errors import BadTool
from agentrail.tools.foreign_types import ForeignType, foreign_type, is_foreign_note
from agentrail.values.json import EMPTY, Json, JsonObject
from agentrail.values.patterns import expression, flaw_of
from agentrail.values.personal import Privacy
from agentrail.values.step_budget import CHECK_STEPS, Meter
from agentrail.values.untrusted_values import described, names_of
from agentrail.values.value import Authored, Value

_LENGTHS: Final = {
    "string": ("minLength", "maxLength"),
    "array": ("minItems", "maxItems"),
    "object": ("minProperties", "maxProperties"),
}


class Range(Authored, kw_only=True):
    """Limits of a number."""

    ge: float | None = None
    """The number must be at least this; `None` if there is no such limit."""
    gt: float | None = None
    """The number must be more than this; `None` if there is no such limit."""
    le: float | None = None
    """The number must be at most this; `None` if there is no such limit."""
    lt: float | None = None
    """The number must be less than this; `None` if there is no such limit."""

    def flaw(self) -> str | None:
        """Return why the bound is invalid, in words that follow "which"; `None` if it is valid."""
        limits = (self.ge, self.gt, self.le, self.lt)
        return (
            None if all(limit is None or math.isfinite(limit) for limit in limits) else "has a limit that is not finite"
        )

    def keywords(self, kind: str) -> JsonObject:
        """Return the bound as keywords of JSON Schema for the JSON type *kind*; empty if it does not apply to it."""
        if kind not in {"integer", "number"}:
            return EMPTY
        limits = {"minimum": self.ge, "exclusiveMinimum": self.gt, "maximum": self.le, "exclusiveMaximum": self.lt}
        return {keyword: limit for keyword, limit in limits.items() if limit is not None}

    def holds(self, value: object) -> bool:
        """Whether *value* is within the limits, or is no number."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            return True
        return (
            (self.ge is None or value >= self.ge)
            and (self.gt is None or value > self.gt)
            and (self.le is None or value <= self.le)
            and (self.lt is None or value < self.lt)
        )


class Length(Authored, kw_only=True):
    """Limits of a length: characters of a text, items of a list, keys of a `dict`."""

    min: int = 0
    """The smallest length that is allowed."""
    max: int | None = None
    """The largest length that is allowed; `None` if there is no such limit."""

    def flaw(self) -> str | None:
        """Return why the bound is invalid, in words that follow "which"; `None` if it is valid."""
        fine = self.min >= 0 and (self.max is None or self.max >= self.min)
        return None if fine else "admits nothing"

    def keywords(self, kind: str) -> JsonObject:
        """Return the bound as keywords of JSON Schema for the JSON type *kind*; empty if it does not apply to it."""
        if kind not in _LENGTHS:
            return EMPTY
        least, most = _LENGTHS[kind]
        keywords: dict[str, Json] = {least: self.min} if self.min else {}
        return keywords if self.max is None else {**keywords, most: self.max}

    def holds(self, value: object) -> bool:
        """Whether the length of *value* is within the limits, or *value* has no length."""
        if not isinstance(value, str | list | tuple | dict):
            return True
        length = len(value)  # pyright: ignore[reportUnknownArgumentType]  # only the length matters, not the types of its items
        return self.min <= length and (self.max is None or length <= self.max)


class Pattern(Authored):
    """A regular expression that must match somewhere in a text; with `^` and `$` it must match the whole text."""

    regex: str
    """The regular expression, in the syntax of `re`."""

    def flaw(self) -> str | None:
        """Return why the expression is invalid, in words that follow "which"; `None` if it is valid."""
        return flaw_of(self.regex)

    def keywords(self, kind: str) -> JsonObject:
        """Return the bound as keywords of JSON Schema for the JSON type *kind*; empty if it does not apply to it."""
        return {"pattern": self.regex} if kind == "string" else EMPTY

    def holds(self, value: object) -> bool:
        """Whether the expression matches in *value*, or *value* is no text."""
        return not isinstance(value, str) or expression(self.regex).found_in(value, Meter(CHECK_STEPS))


Bound: TypeAlias = Range | Length | Pattern


Choosable: TypeAlias = str | int | bool | None


class ShapePlace(Value):
    """The place of an annotation, for the message of `BadTool` that refuses it."""

    tool: str
    """Name of the tool."""
    what: str
    """The annotated thing, in words: "its parameter `x`"."""

    def inside(self, what: str) -> ShapePlace:
        """Return the place of *what*, which is a part of this place."""
        return ShapePlace(self.tool, f"{self.what}, {what}")

    def refuse(self, problem: str) -> NoReturn:
        """Raise `BadTool` for the annotation at this place; *problem* says why."""
        raise BadTool(self.tool, f"{self.what} {problem}")


class Scalar(Value, gc=True):
    """Shape of a text, a number, a boolean or null."""

    kind: type
    """`str`, `int`, `float`, `bool` or `NoneType`."""


class AnyJson(Value):
    """Shape of any JSON value."""

    is_object: bool
    """Whether the value must be an object; if not, any JSON value fits."""


class ChoiceShape(Value, gc=True):
    """Shape of a `Literal` or an `Enum`: one of a few values."""

    pairs: tuple[tuple[Choosable, object], ...]
    """For each choice: the value that the model sends, and the one that the function gets."""


class ListOf(Value, gc=True):
    """Shape of a list or tuple of any length, with items of one shape."""

    item: Shape
    """The shape of each item."""
    into: type[list[object] | tuple[object, ...]] = list
    """The type that the function gets: `list` or `tuple`."""


class TupleOf(Value, gc=True):
    """Shape of a tuple with a fixed number of items, each with its own shape."""

    items: tuple[Shape, ...]
    """The shapes of the items, in order."""


class DictOf(Value, gc=True):
    """Shape of a dict whose keys are any texts, and whose values have one shape."""

    item: Shape
    """The shape of each value."""


class OneOf(Value, gc=True):
    """Shape of a union: a value of one of several shapes; the first that fits is used."""

    members: tuple[Shape, ...]
    """The shapes of the union's members, in the order in which the annotation has them."""


class Bounded(Value, gc=True):
    """A shape with bounds and a description, from `Annotated`."""

    shape: Shape
    """The shape without the bounds."""
    bounds: tuple[Bound, ...]
    """The bounds that a value must also fulfil."""
    description: str | None
    """The description for the model; `None` if there is none."""


class ForeignShape(Value, gc=True):
    """Shape of a type that another library describes and reads, such as a model of pydantic."""

    type: ForeignType
    """The type, as its library describes it."""


class RecordShape(Value, gc=True):
    """Shape of an object with the fields of a class: attrs, a dataclass or a `TypedDict`."""

    cls: type
    """The class."""


Shape: TypeAlias = (
    Scalar | AnyJson | ChoiceShape | ListOf | TupleOf | DictOf | OneOf | Bounded | ForeignShape | RecordShape
)

NOTHING: Final = Scalar(NoneType)
_SCALARS: Final = (str, int, float, bool, NoneType)
_ADVICE: Final = {
    "Any": "say what it is, or `Json`",
    "object": "say what it is, or `Json`",
    "list": "say of what, as in `list[str]`",
    "tuple": "say of what, as in `tuple[int, str]` or `tuple[str, ...]`",
    "dict": "say of what, as in `dict[str, int]`",
    "set": "use `list[...]`",
    "frozenset": "use `list[...]`",
    "Sequence": "use `list[...]`",
    "Iterable": "use `list[...]`",
    "Mapping": "use `dict[str, ...]`, or `JsonObject`",
    "bytes": "use `str`, in base64",
    "Callable": "a model cannot send code",
    "Path": "use `str`",
    "Decimal": "use `str`",
    "datetime": "use `str`, in ISO 8601",
    "date": "use `str`, in ISO 8601",
}
_ELSE: Final = (
    "use str, int, float, bool, None, Literal, Enum, list, tuple, dict[str, ...], unions of them, Json, a TypedDict, a"
    " dataclass, or a class of attrs, pydantic or msgspec; or write a class with `spec` and `execute`"
)


def shape_of(annotation: object, at: ShapePlace) -> Shape:
    """Return the shape of *annotation*; raise `BadTool` if it has none, with its place *at* in the message."""
    if annotation is None or any(annotation is kind for kind in _SCALARS):
        return Scalar(annotation) if isinstance(annotation, type) else NOTHING
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _bounded(args[0], args[1:], at)
    foreign = _foreign(annotation, at)
    if foreign is not None:
        return foreign
    if origin is Literal:
        return _choice(((arg.value, arg) if isinstance(arg, Enum) else (arg, arg) for arg in args), annotation, at)
    if origin is Union or origin is UnionType:
        return _union([shape_of(arg, at) for arg in args])
    if args and origin in {list, tuple, dict}:
        return _container(origin, args, annotation, at)
    if annotation is Json or annotation is JsonObject:
        return AnyJson(annotation is JsonObject)
    if isinstance(annotation, NewType):
        return shape_of(annotation.__supertype__, at)
    if isinstance(annotation, type) and origin is None:
        return _class(annotation, at)
    return at.refuse(_unusable(annotation))


def shape_of_class(cls: type, at: ShapePlace) -> ForeignShape | RecordShape | None:
    """Return the shape of *cls* if it is a class with fields, of ours or of a library; else `None`."""
    return _foreign(cls, at) or (RecordShape(cls) if _is_record(cls) else None)


def _is_record(cls: type) -> bool:
    """Whether *cls* is attrs, a dataclass or a `TypedDict`."""
    return is_typeddict(cls) or names_of(cls) is not None


def name_of(annotation: object) -> str:
    """Return *annotation* as text, nearly as it was written."""
    return annotation.__name__ if isinstance(annotation, type) and get_origin(annotation) is None else str(annotation)


def _unusable(annotation: object) -> str:
    name = name_of(annotation)
    bare = name.partition("[")[0].rpartition(".")[2]
    return f"is annotated `{name}`, of which no schema can be made; {_ADVICE.get(bare, _ELSE)}"


def _foreign(annotation: object, at: ShapePlace) -> ForeignShape | None:
    """Return the shape of a type that a library reads as a whole; `None` if it is no such type."""
    try:
        foreign = foreign_type(annotation)
    except Exception as why:  # noqa: BLE001 - the library runs code of the class, which may raise anything
        at.refuse(f"is annotated `{name_of(annotation)}`, of which no schema can be made: {described(why)}")
    if foreign is None:
        return None
    from agentrail.tools.json_schema.validation import schema_problem  # noqa: PLC0415 - only such types need it

    problem = schema_problem(foreign.schema)
    if problem is not None:
        at.refuse(f"is annotated `{name_of(annotation)}`, whose schema will not do: {problem}")
    return ForeignShape(foreign)


def _class(cls: type, at: ShapePlace) -> Shape:
    if _is_record(cls):
        return RecordShape(cls)
    if _is_enum(cls):
        return _choice(((member.value, member) for member in cls), cls, at)
    return at.refuse(_unusable(cls))


def _is_enum(cls: type) -> TypeGuard[type[Enum]]:
    return issubclass(cls, Enum) and not issubclass(cls, Flag)


def _container(origin: object, args: tuple[object, ...], annotation: object, at: ShapePlace) -> Shape:
    if origin is list:
        return ListOf(shape_of(args[0], at))
    if origin is dict:
        if args[0] is not str:
            at.refuse(
                f"is annotated `{name_of(annotation)}`, but the keys of a JSON object are text; use `dict[str, ...]`"
            )
        return DictOf(shape_of(args[1], at))
    if args[-1] is Ellipsis:
        return ListOf(shape_of(args[0], at), tuple)
    return TupleOf(tuple(shape_of(arg, at) for arg in args))


def _choice(pairs: Iterable[tuple[object, object]], annotation: object, at: ShapePlace) -> ChoiceShape:
    choices: list[tuple[Choosable, object]] = []
    for key, member in pairs:
        if not (key is None or type(key) is str or type(key) is int or type(key) is bool):
            at.refuse(f"is annotated `{name_of(annotation)}`, whose {key!r} is neither text nor an integer; use text")
        choices.append((key, member))
    if not choices:
        at.refuse(f"is annotated `{name_of(annotation)}`, which has no values; give it some")
    return _distinct(choices)


def _distinct(pairs: Iterable[tuple[Choosable, object]]) -> ChoiceShape:
    distinct: dict[tuple[type, Choosable], tuple[Choosable, object]] = {}
    for pair in pairs:
        distinct.setdefault((type(pair[0]), pair[0]), pair)
    return ChoiceShape(tuple(distinct.values()))


def _union(members: list[Shape]) -> Shape:
    """Return the shape of a union of *members*.

    If all are choices or `None`, it is one choice with all their values.
    """
    pairs: list[tuple[Choosable, object]] = []
    for member in members:
        if isinstance(member, ChoiceShape):
            pairs.extend(member.pairs)
        elif member == NOTHING:
            pairs.append((None, None))
        else:
            return OneOf(tuple(members))
    return _distinct(pairs)


def _bounded(annotation: object, notes: tuple[object, ...], at: ShapePlace) -> Shape:
    description: str | None = None
    bounds: list[Bound] = []
    foreign: list[object] = []
    for note in notes:
        if isinstance(note, str):
            description = note
        elif isinstance(note, Range | Length | Pattern):
            flaw = note.flaw()
            if flaw is not None:
                at.refuse(f"is bound by `{note!r}`, which {flaw}")
            bounds.append(note)
        elif is_foreign_note(note):
            foreign.append(note)
        elif not isinstance(note, Privacy):  # a class of ours, such as `Todo`, has bounds on its texts
            at.refuse(f"is annotated with `{note!r}`, which nothing would check; use a text, Range, Length or Pattern")
    shape = _noted(annotation, foreign, at) if foreign else shape_of(annotation, at)
    return shape if foreign and not bounds and description is None else Bounded(shape, tuple(bounds), description)


def _noted(annotation: object, notes: list[object], at: ShapePlace) -> Shape:
    """Return the shape of *annotation* with *notes* of a library, which must be able to read it."""
    shape = _foreign(cast("object", Annotated[(annotation, *notes)]), at)
    if shape is None:
        at.refuse(
            f"is annotated with `{notes[0]!r}`, but `{name_of(annotation)}` is no type for that library; "
            "use Range, Length or Pattern"
        )
    return shape

"""Types of pydantic and msgspec as arguments: described and read by their own libraries, and as strictly as others."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Generic, Literal, NewType, TypedDict, TypeVar, cast
from uuid import UUID

import attrs
import msgspec
import pydantic.dataclasses
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    PositiveInt,
    RootModel,
    StringConstraints,
    field_validator,
    model_validator,
)
from typing_extensions import TypeAliasType

from agentrail.errors import BadTool
from agentrail.models import Json
from agentrail.tools import Err, Length, Range, ToolContext, ok, tool
from agentrail.tools.annotations import AnnotationSite
from agentrail.tools.argument_form import form_of_type
from agentrail.tools.json_schema.validation import schema_validator
from agentrail.values.personal import Personal
from tests.each_case import each_case
from tests.kit import freeze, freeze_object, thaw
from tests.tools.kinds import Point, UnfitError, read, tool_of
from tests.tools.schemas import VALUES

T = TypeVar("T")


class Color(Enum):
    RED = "red"


class Cat(BaseModel):
    """A cat."""

    kind: Literal["cat"] = "cat"
    lives: Annotated[int, Field(ge=1, le=9, description="how many are left")] = 9


class Dog(BaseModel):
    kind: Literal["dog"]
    name: Annotated[str, StringConstraints(pattern=r"^\w+$", max_length=10)]


class Page(BaseModel, Generic[T]):
    items: list[T]
    next: int | None = None


class Names(RootModel[list[str]]):
    pass


class Node(BaseModel):
    value: int
    children: list[Node] = []


class Aliased(BaseModel):
    model_config = ConfigDict(extra="forbid")

    first_name: str = Field(alias="firstName")


class Rich(BaseModel):
    day: dt.date
    at: dt.datetime
    price: Decimal
    id: UUID
    color: Color
    pair: tuple[int, str]
    some: set[int]
    raw: bytes
    by_number: dict[int, str]


@pydantic.dataclasses.dataclass
class Checked:
    size: PositiveInt


class Tea(msgspec.Struct, tag=True):
    """Tea."""

    grams: Annotated[int, msgspec.Meta(ge=1, description="how much")]


class Coffee(msgspec.Struct, tag=True, rename="camel", forbid_unknown_fields=True):
    is_black: bool
    at: dt.date | None = None


@attrs.frozen
class Owner:
    """Ours, with one of theirs inside."""

    cat: Cat
    drinks: list[Tea | Coffee] = attrs.field(factory=list)


@dataclass
class Room:
    cats: list[Cat]


class Place(TypedDict):
    cat: Cat


Pet = Annotated[Cat | Dog, Field(discriminator="kind")]
Animal = TypeAliasType("Animal", Cat | Dog)
Age = NewType("Age", PositiveInt)  # pyright: ignore[reportGeneralTypeIssues]  # at run time it is one


def rounded(number: int) -> int:
    return number + number % 2


EvenNumber = Annotated[int, AfterValidator(rounded)]

RICH = {
    "day": "2026-01-02",
    "at": "2026-01-02T03:04:05Z",
    "price": "1.20",
    "id": "00000000-0000-0000-0000-000000000001",
    "color": "red",
    "pair": [1, "a"],
    "some": [1, 2],
    "raw": "abc",
    "by_number": {"1": "a"},
}


FITTING: list[tuple[object, object, object]] = [
    (Cat, {"lives": 3}, Cat(lives=3)),
    (Cat | None, None, None),
    (list[Cat], [{}], [Cat()]),
    (dict[str, Cat], {"tom": {}}, {"tom": Cat()}),
    (Cat | Dog, {"kind": "dog", "name": "rex"}, Dog(kind="dog", name="rex")),
    (Pet, {"kind": "dog", "name": "rex"}, Dog(kind="dog", name="rex")),
    (list[Pet], [{"kind": "cat"}], [Cat()]),
    (Animal, {"kind": "cat"}, Cat()),
    (Page[Cat], {"items": [{}]}, Page[Cat](items=[Cat()])),
    (Names, ["tom"], Names(["tom"])),
    (Node, {"value": 1, "children": [{"value": 2}]}, Node(value=1, children=[Node(value=2)])),
    (Aliased, {"firstName": "tom"}, Aliased(firstName="tom")),
    (Checked, {"size": 3}, Checked(3)),
    (Annotated[int, Field(ge=1)], 1, 1),
    (Annotated[float, Field(ge=1)], 1, 1.0),
    (Annotated[Cat | int, "a cat, or how many"], 3, 3),
    (Annotated[dt.date, Field(description="when")], "2026-01-02", dt.date(2026, 1, 2)),
    (Age, 3, 3),
    (EvenNumber, 3, 4),
    (Personal[Cat], {}, Cat()),
    (list[Personal[Cat]], [{}], [Cat()]),
    (Tea, {"type": "Tea", "grams": 3}, Tea(3)),
    (Tea | Coffee, {"type": "Coffee", "isBlack": True}, Coffee(is_black=True)),
    (list[Tea] | None, [{"type": "Tea", "grams": 3}], [Tea(3)]),
    (Annotated[int, msgspec.Meta(ge=1)], 1, 1),
    (Owner, {"cat": {}, "drinks": [{"type": "Tea", "grams": 3}]}, Owner(Cat(), [Tea(3)])),
    (Room, {"cats": [{}]}, Room([Cat()])),
    (Place, {"cat": {}}, {"cat": Cat()}),
    (
        Rich,
        RICH,
        Rich(
            day=dt.date(2026, 1, 2),
            at=dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC),
            price=Decimal("1.20"),
            id=UUID(int=1),
            color=Color.RED,
            pair=(1, "a"),
            some={1, 2},
            raw=b"abc",
            by_number={1: "a"},
        ),
    ),
]


@each_case(FITTING)
def test_json_becomes_an_object_of_the_library(annotation: object, value: object, meant: object) -> None:
    found = read(annotation, value)
    assert (found, type(found)) == (meant, type(meant))
    assert schema_validator(tool_of(annotation).spec.parameters)(freeze_object({"x": value})) is None


HERE = AnnotationSite("probe", "it")


def read_alone(annotation: object, value: object) -> object:
    """Read *value* by the library alone, without a look at the schema."""
    return form_of_type(annotation, HERE).read(freeze(value))


UNFITTING: list[tuple[object, object, str]] = [
    (Cat, {"lives": "3"}, "`lives`: Input should be a valid integer"),
    (Cat, {"lives": 10}, "`lives`: Input should be less than or equal to 9"),
    (Cat, {"lives": True}, "`lives`: Input should be a valid integer"),
    (Cat, [], "Input should be an object"),
    (list[Cat], [{}, {"lives": 0}], "`1.lives`: Input should be greater than or equal to 1"),
    (Pet, {"kind": "fish"}, "Input tag 'fish' found using 'kind' does not match any of the expected tags"),
    (list[Pet], [{"kind": "dog", "name": "a b"}], "`0.dog.name`: String should match pattern"),
    (Page[Cat], {"items": [{"lives": 0}], "next": "1"}, "`items.0.lives`: .*; `next`: Input should be a valid integer"),
    (Names, ["a", 1], "`1`: Input should be a valid string"),
    (Node, {"value": 1, "children": [{}]}, "`children.0.value`: Field required"),
    (Aliased, {"first_name": "tom"}, "`firstName`: Field required; `first_name`: Extra inputs are not permitted"),
    (Checked, {"size": 0}, "`size`: Input should be greater than 0"),
    (Annotated[int, Field(ge=1)], "1", "Input should be a valid integer"),
    (Rich, {**RICH, "at": 0}, "`at`: Input should be a valid datetime"),
    (Rich, {**RICH, "by_number": {"one": "a"}}, r"`by_number\.one\.\[key\]`: Input should be a valid integer"),
    (Tea, {"type": "Tea", "grams": "3"}, r"Expected `int`, got `str` - at `\$.grams`"),
    (Tea | Coffee, {"type": "Milk"}, r"Invalid value 'Milk' - at `\$.type`"),
    (Coffee, {"type": "Coffee", "is_black": True}, "unknown field `is_black`|missing required field `isBlack`"),
    (Owner, {"cat": {"lives": 0}}, "`cat`: `lives`: Input should be greater than or equal to 1"),
]


@each_case(UNFITTING)
def test_wrong_data_is_refused_with_the_place_that_the_library_names(
    annotation: object, value: object, problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        read_alone(annotation, value)
    with pytest.raises(UnfitError):
        read(annotation, value)


def test_many_errors_are_not_all_told() -> None:
    with pytest.raises(ValueError, match=r"`9`: Input should be a valid string; and 90 more$"):
        read_alone(Names, list(range(100)))


DRAWN: list[Any] = [Cat, Pet, list[Cat | Dog], Page[Cat], Names, Node, Aliased, Checked, Rich, Tea | Coffee, Owner, Age]
_FIELDS = st.sampled_from(["kind", "lives", "name", "items", "value", "children", "firstName", "size", "type", "cat"])
_NEAR = st.recursive(
    VALUES | st.sampled_from(["cat", "dog", "Tea", "rex", 3, "3", 3.0]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_FIELDS, inner, max_size=4),
    max_leaves=8,
)


@pytest.mark.long
@given(st.sampled_from(DRAWN), _NEAR)
def test_what_is_read_fits_the_schema(annotation: object, value: Json) -> None:
    frozen = freeze(value)
    try:
        read_alone(annotation, frozen)
    except ValueError:
        return
    assert schema_validator(tool_of(annotation).spec.parameters)(freeze_object({"x": frozen})) is None


@pytest.mark.long
@given(
    st.builds(Page[Cat], items=st.lists(st.builds(Cat)), next=st.integers(-9, 9) | st.none())
    | st.builds(Dog, name=st.from_regex(r"\A[a-z]{1,9}\Z"))
)
def test_what_a_model_writes_is_read_back(value: BaseModel) -> None:
    written = value.model_dump(mode="json")
    assert read(type(value), written) == value


def test_a_class_is_described_once_and_a_description_stands_beside_it() -> None:
    @tool
    async def feed(cat: Cat, other: Cat | None, all: list[Cat | Dog]) -> None:  # noqa: A002, ASYNC124
        """Feed.

        Args:
            cat: the hungry one
        """

    parameters = thaw(feed.spec.parameters)
    assert isinstance(parameters, dict)
    assert sorted(parameters["$defs"]) == ["Cat", "Dog"]
    assert parameters["properties"]["cat"] == {"$ref": "#/$defs/Cat", "description": "the hungry one"}
    assert parameters["properties"]["all"] == {
        "type": "array",
        "items": {"anyOf": [{"$ref": "#/$defs/Cat"}, {"$ref": "#/$defs/Dog"}]},
    }
    assert parameters["$defs"]["Cat"] == {
        "title": "Cat",
        "description": "A cat.",
        "type": "object",
        "properties": {
            "kind": {"const": "cat", "default": "cat", "type": "string"},
            "lives": {"default": 9, "description": "how many are left", "maximum": 9, "minimum": 1, "type": "integer"},
        },
    }


def test_two_classes_of_one_name_stay_apart() -> None:
    def cat_of(kind: type) -> type[BaseModel]:
        class Cat(BaseModel):
            size: kind  # type: ignore[valid-type]

        return Cat

    first, second = cat_of(int), cat_of(str)

    async def compare(a: object, b: object, c: object) -> None:
        """Compare."""

    compare.__annotations__ = {"a": first, "b": second, "c": list[first], "return": None}  # type: ignore[valid-type]
    parameters = thaw(tool(compare).spec.parameters)
    assert isinstance(parameters, dict)
    refs = {name: schema.get("$ref") for name, schema in parameters["properties"].items()}
    assert parameters["properties"]["c"]["items"] == {"$ref": refs["a"]}
    kinds = {f"#/$defs/{name}": schema["properties"]["size"]["type"] for name, schema in parameters["$defs"].items()}
    assert kinds == {refs["a"]: "integer", refs["b"]: "string"}


def test_a_class_inside_one_of_the_same_name_stays_apart() -> None:
    class Outer(BaseModel):
        cat: Cat

    Outer.__name__ = "Cat"

    async def look(x: Outer, page: Page[Cat]) -> None:
        """Look."""

    look.__annotations__ = {"x": Outer, "page": Page[Cat]}
    made = tool(look)
    definitions = thaw(made.spec.parameters["$defs"])
    assert isinstance(definitions, dict)
    assert len(definitions) == 3
    assert schema_validator(made.spec.parameters)(freeze_object({"x": {"cat": {}}, "page": {"items": [{}]}})) is None


def test_a_class_of_pydantic_and_one_of_ours_stay_apart() -> None:
    ours: object = attrs.make_class("Cat", {"tail": attrs.field(type=bool)})

    async def compare(a: Cat, b: object) -> None:
        """Compare."""

    compare.__annotations__ = {"a": Cat, "b": ours, "return": None}
    made = tool(compare)
    definitions = thaw(made.spec.parameters["$defs"])
    assert isinstance(definitions, dict)
    assert [sorted(definitions[name]["properties"]) for name in sorted(definitions)] == [["tail"], ["kind", "lives"]]
    assert schema_validator(made.spec.parameters)(freeze_object({"a": {"lives": 3}, "b": {"tail": True}})) is None


class Unready(BaseModel):
    other: Undefined  # type: ignore[name-defined] # noqa: F821 - the mistake


class Callback(BaseModel):
    call: Callable[[], None]


class Unpatterned(BaseModel):
    text: str = Field(pattern=r"^\p{L}+$")


class Rude(BaseModel):
    @classmethod
    def __get_pydantic_json_schema__(cls, *_: object) -> dict[str, Any]:
        raise RuntimeError("no")


REFUSED: list[tuple[object, str]] = [
    (Unready, "of which no schema can be made: PydanticUserError|PydanticUndefinedAnnotation"),
    (Callback, "of which no schema can be made: PydanticInvalidForJsonSchema"),
    (Unpatterned, "whose schema will not do: "),
    (Rude, "of which no schema can be made: RuntimeError: no"),
    (
        Cat | Point,
        r"`.*Cat \| .*Point`, of which no schema can be made: .*; JSON does not say which of them a value is",
    ),
    (Tea | Cat, "; JSON does not say which of them a value is; give each class a tag"),
    (Annotated[list[Cat], Length(max=1)], r"is bound by `Length\(max=1\)`, which says nothing about this type"),
    (Annotated[int, Field(ge=1), Range(le=3)], r"is bound by `Range\(le=3\)`, which says nothing about this type"),
    (Annotated[Point, Field(description="where")], "`Point` is no type for that library; use Range, Length or Pattern"),
    (Annotated[str, Field(), object()], "is annotated with `<object"),
    (type("Loose", (msgspec.Struct,), {"__annotations__": {"it": object()}}), "no schema can be made"),
]


@pytest.mark.parametrize(("annotation", "problem"), REFUSED, ids=range(len(REFUSED)))
def test_what_cannot_be_described_is_refused_where_it_is_written(annotation: object, problem: str) -> None:
    with pytest.raises(BadTool, match=problem):
        tool_of(annotation)


def test_a_field_as_default_is_refused_because_it_would_be_the_value() -> None:
    async def count(to: int) -> None:  # noqa: ASYNC124
        """Count."""

    count.__defaults__ = (Field(ge=1),)
    with pytest.raises(
        BadTool,
        match=r"its parameter `to` has the default `.*`, which is no value; write `Annotated\[..., FieldInfo\]`",
    ):
        tool(count)


class UnkindError(Exception):
    def __str__(self) -> str:
        raise RuntimeError


class Hostile(BaseModel):
    how: str

    @field_validator("how")
    @classmethod
    def _raise(cls, how: str) -> str:
        if how == "odd error":
            raise UnkindError
        if how == "odd value error":
            raise type("Odd", (ValueError, UnkindError), {})
        if how == "assert":
            raise AssertionError("no, by assertion")
        if how == "runtime":
            raise RuntimeError("no, at run time")
        return how

    @model_validator(mode="wrap")
    @classmethod
    def _other(cls, value: object, handler: ModelWrapValidatorHandler[Hostile]) -> Hostile:
        made = handler(value)
        return cast("Hostile", "another") if made.how == "another" else made


HOSTILE = {
    "odd error": "`x`: it cannot even be shown",
    "odd value error": "`x`: ",
    "assert": "`x`: `how`: Assertion failed, no, by assertion",
    "runtime": "`x`: no, at run time",
    "another": "`x`: the validators of `Hostile` returned a `str`",
}


@pytest.mark.parametrize("how", HOSTILE)
async def test_a_validator_may_raise_or_return_anything(how: str) -> None:
    @tool
    async def use(x: Hostile) -> str:  # noqa: ASYNC124
        """Use."""
        return x.how

    result = await use.execute(freeze_object({"x": {"how": how}}), ToolContext())
    assert isinstance(result, Err)
    (part,) = result.content
    assert getattr(part, "text", "").startswith(f"these arguments do not fit `use`: {HOSTILE[how]}")
    assert await use.execute(freeze_object({"x": {"how": "well"}}), ToolContext()) == ok("well")


@pytest.mark.long
def test_pydantic_is_not_imported_for_types_of_others() -> None:
    code = """
import sys
from dataclasses import dataclass
import attrs, msgspec
from agentrail.tools import tool
from agentrail.tools.answer_forms import form_of

@attrs.frozen
class A:
    x: int

@dataclass
class D:
    a: A

class S(msgspec.Struct):
    x: int

@tool
async def use(a: A, d: D | None, s: list[S]) -> None:
    '''Use.'''

for cls in (A, D, S):
    form_of(cls)
print([name for name in ("pydantic", "annotated_types") if name in sys.modules])
"""
    ran = subprocess.run([sys.executable, "-I", "-c", code], check=True, capture_output=True, text=True)  # noqa: S603
    assert ran.stdout == "[]\n"

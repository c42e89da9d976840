"""Makes sample arguments for a tool from its JSON Schema: smallest, largest and odd values of each type."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Final, cast

from agentrail.tools import validator_for
from agentrail.values.json import Json, JsonObject, freeze_object
from agentrail.values.tools import ToolSpec

ROWS: Final = 24
"""How many sets of arguments are made for one tool at most."""

DEPTH: Final = 4
"""How many levels of a nested schema are followed; deeper values are `None`."""

TEXTS: Final = ("a.txt", "a", "", "-x", "../a", "a b\n", "a\0b", "(", "**", "$(id)", "ü 漢字 🙂", "x" * 2000)
NUMBERS: Final = (1, 0, -1, 2**31, 2**53)

Schema = Mapping[str, object]


def arguments_for(spec: ToolSpec) -> tuple[JsonObject, ...]:
    """Return sets of arguments that fit the schema of *spec*, at most `ROWS`; an empty tuple if none was found."""
    return tuple(islice(_fitting(spec), ROWS))


def _fitting(spec: ToolSpec) -> Iterator[JsonObject]:
    fits = validator_for(spec)
    for made in _objects(spec.parameters, spec.parameters, 0):
        args = freeze_object(cast("Mapping[str, Json]", made))
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
            return tuple(chain.from_iterable(_samples(one, root, depth + 1) for one in choices))
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
    """Return objects in pairs: one with the required properties, one with all; each pair uses other sample values."""
    properties = cast("Mapping[str, Schema]", schema.get("properties", {}))
    required = cast("Sequence[str]", schema.get("required", ()))
    found = {name: _samples(one, root, depth + 1) or (None,) for name, one in properties.items()}
    most = max((len(values) for values in found.values()), default=1)
    made: list[object] = []
    for number in range(most):
        whole = {name: values[number % len(values)] for name, values in found.items()}
        made += [{name: whole[name] for name in required if name in whole}, whole]
    return made


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

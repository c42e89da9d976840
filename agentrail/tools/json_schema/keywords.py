"""The keywords of JSON Schema that contain sub-schemas, such as `items` and `anyOf`: a function for each.

For `unevaluatedItems` and `unevaluatedProperties`, the parts that other keywords have evaluated are computed again. The
library jsonschema does the same, and the tests compare our verdicts with its.

The keywords of JSON Schema without sub-schemas, such as `minimum`: the JSON types of each, and its check.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Mapping, Sequence, Sized
from fractions import Fraction
from typing import Final, TypeAlias, cast

from agentrail.tools.json_schema.nodes import (
    KINDS,
    MAX_NESTED,
    Apply,
    Check,
    CheckFunction,
    Node,
    SchemaFault,
    ValuePath,
)
from agentrail.tools.json_schema.regex import Regex
from agentrail.values.json import Json
from agentrail.values.step_budget import Meter, TooManyStepsError

_SAME: Final = ("allOf", "anyOf", "oneOf")


def _object(instance: Json) -> Mapping[str, Json]:
    return cast("Mapping[str, Json]", instance)


def _array(instance: Json) -> Sequence[Json]:
    return cast("Sequence[Json]", instance)


def _properties(check: Check, node: Node, instance: Json, path: ValuePath, faults: list[SchemaFault]) -> None:
    there, properties = _object(instance), node.named["properties"]
    names = properties if len(properties) < len(there) else there
    check.meter.spend(len(names))
    for name in names:
        if name in properties and name in there:
            check.apply(properties[name], there[name], (path, name), faults)


def _pattern_properties(check: Check, node: Node, instance: Json, path: ValuePath, faults: list[SchemaFault]) -> None:
    for expression, child in node.patterns:
        for name, item in _object(instance).items():
            if expression.found_in(name, check.meter):
                check.apply(child, item, (path, name), faults)


def _additional_properties(
    check: Check, node: Node, instance: Json, path: ValuePath, faults: list[SchemaFault]
) -> None:
    there, properties = _object(instance), node.named.get("properties", {})
    check.meter.spend(len(there))
    extra = [
        name
        for name in there
        if name not in properties and not any(pattern.found_in(name, check.meter) for pattern, _ in node.patterns)
    ]
    if extra and node.schema["additionalProperties"] is False:
        faults.append(SchemaFault(path, "additionalProperties", instance, node.schema, names=extra))
        return
    child = node.children["additionalProperties"]
    for name in extra:
        check.apply(child, there[name], (path, name), faults)


def _property_names(check: Check, node: Node, instance: Json, path: ValuePath, faults: list[SchemaFault]) -> None:
    for name in _object(instance):
        check.apply(node.children["propertyNames"], name, path, faults)


def _dependent_schemas(check: Check, node: Node, instance: Json, path: ValuePath, faults: list[SchemaFault]) -> None:
    children = node.named["dependentSchemas"]
    check.meter.spend(len(children))
    for name, child in children.items():
        if name in _object(instance):
            check.apply(child, instance, path, faults)


def _prefix_items(check: Check, node: Node, instance: Json, path: ValuePath, faults: list[SchemaFault]) -> None:
    for place, (child, item) in enumerate(zip(node.lists["prefixItems"], _array(instance), strict=False)):
        check.apply(child, item, (path, place), faults)


def _items(check: Check, node: Node, instance: Json, path: ValuePath, faults: list[SchemaFault]) -> None:
    items, before = _array(instance), len(node.lists.get("prefixItems", ()))
    if node.schema["items"] is False:
        if len(items) > before:
            faults.append(SchemaFault(path, "items", instance, node.schema))
        return
    child = node.children["items"]
    for place in range(before, len(items)):
        check.apply(child, items[place], (path, place), faults)


def _contains(check: Check, node: Node, instance: Json, path: ValuePath, faults: list[SchemaFault]) -> None:
    child = node.children["contains"]
    matches = 0
    for item in _array(instance):
        matches += check.fits(child, item)
    most = node.schema.get("maxContains")
    if most is not None and matches > cast("int", most):
        faults.append(SchemaFault(path, "maxContains", instance, node.schema))
    elif matches < cast("int", node.schema.get("minContains", 1)):
        faults.append(SchemaFault(path, "contains", instance, node.schema))


def _all_of(check: Check, node: Node, instance: Json, path: ValuePath, faults: list[SchemaFault]) -> None:
    for child in node.lists["allOf"]:
        check.apply(child, instance, path, faults)


def _any_of(check: Check, node: Node, instance: Json, path: ValuePath, faults: list[SchemaFault]) -> None:
    branches: list[list[SchemaFault]] = []
    for child in node.lists["anyOf"]:
        wrong: list[SchemaFault] = []
        check.apply(child, instance, path, wrong)
        if not wrong:
            return
        branches.append(wrong)
    faults.append(SchemaFault(path, "anyOf", instance, node.schema, branches))


def _one_of(check: Check, node: Node, instance: Json, path: ValuePath, faults: list[SchemaFault]) -> None:
    branches: list[list[SchemaFault]] = []
    fitting = 0
    for child in node.lists["oneOf"]:
        wrong: list[SchemaFault] = []
        check.apply(child, instance, path, wrong)
        branches.append(wrong)
        fitting += not wrong
    if fitting != 1:
        faults.append(SchemaFault(path, "oneOf", instance, node.schema, () if fitting else branches))


def _not(check: Check, node: Node, instance: Json, path: ValuePath, faults: list[SchemaFault]) -> None:
    if check.fits(node.children["not"], instance):
        faults.append(SchemaFault(path, "not", instance, node.schema))


def _if(check: Check, node: Node, instance: Json, path: ValuePath, faults: list[SchemaFault]) -> None:
    chosen = node.children.get("then" if check.fits(node.children["if"], instance) else "else")
    if chosen is not None:
        check.apply(chosen, instance, path, faults)


def _ref(check: Check, node: Node, instance: Json, path: ValuePath, faults: list[SchemaFault]) -> None:
    for target in node.refs:
        check.apply(target, instance, path, faults)


def _unevaluated_items(check: Check, node: Node, instance: Json, path: ValuePath, faults: list[SchemaFault]) -> None:
    if len(_evaluated(check, node, instance, _items_of)) < len(_array(instance)):
        faults.append(SchemaFault(path, "unevaluatedItems", instance, node.schema))


def _unevaluated_properties(
    check: Check, node: Node, instance: Json, path: ValuePath, faults: list[SchemaFault]
) -> None:
    if len(_evaluated(check, node, instance, _properties_of)) < len(_object(instance)):
        faults.append(SchemaFault(path, "unevaluatedProperties", instance, node.schema))


def _evaluated(
    check: Check, node: Node, instance: Json, own: Callable[[Check, Node, Json], set[str | int]]
) -> set[str | int]:
    """Return the items or properties of *instance* that *node*, or a schema applied by it, evaluates.

    *own* returns those that one node evaluates by its own keywords.
    """
    evaluated = own(check, node, instance)
    inside = [*node.refs]
    for keyword in _SAME:
        inside += [child for child in node.lists.get(keyword, ()) if check.fits(child, instance)]
    if "if" in node.children:
        fits = check.fits(node.children["if"], instance)
        chosen = ("if", "then") if fits else ("else",)
        inside += [node.children[keyword] for keyword in chosen if keyword in node.children]
    if isinstance(instance, Mapping):
        inside += [child for name, child in node.named.get("dependentSchemas", {}).items() if name in instance]
    check.meter.spend(1 + len(inside))
    check.nested += 1
    if check.nested > MAX_NESTED:
        raise TooManyStepsError
    for child in inside:
        evaluated |= _evaluated(check, child, instance, own)
        check.meter.spend(len(evaluated))
    check.nested -= 1
    return evaluated


def _items_of(check: Check, node: Node, instance: Json) -> set[str | int]:
    items = _array(instance)
    if "items" in node.children:
        return set(range(len(items)))
    evaluated: set[str | int] = set(range(min(len(node.lists.get("prefixItems", ())), len(items))))
    for keyword in ("contains", "unevaluatedItems"):
        child = node.children.get(keyword)
        if child is not None:
            evaluated.update(place for place, item in enumerate(items) if check.fits(child, item))
    return evaluated


def _properties_of(check: Check, node: Node, instance: Json) -> set[str | int]:
    there = _object(instance)
    evaluated: set[str | int] = {*(node.named.get("properties", {}).keys() & there.keys())}
    for keyword in ("additionalProperties", "unevaluatedProperties"):
        child = node.children.get(keyword)
        if child is not None:
            evaluated.update(name for name, item in there.items() if check.fits(child, item))
    for expression, _ in node.patterns:
        evaluated.update(name for name in there if expression.found_in(name, check.meter))
    return evaluated


APPLICATORS: Final[Mapping[str, tuple[tuple[str, ...], Apply]]] = {
    "$ref": (KINDS, _ref),
    "$dynamicRef": (KINDS, _ref),
    "properties": (("object",), _properties),
    "patternProperties": (("object",), _pattern_properties),
    "additionalProperties": (("object",), _additional_properties),
    "propertyNames": (("object",), _property_names),
    "dependentSchemas": (("object",), _dependent_schemas),
    "prefixItems": (("array",), _prefix_items),
    "items": (("array",), _items),
    "contains": (("array",), _contains),
    "allOf": (KINDS, _all_of),
    "anyOf": (KINDS, _any_of),
    "oneOf": (KINDS, _one_of),
    "not": (KINDS, _not),
    "if": (KINDS, _if),
    "unevaluatedItems": (("array",), _unevaluated_items),
    "unevaluatedProperties": (("object",), _unevaluated_properties),
}
"""By keyword: the JSON types that it applies to, and the function that applies it."""


_Number: TypeAlias = int | float
_Maker: TypeAlias = Callable[[Json, Meter], CheckFunction | None]
"""Function that makes a keyword's check from its value, in counted steps; `None` if such a value checks nothing."""

_NUMBERS: Final = ("integer", "number")
_FRACTION: Final = 50
"""The steps that one exact division counts as."""
_EXPRESSION: Final = 200
"""The steps that compiling the smallest regular expression counts as."""
_WRITTEN: Final = 3
"""The steps that turning one part of a value into text counts as."""


def _comparison(compare: Callable[[_Number, _Number], bool]) -> _Maker:
    def make(value: Json, _: Meter) -> CheckFunction:
        limit = cast("_Number", value)
        return lambda instance, _: compare(cast("_Number", instance), limit)

    return make


def _size_comparison(compare: Callable[[int, int], bool]) -> _Maker:
    def make(value: Json, _: Meter) -> CheckFunction:
        limit = cast("int", value)
        return lambda instance, _: compare(len(cast("Sized", instance)), limit)

    return make


def _multiple(value: Json, _: Meter) -> CheckFunction:
    unit = cast("_Number", value)

    def holds(instance: Json, meter: Meter) -> bool:
        number = cast("_Number", instance)
        if not isinstance(unit, float):
            return not number % unit
        quotient = number / unit
        try:
            return int(quotient) == quotient
        except OverflowError:
            meter.spend(_FRACTION)
            return (Fraction(number) / Fraction(unit)).denominator == 1

    return holds


def _pattern(value: Json, meter: Meter) -> CheckFunction:
    found_in = expression(str(value), meter).found_in
    return lambda instance, meter: found_in(cast("str", instance), meter)


def _among(value: Json, meter: Meter) -> CheckFunction:
    options = frozenset(_key(option, meter) for option in cast("Sequence[Json]", value))
    return lambda instance, meter: _key(instance, meter) in options


def _same_as(value: Json, meter: Meter) -> CheckFunction:
    return _among((value,), meter)


def _unique(value: Json, _: Meter) -> CheckFunction | None:
    def holds(instance: Json, meter: Meter) -> bool:
        items = cast("Sequence[Json]", instance)
        return len({_key(item, meter) for item in items}) == len(items)

    return holds if value else None


def _all_there(value: Json, _: Meter) -> CheckFunction:
    names = cast("Sequence[str]", value)

    def holds(instance: Json, meter: Meter) -> bool:
        meter.spend(len(names))
        return all(name in cast("Mapping[str, Json]", instance) for name in names)

    return holds


def _dependent(value: Json, _: Meter) -> CheckFunction:
    needed = cast("Mapping[str, Sequence[str]]", value)

    def holds(instance: Json, meter: Meter) -> bool:
        there = cast("Mapping[str, Json]", instance)
        meter.spend(len(needed))
        for name, names in needed.items():
            if name in there:
                meter.spend(len(names))
                if not all(other in there for other in names):
                    return False
        return True

    return holds


LEAVES: Final[Mapping[str, tuple[tuple[str, ...], _Maker]]] = {
    "minimum": (_NUMBERS, _comparison(operator.ge)),
    "exclusiveMinimum": (_NUMBERS, _comparison(operator.gt)),
    "maximum": (_NUMBERS, _comparison(operator.le)),
    "exclusiveMaximum": (_NUMBERS, _comparison(operator.lt)),
    "multipleOf": (_NUMBERS, _multiple),
    "minLength": (("string",), _size_comparison(operator.ge)),
    "maxLength": (("string",), _size_comparison(operator.le)),
    "pattern": (("string",), _pattern),
    "minItems": (("array",), _size_comparison(operator.ge)),
    "maxItems": (("array",), _size_comparison(operator.le)),
    "uniqueItems": (("array",), _unique),
    "minProperties": (("object",), _size_comparison(operator.ge)),
    "maxProperties": (("object",), _size_comparison(operator.le)),
    "required": (("object",), _all_there),
    "dependentRequired": (("object",), _dependent),
    "enum": (KINDS, _among),
    "const": (KINDS, _same_as),
}


def expression(pattern: str, meter: Meter) -> Regex:
    """Compile *pattern*; raise `UnusableError` if it cannot be used, `TooManyStepsError` if *meter* runs out."""
    meter.spend(_EXPRESSION + len(pattern))
    regex = Regex(pattern)
    meter.spend(regex.work)
    return regex


def _key(instance: Json, meter: Meter) -> tuple[bool, Json]:
    """Return a hashable key, equal for equal JSON: 1 and 1.0 are equal, 1 and `True` are not."""
    if isinstance(instance, str | int | float) or instance is None:
        meter.spend(1)
        return isinstance(instance, bool), instance
    return True, _text(instance, meter)


def _text(instance: Json, meter: Meter) -> str:
    """Return *instance* as JSON text, equal for equal values."""
    meter.spend(_WRITTEN)
    if isinstance(instance, Mapping):
        pairs = (f"{json.dumps(name)}:{_text(instance[name], meter)}" for name in sorted(instance))
        return f"{{{','.join(pairs)}}}"
    if isinstance(instance, Sequence) and not isinstance(instance, str):
        return f"[{','.join(_text(item, meter) for item in instance)}]"
    if isinstance(instance, float) and instance.is_integer():
        return str(int(instance))
    return json.dumps(instance)

"""Reads a JSON Schema (draft 2020-12) before it is used, and refuses what is none, or may be applied without end.

Nothing is fetched: a reference must lead to a place in the schema. 1.0 is no integer, and `$schema` has no effect.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias, cast

from agentrail.tools.json_schema.explain import clip, short_text, where_text
from agentrail.tools.json_schema.references import ANCHORS, LongUriError, LostReferenceError, References
from agentrail.values.json import Json
from agentrail.values.patterns import UnusableError, count_parts, expression
from agentrail.values.step_budget import Meter

Schema: TypeAlias = Mapping[str, Json]

READY_STEPS: Final = 42_000
"""The most steps that reading a schema may take; a schema that takes more is refused."""
MAX_APPLIED: Final = 5_000
"""The most schemas that may be applied to one value, each counted as often as it is."""

_NODE: Final = 10
"""The steps that reading one schema counts as, and one part of a regular expression."""
_SHOWN: Final = 200
"""The most characters of an `$id` that an error shows."""
_EXPRESSION: Final = 200
"""The steps that a regular expression counts as, beside those for its parts."""

_CHILD: Final = (
    "additionalProperties",
    "contains",
    "contentSchema",
    "else",
    "if",
    "items",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
)
_LIST: Final = ("allOf", "anyOf", "oneOf", "prefixItems")
_NAMED: Final = ("$defs", "definitions", "dependentSchemas", "patternProperties", "properties")
_WITH_SCHEMAS: Final = frozenset({*_CHILD, *_LIST, *_NAMED})
"""Keywords whose values are schemas, or have some in them."""
_REFS: Final = ("$ref", "$dynamicRef")
_SAME: Final = frozenset({"allOf", "anyOf", "dependentSchemas", "else", "if", "not", "oneOf", "then"})
"""Keywords that apply their schemas to the value itself, not to a part of it."""
_KINDS: Final = ("string", "integer", "number", "boolean", "null", "array", "object")

_Based: TypeAlias = tuple[Schema, str]
"""A schema, with the URI against which its references are resolved."""


def _is_schema(value: Json) -> bool:
    return isinstance(value, bool | Mapping)


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: Json) -> bool:
    return _is_number(value) and cast("float", value) >= 0 and not cast("float", value) % 1


def _is_positive(value: Json) -> bool:
    return _is_number(value) and cast("float", value) > 0


def _is_text(value: Json) -> bool:
    return isinstance(value, str)


def _is_flag(value: Json) -> bool:
    return isinstance(value, bool)


def _are_texts(value: Json) -> bool:
    return isinstance(value, list) and all(map(_is_text, value)) and len({*map(str, value)}) == len(value)


def _are_types(value: Json) -> bool:
    names = [value] if isinstance(value, str) else value
    return isinstance(names, list) and bool(names) and _are_texts(names) and all(name in _KINDS for name in names)


def _are_named(fits: Callable[[Json], bool]) -> Callable[[Json], bool]:
    return lambda value: isinstance(value, Mapping) and all(map(fits, value.values()))


def _is_list(value: Json) -> bool:
    return isinstance(value, list)


def _is_dependency(value: Json) -> bool:
    return _is_schema(value) or _are_texts(value)


def _are_schemas(value: Json) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_schema, value))


def _matches(pattern: str) -> Callable[[Json], bool]:
    return lambda value: isinstance(value, str) and re.search(pattern, value) is not None


_TEXTS: Final = "a list of texts, none of them twice"
FORMS: Final[Mapping[str, tuple[str, Callable[[Json], bool]]]] = {
    keyword: (must_be, holds)
    for must_be, holds, keywords in (
        ("a schema", _is_schema, _CHILD),
        ("a list of schemas", _are_schemas, _LIST),
        ("an object of schemas", _are_named(_is_schema), _NAMED),
        ("a number", _is_number, ("maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum")),
        ("a number above 0", _is_positive, ("multipleOf",)),
        ("a whole number", _is_count, ("maxLength", "minLength", "maxItems", "minItems", "maxProperties")),
        ("a whole number", _is_count, ("minProperties", "maxContains", "minContains")),
        ("true or false", _is_flag, ("uniqueItems", "deprecated", "readOnly", "writeOnly")),
        ("text", _is_text, ("title", "description", "$comment", "format", "pattern", "contentEncoding")),
        ("text", _is_text, ("contentMediaType", "$schema", *_REFS, "$recursiveRef")),
        (_TEXTS, _are_texts, ("required",)),
        ("a name", _matches("^[A-Za-z_][-A-Za-z0-9._]*$"), (*ANCHORS, "$recursiveAnchor")),
        ("a URI without a fragment", _matches("^[^#]*#?$"), ("$id",)),
        ("a list", _is_list, ("enum", "examples")),
        ("an object of true or false", _are_named(_is_flag), ("$vocabulary",)),
        (f"an object of {_TEXTS}", _are_named(_are_texts), ("dependentRequired",)),
        ("schemas", _are_named(_is_dependency), ("dependencies",)),
        (f"one of {', '.join(_KINDS)}, or a list of them", _are_types, ("type",)),
    )
    for keyword in keywords
}
"""For each keyword, what its value must be, in words, and whether a value is that; schemas inside it are left out.

Together they say what the official meta-schema says.
"""


class FlawError(Exception):
    """A schema cannot be used; the text says why."""


def schema_flaw(value: Json, meter: Meter) -> str | None:
    """Return where *value* is no schema, what was found there and what is wanted; `None` if it is one."""
    todo: list[tuple[Json, tuple[str | int, ...]]] = [(value, ())]
    while todo:
        schema, path = todo.pop()
        if not isinstance(schema, Mapping):
            if isinstance(schema, bool):
                continue
            return _flaw(path, schema, "a schema")
        meter.spend(_NODE + len(schema))
        for keyword, inner in schema.items():
            must_be, holds = FORMS.get(keyword, ("", None))
            if holds is not None and not holds(inner):
                return _flaw((*path, keyword), inner, must_be)
        dependencies = cast("Schema", schema.get("dependencies", {})).items()
        todo += ((inner, (*path, "dependencies", name)) for name, inner in dependencies if isinstance(inner, Mapping))
        todo += ((inner, (*path, *steps)) for steps, inner in _inside(schema))
    return None


def _flaw(path: tuple[str | int, ...], value: Json, must_be: str) -> str:
    return f"{where_text(path) if path else 'it'}: found {short_text(value)}, wanted {must_be}"


class Reading:
    """The schemas inside *top* and the references between them; raise `FlawError` if it cannot be used.

    *top* must be as `json.loads` returns it, without `$schema`: no Python object may occur in it twice. Raise
    `TooManyStepsError` if *meter* runs out.
    """

    __slots__ = ("_meter", "_references", "_same", "_schemas", "targets")

    def __init__(self, top: Schema, meter: Meter) -> None:
        self._meter = meter
        self._references = References(meter)
        self._schemas: dict[int, Schema] = {}
        """Each schema by its `id()`."""
        self._same: dict[int, list[int]] = {}
        """The schemas that each schema applies to the same value, by `id()`."""
        self.targets: dict[int, dict[str, Json]] = {}
        """The targets of references, by keyword, by the `id()` of the schema that has them."""
        todo = self._add(top, "", can_be_named=True)
        has_id = any("$id" in schema for schema in self.schemas if schema is not top)
        while todo:
            schema, base = todo.pop()
            if "$dynamicRef" in schema and has_id:
                raise FlawError("`$dynamicRef` stands in a schema with an `$id` below the top; use `$ref`")
            for keyword in _REFS:
                if keyword in schema:
                    todo += self._follow(schema, keyword, base)
        self._check_applied()

    @property
    def schemas(self) -> Iterable[Schema]:
        """All schemas in it, and itself."""
        return self._schemas.values()

    def _add(self, top: Schema, outer: str, *, can_be_named: bool) -> list[_Based]:
        """Add *top*, around which the base URI is *outer*, and all schemas inside it; return them.

        Their ids and anchors lead to them only if they stand where the dialect has schemas (*can_be_named*).
        """
        added: list[_Based] = []
        todo = [(top, outer)]
        while todo:
            schema, outer = todo.pop()
            if id(schema) in self._schemas:
                continue
            self._meter.spend(_NODE + len(schema))
            if "$schema" in schema:
                raise FlawError("`$schema` stands below the top")
            _replace_false(schema)
            self._check_patterns(schema)
            base = self._base_of(schema, outer)
            self._schemas[id(schema)] = schema
            if can_be_named:
                self._references.add(schema, base, is_top=not added)
            added.append((schema, base))
            same = self._same[id(schema)] = []
            for (keyword, *_), inner in _inside(schema):
                if isinstance(inner, Mapping):
                    todo.append((inner, base))
                    if keyword in _SAME:
                        same.append(id(inner))
        return added

    def _base_of(self, schema: Schema, outer: str) -> str:
        try:
            return self._references.base_of(schema, outer)
        except LongUriError as why:
            raise FlawError(f"its `$id`, `{clip(str(schema['$id']), _SHOWN)}`, {why}") from why

    def _check_patterns(self, schema: Schema) -> None:
        for pattern in (schema.get("pattern"), *cast("Schema", schema.get("patternProperties", {}))):
            if isinstance(pattern, str):
                try:
                    self._meter.spend(_EXPRESSION + _NODE * count_parts(pattern))
                    expression(pattern)
                except UnusableError as why:
                    raise FlawError(f"the pattern `{pattern}` {why}") from why

    def _follow(self, schema: Schema, keyword: str, base: str) -> list[_Based]:
        """Note the target of a reference, and return the schemas in it that are under no known keyword."""
        ref = str(schema[keyword])
        self._meter.spend(_NODE + len(ref))
        try:
            target, base = self._references.find(ref, base)
        except (LostReferenceError, ValueError) as why:
            raise FlawError(f"`{keyword}` leads to `{ref}`, which is not in the schema") from why
        self.targets.setdefault(id(schema), {})[keyword] = target
        if isinstance(target, Mapping) and id(target) in self._schemas:
            self._same[id(schema)].append(id(target))
            return []
        if schema_flaw(target, self._meter) is not None:
            raise FlawError(f"`{keyword}` leads to `{ref}`, which is no schema")
        if not isinstance(target, Mapping):
            return []
        self._same[id(schema)].append(id(target))
        return self._add(target, base, can_be_named=False)

    def _check_applied(self) -> None:
        """Raise `FlawError` if a schema is applied to a value within itself, or too many are applied to one value."""
        applied: dict[int, int] = {}
        for start in self._same:
            path = [(start, iter(self._same[start]))]
            open_ = {start}
            while path and start not in applied:
                key, inner = path[-1]
                following = next((child for child in inner if child not in applied), None)
                if following in open_:
                    raise FlawError("it applies a schema to a value again and again: its references form a ring")
                if following is None:
                    path.pop()
                    open_.discard(key)
                    applied[key] = self._times(key) * sum(applied[child] for child in self._same[key]) + 1
                    if applied[key] > MAX_APPLIED:
                        raise FlawError(f"it applies more than {MAX_APPLIED} schemas to one value; make it simpler")
                else:
                    path.append((following, iter(self._same[following])))
                    open_.add(following)

    def _times(self, depth: int) -> int:
        """Return how often the schemas inside of one are applied: once more to find what they evaluate."""
        schema = self._schemas[depth]
        return 2 if "unevaluatedItems" in schema or "unevaluatedProperties" in schema else 1


def _replace_false(schema: Schema) -> None:
    """Replace each `false` in *schema* by a schema that allows as little: jsonschema says of no `false` where it is."""
    for keyword in ("anyOf", "oneOf", "prefixItems"):
        inner = cast("list[Json]", schema.get(keyword, []))
        inner[:] = [{"enum": []} if child is False else child for child in inner]
    for keyword in ("patternProperties", "properties"):
        named = cast("dict[str, Json]", schema.get(keyword, {}))
        named.update({name: {"enum": []} for name, child in named.items() if child is False})


def _inside(schema: Schema) -> Iterator[tuple[tuple[str | int, ...], Json]]:
    """Yield the schemas directly inside *schema*, each with its place, which begins with its keyword."""
    for keyword, value in schema.items():
        if keyword not in _WITH_SCHEMAS:
            continue
        if keyword in _CHILD:
            yield (keyword,), value
        elif isinstance(value, Mapping):
            for name, inner in value.items():
                yield (keyword, name), inner
        else:
            for index, inner in enumerate(cast("Sequence[Json]", value)):
                yield (keyword, index), inner

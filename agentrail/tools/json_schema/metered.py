"""Checks values by the library jsonschema in counted steps, so that no schema and no value can hold up a session.

The keyword functions of the library are wrapped: each spends steps before it does anything, and once more for each
error. Those that compare values, search patterns or resolve references are replaced, because what they do can grow
faster than what they are given.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from functools import cache
from itertools import islice
from typing import Final, Protocol, TypeAlias, cast

from jsonschema import Draft202012Validator, ValidationError
from jsonschema.validators import extend  # pyright: ignore[reportUnknownVariableType]  # it is untyped
from referencing import Registry

from agentrail.tools.json_schema.dialect import FlawError, Reading, Schema, schema_flaw
from agentrail.tools.json_schema.explain import LOOKED_AT
from agentrail.values.json import Json
from agentrail.values.patterns import expression
from agentrail.values.step_budget import Meter, TooManyStepsError

MAX_NESTED: Final = 240
"""The most keywords applied inside each other; more raise `TooManyStepsError`.

JSON has at most 64 levels (`MAX_DEPTH`), so each level may take three.
"""

_KEYWORD: Final = 3
"""The steps that looking at one keyword counts as."""
_DEEP: Final = 8
"""How many keywords inside each other count as one step more: what is found passes through each of them."""
_APPLY: Final = 6
"""The steps that applying one schema counts as."""
_CHOOSE: Final = 14
"""The steps that applying one of several schemas counts as, or one whose verdict alone is wanted: that takes longer."""
_ERROR: Final = 4
"""The steps that one error counts as, at each keyword that passes it on."""
_PART: Final = 3
"""The steps that copying a list or an object counts as, beside those for its parts."""
_WRITTEN: Final = 4
"""The steps that turning one part of a value into text counts as."""

_SEVERAL: Final = ("allOf", "anyOf", "oneOf")
_OF_VALUE: Final = frozenset({"contains", "items", "prefixItems", "propertyNames"})
"""Keywords that apply a schema to each part of a value."""
_OF_SCHEMA: Final = frozenset({*_SEVERAL, "dependentRequired", "dependentSchemas"})
"""Keywords that look at each part of what the schema says."""


class _Library(Protocol):
    """The interface of jsonschema's validators that keyword functions use; its types lack `descend`."""

    def __init__(self, schema: Schema, *, registry: Registry[Json]) -> None: ...
    def iter_errors(self, instance: Json) -> Iterator[ValidationError]: ...
    def descend(
        self, instance: Json, schema: Json, path: str | int | None = None, schema_path: str | int | None = None
    ) -> Iterator[ValidationError]: ...


_Keyword: TypeAlias = Callable[[_Library, Json, Json, Schema], "Iterable[ValidationError] | None"]


class ReadySchema:
    """A schema that was read, ready for checks."""

    __slots__ = ("choices", "library", "targets")

    def __init__(self, schema: Schema, meter: Meter) -> None:
        setting = {keyword: value for keyword, value in schema.items() if keyword != "$schema"}
        top = cast("Schema", _short_shown(setting, meter))
        reading = Reading(top, meter)
        self.targets = reading.targets
        """The targets of references, by keyword, by the `id()` of the schema that has them."""
        enums = [schema["enum"] for schema in reading.schemas if "enum" in schema]
        self.choices = {id(enum): _keys(enum, meter) for enum in enums}
        """The values that each `enum` allows, as keys, by its `id()`."""
        self.library = _library()(top, registry=Registry())

    def faults(self, instance: Json, meter: Meter) -> list[ValidationError]:
        """Return the faults of *instance*. If steps run out, return those found so far, or raise if there are none."""
        faults: list[ValidationError] = []
        token = _RUN.set(_Run(meter, self))
        try:
            faults.extend(islice(self.library.iter_errors(_short_shown(instance, meter)), LOOKED_AT))
        except (TooManyStepsError, RecursionError):
            if not faults:
                raise
        finally:
            _RUN.reset(token)
        return faults


def make_ready(schema: Json, meter: Meter) -> ReadySchema:
    """Make *schema* ready; raise `FlawError` if it cannot be used, `TooManyStepsError` if that takes too many steps."""
    flaw = schema_flaw(schema, meter)
    if flaw is not None:
        raise FlawError(flaw)
    return ReadySchema(cast("Schema", schema), meter)


class _Run:
    """One check: its schema, and the steps that are left."""

    __slots__ = ("meter", "nested", "schema")

    def __init__(self, meter: Meter, schema: ReadySchema) -> None:
        self.meter = meter
        self.schema = schema
        self.nested = 0
        """How many keywords are applied inside each other."""


_RUN: Final[ContextVar[_Run]] = ContextVar("run of a check")
"""The check that runs: the keyword functions of the library have no place for it."""


# Values whose text is short: the library puts them into messages, which nobody reads


class _ShownObject(dict[str, Json]):
    def __repr__(self) -> str:
        return "an object"


class _ShownList(list[Json]):
    def __repr__(self) -> str:
        return "a list"


class _ShownText(str):
    __slots__ = ()

    def __repr__(self) -> str:
        return "a text"


def _short_shown(value: Json, meter: Meter) -> Json:
    if isinstance(value, str):
        return _ShownText(value)
    if isinstance(value, dict):  # not `Mapping`, which takes ten times as long to ask for
        meter.spend(_PART + len(value))
        return _ShownObject((name, _short_shown(item, meter)) for name, item in value.items())
    if isinstance(value, list | tuple):
        meter.spend(_PART + len(value))
        return _ShownList(_short_shown(item, meter) for item in value)
    return value


# Keywords


def _metered(keyword: str, check: _Keyword) -> _Keyword:
    def look(library: _Library, setting: Json, instance: Json, schema: Schema) -> Iterator[ValidationError]:
        run = _RUN.get()
        run.meter.spend(_KEYWORD + run.nested // _DEEP)
        if keyword in _OF_VALUE and isinstance(instance, dict | list):
            run.meter.spend((_CHOOSE if keyword == "contains" else _APPLY) * len(instance))
        elif keyword in _OF_SCHEMA:
            run.meter.spend(_CHOOSE * len(cast("Sequence[Json]", setting)))
        elif keyword == "properties" and isinstance(instance, dict):
            run.meter.spend(
                _APPLY * min(len(cast("Schema", setting)), len(instance)) + len(cast("Schema", setting)) // 8
            )
        run.nested += 1
        if run.nested > MAX_NESTED:
            raise TooManyStepsError
        try:
            for error in check(library, setting, instance, schema) or ():
                run.meter.spend(_ERROR)
                yield error
        finally:
            run.nested -= 1

    return look


def _fits(library: _Library, schema: Json, instance: Json) -> bool:
    _RUN.get().meter.spend(_CHOOSE)
    return next(library.descend(instance, schema), None) is None


def _ref(library: _Library, _: Json, instance: Json, schema: Schema) -> Iterator[ValidationError]:
    return library.descend(instance, _RUN.get().schema.targets[id(schema)]["$ref"])


def _dynamic_ref(library: _Library, _: Json, instance: Json, schema: Schema) -> Iterator[ValidationError]:
    return library.descend(instance, _RUN.get().schema.targets[id(schema)]["$dynamicRef"])


def _required(_: _Library, setting: Json, instance: Json, _schema: Schema) -> Iterator[ValidationError]:
    if isinstance(instance, dict):
        names = cast("Sequence[str]", setting)
        _RUN.get().meter.spend(len(names))
        missing = [name for name in names if name not in instance]
        if missing:
            yield ValidationError("", validator_value=missing)


def _is_found(pattern: str, text: str) -> bool:
    return expression(pattern).found_in(text, _RUN.get().meter)


def _pattern(_: _Library, setting: Json, instance: Json, _schema: Schema) -> Iterator[ValidationError]:
    if isinstance(instance, str) and not _is_found(cast("str", setting), instance):
        yield ValidationError("")


def _pattern_properties(library: _Library, setting: Json, instance: Json, _: Schema) -> Iterator[ValidationError]:
    if isinstance(instance, dict):
        for pattern, child in cast("Schema", setting).items():
            for name, item in instance.items():
                if _is_found(pattern, name):
                    yield from library.descend(item, child, path=name, schema_path=pattern)


def _additional_properties(
    library: _Library, setting: Json, instance: Json, schema: Schema
) -> Iterator[ValidationError]:
    if not isinstance(instance, dict):
        return
    meter = _RUN.get().meter
    meter.spend(len(instance))
    properties, patterns = (
        cast("Schema", schema.get("properties", {})),
        cast("Schema", schema.get("patternProperties", {})),
    )
    extra = [
        name
        for name in instance
        if name not in properties and not any(_is_found(pattern, name) for pattern in patterns)
    ]
    if setting is False:
        if extra:
            yield ValidationError("", validator_value=extra)
        return
    for name in extra:
        meter.spend(_APPLY)
        yield from library.descend(instance[name], setting, path=name)


def _enum(_: _Library, setting: Json, instance: Json, _schema: Schema) -> Iterator[ValidationError]:
    run = _RUN.get()
    if _key(instance, run.meter) not in run.schema.choices[id(setting)]:
        yield ValidationError("")


def _const(_: _Library, setting: Json, instance: Json, _schema: Schema) -> Iterator[ValidationError]:
    meter = _RUN.get().meter
    if _key(setting, meter) != _key(instance, meter):
        yield ValidationError("")


def _unique_items(_: _Library, setting: Json, instance: Json, _schema: Schema) -> Iterator[ValidationError]:
    if setting and isinstance(instance, list):
        meter = _RUN.get().meter
        if len({_key(item, meter) for item in instance}) < len(instance):
            yield ValidationError("")


def _keys(values: Json, meter: Meter) -> frozenset[tuple[bool, Json]]:
    return frozenset(_key(value, meter) for value in cast("Sequence[Json]", values))


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


# Parts of a value that no keyword looks at


def _unevaluated_items(library: _Library, setting: Json, instance: Json, schema: Schema) -> Iterator[ValidationError]:
    if isinstance(instance, list):
        rest = {*range(len(instance))} - _evaluated(library, instance, schema, _items_of)
        if not all(_fits(library, setting, instance[index]) for index in rest):
            yield ValidationError("")


def _unevaluated_properties(
    library: _Library, setting: Json, instance: Json, schema: Schema
) -> Iterator[ValidationError]:
    if isinstance(instance, dict):
        rest = instance.keys() - _evaluated(library, instance, schema, _properties_of)
        if not all(_fits(library, setting, instance[name]) for name in rest):
            yield ValidationError("")


_Own: TypeAlias = "Callable[[_Library, Json, Schema], set[str | int]]"
"""Function that returns the parts of a value that a schema evaluates by its own keywords."""


def _evaluated(library: _Library, instance: Json, schema: Json, own: _Own) -> set[str | int]:
    """Return the items or properties of *instance* that *schema*, or a schema applied by it, evaluates."""
    if not isinstance(schema, Mapping):
        return set()
    run = _RUN.get()
    evaluated = own(library, instance, schema)
    inside = [*run.schema.targets.get(id(schema), {}).values()]
    for keyword in _SEVERAL:
        inside += [
            child for child in cast("Sequence[Json]", schema.get(keyword, ())) if _fits(library, child, instance)
        ]
    if "if" in schema:
        chosen = ("if", "then") if _fits(library, schema["if"], instance) else ("else",)
        inside += [schema[keyword] for keyword in chosen if keyword in schema]
    if isinstance(instance, dict):
        dependent = cast("Schema", schema.get("dependentSchemas", {}))
        inside += [child for name, child in dependent.items() if name in instance]
    run.nested += 1
    if run.nested > MAX_NESTED:
        raise TooManyStepsError
    for child in inside:
        evaluated |= _evaluated(library, instance, child, own)
        run.meter.spend(_KEYWORD + len(evaluated) // 8)
    run.nested -= 1
    return evaluated


def _items_of(library: _Library, instance: Json, schema: Schema) -> set[str | int]:
    items = cast("Sequence[Json]", instance)
    _RUN.get().meter.spend(_KEYWORD + len(items) // 8)
    if "items" in schema:
        return {*range(len(items))}
    prefix = cast("Sequence[Json]", schema.get("prefixItems", ()))
    evaluated: set[str | int] = {*range(min(len(prefix), len(items)))}
    for keyword in ("contains", "unevaluatedItems"):
        if keyword in schema:
            evaluated |= {index for index, item in enumerate(items) if _fits(library, schema[keyword], item)}
    return evaluated


def _properties_of(library: _Library, instance: Json, schema: Schema) -> set[str | int]:
    values = cast("Mapping[str, Json]", instance)
    properties = cast("Schema", schema.get("properties", {}))
    _RUN.get().meter.spend(_KEYWORD + min(len(values), len(properties)))
    evaluated: set[str | int] = {*(properties.keys() & values.keys())}
    for keyword in ("additionalProperties", "unevaluatedProperties"):
        if keyword in schema:
            evaluated |= {name for name, item in values.items() if _fits(library, schema[keyword], item)}
    for pattern in cast("Schema", schema.get("patternProperties", {})):
        evaluated |= {name for name in values if _is_found(pattern, name)}
    return evaluated


_OURS: Final[Mapping[str, _Keyword]] = {
    "$ref": _ref,
    "$dynamicRef": _dynamic_ref,
    "additionalProperties": _additional_properties,
    "const": _const,
    "enum": _enum,
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "required": _required,
    "unevaluatedItems": _unevaluated_items,
    "unevaluatedProperties": _unevaluated_properties,
    "uniqueItems": _unique_items,
}


def _is_integer(_: object, value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


@cache
def _library() -> type[_Library]:
    """Return jsonschema's class of validators with all its keyword functions metered."""
    keywords = {**cast("Mapping[str, _Keyword]", Draft202012Validator.VALIDATORS), **_OURS}
    metered = {keyword: _metered(keyword, check) for keyword, check in keywords.items()}
    types = Draft202012Validator.TYPE_CHECKER.redefine("integer", _is_integer)
    return cast("type[_Library]", extend(Draft202012Validator, metered, type_checker=types))  # type: ignore[no-untyped-call]  # it is untyped

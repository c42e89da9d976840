"""The form of arguments and of answers: the JSON Schema that the model gets, and the reader of the JSON that it sends.

Both are made by msgspec from the same types. The reader is strict: only an integer is converted, to a `float`. A class
is called with its fields as keyword arguments. Lists and dicts are new, so a tool may change them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import NoneType
from typing import Final, NoReturn, cast

import msgspec

from agentrail.tools.annotations import AnnotationSite, name_of
from agentrail.tools.argument_fields import ArgumentField, json_default
from agentrail.tools.argument_types import APART, CHOICES, ArgumentTypes, HeldJson, Make, definition_of, joined
from agentrail.values.json import Json, JsonObject, canonical, freeze_object, thaw
from agentrail.values.untrusted_values import described, message_of
from agentrail.values.value import Value, learned

_DEFINITIONS: Final = "#/$defs/"
"""The beginning of references to definitions in the same schema."""

_DATA: Final = {"enum", "const", "default", "examples"}
"""Keywords whose values are no schemas."""

_ANYTHING: Final[dict[str, object]] = {CHOICES: ()}
"""Schema of any JSON; msgspec takes an empty one for none at all."""

_LEAVES: Final = frozenset({str, int, float, bool, NoneType})
"""Types of values that have no parts."""


class ArgumentForm(Value, gc=True):
    """The schema of a type, and its reader."""

    schema: JsonObject
    """The JSON Schema, with classes under `$defs`; that of the type itself, if it is a class, is at the top."""
    is_object: bool
    """Whether the type is a class whose values are objects."""
    read: Callable[[object], object]
    """Reader: turns JSON into a value of the type; raises `ValueError`, or what a class raises, if it does not fit."""


class FieldsReader:
    """Reads an object with some fields; one that was pickled makes its types anew, as msgspec's cannot be pickled."""

    __slots__ = ("_at", "_fields", "_reader")

    def __init__(
        self, fields: Sequence[ArgumentField], site: AnnotationSite, reader: Callable[[object], object]
    ) -> None:
        self._fields = tuple(fields)
        self._at = site
        self._reader = reader

    def __call__(self, value: object) -> object:
        """Return the fields in *value*; raise `ValueError`, or what a class raises, if it does not fit."""
        return self._reader(value)

    def __reduce__(self) -> tuple[object, ...]:
        return _reader_of_fields, (self._fields, self._at)


def _reader_of_fields(fields: Sequence[ArgumentField], site: AnnotationSite) -> Callable[[object], object]:
    return form_of_fields(fields, site).read


def form_of_fields(fields: Sequence[ArgumentField], site: AnnotationSite) -> ArgumentForm:
    """Return the form of an object with these *fields*, which is read to a `dict` of those that are given.

    Raise `BadTool` for a plain default, such as `None`, that the annotation of its field does not admit.
    """
    types = ArgumentTypes()
    struct = types.struct_of("arguments", fields, dict)
    form = _form(types, struct, site)
    for field, type_ in zip(fields, types.field_types[struct], strict=True):
        default = json_default(field.default)
        if default is None or isinstance(default, str | int | float):
            try:
                _reader(types, type_, _property(form.schema, field.name))(default)
            except Exception:  # noqa: BLE001 - a user's class may raise anything if the default does not fit
                field.site.refuse(
                    f"is annotated `{name_of(field.annotation)}`, which its default {default!r} does not fit; annotate"
                    " what it may be"
                )
    return form.but(read=FieldsReader(fields, site, form.read))


def form_of_type(annotation: object, site: AnnotationSite) -> ArgumentForm:
    """Return the form of the type *annotation*; raise `BadTool` if it has none."""
    types = ArgumentTypes()
    return _form(types, types.type_of_value(annotation, site), site)


def _form(types: ArgumentTypes, type_: object, site: AnnotationSite) -> ArgumentForm:
    types.learn()
    try:
        schema, definitions = _described(types, type_)
        complete = with_top({**schema, "$defs": definitions})
        del complete["$defs"]
        text = canonical({**complete, "$defs": definitions})
        used = {name: definitions[name] for name in definitions if f'"{_DEFINITIONS}{name}"' in text}
        ready = freeze_object({**complete, "$defs": used} if used else complete)
    except Exception as why:  # noqa: BLE001 - msgspec raises several, and calls hooks of classes of users
        _refuse(types, described(why), site)
    return ArgumentForm(ready, "$ref" in schema and ready.get("type") == "object", _reader(types, type_, ready))


def _refuse(types: ArgumentTypes, problem: str, site: AnnotationSite) -> NoReturn:
    """Raise `BadTool` for the innermost value whose type has no schema, or for the *problem* of all together."""
    for type_, annotation, inner in types.values:
        try:
            _described_with(types, type_, "")
        except Exception as why:  # noqa: BLE001 - as all together
            inner.refuse_type(annotation, _problem_of(why))
    site.refuse(f"has a type of which no schema can be made: {problem}")


def _problem_of(why: Exception) -> str:
    cls: object = why.args[0] if isinstance(why, KeyError) else None
    if isinstance(cls, type):  # msgspec has noted another one by its name
        return f"another class has the name `{cls.__name__}` too, or one that is equal without what is no ASCII"
    return message_of(why) if isinstance(why, TypeError) else described(why)


def _property(schema: JsonObject, name: str) -> JsonObject:
    """Return the schema of the property called *name*, with the definitions that it may refer to."""
    properties = cast("Mapping[str, JsonObject]", schema["properties"])
    return {**properties[name], **({"$defs": schema["$defs"]} if "$defs" in schema else {})}


def with_top(schema: JsonObject) -> dict[str, Json]:
    """Return *schema* with the definition that its top refers to, if it does, in place of the reference."""
    target, definitions = schema.get("$ref"), schema.get("$defs")
    if not isinstance(target, str) or not isinstance(definitions, Mapping):
        return {**schema}
    definition = definitions.get(target.removeprefix(_DEFINITIONS))
    if not isinstance(definition, Mapping):
        return {**schema}
    return {**definition, **{key: item for key, item in schema.items() if key != "$ref"}}


def _described(types: ArgumentTypes, type_: object) -> tuple[JsonObject, dict[str, Json]]:
    """Return the schema of *type_*, and all definitions, those of pydantic among them."""
    schema, definitions, adopted = _described_with(types, type_, "")
    namesakes = [struct for struct in types.structs if definition_of(struct) not in definitions]
    if namesakes:  # a class that msgspec makes itself has the name of a stand-in
        for struct in namesakes:
            types.rename(struct, [name.rpartition(".")[2] for name in definitions])
        schema, definitions, adopted = _described_with(types, type_, "")
    if not definitions.keys().isdisjoint(adopted):  # a class of pydantic has the name of another
        schema, definitions, adopted = _described_with(types, type_, "pydantic.")
    for struct in types.structs:
        name = definition_of(struct)
        definition = definitions.get(name, {})
        if definition.get("title") == name:
            del definition["title"]
        if not definition.get("required", True):
            del definition["required"]
    parts = cast("JsonObject", {"": schema, **definitions, **adopted})
    simple = _simpler_parts(parts)
    return cast("JsonObject", simple.pop("")), simple


def _described_with(
    types: ArgumentTypes, type_: object, prefix: str
) -> tuple[object, dict[str, dict[str, object]], dict[str, object]]:
    """Return the schema of *type_*, the definitions by msgspec and those by pydantic, whose names get the *prefix*."""
    schemas_by_class: dict[type, object] = {object: _ANYTHING}
    adopted: dict[str, object] = {}
    if types.pydantic:
        from agentrail.tools.pydantic_types import schemas_of  # noqa: PLC0415 - it imports pydantic

        schemas, adopted = schemas_of([*types.pydantic.values()], f"{_DEFINITIONS}{prefix}{{model}}")
        schemas_by_class.update(zip(types.pydantic, schemas, strict=True))

    def schema_of(cls: type) -> dict[str, object]:
        if cls not in schemas_by_class:
            problem = f"msgspec, which reads the fields of a `Struct` alone, knows no `{name_of(cls)}`"
            raise TypeError(problem)
        return cast("dict[str, object]", schemas_by_class[cls])

    (schema,), definitions = msgspec.json.schema_components(
        (learned(type_),), schema_hook=schema_of, ref_template=f"{_DEFINITIONS}{{name}}"
    )
    return schema, definitions, {f"{prefix}{name}": definition for name, definition in adopted.items()}


def _simpler(schema: Json) -> Json:
    """Return *schema* in the words that all providers take, and that the quick check knows.

    A union with a discriminator is a plain `anyOf`: its members have tags that exclude each other. A union of bare
    types is a list of types. Choices are in their order, where they are used.
    """
    if isinstance(schema, list | tuple):
        return [_simpler(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    simple = {
        key: item if key in _DATA else _simpler_parts(item) if key == "properties" else _simpler(item)
        for key, item in schema.items()
    }
    simple.pop(APART, None)
    choices = simple.pop(CHOICES, ())
    if choices:
        simple.pop("$ref", None)
        simple["enum"] = choices
    if simple.get("items") is False:  # which says it already, and a refusal would say it twice
        simple.pop("maxItems", None)
    members = simple.get("oneOf", simple.get("anyOf"))
    if isinstance(members, list) and isinstance(simple.get("discriminator"), dict):
        del simple["discriminator"]
        simple.pop("oneOf", None)
        simple["anyOf"] = members
    if isinstance(simple.get("anyOf"), list):
        merged = _merged(cast("list[JsonObject]", simple["anyOf"]))
        if merged:
            del simple["anyOf"]
            simple = {**merged, **simple}
    return simple


def _simpler_parts(schemas: Json) -> dict[str, Json]:
    return {name: _simpler(schema) for name, schema in cast("JsonObject", schemas).items()}


def _merged(members: list[JsonObject]) -> dict[str, Json]:
    """Return *members* of a union as one schema, if all are bare types or choices; else an empty one."""
    kinds = [kind for member in members for kind in _types(member)]
    if all(set(member) == {"type"} for member in members):
        return {"type": cast("Json", joined(kinds))}
    if not all(set(member) == {"type", "enum"} or member == {"type": "null"} for member in members):
        return {}
    choices = [choice for member in members for choice in cast("list[Json]", member.get("enum", [None]))]
    distinct = {canonical(choice): choice for choice in choices}
    return {"type": cast("Json", joined(kinds)), "enum": [*distinct.values()]}


def _types(schema: JsonObject) -> list[Json]:
    named = schema.get("type", [])
    return named if isinstance(named, list) else [named]


def _reader(types: ArgumentTypes, type_: object, schema: JsonObject) -> Callable[[object], object]:
    # `str_keys`, because the keys of JSON are texts, and a struct may have a `dict[int, str]`
    convert = partial(msgspec.convert, type=cast("type[object]", learned(type_)), dec_hook=_hold, str_keys=True)

    def read(value: object) -> object:
        if types.checks_first:
            from agentrail.tools.json_schema.validation import schema_validator  # noqa: PLC0415 - only needed then

            problem = schema_validator(schema)(cast("JsonObject", value))
            if problem is not None:
                raise ValueError(problem)
        try:
            instance = convert(thaw(cast("Json", value)))
        except msgspec.ValidationError as why:
            raise ValueError(str(why)) from why
        return _build(types, instance, "")

    return read


def _hold(cls: type, value: object) -> object:
    """Return the *value* of a type that msgspec does not know: as it is for `object`, which is any JSON."""
    return cls(value) if issubclass(cls, HeldJson) else value


def _build(types: ArgumentTypes, value: object, path: str) -> object:
    """Return *value*, as msgspec has read it, with the objects of classes in place of the stand-ins.

    If a class refuses its values, raise `ValueError` with the *path*; at the top, where the place is empty, raise what
    the class raises.
    """
    kind = type(value)
    make = types.structs.get(kind)
    if make is not None:
        struct = cast("msgspec.Struct", value)
        fields = zip(struct.__struct_encode_fields__, msgspec.structs.astuple(struct), strict=True)
        values = {
            key: item if type(item) in _LEAVES else _build(types, item, f"{path}.{key}")
            for key, item in fields
            if item is not msgspec.UNSET
        }
        return values if make is dict else _call_class(make, values, path)
    if kind is list or kind is tuple:
        parts = enumerate(cast("list[object]", value))
        built = [part if type(part) in _LEAVES else _build(types, part, f"{path}[{index}]") for index, part in parts]
        return built if kind is list else tuple(built)
    if kind is dict:
        pairs = cast("dict[str, object]", value).items()
        return {key: part if type(part) in _LEAVES else _build(types, part, f"{path}.{key}") for key, part in pairs}
    if isinstance(value, HeldJson):
        return _call_class(types.pydantic[type(value)].read, {"value": value.value}, path)
    return value


def _call_class(make: Make, values: Mapping[str, object], path: str) -> object:
    try:
        return make(**values)
    except Exception as why:
        if not path:
            raise
        raise ValueError(f"`{path.removeprefix('.')}`: {message_of(why)}") from why

"""Turns the annotations of a tool or an answer into types of msgspec, which describes and reads them.

Two kinds of classes get a stand-in; `tools.argument_form` makes the object, when msgspec has read the whole value:

* A class of attrs, a dataclass or a `TypedDict` gets a struct with its fields, which refuses unknown keys. msgspec by
  itself ignores these, and attrs' aliases, converters and validators too.
* A type of pydantic gets a class that holds the JSON.

A struct of msgspec is read by msgspec alone. Any other annotation is refused here, when the tool is defined, with its
place and what to write instead.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum, Flag
from types import GenericAlias, NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Final, Literal, NewType, TypeAlias, Union, cast, get_args, get_origin

import msgspec
from typing_extensions import is_typeddict

from agentrail.tools.annotations import AnnotationSite, name_of
from agentrail.tools.argument_fields import MISSING, ArgumentField, fields_of, is_record, json_default, summary_of
from agentrail.tools.bounds import Bound, Length, Pattern, Range
from agentrail.tools.pydantic_detection import is_of_pydantic, is_pydantic_note
from agentrail.tools.unions import bare, metas_of, misread
from agentrail.values.json import Json, JsonObject, canonical, freeze_object
from agentrail.values.personal import Privacy
from agentrail.values.untrusted_values import described, message_of
from agentrail.values.value import learned

if TYPE_CHECKING:  # imported late: few programs have pydantic
    from agentrail.tools.pydantic_types import PydanticType

Make: TypeAlias = Callable[..., object]

CHOICES: Final = "x-choices"
"""Keyword for the values of a `Literal` or an `Enum` in their order, which msgspec sorts; it becomes `enum`."""

APART: Final = "x-default"
"""Keyword for the text of a default, which is taken away again.

`typing` keeps one of two annotations that are equal, and a default of `1` equals one of `True`.
"""

_SCALARS: Final = (str, int, float, bool, NoneType)
_NAMES: Final[Mapping[type, str]] = {str: "string", int: "integer", NoneType: "null"}
_BOUNDED: Final = {Range: (int, float), Length: (str, list, tuple, dict), Pattern: (str,)}
"""The types that each kind of bound is about."""
_FIT_FOR_KEY: Final = re.compile(r"""[^"\\\x00-\x1f]*""")
"""The names that msgspec takes for the keys of a struct."""
_MISSING_OF_ENUM: Final[object] = getattr(Enum._missing_, "__func__", None)  # pyright: ignore[reportPrivateUsage]
_UNFIT_FOR_NAME: Final = re.compile(r"[^a-zA-Z0-9.\-_]")
_UNION_ADVICE: Final = (
    "JSON does not say which of them a value is; give each class a tag, by `msgspec.Struct` with `tag=True` or by a"
    " discriminator of pydantic"
)


class HeldJson:
    """A JSON value that msgspec passes on as it is, for pydantic; each type of pydantic has a subclass."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value


class ArgumentTypes:
    """The types of msgspec for the annotations of one tool or answer."""

    __slots__ = ("_stand_ins", "checks_first", "field_types", "pydantic", "structs", "values")

    def __init__(self) -> None:
        self.structs: dict[type, Make] = {}
        """The stand-ins for classes, and what makes an object of the fields."""
        self.field_types: dict[type, list[object]] = {}
        """The types of the fields of each struct, in order."""
        self.pydantic: dict[type[HeldJson], PydanticType] = {}
        """The stand-ins for types of pydantic."""
        self.checks_first = False
        """Whether a value is checked by the schema before msgspec reads it.

        msgspec would search for a pattern by `re`, which nothing stops, and ask `_missing_` of an `Enum` for a member
        of any value.
        """
        self._stand_ins: dict[type, type] = {}
        self.values: list[tuple[object, object, AnnotationSite]] = []
        """The types of all values that are no scalars, inner ones first, with annotation and place."""

    def struct_of(self, name: str, fields: Iterable[ArgumentField], make: Make, cls: type | None = None) -> type:
        """Return a struct of *fields*, of whose values *make* makes an object: the stand-in of *cls*, if that is given.

        It refuses unknown keys. Its own fields are numbered, because a key of a `TypedDict` may be any text.
        """
        fields = tuple(fields)
        for field in fields:
            if not _FIT_FOR_KEY.fullmatch(field.name):
                field.site.refuse("has a quote, a backslash or a control character in its name; use letters")
        field_sites = [f"f{number}" for number in range(len(fields))]
        struct = msgspec.defstruct(
            self._free_name(name),
            [
                (field_site, object) if field.required else (field_site, object, msgspec.UNSET)
                for field_site, field in zip(field_sites, fields, strict=True)
            ],
            rename=dict(zip(field_sites, (field.name for field in fields), strict=True)),
            forbid_unknown_fields=True,
            kw_only=True,
        )
        self.structs[struct] = make
        if cls is not None:
            struct.__doc__ = summary_of(cls) or None
            self._stand_ins[cls] = struct
        self.field_types[struct] = [self.type_of_value(field.annotation, field.site) for field in fields]
        # set after the struct is known, because a class may contain itself; msgspec looks at them when it is learned
        struct.__annotations__ = {
            field_site: _noted(type_, field)
            for field_site, type_, field in zip(field_sites, self.field_types[struct], fields, strict=True)
        }
        return struct

    def type_of(self, annotation: object, site: AnnotationSite) -> object:
        """Return the type for *annotation*; raise `BadTool` if it has none, with its place *site* in the message."""
        origin, args = get_origin(annotation), get_args(annotation)
        if annotation is None or any(annotation is kind for kind in _SCALARS):
            return annotation
        if is_of_pydantic(annotation):
            return self._type_of_pydantic(annotation, site)
        if origin is Annotated:
            return self._annotated(args[0], args[1:], site)
        if annotation is Json or annotation is JsonObject:
            return dict if annotation is JsonObject else object
        if origin is Literal:
            return _with_choices(annotation, args, annotation, site)
        if origin is Union or origin is UnionType:
            return _union([self.type_of(arg, site) for arg in args], annotation, site)
        if args and origin in {list, tuple, dict}:
            return self._container(annotation, site)
        if isinstance(annotation, NewType):
            return self.type_of(annotation.__supertype__, site)
        if isinstance(annotation, type) and origin is None:
            return self._type_of_class(annotation, site)
        is_struct = isinstance(origin, type) and issubclass(origin, msgspec.Struct)
        return annotation if is_struct else site.refuse_type(annotation)

    def type_of_value(self, annotation: object, site: AnnotationSite) -> object:
        """Return the type for *annotation*, as `type_of` does, which `learn` then looks at."""
        type_ = self.type_of(annotation, site)
        if not any(type_ is kind for kind in _SCALARS):  # which have nothing to learn
            self.values.append((type_, annotation, site))
        return type_

    def learn(self) -> None:
        """Have msgspec learn the types of all values; raise `BadTool` for one that it does not take."""
        for type_, annotation, site in self.values:
            try:
                learned(type_)
            except Exception as why:  # noqa: BLE001 - msgspec raises several, and evaluates annotations of users
                problem = message_of(why).partition(" - type ")[0]
                site.refuse_type(annotation, f"{problem}; {_UNION_ADVICE}" if "union" in problem else problem)

    def rename(self, struct: type, used_names: Iterable[str]) -> None:
        """Give *struct*, a stand-in, a name of its own, none of *used_names*."""
        struct.__name__ = self._free_name(struct.__name__, used_names)

    def _free_name(self, base: str, used_names: Iterable[str] = ()) -> str:
        name, twin, others = base, 1, {*map(definition_of, self.structs), *used_names}
        while name_in_schema(name) in others:
            twin += 1
            name = f"{base}{twin}"
        return name

    def _type_of_pydantic(self, annotation: object, site: AnnotationSite) -> type[HeldJson]:
        from agentrail.tools.json_schema.validation import schema_problem  # noqa: PLC0415 - only such types need it
        from agentrail.tools.pydantic_types import PydanticType, schemas_of  # noqa: PLC0415 - it imports pydantic

        try:
            type_ = PydanticType(annotation)
            (schema,), definitions = schemas_of([type_], "#/$defs/{model}")
        except Exception as why:  # noqa: BLE001 - pydantic runs code of the class, which may raise anything
            site.refuse_type(annotation, described(why))
        problem = schema_problem(freeze_object({**cast("JsonObject", schema), "$defs": definitions}))
        if problem is not None:
            site.refuse(f"is annotated `{name_of(annotation)}`, whose schema will not do: {problem}")
        stand_in = type(name_of(annotation), (HeldJson,), {"__slots__": ()})
        self.pydantic[stand_in] = type_
        return stand_in

    def _annotated(self, annotation: object, notes: tuple[object, ...], site: AnnotationSite) -> object:
        metas: list[msgspec.Meta] = []
        bounds: list[Bound] = []
        foreign: list[object] = []
        for note in notes:
            if isinstance(note, str):
                metas.append(msgspec.Meta(description=note))
            elif isinstance(note, Range | Length | Pattern):
                bounds.append(note)
            elif isinstance(note, msgspec.Meta):
                metas.append(note)
                self.checks_first |= note.pattern is not None
            elif is_pydantic_note(note):
                foreign.append(note)
            elif not isinstance(note, Privacy):  # the marks of a class of ours have no meaning for a tool
                site.refuse(
                    f"is annotated with `{note!r}`, which nothing would check; use a text, Range, Length or Pattern"
                )
        with_notes = _with_notes(annotation, foreign)
        if foreign and not is_of_pydantic(with_notes):
            site.refuse(
                f"is annotated with `{foreign[0]!r}`, but `{name_of(annotation)}` is no type for that library; "
                "use Range, Length or Pattern"
            )
        type_ = self.type_of(with_notes, site)
        if bounds:
            metas.append(self._meta_of(type_, bounds, site))
        return _with_notes(type_, metas)

    def _meta_of(self, type_: object, bounds: list[Bound], site: AnnotationSite) -> msgspec.Meta:
        """Return what *bounds* say of *type_*, for msgspec."""
        base = bare(type_)
        options: dict[str, object] = {}
        for bound in bounds:
            flaw = bound.flaw()
            if flaw is None and base is int and any(limit != int(limit) for limit in _limits(bound)):
                flaw = "has a limit that is no integer"
            if flaw is not None:
                site.refuse(f"is bound by `{bound!r}`, which {flaw}")
            if (get_origin(base) or base) not in _BOUNDED[type(bound)]:
                site.refuse(
                    f"is bound by `{bound!r}`, which says nothing about this type; put it on the type that it is about"
                )
            added = bound.options()
            if not options.keys().isdisjoint(added):
                site.refuse(f"is bound by `{bound!r}`, which something else bounds already; say it once")
            options.update({name: int(limit) for name, limit in added.items()} if base is int else added)
        pattern = options.pop("pattern", None)
        self.checks_first |= pattern is not None
        meta = cast("Callable[..., msgspec.Meta]", msgspec.Meta)
        try:
            return meta(**options, extra_json_schema=None if pattern is None else {"pattern": pattern})
        except (ValueError, OverflowError) as why:
            site.refuse(f"is bound by `{bounds[0]!r}`, which will not do: {why}")

    def _container(self, annotation: object, site: AnnotationSite) -> object:
        origin, args = get_origin(annotation), get_args(annotation)
        if origin is dict and args[0] is not str:
            site.refuse(
                f"is annotated `{name_of(annotation)}`, but the keys of a JSON object are text; use `dict[str, ...]`"
            )
        parts = tuple(arg if arg is Ellipsis else self.type_of(arg, site) for arg in args)
        return GenericAlias(cast("type", origin), parts)

    def _type_of_class(self, cls: type[object], site: AnnotationSite) -> object:
        if issubclass(cls, msgspec.Struct):
            return cls
        if is_record(cls):
            make: Make = dict if is_typeddict(cls) else cls
            return self._stand_ins.get(cls) or self.struct_of(cls.__name__, fields_of(cls, site), make, cls)
        if issubclass(cls, Enum) and not issubclass(cls, Flag):
            self.checks_first |= getattr(cls._missing_, "__func__", None) is not _MISSING_OF_ENUM
            return _with_choices(cls, [member.value for member in cls], cls, site)
        return site.refuse_type(cls)


def definition_of(cls: type) -> str:
    """Return the name that msgspec gives the definition of *cls*, if no other class has it."""
    return name_in_schema(cls.__name__)


def name_in_schema(name: str) -> str:
    """Return *name*, of a class, as msgspec has it in a schema."""
    return _UNFIT_FOR_NAME.sub("_", name)


def _noted(type_: object, field: ArgumentField) -> object:
    """Return *type_*, that of the value of *field*, with the description and the default."""
    default = json_default(field.default)
    is_described = any(meta.description for meta in metas_of(type_))
    meta = msgspec.Meta(
        description=None if is_described else field.description or None,
        extra_json_schema=None if default is MISSING else {"default": default, APART: canonical(default)},
    )
    return _with_notes(type_ if field.required else _either([type_, msgspec.UnsetType]), [meta])


def _with_choices(type_: object, values: Iterable[object], annotation: object, site: AnnotationSite) -> object:
    """Return *type_*, a `Literal` or an enumeration, with the JSON types and the order of its *values*."""
    choices = tuple(values)
    for choice in choices:
        if choice is not None and type(choice) not in {str, int}:
            site.refuse(
                f"is annotated `{name_of(annotation)}`, whose {choice!r} is neither text nor an integer; use text"
            )
    if not choices:
        site.refuse(f"is annotated `{name_of(annotation)}`, which has no values; give it some")
    kinds = [_NAMES[type(choice)] for choice in choices]
    return _with_notes(type_, [msgspec.Meta(extra_json_schema={"type": joined(kinds), CHOICES: choices})])


def joined(kinds: Iterable[object]) -> object:
    """Return *kinds*, names of JSON types, as the keyword `type` has them: one name, or several different ones."""
    distinct = tuple(dict.fromkeys(kinds))
    return distinct[0] if len(distinct) == 1 else distinct


def _union(members: list[object], annotation: object, site: AnnotationSite) -> object:
    if object in members:
        return object
    bases = [*map(bare, members)]
    if len({*bases}) < len(bases):  # msgspec would hold each value to the bounds of all
        site.refuse(f"is annotated `{name_of(annotation)}`, which has a type twice, with other bounds; say it once")
    problem = misread(members)
    if problem is not None:
        site.refuse(f"is annotated `{name_of(annotation)}`, which {problem}")
    return _either(members)


def _either(members: Sequence[object]) -> object:
    return cast("object", Union[tuple(members)])  # noqa: UP007 - `|` takes no list


def _limits(bound: Bound) -> Iterable[float]:
    return bound.options().values() if isinstance(bound, Range) else ()


def _with_notes(type_: object, notes: Sequence[object]) -> object:
    return cast("object", Annotated[(type_, *notes)]) if notes else type_

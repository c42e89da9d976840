"""Reads plugin states and options by the type hints of their classes, strictly, and says which hints can be read."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import Enum, Flag
from functools import cache
from inspect import get_annotations
from types import MappingProxyType, NoneType, UnionType
from typing import Annotated, Final, Literal, NewType, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import attrs
from cattrs import AttributeValidationNote, BaseValidationError, Converter, IterableValidationNote
from cattrs.cols import is_namedtuple, namedtuple_dict_structure_factory  # pyright: ignore[reportUnknownVariableType]

from agentrail.codec.decode_error import MisfitError, shorten, wrong
from agentrail.codec.json_text import frozen
from agentrail.codec.plugin_states import SCALARS, data_of, encode_state, names_in_order
from agentrail.codec.values import FAMILIES, convert, decoder
from agentrail.errors import BadData
from agentrail.values.json import FrozenObject, Json, JsonObject, canonical
from agentrail.values.value import TAG, Value

UNIONS: Final = frozenset[object]({Union, UnionType})
LEAVES: Final = frozenset[object]({None, NoneType, bool, int, float, str, Json, JsonObject})
TUPLES: Final = frozenset[object]({tuple, Sequence, Collection, Iterable})
SETS: Final = frozenset[object]({frozenset, AbstractSet})
TABLES: Final = frozenset[object]({Mapping, MappingProxyType})
_UNREADABLE: Final = "cannot be read back; give a more exact type, or `Json`"
_CHANGING: Final[Mapping[object, str]] = {list: "tuple", set: "frozenset", dict: "Mapping"}
_OURS: Final[Mapping[str, object]] = {"Json": Json, "JsonObject": JsonObject, "Mapping": Mapping, "Sequence": Sequence}
"""Names that a class may use without importing them at run time."""


def check(hint: object, path: str, visited: set[object]) -> None:
    """Raise `MisfitError` if values of type *hint*, at path *path*, cannot be read back; skip classes in *visited*."""
    hint = unwrap_hint(hint)
    cls, origin, inside = class_in(hint), _origin(hint), get_args(hint)
    if origin in UNIONS:
        _check_union(hint, path, visited)
    elif cls is not None and hint not in LEAVES and (issubclass(cls, Enum | Value) or names_in_order(cls) is not None):
        _check_class(cls, path, visited)
    elif origin is tuple and hint is not tuple and Ellipsis not in inside:
        for index, item in enumerate(inside):
            check(item, f"{path}[{index}]", visited)
    elif inside and (origin in TUPLES | SETS or (origin in TABLES and unwrap_hint(inside[0]) is str)):
        check(inside[1 if origin in TABLES else 0], f"{path}[]", visited)
    elif hint not in LEAVES and origin is not Literal:
        hint_name = getattr(hint, "__name__", None) or str(hint)
        instead = f"can change; say `{_CHANGING[origin]}`" if origin in _CHANGING else _UNREADABLE
        raise MisfitError(path, f"is hinted `{hint_name}`, which {instead}")


def _check_class(cls: type[object], path: str, visited: set[object]) -> None:
    if issubclass(cls, Enum):
        if issubclass(cls, Flag) or any(type(member.value) not in SCALARS for member in cls):
            raise MisfitError(path, f"is hinted `{cls.__name__}`, whose members do not each have a plain value")
    elif issubclass(cls, Value):
        try:
            decoder(cls)
        except (NameError, TypeError) as why:
            raise MisfitError(path, f"is hinted `{cls.__name__}`, which cannot be read back: {why}") from None
    elif cls not in visited:
        visited.add(cls)
        for name in names_in_order(cls) or ():
            check(_hint(cls, name, path), f"{path}.{name}", visited)


def _check_union(hint: object, path: str, visited: set[object]) -> None:
    """Raise `MisfitError` if a member of the union cannot be read back, or if JSON cannot tell two members apart."""
    looks: set[object] = set()
    for member in members_of(hint):
        check(member, path, visited)
        if looks & looks_of(member):
            raise MisfitError(path, f"is hinted `{union_name(hint)}`, of which two look alike in JSON")
        looks |= looks_of(member)


def members_of(hint: object) -> list[object]:
    """Return the members of a union, including those of nested unions."""
    members = map(unwrap_hint, get_args(hint))
    return [
        inner for member in members for inner in (members_of(member) if get_origin(member) in UNIONS else (member,))
    ]


def union_name(hint: object) -> str:
    """Return the names of the members of a union, for an error message."""
    return " | ".join(getattr(member, "__name__", str(member)) for member in get_args(hint))


def _origin(hint: object) -> object:
    return cast("object", get_origin(hint)) or hint


def class_in(hint: object) -> type[object] | None:
    """Return the class of *hint*, without its parameters; `None` if *hint* is no class."""
    return cast("type[object]", _origin(hint)) if isinstance(_origin(hint), type) else None


def looks_of(hint: object) -> frozenset[object]:
    """Return how JSON values of type *hint* can be recognised: by Python types, or by the class name of an object."""
    cls = class_in(hint)
    if hint is Json:
        return frozenset({bool, int, float, str, list, dict})
    if _origin(hint) is Literal:
        return frozenset(map(_plain_type, get_args(hint)))
    if cls is not None and issubclass(cls, Enum):
        return frozenset(map(_plain_type, cls))
    if cls in TUPLES | SETS:
        return frozenset({list})
    if hint in LEAVES:
        return frozenset({dict if hint is JsonObject else hint})
    untagged = cls in FAMILIES or (cls is not None and issubclass(cls, Value) and cls.__struct_config__.tag is None)
    return frozenset({dict if cls is None or untagged or names_in_order(cls) is None else cls.__name__})


def _plain_type(value: object) -> type[object]:
    return _plain_type(cast("object", value.value)) if isinstance(value, Enum) else type(value)


def unwrap_hint(hint: object) -> object:
    """Return the hint inside `Annotated`, `NewType`, a type variable or a type alias, or *hint* itself."""
    while True:
        if get_origin(hint) is Annotated:
            hint = cast("object", getattr(hint, "__origin__", object))
        elif isinstance(hint, NewType) and hint not in LEAVES:
            hint = cast("object", hint.__supertype__)
        elif isinstance(hint, TypeVar):
            hint = cast("object", hint.__bound__) or object
        elif type(hint).__name__ == "TypeAliasType":  # a type alias of `typing` or of `typing_extensions`
            hint = cast("object", getattr(hint, "__value__", object))
        else:
            return hint


def readable(hint: object) -> str | None:
    """Return why a state of type *hint* cannot be read back, naming the field; `None` if it can.

    A state is written by the types of its values but read by type hints; this checks, before the first record is
    written, whether the hints suffice.
    """
    try:
        check(hint, "", set())
    except MisfitError as misfit:
        return f"{misfit.subject} {misfit.problem}"
    return None


def hints_of(cls: type[object]) -> Mapping[str, object]:
    """Return the type hints of the fields of *cls*, by argument name; empty if one of them cannot be resolved."""
    aliases = {field.name: field.alias or field.name for field in attrs.fields(cls)} if attrs.has(cls) else {}
    try:
        return {aliases.get(name, name): _hint(cls, name, "") for name in names_in_order(cls) or ()}
    except MisfitError:
        return {}


def _hint(cls: type[object], name: str, path: str) -> object:
    """Return the type hint of a field, resolved in the module of the class that declares the field.

    So a name that is imported only for type checkers fails the fields that use it, and no others.
    """

    def holder() -> None:
        """Carry the annotation: `get_type_hints` only takes an object that has annotations."""

    path = f"{path}.{name}"
    owner = next((owner for owner in cls.__mro__ if name in get_annotations(owner)), None)
    if owner is None:
        raise MisfitError(path, f"of `{cls.__qualname__}` has no type hint")
    holder.__annotations__ = {name: get_annotations(owner)[name]}
    names = vars(sys.modules[owner.__module__]) if owner.__module__ in sys.modules else {}
    try:
        hint = get_type_hints(holder, {**_OURS, **names}, {owner.__name__: owner}, include_extras=True)[name]
    except (NameError, AttributeError, TypeError, SyntaxError) as why:
        problem = f"of `{owner.__qualname__}` has a type hint that cannot be resolved ({why}); import it at run time"
        raise MisfitError(path, problem) from None
    # Cattrs would resolve all hints of the class itself, without the names in `_OURS`
    owner.__annotations__[name] = hint
    return hint


def decode_state(hint: object, data: object) -> object:
    """Return the plugin state or option of type *hint* in *data*, which `data_of` wrote; raise `BadData` if unfit."""
    called = hint.__name__ if isinstance(hint, type) else str(hint)
    try:
        return _structure(hint, data)
    except MisfitError as misfit:
        raise BadData(called, misfit.subject, misfit.problem) from misfit.__cause__
    except RecursionError:
        raise BadData(called, "it", "is nested too deep") from None


def revive(hint: object, state: object) -> object:
    """Convert a plugin state (`Stored` or a value) to the plugin's type *hint*."""
    return decode_state(hint, data_of(state))


def why_lost(hint: object, state: object) -> str | None:
    """Return why *state* would be read back differently as type *hint*, naming the field; `None` if it would not."""
    kind: type = type(state)
    scalars = _scalars_of(kind) if hint is kind else None
    if scalars is not None and all(type(getattr(state, name)) in kinds for name, kinds in scalars):
        return None
    return why_read_otherwise(hint, state, data_of(state))


def why_read_otherwise(hint: object, value: object, data: object) -> str | None:
    """Return why *data*, the stored form of *value*, is read back differently as type *hint*; `None` if it is not."""
    try:
        _check_equal(value, _structure(hint, data), "")
    except MisfitError as misfit:
        return f"{misfit.subject} {misfit.problem}; let its type hint say what it holds"
    except RecursionError:
        return "it is nested too deep; keep less in it"
    return None


@cache
def _scalars_of(cls: type) -> tuple[tuple[str, frozenset[object]], ...] | None:
    """Return the fields of *cls* with their types if all are scalars without a converter; otherwise `None`.

    States of such a class are read back as they are, and so need not be tried.
    """
    if cls in SCALARS:
        return ()
    if attrs.has(cls) and any(field.converter is not None or not field.init for field in attrs.fields(cls)):
        return None
    hints = hints_of(cls)
    names = names_in_order(cls)
    if not names or len(hints) != len(names):
        return None
    fields: list[tuple[str, frozenset[object]]] = []
    for name, hint in zip(names, map(unwrap_hint, hints.values()), strict=True):
        kinds = members_of(hint) if get_origin(hint) in UNIONS else [hint]
        if not all(kind is None or (isinstance(kind, type) and kind in SCALARS) for kind in kinds):
            return None
        fields.append((name, frozenset(NoneType if kind is None else kind for kind in kinds)))
    return tuple(fields)


def _check_equal(state: object, again: object, path: str) -> None:
    """Raise `MisfitError` unless *again*, which was read back, equals *state* in classes and values."""
    kind, kind_again = type(state), type(again)
    names = None if isinstance(state, Enum) else names_in_order(kind)
    if names is not None and kind is kind_again:
        for name in names:
            _check_equal(getattr(state, name), getattr(again, name), f"{path}.{name}")
    elif kind is tuple and kind_again is tuple:
        items, others = cast("tuple[object, ...]", state), cast("tuple[object, ...]", again)
        for index, (item, other) in enumerate(zip(items, others, strict=True)):
            _check_equal(item, other, f"{path}[{index}]")
    elif isinstance(state, Mapping) and isinstance(again, Mapping):
        for key, item in cast("Mapping[object, object]", state).items():
            _check_equal(item, cast("Mapping[object, object]", again)[key], f"{path}[{key!a:.60}]")
    elif kind is not kind_again or state != again:
        raise MisfitError(path, f"is a `{kind.__name__}`, and would come back as a `{kind_again.__name__}`")


def _structure(hint: object, data: object) -> object:
    check(hint, "", set())
    json = frozen(data)
    try:
        value = _CONVERTER.structure(json, cast("type[object]", hint))
    except (MisfitError, RecursionError):
        raise
    except Exception as why:  # noqa: BLE001 - the class of a user may raise anything
        misfit, cause = _misfit(why, json, hint)
        raise misfit from cause
    _check_same(json, encode_state(value), "")
    return value


def _misfit(why: BaseException, value: object, hint: object) -> tuple[MisfitError, BaseException]:
    """Return our error for *why*, which cattrs raised on *value*, and the cause of the error.

    cattrs raises groups, and notes the place of each error in them.
    """
    path = ""
    while isinstance(why, BaseValidationError):
        cls, why = cast("type[object]", getattr(why, "cl", hint)), cast("BaseException", why.exceptions[0])
        notes = (note_ for note_ in getattr(why, "__notes__", ()) if isinstance(note_, _NOTE_CLASSES))
        note = next(notes, None)
        # The message of the exception may contain a secret, so it is only the cause
        if note is None and isinstance(value, Mapping):
            return MisfitError(path, f"is refused by `{cls.__name__}` ({type(why).__name__})"), why
        if note is None:
            return wrong(path, value, cls), why
        is_field = isinstance(note, AttributeValidationNote)
        key = note.name if isinstance(note, AttributeValidationNote) else note.index
        parts = _parts(value, by_name=is_field)
        if key not in parts:
            misfit = wrong(path, value, hint)
            return MisfitError(path, f"lacks `{key}`") if is_field and isinstance(value, Mapping) else misfit, why
        path += f".{key}" if is_field else f"[{key!a:.60}]"
        value, hint = parts[key], note.type
    if isinstance(why, MisfitError):
        why.under(path)
        return why, why
    return wrong(path, value, hint), why


def _parts(value: object, *, by_name: bool) -> Mapping[object, object]:
    if isinstance(value, Mapping):
        return cast("Mapping[object, object]", value)
    return dict(enumerate(cast("tuple[object, ...]", value))) if isinstance(value, tuple) and not by_name else {}


_NOTE_CLASSES: Final = (AttributeValidationNote, IterableValidationNote)


def _check_same(old: Json, new: Json, path: str) -> None:
    """Raise `MisfitError` unless *new*, the JSON of what was read from *old*, equals it except for default fields."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key, item in old.items():
            if key not in new:
                raise MisfitError(path, f"has the key `{shorten(key)}`, which is not known")
            if key == TAG and item != new[key]:
                raise MisfitError(path, f"is another class where a `{new[key]}` is wanted")
            _check_same(item, new[key], f"{path}.{key}")
    elif isinstance(old, tuple) and isinstance(new, list):
        if len(old) != len(new):
            raise MisfitError(path, f"holds {len(old)} things, and {len(new)} would come back")
        if sorted(map(canonical, old)) != sorted(map(canonical, new)):  # the items of a set may be in any order
            for index, (item, other) in enumerate(zip(old, new, strict=True)):
                _check_same(item, other, f"{path}[{index}]")
    elif type(old) is not type(new) and (type(old), type(new)) != (int, float):
        raise wrong(path, old, type(new))
    elif old != new:
        raise MisfitError(path, "would come back as something else")


# How they are read

_CONVERTER: Final = Converter()


def _reader_of(hint: object) -> Callable[[object, object], object]:
    """Return a hook for cattrs that reads each value as type *hint*."""
    return lambda value, _: _CONVERTER.structure(value, cast("type[object]", hint))


def _object(value: object, _: object) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise wrong("", value, dict)
    return cast("Mapping[str, object]", value)


_JSON_KINDS: Final[Mapping[object, type[object]]] = {FrozenObject: dict, tuple: list}
"""The types of the JSON for those of frozen JSON."""


def _union(hint: object) -> Callable[[object, object], object]:
    members = {look: member for member in members_of(hint) for look in looks_of(member)}
    objects = [member for look, member in members.items() if look is dict or isinstance(look, str)]
    if len(objects) == 1:  # it needs no name
        members[dict] = objects[0]

    def read(value: object, _: object) -> object:
        kind = _JSON_KINDS.get(type(value), type(value))
        tag = cast("Mapping[str, object]", value).get(TAG) if kind is dict else None
        looks = (tag, kind, float if kind is int else kind)
        member = next((members[look] for look in looks if look in members), None)
        if member is None and kind is dict:
            path = f".{TAG}"
            raise MisfitError(path, f"names none of `{union_name(hint)}`")
        if member is None:
            raise wrong("", value, union_name(hint))
        return _CONVERTER.structure(value, cast("type[object]", member))

    return read


def _table(hint: object) -> Callable[[object, object], object]:
    reader = _reader_of(dict.__class_getitem__((str, get_args(hint)[1])))
    return lambda value, _: MappingProxyType(cast("dict[str, object]", reader(_object(value, _), dict)))


def _tuple(hint: object) -> Callable[[object, object], object]:
    return _reader_of(tuple.__class_getitem__((get_args(hint)[0], ...)))


def _frozenset(hint: object) -> Callable[[object, object], object]:
    return _reader_of(frozenset.__class_getitem__(get_args(hint)[0]))


def _is_of(origins: Collection[object]) -> Callable[[object], bool]:
    return lambda hint: get_origin(hint) in origins


def _is_wrapped(hint: object) -> bool:
    return unwrap_hint(hint) is not hint


def _inside(hint: object) -> Callable[[object, object], object]:
    return _reader_of(unwrap_hint(hint))


def _number(value: object, _: object) -> object:
    return value if type(value) is int else float(cast("str", value))


def _is_ours(hint: object) -> bool:
    cls = class_in(hint)
    return cls is not None and issubclass(cls, Value)


def _reads() -> None:
    """Register hooks of `_CONVERTER` for types that cattrs does not know; of two that match, the later is used."""
    hook, factory = _CONVERTER.register_structure_hook_func, _CONVERTER.register_structure_hook_factory
    _CONVERTER.register_structure_hook(float, _number)
    hook(lambda hint: hint in (None, NoneType), lambda _, __: None)
    factory(_is_of(UNIONS), _union)
    factory(_is_of(TABLES), _table)
    factory(_is_of(TUPLES - {tuple}), _tuple)
    factory(_is_of({AbstractSet}), _frozenset)
    factory(is_namedtuple, namedtuple_dict_structure_factory)  # pyright: ignore[reportUnknownArgumentType]
    factory(_is_wrapped, _inside)
    hook(lambda hint: hint is Json, lambda value, _: value)
    hook(lambda hint: hint is JsonObject, _object)
    hook(_is_ours, lambda value, hint: convert(hint, value))


_reads()

"""Type hints of plugin states and options: which can be read back, and what their values look like in JSON."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import Enum, Flag
from inspect import get_annotations
from types import MappingProxyType, NoneType, UnionType
from typing import Annotated, Final, Literal, NewType, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import attrs

from agentrail.codec.misfit import MisfitError
from agentrail.codec.states import SCALARS, names_in_order
from agentrail.codec.values import FAMILIES, decoder
from agentrail.values.json import Json, JsonObject
from agentrail.values.value import Value

UNIONS: Final = frozenset[object]({Union, UnionType})
LEAVES: Final = frozenset[object]({None, NoneType, bool, int, float, str, Json, JsonObject})
TUPLES: Final = frozenset[object]({tuple, Sequence, Collection, Iterable})
SETS: Final = frozenset[object]({frozenset, AbstractSet})
TABLES: Final = frozenset[object]({Mapping, MappingProxyType})
_UNREADABLE: Final = "cannot be read back; give a more exact type, or `Json`"
_CHANGING: Final[Mapping[object, str]] = {list: "tuple", set: "frozenset", dict: "Mapping"}
_OURS: Final[Mapping[str, object]] = {"Json": Json, "JsonObject": JsonObject, "Mapping": Mapping, "Sequence": Sequence}
"""Names that a class may use without importing them at run time."""


def check(hint: object, at: str, seen: set[object]) -> None:
    """Raise `MisfitError` if values of type *hint*, at *at*, could not be read back; skip the classes in *seen*."""
    hint = unwrapped(hint)
    cls, origin, inside = class_in(hint), _origin(hint), get_args(hint)
    if origin in UNIONS:
        _check_union(hint, at, seen)
    elif cls is not None and hint not in LEAVES and (issubclass(cls, Enum | Value) or names_in_order(cls) is not None):
        _check_class(cls, at, seen)
    elif origin is tuple and hint is not tuple and Ellipsis not in inside:
        for place, item in enumerate(inside):
            check(item, f"{at}[{place}]", seen)
    elif inside and (origin in TUPLES | SETS or (origin in TABLES and unwrapped(inside[0]) is str)):
        check(inside[1 if origin in TABLES else 0], f"{at}[]", seen)
    elif hint not in LEAVES and origin is not Literal:
        shown = getattr(hint, "__name__", None) or str(hint)
        instead = f"can change; say `{_CHANGING[origin]}`" if origin in _CHANGING else _UNREADABLE
        raise MisfitError(at, f"is hinted `{shown}`, which {instead}")


def _check_class(cls: type[object], at: str, seen: set[object]) -> None:
    if issubclass(cls, Enum):
        if issubclass(cls, Flag) or any(type(member.value) not in SCALARS for member in cls):
            raise MisfitError(at, f"is hinted `{cls.__name__}`, whose members do not each have a plain value")
    elif issubclass(cls, Value):
        try:
            decoder(cls)
        except (NameError, TypeError) as why:
            raise MisfitError(at, f"is hinted `{cls.__name__}`, which cannot be read back: {why}") from None
    elif cls not in seen:
        seen.add(cls)
        for name in names_in_order(cls) or ():
            check(_hint(cls, name, at), f"{at}.{name}", seen)


def _check_union(hint: object, at: str, seen: set[object]) -> None:
    """Raise `MisfitError` if a member could not be read back, or if two of them look alike in JSON."""
    looks: set[object] = set()
    for member in members_of(hint):
        check(member, at, seen)
        if looks & looks_of(member):
            raise MisfitError(at, f"is hinted `{named(hint)}`, of which two look alike in JSON")
        looks |= looks_of(member)


def members_of(hint: object) -> list[object]:
    """Return the members of a union, those of unions in it included."""
    found = map(unwrapped, get_args(hint))
    return [each for member in found for each in (members_of(member) if get_origin(member) in UNIONS else (member,))]


def named(hint: object) -> str:
    """Return the names of the members of a union, for an error."""
    return " | ".join(getattr(member, "__name__", str(member)) for member in get_args(hint))


def _origin(hint: object) -> object:
    return cast("object", get_origin(hint)) or hint


def class_in(hint: object) -> type[object] | None:
    """Return the class that *hint* is, with or without parameters; `None` if it is none."""
    return cast("type[object]", _origin(hint)) if isinstance(_origin(hint), type) else None


def looks_of(hint: object) -> frozenset[object]:
    """Return what the JSON of values of type *hint* looks like: Python types, or the name that objects of it have."""
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


def _plain_type(found: object) -> type[object]:
    return _plain_type(cast("object", found.value)) if isinstance(found, Enum) else type(found)


def unwrapped(hint: object) -> object:
    """Return the hint inside `Annotated`, `NewType`, a type variable or a type alias, or *hint* itself."""
    while True:
        if get_origin(hint) is Annotated:
            hint = cast("object", getattr(hint, "__origin__", object))
        elif isinstance(hint, NewType) and hint not in LEAVES:
            hint = cast("object", hint.__supertype__)
        elif isinstance(hint, TypeVar):
            hint = cast("object", hint.__bound__) or object
        elif type(hint).__name__ == "TypeAliasType":  # of `typing` or of `typing_extensions`
            hint = cast("object", getattr(hint, "__value__", object))
        else:
            return hint


def readable(wanted: object) -> str | None:
    """Say why a state of type *wanted* could not be read back, naming the field, or return `None`.

    A state is written by the types of its values but read by type hints; this checks, before the first record is
    written, whether the hints suffice.
    """
    try:
        check(wanted, "", set())
    except MisfitError as misfit:
        return f"{misfit.place} {misfit.problem}"
    return None


def hints_of(cls: type[object]) -> Mapping[str, object]:
    """Return the type hints of the fields of *cls*, by the names that it is made with; none if one has no meaning."""
    aliases = {each.name: each.alias or each.name for each in attrs.fields(cls)} if attrs.has(cls) else {}
    try:
        return {aliases.get(name, name): _hint(cls, name, "") for name in names_in_order(cls) or ()}
    except MisfitError:
        return {}


def _hint(cls: type[object], name: str, at: str) -> object:
    """Return the type hint of a field, resolved by itself, in the module of the class that declares it.

    So a name that is imported only for type checkers fails the fields that use it, and no others.
    """

    def holder() -> None:
        """Hold the annotation, as `get_type_hints` wants an object that has it."""

    at = f"{at}.{name}"
    owner = next((owner for owner in cls.__mro__ if name in get_annotations(owner)), None)
    if owner is None:
        raise MisfitError(at, f"of `{cls.__qualname__}` has no type hint")
    holder.__annotations__ = {name: get_annotations(owner)[name]}
    known = vars(sys.modules[owner.__module__]) if owner.__module__ in sys.modules else {}
    try:
        hint = get_type_hints(holder, {**_OURS, **known}, {owner.__name__: owner}, include_extras=True)[name]
    except (NameError, AttributeError, TypeError, SyntaxError) as why:
        problem = f"of `{owner.__qualname__}` has a type hint that cannot be resolved ({why}); import it at run time"
        raise MisfitError(at, problem) from None
    owner.__annotations__[name] = hint  # cattrs, which resolves all hints of a class, does not know `_OURS`
    return hint

"""Reads plugin states and options by the type hints of their classes, through cattrs, strictly.

cattrs coerces and ignores. So what it made is written again, and refused if that differs from what was read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from collections.abc import Set as AbstractSet
from enum import Enum
from functools import cache
from types import MappingProxyType, NoneType
from typing import Final, cast, get_args, get_origin

import attrs
from cattrs import AttributeValidationNote, BaseValidationError, Converter, IterableValidationNote
from cattrs.cols import is_namedtuple, namedtuple_dict_structure_factory  # pyright: ignore[reportUnknownVariableType]

from agentrail.codec.misfit import MisfitError, shortened, wrong
from agentrail.codec.states import SCALARS, data_of, names_in_order, written
from agentrail.codec.text import frozen
from agentrail.codec.type_hints import (
    TABLES,
    TUPLES,
    UNIONS,
    check,
    class_in,
    hints_of,
    looks_of,
    members_of,
    named,
    unwrapped,
)
from agentrail.codec.values import converted
from agentrail.errors import BadData
from agentrail.values.json import FrozenObject, Json, JsonObject, canonical
from agentrail.values.value import TAG, Value


def decode_state(wanted: object, data: object) -> object:
    """Make a plugin state or option of type *wanted* from *data*, which `data_of` wrote; or raise `BadData`."""
    called = wanted.__name__ if isinstance(wanted, type) else str(wanted)
    try:
        return _read(wanted, data)
    except MisfitError as misfit:
        raise BadData(called, misfit.place, misfit.problem) from misfit.__cause__
    except RecursionError:
        raise BadData(called, "it", "is nested too deep") from None


def revive(wanted: object, state: object) -> object:
    """Convert a plugin state (`Stored` or a value) to the plugin's type *wanted*."""
    return decode_state(wanted, data_of(state))


def why_lost(wanted: object, state: object) -> str | None:
    """Say why *state* would not come back as it is if it is read as *wanted*, naming the field, or return `None`."""
    kind: type = type(state)
    scalars = _scalars_of(kind) if wanted is kind else None
    if scalars is not None and all(type(getattr(state, name)) in kinds for name, kinds in scalars):
        return None
    return why_read_otherwise(wanted, state, data_of(state))


def why_read_otherwise(wanted: object, value: object, data: object) -> str | None:
    """Say why *data*, as which *value* is stored, is not *value* again if it is read as *wanted*, or return `None`."""
    try:
        _check_equal(value, _read(wanted, data), "")
    except MisfitError as misfit:
        return f"{misfit.place} {misfit.problem}; let its type hint say what it holds"
    except RecursionError:
        return "it is nested too deep; keep less in it"
    return None


@cache
def _scalars_of(cls: type) -> tuple[tuple[str, frozenset[object]], ...] | None:
    """Return the fields of *cls* and their types if all are scalars without a converter, and nothing else is to check.

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
    for name, hint in zip(names, map(unwrapped, hints.values()), strict=True):
        kinds = members_of(hint) if get_origin(hint) in UNIONS else [hint]
        if not all(kind is None or (isinstance(kind, type) and kind in SCALARS) for kind in kinds):
            return None
        fields.append((name, frozenset(NoneType if kind is None else kind for kind in kinds)))
    return tuple(fields)


def _check_equal(state: object, again: object, at: str) -> None:
    """Raise `MisfitError` unless *again*, which was read, is *state*: of the same classes, with the same values."""
    kind, kind_again = type(state), type(again)
    names = None if isinstance(state, Enum) else names_in_order(kind)
    if names is not None and kind is kind_again:
        for name in names:
            _check_equal(getattr(state, name), getattr(again, name), f"{at}.{name}")
    elif kind is tuple and kind_again is tuple:
        items, others = cast("tuple[object, ...]", state), cast("tuple[object, ...]", again)
        for index, (item, other) in enumerate(zip(items, others, strict=True)):
            _check_equal(item, other, f"{at}[{index}]")
    elif isinstance(state, Mapping) and isinstance(again, Mapping):
        for key, item in cast("Mapping[object, object]", state).items():
            _check_equal(item, cast("Mapping[object, object]", again)[key], f"{at}[{key!a:.60}]")
    elif kind is not kind_again or state != again:
        raise MisfitError(at, f"is a `{kind.__name__}`, and would come back as a `{kind_again.__name__}`")


def _read(wanted: object, data: object) -> object:
    check(wanted, "", set())
    given = frozen(data)
    try:
        made = _CONVERTER.structure(given, cast("type[object]", wanted))
    except (MisfitError, RecursionError):
        raise
    except Exception as why:  # noqa: BLE001 - a class of somebody else may raise any
        misfit, cause = _misfit(why, given, wanted)
        raise misfit from cause
    _check_same(given, written(made), "")
    return made


def _misfit(why: BaseException, found: object, hint: object) -> tuple[MisfitError, BaseException]:
    """Return the error for *why*, which cattrs raised when it read *found*, and its cause.

    cattrs raises groups, and notes the place of each error in them.
    """
    at = ""
    while isinstance(why, BaseValidationError):
        cls, why = cast("type[object]", getattr(why, "cl", hint)), cast("BaseException", why.exceptions[0])
        notes = (each for each in getattr(why, "__notes__", ()) if isinstance(each, _PLACES))
        note = next(notes, None)
        if note is None and isinstance(found, Mapping):  # the words of the exception may hold a secret: only the cause
            return MisfitError(at, f"is refused by `{cls.__name__}` ({type(why).__name__})"), why
        if note is None:
            return wrong(at, found, cls), why
        is_field = isinstance(note, AttributeValidationNote)
        key = note.name if isinstance(note, AttributeValidationNote) else note.index
        parts = _parts(found, by_name=is_field)
        if key not in parts:
            misfit = wrong(at, found, hint)
            return MisfitError(at, f"lacks `{key}`") if is_field and isinstance(found, Mapping) else misfit, why
        at += f".{key}" if is_field else f"[{key!a:.60}]"
        found, hint = parts[key], note.type
    if isinstance(why, MisfitError):
        why.under(at)
        return why, why
    return wrong(at, found, hint), why


def _parts(found: object, *, by_name: bool) -> Mapping[object, object]:
    if isinstance(found, Mapping):
        return cast("Mapping[object, object]", found)
    return dict(enumerate(cast("tuple[object, ...]", found))) if isinstance(found, tuple) and not by_name else {}


_PLACES: Final = (AttributeValidationNote, IterableValidationNote)


def _check_same(given: Json, again: Json, at: str) -> None:
    """Raise `MisfitError` unless *again*, what was made of it, is *given*, which may lack fields at their default."""
    if isinstance(given, Mapping) and isinstance(again, Mapping):
        for key, item in given.items():
            if key not in again:
                raise MisfitError(at, f"has the key `{shortened(key)}`, which is not known")
            if key == TAG and item != again[key]:
                raise MisfitError(at, f"is another class where a `{again[key]}` is wanted")
            _check_same(item, again[key], f"{at}.{key}")
    elif isinstance(given, tuple) and isinstance(again, list):
        if len(given) != len(again):
            raise MisfitError(at, f"holds {len(given)} things, and {len(again)} would come back")
        if sorted(map(canonical, given)) != sorted(map(canonical, again)):  # those of a set may be in any order
            for place, (item, other) in enumerate(zip(given, again, strict=True)):
                _check_same(item, other, f"{at}[{place}]")
    elif type(given) is not type(again) and (type(given), type(again)) != (int, float):
        raise wrong(at, given, type(again))
    elif given != again:
        raise MisfitError(at, "would come back as something else")


# How they are read

_CONVERTER: Final = Converter()


def _structured(hint: object) -> Callable[[object, object], object]:
    """Return a hook that reads values as those of type *hint*."""
    return lambda found, _: _CONVERTER.structure(found, cast("type[object]", hint))


def _object(found: object, _: object) -> Mapping[str, object]:
    if not isinstance(found, Mapping):
        raise wrong("", found, dict)
    return cast("Mapping[str, object]", found)


_JSON_KINDS: Final[Mapping[object, type[object]]] = {FrozenObject: dict, tuple: list}
"""The types of the JSON for those of frozen JSON."""


def _union(hint: object) -> Callable[[object, object], object]:
    members = {look: member for member in members_of(hint) for look in looks_of(member)}
    objects = [member for look, member in members.items() if look is dict or isinstance(look, str)]
    if len(objects) == 1:  # it needs no name
        members[dict] = objects[0]

    def read(found: object, _: object) -> object:
        kind = _JSON_KINDS.get(type(found), type(found))
        tag = cast("Mapping[str, object]", found).get(TAG) if kind is dict else None
        looks = (tag, kind, float if kind is int else kind)
        member = next((members[look] for look in looks if look in members), None)
        if member is None and kind is dict:
            at = f".{TAG}"
            raise MisfitError(at, f"names none of `{named(hint)}`")
        if member is None:
            raise wrong("", found, named(hint))
        return _CONVERTER.structure(found, cast("type[object]", member))

    return read


def _table(hint: object) -> Callable[[object, object], object]:
    read = _structured(dict.__class_getitem__((str, get_args(hint)[1])))
    return lambda found, _: MappingProxyType(cast("dict[str, object]", read(_object(found, _), dict)))


def _tuple(hint: object) -> Callable[[object, object], object]:
    return _structured(tuple.__class_getitem__((get_args(hint)[0], ...)))


def _frozenset(hint: object) -> Callable[[object, object], object]:
    return _structured(frozenset.__class_getitem__(get_args(hint)[0]))


def _is_of(origins: Collection[object]) -> Callable[[object], bool]:
    return lambda hint: get_origin(hint) in origins


def _is_wrapped(hint: object) -> bool:
    return unwrapped(hint) is not hint


def _inside(hint: object) -> Callable[[object, object], object]:
    return _structured(unwrapped(hint))


def _number(found: object, _: object) -> object:
    return found if type(found) is int else float(cast("str", found))


def _is_ours(hint: object) -> bool:
    cls = class_in(hint)
    return cls is not None and issubclass(cls, Value)


def _reads() -> None:
    """Tell `_CONVERTER` how to read what it does not know. Of two hooks that fit, it takes the later one."""
    hook, factory = _CONVERTER.register_structure_hook_func, _CONVERTER.register_structure_hook_factory
    _CONVERTER.register_structure_hook(float, _number)
    hook(lambda hint: hint in (None, NoneType), lambda _, __: None)
    factory(_is_of(UNIONS), _union)
    factory(_is_of(TABLES), _table)
    factory(_is_of(TUPLES - {tuple}), _tuple)
    factory(_is_of({AbstractSet}), _frozenset)
    factory(is_namedtuple, namedtuple_dict_structure_factory)  # pyright: ignore[reportUnknownArgumentType]
    factory(_is_wrapped, _inside)
    hook(lambda hint: hint is Json, lambda found, _: found)
    hook(lambda hint: hint is JsonObject, _object)
    hook(_is_ours, lambda found, hint: converted(hint, found))


_reads()

"""Reads plugin states and options by the type hints of their classes, through cattrs, strictly.

cattrs coerces and ignores. So what it made is written again, and refused if that differs from what was read.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping
from collections.abc import Set as AbstractSet
from enum import Enum
from functools import partial
from types import MappingProxyType, NoneType
from typing import Final, cast, get_args, get_origin

from cattrs import AttributeValidationNote, BaseValidationError, Converter, IterableValidationNote
from cattrs.cols import is_namedtuple, namedtuple_dict_structure_factory  # pyright: ignore[reportUnknownVariableType]

from agentrail.codec.misfit import MisfitError, described, one, shortened, wrong
from agentrail.codec.states import data_of, written
from agentrail.codec.type_hints import (
    TABLES,
    TUPLES,
    UNIONS,
    check,
    class_in,
    class_of,
    kinds_of,
    members_of,
    must_be_named,
    named,
    unwrapped,
)
from agentrail.codec.values import converted
from agentrail.errors import BadData, NotJson
from agentrail.values.json import FrozenObject, Json, JsonObject, canonical, freeze
from agentrail.values.value import TAG, Value


def decode_state(wanted: object, data: object) -> object:
    """Make a plugin state or option of type *wanted* from *data*, which `encode_state` wrote; or raise `BadData`."""
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


def _read(wanted: object, data: object) -> object:
    check(wanted, "", set())
    try:
        given = freeze(data, "", room=[sys.maxsize - 1])
    except NotJson as not_json:
        inner, what = not_json.args
        raise MisfitError(inner, f"is {what}, which JSON cannot hold") from None
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
    at, wanted = "", one(hint) if isinstance(hint, type) else f"`{hint}`"
    while isinstance(why, BaseValidationError):
        group, why = why, cast("BaseException", why.exceptions[0])
        note = next(
            (
                note
                for note in getattr(why, "__notes__", ())
                if isinstance(note, AttributeValidationNote | IterableValidationNote)
            ),
            None,
        )
        cls = getattr(group, "cl", object)
        if note is None and not isinstance(found, Mapping):
            return wrong(at, found, one(cls)), why
        if note is None:  # the words of the exception may hold a secret: they stay in the cause
            return MisfitError(at, f"is refused by `{cls.__name__}` ({type(why).__name__})"), why
        key = note.name if isinstance(note, AttributeValidationNote) else note.index
        if isinstance(why, KeyError) and isinstance(found, Mapping) and key not in found:
            return MisfitError(at, f"lacks `{key}`"), why
        at += f".{key}" if isinstance(note, AttributeValidationNote) else f"[{shortened(repr(key))}]"
        found = cast("Mapping[object, object]", found)[key]
        wanted = f"`{getattr(note.type, '__name__', note.type)}`"
    if isinstance(why, MisfitError):
        why.under(at)
        return why, why
    return wrong(at, found, wanted), why


def _check_same(given: Json, again: Json, at: str) -> None:
    """Raise `MisfitError` unless *again*, what was made of it, is *given*, which may lack fields at their defaults."""
    if isinstance(given, Mapping) and isinstance(again, Mapping):
        for key, item in given.items():
            if key not in again:
                raise MisfitError(at, f"has the key `{shortened(key)}`, which is not known")
            if key == TAG and item != again[key]:
                raise MisfitError(at, f"is another class where a `{again[key]}` is wanted")
            _check_same(item, again[key], f"{at}.{key}")
    elif isinstance(given, tuple) and isinstance(again, list) and len(given) == len(again):
        if sorted(map(canonical, given)) != sorted(map(canonical, again)):  # those of a set may be in any order
            for place, (item, other) in enumerate(zip(given, again, strict=True)):
                _check_same(item, other, f"{at}[{place}]")
    elif given != again or (type(given) is not type(again) and (type(given), type(again)) != (int, float)):
        raise MisfitError(at, f"{described(given)}, and would come back as something else")


# How they are read

_CONVERTER: Final = Converter()


def _structured(hint: object) -> Callable[[object, object], object]:
    """Return a hook that reads values as those of type *hint*."""
    return lambda found, _: _CONVERTER.structure(found, cast("type[object]", hint))


def _leaf(kinds: tuple[type[object], ...], name: str, found: object, hint: object) -> object:
    if isinstance(hint, type) and issubclass(hint, Enum):  # such as an `IntEnum`, which is an `int` too
        return hint(found)
    if type(found) not in kinds:
        raise wrong("", found, name)
    return found


def _object(found: object, _: object) -> Mapping[str, object]:
    if not isinstance(found, Mapping):
        raise wrong("", found, "a JSON object")
    return cast("Mapping[str, object]", found)


_JSON_KINDS: Final[Mapping[object, type[object]]] = {FrozenObject: dict, tuple: list}
"""The types of the JSON for those of frozen JSON."""


def _union(hint: object) -> Callable[[object, object], object]:
    members = members_of(hint)
    is_tagged = must_be_named(members)

    def read(found: object, _: object) -> object:
        kind = _JSON_KINDS.get(type(found), type(found))
        fits = [each for each in members if kind in kinds_of(each) or (kind is int and float in kinds_of(each))]
        if not fits:
            raise wrong("", found, f"`{named(hint)}`")
        if isinstance(found, Mapping) and is_tagged:
            tag = cast("Mapping[str, object]", found).get(TAG, "")
            fits = [each for each in fits if class_of(each) == tag]
            if not fits:
                at = f".{TAG}"
                raise MisfitError(at, f"names none of `{named(hint)}`")
        return _CONVERTER.structure(found, cast("type[object]", fits[0]))

    return read


def _table(hint: object) -> Callable[[object, object], object]:
    item = get_args(hint)[1]
    if unwrapped(item) is Json:
        return _object
    read = _structured(dict.__class_getitem__((str, item)))
    return lambda found, _: MappingProxyType(cast("dict[str, object]", read(_object(found, _), dict)))


def _tuple(hint: object) -> Callable[[object, object], object]:
    return _structured(tuple.__class_getitem__((get_args(hint)[0], ...)))


def _frozenset(hint: object) -> Callable[[object, object], object]:
    return _structured(frozenset.__class_getitem__(get_args(hint)[0]))


def _inside(hint: object) -> Callable[[object, object], object]:
    return _structured(unwrapped(hint))


def _is_wrapped(hint: object) -> bool:
    return unwrapped(hint) is not hint


def _is_of(origins: Collection[object]) -> Callable[[object], bool]:
    return lambda hint: get_origin(hint) in origins


def _is_ours(hint: object) -> bool:
    cls = class_in(hint)
    return cls is not None and issubclass(cls, Value)


def _reads() -> None:
    """Tell `_CONVERTER` how to read what it would coerce, or does not know. Of two that fit, it takes the later one."""
    for kind, name, more in _NAMED:
        _CONVERTER.register_structure_hook(kind, partial(_leaf, (kind, *more), name))
    hook, factory = _CONVERTER.register_structure_hook_func, _CONVERTER.register_structure_hook_factory
    hook(lambda hint: hint is None, partial(_leaf, (NoneType,), "nothing"))
    factory(_is_of(UNIONS), _union)
    factory(_is_of(TABLES), _table)
    factory(_is_of(TUPLES - {tuple}), _tuple)
    factory(_is_of({AbstractSet}), _frozenset)
    factory(is_namedtuple, namedtuple_dict_structure_factory)  # pyright: ignore[reportUnknownArgumentType]
    factory(_is_wrapped, _inside)
    hook(lambda hint: hint is Json, lambda found, _: found)
    hook(lambda hint: hint is JsonObject, _object)
    hook(_is_ours, lambda found, hint: converted(hint, found))


_NAMED: Final[tuple[tuple[type[object], str, tuple[type[object], ...]], ...]] = (
    (bool, "a boolean", ()),
    (int, "a whole number", ()),
    (float, "a number", (int,)),
    (str, "text", ()),
    (NoneType, "nothing", ()),
)
_reads()

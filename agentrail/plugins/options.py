"""Converters and validators for the options of the built-in plugins."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final, TypeVar, cast

import attrs

from agentrail.errors import BadOptions, NotJson
from agentrail.hooks.plugin import AnyPlugin
from agentrail.values.foreign import is_time, number, plain_text, seconds, shown
from agentrail.values.json import FrozenObject, Json, JsonObject, freeze_object

T = TypeVar("T")

NO_NAMES: Final[frozenset[str]] = frozenset()

NO_LISTS: Final = (bytes, bytearray, Mapping)
"""Iterable types that are not accepted as lists of texts."""


def plain(name: str) -> str:
    """Return the name of an argument in plain form: in lower case, without `_` and `-`."""
    return name.lower().replace("_", "").replace("-", "")


def as_tuple(found: Iterable[str]) -> tuple[str, ...]:
    """Return *found*, an option that lists texts, as a tuple; a lone text is a list of one.

    Any other value is returned unchanged: the validator `are_texts` then refuses it with the name of the option.
    """
    given = cast("object", found)
    if isinstance(given, str):
        return (given,)
    return tuple(found) if isinstance(given, Iterable) and not isinstance(given, NO_LISTS) else found  # type: ignore[return-value] # pyright: ignore[reportReturnType]


def as_set(found: Iterable[str]) -> frozenset[str]:
    """Return *found*, an option that lists texts, as a set; a lone text is a list of one; see `as_tuple`."""
    listed = as_tuple(found)
    return frozenset(listed) if type(listed) is tuple and all(map(_is_text, listed)) else listed  # type: ignore[return-value] # pyright: ignore[reportReturnType]


def as_plain_set(found: Iterable[str]) -> frozenset[str]:
    """Return *found*, an option that lists names of arguments, as a set of plain names; see `as_tuple`."""
    listed = as_set(found)
    return frozenset(map(plain, listed)) if type(listed) is frozenset else listed


def _is_text(found: object) -> bool:
    return plain_text(found) is not None


def is_list(found: object) -> bool:
    """Whether *found* can be read as a list; a text and a mapping are none."""
    kind = type(found)
    return issubclass(kind, Collection) and not issubclass(kind, (str, *NO_LISTS))


def are_texts(plugin: AnyPlugin, field: attrs.Attribute[T], found: T) -> None:
    """Raise `BadOptions` unless *found* lists texts."""
    if type(found) not in (tuple, frozenset):
        _refuse(plugin, field, f"is {shown(found)}; give a list of texts")
    for each in cast("Iterable[object]", found):
        if not _is_text(each):
            _refuse(plugin, field, f"has {shown(each)}; give a list of texts")


def is_flag(plugin: AnyPlugin, field: attrs.Attribute[T], found: T) -> None:
    """Raise `BadOptions` unless *found* is a boolean."""
    if not isinstance(found, bool):
        _refuse(plugin, field, f"is {shown(found)}; it must be True or False")


def is_said(plugin: AnyPlugin, field: attrs.Attribute[T], found: T) -> None:
    """Raise `BadOptions` unless *found* is a text that says something."""
    text = plain_text(found)
    if text is None or not text.strip():
        _refuse(plugin, field, f"is {shown(found)}; give a text")


def is_patience(plugin: AnyPlugin, field: attrs.Attribute[T], found: T) -> None:
    """Raise `BadOptions` unless *found* is a finite number of seconds from 0 on, or `None`, which means no limit."""
    if found is not None and seconds(found) is None:
        _refuse(plugin, field, f"is {shown(found)}; it must be seconds from 0 on, or None: for ever")


def is_count(plugin: AnyPlugin, field: attrs.Attribute[T], found: T) -> None:
    """Raise `BadOptions` unless *found* is a whole number from 0 on."""
    count = number(found)
    if type(count) is not int or count < 0:
        _refuse(plugin, field, f"is {shown(found)}; it must be a whole number from 0 on")


def is_deadline(plugin: AnyPlugin, field: attrs.Attribute[T], found: T) -> None:
    """Raise `BadOptions` unless *found* is a finite number of seconds above 0."""
    if not is_time(found):
        _refuse(plugin, field, f"is {shown(found)}; it must be seconds above 0")


def as_object(found: Mapping[str, Json]) -> JsonObject:
    """Return *found*, an option that is a JSON object, frozen; the validator `is_object` refuses any other value."""
    try:
        return freeze_object(found)
    except NotJson:
        return found


def is_object(plugin: AnyPlugin, field: attrs.Attribute[T], found: T) -> None:
    """Raise `BadOptions` unless *found* is a frozen JSON object."""
    if type(found) is not FrozenObject:
        _refuse(plugin, field, f"is {shown(found)}; give a mapping of texts to JSON")


def _refuse(plugin: AnyPlugin, field: attrs.Attribute[T], problem: str) -> None:
    raise BadOptions(type(plugin).__name__, f"its `{field.name}` {problem}")

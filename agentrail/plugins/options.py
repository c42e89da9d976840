"""Converters and validators for the options of the built-in plugins."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, TypeAlias, TypeVar, cast

import attrs

from agentrail.errors import BadOptions, NotJson
from agentrail.hooks.plugin import AnyPlugin, NamedModel
from agentrail.hooks.plugin_checks import PAIR
from agentrail.values.json import EMPTY, FrozenObject, Json, JsonObject, freeze_object, thaw
from agentrail.values.secrets import named_secret, plain_secret
from agentrail.values.untrusted_values import is_time, number, plain_text, seconds, shown

T = TypeVar("T")

GivenModel: TypeAlias = str | tuple[str, Mapping[str, Json]] | None
"""A model as a user names it: its name, or a pair of its name and its options, or `None`."""

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


def as_model(found: GivenModel) -> NamedModel | None:
    """Return *found*, an option that names a model, with its options frozen; `is_model` refuses any other value."""
    given = cast("object", found)
    if type(given) not in (tuple, list) or len(cast("Sequence[object]", given)) != PAIR:
        return found
    name, options = cast("tuple[str, Mapping[str, Json]]", given)
    frozen = as_object(options)
    if type(frozen) is FrozenObject and named_secret(frozen) is not None:
        # The JSON form of a `Secret` names it as well, and can be pinned: its class is not known to the type hint.
        frozen = freeze_object(thaw(frozen))
    return name, frozen


def is_model(plugin: AnyPlugin, field: attrs.Attribute[T], found: T) -> None:
    """Raise `BadOptions` unless *found* is `None`, a name, or a pair of a name and options without a plain secret."""
    if found is None:
        return
    given = cast("tuple[object, ...]", found) if type(found) is tuple else (found, EMPTY)
    name, options = given if len(given) == PAIR else (None, EMPTY)
    text = plain_text(name)
    if text is None or not text.strip() or type(options) is not FrozenObject:
        problem = f"is {shown(cast('object', found))}; give the name of a model, or a pair of name and options"
        _refuse(plugin, field, problem)
    where = plain_secret(cast("JsonObject", options))
    if where is not None:
        _refuse(plugin, field, f"has `{where}`, which looks like a secret, and options are kept; give `Secret(name)`")


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

"""Converters and validators for the options of the built-in plugins."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import Final, TypeAlias, TypeVar, cast

import attrs

from agentrail.errors import BadOptions, NotJson
from agentrail.hooks.plugin import AnyPlugin, NamedModel
from agentrail.hooks.plugin_checks import PAIR
from agentrail.values.json import EMPTY, FrozenObject, Json, JsonObject, freeze_object, thaw
from agentrail.values.secrets import named_secret, plain_secret
from agentrail.values.untrusted_values import as_seconds, brief, is_time, number, plain_text

T = TypeVar("T")

GivenModel: TypeAlias = str | tuple[str, Mapping[str, Json]] | None
"""A model as a user names it: its name, or a pair of its name and its options, or `None`."""

NO_NAMES: Final[frozenset[str]] = frozenset()

MAX_PATH: Final = 400
"""The most characters of a path in an option."""

MAX_TEXTS: Final = 100_000
"""The most texts in an option."""

NO_LISTS: Final = (bytes, bytearray, Mapping)
"""Iterable types that are not accepted as lists of texts."""


def plain_argument(name: str) -> str:
    """Return the name of an argument in plain form: in lower case, without `_` and `-`."""
    return name.lower().replace("_", "").replace("-", "")


def as_tuple(value: Iterable[str]) -> tuple[str, ...]:
    """Return *value*, an option that lists texts, as a tuple; a lone text is a list of one.

    Any other value is returned unchanged: the validator `check_texts` then refuses it with the name of the option.
    """
    items = cast("object", value)
    if isinstance(items, str):
        return (items,)
    if isinstance(items, Iterable) and not isinstance(items, NO_LISTS):
        listed = tuple(islice(value, MAX_TEXTS + 1))  # an iterator may have no end
        if len(listed) <= MAX_TEXTS:
            return listed
    return value  # type: ignore[return-value] # pyright: ignore[reportReturnType]


def as_set(value: Iterable[str]) -> frozenset[str]:
    """Return *value*, an option that lists texts, as a set; a lone text is a list of one; see `as_tuple`."""
    items = as_tuple(value)
    return frozenset(items) if type(items) is tuple and all(map(_is_text, items)) else items  # type: ignore[return-value] # pyright: ignore[reportReturnType]


def as_plain_set(value: Iterable[str]) -> frozenset[str]:
    """Return *value*, an option that lists names of arguments, as a set of plain names; see `as_tuple`."""
    items = as_set(value)
    return frozenset(map(plain_argument, items)) if type(items) is frozenset else items


def _is_text(value: object) -> bool:
    return plain_text(value) is not None


def is_list(value: object) -> bool:
    """Whether *value* can be read as a list of items; a text and a mapping cannot."""
    kind = type(value)
    return issubclass(kind, Collection) and not issubclass(kind, (str, *NO_LISTS))


def check_texts(plugin: AnyPlugin, field: attrs.Attribute[T], value: T) -> None:
    """Raise `BadOptions` unless *value* lists texts."""
    if type(value) not in (tuple, frozenset):
        _refuse(plugin, field, f"is {brief(value)}; give a list of texts")
    for item in cast("Iterable[object]", value):
        if not _is_text(item):
            _refuse(plugin, field, f"has {brief(item)}; give a list of texts")


def check_flag(plugin: AnyPlugin, field: attrs.Attribute[T], value: T) -> None:
    """Raise `BadOptions` unless *value* is a boolean."""
    if not isinstance(value, bool):
        _refuse(plugin, field, f"is {brief(value)}; it must be True or False")


def check_text(plugin: AnyPlugin, field: attrs.Attribute[T], value: T) -> None:
    """Raise `BadOptions` unless *value* is a text that is not blank."""
    text = plain_text(value)
    if text is None or not text.strip():
        _refuse(plugin, field, f"is {brief(value)}; give a text")


def check_optional_seconds(plugin: AnyPlugin, field: attrs.Attribute[T], value: T) -> None:
    """Raise `BadOptions` unless *value* is a finite number of seconds from 0 on, or `None`, which means no limit."""
    if value is not None and as_seconds(value) is None:
        _refuse(plugin, field, f"is {brief(value)}; it must be seconds from 0 on, or None: for ever")


def check_choice(*choices: str) -> Callable[[AnyPlugin, attrs.Attribute[T], T], None]:
    """Return a validator that raises `BadOptions` unless the value is one of *choices*."""

    def check(plugin: AnyPlugin, field: attrs.Attribute[T], value: T) -> None:
        if not isinstance(value, str) or value not in choices:
            _refuse(plugin, field, f"is {brief(value)}; it must be one of {', '.join(choices)}")

    return check


def _check_from(least: int, plugin: AnyPlugin, field: attrs.Attribute[T], value: T) -> None:
    count = number(value)
    if type(count) is not int or count < least:
        _refuse(plugin, field, f"is {brief(value)}; it must be a whole number from {least} on")


def check_count(plugin: AnyPlugin, field: attrs.Attribute[T], value: T) -> None:
    """Raise `BadOptions` unless *value* is a whole number from 0 on."""
    _check_from(0, plugin, field, value)


def check_positive(plugin: AnyPlugin, field: attrs.Attribute[T], value: T) -> None:
    """Raise `BadOptions` unless *value* is a whole number from 1 on."""
    _check_from(1, plugin, field, value)


def check_some(plugin: AnyPlugin, field: attrs.Attribute[T], value: T) -> None:
    """Raise `BadOptions` if *value*, a checked list, is empty."""
    if not value:
        _refuse(plugin, field, "is empty; give at least one")


def check_seconds(plugin: AnyPlugin, field: attrs.Attribute[T], value: T) -> None:
    """Raise `BadOptions` unless *value* is a finite number of seconds above 0."""
    if not is_time(value):
        _refuse(plugin, field, f"is {brief(value)}; it must be seconds above 0")


def as_model(value: GivenModel) -> NamedModel | None:
    """Return *value*, an option that names a model, with its options frozen; `check_model` refuses any other value."""
    pair = cast("object", value)
    if type(pair) not in (tuple, list) or len(cast("Sequence[object]", pair)) != PAIR:
        return value
    name, options = cast("tuple[str, Mapping[str, Json]]", pair)
    try:
        return name, freeze_options(options)
    except NotJson:
        return name, options


def freeze_options(options: Mapping[str, object]) -> JsonObject:
    """Return *options* of a model, frozen, with the JSON form of each `Secret`; raise `NotJson` if they are no JSON.

    The JSON form names the secret as well, and can be pinned: the class is not known to the type hint of an option.
    """
    frozen = freeze_object(options)
    return frozen if named_secret(frozen) is None else freeze_object(thaw(frozen))


def secret_problem(options: JsonObject) -> str | None:
    """Return why *options* of a model may not be an option of a plugin, as they hold a plain secret; else `None`."""
    where = plain_secret(options)
    return (
        None
        if where is None
        else f"has `{where}`, which looks like a secret, and options are kept; give `Secret(name)`"
    )


def check_model(plugin: AnyPlugin, field: attrs.Attribute[T], value: T) -> None:
    """Raise `BadOptions` unless *value* is `None`, a name, or a pair of a name and options without a plain secret."""
    if value is None:
        return
    pair = cast("tuple[object, ...]", value) if type(value) is tuple else (value, EMPTY)
    name, options = pair if len(pair) == PAIR else (None, EMPTY)
    text = plain_text(name)
    if text is None or not text.strip() or type(options) is not FrozenObject:
        problem = f"is {brief(cast('object', value))}; give the name of a model, or a pair of name and options"
        _refuse(plugin, field, problem)
    secret = secret_problem(cast("JsonObject", options))
    if secret is not None:
        _refuse(plugin, field, secret)


def as_object(value: Mapping[str, Json]) -> JsonObject:
    """Return *value*, an option that is a JSON object, frozen; the validator `is_object` refuses any other value."""
    try:
        return freeze_object(value)
    except NotJson:
        return value


def check_object(plugin: AnyPlugin, field: attrs.Attribute[T], value: T) -> None:
    """Raise `BadOptions` unless *value* is a frozen JSON object."""
    if type(value) is not FrozenObject:
        _refuse(plugin, field, f"is {brief(value)}; give a mapping of texts to JSON")


def path_problem(value: object) -> str | None:
    """Return why *value* names no file or folder below the working directory; `None` if it does."""
    text = plain_text(value)
    if text is None or not text or len(text) > MAX_PATH or not text.isprintable() or "\\" in text:
        return f"is {brief(value)}; write a path of at most {MAX_PATH} characters, such as `notes/MEMORY.md`"
    parts = text.split("/")
    if any(part in {"", ".", ".."} or part != part.strip() for part in parts):
        return f"is {brief(value)}; write it relative to the working directory, without `.`, `..` and empty parts"
    return None


def check_path(plugin: AnyPlugin, field: attrs.Attribute[T], value: T) -> None:
    """Raise `BadOptions` unless *value* is the path of a file or folder below the working directory."""
    problem = path_problem(value)
    if problem is not None:
        _refuse(plugin, field, problem)


def _refuse(plugin: AnyPlugin, field: attrs.Attribute[T], problem: str) -> None:
    raise BadOptions(type(plugin).__name__, f"its `{field.name}` {problem}")

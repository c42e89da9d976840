"""Reads numbers, times, counts, amounts of money, texts and errors that foreign code made.

Used for every value that comes from a model, tool, plugin, service, journal, clock or user. Except `words`, the
functions run no code of the value: a subclass of `int`, `float` or `str` counts as the plain value that it holds,
whatever its methods do.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Final, cast

from agentrail.errors.agentrail_error import CODED, advice, kind_of
from agentrail.values.value import Value

if TYPE_CHECKING:
    import attrs


TEN_YEARS: Final = 315_576_000.0
"""Seconds in ten years; longer times are cut to this, so that they fit 64 bits as milliseconds."""

MAX_TOKENS: Final = 2**40
"""Largest count of tokens accepted for one response."""

MAX_USD: Final = 1e9
"""Largest amount accepted, in US dollars: as the cost of a response, as a price, or as a limit."""

MAX_MESSAGE_CHARS: Final = 10_000
"""The most characters of an error's text, or of a plugin's reason for a refusal, that are kept."""

MAX_CHARACTERS: Final = 80
"""The most characters of a value, or of its class's name, that an error message shows."""

MAX_FACTS: Final = 1_000
"""The most items, nested ones included, that an error's arguments may hold for its text to be made."""

CHARACTERS_OF_A_FACT: Final = 100
"""In a text among an error's arguments, so many characters count as one item."""

MAX_LED: Final = 100
"""The most errors that led to an error, or are in its groups, for all to be logged with their texts."""

MAX_SHOWN: Final = 3
"""The most exceptions of a group that are described."""

PLAIN: Final = frozenset({bool, bytes, complex, float, int, type(None)})
"""Types whose values an error message shows, beside text; for others it names only the class."""

_NAME: Final = cast("Callable[[type], str]", vars(type)["__name__"].__get__)
"""Getter of a class's name that a metaclass cannot override."""

_FACTS: Final = cast("Callable[[object], tuple[object, ...]]", vars(BaseException)["args"].__get__)
"""Getter of an exception's `args` that a subclass cannot override."""

_KINDS: Final[tuple[type, ...]] = (dict, list, tuple, set, frozenset)
_HOLDERS: Final = tuple(
    (
        kind,
        cast("Callable[[object], int]", vars(kind)["__len__"]),
        cast("Callable[[object], Iterable[object]]", vars(kind)["items" if kind is dict else "__iter__"]),
    )
    for kind in _KINDS
)
"""Length and items of a container, by its built-in type; a subclass cannot override them."""

_WRITTEN: Final = tuple(
    (kind, cast("Callable[[object], int]", vars(kind)["__len__"])) for kind in (str, bytes, bytearray)
)
"""Functions that return the length of texts and bytes, by built-in type; a subclass cannot override them."""

_OF_LIST: Final = cast("Callable[[object], Iterator[object]]", vars(list)["__iter__"])
_OF_TUPLE: Final = cast("Callable[[object], Iterator[object]]", vars(tuple)["__iter__"])

_TRACE: Final = cast("Callable[[object], TracebackType | None]", vars(BaseException)["__traceback__"].__get__)
"""Getter of an exception's traceback that a subclass cannot override."""

_HELD: Final = cast("Callable[[object], tuple[BaseException, ...]]", vars(BaseExceptionGroup)["exceptions"].__get__)
"""Getter of a group's exceptions that a subclass cannot override."""

_LINKS: Final = tuple(
    cast("Callable[[object], BaseException | None]", vars(BaseException)[name].__get__)
    for name in ("__cause__", "__context__")
)
"""Getters of the errors that led to an exception; a subclass cannot override them."""

_ATTRIBUTES: Final = cast("Callable[[object], dict[str, object]]", vars(BaseException)["__dict__"].__get__)
"""Getter of an exception's attributes, its notes among them, that a subclass cannot override."""

_MISSPELT: Final = re.compile(r"(?P<function>\w+)\(\) got an unexpected keyword argument '(?P<argument>\w+)'")
"""Matches Python's message for an argument of a name that a function does not take."""

MADE_OFTEN: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    dict.fromkeys(("ok", "err"), ("content", "details"))
)
"""Arguments of the functions that users call for each result of a tool."""


# Numbers


def number(value: object) -> int | float | None:
    """Return *value* as a plain, finite `int` or `float`; `None` if it is not a number.

    A boolean is not a number here.
    """
    if type(value) is int:
        return value
    if type(value) is float:
        return value if math.isfinite(value) else None
    kind = type(value)
    if issubclass(kind, float):
        plain = float.__float__(cast("float", value))
        return plain if math.isfinite(plain) else None
    if issubclass(kind, int) and kind is not bool:
        return int.__int__(cast("int", value))
    return None


def as_seconds(value: object) -> float | None:
    """Return *value* as seconds, cut to ten years; `None` if it is not a number of at least 0."""
    if type(value) is float and 0.0 <= value <= TEN_YEARS:  # as nearly all are
        return value
    plain = number(value)
    if plain is None or plain < 0:
        return None
    return min(plain, TEN_YEARS)


def is_time(value: object) -> bool:
    """Whether *value* is a number above 0, and so a valid time in seconds; there is no upper limit."""
    plain = number(value)
    return plain is not None and plain > 0


def tokens(value: object) -> int | None:
    """Return *value* as a count of tokens; `None` if it is not a whole number from 0 to `MAX_TOKENS`."""
    plain = number(value)
    return plain if type(plain) is int and 0 <= plain <= MAX_TOKENS else None


def as_usd(value: object) -> float | None:
    """Return *value* as US dollars; `None` if it is not a number from 0 to `MAX_USD`."""
    plain = number(value)
    return float(plain) if plain is not None and 0 <= plain <= MAX_USD else None


# Texts


def plain_text(value: object) -> str | None:
    """Return *value* as a plain `str`; `None` if it is not a text."""
    if type(value) is str:
        return value
    return str.__str__(cast("str", value)) if issubclass(type(value), str) else None


def mended(text: str) -> str:
    """Return *text* with each half of a surrogate pair replaced by `U+FFFD`, because it cannot be encoded in UTF-8."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def brief(value: object) -> str:
    """Return a short description of *value* for an error message, without running its code."""
    if type(value) is str:
        return mended(repr(value[:MAX_CHARACTERS]))
    if type(value) in PLAIN:
        try:
            return repr(value)[:MAX_CHARACTERS]
        except ValueError:  # Python refuses to convert an int with thousands of digits
            return "an `int` of thousands of digits"
    return f"a `{type_name(value)}`"


def type_name(value: object) -> str:
    """Return the name of the class of *value*."""
    return class_name(type(value))


def class_name(cls: type) -> str:
    """Return the name of *cls*, even if its metaclass overrides the attribute."""
    return _NAME(cls)[:MAX_CHARACTERS]


def items_of(value: list[object] | tuple[object, ...]) -> Iterator[object]:
    """Return the items of a list or a tuple, even if a subclass overrides iteration."""
    return (_OF_LIST if isinstance(value, list) else _OF_TUPLE)(value)


# Errors


def described(error: BaseException) -> str:
    """Return the class and text of *error*; for a group, also those of the first few exceptions in it."""
    return ": ".join(
        filter(None, (_type_error_text(error), "; ".join(map(_type_error_text, inside(error)[:MAX_SHOWN]))))
    )


def inside(error: BaseException) -> tuple[BaseException, ...]:
    """Return the exceptions in *error*; an empty tuple if it is not a group."""
    if not isinstance(error, BaseExceptionGroup):
        return ()
    return _HELD(cast("BaseExceptionGroup[BaseException]", error))


def leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield *error* itself or, if it is a group, the exceptions in it at any depth, in order."""
    waiting = [error]
    while waiting:
        error_ = waiting.pop()
        members = inside(error_)  # a group is never empty
        if members:
            waiting += reversed(members)
        else:
            yield error_


def traceback_of(error: BaseException) -> TracebackType | None:
    """Return the traceback of *error*, even if its class overrides the attribute."""
    return _TRACE(error)


def message_of(error: BaseException) -> str:
    """Return the text of *error*, or a fixed text if its `__str__` fails or its arguments are huge."""
    try:
        if _holds_much(error):
            return "it holds more than can be shown"
        text = plain_text(str(error))
    except BaseException as worse:  # noqa: BLE001, ASYNC103 - the error's own code may raise anything
        pass_interrupt(worse)
        text = None
    return "it cannot even be shown" if text is None else mended(text[:MAX_MESSAGE_CHARS])


def _facts(error: BaseException) -> tuple[object, ...]:
    """Return the values that the text of *error* is made from: its arguments; of a group, only the first."""
    facts = _FACTS(error)
    return facts[:1] if type(error).__str__ is BaseExceptionGroup.__str__ else facts


def _holds_much(error: BaseException) -> bool:
    """Whether the text of *error* may be huge, because its arguments hold more than `MAX_FACTS` items."""
    facts = _facts(error)
    if type(error).__str__ is not KeyError.__str__ and len(facts) == 1 and issubclass(type(facts[0]), str):
        return False  # the text of the error is this argument, which is cut later
    return _are_many(facts)


def _are_many(values: tuple[object, ...]) -> bool:
    """Whether *values* hold more than `MAX_FACTS` items, nested ones included."""
    room_left = MAX_FACTS - len(values)
    waiting: list[object] = [*values[:MAX_FACTS]]
    while waiting and room_left >= 0:
        count, items = _items_of(waiting.pop())
        room_left -= count
        if room_left >= 0:
            waiting += items
    return room_left < 0


def is_short(error: BaseException) -> bool:
    """Whether *error* is short enough to be logged whole, with its notes, causes and grouped errors."""
    waiting, visited = [error], dict[int, BaseException]()
    while waiting:
        error_ = waiting.pop()
        if id(error_) in visited:
            continue
        visited[id(error_)] = error_
        notes = _ATTRIBUTES(error_).get("__notes__", ())
        if len(visited) > MAX_LED or _are_many((*_facts(error_), notes)):
            return False
        waiting += inside(error_)
        waiting += filter(None, (link(error_) for link in _LINKS))
    return True


def _items_of(value: object) -> tuple[int, Iterable[object]]:
    """Return the number of items in *value*, and the items. A long text counts as several items, and has none."""
    for kind, count, items in _HOLDERS:
        if issubclass(type(value), kind):
            return count(value), items(value)
    for kind, count in _WRITTEN:
        if issubclass(type(value), kind):
            return count(value) // CHARACTERS_OF_A_FACT, ()
    if issubclass(type(value), BaseException):
        facts = _FACTS(value)
        return len(facts), facts
    if issubclass(type(value), Value):  # `type`, because an object can lie to `isinstance` about its class
        names = names_of(type(value)) or ()
        return len(names), (getattr(value, name, None) for name in names)
    return 0, ()


def names_of(cls: type) -> tuple[str, ...] | None:
    """Return the field names of *cls*, a class of values, an attrs class or a dataclass; `None` for other classes."""
    for attribute in ("__struct_fields__", "__attrs_attrs__", "__dataclass_fields__"):
        names = cast("Iterable[str | attrs.Attribute[object]] | None", getattr(cls, attribute, None))
        if names is not None:
            return tuple(field if isinstance(field, str) else field.name for field in names)
    return None


def error_text(error: BaseException) -> str:
    """Return the text that reports *error*, which a plugin raised; raise *error* itself if it is an interrupt."""
    pass_interrupt(error)
    return described(error)


def pass_interrupt(error: BaseException) -> None:
    """Raise *error* again if it is an interrupt (Ctrl-C); no-op for any other error of foreign code."""
    if isinstance(error, KeyboardInterrupt):
        raise error


def _type_error_text(error: BaseException) -> str:
    text = message_of(error)
    name = kind_of(error) if any(type(error) is branch for branch in CODED) else type_name(error)
    return f"{name}: {_with_advice(text) if isinstance(error, TypeError) else text}"


def _with_advice(text: str) -> str:
    """Return the *text* of a `TypeError`; with advice, if it says that `ok` or `err` does not take a named argument.

    They are called for each result of a tool, and to look for misspelt names then would cost more than the rest. From
    Python 3.13 on, a text has advice already, in other words than ours.
    """
    match = _MISSPELT.match(text)
    names = None if match is None else MADE_OFTEN.get(match["function"])
    return (
        text
        if match is None or names is None
        else f"{match[0]}; {advice(match['argument'], names, 'its arguments are')}"
    )

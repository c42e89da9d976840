"""What is taken of a value that other code has made: numbers, times, counts, sums of money, texts, errors.

Every border asks here: models, tools, plugins, services, journals, clocks, and what a user defines. The functions run
no code of the value itself: a subclass of `int`, `float` or `str` is taken for what it holds, whatever its methods say.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Final, cast

from agentrail.values.value import Value

TEN_YEARS: Final = 315_576_000.0
"""Seconds that any time is cut to: further ahead nobody plans, and milliseconds still fit 64 bits."""

MOST_TOKENS: Final = 2**40
"""Tokens of one response; a larger count is no count."""

MOST_USD: Final = 1e9
"""US dollars of one response; a larger cost is no cost."""

MOST_WORDS: Final = 10_000
"""Characters of an error that are kept."""

MAX_CHARACTERS: Final = 80
"""Characters of a value, or of the name of its class, that an error shows."""

MAX_FACTS: Final = 1_000
"""Items, in all, that the facts of an error may hold for it to be shown."""

MAX_SHOWN: Final = 3
"""Exceptions of a group that are described."""

PLAIN: Final = frozenset({bool, bytes, complex, float, int, type(None)})
"""The types that an error shows as they are, beside text; of anything else it names the class."""

_NAME: Final = cast("Callable[[type], str]", vars(type)["__name__"].__get__)
"""Reads the name of a class, also where its metaclass has another idea of it."""

_FACTS: Final = cast("Callable[[object], tuple[object, ...]]", vars(BaseException)["args"].__get__)
"""Reads what an error was made with."""

_KINDS: Final[tuple[type, ...]] = (dict, list, tuple, set, frozenset)
_HOLDERS: Final = tuple(
    (
        kind,
        cast("Callable[[object], int]", vars(kind)["__len__"]),
        cast("Callable[[object], Iterable[object]]", vars(kind)["items" if kind is dict else "__iter__"]),
    )
    for kind in _KINDS
)
"""Counts, and reads, what a container holds, whatever a subclass says."""

_OF_LIST: Final = cast("Callable[[object], Iterator[object]]", vars(list)["__iter__"])
_OF_TUPLE: Final = cast("Callable[[object], Iterator[object]]", vars(tuple)["__iter__"])

_TRACE: Final = cast("Callable[[object], TracebackType | None]", vars(BaseException)["__traceback__"].__get__)
"""Reads the way an error came."""

_HELD: Final = cast("Callable[[object], tuple[BaseException, ...]]", vars(BaseExceptionGroup)["exceptions"].__get__)
"""Reads what a group holds."""


# Numbers


def number(found: object) -> int | float | None:
    """Return *found* as a plain, finite `int` or `float`; `None` if it is none, as no boolean is."""
    if type(found) is int:
        return found
    kind = type(found)
    if issubclass(kind, float):
        plain = float.__float__(cast("float", found))
        return plain if math.isfinite(plain) else None
    if issubclass(kind, int) and kind is not bool:
        return int.__int__(cast("int", found))
    return None


def seconds(found: object) -> float | None:
    """Return *found* as seconds, cut to ten years; `None` if it is no number from 0 on."""
    plain = number(found)
    if plain is None or plain < 0:
        return None
    return min(plain, TEN_YEARS)


def is_time(found: object) -> bool:
    """Whether *found* is a number of seconds above 0, for what a user defines: a longer time is cut to ten years."""
    plain = number(found)
    return plain is not None and plain > 0


def tokens(found: object) -> int | None:
    """Return *found* as a count of tokens; `None` if it is no whole number that a response can have."""
    plain = number(found)
    return plain if type(plain) is int and 0 <= plain <= MOST_TOKENS else None


def money(found: object) -> float | None:
    """Return *found* as US dollars; `None` if it is no sum that a response can cost."""
    plain = number(found)
    return float(plain) if plain is not None and 0 <= plain <= MOST_USD else None


# Texts


def plain_text(found: object) -> str | None:
    """Return *found* as a plain text; `None` if it is none."""
    if type(found) is str:
        return found
    return str.__str__(cast("str", found)) if issubclass(type(found), str) else None


def mended(text: str) -> str:
    """Return *text* with half surrogate pairs replaced."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def shown(found: object) -> str:
    """Return *found* as an error shows it, in few characters and without running code of its own."""
    if type(found) is str:
        return mended(repr(found[:MAX_CHARACTERS]))
    if type(found) in PLAIN:
        try:
            return repr(found)[:MAX_CHARACTERS]
        except ValueError:  # a whole number of thousands of digits
            return "an `int` of thousands of digits"
    return f"a `{named(found)}`"


def named(found: object) -> str:
    """Return the name of the class of *found*."""
    return _NAME(type(found))[:MAX_CHARACTERS]


def items_of(found: list[object] | tuple[object, ...]) -> Iterator[object]:
    """Return what a list or a tuple holds, whatever a subclass says that it holds."""
    return (_OF_LIST if isinstance(found, list) else _OF_TUPLE)(found)


# Errors


def described(error: BaseException) -> str:
    """Return the class and the words of *error*, and of what it holds if it is a group."""
    return ": ".join(filter(None, (_told(error), "; ".join(map(_told, inside(error)[:MAX_SHOWN])))))


def inside(error: BaseException) -> tuple[BaseException, ...]:
    """Return what *error* holds, if it is a group."""
    if not isinstance(error, BaseExceptionGroup):
        return ()
    return _HELD(cast("BaseExceptionGroup[BaseException]", error))


def leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield *error*, or the errors that it holds at any depth if it is a group, in order."""
    waiting = [error]
    while waiting:
        found = waiting.pop()
        held = inside(found)  # a group holds one error at least
        if held:
            waiting += reversed(held)
        else:
            yield found


def trace(error: BaseException) -> TracebackType | None:
    """Return the way that *error* came, whatever its author has made of it."""
    return _TRACE(error)


def words(error: BaseException) -> str:
    """Return what *error* says, whatever its author has made of `__str__`."""
    if _holds_much(error):
        return "it holds more than can be shown"
    try:
        said = plain_text(str(error))
    except BaseException as worse:  # noqa: BLE001, ASYNC103 - whatever it is, it is the error's own
        pass_interrupt(worse)
        said = None
    return "it cannot even be shown" if said is None else mended(said[:MOST_WORDS])


def _holds_much(error: BaseException) -> bool:
    """Whether writing what *error* holds, at any depth, would take long; it looks at `MAX_FACTS` items at most."""
    left = MAX_FACTS
    waiting: list[object] = [_FACTS(error)]
    while waiting and left >= 0:
        found = waiting.pop()
        count, items = _held(found)
        left -= count
        if left >= 0:
            waiting += items
    return left < 0


def _held(found: object) -> tuple[int, Iterable[object]]:
    """Return how much *found* holds, and what: of a container, and of a value of ours."""
    for kind, count, items in _HOLDERS:
        if issubclass(type(found), kind):
            return count(found), items(found)
    if issubclass(type(found), Value):  # and not `isinstance`, which believes what an object says of its class
        names = cast("type[Value]", type(found)).__fields__
        return len(names), (getattr(found, name, None) for name in names)
    return 0, ()


def crash(error: BaseException) -> str:
    """Return what is said of *error*, which a plugin has raised; an interrupt goes on its way."""
    pass_interrupt(error)
    return described(error)


def pass_interrupt(error: BaseException) -> None:
    """Raise *error* again if it is an interrupt: all else that sync code of others raises ends nothing but itself."""
    if isinstance(error, KeyboardInterrupt):
        raise error


def _told(error: BaseException) -> str:
    return f"{named(error)}: {words(error)}"

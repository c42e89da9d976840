"""JSON as text: what we write has one form, what we read is checked before anything is made of it.

`from_text` reads what strangers send. Python's own reader takes `NaN`, keeps the last of two equal keys, makes infinity
of `1e999` and lets half a surrogate pair through, which breaks whoever writes it on.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NoReturn, cast

from agentrail.codec.misfit import MisfitError, shortened
from agentrail.errors import BadText, NotJson
from agentrail.values.json import INT_MAX, INT_MIN, MAX_DEPTH, Json, freeze

DOCUMENT_DEPTH: Final = 2 * MAX_DEPTH
"""Levels that a text may have: those of one JSON value, and as many for what it is wrapped in."""

_LONGEST_INT: Final = 20
"""Characters of a number that may fit 64 bits, its sign included."""


def _plain(found: object) -> object:
    """Give the encoder something it knows: it asks for all but dicts, lists, tuples and scalars."""
    if isinstance(found, Mapping):
        return dict(cast("Mapping[str, object]", found))
    raise TypeError(type(found).__name__)


_ENCODER: Final = json.JSONEncoder(
    separators=(",", ":"), ensure_ascii=False, allow_nan=False, check_circular=False, default=_plain
)


def to_text(value: Json) -> str:
    """Return the text of *value*: no spaces, no needless escapes, keys in their order, so that it reads back alike.

    For one text per value, whatever the order of its keys, there is `agentrail.values.json.canonical`.
    """
    try:
        text = _ENCODER.encode(value)
        if not text.isascii():
            text.encode()
        _check_depth(text, value, DOCUMENT_DEPTH)
    except (ValueError, TypeError, RecursionError) as why:
        freeze(value)  # says what it is, and where
        raise NotJson("$", "a value that cannot be written") from why
    return text


def from_text(text: str | bytes, depth: int = DOCUMENT_DEPTH) -> Json:
    """Return the value of a JSON *text* of at most *depth* levels; anything doubtful is a `BadText`."""
    try:
        if isinstance(text, bytes):
            text = text.decode()
        value = cast("object", _DECODER.decode(text))
        _check_surrogates(text, value)
        _check_depth(text, value, depth)
    except (ValueError, RecursionError, MisfitError) as why:
        raise BadText(_problem(why, depth)) from None
    return cast("Json", value)


def from_own_text(text: bytes) -> Json:
    """Return the value of a JSON *text* of ours, for which a check vouches, at a third of what `from_text` costs.

    What is made of it is still held to its class, number by number and text by text.
    """
    try:
        return cast("Json", json.loads(text.decode()))
    except (ValueError, RecursionError) as why:
        raise BadText(_problem(why, DOCUMENT_DEPTH)) from None


def _problem(why: Exception, depth: int) -> str:
    match why:
        case json.JSONDecodeError():
            return f"{why.msg[:1].lower()}{why.msg[1:]} at line {why.lineno}, column {why.colno}"
        case UnicodeDecodeError():
            return f"byte {why.start} is not UTF-8"
        case UnicodeEncodeError():
            return "it holds half of a surrogate pair"
        case MisfitError():
            return why.problem
        case _:
            return f"it has more than {depth} levels"


def _check_surrogates(text: str, value: object) -> None:
    """Raise `UnicodeEncodeError` if half a surrogate pair is in *value*, as itself or by its escape in *text*."""
    if not text.isascii():
        text.encode()
    if "\\ud" in text or "\\uD" in text:
        _ENCODER.encode(value).encode()


def check_levels(text: str) -> None:
    """Raise `RecursionError` if the JSON *text* has more levels than `from_text` reads; most have too few brackets."""
    if text.count("[") + text.count("{") <= DOCUMENT_DEPTH:
        return
    level = 0
    for bracket in _BRACKETS.findall(_STRINGS.sub("", text)):
        level += 1 if bracket in "[{" else -1
        if level > DOCUMENT_DEPTH:
            raise RecursionError


_STRINGS: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"')
_BRACKETS: Final = re.compile(r"[][{}]")


def _check_depth(text: str, value: object, depth: int) -> None:
    """Raise `RecursionError` if *value* has more levels; most texts have fewer brackets than that, and need no walk."""
    if text.count("[") + text.count("{") <= depth:
        return
    level = _containers([value])
    for _ in range(depth):
        below: list[object] = []
        for found in level:
            below.extend(found.values() if isinstance(found, Mapping) else found)
        level = _containers(below)
        if not level:
            return
    raise RecursionError


def _containers(found: list[object]) -> list[Mapping[str, object] | Sequence[object]]:
    return [cast("Sequence[object]", one) for one in found if isinstance(one, dict | list | tuple | MappingProxyType)]


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    made = dict(pairs)
    if len(made) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise MisfitError("", f"an object has the key `{shortened(key)}` twice")
            seen.add(key)
    return made


def _int(digits: str) -> int:
    number = int(digits) if len(digits) <= _LONGEST_INT else INT_MAX + 1
    if not INT_MIN <= number <= INT_MAX:
        raise MisfitError("", "a whole number in it does not fit 64 bits")
    return number


def _float(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise MisfitError("", "a number in it is too big")
    return number


def _constant(name: str) -> NoReturn:
    raise MisfitError("", f"`{name}` is no JSON number")


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_int, parse_float=_float, parse_constant=_constant
)

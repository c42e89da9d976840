"""JSON text: `to_text` writes it in one form, `from_text` reads it with strict checks.

`from_text` is for text from outside. Python's own reader accepts `NaN`, keeps the last of two equal keys, turns `1e999`
into infinity, and accepts half a surrogate pair, which could not be written to a file later.
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
"""The most levels of a text: those of one JSON value, and as many for the objects it is wrapped in."""

_LONGEST_INT: Final = 20
"""The most characters, sign included, of a whole number that may fit 64 bits."""


def _plain(found: object) -> object:
    """Return a mapping as a `dict`, refuse all else; the encoder calls this for types that it does not know."""
    if isinstance(found, Mapping):
        return dict(cast("Mapping[str, object]", found))
    raise TypeError(type(found).__name__)


_ENCODER: Final = json.JSONEncoder(
    separators=(",", ":"), ensure_ascii=False, allow_nan=False, check_circular=False, default=_plain
)


def to_text(value: Json) -> str:
    """Return *value* as JSON text without spaces or needless escapes, with keys in the order of *value*.

    `agentrail.values.json.canonical` sorts the keys, so that equal values have equal texts.
    """
    try:
        text = _ENCODER.encode(value)
        if not text.isascii():
            text.encode()
        if _may_exceed(text, DOCUMENT_DEPTH):
            check_depth(value, DOCUMENT_DEPTH)
    except (ValueError, TypeError, RecursionError) as why:
        freeze(value)  # raises a better error, with the path, for most values
        raise NotJson("$", "a value that cannot be written") from why
    return text


def from_text(text: str | bytes, depth: int = DOCUMENT_DEPTH) -> Json:
    """Return the value of a JSON *text*; raise `BadText` if it is not strict JSON, or has more than *depth* levels."""
    try:
        if isinstance(text, bytes):
            text = text.decode()
        value = cast("object", _DECODER.decode(text))
        _check_surrogates(text, value)
        if _may_exceed(text, depth):
            check_depth(value, depth)
    except (ValueError, RecursionError, MisfitError) as why:
        raise BadText(_problem(why, depth)) from None
    return cast("Json", value)


def from_own_text(text: bytes) -> Json:
    """Return the value of JSON *text* of our own whose checksum was verified; three times as fast as `from_text`.

    Types, numbers and texts are checked later, when `decode` makes values of the result.
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
    """Raise `UnicodeEncodeError` if *text* holds half a surrogate pair, as a character or as an escape."""
    if not text.isascii():
        text.encode()
    if "\\ud" in text or "\\uD" in text:
        _ENCODER.encode(value).encode()


def _may_exceed(text: str, depth: int) -> bool:
    """Whether *text* has more opening brackets than *depth*; most texts have fewer, and need no look at their value."""
    return text.count("[") + text.count("{") > depth


def check_levels(text: bytes) -> None:
    """Raise `RecursionError` if the JSON *text* has more than `DOCUMENT_DEPTH` levels.

    Most texts have fewer opening brackets than that, so only those are counted.
    """
    if text.count(b"[") + text.count(b"{") <= DOCUMENT_DEPTH:
        return
    level = 0
    for bracket in _BRACKETS.findall(_STRINGS.sub(b"", text)):
        level += 1 if bracket in b"[{" else -1
        if level > DOCUMENT_DEPTH:
            raise RecursionError


_STRINGS: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"')
_BRACKETS: Final = re.compile(rb"[][{}]")


def check_depth(value: object, depth: int) -> None:
    """Raise `RecursionError` if *value*, JSON data, has more than *depth* levels."""
    level = _containers([value])
    for _ in range(depth):
        below: list[object] = []
        for found in level:
            below.extend(found.values() if isinstance(found, Mapping) else found)
        level = _containers(below)
        if not level:
            return
    if level:
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

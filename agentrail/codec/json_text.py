"""JSON text: `to_text` writes it in one form, `from_text` reads it with strict checks.

`from_text` is for text from outside. Python's own reader accepts `NaN`, keeps the last of two equal keys, turns `1e999`
into infinity, and accepts half a surrogate pair, which could not be written to a file later.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping
from typing import Final, NoReturn, cast

from agentrail.codec.decode_error import MisfitError, shorten
from agentrail.errors import BadText, NotJson
from agentrail.values.json import MAX_DEPTH, TOO_DEEP, Json, freeze

DOCUMENT_DEPTH: Final = 2 * MAX_DEPTH
"""The most levels of a text: those of one JSON value, and as many for the objects it is wrapped in."""

_MAX_INT: Final = 20
"""The most characters, sign included, of a whole number that may fit 64 bits."""


def _plain(value: object) -> object:
    """Return *value*, a mapping, as a `dict`; raise `TypeError` for others. The encoder calls it for unknown types."""
    if isinstance(value, Mapping):
        return dict(cast("Mapping[str, object]", value))
    raise TypeError(type(value).__name__)


_ENCODER: Final = json.JSONEncoder(
    separators=(",", ":"), ensure_ascii=False, allow_nan=False, check_circular=False, default=_plain
)


def to_text(value: Json) -> str:
    """Return *value* as JSON text without spaces or needless escapes, with keys in the order of *value*.

    `agentrail.values.json.canonical` sorts the keys, so that equal values have equal texts.
    """
    try:
        text = _ENCODER.encode(value)
        check_levels(text.encode())
    except (ValueError, TypeError, RecursionError) as why:
        freeze(value)  # raises a better error, with the path, for most values
        raise NotJson("$", "a value that cannot be written") from why
    return text


def from_text(text: str | bytes, depth: int = DOCUMENT_DEPTH) -> Json:
    """Return the value of a JSON *text*; raise `BadText` if it is not strict JSON, or has more than *depth* levels."""
    try:
        value = cast("Json", _DECODER.decode(text.decode() if isinstance(text, bytes) else text))
        frozen(value, depth)
    except (ValueError, RecursionError, MisfitError) as why:
        raise BadText(_problem(why, depth)) from None
    return value


def from_own_text(text: bytes) -> Json:
    """Return the value of JSON *text* that we wrote and whose checksum was verified; thrice as fast as `from_text`.

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
        case MisfitError():
            return f"{why.subject} {why.problem}"
        case _:
            return f"it has more than {depth} levels"


def frozen(data: object, depth: int = MAX_DEPTH) -> Json:
    """Return *data*, JSON that we wrote, as frozen JSON; the number of items is not limited.

    Raises `MisfitError` for what JSON cannot hold, and `RecursionError` for more than *depth* levels.
    """
    try:
        return freeze(data, "", MAX_DEPTH - depth, [sys.maxsize - 1])
    except NotJson as not_json:
        path, problem = not_json.args
        if problem == TOO_DEEP:
            raise RecursionError from None
        raise MisfitError(path, f"is {problem}, which JSON cannot hold") from None


def with_tuples(value: object, depth: int = 1) -> Json:
    """Return *value*, decoded from the text of frozen JSON, with tuples in place of lists, so that both are equal.

    Raises `RecursionError` for more than `MAX_DEPTH` levels. `frozen` checks each key, text and number as well. The
    lists and objects in *value* are used up.
    """
    if type(value) not in NESTED:
        return cast("Json", value)
    if depth > MAX_DEPTH:
        raise RecursionError
    if type(value) is list:
        items = cast("list[Json]", value)
        if NESTED.isdisjoint(map(type, items)):
            return tuple(items)
        return tuple([with_tuples(item, depth + 1) if type(item) in NESTED else item for item in items])
    members = cast("dict[str, Json]", value)
    if not NESTED.isdisjoint(map(type, members.values())):
        if depth == MAX_DEPTH:
            raise RecursionError
        for key, item in members.items():
            if item and type(item) in NESTED:
                members[key] = with_tuples(item, depth + 1)
            elif type(item) is list:
                members[key] = ()
    return cast("Json", members)


NESTED: Final = frozenset[object]({dict, list})
"""Types of parts of JSON with parts of their own, as they are decoded."""


def check_levels(text: bytes) -> None:
    """Raise `RecursionError` if the JSON *text* has more than `DOCUMENT_DEPTH` levels.

    Most texts have fewer opening brackets than that, so only those are counted.
    """
    if text.count(b"[") + text.count(b"{") <= DOCUMENT_DEPTH:
        return
    brackets = text.replace(b"\\\\", b"").replace(b'\\"', b"").translate(_TO_SQUARE, _DROPPED)
    rest = brackets.replace(b'""', b"")
    if b'"' in rest:  # brackets inside texts were counted too: count again without texts
        rest = b"".join(brackets.split(b'"')[::2])
    for _ in range(DOCUMENT_DEPTH + 1):
        if not rest:
            return
        rest = rest.replace(b"[]", b"")  # the innermost level
    raise RecursionError


_TO_SQUARE: Final = bytes.maketrans(b"{}", b"[]")
_DROPPED: Final = bytes({*_TO_SQUARE} - {*b'[]"'})
"""For `bytes.translate`: makes all brackets alike, and drops all else but quotes."""


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    object_ = dict(pairs)
    if len(object_) != len(pairs):
        (key, _), *_others = Counter(key for key, _ in pairs).most_common(1)
        raise MisfitError("", f"has an object with the key `{shorten(key)}` twice")
    return object_


def _int(digits: str) -> int:
    return int(digits[: _MAX_INT + 1])  # longer numbers take long to read, and do not fit into 64 bits anyway


def _constant(name: str) -> NoReturn:
    raise MisfitError("", f"has `{name}`, which is no JSON number")


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_object, parse_int=_int, parse_constant=_constant)

"""Checks of values without parts (text, numbers, JSON), used both when they are written and when they are read."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from agentrail.codec.misfit import MisfitError, described
from agentrail.codec.shapes import Leaf
from agentrail.errors import NotJson
from agentrail.values.json import INT_MAX, INT_MIN, FrozenObject, freeze


class Rule(Protocol):
    """A function that checks a value and returns it converted (from JSON, for a reader), or raises `MisfitError`."""

    def __call__(self, found: object, _: object = None, /) -> object:
        """Return *found* converted; the second argument is the type, which cattrs passes and no rule needs."""
        ...


def wrong(at: str, found: object, wanted: str) -> MisfitError:
    """Return the error for *found*, at path *at*, whose type is not the one *wanted*."""
    return MisfitError(at, f"{described(found)} where {wanted} is wanted")


def _text(at: str) -> Rule:
    def text(found: object, _: object = None) -> object:
        if type(found) is not str:
            raise wrong(at, found, "text")
        if not found.isascii():
            try:
                found.encode()
            except UnicodeEncodeError:
                raise MisfitError(at, "is text with half a surrogate pair") from None
        return found

    return text


def _bool(at: str) -> Rule:
    def boolean(found: object, _: object = None) -> object:
        if found is True or found is False:
            return found
        raise wrong(at, found, "a boolean")

    return boolean


def _nothing(at: str) -> Rule:
    def nothing(found: object, _: object = None) -> object:
        if found is None:
            return None
        raise wrong(at, found, "nothing")

    return nothing


def _int(at: str) -> Rule:
    def whole(found: object, _: object = None) -> object:
        if type(found) is not int:
            raise wrong(at, found, "a whole number")
        if INT_MIN <= found <= INT_MAX:
            return found
        raise MisfitError(at, "is a whole number that does not fit 64 bits")

    return whole


def _float(at: str) -> Rule:
    """Return the rule for a `float`; it also accepts an `int`, as type checkers do, and leaves it one."""
    whole = _int(at)

    def number(found: object, _: object = None) -> object:
        if type(found) is float:
            if math.isfinite(found):
                return found
            raise MisfitError(at, f"is {found}, which JSON cannot hold")
        if type(found) is int:
            return whole(found)
        raise wrong(at, found, "a number")

    return number


def _json(at: str) -> Rule:
    def anything(found: object, _: object = None) -> object:
        try:
            return freeze(found, "", room=[sys.maxsize - 1])  # stored JSON is read, however many items it has
        except NotJson as not_json:
            inner, what = not_json.args
            where = f"{at}{inner}"
            raise MisfitError(where, f"is {what}, which JSON cannot hold") from None

    return anything


def _object(at: str) -> Rule:
    anything = _json(at)

    def json_object(found: object, _: object = None) -> object:
        frozen = anything(found)
        if isinstance(frozen, FrozenObject):
            return frozen
        raise wrong(at, found, "a JSON object")

    return json_object


LEAVES: Final[Mapping[Leaf, Callable[[str], Rule]]] = {
    Leaf.NOTHING: _nothing,
    Leaf.BOOL: _bool,
    Leaf.INT: _int,
    Leaf.FLOAT: _float,
    Leaf.TEXT: _text,
    Leaf.JSON: _json,
    Leaf.OBJECT: _object,
}
"""For each kind of leaf, the function that makes its rule for a value at a given path."""

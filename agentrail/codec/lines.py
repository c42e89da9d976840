"""Writers of values without parts ("leaves"), as functions and as source expressions for generated code.

An expression handles the common case itself, and calls the function only for others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from json.encoder import encode_basestring as quoted
from typing import Final, TypeAlias, cast

from agentrail.codec.leaves import LEAVES
from agentrail.codec.shapes import Choice, Leaf, Shape
from agentrail.codec.text import to_text
from agentrail.values.json import INT_MAX, INT_MIN, Json

Writer: TypeAlias = Callable[[object], str]
"""A function that returns the JSON text of a value, or raises `MisfitError`."""

KNOWN: Final[Mapping[str, object]] = {
    "NULL": "null",
    "INT_MIN": INT_MIN,
    "INT_MAX": INT_MAX,
    "isfinite": math.isfinite,
    "quoted": quoted,
}
"""The names that the expressions use, and their values."""

_COMMON: Final[Mapping[Leaf, tuple[str, str]]] = {
    Leaf.FLOAT: ("type({it}) is float and isfinite({it})", "repr({it})"),
    Leaf.INT: ("type({it}) is int and INT_MIN <= {it} <= INT_MAX", "{it}"),
    Leaf.TEXT: ("type({it}) is str and {it}.isascii()", "quoted({it})"),
}
"""For some leaves: the condition of the common case, and the JSON text then, both as expressions."""

IN_LINE: Final = frozenset[Shape](_COMMON)
"""The leaves whose common case an expression handles without a call."""


def leaf_writer(leaf: Leaf, at: str) -> Writer:
    """Return the function that writes a value of the kind *leaf*; *at* is the value's path, for errors."""
    rule = LEAVES[leaf](at)
    if leaf is Leaf.TEXT:
        return lambda found: quoted(cast("str", rule(found)))
    return lambda found: to_text(cast("Json", rule(found)))


def in_line(shape: Shape) -> str:
    """Return the source of an expression that writes `{it}`, a value of *shape*; it may call `{writer}`."""
    return _spared(shape, "NULL", "{writer}({it})", written=True)


def read_in_line(shape: Shape) -> str:
    """Return the source of an expression that reads `{it}`, a value of *shape*; it may call `{rule}`."""
    return _spared(shape, "None", "{rule}({it})", written=False)


def _spared(shape: Shape, nothing: str, call: str, *, written: bool) -> str:
    if isinstance(shape, Choice) and shape.optional:
        inner = _spared(shape.shapes[0], nothing, call, written=written) if len(shape.shapes) == 1 else call
        return f"{nothing} if {{it}} is None else {inner}"
    if not isinstance(shape, Leaf) or shape not in _COMMON:
        return call
    common, text = _COMMON[shape]
    return f"{text if written else '{it}'} if {common} else {call}"

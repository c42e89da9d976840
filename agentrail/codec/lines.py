"""How leaves are written: as a function, and as an expression that spares the call in the common case."""

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
"""Returns the JSON text of what it is given, or raises `MisfitError`."""

KNOWN: Final[Mapping[str, object]] = {
    "NULL": "null",
    "INT_MIN": INT_MIN,
    "INT_MAX": INT_MAX,
    "isfinite": math.isfinite,
    "quoted": quoted,
}
"""What the expressions name."""

_IN_LINE: Final[Mapping[Leaf, str]] = {
    Leaf.FLOAT: "repr({it}) if type({it}) is float and isfinite({it}) else {writer}({it})",
    Leaf.INT: "{it} if type({it}) is int and INT_MIN <= {it} <= INT_MAX else {writer}({it})",
    Leaf.TEXT: "quoted({it}) if type({it}) is str and {it}.isascii() else {writer}({it})",
}
_CALL: Final = "{writer}({it})"


def leaf_writer(leaf: Leaf, at: str) -> Writer:
    """Return what writes a *leaf* that stands *at* its place."""
    rule = LEAVES[leaf](at)
    if leaf is Leaf.TEXT:
        return lambda found: quoted(cast("str", rule(found)))
    return lambda found: to_text(cast("Json", rule(found)))


def in_line(shape: Shape) -> str:
    """Return an expression that writes what has *shape*, of `{it}` and of `{writer}`, which it may call."""
    if isinstance(shape, Choice) and shape.optional:
        inner = in_line(shape.shapes[0]) if len(shape.shapes) == 1 else _CALL
        return f"NULL if {{it}} is None else {inner}"
    return _IN_LINE.get(shape, _CALL) if isinstance(shape, Leaf) else _CALL

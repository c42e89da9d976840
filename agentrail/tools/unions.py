"""Finds unions that msgspec reads otherwise than their schema says.

msgspec holds a value to what it knows of the JSON type of the value, so all members of that type share their limits.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from types import UnionType
from typing import Final, Literal, TypeAlias, Union, cast, get_args, get_origin

import msgspec

Limits: TypeAlias = Mapping[str, float]

_LIMITED: Final[frozenset[object]] = frozenset({str, int, float})
_LIMITS: Final = ("ge", "gt", "le", "lt", "multiple_of", "min_length", "max_length", "pattern")


def bare(type_: object) -> object:
    """Return *type_* without the notes of an `Annotated` around it."""
    return get_args(type_)[0] if hasattr(type_, "__metadata__") else type_


def metas_of(type_: object) -> list[msgspec.Meta]:
    """Return msgspec's notes of an `Annotated` around *type_*."""
    notes = cast("tuple[object, ...]", getattr(type_, "__metadata__", ()))
    return [note for note in notes if isinstance(note, msgspec.Meta)]


def misread(members: Sequence[object]) -> str | None:
    """Return why msgspec refuses values that the schema of a union of *members* takes; `None` if it does not.

    The words follow "which".
    """
    parts = [part for member in members for part in _parts(member)]
    choices = [choice for part in parts for choice in _choices(bare(part))]
    limits = {bare(part): _limits(part) for part in parts if bare(part) in _LIMITED}
    for kind, what in ((str, "texts"), (int, "numbers")):
        if limits.get(kind) and any(isinstance(choice, kind) for choice in choices):
            return f"has limits of `{kind.__name__}` beside {what} to choose from, which need not keep them; use one"
    if float not in limits:
        return None
    if int not in limits and any(isinstance(choice, int) for choice in choices):
        return "has whole numbers to choose from beside `float`; use texts, or add `int` to a `Literal`"
    if not _includes(limits.get(int, {}), limits[float]):
        return "has limits of `int` that a whole number of the `float` need not keep; `float` alone takes both"
    return None


def _parts(type_: object) -> Iterator[object]:
    """Yield the members of *type_* if it is a union; else itself."""
    inside = bare(type_)
    if get_origin(inside) in {Union, UnionType}:
        for member in get_args(inside):
            yield from _parts(member)
    else:
        yield type_


def _choices(base: object) -> Sequence[object]:
    if isinstance(base, type) and issubclass(base, Enum):
        return [member.value for member in base]
    return get_args(base) if get_origin(base) is Literal else ()


def _limits(type_: object) -> Limits:
    limits = ((name, getattr(meta, name)) for meta in metas_of(type_) for name in _LIMITS)
    return {name: limit for name, limit in limits if limit is not None}


def _includes(outer: Limits, inner: Limits) -> bool:
    """Whether each whole number that *inner* admits is one that *outer* admits."""
    (least, most), (inner_least, inner_most) = _ends(outer), _ends(inner)
    return "multiple_of" not in outer and least <= inner_least and inner_most <= most


def _ends(limits: Limits) -> tuple[float, float]:
    """Return the least and the greatest whole number within *limits*."""
    least, most = -math.inf, math.inf
    if "ge" in limits:
        least = math.ceil(limits["ge"])
    elif "gt" in limits:
        least = math.floor(limits["gt"]) + 1
    if "le" in limits:
        most = math.floor(limits["le"])
    elif "lt" in limits:
        most = math.ceil(limits["lt"]) - 1
    return least, most

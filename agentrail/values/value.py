"""How a value is made: frozen, slotted, compared and shown by its fields.

`value` is `attrs.define` with the three methods that every class would get a copy of (`==`, `hash`, `repr`) written
once in `Value`: generating them costs more at import than all the rest of a class.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Final, Self, TypeVar, cast

import attrs
from typing_extensions import dataclass_transform

T = TypeVar("T")


class Value:
    """Equal by fields, hashable by fields, shown by the fields that differ from their default."""

    __slots__ = ()
    __attrs_attrs__: ClassVar[tuple[attrs.Attribute[object], ...]] = ()
    __fields__: ClassVar[tuple[str, ...]] = ()

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__fields__)

    def __hash__(self) -> int:
        return hash((type(self).__name__, *(getattr(self, name) for name in self.__fields__)))

    def __repr__(self) -> str:
        shown = (
            f"{field.name}={getattr(self, field.name)!r}"
            for field in self.__attrs_attrs__
            if field.default is attrs.NOTHING or getattr(self, field.name) != field.default
        )
        return f"{type(self).__name__}({', '.join(shown)})"

    def but(self, **changes: object) -> Self:
        """Return a copy with *changes*; a field that does not exist is an `AttributeError`."""
        cls = type(self)
        made = _COPIERS.get(cls)
        if made is None:
            made = _COPIERS[cls] = copier(cls, loose(cls))
        copy = cast("Self", made(self))
        for name, new in changes.items():
            setattr(copy, name, new)
        copy.__class__ = cls
        return copy


Copier = Callable[[object], object]

_COPIERS: dict[type, Copier] = {}

SETTABLE: Final = {"__setattr__": object.__setattr__, "__delattr__": object.__delattr__}
"""Makes the fields of a class settable; with one of the two alone, Python sets them ten times as slowly."""


def loose(cls: type[T]) -> type[T]:
    """Return a sibling of *cls* with the same fields, which may be set: its values are frozen by giving them *cls*."""
    return type(cls.__name__, (cls,), {"__slots__": (), **SETTABLE})


def copier(cls: type[Value], into: type) -> Copier:
    """Write a function that copies values of *cls* into new ones of *into*; a loop over the fields would be slower."""
    puts = "".join(f"    copy.{name} = old.{name}\n" for name in cls.__fields__)
    namespace: dict[str, object] = {"new": object.__new__, "into": into}
    exec(f"def copier(old):\n    copy = new(into)\n{puts}    return copy\n", namespace)  # noqa: S102 - names of fields
    return cast("Copier", namespace["copier"])


@dataclass_transform(frozen_default=True, field_specifiers=(attrs.field,))
def value(cls: type[T]) -> type[T]:
    """Make *cls*, a subclass of `Value`, a frozen value."""
    made = attrs.define(cls, frozen=True, eq=False, repr=False, weakref_slot=False)
    names = tuple(field.name for field in cast("type[Value]", made).__attrs_attrs__)
    cast("type[Value]", made).__fields__ = names
    return made


@dataclass_transform(field_specifiers=(attrs.field,))
def draftable(cls: type[T]) -> type[T]:
    """Make *cls* a frozen value that has a draft: checkers let its fields be set, because the draft's may be."""
    return value(cls)

"""How a value is made: frozen, slotted, compared and shown by its fields.

`value` is `attrs.define` with the three methods that every class would get a copy of (`==`, `hash`, `repr`) written
once in `Value`: generating them costs more at import than all the rest of a class.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Self, TypeVar, cast

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
        copy: Self = (_COPIERS.get(cls) or _copier(cls))(self)  # type: ignore[assignment]  # of this very class
        for name, new in changes.items():
            _put(copy, name, new)
        return copy


_put = object.__setattr__
_COPIERS: dict[type, Callable[[object], object]] = {}


def _copier(cls: type[Value]) -> Callable[[object], object]:
    """Write a function that copies values of *cls*: a loop over the fields would take four times as long."""
    puts = {f"put_{name}": getattr(cls, name).__set__ for name in cls.__fields__}
    lines = "".join(f"    put_{name}(copy, old.{name})\n" for name in cls.__fields__)
    namespace: dict[str, object] = {"new": object.__new__, "cls": cls, **puts}
    exec(f"def copier(old):\n    copy = new(cls)\n{lines}    return copy\n", namespace)  # noqa: S102 - names of fields
    copier = cast("Callable[[object], object]", namespace["copier"])
    _COPIERS[cls] = copier
    return copier


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

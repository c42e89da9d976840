"""The decorators that make a class a value: frozen, with slots, compared and shown by its fields.

`value` is `attrs.define`, made faster in two ways. `==`, `hash` and `repr` are written once, in `Value`, because
generating them for each class takes most of the time of an import. And a frozen class sets its fields through
`object.__setattr__`, which took a fifth of the time of a turn. So a new value with more than two fields first belongs
to a sibling class whose fields can be set, and is given its own class once its fields are set.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import ClassVar, Final, Protocol, Self, TypeVar, cast

import attrs
from typing_extensions import dataclass_transform

from agentrail.values.spelling import checked, refuse_unknown

T = TypeVar("T")


class Value:
    """Base class of values: `==` and `hash` use all fields; `repr` shows those that differ from their default."""

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
        """Return a copy with *changes*; raise `AttributeError` for a field that does not exist."""
        cls = type(self)
        copy = _COPIERS[cls](self)
        for name, new in changes.items():
            setattr(copy, name, new)
        # Left in its settable class, the copy would equal no other value, and its fields could be set:
        # tests/values/test_value.py::test_values_are_frozen
        copy.__class__ = cls
        return copy  # type: ignore[return-value] # pyright: ignore[reportReturnType]  # a cast is a call


class Authored(Value):
    """Base class of values that users write: a misspelt field raises `UnknownField`, which names the nearest field.

    The check takes time whenever a value is made, so other values leave it to Python's `TypeError`.
    """

    __slots__ = ()
    __often__: ClassVar[bool] = False
    """Whether values of the class are made so often (at each hook) that the check is left out."""


Copier = Callable[[object], object]


class _Copiers(dict[type["Value"], Copier]):
    """Copiers by class; each is generated when the first value of its class is copied."""

    def __missing__(self, cls: type[Value]) -> Copier:
        made = self[cls] = copier(cls, loose(cls))
        return made


_COPIERS: Final = _Copiers()

SETTABLE: Final = {"__setattr__": object.__setattr__, "__delattr__": object.__delattr__}
"""Methods that make the fields of a class settable; with only one of them, setting a field takes ten times as long."""


def loose(cls: type) -> type:
    """Return a subclass of *cls* with the same fields, which can be set."""
    return type(cls.__name__, (cls,), {"__slots__": (), **SETTABLE})


def copier(cls: type[Value], into: type) -> Copier:
    """Generate a function that copies a value of *cls* as an instance of *into*; a loop over the fields is slower."""
    puts = "".join(f"    copy.{name} = old.{name}\n" for name in cls.__fields__)
    code = f"def copier(old):\n    copy = new(into)\n{puts}    return copy\n"
    return cast("Copier", _written(code, "copier", {"new": object.__new__, "into": into}))


def _written(code: str, name: str, known: Mapping[str, object]) -> object:
    """Run generated *code*, in which the names *known* are defined, and return the object that it names *name*."""
    namespace = dict(known)
    exec(code, namespace)  # noqa: S102 - names of fields
    return namespace[name]


class _Member(Protocol):
    """The descriptor of a field in its class; its `__set__` sets the field even if the class is frozen."""

    def __set__(self, instance: object, new: object, /) -> None: ...


_BECOME: Final = cast("_Member", vars(object)["__class__"]).__set__
"""Sets the class of an object, even of a frozen one."""

FEW: Final = 2
"""Most fields of a class whose `__init__` sets each through its descriptor; for more, changing the class is faster."""


def _initializer(cls: type[Value], slow: Callable[..., None]) -> Callable[..., None]:
    """Generate a fast `__init__` for *cls*; for instances of subclasses it calls *slow*, the one that attrs made."""
    few = len(cls.__attrs_attrs__) <= FEW
    known: dict[str, object] = {"refuse": _refuse_unknown}
    known |= {} if few else {"cls": cls, "loose": loose(cls), "slow": slow, "become": _BECOME}
    fields = sorted(cls.__attrs_attrs__, key=lambda field: field.kw_only)
    takes, passes, puts = "self", "self", ""
    for field in fields:
        name = field.name
        if field.kw_only and "*" not in takes:
            takes += ", *"
        given = field.alias
        takes += f", {given}"
        if field.default is not attrs.NOTHING:
            known[f"default_{name}"] = field.default
            takes += f"=default_{name}"
        passes += f", {given}={given}"
        if few:
            known[f"put_{name}"] = cast("_Member", getattr(cls, name)).__set__
        puts += f"    put_{name}(self, {given})\n" if few else f"    self.{name} = {given}\n"
    refuses = ""
    if issubclass(cls, Authored) and not cls.__often__:
        takes += ", **unknown"
        refuses = "    if unknown:\n        refuse(self, unknown)\n"
    if not few:
        ours = f"    if type(self) is not cls:\n        return slow({passes})\n    become(self, loose)\n"
        puts = f"{ours}{puts}    self.__class__ = cls\n"
    return cast("Callable[..., None]", _written(f"def __init__({takes}):\n{refuses}{puts}", "__init__", known))


def _refuse_unknown(made: Value, given: Mapping[str, object]) -> None:
    """Raise `UnknownField` for the first name in *given*, as none of them is a field of *made*."""
    refuse_unknown(type(made).__name__, given, [field.alias for field in made.__attrs_attrs__ if field.alias])


def _is_plain(field: attrs.Attribute[object]) -> bool:
    """Whether *field* is set to its argument or a fixed default: no factory, converter or validator."""
    made = isinstance(field.default, _FACTORY)
    worked_on = any(cast("object", getattr(field, name)) is not None for name in ("converter", "validator"))
    return field.init and not made and not worked_on


_FACTORY: Final = type(cast("object", attrs.Factory(dict[str, str])))


def _quicken(cls: type[Value]) -> None:
    """Make *cls* generate its fast `__init__` when its first value is made."""
    slow = cast("Callable[..., None]", cls.__init__)

    @wraps(slow)
    def first(self: Value, /, *args: object, **kwargs: object) -> None:
        quick = wraps(slow)(_initializer(cls, slow))
        cls.__init__ = quick  # type: ignore[method-assign]  # the same, but quicker
        quick(self, *args, **kwargs)

    cls.__init__ = first  # type: ignore[method-assign, assignment]  # the same, but written later


@dataclass_transform(frozen_default=True, field_specifiers=(attrs.field,))
def value(cls: type[T]) -> type[T]:
    """Make *cls*, a subclass of `Value`, a frozen value."""
    return _made(cls, kw_only=False)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(attrs.field,))
def named_value(cls: type[T]) -> type[T]:
    """Make *cls*, a subclass of `Value` with many fields, a frozen value; its fields are given by name only."""
    return _made(cls, kw_only=True)


def _made(cls: type[T], *, kw_only: bool) -> type[T]:
    own = "__init__" in cls.__dict__
    made = attrs.define(cls, frozen=True, eq=False, repr=False, weakref_slot=False, kw_only=kw_only)
    ours = cast("type[Value]", made)
    ours.__fields__ = tuple(field.name for field in ours.__attrs_attrs__)
    if not own and ours.__fields__ and all(_is_plain(field) for field in ours.__attrs_attrs__):
        _quicken(ours)
    elif not own and issubclass(ours, Authored):
        ours.__init__ = checked(ours.__init__)  # type: ignore[method-assign]  # the same, but it tells what was meant
    return made


@dataclass_transform(field_specifiers=(attrs.field,))
def draftable(cls: type[T]) -> type[T]:
    """Make *cls* a frozen value that has a draft; type checkers let its fields be set, as those of a draft can be."""
    return value(cls)

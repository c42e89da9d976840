"""Base classes of values: frozen structs of msgspec, which are compared and shown by their fields."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from functools import cache
from inspect import Parameter, Signature, get_annotations
from typing import TYPE_CHECKING, Final, ParamSpec, Self, TypeVar, cast

import msgspec
from typing_extensions import dataclass_transform

from agentrail.values.argument_checks import refuse_unknown
from agentrail.values.old_names import with_new_names

P = ParamSpec("P")
T = TypeVar("T")

TAG: Final = "$"
"""Key of a JSON object that names the class of the value. Classes that stand beside others in a union are written with
it: the option `tag_field=TAG` of the class, which its subclasses inherit.
"""

_LEARNING: Final = threading.RLock()


if TYPE_CHECKING:

    @dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
    class ValueMeta(msgspec.StructMeta):
        """Metaclass of values; it tells type checkers that the fields cannot be set."""

else:
    # CPython makes a tuple and a dict to call a class whose metaclass is written in Python of the arguments
    ValueMeta = msgspec.StructMeta


class Value(msgspec.Struct, metaclass=ValueMeta, frozen=True, gc=False, omit_defaults=True, forbid_unknown_fields=True):
    """Base class of values: `==` and `hash` use all fields; `repr` shows those that differ from their default."""

    def __repr__(self) -> str:
        fields = (f"{name}={getattr(self, name)!r}" for name in self._told_fields())
        return f"{type(self).__name__}({', '.join(fields)})"

    def _told_fields(self) -> Iterable[str]:
        defaults = defaults_of(type(self))
        for name in self.__struct_fields__:
            if name not in defaults or getattr(self, name) != defaults[name]:
                yield name

    if TYPE_CHECKING:

        def but(self, **changes: object) -> Self:
            """Return a copy with *changes*; raise `TypeError` for a field that does not exist."""
            ...
    else:
        but = msgspec.Struct.__replace__  # assigned, not wrapped: a wrapper would take as long as the copy itself


if TYPE_CHECKING:

    @dataclass_transform(field_specifiers=(msgspec.field,))
    class _DraftableKind(msgspec.StructMeta): ...

    class Draftable(msgspec.Struct, metaclass=_DraftableKind):
        """Base class of values with a mutable draft: a subclass with `frozen=False`, whose fields can be set.

        A step copies `State` to a `Draft` of the same fields, changes those that it must, and freezes that very object
        by setting its class. Functions take either as a `State`: so type checkers let fields of `State` be set, while
        at run time only those of a draft can be.
        """

        def but(self, **changes: object) -> Self:
            """Return a copy with *changes*."""
            ...
else:
    Draftable = Value


def defaults_of(cls: ValueMeta) -> dict[str, object]:
    """Return the default of each field of *cls* that has one."""
    defaults = cls.__struct_defaults__
    names = cls.__struct_fields__[len(cls.__struct_fields__) - len(defaults) :]
    return {name: default for name, default in zip(names, defaults, strict=True) if default is not msgspec.NODEFAULT}


def positional_names(cls: ValueMeta) -> tuple[str, ...]:
    """Return the names of the fields of *cls* that may be given by position, in order."""
    return getattr(cls, "__match_args__", ())  # classes without positional fields lack the attribute


_construct = msgspec.StructMeta.__call__


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class AuthoredKind(ValueMeta):
    """Metaclass of `Authored`: a misspelt field raises `UnknownField`, which names the nearest field."""

    @property
    def __signature__(cls) -> Signature:  # noqa: N805 - `self` is a class
        """Signature of `cls`. msgspec's own resolves the annotations, and fails for names that only checkers import."""
        defaults = defaults_of(cls)
        positional = positional_names(cls)
        hints = {name: hint for base in reversed(cls.__mro__) for name, hint in get_annotations(base).items()}
        return Signature(
            [
                Parameter(
                    name,
                    Parameter.POSITIONAL_OR_KEYWORD if name in positional else Parameter.KEYWORD_ONLY,
                    default=defaults.get(name, Parameter.empty),
                    annotation=hints.get(name, Parameter.empty),
                )
                for name in cls.__struct_fields__
            ]
        )

    if not TYPE_CHECKING:  # type checkers derive the arguments from the fields

        def __call__(cls, *args: object, **kwargs: object) -> object:  # noqa: N805 - `self` is a class
            """Return a new value; raise `UnknownField` for a field that does not exist."""
            try:
                return _construct(cls, *args, **kwargs)
            except TypeError:
                new = with_new_names(cls.__name__, kwargs, cls.__struct_fields__)
                if new != kwargs:
                    return cls(*args, **new)
                refuse_unknown(cls.__name__, kwargs, cls.__struct_fields__)
                most = len(positional_names(cls))
                if len(args) > most:
                    problem = f"`{cls.__name__}` takes {most} values by place, and not {len(args)}; name the others"
                    raise TypeError(problem) from None
                raise


class Authored(Value, metaclass=AuthoredKind):
    """Base class of values that users write: a misspelt field raises `UnknownField`, which names the nearest field."""


def quick(cls: Callable[P, T]) -> Callable[P, T]:
    """Return a constructor of *cls* that skips the checks of `Authored`, for speed.

    For code of ours that makes one for each chunk, hook or file: names of fields are not looked at there.
    """
    # a bound method of C; a `partial` would take two thirds more time
    return cast("Callable[P, T]", _construct.__get__(cls)) if isinstance(cls, AuthoredKind) else cls


@cache
def learned(type_: object) -> object:
    """Return *type_*, a class or union, after msgspec has read all of it, which must be done before values are read.

    msgspec (0.22) notes in a class what it knows of it before it knows all: it looks at the hints of the fields, and
    another thread may run meanwhile. If that one reads a value of the class, the process ends with a segmentation
    fault. So it learns in one thread at a time.
    """
    with _LEARNING:
        msgspec.json.Decoder(type_)
    return type_

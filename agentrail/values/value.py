"""How a value is made: a frozen struct, compared and shown by its fields."""

from __future__ import annotations

from collections.abc import Iterable
from inspect import Parameter, Signature, get_annotations
from typing import TYPE_CHECKING, Self

import msgspec
from msgspec.structs import replace
from typing_extensions import dataclass_transform

from agentrail.values.spelling import refuse_unknown


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class Kind(msgspec.StructMeta):
    """Class of the values: for type checkers, it says that fields cannot be set."""

    @property
    def __signature__(cls) -> Signature:  # noqa: N805 - `self` is a class
        """The arguments of `cls`; msgspec would resolve the annotations, and some name what only checkers import."""
        defaults = defaults_of(cls)
        by_place = names_by_place(cls)
        hints = {name: hint for each in reversed(cls.__mro__) for name, hint in get_annotations(each).items()}
        return Signature(
            [
                Parameter(
                    name,
                    Parameter.POSITIONAL_OR_KEYWORD if name in by_place else Parameter.KEYWORD_ONLY,
                    default=defaults.get(name, Parameter.empty),
                    annotation=hints.get(name, Parameter.empty),
                )
                for name in cls.__struct_fields__
            ]
        )


class Value(msgspec.Struct, metaclass=Kind, frozen=True, gc=False):
    """Equal by fields, hashable by fields, shown by the fields that differ from their default."""

    def __repr__(self) -> str:
        shown = (f"{name}={getattr(self, name)!r}" for name in self._told())
        return f"{type(self).__name__}({', '.join(shown)})"

    def _told(self) -> Iterable[str]:
        defaults = defaults_of(type(self))
        for name in self.__struct_fields__:
            if name not in defaults or getattr(self, name) != defaults[name]:
                yield name

    def but(self, **changes: object) -> Self:
        """Return a copy with *changes*; a field that does not exist is an `AttributeError`."""
        try:
            return replace(self, **changes)
        except TypeError as error:
            for name in changes:
                if name not in self.__struct_fields__:
                    raise AttributeError(name, name=name, obj=self) from None
            raise error from None


if TYPE_CHECKING:

    @dataclass_transform(field_specifiers=(msgspec.field,))
    class _DraftableKind(msgspec.StructMeta): ...

    class Draftable(msgspec.Struct, metaclass=_DraftableKind):
        """A value that has a draft: to checkers its fields can be set, because those of the draft can."""

        def but(self, **changes: object) -> Self:
            """Return a copy with *changes*."""
            ...
else:
    Draftable = Value


def defaults_of(cls: Kind) -> dict[str, object]:
    """Return the default of each field of *cls* that has one."""
    defaults = cls.__struct_defaults__
    names = cls.__struct_fields__[len(cls.__struct_fields__) - len(defaults) :]
    return {name: default for name, default in zip(names, defaults, strict=True) if default is not msgspec.NODEFAULT}


def names_by_place(cls: Kind) -> tuple[str, ...]:
    """Return the fields of *cls* that may be given without their names, in order."""
    return getattr(cls, "__match_args__", ())  # a class without such fields lacks it


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class AuthoredKind(Kind):
    """Class of the values that users write: a misspelt field raises `UnknownField`, which names the nearest one."""

    if not TYPE_CHECKING:  # type checkers know what a call takes from the fields

        def __call__(cls, *args: object, **given: object) -> object:  # noqa: N805 - `self` is a class
            """Make a value."""
            try:
                return super().__call__(*args, **given)
            except TypeError:
                refuse_unknown(cls.__name__, given, cls.__struct_fields__)
                raise


class Authored(Value, metaclass=AuthoredKind):
    """A value that users write."""

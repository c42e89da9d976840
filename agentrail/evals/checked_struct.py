"""`CheckedStruct`: base of the values of evaluations that people write."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from typing_extensions import dataclass_transform

from agentrail.errors import UnknownField, WrongType


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class _CheckedKind(msgspec.StructMeta):
    """Metaclass by which a field that is misspelt is an error that names the nearest one."""

    if not TYPE_CHECKING:  # type checkers derive the arguments from the fields

        def __call__(cls, *args: object, **kwargs: object) -> object:  # noqa: N805 - `self` is a class
            """Return a new value."""
            for name in kwargs:
                if name not in cls.__struct_fields__:
                    raise UnknownField.among(cls.__name__, name, cls.__struct_fields__)
            return super().__call__(*args, **kwargs)


class CheckedStruct(
    msgspec.Struct, metaclass=_CheckedKind, frozen=True, forbid_unknown_fields=True, omit_defaults=True
):
    """Checks its fields by their types: a list counts as a tuple, a boolean or a whole number as a number."""

    def __post_init__(self) -> None:
        """Raise `WrongType` if a field has a value of another type."""
        for field in msgspec.structs.fields(type(self)):
            value: object = getattr(self, field.name)
            if field.type is float and isinstance(value, int):
                value = float(value)
            try:
                checked = msgspec.convert(value, field.type)
            except msgspec.ValidationError as error:
                hint = type(self).__annotations__[field.name]
                argument, words = f"{type(self).__name__}.{field.name}", f"a `{type(value).__name__}` ({error})"
                raise WrongType(argument, words, f"`{hint}`") from None
            msgspec.structs.force_setattr(self, field.name, checked)

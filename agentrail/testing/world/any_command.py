"""`draw_command`: draws a command from its class alone, so a new one is tried before anybody writes how to draw it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import cast

from msgspec import inspect

from agentrail.core.vocabulary.commands import Command
from agentrail.testing.world.choose import Choose


def draw_command(kind: type[Command], ids: Sequence[str], choose: Choose) -> Command:
    """Return a random command of the class *kind*; its texts are from *ids*, sometimes with an unknown one."""
    drawn = {field.name: _draw(field.type, ids, choose) for field in _fields(kind) if field.required or choose.below(2)}
    return cast("Callable[..., Command]", kind)(**drawn)


@cache
def _fields(kind: type[Command]) -> tuple[inspect.Field, ...]:
    """Return the fields whose types can be drawn; the other fields keep their defaults."""
    info = cast("inspect.StructType", inspect.type_info(kind))
    return tuple([field for field in info.fields if field.required or _is_drawn(field.type)])


def _is_drawn(type_: inspect.Type) -> bool:
    match type_:
        case inspect.UnionType(types=types):
            return any(map(_is_drawn, types))
        case inspect.VarTupleType(item_type=item):
            return _is_drawn(item)
        case _:
            return isinstance(type_, inspect.StrType | inspect.BoolType | inspect.IntType)


def _draw(type_: inspect.Type, ids: Sequence[str], choose: Choose) -> object:
    match type_:
        case inspect.StructType(cls=cls, fields=fields):
            return cls(**{field.name: _draw(field.type, ids, choose) for field in fields})
        case inspect.StrType():
            return choose.pick(ids) if ids and not choose.percent(5) else "unknown"
        case inspect.BoolType():
            return choose.percent(50)
        case inspect.IntType():
            return choose.below(4)
        case inspect.VarTupleType(item_type=item):
            return tuple(_draw(item, ids, choose) for _ in range(choose.below(3)))
        case inspect.StructType(cls=cls, fields=fields):
            return cls(**{field.name: _draw(field.type, ids, choose) for field in fields if field.required})
        case inspect.UnionType(types=types):
            return (
                _draw(choose.pick([option for option in types if _is_drawn(option)]), ids, choose)
                if choose.below(2)
                else None
            )
        case _:
            message = f"cannot draw a command: a field is of type {type_}; write how to draw it in `next_inputs`"
            raise TypeError(message)

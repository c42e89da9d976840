"""Finds mutable parts of a plugin: in members of its class, in functions, and in the values of its options."""

from __future__ import annotations

import dis
from collections.abc import Iterator, Mapping, MutableMapping, MutableSequence, MutableSet
from functools import cached_property, lru_cache, partial, partialmethod
from types import BuiltinFunctionType, CodeType, FunctionType, MappingProxyType, MethodType, ModuleType, NoneType
from typing import Final, cast

from attrs import frozen

from agentrail.values.foreign import names_of
from agentrail.values.json import FrozenObject

FROZEN: Final = "decorate the class with `@attrs.frozen`, and keep what it remembers in its state"
_PLAIN: Final = frozenset({NoneType, bool, int, float, str, bytes, object})
_BETTER: Final[tuple[tuple[type, str], ...]] = (
    (bytearray, "bytes"),
    (MutableSequence, "a tuple"),
    (MutableMapping, "a mapping that is frozen, such as a `MappingProxyType`"),
    (MutableSet, "a frozenset"),
    (Iterator, "a tuple of its items"),
    (cached_property, "a property"),
    (type(lru_cache(len)), "a function without a cache, or one of the module"),
)
"""Mutable classes, with what to use instead."""
_A_VALUE: Final = "a value, such as an object of a class with `@attrs.frozen`"
_STORES: Final = frozenset(
    dis.opmap[f"{verb}_{where}"] for verb in ("STORE", "DELETE") for where in ("GLOBAL", "DEREF")
)
_ATTRS_OWN: Final = frozenset(vars(frozen(type("Frozen", (), {})))[name] for name in ("__setattr__", "__delattr__"))
_OBJECTS: Final = frozenset({object.__setattr__, object.__delattr__})


@frozen
class _Part:
    """A value found in a plugin, with words for where it was found."""

    found: object
    where: str
    option: bool = False
    """Whether the value belongs to an option, which must be immutable; elsewhere only containers are refused."""


def why_changeable(member: object, *, option: bool = False) -> str | None:
    """Return which part of *member* is mutable, with what to use instead; `None` if no part is.

    An *option* must be an immutable value as a whole.
    """
    waiting = [_Part(member, "is a {}", option)]
    seen: set[int] = set()
    while waiting:
        part = waiting.pop()
        kind = type(part.found)
        if kind in _PLAIN or id(part.found) in seen or isinstance(part.found, FrozenObject):
            continue
        seen.add(id(part.found))
        for mutable, better in _BETTER:
            if isinstance(part.found, mutable):
                return f"{part.where.format(f'`{kind.__name__}`')}, which can change; use {better}"
        outside = next(_set_outside(part.found), None)
        if outside is not None:
            return f"sets `{outside}`, a variable outside of it; {FROZEN}"
        parts = _parts(part)
        if parts is None:
            return f"{part.where.format(f'`{kind.__name__}`')}, which can change; use {_A_VALUE}"
        waiting += parts
    return None


def _parts(part: _Part) -> list[_Part] | None:
    """Return the parts of *part*, to be checked next; `None` if it belongs to an option and is no immutable value."""
    found = part.found
    inner = "has a {}" if part.where == "is a {}" else part.where
    match found:
        case tuple() | frozenset():
            items = list(cast("tuple[object, ...]", found))
        case MappingProxyType():
            table = cast("Mapping[object, object]", found)
            items = [*table, *table.values()]
        case FunctionType() | partial() | partialmethod() | staticmethod() | classmethod() | property():
            return _parts_of_callable(cast("object", found))
        case MethodType():
            return [_Part(found.__func__, inner), _Part(found.__self__, inner, part.option)]
        case BuiltinFunctionType():
            items = [found.__self__]
        case _ if not part.option or isinstance(found, type | ModuleType):
            return []
        case _:
            fields = _fields(found)
            if fields is None:
                return [] if _is_compared(found) else None
            if any(can_set(found, name, item) for name, item in fields.items()):
                return None
            items = list(fields.values())
    return [_Part(item, inner, part.option) for item in items]


def _parts_of_callable(found: object) -> list[_Part]:
    """Return the values that a function (or a wrapper of one) keeps: defaults, closure, attributes."""
    match found:
        case FunctionType():
            kept = [*(found.__defaults__ or ()), *(found.__kwdefaults__ or {}).values()]
            parts = [_Part(each, "has a {} as a default") for each in kept]
            for name, cell in zip(found.__code__.co_freevars, found.__closure__ or (), strict=True):
                try:
                    parts.append(_Part(cell.cell_contents, f"has a {{}} in `{name}`, a variable outside of it"))
                except ValueError:  # the cell is still empty
                    continue
            return parts
        case property():
            return [_Part(each, "is a {}") for each in (found.fget, found.fset, found.fdel)]
        case partial() | partialmethod():
            given = cast("partial[object]", found)
            kept = [*given.args, *given.keywords.values()]
            return [_Part(given.func, "is a {}"), *(_Part(each, "is given a {}") for each in kept)]
        case _:
            return [_Part(cast("staticmethod[..., object]", found).__func__, "is a {}")]


def _fields(found: object) -> Mapping[str, object] | None:
    """Return the fields of a value, or of an object of an attrs class or a dataclass; `None` for any other object."""
    names = names_of(type(found))
    if names is None:
        return None
    return {name: getattr(found, name) for name in (*names, *getattr(found, "__dict__", ()))}


def _is_compared(found: object) -> bool:
    """Whether *found* is hashable by a hash of its own class, which is taken as a promise to be immutable."""
    if type(found).__hash__ is object.__hash__:
        return False
    try:
        hash(found)
    except TypeError:
        return False
    return True


def _set_outside(found: object) -> Iterator[str]:
    """Yield the names of outer variables that the function *found* assigns: of its module or enclosing functions."""
    if not isinstance(found, FunctionType):
        return
    free = found.__code__.co_freevars
    waiting = [found.__code__]
    while waiting:
        code = waiting.pop()
        waiting += [each for each in code.co_consts if isinstance(each, CodeType)]
        if _STORES.isdisjoint(code.co_code[::2]):
            continue
        for done in dis.get_instructions(code):
            if done.opcode in _STORES and (done.opname.endswith("GLOBAL") or done.argval in free):
                yield str(done.argval)


def is_own_setter(owner: type, name: str, member: object) -> bool:
    """Whether *owner* defines its own `__setattr__`; those made by attrs and dataclasses do not count."""
    if name not in ("__setattr__", "__delattr__") or member in _OBJECTS or member in _ATTRS_OWN:
        return False
    made = vars(owner)
    frozen_data = getattr(made.get("__dataclass_params__"), "frozen", False)
    return not (made.get("__attrs_own_setattr__") or frozen_data)


def can_set(owner: object, name: str, found: object) -> bool:
    """Whether the attribute *name* of *owner* can be assigned; tried with its value *found*, so nothing changes."""
    try:
        setattr(owner, name, found)
    except Exception:  # noqa: BLE001 - each kind of frozen class raises another error
        return False
    return True

"""Lists the fields of a class with their type hints, in which names are resolved to the classes they stand for.

Each annotation is resolved by itself, in the module of the class that declares it: so a name that is imported only for
type checkers fails only the fields that use it.
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, cast, get_type_hints

import attrs

from agentrail.codec.misfit import MisfitError
from agentrail.core.machine.step import Step
from agentrail.core.vocabulary.changes import ChangedStates
from agentrail.core.vocabulary.state import State
from agentrail.hooks.moments import BeforeCompaction, BeforeRequest
from agentrail.hooks.ruling import Ruling
from agentrail.values.foreign import names_of
from agentrail.values.json import Json, JsonObject
from agentrail.values.messages import History
from agentrail.values.value import Value, defaults_of


class PluginState:
    """Used as a type hint for a plugin's state: a frozen value of a class that the plugin defines."""


MISSING: Final = attrs.NOTHING
"""Stands for the default of a field without one."""


class Field(NamedTuple):
    """One field of a class."""

    name: str
    """Name of the field, in the class and in JSON."""
    alias: str
    """Name of the field as an argument of the class."""
    hint: object
    """Type hint of the field, resolved."""
    default: object
    """Default of the field (possibly a factory, which is not called), or `MISSING` if the field is required."""


CLOSER: Final[Mapping[tuple[type[object], str], object]] = {
    (State, "plugin_states"): tuple[PluginState, ...],
    (ChangedStates, "put"): tuple[tuple[int, PluginState], ...],
    (Ruling, "states"): tuple[tuple[int, PluginState], ...],
    (BeforeRequest, "messages"): History,
    (BeforeCompaction, "messages"): History,
}
"""More exact type hints for fields whose annotation allows more than they hold, by class and field."""

LEFT_OUT: Final[Mapping[type[object], str]] = {Step: "effects"}
"""The field that is not written, by class: the effects of a step are not part of what is stored."""

_PLAIN: Final[Mapping[str, type[object]]] = {"bool": bool, "float": float, "int": int, "str": str}
"""The most common annotations and their types: looked up here, which is faster than resolving them."""

OURS: Final[Mapping[str, object]] = {"Json": Json, "JsonObject": JsonObject, "Mapping": Mapping, "Sequence": Sequence}
"""Names that a class may use without importing them at run time."""


def is_class(kind: object) -> bool:
    """Whether *kind* is a class whose instances are written field by field."""
    if not isinstance(kind, type):
        return False
    cls = cast("type[object]", kind)
    return names_of(cls) is not None or _is_named_tuple(cls)


def fields_of(cls: type[object]) -> tuple[Field, ...]:
    """Return the fields that *cls* takes as arguments and that are written, in order."""
    left_out = LEFT_OUT.get(cls)
    return tuple(
        Field(name, alias, _resolved(cls, name), default) for name, alias, default in _declared(cls) if name != left_out
    )


def parameters_of(cls: type[object]) -> tuple[object, ...]:
    """Return the resolved type hints of the arguments of *cls*."""
    made = cls.__init__
    return tuple(hint for name, hint in _hints(made.__annotations__, made.__module__, cls).items() if name != "return")


def _declared(cls: type[object]) -> list[tuple[str, str, object]]:
    """Return name, alias and default of each field."""
    if issubclass(cls, Value):
        ours = defaults_of(cls)
        return [(name, name, ours.get(name, MISSING)) for name in cls.__struct_fields__]
    if attrs.has(cls):
        return [(one.name, one.alias or one.name, one.default) for one in attrs.fields(cls) if one.init]
    if dataclasses.is_dataclass(cls):
        return [(one.name, one.name, _dataclass_default(one)) for one in dataclasses.fields(cls) if one.init]
    defaults = cast("Mapping[str, object]", getattr(cls, "_field_defaults", {}))
    names = cast("Sequence[str]", getattr(cls, "_fields", ()))
    return [(name, name, defaults.get(name, MISSING)) for name in names]


def _dataclass_default(field: dataclasses.Field[object]) -> object:
    if field.default is not dataclasses.MISSING:
        return field.default
    return MISSING if field.default_factory is dataclasses.MISSING else attrs.Factory(field.default_factory)


def _is_named_tuple(kind: type[object]) -> bool:
    return issubclass(kind, tuple) and hasattr(cast("object", kind), "_fields")


def _resolved(cls: type[object], name: str) -> object:
    for owner in cls.__mro__:
        closer = CLOSER.get((owner, name))
        if closer is not None:
            return closer
        said = inspect.get_annotations(owner)
        if name in said:
            plain = _PLAIN.get(str(said[name]))
            return plain or _hints({name: said[name]}, owner.__module__, owner)[name]
    at = f".{name}"
    raise MisfitError(at, f"of `{cls.__qualname__}` has no type hint")


def _hints(said: Mapping[str, object], module: str, owner: type[object]) -> dict[str, object]:
    """Resolve annotations (*said*, by name) of class *owner* in *module*; raise `MisfitError` if one cannot be."""

    def holder() -> None:
        """Hold the annotations, as `get_type_hints` wants an object that has them."""

    holder.__annotations__ = dict(said)
    known = vars(sys.modules[module]) if module in sys.modules else {}
    try:
        return get_type_hints(holder, {**OURS, **known}, {owner.__name__: owner})
    except (NameError, AttributeError, TypeError, SyntaxError) as why:
        at = "".join(f".{name}" for name in said)
        problem = f"of `{owner.__qualname__}` has a type hint that cannot be resolved ({why}); import it at run time"
        raise MisfitError(at, problem) from None

"""Makes the error again that a problem document tells of: the same class, with the same facts."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, cast, get_type_hints

import msgspec

from agentrail.errors import AgentrailError, HostFailed
from agentrail.values.json import Json, JsonObject
from agentrail.values.value import Value, learned
from agentrail.wire.problem_rows import ROWS

NOT_TOLD: Final = "not told by the host"
"""Stands for a text among the facts that the host keeps to itself."""

NO_DOCUMENT: Final = "its answer is no problem document"

_CLASSES: Final[Mapping[str, type[AgentrailError]]] = MappingProxyType({cls.__name__: cls for cls in ROWS})
_STAND_INS: Final[Mapping[object, object]] = {str: NOT_TOLD, int: 0, float: 0.0, tuple[str, ...]: ()}


class Parameter(Value, gc=True):
    """One fact that a class of errors takes."""

    name: str
    """Its name."""
    hint: object
    """Its type."""


def _parameters(cls: type[AgentrailError]) -> tuple[Parameter, ...] | None:
    """Return what *cls* takes, in order; `None` if it takes anything."""
    signature, hints = inspect.signature(cls), get_type_hints(cls.__init__)
    if any(each.kind is each.VAR_POSITIONAL for each in signature.parameters.values()):
        return None
    return tuple([Parameter(name, hints[name]) for name in signature.parameters])


_PARAMETERS: Final[Mapping[type[AgentrailError], tuple[Parameter, ...] | None]] = MappingProxyType(
    {cls: _parameters(cls) for cls in ROWS}
)


def error_of(document: JsonObject, session: str = "") -> AgentrailError:
    """Return the error that a problem document tells of, at a call about *session*.

    In place of facts that the host keeps to itself there are stand-ins, and its words are those of the document. What
    cannot be read becomes a `HostFailed`.
    """
    detail, name, facts = document.get("detail"), document.get("error"), document.get("facts")
    said = detail if isinstance(detail, str) else NO_DOCUMENT
    cls = _CLASSES.get(name) if isinstance(name, str) else None
    if cls is None or not isinstance(facts, Sequence) or isinstance(facts, str):
        return HostFailed(said)
    wanted = _PARAMETERS[cls]
    if wanted is None:
        found, is_whole = cls(*facts), all(fact is not None for fact in facts)
    else:
        if len(facts) != len(wanted):
            return HostFailed(said)
        try:
            given = [_fact(each, fact, session) for each, fact in zip(wanted, facts, strict=True)]
        except msgspec.ValidationError:
            return HostFailed(said)
        found = cls(*[value for value, _ in given])
        is_whole = all(is_told for _, is_told in given)
    if not is_whole:
        found.told = said
    return found


def _fact(wanted: Parameter, told: Json, session: str) -> tuple[object, bool]:
    """Return a fact, and whether it is known; raise `ValidationError` if *told* is of another type."""
    if told is not None:
        return cast("object", msgspec.convert(told, learned(wanted.hint))), True
    if wanted.name == "session" and session:
        return session, True
    stand_in = _STAND_INS.get(wanted.hint)
    return stand_in, stand_in is None

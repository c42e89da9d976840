"""Errors as data: the name of the class, and the arguments that the error is made with, here called its facts."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Final, cast, get_type_hints

import msgspec

import agentrail.errors
from agentrail.errors import AgentrailError, BrokenContractError, NotJson
from agentrail.errors.agentrail_error import coded_of, kind_of
from agentrail.values.json import Json, freeze
from agentrail.values.untrusted_values import brief

ERRORS: Final[Mapping[str, type[AgentrailError]]] = {
    name: member
    for name, member in vars(agentrail.errors).items()
    if isinstance(member, type) and issubclass(member, AgentrailError)
}
"""Every class of errors that can be data, by name."""


def data_of(error: AgentrailError) -> tuple[str, tuple[Json, ...]]:
    """Return class name and facts of *error*; for a class that is not ours, those of its nearest base class that is."""
    if error.is_coded:
        return kind_of(error), tuple(map(_fact, error.args[1:]))
    facts = tuple(map(_fact, error.args))
    for cls in type(error).__mro__:
        if ERRORS.get(cls.__name__) is cls:
            with suppress(ValueError):
                made_of(cls.__name__, facts)
                return cls.__name__, facts
    raise BrokenContractError(type(error).__name__)


def _fact(value: object) -> Json:
    """Return *value* as JSON; as a short text if it is none."""
    try:
        return freeze(value)
    except NotJson:
        return brief(value)


def made_of(name: str, facts: tuple[Json, ...]) -> AgentrailError:
    """Return the error with class *name* and *facts*; raise `ValueError` if no such class exists."""
    cls = ERRORS.get(name)
    if cls is None and (error := coded_of(name, facts)) is not None:
        return error
    if cls is None:
        problem = "names no error of ours"
        raise ValueError(problem)
    try:
        return cls(*cast("tuple[object, ...]", msgspec.convert(facts, _facts_of(cls), dec_hook=_as_it_is)))
    except msgspec.ValidationError as why:
        raise ValueError(str(why).replace("`$", "`$.facts") if "`$" in str(why) else f"{why} - at `$.facts`") from None


def _as_it_is(_: object, fact: object) -> object:
    """Return *fact* unchanged: the converter for facts of any type."""
    return fact


_facts: Final[dict[str, object]] = {}


def _facts_of(cls: type[AgentrailError]) -> object:
    """Return the tuple type of the arguments of *cls*, to check stored facts; any values if it declares none."""
    facts = _facts.get(cls.__name__)
    if facts is None:
        hints = get_type_hints(cls.__init__)
        hints.pop("return")
        declared = (
            tuple[object, ...]
            if cls.__init__ is AgentrailError.__init__
            else tuple.__class_getitem__((*hints.values(),))
        )
        facts = _facts[cls.__name__] = declared
    return facts

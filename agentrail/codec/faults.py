"""Which errors can be written as JSON (those of `agentrail.errors`), and the types of the arguments they are made with.

An error is written as the name of its class and its arguments, here called its facts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import agentrail.errors
from agentrail.codec.hints import parameters_of
from agentrail.errors import AgentrailError
from agentrail.values.json import Json

ERRORS: Final[Mapping[str, type[AgentrailError]]] = {
    name: found
    for name, found in vars(agentrail.errors).items()
    if isinstance(found, type) and issubclass(found, AgentrailError)
}
"""Every error class that can be written, by name."""


def facts_of(cls: type[AgentrailError]) -> tuple[object, ...] | None:
    """Return the type hints of the arguments of *cls*; `None` if it takes any number of any JSON."""
    if cls.__init__ is AgentrailError.__init__:
        return None
    return tuple(Json if hint is object else hint for hint in parameters_of(cls))

"""Our errors as values: the class by its name, and the facts that it was made with."""

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
"""Every error that can be written, by name."""


def facts_of(cls: type[AgentrailError]) -> tuple[object, ...] | None:
    """Return the hints of the facts that *cls* takes; `None`: it takes any number of them."""
    if cls.__init__ is AgentrailError.__init__:
        return None
    return tuple(Json if hint is object else hint for hint in parameters_of(cls))

"""Stored values of older formats: each format has one function that makes the next one of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

from agentrail.codec.misfit import MisfitError
from agentrail.values.json import Json

FORMAT: Final = 2
"""The format that is written: what the classes of a record and a snapshot look like in JSON."""

Upcaster: TypeAlias = Callable[[Json], Json]


def _every_envelope_in_full(data: Json) -> Json:
    """Format 2 leaves out of an envelope what is as in the one before it; what leaves out nothing is read as it is."""
    return data


UPCASTERS: Final[Mapping[int, Upcaster]] = MappingProxyType({1: _every_envelope_in_full})
"""By format, what makes the JSON of the next format of it; a raised `FORMAT` needs one for the format before."""


def upcast(data: Json, found: int, newest: int = FORMAT, upcasters: Mapping[int, Upcaster] = UPCASTERS) -> Json:
    """Return *data* of format *found* as it is in the *newest* one; raise `MisfitError` if nothing leads there."""
    if found > newest:
        raise MisfitError("", f"has format {found}, which is newer than {newest}; use a newer version of agentrail")
    for older in range(found, newest):
        if older not in upcasters:
            raise MisfitError("", f"has format {older}, which nothing here can read")
        data = upcasters[older](data)
    return data

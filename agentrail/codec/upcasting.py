"""Converts stored JSON of older formats to the newest: for each older format, one function converts it to the next.

The format is that of everything that is stored: records with the changes of the state in them, and snapshots.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

from agentrail.codec.misfit import MisfitError
from agentrail.values.json import Json

FORMAT: Final = 5
"""Number of the newest format, in which records and snapshots are written."""

Upcaster: TypeAlias = Callable[[Json], Json]


def _from_4(data: Json) -> Json:
    """Let a change say of paused runs which it put: format 4 wrote all that were paused after the step."""
    if not isinstance(data, Mapping):
        return data
    change = data.get("change")
    if not isinstance(change, Mapping) or "suspended" not in change:
        return data
    suspended = {"begins": True, "put": change["suspended"]}
    return {**data, "change": {**change, "suspended": suspended}}


UPCASTERS: Final[Mapping[int, Upcaster]] = MappingProxyType({4: _from_4})
"""For each older format that is read, the function that converts its JSON to the next. Format 4 is the oldest.

Whoever raises `FORMAT` must add one. It takes a record or a snapshot. A field of `State` is at three places: in the
`change` of a record, in the `opening` of the first one, and in the `state` of a snapshot.
"""


def upcast(data: Json, found: int, newest: int = FORMAT, upcasters: Mapping[int, Upcaster] = UPCASTERS) -> Json:
    """Return *data* of format *found* converted to format *newest*; raise `MisfitError` if it cannot be converted."""
    if found > newest:
        raise _unknown(found, f"knows formats up to {newest}; use a newer agentrail")
    for older in range(found, newest):
        if older not in upcasters:
            first = min(upcasters, default=newest)
            raise _unknown(older, f"reads formats from {first} on; use the agentrail that has written it")
        data = upcasters[older](data)
    return data


def _unknown(found: int, what_it_does: str) -> MisfitError:
    from agentrail.version import __version__  # noqa: PLC0415 - looking it up takes time, and only an error needs it

    return MisfitError("", f"has format {found}, and agentrail {__version__} {what_it_does}")

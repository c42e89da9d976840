"""Leaves the pause of a run out of its ruling where it is stored: the change of the same record has it.

A pause holds what a plugin asked for, which is most of such a record. An audit needs it in the ruling, so it is put
back when the record is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from operator import is_

from msgspec import UNSET

from agentrail.core.vocabulary.changes import Change
from agentrail.hooks.ruling import ASK, Pause, Ruling


def without_pauses(rulings: tuple[Ruling, ...], change: Change) -> tuple[Ruling, ...]:
    """Return *rulings* without their pauses, if these are those of the last runs in *change*, in order."""
    if change.suspended is UNSET or not change.suspended.put:
        return rulings
    pauses = [ruling.pause for ruling in rulings if ruling.verdict is ASK]
    if not pauses or not all(map(is_, pauses, _last(change, len(pauses)))):
        return rulings
    return tuple([ruling.but(pause=None) if ruling.verdict is ASK else ruling for ruling in rulings])


def with_pauses(rulings: tuple[Ruling, ...], change: Change) -> tuple[Ruling, ...]:
    """Return the rulings that `without_pauses` was given."""
    asks = [place for place, ruling in enumerate(rulings) if ruling.verdict is ASK and ruling.pause is None]
    if not asks:
        return rulings
    found = dict(zip(asks, _last(change, len(asks)), strict=True))
    return tuple([ruling.but(pause=found[place]) if place in found else ruling for place, ruling in enumerate(rulings)])


def _last(change: Change, count: int) -> Sequence[Pause | None]:
    """Return the pauses of the last *count* runs in *change*, with `None` for each that it does not have."""
    put = () if change.suspended is UNSET else change.suspended.put[-count:]
    return (*repeat(None, count - len(put)), *[each.run.pause for each in put])

"""Names that have changed: what callers still write by the old one is understood."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final

OLD_NAMES: Final[Mapping[str, str]] = MappingProxyType({"max_turns": "max_rounds", "stop_reason": "reason"})
"""The new name of each field whose name has changed, by the old one."""


def with_new_names(owner: str, values: Mapping[str, object], fields: Collection[str]) -> dict[str, object]:
    """Return *values* with the new names of the *fields* of *owner*, and warn the caller's caller of each old one.

    An old name beside the new one stays, as nobody can tell which value is meant.
    """
    names = {
        old: new
        for old, new in OLD_NAMES.items()
        if old in values and old not in fields and new in {*fields} - {*values}
    }
    for old, new in names.items():
        warnings.warn(f"`{owner}`: `{old}` is called `{new}` now; write `{new}`", FutureWarning, stacklevel=3)
    return {names.get(name, name): value for name, value in values.items()}

"""The plugin contract: hooks, actions, the matrix between them, and the pipeline that runs plugins."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentrail.hooks.matrix import MATRIX as MATRIX

_HOMES = {
    "MATRIX": "agentrail.hooks.matrix",
}

__all__ = list(_HOMES)  # pyright: ignore[reportUnsupportedDunderAll]  # the list of homes is the list of names


def __getattr__(name: str) -> object:
    """Import a public name from its home when it is first wanted."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module `agentrail.hooks` has no `{name}`; it has {', '.join(_HOMES)}")  # noqa: EM102, TRY003 - not ours to subclass
    found: object = getattr(import_module(home), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """List the public names, imported or not."""
    return sorted({*globals(), *_HOMES})

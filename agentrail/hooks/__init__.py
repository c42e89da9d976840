"""The plugin contract: hooks, actions, which hook accepts which action, and the pipeline that runs plugins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentrail.lazy import lazily

if TYPE_CHECKING:
    from agentrail.hooks.plugin import MATRIX as MATRIX

_HOMES = {
    "MATRIX": "agentrail.hooks.plugin",
}

__all__ = list(_HOMES)  # pyright: ignore[reportUnsupportedDunderAll]  # the names are the keys of `_HOMES`
__getattr__, __dir__ = lazily(__name__, _HOMES)

"""A module that is imported when something of it is first wanted."""

from __future__ import annotations

from importlib import import_module


class LazyModule:
    """Stands for a module until somebody looks into it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, wanted: str) -> object:
        """Import the module, and remember what was wanted of it."""
        found: object = getattr(import_module(self._name), wanted)
        setattr(self, wanted, found)
        return found

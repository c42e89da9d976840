"""`Planting`: parts of the package are replaced by others, and come back."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from textwrap import dedent
from types import FunctionType, MappingProxyType

FAMILIES = ("agentrail.", "bench.", "property_tests.", "tests.")
TABLES = (dict, MappingProxyType)


class Planting:
    """Replaces parts of the package by broken ones, and restores them with `remove`."""

    def __init__(self) -> None:
        self._undo = ExitStack()

    def put(self, owner: object, name: str, new: object) -> None:
        """Set the attribute *name* of *owner* to *new*, until `remove`."""
        self._undo.callback(setattr, owner, name, getattr(owner, name))
        setattr(owner, name, new)

    def everywhere(self, old: object, new: object) -> None:
        """Replace *old* by *new* in all modules of the project, and in the dicts that they hold, until `remove`."""
        self._undo.callback(_swap, new, old, setattr)  # modules that are imported meanwhile know *new* too
        _swap(old, new, self.put)

    def rewrite(self, function: object, old: str, new: str) -> None:
        """Replace *function* by one whose source has the text *new* in place of *old*, which must occur once in it."""
        if not isinstance(function, FunctionType):  # to type checkers a method is a callable, so this is not their work
            message = f"{function!r} is no function: say which one the bug is in"
            raise TypeError(message)
        source = inspect.getsource(function)
        if source.count(old) != 1:
            message = f"`{function.__qualname__}` says {old!r} {source.count(old)} times: say the bug anew"
            raise ValueError(message)
        made: dict[str, object] = {}
        exec(f"from __future__ import annotations\n{dedent(source.replace(old, new))}", function.__globals__, made)  # noqa: S102 - our own source
        broken = made[function.__name__]
        owner = function.__qualname__.rpartition(".")[0]
        if owner:
            self.put(function.__globals__[owner], function.__name__, broken)
        self.everywhere(function, broken)

    def remove(self) -> None:
        """Restore everything that was replaced."""
        self._undo.close()


def _swap(old: object, new: object, put: Callable[[object, str, object], None]) -> None:
    """Call *put* for each attribute of the project's modules that is *old*, or is a dict that holds it."""
    for name, module in list(sys.modules.items()):
        if not name.startswith(FAMILIES):
            continue
        for known, found in list(vars(module).items()):
            if found is old:
                put(module, known, new)
            elif isinstance(found, TABLES) and known != "__builtins__":
                changed = _with(found, old, new)
                if changed is not None:
                    put(module, known, changed)


def _with(table: Mapping[object, object], old: object, new: object) -> dict[object, object] | None:
    """Return *table* with *new* in place of *old*; `None` if *old* is not in it."""

    def swapped(found: object) -> object:
        if isinstance(found, tuple) and type(found) is tuple:
            return tuple(new if part is old else part for part in found)
        return new if found is old else found

    places = [key for key, found in table.items() if found is old or (type(found) is tuple and old in found)]
    return {key: swapped(found) for key, found in table.items()} if places else None

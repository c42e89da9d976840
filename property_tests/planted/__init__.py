"""Plants bugs on purpose, one at a time, and sees that a property or the simulator finds them.

    python -m property_tests.planted [word ...]

looks anew for the bugs that the words name, prints a table, and with `--write` keeps the seeds that have found them.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from textwrap import dedent
from types import FunctionType, MappingProxyType

from attrs import frozen

FAMILIES = ("agentrail.", "property_tests.", "tests.")


class Planting:
    """Puts something broken in the place of what works, and puts that back."""

    def __init__(self) -> None:
        self._undo = ExitStack()

    def put(self, owner: object, name: str, new: object) -> None:
        """Have something else stand under a name."""
        self._undo.callback(setattr, owner, name, getattr(owner, name))
        setattr(owner, name, new)

    def everywhere(self, old: object, new: object) -> None:
        """Have something else stand wherever a module knows *old*, tables included."""
        self._undo.callback(_swap, new, old, setattr)  # in modules that are imported while it is planted
        _swap(old, new, self.put)

    def rewrite(self, function: FunctionType, old: str, new: str) -> None:
        """Have a function that says *new* where *function* says *old*, once, stand wherever that is known."""
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
        """Put back what was there."""
        self._undo.close()


def _swap(old: object, new: object, put: Callable[[object, str, object], None]) -> None:
    """Have *put* exchange *old* for *new* wherever a module knows it."""
    for name, module in list(sys.modules.items()):
        if not name.startswith(FAMILIES):
            continue
        for known, found in list(vars(module).items()):
            if found is old:
                put(module, known, new)
            elif isinstance(found, dict | MappingProxyType) and known != "__builtins__":
                changed = _with(found, old, new)
                if changed is not None:
                    put(module, known, changed)


def _with(table: Mapping[object, object], old: object, new: object) -> dict[object, object] | None:
    """Return *table* with *new* in the places of *old*, if there are such places."""

    def swapped(found: object) -> object:
        if isinstance(found, tuple) and type(found) is tuple:
            return tuple(new if part is old else part for part in found)
        return new if found is old else found

    places = [key for key, found in table.items() if found is old or (type(found) is tuple and old in found)]
    return {key: swapped(found) for key, found in table.items()} if places else None


@frozen
class Bug:
    """One bug."""

    name: str
    """What it is called."""
    says: str
    """What is wrong."""
    plant: Callable[[Planting], None]
    """Plants it."""
    finder: str
    """What finds it: a mode of the simulator; `world`, sessions in a plausible world; `together`, rows of plugins; or a
    part that is held against another telling of it."""
    chosen: str = "author"
    """Who chose it: an author of the tests, or a `reader` of the design and the code who had not seen them."""


class Bed:
    """A table of bugs in the making."""

    def __init__(self) -> None:
        self.bugs: list[Bug] = []

    def bug(
        self, says: str, finder: str = "safety"
    ) -> Callable[[Callable[[Planting], None]], Callable[[Planting], None]]:
        """Enter a function that plants a bug under its name."""

        def enter(plant: Callable[[Planting], None]) -> Callable[[Planting], None]:
            self.bugs.append(Bug(plant.__name__, says, plant, finder))
            return plant

        return enter

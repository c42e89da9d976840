"""Imports without garbage collection, which would look at all that they make."""

from __future__ import annotations

import gc
import sys
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType


@contextmanager
def uncollected() -> Generator[None, None, None]:
    """Have no garbage collected within the block, which imports: modules, classes and functions are no garbage.

    To look at them took a seventh of the time in which `serve` begins to listen: clients of a process that is deployed
    wait for that.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def imported(name: str, *, freeze: bool) -> ModuleType:
    """Import a module without garbage collection; *freeze*: later collections ignore the objects that it created."""
    if name in sys.modules:  # the module was imported before; freezing now would also freeze the caller's garbage
        return sys.modules[name]
    with uncollected():
        module = import_module(name)
        if freeze:
            gc.freeze()
    return module

"""Imports without garbage collection, which would look at all that they make."""

from __future__ import annotations

import gc
import sys
from importlib import import_module
from types import ModuleType


def imported(name: str, *, freeze: bool) -> ModuleType:
    """Import a module without garbage collection; *freeze*: later collections ignore the objects that it created.

    Modules, classes and functions are no garbage. To look at them took a seventh of the time in which `serve` begins to
    listen: clients of a process that is deployed wait for that.
    """
    if name in sys.modules:  # the module was imported before; freezing now would also freeze the caller's garbage
        return sys.modules[name]
    was_on = gc.isenabled()
    gc.disable()
    try:
        module = import_module(name)
        if freeze:
            gc.freeze()
    finally:
        if was_on:
            gc.enable()
    return module

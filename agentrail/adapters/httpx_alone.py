"""Imports `httpx` without the command that it has, if this process has not imported it yet.

The command brings rich and pygments where they are installed, as by the extra `cli`: 70 modules, which take longer than
the client itself. httpx does without it if its imports fail.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Final, cast

COMMAND: Final = "httpx._main"

if "httpx" not in sys.modules:
    sys.modules[COMMAND] = cast("ModuleType", None)  # so Python is told that there is no such module
    try:
        import_module("httpx")
    finally:
        del sys.modules[COMMAND]

"""The names under which a tool's result tells what a command has left of its shell."""

from __future__ import annotations

from typing import Final

FOLDER: Final = "folder"
"""The argument with the folder of a command, and its name in `LEFT`."""

EXPORTS: Final = "exports"
"""The name of the exported variables in `LEFT`."""

LEFT: Final = "shell"
"""The name, in details of a result, of the folder and the exports that a command has left."""

ROOT: Final = "."
"""The folder in which a shell begins."""

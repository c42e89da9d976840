"""`Surface`: what a folder wants that a person has to allow first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentrail.values.value import Value

if TYPE_CHECKING:  # it looks into programs and sources, which a folder without settings does not have
    from agentrail.cli.folder_code import CodeFile


class Surface(Value):
    """A setting that could run code, relax approvals, or reach files outside of the folder; the user must allow it."""

    name: str
    """Where it is in the file, such as `mcp.files`."""
    content: str
    """Its value as JSON, exactly."""
    code: tuple[CodeFile, ...] = ()
    """The files of the folder that it runs, in order of their paths."""

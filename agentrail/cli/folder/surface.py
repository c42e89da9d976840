"""`Surface`: what a folder wants that a person has to allow first, and the code in it."""

from __future__ import annotations

from agentrail.values.value import Value


class CodeFile(Value):
    """A file that runs, and what is in it."""

    path: str
    """Its path, with links resolved; relative to the folder of the settings if it is in it."""
    digest: str
    """SHA-256 of its bytes, in hexadecimal digits."""
    links: tuple[str, ...] = ()
    """Its other paths, by which links lead to it; relative to the folder of the settings if they are in it."""


class Surface(Value):
    """A setting that could run code, relax approvals, or reach files outside of the folder; the user must allow it."""

    name: str
    """Where it is in the file, such as `mcp.files`."""
    content: str
    """Its value as JSON, exactly."""
    code: tuple[CodeFile, ...] = ()
    """The files of the folder that it runs, in order of their paths."""

"""`Caller`: who gives a command."""

from __future__ import annotations

from typing import Final, NamedTuple


class Caller(NamedTuple):
    """Who gives the commands of a handle, in the words of the program: see `SessionHandle.by`."""

    who: str = ""
    """Who it is; empty if nobody said so."""
    request: str = ""
    """Id of the request that the commands come from; empty if none was given."""
    four_eyes: bool = False
    """Whether decisions about held calls of turns that they asked for are refused."""


NOBODY: Final = Caller()
"""The caller of whose name nothing is known."""

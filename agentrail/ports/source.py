"""What the shell needs of whoever supplies a session with tools for as long as it lives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from agentrail.ports.tool import Tool


class Offer(Protocol):
    """Takes the tools that a source has now."""

    async def __call__(self, tools: Sequence[Tool], problems: Sequence[str] = ()) -> None:
        """Let the session have these tools of the source and no others, in one step; *problems* are reported."""
        ...


@runtime_checkable
class ToolSource(Protocol):
    """Supplies tools that come and go; it is started again when it ends."""

    @property
    def name(self) -> str:
        """What it is called; one session has no two of the same name."""
        ...

    def check(self) -> None:
        """Raise what must be put right before it can be started at all."""
        ...

    async def supply(self, working_dir: str, offer: Offer) -> None:
        """Offer tools until that is possible no more, and raise why; when it is cancelled, nothing of it is left."""
        ...

"""`ToldValues`: the base of what a program reads of a host as it goes on, with `async for`."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Generic, Self, TypeVar

from agentrail.remote.transport.line_subscription import LineSubscription, Told
from agentrail.reprs import in_brackets

T = TypeVar("T")


class ToldValues(Generic[T]):
    """Values read from what a host tells a `LineSubscription`: `async with` it, then `async for` over it."""

    __slots__ = ("_frames", "_read")

    def __init__(self, frames: LineSubscription, read: Callable[[Told], T | None]) -> None:
        """*read* returns the value of a frame; `None` if the frame has none, and the next one is waited for."""
        self._frames = frames
        self._read = read

    @in_brackets
    def __repr__(self) -> str:
        return self._frames.about

    async def __aenter__(self) -> Self:
        """Begin to listen; raise the error with which the host refuses."""
        await self._frames.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop to listen."""
        await self._frames.__aexit__(kind, error, trace)  # noqa: ASYNC102 - it waits for nothing

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        while True:
            value = self._read(await anext(self._frames))
            if value is not None:
                return value

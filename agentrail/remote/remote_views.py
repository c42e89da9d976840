"""`RemoteView`: something that a host shows whole, at first and each time it has changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType, TracebackType
from typing import Generic, Self, TypeVar

from agentrail.ports.handles.session_values import ChildView, HeldCall
from agentrail.remote.read_values import answer_of, value_of
from agentrail.remote.transport.host_frames import ViewFrame
from agentrail.remote.transport.line_subscription import LineSubscription
from agentrail.reprs import in_brackets
from agentrail.values.json import Json
from agentrail.wire.views import ApprovalsView, ChildShown, HeldView

T = TypeVar("T")


class RemoteView(Generic[T]):
    """A view of a host: `async with` it, then `async for` over it. It survives cuts, and skips to the newest."""

    __slots__ = ("_frames", "_read")

    def __init__(self, frames: LineSubscription, read: Callable[[Json], T]) -> None:
        self._frames = frames
        self._read = read

    @in_brackets
    def __repr__(self) -> str:
        return self._frames.about

    async def __aenter__(self) -> Self:
        """Begin to look; raise the error with which the host refuses."""
        await self._frames.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop to look."""
        await self._frames.__aexit__(kind, error, trace)  # noqa: ASYNC102 - it waits for nothing

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        while True:
            told = await anext(self._frames)
            if isinstance(told, ViewFrame):
                return self._read(told.data)


def tree_of(found: Json) -> ChildView:
    """Return the tree that a host has shown."""
    return value_of(ChildView, answer_of(ChildShown, found))


def approvals_of(found: Json) -> Mapping[str, tuple[HeldCall, ...]]:
    """Return what waits for a person, by session, of a page that a host has shown."""
    return held_of(answer_of(ApprovalsView, found).items)


def held_of(shown: Iterable[HeldView]) -> Mapping[str, tuple[HeldCall, ...]]:
    """Return what waits for a person, by session: those first that have waited longest."""
    found: dict[str, tuple[HeldCall, ...]] = {}
    for each in shown:
        found[each.session] = (*found.get(each.session, ()), value_of(HeldCall, each))
    return MappingProxyType(found)

"""`RemoteView`: something that a host shows whole, at first and each time it has changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TypeVar

from agentrail.ports.handles.session_values import ChildView, HeldCall
from agentrail.remote.read_values import answer_of, value_of
from agentrail.remote.told_values import ToldValues
from agentrail.remote.transport.host_frames import ViewFrame
from agentrail.remote.transport.line_subscription import LineSubscription
from agentrail.values.json import Json
from agentrail.wire.views import ApprovalsView, ChildShown, HeldView

T = TypeVar("T")


class RemoteView(ToldValues[T]):
    """A view of a host: `async with` it, then `async for` over it. It survives cuts, and skips to the newest."""

    __slots__ = ()

    def __init__(self, frames: LineSubscription, read: Callable[[Json], T]) -> None:
        """*read* returns the value of the JSON that the host shows."""
        super().__init__(frames, lambda told: read(told.data) if isinstance(told, ViewFrame) else None)


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

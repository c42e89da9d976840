"""Runs what the event loop does in slices, without one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from agentrail.core.compaction import Plan, Slices, planning
from agentrail.models import Message

T = TypeVar("T")


def at_once(work: Slices[T]) -> T:
    """Return the result of *work*, without a pause."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            found: T = end.value
            return found


def planned(messages: Sequence[Message], keep: int, limit: int | None = None) -> Plan:
    """Plan how *messages* come to no more than *keep* characters, if they can."""
    return at_once(planning(messages, keep, limit))

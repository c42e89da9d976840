"""Calls as cases have them: those that are expected, and those that a real session has made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, cast

import msgspec

from agentrail.evals.checked_struct import CheckedStruct


class ExpectedCall(CheckedStruct, frozen=True):
    """A call that the model should make; made by `expect`."""

    name: str
    """Name of the tool."""
    args: dict[str, object] = msgspec.field(default_factory=dict[str, object])
    """The arguments that matter, by name."""


def expect(name: str, /, **args: object) -> ExpectedCall:
    """Return the expectation that the tool *name* is called with *args*; `calls_match` says how others count."""
    return ExpectedCall(name, args)


class RecordedCall(CheckedStruct, frozen=True):
    """A call of a real session: what its tool answered, and what a person decided about it."""

    name: str
    """Name of the tool."""
    args: dict[str, object] = msgspec.field(default_factory=dict[str, object])
    """Arguments of the call."""
    result: str | None = None
    """Text of the result; `None` if the call never ran."""
    is_error: bool = False
    """Whether the result is an error."""
    decision: Literal["", "approved", "rejected"] = ""
    """What a person decided when the call was held; empty if nobody did."""
    reason: str = ""
    """Why the person rejected it."""
    edited: dict[str, object] | None = None
    """The arguments with which the person let the call run instead; `None` if they were not changed."""
    responses: tuple[str, ...] = ()
    """What people answered to the questions of the call, in order."""

    @property
    def ran_with(self) -> dict[str, object]:
        """The arguments with which the call ran."""
        return self.args if self.edited is None else self.edited


def is_same_json(value: object, twin: object) -> bool:
    """Whether two JSON values are the same; 17 and 17.0 are, 1 and `true` are not."""
    if isinstance(value, Mapping) and isinstance(twin, Mapping):
        old, new = cast("Mapping[object, object]", value), cast("Mapping[object, object]", twin)
        return old.keys() == new.keys() and all(is_same_json(old[key], new[key]) for key in old)
    if isinstance(value, list | tuple) and isinstance(twin, list | tuple):
        items, others = cast("Sequence[object]", value), cast("Sequence[object]", twin)
        return len(items) == len(others) and all(map(is_same_json, items, others))
    if isinstance(value, bool) or isinstance(twin, bool):
        return value is twin
    return value == twin

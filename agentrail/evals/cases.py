"""`Case`: one thing to try, written by hand or taken from a real session."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, Literal, cast

import msgspec

from agentrail.errors import UsageError

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""What a case may be called: its name is a part of the ids of its sessions."""

Tools = Literal["live", "recorded"] | dict[str, str]
"""How tools answer: by running, as recorded with the case, or, for the named ones, by a fixed text."""


class ExpectedCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A call that the model should make; made by `expect`."""

    name: str
    """Name of the tool."""
    args: dict[str, object] = {}
    """The arguments that matter, by name."""


def expect(name: str, /, **args: object) -> ExpectedCall:
    """Return the expectation that the tool *name* is called with *args*; `calls_match` says how others count."""
    return ExpectedCall(name, args)


class RecordedCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A call of a real session: what its tool answered, and what a person decided about it."""

    name: str
    """Name of the tool."""
    args: dict[str, object] = {}
    """Arguments of the call."""
    result: str | None = None
    """Text of the result; `None` if the call never ran."""
    is_error: bool = False
    """Whether the result is an error."""
    decision: Literal["", "approved", "rejected"] = ""
    """What a person decided when the call was held; empty if nobody did."""
    reason: str = ""
    """Why the person rejected it."""
    responses: tuple[str, ...] = ()
    """What people answered to the questions of the call, in order."""


class CasePast(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where a case begins: after a record of a real session, with its history, plugin states and approvals."""

    file: str
    """Path of the session's export, relative to the folder of the cases."""
    record: int
    """Number of the last record that the case begins with."""


class Case(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One thing to try: what is said to the agent, how its tools answer, and what is expected."""

    name: str
    """Name of the case, unique in its data set: 1 to 64 letters, digits, `.`, `_`, `-`."""
    prompts: tuple[str, ...]
    """What is said to the agent, one turn after the other."""
    expected: object = None
    """The expected reply: a text, or JSON; `None` if scorers compare nothing with it."""
    calls: tuple[ExpectedCall, ...] = ()
    """The calls that the model should make, in order; empty if scorers compare nothing with them."""
    tools: Tools = "live"
    """How tools answer: `live`, `recorded` (by the calls in `recorded`), or fixed texts by tool."""
    recorded: tuple[RecordedCall, ...] = ()
    """The calls of the real session, for `tools="recorded"` and for the decisions about held calls."""
    past: CasePast | None = None
    """The record of a real session after which the case begins; `None` if it begins with a new session."""
    tags: tuple[str, ...] = ()
    """Words by which cases are picked."""
    source: str = ""
    """Session and turn that the case was taken from; empty if it was written by hand."""

    def __post_init__(self) -> None:
        """Raise `UsageError` if the case could never be run."""
        if not NAME.fullmatch(self.name):
            raise UsageError("bad-case", self.name, "a name is 1 to 64 letters, digits, `.`, `_`, `-`")
        if isinstance(self.prompts, str):
            raise UsageError(
                "bad-case", self.name, "its `prompts` are one text; write a list, also around a single one"
            )
        if not self.prompts or not all(self.prompts):
            raise UsageError("bad-case", self.name, "it has no prompt, or an empty one")
        for field in ("prompts", "calls", "recorded", "tags"):
            msgspec.structs.force_setattr(self, field, tuple(getattr(self, field)))


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

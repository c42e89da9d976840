"""`Case`: one thing to try, written by hand or taken from a real session."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Literal, Self

import msgspec

from agentrail.errors import UsageError
from agentrail.evals.calls import ExpectedCall, RecordedCall
from agentrail.evals.checked_struct import CheckedStruct
from agentrail.evals.recorded_turns import recorded_turns
from agentrail.journals import Record
from agentrail.values.argument_checks import checked

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""What a case may be called: its name is a part of the ids of its sessions."""

NAMING_WORDS: Final = 6
"""The most words of a prompt that name a case."""

LONGEST_NAME: Final = 40
"""The most characters of such a name."""

_WORD: Final = re.compile(r"[a-z0-9]+")

Tools = Literal["live", "recorded"] | dict[str, str]
"""How tools answer: by running, as recorded with the case, or, for the named ones, by a fixed text."""


def name_of(prompt: str, turn: int) -> str:
    """Return the name of a case that nobody has named: the first words of its prompt."""
    words = _WORD.findall(prompt.casefold())[:NAMING_WORDS]
    return "-".join(words)[:LONGEST_NAME].rstrip("-") or f"turn-{turn}"


class CasePast(CheckedStruct, frozen=True):
    """Where a case begins: after a record of a real session, with its history, plugin states and approvals."""

    file: str
    """Path of the session's export, relative to the folder of the cases."""
    record: int
    """Number of the last record that the case begins with."""


class Case(CheckedStruct, frozen=True):
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

    @classmethod
    @checked
    def of(
        cls,
        records: Sequence[Record],
        turn: int,
        *,
        name: str = "",
        past: str | None = None,
        tags: tuple[str, ...] = (),
    ) -> Self:
        """Return the case of a *turn* of a real session, as it happened: its calls and reply are the expected ones.

        *records* are those of the session, from the first one on. Its tools will answer as they did then, and never
        run; held calls are decided as then. The turns before are played too; with *past*, the path of an export of the
        session, relative to the folder of the cases, the case begins with what the session was at that moment; that
        counts only if something was said before. Without a *name*, the first words of the prompt are it.
        """
        turns = recorded_turns(records)
        session_id = records[0].session_id if records else ""
        if turn not in turns:
            problem = f"the session has no turn {turn}; its last one is {max(turns, default=0)}"
            raise UsageError("bad-case", name or f"turn-{turn}", problem)
        is_first = turn == min(turns) and not (records[0].opening and records[0].opening.history)
        if is_first:
            past = None  # nothing was said before
        played = [turns[turn]] if past is not None else [turns[number] for number in sorted(turns) if number <= turn]
        for other in played:
            if other.problem:
                raise UsageError("bad-case", name or f"turn-{turn}", other.problem)
        recorded = tuple(call for other in played for call in other.calls)
        return cls(
            name or name_of(played[-1].prompt, turn),
            tuple(other.prompt for other in played),
            expected=played[-1].reply or None,
            calls=tuple(ExpectedCall(call.name, call.ran_with) for call in recorded if call.result is not None),
            tools="recorded",
            recorded=recorded,
            past=None if past is None else CasePast(past, turns[turn].before),
            tags=tags,
            source=f"{session_id}:{turn}",
        )

    def __post_init__(self) -> None:
        """Raise `UsageError` if the case could never be run."""
        if isinstance(self.prompts, str):
            problem = "its `prompts` are one text; write a list, also around a single one"
            raise UsageError("bad-case", str(self.name), problem)
        super().__post_init__()
        if not NAME.fullmatch(self.name):
            raise UsageError("bad-case", self.name, "a name is 1 to 64 letters, digits, `.`, `_`, `-`")
        if not self.prompts or not all(self.prompts):
            raise UsageError("bad-case", self.name, "it has no prompt, or an empty one")
        try:
            msgspec.json.encode(self.expected)
        except (TypeError, ValueError, msgspec.MsgspecError, RecursionError):
            problem = f"its `expected` is a `{type(self.expected).__name__}`, which is no JSON"
            raise UsageError("bad-case", self.name, problem) from None


CASE_DECODER: Final = msgspec.json.Decoder(Case)
"""Made at the import: msgspec must not learn a class in two threads at once."""
